"""How far rows are from their cluster (`_model.novelty_mixin`), for rows on the workers."""

from typing import Any

import numpy as np

from madbayes._model.novelty_mixin import MOST_ROWS, at_most, evenly
from madbayes.distributed.local import Share
from madbayes.distributed.table import SpreadTable
from madbayes.distributed.tasks import fetch, task


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
