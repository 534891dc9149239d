"""Delimited text as it comes: encoding, delimiter, title rows, header and decimal mark.

The first records are looked at with Python's csv module, which knows quotes and line breaks inside
them; then Arrow reads the whole file with what was found.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from madbayes.tables.errors import UserError, one_line
from madbayes.tables.frame import Frame, distinct
from madbayes.tables.limits import MOST_LINE, Unpacked, check_columns
from madbayes.tables.numbers import PLAIN

USUAL = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", ".data": ",", ".edges": " "}
DELIMITERS = (",", ";", "\t", "|")
PACKED = (".gz", ".bz2", ".zst", ".lz4")
LOOK = 25  # records that decide


def read_text(
    path: Path,
    ending: str,
    *,
    skip_rows: int = 0,
    header: bool | None = None,
    comments: bool = False,
    headed: Callable[[list[list[str]], str], bool] | None = None,
) -> Frame:
    """A table of text. `header`: whether the first record names the columns (None: see whether it
    is numbers, or ask `headed`); `comments`: lines at the top that start with # or % are none."""
    head, encoding, notes = _head(path)
    lines = _lines(head)
    skipped = skip_rows
    marked = re.fullmatch(r"sep=(.)\s*", lines[0]) if lines and not skip_rows else None
    if marked:  # a line for Excel
        skipped = 1
    while comments and skipped < len(lines) and lines[skipped].startswith(("#", "%")):
        skipped += 1
    lines = lines[skipped:]
    if not "".join(lines).strip():
        raise UserError(f"{path} has no rows" + (" after --skip-rows." if skip_rows else "."))
    check_columns(path, max(lines[0].count(mark) + 1 for mark in DELIMITERS))
    delimiter = (
        marked[1] if marked else _delimiter(lines, USUAL.get(ending, ","), headed is not None)
    )
    records, ends = _records(lines, delimiter)
    names = records[0]
    check_columns(path, len(names))
    if not any(name.strip() for name in names):
        raise UserError(f"{path} starts with an empty line; column names are expected there.")
    _no_title(path, records, skipped)
    if header is None:
        header = headed(records, delimiter) if headed else not all(map(_is_number, names))
        if not header and not headed:
            notes.append("the first line holds numbers, so it was read as data, not column names")
    rows = records[1:] if header else records
    if not header:
        names = [f"x{j}" for j in range(len(names))]
    elif rows and len(rows[0]) == len(names) + 1:
        names = ["(row names)", *names]
    table = _parse(path, encoding, delimiter, skipped + ends[0] * header, len(names), lines)
    first, empty = 2 if header else 1, len(names) > 1
    return Frame(
        distinct(names, notes),
        table,
        tuple(notes),
        sheet_row=lambda i: _sheet_row(path, encoding, delimiter, skipped, i + first, empty),
        comma=delimiter == ";",
    )


def _lines(text: str) -> list[str]:
    """Lines with their ends, as files have them; str.splitlines knows ends that cells may hold."""
    return list(io.StringIO(text, newline=""))


def _head(path: Path) -> tuple[str, str, list[str]]:
    """The start of the file as text: at least one whole record, unless that is enormous."""
    size = 1 << 16
    while True:
        with Unpacked(path) as stream:
            raw = stream.read(size)
        encoding, notes = _encoding(path, raw)
        text = raw.decode(encoding, errors="replace")
        whole = len(raw) < size
        # Quotes come in pairs; the head may end within one, and with it the first record.
        if whole or text.count("\n") > LOOK or size >= MOST_LINE:
            break
        size *= 8
    if not whole and not re.search(r"[\r\n]", text):
        raise UserError(
            f"{path} has no end of a line in its first {len(raw):,} bytes. A table has one row a "
            "line."
        )
    return text if whole else text[: text.rfind("\n") + 1] or text, encoding, notes


def _encoding(path: Path, head: bytes) -> tuple[str, list[str]]:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", []
    if b"\0" in head:
        raise UserError(f"{path} does not look like text, although its name says so.")
    try:
        head[: head.rfind(b"\n") + 1 or None].decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8-sig" if head.startswith(b"\xef\xbb\xbf") else "utf-8", []
    # Windows-1252 is what Excel writes: Latin-1, with € and quotes for some control characters.
    gaps = re.search(rb"[\x81\x8d\x8f\x90\x9d]", head)
    name = "latin-1" if gaps else "cp1252"
    return name, ["the file is not UTF-8; its text was read as Latin-1 (Windows-1252)"]


def _records(lines: list[str], delimiter: str) -> tuple[list[list[str]], list[int]]:
    """The first records, and the line at which each ends. Empty lines are none."""
    records, ends = [], []
    csv.field_size_limit(8 * MOST_LINE)
    if delimiter == " ":
        for number, line in enumerate(islice(lines, LOOK), 1):
            if line.strip():
                records.append(_fields(line))
                ends.append(number)
        return records, ends
    reader = csv.reader(iter(lines), delimiter=delimiter)
    for record in islice(reader, LOOK):
        if record:
            records.append(record)
            ends.append(reader.line_num)
    return records or [[""]], ends or [1]


