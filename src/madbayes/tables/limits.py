"""How wide, deep and packed a file may be, asked before it is read.

Without limits a small file could fill the memory or end the process. They are far beyond tables
that people have.
"""

import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from madbayes.tables.errors import UserError

MOST_COLUMNS = 100_000  # Arrow keeps a buffer for each; ten times as many end the process
MOST_DEPTH = 64  # of lists and objects in JSON; Arrow's parser calls itself for each
MOST_LINE = 2**24  # bytes of the first line of a text file
# A packed file may grow to this many times its size; tables of numbers grow about tenfold, and up
# to about a hundredfold where most cells are equal.
MOST_GROWTH = 200
SMALL = 2**28  # bytes up to which no growth matters
ROW_GROWTH = 2000  # the same for Parquet, which stores equal cells once


def check_columns(path: Path, number: int) -> None:
    if number > MOST_COLUMNS:
        raise UserError(
            f"{path} has {number:,} columns, and the command reads at most {MOST_COLUMNS:,}. From "
            "Python, DPMeans().fit takes an array of any width."
        )


def check_growth(path: Path, unpacked: int, most: int = MOST_GROWTH) -> None:
    """`unpacked`: bytes that the content takes, or is seen to take so far."""
    packed = path.stat().st_size
    if unpacked > max(SMALL, most * packed):
        raise UserError(
            f"{path} has {packed:,} bytes and unpacks to {unpacked:,} or more, over {most} times "
            "as much. No table of measurements does; unpack it yourself if you trust it."
        )


def check_archive(path: Path) -> None:
    """An archive (.npz, .xlsx) by the sizes in its directory, which must fit into the file."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    check_growth(path, sum(member.file_size for member in members))
    if sum(member.compress_size for member in members) > path.stat().st_size:
        raise UserError(f"{path} is damaged: its parts are larger together than the file.")


class Unpacked:
    """A file, unpacked as it is read if its name says that it is packed; never without end."""

    closed = False

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, 0
        self.stream = pa.input_stream(str(path), compression="detect")

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size != 0:
            part = self.stream.read(2**20 if size < 0 else min(size, 2**20))
            if not part:
                break
            self.seen += len(part)
            check_growth(self.path, self.seen)
            parts.append(part)
            size -= len(part) if size > 0 else 0
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.stream.close()

    def __enter__(self) -> "Unpacked":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def check_depth(path: Path) -> None:
    """How deep lists and objects of a JSON file are nested; brackets in text do not count."""
    depth, left = 0, b""
    with Unpacked(path) as stream:
        while part := stream.read(2**20):
            text = left + part
            end = text.rfind(b"\n") + 1
            text, left = (text, b"") if len(text) > MOST_LINE else (text[:end], text[end:])
            depth = _depth(path, text, depth)
    _depth(path, left, depth)


def _depth(path: Path, text: bytes, depth: int) -> int:
    """The depth at the end of the text, or an error when it is too much on the way."""
    for line in text.split(b"\n"):
        opened = line.count(b"{") + line.count(b"[")
        if depth + opened <= MOST_DEPTH and opened == line.count(b"}") + line.count(b"]"):
            continue
        for mark in re.findall(rb"[\[\]{}]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", line)):
            depth += 1 if mark in b"[{" else -1
            if depth > MOST_DEPTH:
                raise UserError(
                    f"{path} holds lists or objects more than {MOST_DEPTH} deep in one another. A "
                    "table has one object of plain values for each row."
                )
    return depth
