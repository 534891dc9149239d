"""What `DPMeans` would answer on all rows of a stream so far, from a bounded summary of them.

Two things are remembered, both of bounded size:

- *A sample*, for "how many": SAMPLE rows drawn with probabilities in proportion to their weights
  (largest keys log w + Gumbel noise: Efraimidis & Spirakis 2006), where with a half-life the weight
  of older rows falls. `find_path` asks it, as it would ask the whole table.
- *Small clusters*, for "where": centres, weights and the squared error within them. Rows gather in
  a buffer; when it is full, buffer and small clusters together are divided anew into fewer ones by
  k-means++ and Lloyd (clustering features as in BIRCH, Zhang, Ramakrishnan & Livny 1996; merged and
  reduced as a coreset is, Bachem, Lucic & Krause 2018). The search runs over them as weighted rows.

1. Add rows; reduce when the buffer is full, and let the centres follow by a few Lloyd passes.
2. When the rows have doubled since the last time (with a half-life: after half of one), refresh:
   the path of the sample names the number, the search over the small clusters finds the centres.
3. New centres take the numbers of the old ones whose rows they have; others get new numbers.

Squared errors over small clusters miss only what the search would do within one of them.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from madbayes._partition.lloyd import lloyd, nearest
from madbayes._rows.rows import unit_rows
from madbayes._search.number import search_number
from madbayes._search.price import per_cluster
from madbayes.howmany.path import find_path, without_isolated
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.dense_space import DenseSpace, draw

SAMPLE = 8192  # rows kept for "how many"
BUFFER = 4096  # rows that wait to be reduced


@dataclass
class Summary:
    """All that is remembered of the rows so far."""

    d: int
    unit: bool
    half_life: float  # 0: none
    rng: np.random.RandomState
    seen: int = 0
    refreshed: int = 0  # rows seen at the last refresh
    sample: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    sample_weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    keys: np.ndarray = field(default_factory=lambda: np.empty(0))
    points: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # small clusters, buffer
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    within: float = 0.0  # squared error inside the small clusters
    n_small: int = 0
    total: float = 0.0  # weight of all rows, the older ones less with a half-life
    centers: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    opened: int = 0

    def __post_init__(self) -> None:
        if not self.sample.size:
            self.sample, self.points, self.centers = (np.empty((0, self.d)) for _ in range(3))


def add_rows(summary: Summary, X: np.ndarray, weight: np.ndarray) -> None:
    """1. Rows of positive weight, dense and in float64 (of length 1 with `unit`)."""
    first = 0
    while first < len(X):
        room = BUFFER - (len(summary.points) - summary.n_small)
        rows, w = X[first : first + room], weight[first : first + room]
        age = np.arange(summary.seen, summary.seen + len(rows))
        gumbel = -np.log(-np.log(summary.rng.random_sample(len(rows))))
        keys = np.log(w) + gumbel
        if summary.half_life:
            keys += np.log(2.0) / summary.half_life * age
            decay = 0.5 ** (len(rows) / summary.half_life)
            summary.weights, summary.within = summary.weights * decay, summary.within * decay
            summary.total *= decay
            w = w * 0.5 ** ((age[-1] - age) / summary.half_life)
        keep_sample(summary, rows, weight[first : first + room], keys)
        summary.points = np.vstack([summary.points, rows])
        summary.weights = np.r_[summary.weights, w]
        summary.total += float(w.sum())
        summary.seen += len(rows)
        first += len(rows)
        if len(summary.points) - summary.n_small >= BUFFER:
            reduce(summary)


def keep_sample(summary: Summary, rows: np.ndarray, w: np.ndarray, keys: np.ndarray) -> None:
    """The rows with the largest keys."""
    keys = np.r_[summary.keys, keys]
    keep, size = np.arange(len(keys)), SAMPLE
    if summary.half_life:  # as many as count for something: more would be the old ones
        size = min(size, max(64, int(summary.half_life)))
    if len(keys) > size:
        keep = np.sort(np.argpartition(-keys, size - 1)[:size])
    summary.sample = np.vstack([summary.sample, rows])[keep]
    summary.sample_weight = np.r_[summary.sample_weight, w][keep]
    summary.keys = keys[keep]


def reduce(summary: Summary) -> None:
    """1. Fewer small clusters; the centres follow."""
    size = max(512, 16 * len(summary.centers))  # enough of them in each cluster to divide it
    P, w = summary.points, summary.weights
    labels, _, _ = lloyd(P, draw(P, w, size, summary.rng), w, 2, unit=summary.unit)
    _, labels = np.unique(labels, return_inverse=True)
    weights = np.bincount(labels, w)
    sums = np.zeros((len(weights), summary.d))
    np.add.at(sums, labels, P * w[:, None])
    means = sums / weights[:, None]
    if summary.unit:  # a cluster is as heavy as its rows together are long
        length = np.linalg.norm(sums, axis=1)
        summary.within += 2.0 * float((weights - length).sum())
        means, weights = unit_rows(means), np.maximum(length, 1e-300)
    else:
        summary.within += float(w @ ((P - means[labels]) ** 2).sum(axis=1))
    summary.points, summary.weights, summary.n_small = means, weights, len(means)
    if len(summary.centers):
        found = lloyd(means, summary.centers, weights, 3, unit=summary.unit)[1]
        if len(found) == len(summary.centers):
            summary.centers = found


def is_due(summary: Summary) -> bool:
    """2. Whether enough rows came since the last time."""
    new = summary.seen - summary.refreshed
    return new > 0 and (
        new >= summary.refreshed or bool(summary.half_life and new >= summary.half_life / 2)
    )


def refresh(
    summary: Summary, max_clusters: int | None, hint: int | None, effort: float
) -> tuple[Staircase, float, float]:
    """2. and 3. The path, the penalty, and the squared error over the summary."""
    # While the sample holds all rows, their weights count; later it was drawn by them.
    whole = summary.seen <= SAMPLE and not summary.half_life
    weight = summary.sample_weight if whole else None
    path = find_path(summary.sample, weight, max_clusters, hint, unit=summary.unit)
    choice = path.best()
    scale = 1.0 if whole else summary.total / len(summary.sample)
    P, w = summary.points, summary.weights
    if not summary.unit:
        counted = without_isolated(path, P, w)
        kept = np.arange(len(P)) if counted is None else np.flatnonzero(counted)
        P, w = P[kept], w[kept]
    offset = np.zeros(summary.d) if summary.unit else np.average(P, axis=0, weights=w)
    space = DenseSpace(P - offset, w, per_cluster(1.0, max_clusters, len(P)), summary.unit)
    found, _, penalty = search_number(
        space,
        choice.number,
        choice.price * scale,
        max_clusters=max_clusters,
        random_state=summary.rng,
        effort=effort,
        centers=[path.centers_at(choice.price) - offset],
    )
    centers = found.centers + offset
    summary.ids = carry_over(summary, centers)
    order = np.argsort(summary.ids)
    summary.centers, summary.ids = centers[order], summary.ids[order]
    summary.refreshed = summary.seen
    error = replace(space, price=per_cluster(1e-300, None, space.n)).division(found.labels)
    return path, penalty, error.objective + summary.within


def carry_over(summary: Summary, centers: np.ndarray) -> np.ndarray:
    """3. The numbers of the new centres: those of the old ones that share most weight with them."""
    ids = np.full(len(centers), -1, np.int64)
    if len(summary.centers):
        old, new = nearest(summary.points, summary.centers), nearest(summary.points, centers)
        shared = np.zeros((len(centers), len(summary.centers)))
        np.add.at(shared, (new, old), summary.weights)
        for a, b in zip(*linear_sum_assignment(-shared), strict=True):
            if shared[a, b] > 0:
                ids[a] = summary.ids[b]
    fresh = ids < 0
    ids[fresh] = summary.opened + np.arange(int(fresh.sum()))
    summary.opened += int(fresh.sum())
    return ids
