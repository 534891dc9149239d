"""Groups of a Dask table for `HardHDP`: rows of a group brought together, and labels back.

Groups are brought together once (rows that are sorted by group hardly move). A share is a number of
whole groups.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._rows.dask_executor import fetch, keep, same, task
from madbayes._rows.dask_table import DaskRows
from madbayes._rows.rows import Cut, Share, segments
from madbayes.groups.algorithm2 import GroupedLabels
from madbayes.groups.grouped_rows import Grouped, check_groups, number_locally, usage


class DaskGroups:
    """The rows of a table by group: their `labels`, and how values come back to the table."""

    def __init__(self, rows: DaskRows, groups: Any, mean: np.ndarray) -> None:
        groups = fetch([groups])[0] if hasattr(groups, "compute") else groups
        self.rows, self.groups = rows, check_groups(groups, rows.n)
        shares = self._gather(mean)
        self.labels = GroupedLabels(shares, [b - a for a, b in self.spans], rows.d, rows.executor)

    def _gather(self, mean: np.ndarray) -> list[Any]:
        """Shares of whole groups, about as many as the table has."""
        table, groups = self.rows, self.groups
        if table.weighted and any(table.executor.ask(has_zero, table.shares)):
            raise ValueError(
                "sample_weight has zeros: leave these rows out of a Dask table for HardHDP."
            )
        ends = np.unique(
            [groups.start[np.searchsorted(groups.start, b)] for _, b in segments(table.n, 1)]
        )
        ends = ends[np.linspace(0, len(ends), len(table.spans) + 1).astype(int)[1:] - 1]
        self.spans = [(int(a), int(b)) for a, b in pairwise(np.unique([0, *ends]))]
        center, tasks = task(same, mean), []
        for a, b in self.spans:
            place = groups.order[a:b]
            parts = taken(table.shares, table.spans, place, rows_at)
            tasks.append(task(make_share, center, groups.code[place], place, *parts))
        return keep(tasks)

    def usage(self, k: int) -> sp.csr_array:
        """How many rows of each group are in each cluster."""
        args = (len(self.groups.names), k)
        return sum(self.rows.executor.ask(usage_of, self.labels.shares, self.labels.z, args=args))

    def local_labels(self, rows_of: sp.csr_array) -> list[Any]:
        """Labels within groups, for the shares of the table."""
        each = self.labels.shares, self.labels.z
        return self.restored(self.rows.executor.map(number_share, *each, args=(rows_of,)))

    def restored(self, values: list[Any]) -> list[Any]:
        """Values of the grouped rows (labels), for the rows of each share of the table."""
        order = self.groups.order
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return keep(
            [
                task(in_place, b - a, *taken(values, self.spans, back[a:b], values_at))
                for a, b in self.rows.spans
            ]
        )


def taken(pieces: list[Any], spans: list[Cut], index: np.ndarray, how: Any) -> list:
    """Tasks that give the values at the places `index` of `pieces`, and where they belong."""
    at = np.searchsorted([b for _, b in spans], index, side="right")
    out = []
    for s in np.unique(at):
        where = np.flatnonzero(at == s)
        out.append(task(how, pieces[s], shorter(index[where] - spans[s][0]), shorter(where)))
    return out


def shorter(index: np.ndarray) -> Any:
    """A slice instead of an index, where the index is a range."""
    if index[-1] - index[0] + 1 == len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


# What tasks do


def rows_at(share: Share, index: Any, where: Any) -> tuple[Any, ...]:
    return share.rows.X[index], share.weights()[index], where


def make_share(
    mean: np.ndarray, group: np.ndarray, place: np.ndarray, *parts: tuple[Any, ...]
) -> Grouped:
    rows = parts[0][0]
    dtype = np.float32 if np.can_cast(rows.dtype, np.float32) else np.float64
    X, w = np.empty((len(group), rows.shape[1]), dtype), np.empty(len(group))
    for rows, weight, where in parts:
        X[where] = rows.astype(np.float64) - mean
        w[where] = weight
    return Grouped(X, w, group, place, mean)


def values_at(values: np.ndarray, index: Any, where: Any) -> tuple[Any, ...]:
    return values[index], where


def in_place(n: int, *parts: tuple[Any, ...]) -> np.ndarray:
    out = np.empty(n, np.int32)
    for values, where in parts:
        out[where] = values
    return out


def has_zero(share: Share) -> bool:
    return bool((share.weights() == 0).any())


def usage_of(share: Grouped, z: np.ndarray, groups: int, k: int) -> sp.csr_array:
    return usage(share.group, z, (groups, k))


def number_share(share: Grouped, z: np.ndarray, rows_of: sp.csr_array) -> np.ndarray:
    return number_locally(rows_of, share.group, z)
