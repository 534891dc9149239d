"""`KMeans.fit` and `DPMeans.fit` for Dask tables: the loops of `cluster`, the rows elsewhere.

"paper" runs the printed loop over a `SpreadPartition`, so the result is that of one machine to the
bit. "search" and "auto" work on a coreset of the rows here, and full passes over all rows follow.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._engine.seeding import squared_distances
from madbayes._engine.threads import workers
from madbayes._estimators.fitting import begin, warn_if_unfinished
from madbayes._estimators.novelty_mixin import MOST_ROWS, at_most, evenly
from madbayes.cluster.dp_means import dp_means
from madbayes.cluster.farthest import last_gap
from madbayes.cluster.kmeans import lloyd
from madbayes.cluster.starts import count_starts, first_centers
from madbayes.distributed.directions import weight_directions
from madbayes.distributed.partition import SpreadPartition, measure_spread
from madbayes.distributed.piece import Share
from madbayes.distributed.table import SpreadTable, spread_table
from madbayes.distributed.tasks import fetch, keep, task


def fit_kmeans(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`KMeans.fit`."""
    with workers(1):
        table = prepared(model, X, sample_weight)
        k, options = model._check(table.n)
        arranged = table.arranged()
        frame = measure_spread(arranged)
        best: Any = None
        for _ in range(count_starts(model.init, model.n_init)):
            partition = SpreadPartition(arranged, frame)
            centers = first_centers(model.init, X, partition, k, options.random_state)
            tol = model.tol * partition.mean_variance() if model.tol else 0.0
            result = lloyd(partition, centers, max_iter=options.max_iter, tol=tol)
            best = result if best is None or result.inertia < best.inertia else best
        labels = keep(arranged.restored(list(best.labels)))
        seen = count_labels(table, labels, k)
        model._store(
            replace(best, labels=table.labels(labels)), k, int(seen.any.sum()), table.dtype
        )
        calibrate(model, table, labels, seen)
    return model


def fit_dp_means(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`DPMeans.fit`."""
    if model.order == "random":
        raise ValueError(
            "order='random' would send every row to another worker. Shuffle the rows where they "
            "are stored, and keep order='given'."
        )
    with workers(1):
        table = prepared(model, X, sample_weight)
        options = begin(model, "auto", "farthest-first")
        frame = measure_spread(table)
        penalty = options.penalty
        if penalty == "farthest-first":
            penalty = spread_gap(table, frame.mean, options.hint or 1)
        partition = SpreadPartition(table, frame)
        result = dp_means(partition, penalty, max_clusters=options.cap, max_iter=options.max_iter)
        warn_if_unfinished(model, result.converged)
        labels = keep(list(result.labels))
        model._store_result(replace(result, labels=table.labels(labels)), penalty, table.dtype)
        calibrate(model, table, labels, count_labels(table, labels, result.k))
    return model


def prepared(model: Any, X: Any, sample_weight: Any) -> SpreadTable:
    """The table; for metric="cosine" with rows of length 1 and without zeros."""
    table = spread_table(model, X, sample_weight)
    return weight_directions(table) if model._unit else table


# KJ 6.1


def spread_gap(table: SpreadTable, mean: np.ndarray, k: int) -> float:
    """`cluster.farthest.largest_gap`."""
    if table.unit and mean.any():
        mean = mean / np.linalg.norm(mean)
    closest: list[Any] = [None] * len(table.shares)

    def farthest_from(member: np.ndarray) -> tuple[int, float]:
        whole = zip(table.shares, closest, strict=True)
        closest[:] = keep([task(nearer, *each, member) for each in whole])
        tops = fetch([task(top, each) for each in closest])
        s = int(np.argmax([value for _, value in tops]))
        return table.spans[s][0] + tops[s][0], tops[s][1]

    return last_gap(mean, k, farthest_from, table.take)


def nearer(share: Share, closest: Any, member: np.ndarray) -> np.ndarray:
    """The squared distance of each row to the nearest member."""
    d2 = squared_distances(share.source, 0, len(share.rows), member)[0]
    d2 = d2 if closest is None else np.minimum(d2, closest)
    return np.where(share.weight == 0, 0.0, d2) if share.weight.shape[0] else d2


def top(closest: np.ndarray) -> tuple[int, float]:
    row = int(np.argmax(closest))
    return row, float(closest[row])


# Novelty


class Seen:
    """How often each label occurs in each share."""

    def __init__(self, parts: list[tuple[Any, ...]]) -> None:
        self.counted = np.array([part[0] for part in parts])  # rows of positive weight
        self.total = np.sum([each for part in parts for each in part[1]], axis=0)
        self.any = np.any([part[2] for part in parts], axis=0)


def count_labels(table: SpreadTable, labels: list[Any], k: int) -> Seen:
    whole = zip(table.shares, labels, strict=True)
    return Seen(fetch([task(count, *each, k) for each in whole]))


def count(share: Share, labels: np.ndarray, k: int) -> tuple[Any, ...]:
    weight = share.weight if share.weight.shape[0] else np.ones(len(labels))
    return (
        np.bincount(labels[weight > 0], minlength=k),
        [np.bincount(labels[a:b], weight[a:b], minlength=k) for a, b in share.cuts],
        np.bincount(labels, minlength=k) > 0,
    )


def calibrate(model: Any, table: SpreadTable, labels: list[Any], seen: Seen) -> None:
    """`NoveltyMixin._calibrate`: the rows that it looks at are brought here."""
    counted = seen.counted.sum(axis=0)
    few_rows = counted.sum() <= MOST_ROWS
    take = counted if few_rows else np.minimum(counted, at_most(counted, MOST_ROWS))
    before = np.cumsum(seen.counted, axis=0) - seen.counted
    whole = zip(table.shares, labels, before, strict=True)
    parts = fetch([task(draw, *each, take, counted) for each in whole])
    X, label, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not few_rows:
        order = np.argsort(label, kind="stable")
        X, label, weight = X[order], label[order], weight[order]
    stands_for = counted[label] / take[label]
    rows = np.arange(len(label))
    model._calibrate_on(X, rows, stands_for, label, weight, counted, seen.total)


def draw(
    share: Share, labels: np.ndarray, before: np.ndarray, take: np.ndarray, counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evenly spaced rows of each cluster, with their labels and weights."""
    weight = share.weight if share.weight.shape[0] else np.ones(len(labels))
    at = np.flatnonzero(weight > 0)
    label = labels[at]
    order = np.argsort(label, kind="stable")
    size = np.bincount(label, minlength=len(before))
    place = np.empty(at.size, np.int64)
    place[order] = np.arange(at.size) - (np.cumsum(size) - size)[label[order]]
    at = at[evenly(before[label] + place, take[label], counted[label])]
    return share.rows[at], labels[at], weight[at]
