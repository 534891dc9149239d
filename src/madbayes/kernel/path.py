"""A penalty for clusters in kernel space, from rows that stand for it (`kernel.gram.embed`).

1. *Staircase.* Ward's tree of the rows: the cost of a merge is the λ at which it pays. k clusters
   are a step from λ_low (one more pays) to λ_high (one fewer pays).
2. *Candidates.* The steps with the largest √k·log(λ_high/λ_low), if that is at least WIDE.
3. *Held-out rows.* Half of the rows divide into k clusters, the other half are counted between
   them, as in `path`; at least half of what they could vote must be in favour. Steps wider than
   OBVIOUS, which noise does not reach, need no vote (there may be too few rows for one).
4. The widest step that is left; λ in the middle of it (of the logarithms). None left: one cluster,
   and a λ above the largest eigenvalue of the scatter, where nothing else can pay (KJ Theorem 5.2).

Departs from `path`: kernels bend space, so that noise itself has valleys, and valleys alone do not
count. The price is a smaller power: overlapping clusters are more often taken for one.
"""

import numpy as np

from madbayes._partition.lloyd import nearest
from madbayes._partition.moves import means
from madbayes._partition.ward import cut_tree, ward_tree
from madbayes._rows.threads import patient, together
from madbayes.howmany.halves import Half, add_up, make_halves
from madbayes.howmany.links import LEVEL, score
from madbayes.howmany.path import MIN_ROWS, check_range
from madbayes.howmany.remarks import on_hint
from madbayes.howmany.staircase import Staircase, plateau
from madbayes.kernel.gram import Gram, embed

SAMPLE_ROWS = 1024
WIDE, OBVIOUS = 1.5, 5.0  # see docs/adr/0012
SUPPORT = 0.5
LEAST_SUPPORT = 0.01  # of an obvious step without votes: weak evidence


def kernel_path(
    gram: Gram,
    F: np.ndarray,
    w: np.ndarray,
    max_clusters: int | None,
    n_clusters_hint: int | None,
    random_state: np.random.RandomState,
) -> Staircase:
    """Steps 1 to 4; F: the features of all rows, exact or nearly (`kernel_space.features_of`).

    Features of many rows are exact for some rows (the pivots) and too short for the others, so that
    in many dimensions every pivot looks like a cluster of its own. The steps are therefore found
    among rows of a sample, whose features are worked out exactly.
    """
    rng = np.random.default_rng(random_state.randint(2**31 - 1))
    k_min, most = check_range(max_clusters, n_clusters_hint)
    rows = rng.permutation(len(F))[: max(SAMPLE_ROWS, 2 * (most or 0))]
    v = w[rows]
    X = F[rows] if len(rows) == len(F) else embed(gram.part(rows), v, len(rows))[0]
    left, right, heights = patient(ward_tree, X, v, False)  # 1.
    # heights[k - 2]: from k to k - 1; none beyond one cluster per row
    heights = np.append(np.maximum(heights[::-1], 0.0) * (w.sum() / v.sum()), 0.0)
    floor = 1e-12 * heights[0] or 1.0
    different = 1 + int(np.count_nonzero(heights > floor))
    hinted = n_clusters_hint is not None
    k_max = min(different, most or different) if hinted else max(1, (len(rows) - 1) // 3)
    k_max = min(k_max, most or 320)
    k_min = min(k_min, k_max)
    ks = np.arange(max(k_min, 2), k_max + 1)
    width = plateau(ks, np.maximum(heights[ks - 1], floor), np.maximum(heights[ks - 2], floor))
    order = np.argsort(-width, kind="stable")
    k, z = 1, np.zeros(0)
    for at in order[:4]:  # 2.
        if (width[at] < WIDE or len(X) < MIN_ROWS) and k_min == 1:
            break
        links = held_out_links(X, v, int(ks[at]), rng)  # 3.
        if score(links) >= SUPPORT * len(links) or width[at] >= OBVIOUS:
            k, z = int(ks[at]), links
            break
    if k < k_min:  # a hint is obeyed, whatever the evidence
        k = int(ks[order[0]])
        z = held_out_links(X, v, k, rng)
    numbers = range(1, min(len(rows), max(32, k + 2)) + 1)
    shown = np.ascontiguousarray(F[rows])
    cuts = [means(shown, v, cut_tree(left, right, j), j, False)[0] for j in numbers]
    path = Staircase.build(
        numbers,
        [float(heights[j - 1 :].sum()) for j in numbers],
        labels=together(lambda centers: nearest(F, centers), cuts),
    )
    obvious = k > 1 and width[k - ks[0]] >= OBVIOUS
    return path.decide(  # 4.
        k,
        explain(k, z, obvious),
        scores=dict(zip(ks.tolist(), width.tolist(), strict=True)),
        support=max(score(z) / max(k - 1, 1), LEAST_SUPPORT if obvious else -np.inf),
        price=middle_of(path, k, floor, F, w),
        confirmed=float(np.mean(z > LEVEL)) if k > 1 else 0.0,
        remarks=on_hint(k, n_clusters_hint, max_clusters),
    )


def middle_of(path: Staircase, k: int, floor: float, F: np.ndarray, w: np.ndarray) -> float:
    """4. A penalty for k clusters."""
    step = path.step_of(k)
    if k > 1 and step is not None:
        return max(path.middle(step), floor)
    top, total = (float(w @ squares) for squares in (F[:, 0] ** 2, (F**2).sum(axis=1)))
    return float(np.sqrt(top) * np.sqrt(total)) * (1 + 1e-6) or 1.0


def explain(k: int, z: np.ndarray, obvious: bool) -> str:
    if k == 1:
        return "no division stands out from noise"
    if obvious and not np.mean(z > LEVEL) > 0.5:
        return "a step of the staircase that noise does not make"
    return f"{np.mean(z > LEVEL):.0%} of the divisions confirmed on held-out rows"


def held_out_links(X: np.ndarray, w: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """3. The k - 1 weakest links of divisions of one half, tested on the other, and averaged."""
    if len(X) < MIN_ROWS:
        return np.full(k - 1, -np.inf)
    Z = np.ascontiguousarray(X[:, : max(10, k + 5)])
    h = len(Z) // 2
    halves = make_halves(Z, w, max(min(h // 2, 6 * k), min(h, k)), 4, rng)

    def test(half: Half) -> np.ndarray:
        z = np.full(k - 1, -np.inf)
        found = half.links(min(k, len(half.small)))
        z[len(z) - len(found) :] = found
        return z

    return add_up(together(test, halves))
