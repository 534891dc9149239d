"""From a file to the rows that are clustered: what the options say about columns and rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes.cli.options import Reading, words
from madbayes.tables.convert import flattened, is_text
from madbayes.tables.errors import UserError, did_you_mean
from madbayes.tables.formats import read
from madbayes.tables.frame import Frame
from madbayes.tables.notes import listing
from madbayes.tables.numbers import from_text
from madbayes.tables.prepare import MissingCells, TableRows, prepare


@dataclass
class Task:
    """A table that was read, ready to be fitted."""

    table: TableRows
    left_out: dict[str, str]  # why columns are not used
    weights: np.ndarray | None
    by: np.ndarray | None  # the group of each row
    ids: tuple[str, Any]  # what the first column of labels.csv is called, and its cells
    notes: list[str]


def load_task(
    files: Sequence[Path], reading: Reading, estimator: Any, by: str | None, logs: bool = True
) -> Task:
    """The table as the options and the estimator want it."""
    frame = flattened(read(*files, sheet=reading.sheet, skip_rows=reading.skip_rows))
    kinds, out = wanted_kinds(frame, reading, by)
    scale = reading.standardize
    if getattr(estimator, "metric", "euclidean") != "euclidean" and scale == "auto":
        scale = "no"
    weighted = reading.weights is not None
    missing = "mean" if reading.missing == "impute-mean" else reading.missing
    how: dict[str, Any] = {"na": words(reading.na), "scale": scale, "missing": missing}
    try:
        table = prepare(frame, estimator, kinds=kinds, logs=logs, weighted=weighted, **how)
    except MissingCells as error:
        name, says = error.column, ""
        if error.cell is not None:
            says = f" If it stands for a missing value, say so with --na {error.cell!r};"
        raise UserError(
            f"{error.place}{says} --missing drop leaves such rows out, --missing impute-mean fills "
            f"the cells in, --drop {name} leaves the column out."
        ) from error
    except ValueError as error:
        way_out = " --columns NAME uses a column whatever it holds."
        text = str(error).replace(" kinds={…} decides.", way_out)
        for name, why in out.items():
            text = text.replace(f"{name}: as asked", f"{name}: {why}")
        raise UserError(text) from error
    notes = [*map(with_options, table.notes), *about_ids(frame, reading.id)]
    return Task(
        table,
        table.left_out | out,
        _weights(frame, reading.weights, table.rows) if weighted else None,
        None if by is None else group_column(frame, by, table.rows),
        ids_of(frame, reading.id),
        notes,
    )


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


def named_column(frame: Frame, name: str, option: str) -> pa.ChunkedArray:
    """The column that an option names."""
    return frame.column(resolve(frame, [name], option, whole=True)[0])


def ids_of(frame: Frame, name: str | None) -> tuple[str, Any]:
    """What the first column of labels.csv is called, and its cells: one for each row."""
    if name is None:
        return "row", range(1, frame.n_rows + 1)
    return name, named_column(frame, name, "--id")


def with_options(note: str) -> str:
    """A note on the table, with the option that changes what it says."""
    if note.startswith("the columns were standardized"):
        return f"{note}; --standardize no turns that off"
    if note.endswith("standardizing gives every column the same say"):
        return note.replace("standardizing gives", "--standardize yes gives")
    if note.endswith("leave them out"):
        return f"{note} with --drop {note.split(': only')[0].split(', ')[0]}"
    if note.startswith("left out ") and " rows: " not in note:
        return f"{note} (name it in --columns to use it)"
    return note


def about_ids(frame: Frame, name: str | None) -> list[str]:
    """A note where --id does not tell rows apart."""
    if name is None:
        return []
    column = named_column(frame, name, "--id")
    again = len(column) - pc.count_distinct(column, mode="all").as_py()
    if not again:
        return []
    rows = "row has" if again == 1 else "rows have"
    return [f"--id {name} is not unique: {again:,} {rows} an id that an earlier row has"]


def _weights(frame: Frame, name: Any, rows: np.ndarray) -> np.ndarray:
    column = named_column(frame, name, "--weights")
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
    column = named_column(frame, name, "--by")
    missing = pc.is_null(column, nan_is_null=True).to_numpy()
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
