"""Rows that come in groups: checking who belongs to which, and putting a group's rows together."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes._rows.checks import without_arrow
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import DISK_VALUES, Rows, on_disk
from madbayes._rows.sources import scratch

DENSE_VALUES = 2**28  # a CSR matrix up to this size is made dense


class Groups(NamedTuple):
    """`names[code[i]]` is the group of row i; `order` has the rows of each group together."""

    names: np.ndarray  # in sorted order
    code: np.ndarray
    order: np.ndarray
    start: np.ndarray  # group j is order[start[j]:start[j + 1]]


@dataclass(frozen=True)
class Grouped:
    """The rows that count, those of a group together, shifted to their mean."""

    X: np.ndarray
    w: np.ndarray
    group: np.ndarray  # ascending
    place: np.ndarray  # of each in the table
    offset: np.ndarray

    @property
    def start(self) -> np.ndarray:
        return starts(self.group)


def starts(group: np.ndarray) -> np.ndarray:
    """Where each group begins, and the end; `group` is ascending."""
    return np.r_[0, np.flatnonzero(np.diff(group)) + 1, len(group)]


def gather(X: Any, groups: Any) -> tuple[Any, Any]:
    """A list of tables as one table and its groups 0, 1, …; anything else as it is."""
    if not isinstance(X, list | tuple) or len(X) == 0:
        return X, groups
    parts = [without_arrow(part) for part in X]
    if not all(_is_table(part) for part in parts):
        return X, groups
    if groups is not None:
        raise ValueError(
            f"X is a list of {len(X)} tables, which says already what the groups are: "
            "leave groups out, or stack the tables into one."
        )
    columns = [part.shape[1] for part in parts]
    rows = [part.shape[0] for part in parts]
    for j in range(len(parts)):
        if columns[j] != columns[0]:
            raise ValueError(
                f"all tables of X need the same columns, but table 0 has {columns[0]} and table "
                f"{j} has {columns[j]}."
            )
        if rows[j] == 0:
            raise ValueError(f"table {j} of X has no rows. Leave it out.")
    return _stack(parts), np.repeat(np.arange(len(parts)), rows)


def _is_table(part: Any) -> bool:
    return len(getattr(part, "shape", ())) == 2


def _stack(parts: list[Any]) -> Any:
    if any(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    names = [list(getattr(part, "columns", ())) for part in parts]
    stacked = np.vstack([np.asarray(part) for part in parts])
    if not names[0] and not any(names):
        return stacked
    for j, found in enumerate(names):
        if found != names[0]:
            raise ValueError(
                f"all tables of X need the same columns, but table 0 has {names[0]} and table {j} "
                f"has {found or 'none with names'}."
            )
    frame = type(parts[0])
    key = "columns" if hasattr(parts[0], "iloc") else "schema"  # pandas, polars
    return frame(stacked, **{key: names[0]})


def check_groups(groups: Any, n: int) -> Groups:
    """The group of each of n rows: numbers, text or anything that can be sorted. None: one."""
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
    missing = np.flatnonzero(_missing(values))
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


def _missing(values: np.ndarray) -> np.ndarray:
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
    if sp.issparse(X):
        n, d = X.shape
        if n * d > DENSE_VALUES:
            raise ValueError(
                f"the hard HDP works on dense rows, and this sparse matrix of shape {(n, d)} would "
                f"have {n * d:.2g} values. Reduce the columns first, for example with "
                "sklearn.decomposition.TruncatedSVD."
            )
        X = X.toarray()
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
