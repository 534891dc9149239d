"""What `evidence_` says beside the number: when round clusters do not fit the rows.

1. *Gaps inside.* Cutting a round cluster further adds links without a valley, one vote against for
   each. When the votes fall more slowly, pieces of the clusters are apart from each other: rings,
   crescents, stripes. In noise and in round or elliptic clusters at most a tenth of the votes is
   lacking, in other shapes mostly a sixth or more (docs/adr/0006).
2. *Elongated clusters.* The longest axis of a cluster against the middle one of the others.
3. *Hints* that could not be followed.
"""

from typing import Any

import numpy as np

from madbayes.cluster.halves import Scores, passes_over
from madbayes.cluster.sample import KEEP_COLUMNS

ROWS = 4_096
GAPS = 0.14  # share of the votes that is lacking; more for few rows
LONG = 2.5  # times as long as wide


def remarks(tested: Any, k: int) -> tuple[str, ...]:
    """1. and 2., for clusters that the held-out links decided."""
    if tested.unit or tested.second is not None:
        return ()
    found = []
    if gaps_inside(tested.scores, k) > GAPS + 10 / len(tested.Z):
        where = "inside the clusters" if k > 1 else "between the rows, though not of round clusters"
        found.append(f"There are gaps {where}: NeighborCut() finds clusters of any shape")
    length = elongation(tested, k) if k > 1 else 1.0
    if length > LONG:
        found.append(
            f"The clusters are about {length:.0f} times as long as wide: "
            "EllipticalMeans() fits ellipses"
        )
    return tuple(found)


def gaps_inside(scores: Scores, k: int) -> float:
    """1. The share of votes against that is lacking when clusters are cut further."""
    if k not in scores:
        return 0.0
    here = scores[k][0]
    further = [j for j in scores if j >= max(k + 4, 1.5 * k)]
    return max(((scores[j][0] - here) / (j - k) + 1 for j in further), default=0.0)


def elongation(tested: Any, k: int) -> float:
    """2. Weighted mean over the clusters that have enough rows to tell."""
    Z, w = tested.Z[:ROWS], tested.weights[:ROWS]
    d = Z.shape[1]
    if not 2 <= d <= KEEP_COLUMNS or not tested.halves:  # many components are always unequal
        return 1.0
    labels, centers, _ = passes_over(Z, tested.halves[0].centers(k), w, 3)
    lengths, sizes = [1.0], [1e-9]
    for c in range(len(centers)):
        R = Z[labels == c] - centers[c]
        if len(R) >= max(20, 4 * d):
            variance = np.linalg.eigvalsh(R.T @ R)
            lengths.append(np.sqrt(variance[-1] / max(np.median(variance[:-1]), 1e-300)))
            sizes.append(len(R))
    return float(np.average(np.minimum(lengths, 99.0), weights=sizes))


def on_hint(number: int, n_clusters_hint: int | None, max_clusters: int | None) -> tuple[str, ...]:
    """3. Why there are fewer clusters than two thirds of the hint."""
    if n_clusters_hint is None or 3 * number >= 2 * n_clusters_hint:
        return ()
    if max_clusters is not None and 3 * max_clusters < 2 * n_clusters_hint:
        return (f"max_clusters={max_clusters} comes before n_clusters_hint={n_clusters_hint}",)
    return (f"n_clusters_hint={n_clusters_hint} is more than the different rows allow",)
