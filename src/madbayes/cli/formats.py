"""Files into columns: delimited text, Parquet and NumPy arrays.

`read(path)` gives a `Frame`: named columns as they are in the file, numbers or not. Which of them
are used is decided in `select.py`.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from madbayes.cli.errors import UserError, did_you_mean

TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", ".data": ","}
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
READABLE = "CSV, TSV (plain or .gz), Parquet (.parquet) and NumPy (.npy) files can be read"

HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Frame:
    """Columns of equal length: an Arrow table, or a NumPy matrix left where it is (memory map)."""

    names: tuple[str, ...]
    columns: pa.Table | np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        return len(self.columns)


def read(path: Path, *, text: Callable[[Path], Frame] | None = None) -> Frame:
    """Read a table by the end of its name, or say why not; `text` in place of `read_text`."""
    reader = _reader(path)
    if text is not None and reader is read_text:
        reader = text
    if not path.exists():
        near = did_you_mean(path.name, _names_in(path.parent))
        raise UserError(f"There is no file {path}.{near}")
    if path.is_dir():
        raise UserError(f"{path} is a directory. Give one file: {READABLE}.")
    try:
        if path.stat().st_size == 0:
            raise UserError(f"{path} is empty. It should hold one row per observation.")
        frame = reader(path)
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror or error}.") from error
    except (pa.ArrowException, ValueError, EOFError) as error:
        raise UserError(f"{path} could not be read as a table: {_one_line(error)}") from error
    if frame.n_rows == 0:
        raise UserError(f"{path} has column names but no rows. There is nothing to cluster.")
    return frame


def _reader(path: Path) -> Callable[[Path], Frame]:
    if path.is_dir():
        return read_text  # `read` tells directories apart from files with a strange name
    ending = _ending(path)
    if ending == ".npy":
        return read_npy
    if ending in {".parquet", ".pq"}:
        return read_parquet
    if ending in TEXT_DELIMITERS:
        return read_text
    raise UserError(f"{path} ends in {ending or 'no known ending'}. {READABLE}.")


def read_npy(path: Path) -> Frame:
    """A matrix (or a vector, taken as one column), memory-mapped rather than loaded."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise UserError(
            f"{path} holds an array of shape {array.shape}. Rows and columns are needed: "
            "reshape it to two dimensions."
        )
    if array.dtype.kind not in "fiub":
        raise UserError(f"{path} holds values of type {array.dtype}, which are not real numbers.")
    return Frame(tuple(f"x{j}" for j in range(array.shape[1])), array)


def read_parquet(path: Path) -> Frame:
    table = pa.parquet.read_table(path)
    return Frame(tuple(table.column_names), table)


def read_text(path: Path, *, spaces: bool = False, header: bool | None = None) -> Frame:
    """CSV and its relatives: delimiter, header, encoding and decimal mark are read off the file.

    `spaces`: a blank may divide columns, and lines at the top that start with # or % are comments.
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        head = stream.read(HEAD_BYTES)
    encoding, notes = _encoding(path, head)
    lines = head.decode(encoding, errors="replace").splitlines()
    comments = 0
    while spaces and comments < len(lines) and lines[comments].startswith(("#", "%")):
        comments += 1
    first_line = next(iter(lines[comments:]), "")
    if not first_line.strip():
        raise UserError(f"{path} starts with an empty line; column names are expected there.")
    delimiter = _delimiter(first_line, TEXT_DELIMITERS[_ending(path)])
    if spaces and delimiter not in first_line:
        delimiter = " "
    names = next(csv.reader(io.StringIO(first_line), delimiter=delimiter))
    numbers = all(_is_number(cell) for cell in names)
    has_header = not numbers if header is None else header
    if not has_header:
        names = [f"x{j}" for j in range(len(names))]
    if numbers and header is None:
        notes.append("the first line holds numbers, so it was read as data, not as column names")

    def parse(decimal_point: str) -> pa.Table:
        return pa.csv.read_csv(
            str(path),
            read_options=pa.csv.ReadOptions(
                encoding=encoding, autogenerate_column_names=not has_header, skip_rows=comments
            ),
            # In a file of one column an empty line is a missing value, elsewhere it is nothing.
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, ignore_empty_lines=len(names) > 1
            ),
            convert_options=pa.csv.ConvertOptions(decimal_point=decimal_point),
        )

    table = parse(".")
    if delimiter == ";":  # 3,14 is a number in much of Europe, and such files use semicolons
        with_commas = parse(",")
        if _n_numeric(with_commas) > _n_numeric(table):
            table = with_commas
            notes.append("numbers were read with a decimal comma")
    named = tuple(name.strip() or f"(unnamed {j})" for j, name in enumerate(names))
    return Frame(named, table, tuple(notes))


def _encoding(path: Path, head: bytes) -> tuple[str, list[str]]:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", []
    if b"\0" in head:
        raise UserError(f"{path} does not look like text, although its name says so. {READABLE}.")
    try:
        head[: head.rfind(b"\n") + 1 or None].decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1", ["the file is not UTF-8; its text was read as Latin-1"]
    return "utf-8-sig" if head.startswith(b"\xef\xbb\xbf") else "utf-8", []


def _delimiter(first_line: str, usual: str) -> str:
    if usual in first_line:
        return usual
    return next((mark for mark in (",", ";", "\t", "|") if mark in first_line), usual)


def _ending(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return plain.suffix.lower()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.strip().lower() not in {"nan", "inf", "infinity"}


def _n_numeric(table: pa.Table) -> int:
    return sum(pa.types.is_integer(t) or pa.types.is_floating(t) for t in table.schema.types)


def _names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."