def _delimiter(lines: list[str], usual: str, edges: bool = False) -> str:
    """The mark that divides the first records into the most even number of fields."""
    if edges and any(re.match(r"\S+ +\S+ +\{.*\}$", line.strip()) for line in lines[:LOOK]):
        return " "  # networkx, with the data of each edge in braces
    best, found = (0.0, 0, False), usual
    for mark in DELIMITERS:
        counts = Counter(len(record) for record in _records(lines, mark)[0])
        fields, often = max(counts.items(), key=lambda item: (item[1], item[0]))
        score = (often / counts.total(), fields, mark == usual)
        if fields > 1 and (score[0], score[2], score[1]) > (best[0], best[2], best[1]):
            best, found = score, mark
    if best[1] or usual == "\t":
        return found
    records = _records(lines, " ")[0]
    cells = [cell for record in records for cell in record]
    even = len({len(record) for record in records[1:] or records}) == 1
    wide = len(records[-1]) > 1
    numbers = sum(map(_is_number, cells)) >= len(cells) / 2
    return " " if wide and even and (numbers or edges) else usual


def _no_title(path: Path, records: list[list[str]], skipped: int) -> None:
    """A title above the table has fewer fields than what follows."""
    widths = [len([c for c in record if c.strip()]) for record in records]
    usual = Counter(len(record) for record in records).most_common(1)[0][0]
    if len(records) > 2 and usual > 2 and widths[0] == 1 and len(records[0]) < usual:
        above = next(i for i, record in enumerate(records) if len(record) == usual)
        raise UserError(
            f"{path} seems to have a title above the table: its first line has one cell, later "
            f"ones {usual}. Leave it out with --skip-rows {skipped + above}."
        )


def _parse(
    path: Path, encoding: str, delimiter: str, skip: int, n_columns: int, lines: list[str]
) -> pa.Table:
    longest = max(map(len, lines[: LOOK + 1]))
    body: bytes | None = None
    if delimiter == " ":
        with Unpacked(path) as stream:
            text = stream.read().decode(encoding)
        body = "\n".join(map(_one_blank, _lines(text)[skip:])).encode()
        encoding, skip = "utf-8", 0

    def source() -> Any:
        if body is not None:
            return io.BytesIO(body)
        return Unpacked(path) if path.suffix.lower() in PACKED else str(path)

    def read(newlines: bool) -> pa.Table:
        return pa.csv.read_csv(
            source(),
            read_options=pa.csv.ReadOptions(
                encoding=encoding.removesuffix("-sig"),
                skip_rows=skip,
                column_names=[f"c{j}" for j in range(n_columns)],
                block_size=min(max(1 << 20, 8 * longest), 1 << 30),
                use_threads=n_columns < 5000,  # one task per column costs more than it saves
            ),
            # In a file of one column an empty line is a missing value, elsewhere it is nothing.
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter,
                ignore_empty_lines=n_columns > 1,
                newlines_in_values=newlines,
            ),
        )

    # Quotes may hold line breaks; a quote may come later than the lines that were looked at.
    for newlines in (False, True) if not any('"' in line for line in lines) else (True,):
        try:
            return read(newlines)
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return pa.table({f"c{j}": pa.nulls(0) for j in range(n_columns)})
            problem = error
    raise UserError(_ragged(path, problem, encoding, delimiter, skip, n_columns)) from problem


def _numbered(
    path: Path, encoding: str, delimiter: str, skip: int
) -> Iterator[tuple[int, int, list[str]]]:
    """The number of each record after `skip` lines, the line at which it starts, and its cells."""
    with (
        pa.input_stream(str(path), compression="detect") as stream,  # it was read before
        io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="") as text,
    ):
        for _ in range(skip):
            text.readline()
        line = skip + 1
        rows: Any = text if delimiter == " " else csv.reader(text, delimiter=delimiter)
        for number, row in enumerate(rows, skip + 1):
            yield number, line, _fields(row) if delimiter == " " else row
            line = number + 1 if delimiter == " " else skip + rows.line_num + 1


def _ragged(
    path: Path, error: Exception, encoding: str, delimiter: str, skip: int, n_columns: int
) -> str:
    """Which line has another number of cells than the first one."""
    for _, line, cells in _numbered(path, encoding, delimiter, skip):
        if cells and len(cells) != n_columns:
            have = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            return (
                f"{path} could not be read as a table: line {line} has {have}, the first line "
                f"{n_columns}. Correct that line; text that holds {delimiter!r} needs quotes."
            )
    text_of_error = one_line(error).removeprefix("CSV parse error: ")
    return f"{path} could not be read as a table: {text_of_error}"[:300]


def _fields(line: str) -> list[str]:
    """Fields apart by any blanks, except inside braces (networkx writes data of edges so)."""
    start, brace, rest = line.partition("{")
    fields = re.findall(r"[^ \t\r\n]+", start)
    return [*fields, (brace + rest).strip()] if brace else fields


def _one_blank(line: str) -> str:
    quoted = (cell.replace('"', '""') for cell in _fields(line))
    return " ".join(f'"{cell}"' if " " in cell else cell for cell in quoted)


def _sheet_row(
    path: Path, encoding: str, delimiter: str, skipped: int, wanted: int, ignore_empty: bool
) -> int:
    """The number that a spreadsheet shows beside the record, which counts empty lines too."""
    seen = 0
    for number, _, record in _numbered(path, encoding, delimiter, skipped):
        seen += bool(record) or not ignore_empty
        if seen == wanted:
            return number
    return skipped + wanted


def _is_number(cell: str) -> bool:
    text = cell.strip().lower()
    return re.match(PLAIN, text) is not None or re.match(r"^[-+]?\d+,\d+$", text) is not None
