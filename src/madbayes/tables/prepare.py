"""From a table to the rows that an estimator gets: `prepare`, the first half of `explore`.

1. `TableEncoder` decides what each column holds.
2. Rows with missing cells are kept, left out or refused, as the caller wants.
3. The estimator gets numbers or, where it takes them and the table suggests it, codes of categories
   and counts, with the divergence for them.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from madbayes._rows.sources import scratch
from madbayes.auto import AutoCluster
from madbayes.kmeans import DPMeans
from madbayes.tables.convert import is_text
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError
from madbayes.tables.frame import Frame
from madbayes.tables.numbers import from_text
from madbayes.tables.scaling import blocks, has_gaps

FEW_GAPS = 0.03  # missing cells for each row; so few that where they are filled in hardly matters


@dataclass
class TableRows:
    """The rows of a table, ready to be fitted."""

    frame: Frame
    encoder: TableEncoder
    estimator: Any  # that suits the table, not fitted yet
    units: np.ndarray  # in the units of the table, categories as 0 and 1, gaps filled
    X: np.ndarray  # what the estimator sees
    rows: np.ndarray  # the position of each row in the table, counted from 0
    notes: list[str]

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns of `units` are called."""
        return tuple(map(str, self.encoder.names_out("numeric")))

    @property
    def standardized(self) -> bool:
        return self.encoder.output == "numeric" and self.encoder.scale_ is not None

    @property
    def left_out(self) -> dict[str, str]:
        """Why columns are not used."""
        return {column.name: column.why for column in self.encoder.columns_ if not column.used}


class MissingCells(UserError):
    """A table has missing cells, and the caller does not want any."""

    def __init__(self, place: str, column: str, cell: Any = None) -> None:
        self.place, self.column, self.cell = place, column, cell
        super().__init__(
            f"{place} missing='drop' leaves such rows out, missing='mean' fills the cells in, "
            f"kinds={{{column!r}: 'drop'}} leaves the column out."
        )


def prepare(
    frame: Frame,
    estimator: Any,
    *,
    kinds: Mapping[str, str] | None = None,
    na: Sequence[str] = (),
    scale: str = "auto",
    missing: str = "observed",
    logs: bool = True,
    weighted: bool = False,
) -> TableRows:
    """The rows of a frame as they suit the estimator, and the estimator as it suits them.

    `missing` is "observed", "mean", "drop" or "error" (see `explore`); `logs`: logarithms and
    square roots may be taken; `weighted`: the rows will have weights.
    """
    encoder = TableEncoder(kinds, scale=scale, na=tuple(na), missing="mean")
    units = _learn(encoder, frame)
    if not logs and any(column.transform for column in encoder.used_columns_):
        plain = {c.name: "number" for c in encoder.used_columns_ if c.transform}
        encoder.set_params(kinds={**plain, **(kinds or {})})
        units = _learn(encoder, frame)
    strange = strange_cells(frame, encoder, na)
    notes = [*encoder.notes_, *_about_few_values(encoder, units)]
    if strange:
        name, i, value = strange[0]
        more = f" ({len(strange)} such cells)" if len(strange) > 1 else ""
        notes = [note for note in notes if not note.endswith(" taken as missing") or "hold" in note]
        notes.append(
            f"{frame.where(i)}, column {name} holds {value!r}, which is no number{more}: taken as "
            "missing"
        )
    rows = np.arange(len(units))
    gaps = rows_with_gaps(units)
    if gaps.size and missing == "error":
        raise missing_cells(frame, units, encoder, gaps, strange)
    if gaps.size and missing == "drop":
        rows = np.delete(rows, gaps)
        if not rows.size:
            raise UserError("Every row has a missing or infinite value; no row is left.")
        units = _some(units, rows)
        notes.append(f"left out {gaps.size} of {frame.n_rows} rows: missing or infinite values")
        gaps = gaps[:0]
    n_missing = 0  # cells that the estimator would get as NaN
    if gaps.size and missing == "observed":
        n_missing = sum(column.n_missing for column in encoder.used_columns_)
    own = units is not frame.columns
    estimator, mixed, keep = suit(estimator, encoder, n_missing / len(units), weighted)
    if mixed:
        encoder.set_params(output="mixed", missing="keep")
        X = encoder.encode(frame, allocate=room)
        X = X if len(rows) == frame.n_rows else _some(X, rows)
        advice = encoder.recommendation_
        scales = ("the columns were standardized", "of the squared distances")
        notes = [note for note in notes if not any(part in note for part in scales)]
        notes.append(f"the {advice.divergence} divergence is used, because {advice.why}")
    else:
        X = encoder.scaled(units, allocate=room)
        if gaps.size and keep:
            encoder.set_params(missing="keep")
            X = X if X is not units else units.copy()
        elif gaps.size:
            X = encoder.filled(X)
            notes.append("missing cells were filled in with the mean of their column")
    if mixed or (gaps.size and has_gaps(X)):  # later rows may have categories that are new
        estimator.set_params(missing="observed")
    if gaps.size:
        means = encoder.in_units(encoder.fill_[None])[0]
        units = units if own and X is not units else units.copy()
        for part in blocks(units):
            units[part] = np.where(np.isnan(units[part]), means, units[part])
    return TableRows(frame, encoder, estimator, units, X, rows, list(dict.fromkeys(notes)))


