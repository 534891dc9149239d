"""From a file to the matrix that is clustered: the options, on top of `TableEncoder`."""

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from madbayes._rows.sources import scratch
from madbayes.cli.select import Wishes, wanted_kinds
from madbayes.tables.cells import TableColumn
from madbayes.tables.convert import is_text
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError
from madbayes.tables.frame import Frame
from madbayes.tables.numbers import from_text
from madbayes.tables.scaling import blocks

Strange = list[tuple[str, int, Any]]  # column, row, cell
Missing = Literal["observed", "error", "drop", "impute-mean"]


@dataclass(frozen=True)
class Table:
    """The rows and columns that are clustered, and what was done to them."""

    encoder: TableEncoder
    values: np.ndarray  # in the units of the file, categories as 0 and 1, gaps filled
    X: np.ndarray  # what the estimator sees
    rows: np.ndarray  # position of each row in the file, counted from 0
    n_rows_in_file: int
    notes: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> list[TableColumn]:
        return self.encoder.used_columns_

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.encoder.names_out("numeric")))

    @property
    def standardized(self) -> bool:
        return self.encoder.scale_ is not None


def prepare(
    frame: Frame,
    wishes: Wishes,
    missing: Missing,
    standardize: str,
    *,
    metric: str = "euclidean",
    logs: bool = True,
    gaps: bool = False,
    mixed: bool = False,
) -> Table:
    """The matrix that the options ask for.

    `logs`: logarithms may be taken. `gaps`: the estimator takes rows with missing cells (NaN).
    `mixed`: it takes codes of categories and counts, which the encoder may recommend.
    """
    kinds, out = wanted_kinds(frame, wishes)
    scale = "no" if metric != "euclidean" and standardize == "auto" else standardize
    encoder = TableEncoder(kinds, scale=scale, na=tuple(wishes.na), missing="mean")
    values = _learn(encoder, frame, out)
    if not logs and any(column.transform for column in encoder.used_columns_):
        plain = {
            c.name: "number" for c in encoder.used_columns_ if c.transform and c.name not in kinds
        }
        encoder.set_params(kinds={**kinds, **plain})
        values = _learn(encoder, frame, out)
    strange = strange_cells(frame, encoder, wishes.na)
    notes = [_in_options(note) for note in [*encoder.notes_, *_few(encoder, values)]]
    if strange:
        name, i, value = strange[0]
        more = f" ({len(strange)} such cells)" if len(strange) > 1 else ""
        notes = [note for note in notes if not note.endswith(" taken as missing") or "hold" in note]
        notes.append(
            f"{frame.where(i)}, column {name} holds {value!r}, which is no number{more}: taken as "
            "missing"
        )
    bad = rows_with_gaps(values)
    rows = np.arange(len(values))
    if bad.size and missing == "error":
        raise UserError(about_gaps(frame, values, encoder, bad, strange))
    if bad.size and missing == "drop":
        rows = np.delete(rows, bad)
        if not rows.size:
            raise UserError("Every row has a missing or infinite value; no row is left.")
        values = _some(values, rows)
        notes.append(f"left out {bad.size} of {frame.n_rows} rows: missing or infinite values")
    own = values is not frame.columns
    X = encoder.scaled(values, allocate=room)
    if bad.size and missing != "drop":
        if missing == "observed" and gaps:
            encoder.set_params(missing="keep")
            X = X if X is not values else values.copy()
        else:
            X = encoder.filled(X)
            notes.append("missing cells were filled in with the mean of their column")
        filled = encoder.in_units(encoder.fill_[None])[0]
        shown = values if own and X is not values else values.copy()
        for part in blocks(shown):
            shown[part] = np.where(np.isnan(shown[part]), filled, shown[part])
        values = shown
    if mixed and encoder.recommendation_.output == "mixed":
        encoder.set_params(output="mixed", missing="keep")
        X = encoder.encode(frame, allocate=room)
        X = X if len(rows) == frame.n_rows else _some(X, rows)
        notes = [note for note in notes if "filled in with the mean" not in note]
        notes.append(
            f"the {encoder.recommendation_.divergence} divergence is used, because "
            f"{encoder.recommendation_.why}"
        )
    left = {c.name: c.why for c in encoder.columns_ if not c.used} | out
    return Table(encoder, values, X, rows, frame.n_rows, tuple(notes), tuple(left.items()))


