"""A penalty for clusters in kernel space, from rows that stand for it (`_engine.gram.embed`).

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

from madbayes._engine.checks import check_count
from madbayes._engine.threads import Run
from madbayes._kernels.ward import ward_tree
from madbayes.penalties.links import LEVEL, score
from madbayes.penalties.path import MIN_ROWS, Half
from madbayes.penalties.staircase import Choice

SAMPLE_ROWS = 1024
WIDE, OBVIOUS = 1.5, 5.0  # see docs/adr/0012
SUPPORT = 0.5
CANDIDATES = 4
CUTS = 4  # divisions of the rows in halves


def widest_step(
    F: np.ndarray,
    w: np.ndarray,
    max_clusters: int | None,
    n_clusters_hint: int | None,
    random_state: np.random.RandomState,
    run: Run,
) -> Choice:
    """Steps 1 to 4; the columns of F are principal axes by falling variance."""
    rng = np.random.default_rng(random_state.randint(2**31 - 1))
    rows = rng.permutation(len(F))[:SAMPLE_ROWS]
    X, v = F[rows], w[rows]
    scale = w.sum() / v.sum()
    # 1. heights[k - 2]: from k to k - 1
    heights = np.maximum(ward_tree(X, v, False)[2][::-1], 0.0) * scale
    k_min, k_max = 2, min(len(heights) // 3, 320)
    if n_clusters_hint is not None:
        check_count("n_clusters_hint", n_clusters_hint)
        k_min, k_max = max(2, int(n_clusters_hint / 1.5)), min(k_max, n_clusters_hint * 3 // 2 + 1)
    if max_clusters is not None:
        k_max = min(k_max, max_clusters)
    ks = np.arange(k_min, k_max + 1)
    floor = 1e-12 * max(heights[0], 1e-300) if len(heights) else 1.0
    high, low = heights[ks - 2], heights[ks - 1]
    width = np.sqrt(ks) * np.log(np.maximum(high, floor) / np.maximum(low, floor))
    order = np.argsort(-width, kind="stable")
    runners_up = [(int(ks[i]), float(width[i])) for i in order[:5]]
    for at in order[:CANDIDATES]:  # 2.
        if width[at] < WIDE or len(X) < MIN_ROWS:
            break
        k = int(ks[at])
        z = held_out_links(X, v, k, rng, run)  # 3.
        support = score(z) / (k - 1)
        if support < SUPPORT and width[at] < OBVIOUS:
            continue
        return Choice(  # 4.
            penalty=float(np.sqrt(max(high[at], floor)) * np.sqrt(max(low[at], floor))),
            n_clusters=k,
            strength=("weak", "moderate", "strong")[(support > 1 / 3) + (support > 2 / 3)],
            support=support,
            confirmed=float(np.mean(z > LEVEL)),
            score=score(z),
            runners_up=tuple(r for r in runners_up if r[0] != k),
            n_isolated=0,
        )
    top, total = (float(w @ squares) for squares in (F[:, 0] ** 2, (F**2).sum(axis=1)))
    penalty = float(np.sqrt(top) * np.sqrt(total)) * (1 + 1e-6) or 1.0
    return Choice(penalty, 1, "none", 0.0, 0.0, 0.0, tuple(runners_up), 0)


def held_out_links(
    X: np.ndarray, w: np.ndarray, k: int, rng: np.random.Generator, run: Run
) -> np.ndarray:
    """3. The k - 1 weakest links of divisions of one half, tested on the other, and averaged."""
    Z = np.ascontiguousarray(X[:, : max(10, k + 5)])
    h = len(Z) // 2
    parts = []
    for _ in range(CUTS):
        order = rng.permutation(len(Z))
        parts += [(order[:h], order[h : 2 * h]), (order[h : 2 * h], order[:h])]
    seeds = rng.random((len(parts), max(min(h // 2, 6 * k), min(h, k))))

    def test(job: tuple[tuple[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        (mine, other), uniforms = job
        half = Half(Z[mine], w[mine], Z[other], w[other], uniforms)
        return np.sort(half.links(min(k, len(half.small))))

    found = run(test, zip(parts, seeds, strict=True))
    z = sum(np.r_[np.full(k - 1 - len(f), -np.inf), f] for f in found)
    return z * np.sqrt(2) / len(parts)
