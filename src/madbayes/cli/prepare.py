"""From a file to the rows that are clustered: the options, on top of `TableEncoder`."""

import inspect
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes._rows.sources import scratch
from madbayes.cli.options import Reading
from madbayes.tables.cells import TableColumn
from madbayes.tables.convert import flattened, is_text
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError, did_you_mean
from madbayes.tables.explore import FILLED
from madbayes.tables.formats import read
from madbayes.tables.frame import Frame
from madbayes.tables.notes import listing
from madbayes.tables.numbers import from_text
from madbayes.tables.scaling import blocks


def wanted_kinds(
    frame: Frame, reading: Reading, by: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """The kinds of columns that options name, and why columns are left out by options."""
    kinds: dict[str, str] = {}
    out: dict[str, str] = {}
    if reading.columns:
        named = resolve(frame, reading.columns, "--columns")
        kinds |= {frame.names[j]: "use" for j in named}
        rest = [name for j, name in enumerate(frame.names) if j not in named]
        out |= dict.fromkeys(rest, "not among --columns")
    for option, names, kind in (
        ("--categorical", reading.categorical, "category"),
        ("--numeric", reading.numeric, "number"),
        ("--log", reading.log, "log"),
    ):
        for j in resolve(frame, names or (), option):
            kinds[frame.names[j]] = kind
            out.pop(frame.names[j], None)
    for j in resolve(frame, reading.drop or (), "--drop"):
        out[frame.names[j]] = "by --drop"
    for option, name in (("--id", reading.id), ("--weights", reading.weights), ("--by", by)):
        if name is not None:
            out[frame.names[resolve(frame, [name], option, whole=True)[0]]] = f"used as {option}"
    return {**kinds, **dict.fromkeys(out, "drop")}, out


def resolve(frame: Frame, wanted: Sequence[str], option: str, whole: bool = False) -> list[int]:
    """Positions of named columns. 'a,b' is two names unless a column is called just that."""
    found: list[int] = []
    for item in wanted:
        split = item not in frame.names and not whole
        for name in [part.strip() for part in item.split(",")] if split else [item]:
            if name not in frame.names:
                near = did_you_mean(name, frame.names)
                raise UserError(
                    f"{option} names {name!r}, which is not a column.{near} "
                    f"The columns are: {listing(frame.names)}."
                )
            if (j := frame.names.index(name)) not in found:
                found.append(j)
    return found


Strange = list[tuple[str, int, Any]]  # column, row, cell


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
        return self.encoder.output == "numeric" and self.encoder.scale_ is not None


def prepare(
    frame: Frame,
    reading: Reading,
    by: str | None,
    *,
    metric: str = "euclidean",
    logs: bool = True,
    gaps_from: float = math.inf,
    mixed: bool = False,
) -> Table:
    """The matrix that the options ask for.

    `logs`: logarithms may be taken. `gaps_from`: the estimator gets missing cells as NaN where
    there are more than this for each row; fewer are filled in. `mixed`: it takes codes of
    categories and counts, which the encoder may recommend.
    """
    kinds, out = wanted_kinds(frame, reading, by)
    scale, missing, na = reading.standardize, reading.gaps, reading.na_words
    if metric != "euclidean" and scale == "auto":
        scale = "no"
    encoder = TableEncoder(kinds, scale=scale, na=tuple(na), missing="mean")
    values = _learn(encoder, frame, out)
    if not logs and any(column.transform for column in encoder.used_columns_):
        plain = {
            c.name: "number" for c in encoder.used_columns_ if c.transform and c.name not in kinds
        }
        encoder.set_params(kinds={**kinds, **plain})
        values = _learn(encoder, frame, out)
    strange = strange_cells(frame, encoder, na)
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
        n_missing = sum(column.n_missing for column in encoder.used_columns_)
        if missing == "observed" and n_missing > gaps_from * frame.n_rows:
            encoder.set_params(missing="keep")
            X = X if X is not values else values.copy()
        else:
            X = encoder.filled(X)
            notes.append(FILLED)
        filled = encoder.in_units(encoder.fill_[None])[0]
        shown = values if own and X is not values else values.copy()
        for part in blocks(shown):
            shown[part] = np.where(np.isnan(shown[part]), filled, shown[part])
        values = shown
    if mixed and encoder.recommendation_.output == "mixed":
        encoder.set_params(output="mixed", missing="keep")
        X = encoder.encode(frame, allocate=room)
        X = X if len(rows) == frame.n_rows else _some(X, rows)
        euclidean = (FILLED, "the columns were standardized", "of the squared distances")
        notes = [note for note in notes if not any(part in note for part in euclidean)]
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


@dataclass
class Task:
    """A table that was read, ready to be fitted."""

    frame: Frame
    table: Table
    X: np.ndarray
    weights: np.ndarray | None
    by: np.ndarray | None
    ids: tuple[str, Any]


def load_task(
    files: Sequence[Path], reading: Reading, metric: str, by: str | None, **takes: Any
) -> Task:
    """The table as the options want it."""
    frame = flattened(read(*files, sheet=reading.sheet, skip_rows=reading.skip_rows))
    table = prepare(frame, reading, by, metric=metric, **takes)
    weights = None if reading.weights is None else _weights(frame, reading.weights, table.rows)
    groups = None if by is None else group_column(frame, by, table.rows)
    return Task(frame, table, table.X, weights, groups, identifiers(frame, reading.id))


class Cells(Sequence[Any]):
    """A column as Python values, made when they are asked for: there may be very many."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            return self.column.slice(start, stop - start).to_pylist()
        return self.column[at].as_py()


def identifiers(frame: Frame, name: str | None) -> tuple[str, Any]:
    """What the first column of labels.csv is called, and what is in it."""
    if name is None:
        return "row", range(1, frame.n_rows + 1)
    return name, Cells(frame.column(resolve(frame, [name], "--id", whole=True)[0]))


def about_ids(frame: Frame, name: str | None) -> list[str]:
    """A note where --id does not tell rows apart."""
    if name is None:
        return []
    column = frame.column(resolve(frame, [name], "--id", whole=True)[0])
    again = len(column) - pc.count_distinct(column, mode="all").as_py()
    if not again:
        return []
    rows = "row has" if again == 1 else "rows have"
    return [f"--id {name} is not unique: {again:,} {rows} an id that an earlier row has"]


def _weights(frame: Frame, name: str, rows: np.ndarray) -> np.ndarray:
    j = resolve(frame, [name], "--weights", whole=True)[0]
    column = frame.column(j)
    if is_text(column.type):
        values = from_text(column).values
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).to_numpy()
    else:
        raise UserError(f"Column {name} cannot be the weights: it does not hold numbers.")
    bad = np.flatnonzero(~(np.isfinite(values[rows]) & (values[rows] >= 0)))
    if bad.size:
        where = frame.where(int(rows[bad[0]]))
        raise UserError(f"The weight in {where}, column {name} should be a number >= 0.")
    return np.asarray(values[rows])


def group_column(frame: Frame, name: str, rows: np.ndarray) -> np.ndarray:
    """The group of each of the rows: whole numbers as numbers, anything else as text."""
    column = frame.column(resolve(frame, [name], "--by", whole=True)[0])
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        missing = missing | np.isnan(column.to_numpy())
    if pa.types.is_integer(column.type) and not column.null_count:
        values = column.to_numpy()
    else:
        values = np.array(["" if v is None else str(v) for v in column.to_pylist()])
        missing = missing | (values == "")
    gone = np.flatnonzero(missing[rows])
    if gone.size:
        more = f" ({gone.size} rows are like this)" if gone.size > 1 else ""
        where = frame.where(int(rows[gone[0]])).capitalize()
        raise UserError(
            f"{where} has no value in the column {name}{more}, so it is not known which group it "
            "belongs to. Fill it in, or leave the row out of the file."
        )
    return values[rows]


def weighted(model: Any, task: Task) -> dict[str, Any]:
    """The weights, if the model takes any."""
    if task.weights is None:
        return {}
    if "sample_weight" not in inspect.signature(model.fit).parameters:
        raise UserError(f"--weights: {type(model).__name__} does not take weights.")
    return {"sample_weight": task.weights}
