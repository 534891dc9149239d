"""Files into frames, by the end of their name (or, from standard input, by how they start)."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.json

from madbayes.tables.errors import UserError, did_you_mean, one_line
from madbayes.tables.frame import Frame, Parquet, distinct
from madbayes.tables.limits import Unpacked, check_archive, check_columns, check_depth
from madbayes.tables.text import PACKED, USUAL, read_text

READABLE = (
    "CSV and TSV (plain or .gz), Parquet, Feather, Excel (.xlsx), JSON lines and NumPy (.npy, "
    ".npz) files can be read"
)


@contextmanager
def given(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files themselves; standard input (`-`) as a file for the time being."""
    if [str(path) for path in files] != ["-"]:
        yield [inside for path in files for inside in _inside(path)]
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise UserError("- reads the table from standard input: pipe a file into the command.")
    try:
        folder = tempfile.mkdtemp(prefix="madbayes-")
    except OSError as error:
        raise UserError(f"Standard input could not be kept: {error.strerror}.") from error
    try:
        yield [_kept(Path(folder))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kept(folder: Path) -> Path:
    """Standard input as a file, called by what it is."""
    file = folder / "stdin"
    try:
        with file.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out, 2**20)
    except OSError as error:
        raise UserError(
            f"Standard input could not be kept in {folder.parent}: {error.strerror}. The variable "
            "TMPDIR names another place for temporary files."
        ) from error
    with file.open("rb") as stream:
        start = stream.read(8)
        stream.seek(max(0, file.stat().st_size - 65_536))
        end = stream.read()
    magic = {
        b"PAR1": ".parquet",
        b"ARROW1": ".feather",
        b"\x93NUMPY": ".npy",
        b"\x1f\x8b": ".csv.gz",
        b"\x28\xb5\x2f\xfd": ".csv.zst",
        b"{": ".jsonl",
    }
    ending = next((e for mark, e in magic.items() if start.startswith(mark)), ".csv")
    if start.startswith(b"PK\x03\x04"):
        ending = ".xlsx" if b"xl/" in end else ".npz"
    return file.rename(folder / f"stdin{ending}")


def called(files: Sequence[Path]) -> str:
    """What the table is called in titles."""
    if len(files) == 1:
        return "standard input" if str(files[0]) == "-" else files[0].name
    return f"{len(files)} files from {files[0].name} to {files[-1].name}"


def _inside(path: Path) -> list[Path]:
    """The Parquet files of a folder; anything else as it is."""
    found = sorted(path.rglob("*.parquet")) if path.is_dir() else []
    return [p for p in found if not p.name.startswith((".", "_"))] or [path]


def read(*files: Path, sheet: str | None = None, **text_options: Any) -> Frame:
    """Read a table by the end of its name, or say why not; other options are those of text."""
    path = files[0]
    if sheet is not None and (len(files) > 1 or _ending(path) != ".xlsx"):
        raise UserError(f"--sheet {sheet} is for Excel files, and {path} is none.")
    if len(files) > 1:
        return _read_several(files)
    if not path.exists():
        _reader(path)
        near = did_you_mean(path.name, _names_in(path.parent))
        raise UserError(f"There is no file {path}.{near}")
    if path.is_dir():
        raise UserError(f"{path} is a directory without Parquet files. Give one file: {READABLE}.")
    reader = _reader(path)
    try:
        if path.stat().st_size == 0:
            raise UserError(f"{path} is empty. It should hold one row per observation.")
        if reader is read_text:
            frame = read_text(path, _ending(path), **text_options)
        elif reader is read_xlsx:
            frame = read_xlsx(path, text_options.get("skip_rows", 0), sheet)
        else:
            frame = reader(path)
    except (UserError, MemoryError):
        raise
    except OSError as error:
        raise UserError(
            f"{path} could not be read: {error.strerror or one_line(error)}."
        ) from error
    except Exception as error:  # a damaged file can make its parser raise anything
        raise UserError(f"{path} could not be read as a table: {one_line(error)[:300]}") from error
    check_columns(path, len(frame.names))
    if frame.n_rows == 0:
        raise UserError(f"{path} has column names but no rows. There is nothing to cluster.")
    return frame


