"""How many medoids: a ladder of numbers, held-out rows that vote, and the penalty that belongs.

1. *Ladder.* Medoids are added one by one, with swaps after each: what is left to pay for every k.
   The lower convex hull of it is the staircase of k against the penalty.
2. *Held-out rows.* Ladders of one half of the rows, tested on the other half as in `links`: for two
   neighbouring medoids a, b, are there fewer rows half-way than on the emptier side? That test
   needs squared distances to the centres and between them, no coordinates: |x-a|² - |x-b|² is the
   place of x along the line, and |x-m|² = (|x-a|² + |x-b|²)/2 - |a-b|²/4 for the middle m. So it
   holds as proved wherever the dissimilarity is a Euclidean distance in some space (Euclidean,
   cosine, any kernel's), and is a heuristic for others.
3. The k with the most votes; none above 0: a step of the staircase that is far wider than in noise
   (there may be too few rows for a vote); otherwise one cluster.
"""

import numpy as np

from madbayes._rows.threads import patient
from madbayes.howmany.links import LEVEL, score, weakest_links
from madbayes.howmany.staircase import Staircase
from madbayes.medoids import medoid_kernels as kernels
from madbayes.medoids.search import assign, grow, paid, swap

SAMPLE = 2000  # rows that "auto" looks at
HALF = 600  # of these, rows of a half that medoids are taken from
SQUARED = ("sqeuclidean", "cosine")  # metrics that are squared distances


def farthest_first(
    D: np.ndarray, weight: np.ndarray, n_clusters: int, *, strict: bool = True
) -> float:
    """KJ 6.1 from the best single row: how far the farthest row is from so many of them."""
    member = int(patient(kernels.totals, D, weight).argmin())
    closest = np.full(len(D), np.inf)
    for round_ in range(n_clusters):
        np.minimum(closest, D[member], out=closest)
        member = int(np.argmax(closest))
        if closest[member] == 0.0:
            if not strict:
                return float(D.max()) / 2 or 1.0
            raise ValueError(
                f"n_clusters_hint={n_clusters} is more than X can give: after {round_} rows there "
                "is no different one left. Ask for fewer clusters."
            )
    return float(closest[member])


def ladder(D: np.ndarray, weight: np.ndarray, most: int) -> list[tuple[np.ndarray, float]]:
    """1. Medoids and what is left to pay, for 1, 2, … `most` of them or until nothing is left."""
    medoids = grow(D, weight, 1)
    steps = [(medoids, paid(weight, D[medoids[0]]))]
    while len(steps) < min(most, len(D)) and steps[-1][1] > 0:
        k = len(steps)
        slots = np.append(steps[-1][0], 0)
        patient(kernels.grow, D, weight, slots, k, k + 1, -1.0, assign(D, slots[:k])[2])
        found = swap(D, weight, slots, max_iter=3)
        steps.append((found.rows, min(steps[-1][1], found.objective)))
    return steps


def links(
    D: np.ndarray, weight: np.ndarray, medoids: np.ndarray, held: np.ndarray, *, squared: bool
) -> np.ndarray:
    """2. The k - 1 weakest links that hold the medoids together, tested on the rows `held`."""
    power = 1 if squared else 2
    between = D[np.ix_(medoids, medoids)].astype(np.float64) ** power
    between = (between + between.T) / 2
    np.fill_diagonal(between, 0.0)
    to = np.ascontiguousarray(D[np.ix_(medoids, held)].T, dtype=np.float64) ** power
    return weakest_links(to, between, weight[held], metric=False)


def votes(
    D: np.ndarray, weight: np.ndarray, most: int, rng: np.random.RandomState, *, squared: bool
) -> dict[int, np.ndarray]:
    """2. The links of each number of medoids, averaged over halves."""
    n = len(D)
    h = n // 2
    found: dict[int, list[np.ndarray]] = {}
    cuts = int(np.clip(SAMPLE // n, 1, 8))  # a small sample is cut again and again
    for _ in range(cuts):
        order = rng.permutation(n)
        for mine, held in ((order[:h], order[h : 2 * h]), (order[h : 2 * h], order[:h])):
            mine = np.sort(mine[:HALF])
            part = np.ascontiguousarray(D[np.ix_(mine, mine)])
            part.flags.writeable = False
            for medoids, _ in ladder(part, weight[mine], min(most, h // 2))[1:]:
                z = links(D, weight, mine[medoids], np.sort(held), squared=squared)
                found.setdefault(len(medoids), []).append(np.sort(z))
    scale = np.sqrt(2) / (2 * cuts)
    return {k: np.sum(z, axis=0) * scale for k, z in found.items() if len(z) == 2 * cuts}


def noise(n: int) -> float:
    """√k·log(λ_high/λ_low) that n rows without clusters hardly ever reach for a k up to √n."""
    return 2.5 + 5 / np.sqrt(n)


def find_path(
    D: np.ndarray,
    weight: np.ndarray,
    cap: int,
    hint: int | None,
    rng: np.random.RandomState,
    *,
    squared: bool,
) -> Staircase:
    """1. to 3."""
    scale = 1.0
    if len(D) > SAMPLE:
        chosen = np.sort(rng.choice(len(D), SAMPLE, replace=False))
        scale = weight.sum() / weight[chosen].sum()
        D, weight = np.ascontiguousarray(D[np.ix_(chosen, chosen)]), weight[chosen]
        D.flags.writeable = False
    n = len(D)
    high = int(np.sqrt(n)) + 1 if hint is None else hint + max(1, hint // 2)
    high = max(1, min(high, cap, n // 2 if hint is None else n))
    low = 1 if hint is None else min(-(-2 * hint // 3), high)
    steps = ladder(D, weight, high + 1)
    errors = np.array([error for _, error in steps]) * scale
    path = Staircase.build(np.arange(1, len(errors) + 1), errors)
    known = path.number < len(errors) if errors[-1] > 0 and len(errors) < n else path.number > 0
    tests = votes(D, weight, high, rng, squared=squared) if n >= 12 and high > 1 else {}
    scores = {1: 0.0, **{k: score(z) for k, z in tests.items()}}
    widths = dict(zip(path.number[known].tolist(), path.widths()[known].tolist(), strict=True))
    return choose(path, scores, tests, widths, low, min(high, len(errors)), n)


def choose(
    path: Staircase,
    scores: dict[int, float],
    tests: dict[int, np.ndarray],
    widths: dict[int, float],
    low: int,
    high: int,
    n: int,
) -> Staircase:
    """3. Chooses the number with the most votes, or with an obvious step, among `low` to `high`."""
    allowed = {k: v for k, v in scores.items() if low <= k <= high}
    k = max(allowed, key=lambda j: (allowed[j], -j), default=high)
    wide = {j: v for j, v in widths.items() if max(low, 2) <= j <= high}
    widest = max(wide, key=lambda j: (wide[j], -j), default=None)
    support = allowed.get(k, 0.0) / max(k - 1, 1)
    reason = "valleys between the clusters, counted on held-out rows"
    if support <= 0 and widest and wide[widest] > (2 * noise(n) if low == 1 else 0.0):
        k, support = widest, 0.5 if wide[widest] > 2 * noise(n) else 0.0
        reason = "the widest step of the staircase, far wider than in noise"
    elif k == 1:
        reason = "no division stands out from noise"
    confirmed = float(np.mean(tests[k] > LEVEL)) if k in tests else None
    return path.decide(k, reason, scores=scores, support=support, also=widest, confirmed=confirmed)
