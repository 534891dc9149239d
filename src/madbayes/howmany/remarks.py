"""The remarks of `evidence_`: cases in which round clusters do not fit the rows, and others.

1. *Gaps inside.* Cutting a round cluster into pieces adds links without a valley, and each such
   link votes against. If fewer votes against appear, the pieces are apart from each other: the
   clusters are rings, crescents or stripes. In noise and in round or elliptic clusters at most a
   tenth of the votes against is missing, in other shapes mostly a sixth or more (docs/adr/0006).
2. *Elongated clusters.* The longest axis of a cluster is compared with the median of its others.
3. *Unequal widths.* If a cluster is much wider than a neighbour, the border half-way between their
   centres cuts off rows of the wider one. Widths are medians, which outliers hardly change.
4. *Hints* that could not be followed.
5. *Isolated rows*, which have weight 0.
"""

from typing import Any

import numpy as np

from madbayes._partition.lloyd import lloyd
from madbayes.howmany.halves import Scores, cut_further
from madbayes.howmany.sample import KEEP_COLUMNS

GAPS = 0.14  # share of the votes against that must be missing; more is needed for few rows
LONG = 2.5  # a cluster is elongated if it is this many times as long as wide
WIDE = 2.5  # widths are unequal if a cluster is this many times as wide as a neighbour


def remarks(tested: Any, k: int) -> tuple[str, ...]:
    """Remarks 1 to 3, for clusters that the held-out links decided."""
    if tested.unit or tested.recovered:
        return ()
    found = []
    if gaps_inside(tested.scores, k) > GAPS + 10 / len(tested.Z):
        where = "inside the clusters" if k > 1 else "among the rows, but not between round clusters"
        found.append(f"There are gaps {where}. NeighborCut() finds clusters of any shape")
    length, widths = shapes(tested, k) if k > 1 else (1.0, 1.0)
    if widths > WIDE:
        found.append(
            f"Some clusters are {widths:.0f} times as wide as their neighbours, which take rows "
            "from them: EllipticalMeans() gives each its own width"
        )
    if length > LONG:
        found.append(
            f"The clusters are about {length:.0f} times as long as wide: "
            "EllipticalMeans() fits ellipses"
        )
    return tuple(found)


def gaps_inside(scores: Scores, k: int) -> float:
    """1. The share of votes against that is missing when clusters are cut into pieces."""
    if k not in scores:
        return 0.0
    here = scores[k][0]
    further = [j for j, (_, sure) in scores.items() if j >= cut_further(k) and sure is not None]
    return max(((scores[j][0] - here) / (j - k) + 1 for j in further), default=0.0)


def shapes(tested: Any, k: int) -> tuple[float, float]:
    """2. and 3. The mean elongation of the clusters, the largest ratio of neighbours' widths."""
    Z, w = tested.Z[:4096], tested.weights[:4096]
    if not tested.halves:
        return 1.0, 1.0
    least, found = max(20, 4 * Z.shape[1]), []
    for half in tested.halves[:2]:  # one of them may have cut a cluster in two
        labels, centers, _ = lloyd(Z, half.centers(k), w, 3)
        rows = [Z[labels == c] for c in range(len(centers))]
        found.append(
            (elongation(rows, centers, least), unequal([R for R in rows if len(R) >= least]))
        )
    return min(length for length, _ in found), min(width for _, width in found)


def elongation(rows: list[np.ndarray], centers: np.ndarray, least: int) -> float:
    """2. Weighted mean over the clusters that have enough rows to tell."""
    if not 2 <= centers.shape[1] <= KEEP_COLUMNS:  # many components are always unequal
        return 1.0
    lengths, sizes = [1.0], [1e-9]
    for R, center in zip(rows, centers, strict=True):
        if len(R) >= least:
            variance = np.linalg.eigvalsh((R - center).T @ (R - center))
            lengths.append(np.sqrt(variance[-1] / max(np.median(variance[:-1]), 1e-300)))
            sizes.append(len(R))
    return float(np.average(np.minimum(lengths, 99.0), weights=sizes))


def unequal(rows: list[np.ndarray]) -> float:
    """3. The largest ratio of widths among neighbours that are not far apart."""
    if len(rows) < 2:
        return 1.0
    middle = np.array([np.median(R, axis=0) for R in rows])
    width = np.array(
        [np.median(np.linalg.norm(R - m, axis=1)) for R, m in zip(rows, middle, strict=True)]
    )
    gap = np.linalg.norm(middle[:, None] - middle, axis=2)
    close = (gap / 2 < 2.2 * width[:, None]) & (gap > 0)  # the border cuts through the wider one
    ratio = width[:, None] / np.maximum(width, 1e-300)
    return float(np.where(close, np.minimum(ratio, 99.0), 1.0).max())


def on_hint(number: int, n_clusters_hint: int | None, max_clusters: int | None) -> tuple[str, ...]:
    """4. Why there are fewer clusters than two thirds of the hint."""
    if n_clusters_hint is None or 3 * number >= 2 * n_clusters_hint:
        return ()
    if max_clusters is not None and 3 * max_clusters < 2 * n_clusters_hint:
        return (f"max_clusters={max_clusters} comes before n_clusters_hint={n_clusters_hint}",)
    return (f"n_clusters_hint={n_clusters_hint} is more than the different rows allow",)


def on_isolated(count: int) -> tuple[str, ...]:
    """5. How many rows were set aside, and what became of them."""
    if not count:
        return ()
    rows, they = ("row lies", "It has") if count == 1 else ("rows lie", "They have")
    return (
        f"{count} isolated {rows} far from all others. {they} no weight in finding the clusters "
        "and the label of the nearest one; codes such as 9999 for missing values look like this",
    )
