"""From columns to the matrix that is clustered: cells, gaps, categories, scales.

What is done here is written down in `Column`s, so that `predict` can do the same to another file.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes._rows.sources import scratch
from madbayes._storage.prepared import Column, scale_rows
from madbayes.cli.errors import UserError
from madbayes.cli.frame import Frame, Parquet
from madbayes.cli.numbers import from_text
from madbayes.cli.select import Selection, is_text

Missing = Literal["error", "drop", "impute-mean"]
SCAN_ROWS = 65_536


@dataclass(frozen=True)
class Table:
    """The rows and columns that are clustered, and what was done to them."""

    columns: tuple[Column, ...]
    values: np.ndarray  # in the units of the file
    rows: np.ndarray  # position of each row in the file, counted from 0
    n_rows_in_file: int
    notes: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    mean: np.ndarray | None = None  # where the columns are standardized
    scale: np.ndarray | None = None
    standardized: str = ""  # why (not)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.names)

    def scaled(self) -> np.ndarray:
        """What the estimator sees."""
        if self.mean is None or self.scale is None:
            return self.values
        return scale_rows(self.values, self.mean, self.scale, _room(self.values.shape, self.dtype))

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype


def prepare(frame: Frame, chosen: Selection, missing: Missing, na: Sequence[str] = ()) -> Table:
    """The matrix, without gaps."""
    columns = []
    for j in chosen.used:
        kinds = None
        if j in chosen.one_hot:
            cells = pc.unique(frame.column(j)).drop_null().to_pylist()
            kinds = tuple(sorted(str(c) for c in cells if str(c).strip()))
        columns.append(Column(frame.names[j], kinds))
    values, strange, notes = build(frame, chosen.used, columns, na)
    bad = rows_not_finite(values)
    rows = np.arange(len(values))
    if bad.size and missing == "error":
        names = [name for column in columns for name in column.names]
        raise UserError(about_gaps(frame, values, names, bad, strange))
    if strange:
        name, j, i, value = strange[0]
        more = f" ({len(strange)} such cells)" if len(strange) > 1 else ""
        notes.append(
            f"{frame.where(i)}, column {name} holds {value!r}, which is no number{more}: taken as "
            "missing"
        )
    if bad.size and missing == "drop":
        rows = np.delete(rows, bad)
        values = _some(values, rows)
        notes.append(f"left out {bad.size} of {frame.n_rows} rows: missing or infinite values")
        if not rows.size:
            raise UserError("Every row has a missing or infinite value; no row is left.")
    elif bad.size:
        values, columns, filled = _impute(values, columns, bad)
        notes.append(f"{filled} missing or infinite cells were filled in with the column's mean")
    return Table(
        tuple(columns),
        values,
        rows,
        frame.n_rows,
        (*frame.notes, *chosen.notes, *notes),
        tuple(chosen.left_out),
    )


Strange = list[tuple[str, int, int, str]]  # column, its position, row, cell


def build(
    frame: Frame, used: Sequence[int], columns: Sequence[Column], na: Sequence[str] = ()
) -> tuple[np.ndarray, Strange, list[str]]:
    """Cells as numbers, NaN where there is none; float32 when everything is."""
    if isinstance(frame.columns, np.ndarray):
        whole = list(used) == list(range(frame.columns.shape[1]))
        array = frame.columns if whole else frame.columns[:, list(used)]
        keep = array.dtype in (np.float32, np.float64)
        return array if keep else array.astype(np.float64), [], []
    strange: Strange = []
    notes: list[str] = []
    single = all(frame.type(j) == pa.float32() for j in used)
    width = sum(len(column.names) for column in columns)
    values = _room((frame.n_rows, width), np.dtype(np.float32 if single else np.float64))
    plain: list[tuple[int, int]] = []  # where to, which
    place = 0
    for j, column in zip(used, columns, strict=True):
        if column.categories is not None:
            cells = np.asarray(frame.column(j).cast(pa.string()).fill_null("").to_pylist())
            for k, category in enumerate(column.categories):
                values[:, place + k] = cells == category
        elif is_text(frame.type(j)) or pa.types.is_dictionary(frame.type(j)):
            cells = frame.column(j)
            got = from_text(cells, na, frame.comma)
            values[:, place] = got.values
            strange += [(column.name, place, int(i), cells[int(i)].as_py()) for i in got.strange]
            if got.note:
                notes.append(f"{column.name}: {got.note}")
        else:
            plain.append((place, j))
        place += len(column.names)
    _fill(frame, values, plain)
    return values, strange, notes


def _fill(frame: Frame, values: np.ndarray, plain: list[tuple[int, int]]) -> None:
    """Columns of numbers; those of a Parquet file in blocks of rows."""
    kind = pa.float32() if values.dtype == np.float32 else pa.float64()

    def numbers(cells: Any) -> np.ndarray:
        if pa.types.is_boolean(cells.type):
            cells = cells.cast(pa.int8())
        return np.asarray(cells.cast(kind, safe=False))

    if isinstance(frame.columns, Parquet) and plain:
        start = 0
        for batch in frame.columns.batches([j for _, j in plain]):
            for k, (place, _) in enumerate(plain):
                values[start : start + len(batch), place] = numbers(batch.column(k))
            start += len(batch)
        return
    for place, j in plain:
        cells = frame.column(j)
        values[:, place] = numbers(cells)


def _room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory for a matrix; when it is large, a file without a name that ends with the process."""
    size = int(np.prod(shape)) * dtype.itemsize
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = 1 << 32
    if size * 4 < memory:
        return np.empty(shape, dtype)
    # Where the user works there is room for large files; the system's own place may be memory.
    folder = "." if os.access(".", os.W_OK) else None
    try:
        return scratch(shape, dtype, folder)
    except OSError as error:
        raise UserError(
            f"The table takes {size:,} bytes on disk, which could not be had: {error.strerror}."
        ) from error


