"""A table as a file holds it: named columns, numbers or not, one at a time or in blocks."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from madbayes.tables.errors import UserError, one_line
from madbayes.tables.limits import ROW_GROWTH, check_columns, check_growth

BATCH_ROWS = 65_536


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Damage that shows only when a part of the file is read, in one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError, KeyError) as error:
        text = f"{path} could not be read as a table: {one_line(error)[:300]} It may be damaged."
        raise UserError(text) from error


class Parquet:
    """Parquet files, one after another, read column by column or in blocks of rows; never whole."""

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self.files = []
        for path in paths:
            with whole(path):
                file = pa.parquet.ParquetFile(path)
            rows, columns = int(file.metadata.num_rows), int(file.metadata.num_columns)
            check_columns(path, columns)
            check_growth(path, 8 * rows * columns, ROW_GROWTH)
            self.files.append(file)
        first = self.files[0].schema_arrow
        for path, file in zip(paths, self.files, strict=True):
            other = set(file.schema_arrow.names)
            missing, more = set(first.names) - other, other - set(first.names)
            if missing or more:
                says = f"lacks the column {min(missing)}" if missing else f"also has {min(more)}"
                raise UserError(f"{path} {says}, unlike {paths[0]}. Files need the same columns.")
        try:
            schemas = [file.schema_arrow.remove_metadata() for file in self.files]
            self.schema = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowTypeError as error:
            raise UserError(f"The files do not fit together: {error}") from error

    def __len__(self) -> int:
        return sum(int(file.metadata.num_rows) for file in self.files)

    def column(self, j: int) -> pa.ChunkedArray:
        kind = self.schema.types[j]
        chunks = []
        for path, file in zip(self.paths, self.files, strict=True):
            with whole(path):
                column = file.read(columns=[self.schema.names[j]]).column(0)
                chunks += column.cast(kind).chunks
        return pa.chunked_array(chunks, kind)

    def batches(self, columns: Sequence[int], rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        names = [self.schema.names[j] for j in columns]
        for path, file in zip(self.paths, self.files, strict=True):
            found = file.iter_batches(rows, columns=names)
            while True:
                with whole(path):
                    batch = next(found, None)
                if batch is None:
                    break
                yield batch.select(names)

    def where(self, i: int) -> str:
        """Which row of which file."""
        if len(self.files) == 1:
            return f"row {i + 1}"
        ends = np.cumsum([file.metadata.num_rows for file in self.files])
        at = int(np.searchsorted(ends, i, side="right"))
        return f"row {i + 1 - (ends[at - 1] if at else 0)} of {self.paths[at].name}"


@dataclass(frozen=True)
class Frame:
    """Columns of equal length: an Arrow table, a NumPy matrix left where it is (memory map), or a
    Parquet file that is read bit by bit."""

    names: tuple[str, ...]
    columns: pa.Table | np.ndarray | Parquet
    notes: tuple[str, ...] = ()
    sheet_row: Callable[[int], int] = lambda i: i + 1  # how a spreadsheet counts row i
    comma: bool = False  # numbers may have a decimal comma

    @property
    def n_rows(self) -> int:
        return len(self.columns)

    def type(self, j: int) -> pa.DataType:
        return self._types[j]

    @cached_property
    def _types(self) -> list[pa.DataType]:
        if isinstance(self.columns, np.ndarray):
            return [pa.from_numpy_dtype(self.columns.dtype)] * len(self.names)
        return list(self.columns.schema.types)

    def column(self, j: int) -> pa.ChunkedArray:
        """TableColumn j, whole; categories as what they stand for."""
        if isinstance(self.columns, np.ndarray):
            return pa.chunked_array([pa.array(np.ascontiguousarray(self.columns[:, j]))])
        column = self.columns.column(j)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column

    def start(self, j: int, rows: int = 1000) -> pa.ChunkedArray:
        """The first cells of column j."""
        if isinstance(self.columns, np.ndarray):
            return pa.chunked_array([pa.array(np.ascontiguousarray(self.columns[:rows, j]))])
        if isinstance(self.columns, Parquet):
            batch = next((b for b in self.columns.batches([j], rows) if len(b)), None)
            cells = [] if batch is None else [batch.column(0).cast(self.type(j))]
            return pa.chunked_array(cells, self.type(j))
        return self.columns.column(j).slice(0, rows)

    def where(self, i: int) -> str:
        """ "row 7": as a spreadsheet counts it."""
        if isinstance(self.columns, Parquet):
            return self.columns.where(i)
        return f"row {self.sheet_row(i)}"


def distinct(names: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    """Names in one line, none empty, none twice; `notes` hears of it."""
    tidy = [" ".join(str(n).split()) or f"(unnamed {j})" for j, n in enumerate(names)]
    seen: Counter[str] = Counter()
    out = []
    for name in tidy:
        seen[name] += 1
        new = name if seen[name] == 1 else f"{name} ({seen[name]})"
        while seen[name] > 1 and new in tidy:
            seen[name] += 1
            new = f"{name} ({seen[name]})"
        out.append(new)
    again = sorted(name for name, times in Counter(tidy).items() if times > 1)
    if again:
        listed = ", ".join(again[:3]) + (", …" if len(again) > 3 else "")
        notes.append(f"several columns are called {listed}: the next one is {again[0]} (2)")
    return tuple(out)