def _read_several(files: Sequence[Path]) -> Frame:
    """Parquet files as one table."""
    for path in files:
        if not path.exists():
            raise UserError(f"There is no file {path}.")
        if _ending(path) not in (".parquet", ".pq"):
            raise UserError(
                f"{path}: several files are read as one table only if all are Parquet files."
            )
    source = Parquet(*files)
    if not len(source):
        raise UserError("The files have column names but no rows. There is nothing to cluster.")
    return Frame(tuple(source.schema.names), source)


def _reader(path: Path) -> Callable[..., Frame]:
    ending = _ending(path)
    readers: dict[str, Callable[..., Frame]] = {
        ".npy": read_npy,
        ".npz": read_npz,
        ".parquet": read_parquet,
        ".pq": read_parquet,
        ".feather": read_feather,
        ".arrow": read_feather,
        ".jsonl": read_json,
        ".ndjson": read_json,
        ".json": read_json,
        ".xlsx": read_xlsx,
    }
    if ending in USUAL:
        return read_text
    if ending in (".xls", ".ods", ".numbers"):
        raise UserError(f"{path} is a spreadsheet of another kind. Save it as .xlsx or .csv.")
    if ending not in readers:
        raise UserError(f"{path} ends in {ending or 'no known ending'}. {READABLE}.")
    return readers[ending]


def _matrix(path: Path, array: np.ndarray) -> Frame:
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise UserError(
            f"{path} holds an array of shape {array.shape}. Rows and columns are needed: "
            "reshape it to two dimensions."
        )
    if array.dtype.kind not in "fiub":
        raise UserError(f"{path} holds values of type {array.dtype}, which are not real numbers.")
    if array.shape[1] == 0:
        raise UserError(f"{path} holds an array of shape {array.shape}, which has no columns.")
    check_columns(path, array.shape[1])
    notes: tuple[str, ...] = ()
    if array.dtype == np.longdouble and array.dtype.itemsize > 8:
        array, notes = array.astype(np.float64), ("its long doubles were read as float64",)
    if not array.dtype.isnative:  # of a processor with the other order of bytes
        array = array.astype(array.dtype.newbyteorder("="))
    return Frame(tuple(f"x{j}" for j in range(array.shape[1])), array, notes)


def read_npy(path: Path) -> Frame:
    """A matrix (or a vector, taken as one column), memory-mapped rather than loaded."""
    return _matrix(path, np.load(path, mmap_mode="r", allow_pickle=False))


def read_npz(path: Path) -> Frame:
    """The matrix in it: the one called X, or the only one of two dimensions."""
    check_archive(path)
    with np.load(path, allow_pickle=False) as file:
        names = list(file)
        if {"indptr", "shape", "data"} <= set(names):
            raise UserError(
                f"{path} holds a sparse matrix. From Python: "
                "DPMeans().fit(scipy.sparse.load_npz(file)); the command reads tables."
            )
        if "header" in names and "a0" in names:
            raise UserError(f"{path} is a saved model, not a table: madbayes predict uses it.")
        arrays = {name: file[name] for name in names}
    tables = [n for n in names if arrays[n].ndim == 2 and arrays[n].dtype.kind in "fiub"]
    chosen = "X" if "X" in names else tables[0] if len(tables) == 1 else None
    if chosen is None:
        listed = ", ".join(f"{n} {arrays[n].shape}" for n in names[:8])
        raise UserError(f"{path} holds {listed}: call the one to be read X.")
    frame = _matrix(path, arrays[chosen])
    others = ", ".join(name for name in names if name != chosen)
    note = (f"the array {chosen} was read, not {others}",) if others else ()
    return Frame(frame.names, frame.columns, (*frame.notes, *note))