def suit(
    estimator: Any, encoder: TableEncoder, gaps: float, weighted: bool
) -> tuple[Any, bool, bool]:
    """The estimator for a table; whether it gets codes; whether it gets gaps.

    `gaps` are the missing cells for each row. `AutoCluster` needs numbers in all cells and knows no
    weights: up to FEW_GAPS are filled in, and otherwise `DPMeans` takes its place. Of the others,
    those with a divergence that find their own penalty get codes of categories and counts, and
    those with a parameter `missing` get gaps.
    """
    params = estimator.get_params()
    any_shape = isinstance(estimator, AutoCluster)
    found = params.get("penalty") == "auto" and params.get("metric") == "euclidean"
    takes_codes = any_shape or ("divergence" in params and found)
    mixed = takes_codes and encoder.recommendation_.output == "mixed"
    keep = gaps > (FEW_GAPS if any_shape else 0.0 if "missing" in params else math.inf)
    if any_shape:
        if not (mixed or keep or weighted):
            return estimator, False, False
        estimator = DPMeans(random_state=estimator.random_state)
    if mixed:
        estimator.set_params(divergence=encoder.recommendation_.divergence)
        if estimator.divergence == "mixed":
            estimator.set_params(columns=encoder.divergence_columns_)
    return estimator, mixed, keep


def _learn(encoder: TableEncoder, frame: Frame) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is the first of the notes
        return encoder.learn(frame, room)[1]


def _about_few_values(encoder: TableEncoder, units: np.ndarray) -> list[str]:
    """Whole numbers of few values may stand for classes that nobody named."""
    few = [
        c.name for c in encoder.used_columns_ if c.whole and c.kind not in ("category", "yes/no")
    ]
    names = list(encoder.names_out("numeric"))
    few = [n for n in few if np.unique(units[:, names.index(n)]).size <= 10]
    if len(units) < 50 or not few or len(few) > 3 or len(few) >= len(encoder.used_columns_) / 2:
        return []
    what = f"{', '.join(few)}: only a few different whole numbers."
    return [f"{what} If they stand for classes, leave them out"]


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


StrangeCells = list[tuple[str, int, Any]]  # column, row, cell


def strange_cells(frame: Frame, encoder: TableEncoder, na: Sequence[str]) -> StrangeCells:
    """Cells of text in columns of numbers."""
    found: StrangeCells = []
    for column in encoder.used_columns_:
        j = frame.names.index(column.name)
        if not is_text(frame.type(j)) or column.kind in ("category", "yes/no") or column.days:
            continue
        cells = frame.column(j)
        got = from_text(cells, na, frame.comma)
        found += [(column.name, int(i), cells[int(i)].as_py()) for i in got.strange]
    return found


def missing_cells(
    frame: Frame,
    units: np.ndarray,
    encoder: TableEncoder,
    gaps: np.ndarray,
    strange: StrangeCells,
) -> MissingCells:
    """The first cell that is no number, and how many there are; `gaps` are the rows with such."""
    if strange:
        name, i, value = strange[0]
        others = f" ({len(strange)} such cells in the file)" if len(strange) > 1 else ""
        where = f"{frame.where(i).capitalize()}, column {name} holds {value!r}"
        return MissingCells(f"{where}, which is not a number{others}.", name, value)
    row = int(gaps[0])
    parts = [column.name for column in encoder.used_columns_ for _ in encoder.names_of(column)]
    name = parts[int(np.flatnonzero(~np.isfinite(units[row]))[0])]
    cell = frame.column(frame.names.index(name))[row].as_py()
    what = "infinite" if isinstance(cell, float) and math.isinf(cell) else "missing"
    others = f" ({gaps.size} of {len(units)} rows are like this)" if gaps.size > 1 else ""
    return MissingCells(f"The value in {frame.where(row)}, column {name} is {what}{others}.", name)
