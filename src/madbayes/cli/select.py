"""Columns into a matrix: which are used, which are left out and why, and what is missing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes.cli.errors import UserError, did_you_mean
from madbayes.cli.formats import Frame

NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
SCAN_ROWS = 65_536


@dataclass(frozen=True)
class Table:
    """The rows and columns that are clustered."""

    names: tuple[str, ...]
    values: np.ndarray
    rows: np.ndarray  # position of each row in the file, counted from 0
    n_rows_in_file: int
    notes: tuple[str, ...]


def select(
    frame: Frame, *, columns: Sequence[str] = (), drop: Sequence[str] = (), drop_missing: bool
) -> Table:
    """Numeric columns (or those named) as one float matrix without missing values."""
    notes = list(frame.notes)
    dropped = set(_resolve(frame, drop, "--drop"))
    if columns:
        used = [j for j in _resolve(frame, columns, "--columns") if j not in dropped]
        for j in used:
            if reason := _not_numeric(frame, j):
                raise UserError(
                    f"Column {frame.names[j]} cannot be used: {reason}. "
                    "--columns takes columns of numbers."
                )
    else:
        used, left_out = _numeric_columns(frame, dropped)
        notes += [f"left out {name}: {reason}" for name, reason in left_out]
    if not used:
        detail = "; ".join(notes) or "all columns were dropped"
        raise UserError(f"There is no column of numbers to cluster ({detail}).")

    names = tuple(frame.names[j] for j in used)
    values = _matrix(frame, used)
    bad = _rows_not_finite(values)
    rows = np.arange(len(values))
    if bad.size and not drop_missing:
        raise UserError(_about_missing(values, names, bad))
    if bad.size:
        rows = np.delete(rows, bad)
        values = values[rows]
        notes.append(f"left out {bad.size} of {frame.n_rows} rows: missing or infinite values")
        if not rows.size:
            raise UserError("Every row has a missing or infinite value; no row is left.")
    return Table(names, values, rows, frame.n_rows, tuple(notes))


def _resolve(frame: Frame, wanted: Sequence[str], option: str) -> list[int]:
    """Positions of named columns. 'a,b' is two names unless a column is called just that."""
    found: list[int] = []
    for item in wanted:
        names = [item] if item in frame.names else [part.strip() for part in item.split(",")]
        for name in names:
            if name not in frame.names:
                near = did_you_mean(name, frame.names)
                raise UserError(
                    f"{option} names {name!r}, which is not a column.{near} "
                    f"The columns are: {_listing(frame.names)}."
                )
            found += [j for j, other in enumerate(frame.names) if other == name and j not in found]
    return found


def _numeric_columns(frame: Frame, dropped: set[int]) -> tuple[list[int], list[tuple[str, str]]]:
    used, left_out = [], []
    for j, name in enumerate(frame.names):
        if j in dropped:
            continue
        reason = _not_numeric(frame, j) or _not_by_default(frame, j)
        if reason:
            left_out.append((name, reason))
        else:
            used.append(j)
    if len(used) > 1:  # a lone column of 1, 2, 3 is the data; beside others it is an index
        for j in used.copy():
            if _counts_rows(frame, j):
                used.remove(j)
                left_out.append(
                    (frame.names[j], "it only counts the rows (name it in --columns to use it)")
                )
    return used, left_out


def _not_numeric(frame: Frame, j: int) -> str:
    """Why column j cannot be used at all; empty when it can."""
    if isinstance(frame.columns, np.ndarray):
        return ""
    column = frame.columns.column(j)
    kind = column.type
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    ):
        return ""
    if pa.types.is_null(kind):
        return "it is empty"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        numbers = pc.fill_null(pc.match_substring_regex(column, NUMBER), True)
        if pc.mean(numbers).as_py() >= 0.5:
            row = pc.index(numbers, False).as_py()
            return f"{column[row].as_py()!r} in row {row + 1} is not a number"
        return "it holds text"
    if pa.types.is_dictionary(kind):
        return "it holds categories"
    if pa.types.is_temporal(kind):
        return "it holds dates or times"
    return f"it holds values of type {kind}"


def _not_by_default(frame: Frame, j: int) -> str:
    if isinstance(frame.columns, np.ndarray):
        return ""
    if pa.types.is_boolean(frame.columns.schema.types[j]):
        return "it holds true and false (name it in --columns to use it as 1 and 0)"
    return ""


def _counts_rows(frame: Frame, j: int) -> bool:
    """0, 1, 2, … or 1, 2, 3, … in order: a row number somebody saved along with the data."""
    if isinstance(frame.columns, np.ndarray) or frame.n_rows < 3:
        return False
    column = frame.columns.column(j)
    if not pa.types.is_integer(column.type) or column.null_count:
        return False
    first = column[0].as_py()
    return first in (0, 1) and bool(
        np.array_equal(column.to_numpy(), np.arange(first, first + frame.n_rows))
    )


def _matrix(frame: Frame, used: list[int]) -> np.ndarray:
    """float32 when everything is, else float64. A whole float array is returned as it is."""
    if isinstance(frame.columns, np.ndarray):
        whole = used == list(range(frame.columns.shape[1]))
        array = frame.columns if whole else frame.columns[:, used]
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    columns = [frame.columns.column(j) for j in used]
    single = all(column.type == pa.float32() for column in columns)
    values = np.empty((frame.n_rows, len(used)), dtype=np.float32 if single else np.float64)
    for j, column in enumerate(columns):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        values[:, j] = column.cast(pa.float32() if single else pa.float64(), safe=False).to_numpy()
    return values


def _blocks(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(values), SCAN_ROWS):
        yield start, values[start : start + SCAN_ROWS]


def _rows_not_finite(values: np.ndarray) -> np.ndarray:
    bad = [start + np.flatnonzero(~np.isfinite(b).all(axis=1)) for start, b in _blocks(values)]
    return np.concatenate(bad)


def _about_missing(values: np.ndarray, names: tuple[str, ...], bad: np.ndarray) -> str:
    row = int(bad[0])
    j = int(np.flatnonzero(~np.isfinite(values[row]))[0])
    what = "missing" if np.isnan(values[row, j]) else "infinite"
    others = f" ({bad.size} of {len(values)} rows are like this)" if bad.size > 1 else ""
    return (
        f"The value in row {row + 1}, column {names[j]} is {what}{others}. Leave such rows out "
        f"with --drop-missing, or the column with --drop {names[j]}, or fill them in beforehand."
    )


def _listing(names: tuple[str, ...], at_most: int = 12) -> str:
    more = f", … ({len(names)} in all)" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
