"""The staircase k(λ) of J(λ) = SSE + λk, and the k that the data supports.

1. *Sample.* Rows of weight 0 and far, lonely rows are set aside; at most some 30,000 rows are kept.
2. *Sketch.* Columns on a grid (integers, rounded values) are spread over their grain. Above ten
   columns, keep the principal components that stand out from those of the same data with random
   signs (parallel analysis; Horn 1965, Hong, Sheng & Dobriban 2020).
3. *Halves.* Each half of the rows: k-means++ to many small clusters, Lloyd, then Ward's merging
   (the cost of a merge, w_a w_b/(w_a+w_b)·‖μ_a-μ_b‖², is the λ at which it pays), so that cutting
   the tree and a few Lloyd steps give a partition for any k (KJ Fig. 2c).
4. *Score.* The partitions of one half are tested on the other half (`links.py`): a score that
   rises with each cluster that is apart from its neighbours, falls with each superfluous one, and
   stays below 0 on noise. All small k, a geometric grid and the widest plateaus of Ward's heights
   are scored, then the neighbourhood of the best.
5. *Staircase.* Around these k, Lloyd on the rows of both halves in the original space: SSE_k; its
   lower convex hull gives for each k the interval of λ in which it is best.

Departs from the paper: KJ choose λ by farthest-first from a given k; here k itself is asked for.
docs/adr/0006 tells why it decides as it does, and when it is wrong.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from madbayes._engine.checks import (
    check_count,
    check_table,
    check_weight,
    is_cosine,
    weight_of_directions,
)
from madbayes._engine.lloyd import lloyd_passes, nearest
from madbayes._engine.partition import measure_to_fit
from madbayes._engine.progress import Stage
from madbayes._engine.rows import Rows
from madbayes._engine.threads import Run, patient, workers
from madbayes._kernels.moves import draw_seeds, means
from madbayes._kernels.ward import cut_tree, ward_tree
from madbayes._search.staircase import Choice, Staircase, Strength, in_words, plateau
from madbayes.cluster.links import LEVEL, link_strengths, score
from madbayes.cluster.sample import clumps, lonely_rows, principal, spread_grid

SAMPLE_ROWS = 32_768
SAMPLE_VALUES = 16_000_000  # rows × columns of the sample, for many columns
SCORED_ROWS = 4_096  # rows of a half used to score k ≤ 64; 64 per cluster above
CUT_ROWS = 6_000  # rows halved altogether, over the repeated cuts of a small sample
MIN_ROWS = 12  # fewer rows cannot be halved and tested

Scores = dict[int, tuple[float, float]]  # of each k: score, confirmed share of links


class Half:
    """3. One half of the rows, its tree, and the other half to test on."""

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray,
        held_out: np.ndarray,
        held_weights: np.ndarray,
        uniforms: np.ndarray,
    ) -> None:
        self.X, self.weights = X, weights
        self.held_out, self.held_weights = held_out, held_weights
        self._found: dict[int, np.ndarray] = {}
        seeds = np.empty((len(uniforms), X.shape[1]))
        start = seeds[: patient(draw_seeds, X, weights, seeds, 0, uniforms)]
        labels, self.small, _ = lloyd_passes(X, start, weights, 3)
        self.small_weights = np.bincount(labels, weights, minlength=len(self.small))
        tree = patient(ward_tree, self.small, self.small_weights, False)
        self.left, self.right, self.heights = tree

    def centers(self, k: int, passes: int = 2) -> np.ndarray:
        """k centres: the tree cut at k, then Lloyd."""
        if k not in self._found:
            group = cut_tree(self.left, self.right, k)
            start = means(self.small, self.small_weights, group, k, False)[0]
            rows = slice(max(SCORED_ROWS, 64 * k))
            self._found[k] = lloyd_passes(self.X[rows], start, self.weights[rows], passes)[1]
        return self._found[k]

    def links(self, k: int) -> np.ndarray:
        rows = slice(max(SCORED_ROWS, 64 * k))
        z = link_strengths(self.held_out[rows], self.held_weights[rows], self.centers(k))
        return np.r_[z, np.full(k - 1 - len(z), -np.inf)]  # fewer when rows coincide

    def plateaus(self, k_min: int, k_max: int, count: int) -> np.ndarray:
        """The k >= k_min with the largest √k·log(λ_high/λ_low)."""
        h = np.maximum(self.heights[::-1], 1e-300)  # h[k-2]: the merge from k to k-1
        k = np.arange(k_min, min(k_max, len(h)) + 1)
        gain = plateau(k, h[np.minimum(k - 1, len(h) - 1)], h[k - 2])
        return k[np.argsort(-gain, kind="stable")[:count]]


def score_levels(halves: list[Half], k_min: int, k_max: int, run: Run) -> Scores:
    """4. {k: (score, confirmed share of links)} for k on a grid, then around the best."""
    scores = {1: (0.0, 0.0)} if k_min == 1 else {}

    grid = np.geomspace(
        25, max(k_max, 25), 1 + int(np.ceil(np.log(max(k_max, 25) / 25) / 0.22))
    ).tolist()
    likely = len({int(k) for k in [*range(k_min, 25), *grid] if 2 <= k <= k_max}) + 12
    stage = Stage("how many clusters", likely * len(halves))

    def test(job: tuple[Half, int]) -> np.ndarray:
        links = np.sort(job[0].links(job[1]))
        stage.step()
        return links

    def visit(ks: Any) -> None:
        new = sorted({int(k) for k in ks if max(k_min, 2) <= k <= k_max} - set(scores))
        jobs = [(half, k) for k in new for half in halves]
        found = iter(run(test, jobs))
        for k in new:  # the two halves of a cut add up (weakest with weakest), cuts are averaged
            z = sum(next(found) for _ in halves) * np.sqrt(2) / len(halves)
            scores[k] = (score(z), float(np.mean(z > LEVEL)))

    visit(range(k_min, 25))
    visit(grid)
    visit(k for half in halves[:2] for k in half.plateaus(25, k_max, 4))
    step = max(1, int(0.08 * k_max))
    while step:
        leaders = sorted(scores, key=lambda k: -scores[k][0])[: 2 if step > 4 else 1]
        if step == 1:
            leaders += [leaders[0] - 2, leaders[0] + 2]
        before = len(scores)
        visit(k + s for k in leaders for s in (-step, step) if abs(s) <= max(1, 0.15 * k))
        if len(scores) == before or step > 1:
            step //= 2
    return scores


def stairs(
    Z: np.ndarray,
    weights: np.ndarray,
    halves: list[Half],
    scores: Scores,
    k_best: int,
    k_top: int,
) -> Iterator[tuple[int, np.ndarray]]:
    """5. (k, labels) for the k of the staircase."""
    yield 1, np.zeros(len(Z), np.int64)
    near = {k_best + s for s in range(-3, 4)}
    last = 1
    numbers = sorted(near.union(scores, range(2, 12)))
    stage = Stage("at which penalty", len(numbers))
    for k in numbers:
        stage.step()
        if k < 2 or not halves or k > k_top or (k not in near and k < 1.05 * last):
            continue
        last = k
        starts = halves[: 2 if k in near else 1]
        found = [lloyd_passes(Z, half.centers(k), weights, 3) for half in starts]
        yield k, min(found, key=lambda f: f[2])[0]


def path(
    X: Any,
    *,
    sample_weight: Any = None,
    max_clusters: int | None = None,
    n_clusters_hint: int | None = None,
    metric: str = "euclidean",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Staircase:
    """How many clusters at which penalty, and how many the data supports.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
    sample_weight : array of shape (n_rows,), optional
        Weight 0 removes a row, weight 2 counts it twice.
    max_clusters : int, optional
        Largest number of clusters to examine. By default about 3·√n_rows, at most 320.
    n_clusters_hint : int, optional
        A rough number of clusters: only numbers from two thirds to three halves of it are examined.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine": rows and centres at length 1, so that squared distances are 2 - 2 cos.
    random_state : int, RandomState or None
        Seed for the sample and its halves. The result is the same for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import penalties
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 50, axis=0) + rng.normal(size=(150, 2))
    >>> choice = penalties.path(X, random_state=0).best()
    >>> choice.n_clusters, choice.strength
    (3, 'strong')
    """
    X = check_table(X)
    weights = check_weight(sample_weight, X.shape[0])
    unit = is_cosine(metric)
    if unit:
        weights = weight_of_directions(X, weights, quiet=True)
    with workers(n_jobs) as run:
        # complains about values too large or small to square
        measure_to_fit(Rows(X, unit=unit), weights, run)
        return find_path(X, weights, max_clusters, n_clusters_hint, random_state, run, unit=unit)


def find_path(
    X: Any,
    weight: np.ndarray | None,
    max_clusters: int | None,
    n_clusters_hint: int | None,
    random_state: Any,
    run: Run,
    *,
    unit: bool = False,
) -> Staircase:
    """Steps 1 to 5 on checked rows."""
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    weights = np.ones(X.shape[0]) if weight is None else weight
    caps = []
    if max_clusters is not None:
        caps.append(check_count("max_clusters", max_clusters))
    if n_clusters_hint is not None:
        hint = check_count("n_clusters_hint", n_clusters_hint)
        caps.append(hint + max(1, hint // 2))
    wanted = min(caps, default=0)

    # 1. sample: rows in random order, so that any leading block is a sample too
    used = rng.permutation(np.flatnonzero(weights > 0))
    values = 4 * SAMPLE_VALUES if sp.issparse(X) else SAMPLE_VALUES
    n_rows = max(min(SAMPLE_ROWS, max(4096, values // X.shape[1])), 128 * wanted)
    if sp.issparse(X):
        n_rows = min(n_rows, max(256, values // X.shape[1]))
    rows = used[:n_rows]
    S, w = Rows(X, unit=unit).take(rows), weights[rows] / weights[rows].mean()
    origin, scale = np.zeros(X.shape[1]), 1.0
    if not unit:
        origin = S.mean(axis=0)
        S -= origin
        scale = np.abs(S).max() or 1.0
        S /= scale
    lonely, limit = lonely_rows(S, rng)
    core, core_w = S[~lonely], w[~lonely]

    # 2.-4. sketch, halves, scores
    Z = principal(spread_grid(core - core.mean(axis=0), rng), rng)
    h = len(Z) // 2
    n_small = min(h // 2, max(512, int(6 * np.sqrt(h)), 3 * wanted))
    k_max = max(1, min(n_small // 2, wanted or 320))
    k_min = 1
    if n_clusters_hint is not None:
        k_min = min(k_max, max(1, min(int(n_clusters_hint / 1.5), n_clusters_hint - 1)))
    halves: list[Half] = []
    scores = {1: (0.0, 0.0)}
    varies = np.ptp(Z, axis=0).max() > 0
    if 1 < len(Z) < MIN_ROWS and varies:  # too few to test: the staircase only
        halves = [Half(Z, core_w, Z, core_w, rng.random(len(Z)))]
        k_max = min(wanted or len(Z), len(halves[0].small))
    elif len(Z) >= MIN_ROWS and varies:
        parts = []
        for _ in range(min(max(CUT_ROWS // len(Z), 1), 8)):  # few rows: several cuts in halves
            order = rng.permutation(len(Z))
            parts += [(order[:h], order[h : 2 * h]), (order[h : 2 * h], order[:h])]
        seeds = rng.random((len(parts), n_small))

        def build(job: tuple[tuple[np.ndarray, np.ndarray], np.ndarray]) -> Half:
            (mine, other), uniforms = job
            return Half(Z[mine], core_w[mine], Z[other], core_w[other], uniforms)

        halves = run(build, zip(parts, seeds, strict=True))
        k_max = min(k_max, *(len(half.small) for half in halves))
        k_min = min(k_min, k_max)
        scores = score_levels(halves, k_min, k_max, run)
    k_best = max(scores, key=lambda k: (scores[k][0], -k))

    # 5. staircase
    block = slice(max(8192, 64 * k_best))
    isolated, clump = S[lonely], clumps(S[lonely], limit)
    all_rows = np.r_[core[block], isolated]
    # isolated rows keep the weight they have among the sample's rows
    all_w = np.r_[core_w[block], w[lonely] * len(core[block]) / len(core)]
    entries: list[tuple[int, float, np.ndarray, int]] = []  # k, SSE, centres, k scored
    for k, labels in stairs(Z[block], core_w[block], halves, scores, k_best, k_max):
        variants = [labels]
        if len(isolated):  # on their own, or with the nearest cluster
            centers, labels = group_means(core[block], labels, core_w[block], unit)
            joined = nearest(isolated, centers)
            variants = [np.r_[labels, len(centers) + clump], np.r_[labels, joined]]
        for variant in variants:
            centers, variant = group_means(all_rows, variant, all_w, unit)
            sse = float(all_w @ ((all_rows - centers[variant]) ** 2).sum(axis=1))
            entries.append((len(centers), sse, centers, k))
    found = Staircase.build(
        [e[0] for e in entries],
        # SSE of the sample to SSE of the data, back in the units of X
        np.array([e[1] for e in entries]) * scale**2 * (weights.sum() / all_w.sum()),
        centers=[e[2] * scale + origin for e in entries],
        figures={"scored": np.array([e[3] for e in entries])},
        scores={k: s for k, (s, _) in scores.items()},
        unit=unit,
        _X=X,
    )
    return replace(found, choice=choose(found, scores))


def choose(path: Staircase, scores: Scores) -> Choice:
    """The step with the best score; 1 when nothing stands out."""
    scored = path.figures["scored"]

    def merit(i: int) -> tuple[float, int]:
        """The score; among equals isolated rows on their own, but one cluster is all in one."""
        k, number = int(scored[i]), int(path.number[i])
        return scores.get(k, (-np.inf,))[0], number if k > 1 else -number

    i = max(range(len(scored)), key=merit)
    k = int(scored[i])
    score, confirmed = scores[k]
    support = score / (k - 1) if k > 1 else 0.0
    # By score; where that is negative (no better than noise) by the mean vote of the links.
    rank = {j: s if s >= 0 else s / (j - 1) for j, (s, _) in scores.items()}
    runners = sorted((j for j in rank if j != k), key=lambda j: (-round(rank[j], 1), j))[:5]
    runners += [j for j in widest(path, scores) if j != k and j not in runners]
    word = strength(k, support, scores)
    reason = f"{confirmed:.0%} of the divisions confirmed on held-out rows"
    return Choice(
        number=int(path.number[i]),
        price=path.middle(i),
        strength=word,
        support=support,
        reason="no division stands out from noise" if word == "none" else reason,
        runners_up=tuple((j, scores[j][0]) for j in runners),
        score=score,
        confirmed=confirmed,
        n_isolated=int(path.number[i]) - k,
    )


def widest(path: Staircase, scores: Scores) -> list[int]:
    """The k with the widest plateau among those whose neighbours were examined.

    It sees overlapping clusters in several dimensions, where no valley is left between them.
    """
    seen = [{k - 1, k, k + 1} <= set(scores) for k in path.number.tolist()]
    width = np.where(seen, path.widths(), 0.0)
    return [int(path.number[np.argmax(width)])] if width.max(initial=0.0) > 0 else []


def strength(k: int, support: float, scores: Scores) -> Strength:
    """In words; one step down when a k elsewhere, a peak of its own, scores nearly as much."""
    word = in_words(support)
    ks = sorted(scores)
    for before, j, after in zip(ks[:-2], ks[1:-1], ks[2:], strict=True):
        peak = scores[j][0] > max(scores[before][0], scores[after][0])
        if peak and abs(j - k) > max(1, k / 10) and scores[j][0] > 0.75 * scores[k][0]:
            return {"strong": "moderate", "moderate": "weak"}.get(word, word)  # type: ignore
    return word


def group_means(
    X: np.ndarray, labels: np.ndarray, weights: np.ndarray, unit: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The weighted means of the groups, and labels 0, 1, … without gaps."""
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return means(X, weights, labels, int(labels.max()) + 1, unit)[0], labels
