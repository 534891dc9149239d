"""Tables of Python as a `Frame`: pandas, polars, Arrow, dictionaries, records, arrays; and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from madbayes.tables.frame import Frame, Parquet, distinct


def as_frame(table: Any) -> Frame:
    """Any table as named Arrow columns, with nested fields as columns of their own."""
    if isinstance(table, Frame):
        return flattened(table)
    kind = container(table)
    if type(table).__name__ == "LazyFrame":
        table = table.collect()
    notes: list[str] = []
    if kind == "array":
        return _from_array(np.asarray(table))
    if kind == "pandas":
        names = [str(name) for name in table.columns]
        columns = [_from_pandas(table.iloc[:, j]) for j in range(len(names))]
    elif kind == "records":
        return as_frame(pa.Table.from_pylist(list(table)))
    elif kind == "dict":
        names = [str(name) for name in table]
        columns = [_from_sequence(values) for values in table.values()]
        if len({len(column) for column in columns}) > 1:
            sizes = ", ".join(f"{n}: {len(c)}" for n, c in zip(names, columns, strict=True))
            raise ValueError(f"the columns of the table have different lengths ({sizes[:200]}).")
    else:
        if kind == "polars":
            table = table.to_arrow()
        elif isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        names, columns = list(table.column_names), list(table.columns)
    if not names:
        raise ValueError("0 feature(s): the table has no columns (a minimum of 1 is required).")
    flat = pa.table(columns, [f"c{j}" for j in range(len(columns))])
    return flattened(Frame(distinct(names, notes), flat, tuple(notes)))


def container(table: Any) -> str:
    """What sort of table this is: the sort in which results are given back."""
    module = type(table).__module__.partition(".")[0]
    if module == "scipy":
        raise TypeError(
            f"Sparse input is not supported: a {type(table).__name__} is a matrix without kinds of "
            "columns. Give it to DPMeans or NeighborCut directly."
        )
    if isinstance(table, pa.Table | pa.RecordBatch):
        return "arrow"
    if module == "pandas" and hasattr(table, "iloc") and hasattr(table, "columns"):
        return "pandas"
    if module == "polars" and type(table).__name__ in ("DataFrame", "LazyFrame"):
        return "polars"
    if isinstance(table, Mapping):
        return "dict"
    if isinstance(table, list | tuple) and table and all(isinstance(r, dict) for r in table):
        return "records"
    if isinstance(table, np.ndarray | list | tuple) or hasattr(table, "__array__"):
        return "array"
    raise TypeError(
        f"the table is a {type(table).__name__}; accepted are a pandas or polars data frame, an "
        "Arrow table, a dictionary of columns, a list of records or a 2-d array."
    )


def like(kind: str, columns: dict[str, Any], index: Any = None) -> Any:
    """Columns in the sort of table that `container` named; a dictionary where that is unknown."""
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(columns, index=index)
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(columns)
    if kind == "arrow":
        return pa.table(columns)
    return columns


def _from_array(array: np.ndarray) -> Frame:
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported: the table holds complex numbers.")
    if array.ndim != 2:
        raise ValueError(
            f"the table has the shape {array.shape}: expected 2D array of rows and columns. "
            "Reshape your data: one row for each observation."
        )
    if array.shape[1] == 0:
        raise ValueError(f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    names = tuple(f"x{j}" for j in range(array.shape[1]))
    if array.dtype.kind in "fiub":
        return Frame(names, array)
    columns = [_from_sequence(list(array[:, j])) for j in range(array.shape[1])]
    return Frame(names, pa.table(columns, list(names)))


def _from_pandas(series: Any) -> Any:
    try:
        return pa.chunked_array(pa.Array.from_pandas(series))
    except (pa.ArrowException, TypeError, ValueError):
        pass
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return _as_text(list(series))


def _from_sequence(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if type(values).__module__.startswith("pandas"):
        return _from_pandas(values)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return _as_text(list(values))


def _as_text(values: Sequence[Any]) -> pa.Array:
    """Cells of several types as text; None and NaN stay missing."""
    return pa.array([None if v is None or v != v else str(v) for v in values], pa.string())


def flattened(frame: Frame) -> Frame:
    """Nested columns as several: `address.city`. Text that holds JSON objects is nested, too."""
    if isinstance(frame.columns, np.ndarray):
        return frame
    nested = [j for j in range(len(frame.names)) if _is_nested(frame, j)]
    if not nested:
        return frame
    names: list[str] = []
    columns: list[Any] = []
    for j, name in enumerate(frame.names):
        column = frame.column(j)
        if j in nested and not pa.types.is_struct(column.type):
            column = pa.chunked_array([pa.array(_parsed(column))])
        if not pa.types.is_struct(column.type):
            names.append(name)
            columns.append(column)
            continue
        for field, part in zip(column.type, column.flatten(), strict=True):
            names.append(f"{name}.{field.name}")
            columns.append(part)
    notes = list(frame.notes)
    notes.append(f"nested fields became columns: {', '.join(frame.names[j] for j in nested)}")
    table = pa.table(columns, [f"c{j}" for j in range(len(columns))])
    named = distinct(names, notes)
    return flattened(Frame(named, table, tuple(notes), frame.sheet_row, frame.comma))


def _is_nested(frame: Frame, j: int) -> bool:
    kind = frame.type(j)
    if pa.types.is_struct(kind):
        return True
    if isinstance(frame.columns, Parquet) or not is_text(kind):
        return False
    start = [cell for cell in frame.start(j, 20).to_pylist() if cell]
    if not start or not all(cell.lstrip().startswith(("{", "[")) for cell in start):
        return False
    return _parsed(frame.column(j)) is not None


def _parsed(column: pa.ChunkedArray) -> list[Any] | None:
    """Text cells as JSON objects or lists of numbers; None where a cell is something else."""
    try:
        cells = [json.loads(cell) if cell else None for cell in column.to_pylist()]
        pa.array(cells)
    except (ValueError, pa.ArrowException, RecursionError):
        return None
    return cells if all(c is None or isinstance(c, dict | list) for c in cells) else None


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