def _some(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some of the rows; of a large table in a file again."""
    out = _room((len(rows), values.shape[1]), values.dtype)
    for start in range(0, len(rows), SCAN_ROWS):
        out[start : start + SCAN_ROWS] = values[rows[start : start + SCAN_ROWS]]
    return out


def blocks(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(values), SCAN_ROWS):
        yield start, values[start : start + SCAN_ROWS]


def rows_not_finite(values: np.ndarray) -> np.ndarray:
    bad = [start + np.flatnonzero(~np.isfinite(b).all(axis=1)) for start, b in blocks(values)]
    return np.concatenate(bad)


def about_gaps(
    frame: Frame, values: np.ndarray, names: Sequence[str], bad: np.ndarray, strange: Strange
) -> str:
    """The first cell that is no number, how many there are, and what can be done."""
    ways = (
        "--missing drop leaves such rows out, --missing impute-mean fills the cells in, --drop {} "
        "leaves the column out."
    )
    if strange:
        name, _, i, value = strange[0]
        others = f" ({len(strange)} such cells in the file)" if len(strange) > 1 else ""
        return (
            f"{frame.where(i).capitalize()}, column {name} holds {value!r}, which is not a number"
            f"{others}. If it stands for a missing value, say so with --na {value!r}; "
            + ways.format(name)
        )
    row = int(bad[0])
    j = int(np.flatnonzero(~np.isfinite(values[row]))[0])
    what = "missing" if np.isnan(values[row, j]) else "infinite"
    others = f" ({bad.size} of {len(values)} rows are like this)" if bad.size > 1 else ""
    place = f"The value in {frame.where(row)}, column {names[j]} is {what}{others}. "
    return place + ways.format(names[j])


def _impute(
    values: np.ndarray, columns: Sequence[Column], bad: np.ndarray
) -> tuple[np.ndarray, list[Column], int]:
    """Means into the gaps, and into the columns, for later files. A file stays as it is."""
    total, seen = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for _, block in blocks(values):
        fine = np.isfinite(block)
        total += np.where(fine, block, 0).sum(axis=0, dtype=np.float64)
        seen += fine.sum(axis=0)
    mean = total / np.maximum(seen, 1)
    if not values.flags.writeable:  # the file itself
        values = _some(values, np.arange(len(values)))
    gaps = ~np.isfinite(values[bad])
    values[bad] = np.where(gaps, mean, values[bad])
    filled, place = [], 0
    for column in columns:
        fill = float(mean[place]) if column.categories is None else None
        filled.append(replace(column, fill=fill))
        place += len(column.names)
    return values, filled, int(gaps.sum())


# Scales