def _learn(encoder: TableEncoder, frame: Frame, out: dict[str, str]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is the first of the notes
        try:
            _, values = encoder.learn(frame, room)
        except ValueError as error:
            if str(error).startswith("There is no column"):
                reasons = [f"{c.name}: {out.get(c.name, c.why)}" for c in encoder.columns_[:8]]
                raise UserError(f"There is no column to use ({'; '.join(reasons)}).") from error
            raise UserError(str(error)) from error
    return values


def _in_options(note: str) -> str:
    """A note of the encoder, with the option that changes what it says."""
    if note.startswith("the columns were standardized"):
        return f"{note}; --standardize no turns that off"
    if note.endswith("standardizing gives every column the same say"):
        return note.replace("standardizing gives", "--standardize yes gives")
    if note.startswith("left out "):
        return f"{note} (name it in --columns to use it)"
    return note


def _few(encoder: TableEncoder, values: np.ndarray) -> list[str]:
    """Whole numbers of few values may stand for classes that nobody named."""
    few = [
        c.name for c in encoder.used_columns_ if c.whole and c.kind not in ("category", "yes/no")
    ]
    names = list(encoder.names_out("numeric"))
    few = [n for n in few if np.unique(values[:, names.index(n)]).size <= 10]
    if len(values) < 50 or not few or len(few) > 3 or len(few) >= len(encoder.used_columns_) / 2:
        return []
    return [
        f"{', '.join(few)}: only a few different whole numbers. If they stand for classes, leave "
        f"them out with --drop {few[0]}"
    ]


def room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
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
    out = room((len(rows), values.shape[1]), values.dtype)
    for part in blocks(rows):
        out[part] = values[rows[part]]
    return out


def rows_with_gaps(values: np.ndarray) -> np.ndarray:
    """Rows that have a missing cell."""
    bad = [
        part.start + np.flatnonzero(~np.isfinite(values[part]).all(axis=1))
        for part in blocks(values)
    ]
    return np.concatenate(bad)


def about_gaps(
    frame: Frame, values: np.ndarray, encoder: TableEncoder, bad: np.ndarray, strange: Strange
) -> str:
    """The first cell that is no number, how many there are, and what can be done."""
    ways = (
        "--missing drop leaves such rows out, --missing impute-mean fills the cells in, --drop {} "
        "leaves the column out."
    )
    if strange:
        name, i, value = strange[0]
        others = f" ({len(strange)} such cells in the file)" if len(strange) > 1 else ""
        return (
            f"{frame.where(i).capitalize()}, column {name} holds {value!r}, which is not a number"
            f"{others}. If it stands for a missing value, say so with --na {value!r}; "
            + ways.format(name)
        )
    row = int(bad[0])
    names = encoder.names_out("numeric")
    name = names[int(np.flatnonzero(~np.isfinite(values[row]))[0])]
    parts = {n: c.name for c in encoder.used_columns_ for n in encoder.names_of(c)}
    name = parts[name]
    cell = frame.column(frame.names.index(name))[row].as_py()
    what = "infinite" if isinstance(cell, float) and math.isinf(cell) else "missing"
    others = f" ({bad.size} of {len(values)} rows are like this)" if bad.size > 1 else ""
    place = f"The value in {frame.where(row)}, column {name} is {what}{others}. "
    return place + ways.format(name)


def strange_cells(frame: Frame, encoder: TableEncoder, na: Sequence[str]) -> Strange:
    """Cells of text in columns of numbers: column, row, cell."""
    found: Strange = []
    for column in encoder.used_columns_:
        j = frame.names.index(column.name)
        if not is_text(frame.type(j)) or column.kind in ("category", "yes/no") or column.days:
            continue
        cells = frame.column(j)
        got = from_text(cells, na, frame.comma)
        found += [(column.name, int(i), cells[int(i)].as_py()) for i in got.strange]
    return found
