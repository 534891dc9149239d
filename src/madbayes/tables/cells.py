"""Columns and their cells: what was decided about a column, and its cells as numbers."""

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes.tables.convert import is_text
from madbayes.tables.dates import as_days
from madbayes.tables.numbers import MISSING, from_text

FAMILIES = {
    "count": "poisson",
    "yes/no": "bernoulli",
    "category": "categorical",
    "positive": "gamma",
}

YES = ("yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "on", "1")
NO = ("no", "n", "false", "f", "nein", "non", "off", "0")


@dataclass(frozen=True)
class TableColumn:
    """One column of the table: what it holds (`kind`), what was `done` with it, and `why`."""

    name: str
    kind: str
    used: bool = True
    done: str = "used as it is"
    why: str = ""
    n_missing: int = 0
    missing_codes: tuple[float, ...] = ()  # numbers that stand for a missing value
    n_codes: int = 0  # cells that hold them
    categories: tuple[str, ...] | None = None
    transform: str = ""  # "log", "log1p" or "sqrt": the scale on which the column is used
    width: int = 1  # numbers in a cell of a vector
    days: bool = False  # dates as days since 1970
    whole: bool = False  # whole numbers >= 0
    notes: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The divergence for this column in a mixed model."""
        return "squared" if self.transform else FAMILIES.get(self.kind, "squared")


@dataclass(frozen=True)
class TextRules:
    """How the cells of the whole table are read."""

    na: tuple[str, ...] = ()  # further words for a missing cell
    comma: bool = False  # 1,234 may be 1.234
    names: tuple[str, ...] = ()  # of all columns
    logs: bool | None = None  # whether positive columns are logarithms; None: each column decides


def is_list(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_one(kind) for is_one in lists)


def texts(column: pa.ChunkedArray, rules: TextRules) -> pa.ChunkedArray:
    """Cells as trimmed text; null where a cell is missing or a word for that."""
    if pa.types.is_floating(column.type):
        values = plain_numbers(column)
        return pa.chunked_array([pa.array([f"{v:.15g}" if v == v else None for v in values])])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    # "none" may be a category: no airbags.
    gone = {*MISSING, "?"} - {"none", "nil"} | {word.lower() for word in rules.na}
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(sorted(gone)))
    return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def plain_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers as float64, NaN where missing or infinite."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    values = np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def read_cells(column: TableColumn, cells: pa.ChunkedArray, rules: TextRules) -> np.ndarray:
    """Cells as numbers, in the units of the table; NaN where there is none; codes of categories."""
    if column.kind == "vector":
        return _read_vector(column, cells)
    if column.days:
        days = as_days(cells if pa.types.is_temporal(cells.type) else texts(cells, rules))
        return np.full(len(cells), np.nan) if days is None else days
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if column.categories is not None:
        text = texts(cells, rules)
        found = pc.index_in(text, value_set=pa.array(column.categories))
        new = np.flatnonzero(pc.and_(found.is_null(), text.is_valid()))
        if new.size:
            warnings.warn(
                f"{column.name}: {text[int(new[0])].as_py()!r} is new (row {new[0]}, the first of "
                f"{new.size}); such cells count as missing",
                stacklevel=2,
            )
        return np.array(found.cast(pa.float64()).to_numpy(), dtype=np.float64)
    if not is_text(cells.type):
        values = plain_numbers(cells)
    elif column.kind == "yes/no":
        lower = pc.utf8_lower(texts(cells, rules))
        yes, no = (pc.is_in(lower, value_set=pa.array(words)) for words in (YES, NO))
        values = np.where(np.asarray(yes), 1.0, np.where(np.asarray(no), 0.0, np.nan))
    else:
        got = from_text(cells, rules.na, rules.comma)
        if got.strange.size and not got.mostly:
            cell = cells[int(got.strange[0])].as_py()
            raise ValueError(f"column {column.name!r} should hold numbers, but it holds {cell!r}.")
        values = np.where(np.isfinite(got.values), got.values, np.nan)
    if column.missing_codes:
        values[np.isin(values, column.missing_codes)] = np.nan
    return values


def _read_vector(column: TableColumn, cells: pa.ChunkedArray) -> np.ndarray:
    out = np.full((len(cells), column.width), np.nan)
    if not is_list(cells.type):
        raise ValueError(f"column {column.name!r} should hold lists of {column.width} numbers.")
    there = np.flatnonzero(np.asarray(cells.is_valid()))
    sizes = np.asarray(pc.list_value_length(cells.drop_null()))
    if (sizes != column.width).any():
        raise ValueError(
            f"column {column.name!r} should hold lists of {column.width} numbers, and one has "
            f"{sizes[sizes != column.width][0]}."
        )
    flat = pc.list_flatten(cells.drop_null())
    out[there] = plain_numbers(flat).reshape(-1, column.width)
    return out
