"""Novelty for rows on Dask workers: how far rows of the fit are from their cluster.

`NoveltyMixin._calibrate` does the same for rows in this process.
"""

from typing import Any

import numpy as np

from madbayes._model import novelty_mixin
from madbayes._model.novelty_mixin import evenly, how_many
from madbayes._rows.rows import Share


def clusters_with_rows(rows: Any, labels: Any, k: int) -> np.ndarray:
    """Which of k clusters have rows."""
    if not rows.executor.remote:
        return np.bincount(labels, minlength=k) > 0
    counts = rows.executor.ask(np.bincount, labels, args=(None, k))
    return np.asarray(np.sum(counts, axis=0) > 0)


def calibrate_shares(model: Any, rows: Any, labels: list[Any]) -> None:
    """The rows that `_calibrate_on` looks at are brought here; `labels` of each share are not."""
    executor, k = rows.executor, model.n_clusters_
    seen = executor.ask(count, rows.shares, labels, args=(k,))
    each = np.array([part[0] for part in seen])  # rows of positive weight, for each share
    total = np.sum([weight for part in seen for weight in part[1]], axis=0)
    counted = each.sum(axis=0)
    take = how_many(counted, novelty_mixin.MOST_ROWS)
    before = list(np.cumsum(each, axis=0) - each)
    parts = executor.ask(draw, rows.shares, labels, before, args=(take, counted))
    X, label, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    if counted.sum() > novelty_mixin.MOST_ROWS:
        order = np.argsort(label, kind="stable")
        X, label, weight = X[order], label[order], weight[order]
    stands_for = counted[label] / take[label]
    places = np.arange(len(label))
    model._calibrate_on(X, places, stands_for, label, weight, counted, total)


def count(share: Share, labels: np.ndarray, k: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """How often each label occurs among rows that count, and its weight in each segment."""
    weight = share.weights()
    return (
        np.bincount(labels[weight > 0], minlength=k),
        [np.bincount(labels[a:b], weight[a:b], minlength=k) for a, b in share.cuts],
    )


def draw(
    share: Share, labels: np.ndarray, before: np.ndarray, take: np.ndarray, counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evenly spaced rows of each cluster, with their labels and weights."""
    weight = share.weights()
    at = np.flatnonzero(weight > 0)
    at = at[evenly(labels[at], before, take, counted)]
    return share.rows.X[at], labels[at], weight[at]
