"""Read Parquet files and tables as rows of numbers, in batches."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._rows.blocks import Part, rows_at_once


def arrow() -> Any:
    """pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ImportError(
            'Parquet files are read by pyarrow: pip install "madbayes[cli]".'
        ) from None
    return pyarrow


Stream = Iterator[tuple[str, int, np.ndarray]]  # file or block, its row that comes first, rows


class ParquetFile:
    """The columns of numbers of one file."""

    def __init__(
        self, path: Path, columns: Sequence[str] | None, unchanged: Callable[[], None]
    ) -> None:
        pa = arrow()
        self.path, self._unchanged = path, unchanged
        try:
            file = pa.parquet.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{path} cannot be read as a Parquet file: {error}") from error
        schema, meta = file.schema_arrow, file.metadata
        self.n = meta.num_rows
        self._groups = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
        self.columns = choose(schema, columns, str(path))
        fields = [schema.field(name) for name in self.columns]
        self._widths = [self._width(file, field) for field in fields]
        self.d = sum(self._widths)
        self.dtype = np.result_type(*(number_type(field.type) for field in fields))
        self.names = spread(self.columns, self._widths)

    def _width(self, file: Any, field: Any) -> int:
        if not is_list(field.type):
            return 1
        first = next(file.iter_batches(1, columns=[field.name]), None)
        return 0 if first is None or not len(first) else len(first.column(0)[0])

    def parts(self) -> Iterator[Part]:
        """The row groups."""
        for g, n in enumerate(self._groups):
            name = f"{self.path}, row group {g}"
            yield Part(n, name, partial(self._group, g))

    def _group(self, g: int) -> np.ndarray:
        return np.concatenate([block for _, _, block in self.stream([g])])

    def stream(self, groups: list[int] | None = None) -> Stream:
        """Rows of the file, or of some row groups, from the first to the last."""
        self._unchanged()
        file = arrow().parquet.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False)
        size = rows_at_once(self.d, 2**21)  # values that are decoded at a time
        start = 0
        for batch in file.iter_batches(
            size, row_groups=groups, columns=self.columns, use_threads=False
        ):
            name = str(self.path)
            yield name, start, matrix(batch, self.columns, self._widths, self.dtype, name)
            start += len(batch)
        arrow().default_memory_pool().release_unused()
        self._unchanged()


def choose(schema: Any, columns: Sequence[str] | None, name: str) -> list[str]:
    """The columns to read, or an error if there are none or if one is missing."""
    if columns is None:
        found = [field.name for field in schema if number_type(field.type) is not None]
        if not found:
            raise ValueError(f"{name} has no column of numbers: {schema.names[:8]}.")
        return found
    for column in columns:
        if column not in schema.names:
            raise ValueError(f"{name} has no column {column!r}; it has {schema.names[:8]}.")
        if number_type(schema.field(column).type) is None:
            kind = schema.field(column).type
            raise ValueError(f"{name}: column {column!r} holds {kind}, not numbers.")
    return list(columns)


def number_type(kind: Any) -> Any:
    """NumPy's type for a type of Arrow; None where it is not a number."""
    types = arrow().types
    if is_list(kind):
        return None if is_list(kind.value_type) else number_type(kind.value_type)
    if types.is_boolean(kind):
        return np.int8
    if types.is_decimal(kind):
        return np.float64
    if types.is_integer(kind) or types.is_floating(kind):
        return kind.to_pandas_dtype()
    return None


def is_list(kind: Any) -> bool:
    types = arrow().types
    return types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)


def spread(columns: Sequence[str], widths: Sequence[int]) -> tuple[str, ...]:
    """A name for each column of numbers."""
    return tuple(
        name if width == 1 else f"{name}[{j}]"
        for name, width in zip(columns, widths, strict=True)
        for j in range(width)
    )


def matrix(
    batch: Any, columns: Sequence[str], widths: Sequence[int], dtype: Any, name: str
) -> np.ndarray:
    """Columns side by side; what is missing becomes NaN."""
    out, place = np.empty((len(batch), sum(widths)), dtype=dtype), 0
    for column, width in zip(columns, widths, strict=True):
        cells = batch.column(batch.schema.get_field_index(column))
        if is_list(cells.type):
            flat = cells.flatten()
            if cells.null_count or len(flat) != width * len(cells) or not even(cells, width):
                raise ValueError(
                    f"{name}: column {column!r} has lists of different lengths (or none); the "
                    f"first has {width} numbers."
                )
            out[:, place : place + width] = values(flat).reshape(len(cells), width)
        else:
            out[:, place] = values(cells)
        place += width
    return out


def even(cells: Any, width: int) -> bool:
    lengths = np.asarray(cells.value_lengths())
    return bool((lengths == width).all())


def values(cells: Any) -> np.ndarray:
    """Cells as floats or integers; NaN where there is none."""
    pa = arrow()
    if pa.types.is_boolean(cells.type) or pa.types.is_decimal(cells.type) or cells.null_count:
        cells = cells.cast(pa.float64())
    return np.asarray(cells.to_numpy(zero_copy_only=False))


def numbers(block: Any, name: str, columns: Sequence[str] | None = None) -> np.ndarray:
    """A block that a user's function returned, as a 2-d array of numbers."""
    if hasattr(block, "column_names") and hasattr(block, "schema"):  # of pyarrow
        batch = block.combine_chunks().to_batches() if hasattr(block, "to_batches") else [block]
        names = choose(block.schema, columns, name)
        parts = [matrix(b, names, *_sizes(b, names), name) for b in batch if len(b)]
        return np.concatenate(parts) if parts else np.empty((0, len(names)))
    if columns is not None:
        try:
            block = block[list(columns)]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"{name} has no columns {list(columns)}: {error}") from error
    array = np.asarray(block)
    if array.dtype == object:
        array = array.astype(np.float64)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} has the shape {array.shape} and the type {array.dtype}; rows of numbers are "
            "needed."
        )
    return array


def _sizes(batch: Any, names: Sequence[str]) -> tuple[list[int], Any]:
    fields = [batch.schema.field(name) for name in names]
    kinds = [number_type(field.type) for field in fields]
    lists = [is_list(field.type) for field in fields]
    widths = [
        len(batch.column(batch.schema.get_field_index(name))[0]) if nested else 1
        for name, nested in zip(names, lists, strict=True)
    ]
    return widths, np.result_type(*kinds)
