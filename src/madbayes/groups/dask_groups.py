"""Groups of a Dask table for `HardHDP`: rows of a group brought together, and labels back.

Groups are brought together once (rows that are sorted by group hardly move), and a share is a
number of whole groups.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._rows.dask_executor import fetch, keep, same, task
from madbayes._rows.dask_table import DaskRows
from madbayes._rows.rows import Cut, Share, segments
from madbayes.groups.algorithm2 import GroupedLabels, GroupShare
from madbayes.groups.grouped_rows import Groups, check_groups, number_locally, usage


class DaskGroups:
    """The rows of a table by group: `labels` under way, and how they come back to the table."""

    def __init__(self, rows: DaskRows, groups: Any, mean: np.ndarray) -> None:
        groups = fetch([groups])[0] if hasattr(groups, "compute") else groups
        self.rows, self.groups = rows, check_groups(groups, rows.n)
        shares, self.spans = gather_groups(rows, self.groups, mean)
        z = [np.zeros(b - a, np.int64) for a, b in self.spans]
        self.labels = GroupedLabels(shares, z, rows.d, rows.executor)

    def usage(self, k: int) -> sp.csr_array:
        """How many rows of each group are in each cluster."""
        parts = self.rows.executor.ask(used, self.labels.shares, self.labels.z, args=(k,))
        return sp.csr_array(sp.vstack(parts))

    def restored(self) -> list[Any]:
        """The label of each row, for the shares of the table."""
        return self._put_back(self.labels.z)

    def local_labels(self, rows_of: sp.csr_array) -> list[Any]:
        """Labels within groups, for the shares of the table."""
        each = self.labels.shares, self.labels.z
        return self._put_back(self.rows.executor.map(number, *each, args=(rows_of,)))

    def _put_back(self, pieces: list[Any]) -> list[Any]:
        """What is known of rows by group, for the rows of each share of the table."""
        order = self.groups.order
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return keep(
            [
                task(in_place, b - a, *taken(pieces, self.spans, back[a:b], values_at))
                for a, b in self.rows.spans
            ]
        )


def gather_groups(table: DaskRows, groups: Groups, mean: np.ndarray) -> tuple[list[Any], list[Cut]]:
    """Shares of whole groups, and the rows (by group) of each."""
    if table.weighted and any(table.executor.ask(has_zero, table.shares)):
        raise ValueError(
            "sample_weight has zeros: leave these rows out of a Dask table for HardHDP."
        )
    ends = np.unique(
        [groups.start[np.searchsorted(groups.start, b)] for _, b in segments(table.n, 1)]
    )
    ends = ends[np.linspace(0, len(ends), len(table.spans) + 1).astype(int)[1:] - 1]
    spans = [(int(a), int(b)) for a, b in pairwise(np.unique([0, *ends]))]
    center, tasks = task(same, mean), []
    for a, b in spans:
        first, last = np.searchsorted(groups.start, [a, b])
        parts = taken(table.shares, table.spans, groups.order[a:b], rows_at)
        start = groups.start[first : last + 1] - a
        tasks.append(task(make_share, center, start, int(first), *parts))
    return keep(tasks), spans


def taken(pieces: list[Any], spans: list[Cut], index: np.ndarray, how: Any) -> list:
    """Tasks for the places `index` of pieces: values and where they belong."""
    at = np.searchsorted([b for _, b in spans], index, side="right")
    out = []
    for s in np.unique(at):
        where = np.flatnonzero(at == s)
        out.append(task(how, pieces[s], shorter(index[where] - spans[s][0]), shorter(where)))
    return out


def shorter(index: np.ndarray) -> Any:
    """A slice instead of an index, where it is one."""
    if index[-1] - index[0] + 1 == len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


# What tasks do


def rows_at(share: Share, index: Any, where: Any) -> tuple[Any, ...]:
    return share.rows.X[index], share.weights()[index], where


def make_share(
    mean: np.ndarray, start: np.ndarray, first: int, *parts: tuple[Any, ...]
) -> GroupShare:
    rows = parts[0][0]
    dtype = np.float32 if np.can_cast(rows.dtype, np.float32) else np.float64
    X, w = np.empty((int(start[-1]), rows.shape[1]), dtype), np.empty(int(start[-1]))
    for rows, weight, where in parts:
        X[where] = rows.astype(np.float64) - mean
        w[where] = weight
    return GroupShare(X, w, start, first)


def values_at(values: np.ndarray, index: Any, where: Any) -> tuple[Any, ...]:
    return values[index], where


def in_place(n: int, *parts: tuple[Any, ...]) -> np.ndarray:
    out = np.empty(n, np.int32)
    for values, where in parts:
        out[where] = values
    return out


def has_zero(share: Share) -> bool:
    return bool((share.weights() == 0).any())


def codes(share: GroupShare) -> np.ndarray:
    return np.repeat(np.arange(len(share.start) - 1), np.diff(share.start))


def used(share: GroupShare, z: np.ndarray, k: int) -> sp.csr_array:
    return usage(codes(share), z, (len(share.start) - 1, k))


def number(share: GroupShare, z: np.ndarray, rows_of: sp.csr_array) -> np.ndarray:
    return number_locally(rows_of, share.first + codes(share), z)
