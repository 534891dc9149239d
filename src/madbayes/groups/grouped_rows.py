"""Rows that come in groups: check the groups, and put the rows of each group together."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes._rows.checks import dense, without_arrow
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import DISK_VALUES, Rows, on_disk
from madbayes._rows.sources import scratch
from madbayes._search.division import without_gaps


class Groups(NamedTuple):
    """`names[code[i]]` is the group of row i; `order` has the rows of each group together."""

    names: np.ndarray  # in sorted order
    code: np.ndarray
    order: np.ndarray
    start: np.ndarray  # group j is order[start[j]:start[j + 1]]


@dataclass(frozen=True)
class Grouped:
    """Rows of positive weight, those of a group together, shifted to the mean of all rows."""

    X: np.ndarray
    w: np.ndarray
    group: np.ndarray  # numbers of the groups, ascending
    place: np.ndarray  # the number of each row in the table of the user
    offset: np.ndarray  # the mean that was subtracted

    @property
    def start(self) -> np.ndarray:
        return starts(self.group)


def starts(group: np.ndarray) -> np.ndarray:
    """Where each group begins, and the end; `group` is ascending."""
    return np.r_[0, np.flatnonzero(np.diff(group)) + 1, len(group)]


def local_clusters(
    X: np.ndarray, w: np.ndarray, group: np.ndarray, z: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means, weights, groups and labels of the local clusters, by group and then by label; and the
    local cluster of each row."""
    key = group * k + z
    member, count = without_gaps(key)
    found = np.empty(count, np.int64)
    found[member] = key
    weights = np.bincount(member, w)
    M = np.column_stack([np.bincount(member, w * X[:, f]) for f in range(X.shape[1])])
    return M / weights[:, None], weights, found // k, found % k, member


def gather(X: Any, groups: Any) -> tuple[Any, Any]:
    """A list of tables as one table and its groups 0, 1, …; anything else as it is."""
    if not isinstance(X, list | tuple) or len(X) == 0:
        return X, groups
    parts = [without_arrow(part) for part in X]
    if not all(len(getattr(part, "shape", ())) == 2 for part in parts):
        return X, groups
    if groups is not None:
        raise ValueError(
            f"X is a list of {len(X)} tables, which says already what the groups are: "
            "leave groups out, or stack the tables into one."
        )
    columns = [list(getattr(part, "columns", ())) or part.shape[1] for part in parts]
    for j, part in enumerate(parts):
        if columns[j] != columns[0]:
            raise ValueError(
                f"all tables of X need the same columns, but table 0 has {columns[0]} and table "
                f"{j} has {columns[j]}."
            )
        if part.shape[0] == 0:
            raise ValueError(f"table {j} of X has no rows. Leave it out.")
    return stack(parts), np.repeat(np.arange(len(parts)), [part.shape[0] for part in parts])


def stack(parts: list[Any]) -> Any:
    """Tables with the same columns below each other."""
    if any(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    stacked = np.vstack([np.asarray(part) for part in parts])
    if not hasattr(parts[0], "columns"):
        return stacked
    key = "columns" if hasattr(parts[0], "iloc") else "schema"  # pandas, polars
    return type(parts[0])(stacked, **{key: list(parts[0].columns)})


def check_groups(groups: Any, n: int) -> Groups:
    """The group of each of n rows; labels are numbers, text or anything that can be sorted.

    None is one group of all rows.
    """
    if groups is None:
        return Groups(np.zeros(1, np.int64), np.zeros(n, np.int64), np.arange(n), np.array([0, n]))
    try:
        values = np.asarray(groups)
    except ValueError:
        raise ValueError("groups must be numbers or text, one for each row of X.") from None
    if values.shape != (n,):
        raise ValueError(
            f"groups has shape {values.shape}, but X has {n} rows: one group label for each row is "
            "needed."
        )
    missing = np.flatnonzero(is_missing(values))
    if missing.size:
        raise ValueError(
            f"groups has no label for {missing.size} of {n} rows (the first is row {missing[0]}). "
            "Leave these rows out, or give them a group of their own."
        )
    try:
        names, code = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(
            f"groups mixes labels that cannot be sorted ({', '.join(kinds)}). Use one kind of "
            "label, for example groups=[str(label) for label in groups]."
        ) from None
    order = np.argsort(code, kind="stable")
    return Groups(names, code, order, np.r_[0, np.cumsum(np.bincount(code))])


def is_missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype == object:  # None, NaN, pandas.NA: not equal to themselves, or unsure of it
        return np.array(
            [v is None or not isinstance(v == v, bool | np.bool_) or v != v for v in values]
        )
    return np.zeros(len(values), dtype=bool)


def put_together(X: Any, weight: np.ndarray | None, groups: Groups) -> Grouped:
    """The rows of positive weight, dense and by group."""
    X = dense(X, "HardHDP")
    source = Rows(X, weight=weight)
    offset = measure_to_fit(source).mean
    place = groups.order if weight is None else groups.order[weight[groups.order] > 0]
    shape = (place.size, source.d)
    large = on_disk(X) and place.size * source.d > DISK_VALUES
    rows = scratch(shape, source.dtype) if large else np.empty(shape, dtype=source.dtype)
    for a in range(0, place.size, 4096):
        rows[a : a + 4096] = source.take(place[a : a + 4096]) - offset
    w = np.ones(place.size) if weight is None else weight[place]
    return Grouped(rows, w, groups.code[place], place, offset)


def usage(groups: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """How many rows of each group are in each cluster."""
    return sp.csr_array((np.ones(len(labels), np.int64), (groups, labels)), shape=shape)


def number_locally(table: sp.csr_array, groups: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The rank of each row's cluster among those of its group; -1 where the group has none."""
    key = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * table.shape[1]
    at = np.searchsorted(key + table.indices, groups * table.shape[1] + labels)
    return np.where(np.diff(table.indptr)[groups] > 0, at - table.indptr[groups], -1)