def read_parquet(path: Path) -> Frame:
    source = Parquet(path)
    notes: list[str] = []
    if len(set(source.schema.names)) < len(source.schema.names):
        table = pa.parquet.read_table(path)
        return Frame(distinct(table.column_names, notes), table, tuple(notes))
    return Frame(tuple(source.schema.names), source)


def read_feather(path: Path) -> Frame:
    table = pa.feather.read_table(str(path), memory_map=True)
    table.validate(full=True)  # otherwise Arrow believes whatever the file says
    notes: list[str] = []
    return Frame(distinct(table.column_names, notes), table, tuple(notes))


def read_json(path: Path) -> Frame:
    """One object a line, or one list of objects."""
    check_depth(path)
    with Unpacked(path) as stream:
        start = stream.read(64).lstrip()
    if start.startswith(b"["):
        with Unpacked(path) as stream:
            records = json.loads(stream.read())
        if not all(isinstance(record, dict) for record in records):
            raise UserError(f"{path} should hold objects, one for each row.")
        table = pa.Table.from_pylist(records)
    else:
        table = pa.json.read_json(str(path))
    notes: list[str] = []
    return Frame(distinct(table.column_names, notes), table, tuple(notes))


def read_xlsx(path: Path, skip_rows: int = 0, name: str | None = None) -> Frame:
    """The sheet of that name; without one the fullest, because others are covers and notes."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise UserError(
            f'{path} is an Excel file: pip install "madbayes[excel]" reads it, or save it as CSV.'
        ) from None
    try:
        check_archive(path)
        book = load_workbook(path, read_only=True, data_only=True)
    except UserError:
        raise
    except Exception as error:  # whatever openpyxl says about a file that is not one
        raise UserError(f"{path} could not be read as an Excel file: {one_line(error)}") from error
    notes: list[str] = []
    titles = [sheet.title for sheet in book.worksheets]
    if name is not None and name not in titles:
        near = did_you_mean(name, titles)
        raise UserError(f"--sheet {name}: {path} has the sheets {', '.join(titles)}.{near}")
    sheets = {}
    for sheet in book.worksheets:
        if name is None or sheet.title == name:
            sheet.reset_dimensions()  # as large as its cells, whatever it says
            sheets[sheet.title] = [list(row) for row in sheet.iter_rows(values_only=True)]
    title = max(sheets, key=lambda t: sum(cell is not None for row in sheets[t] for cell in row))
    rows = sheets[title]
    if not any(cell is not None for row in rows for cell in row):
        raise UserError(f"{path} is empty.")
    if len(titles) > 1 and name is None:
        notes.append(f"of {len(titles)} sheets {title!r} was read, the fullest; --sheet names one")
    filled = [sum(cell is not None for cell in row) for row in rows]
    first = next((i for i in range(skip_rows, len(rows)) if filled[i]), None)
    if first is None:
        raise UserError(f"{path} has no rows after --skip-rows {skip_rows}.")
    if filled[first] == 1 and max(filled) > 2:
        above = next(i for i, n in enumerate(filled) if n > 1)
        raise UserError(
            f"{path} seems to have a title above the table. Leave it out with --skip-rows {above}."
        )
    header = any(isinstance(cell, str) for cell in rows[first])
    body = [i for i in range(first + header, len(rows)) if filled[i]]
    width = max(j + 1 for row in rows[first:] for j, cell in enumerate(row) if cell is not None)
    cells = [
        [row[j] if j < len(row) else None for row in map(rows.__getitem__, body)]
        for j in range(width)
    ]
    top = [*rows[first], *[None] * width][:width] if header else [f"x{j}" for j in range(width)]
    names = distinct(["" if name is None else str(name) for name in top], notes)
    table = pa.table([_cells(column) for column in cells], [f"c{j}" for j in range(width)])
    return Frame(names, table, tuple(notes), lambda i: body[i] + 1)


def _cells(values: list[Any]) -> pa.Array:
    """Cells of one kind as they are; of several as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if v is None else str(v) for v in values])


def _ending(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return plain.suffix.lower()


def _names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
