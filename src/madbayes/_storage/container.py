"""Files that hold arrays and JSON, checked and whole: saved models and checkpoints are such files.

A file is an uncompressed npz: `header` is JSON, `a0`, `a1`, … are the arrays that it names. The
comment of the archive is the SHA-256 of everything before it, so a file that was cut or changed
anywhere is noticed before anything in it is looked at. Nothing is compressed, members follow one
another without overlap, and every array is as large as it says: reading takes no more memory than
about the size of the file. Nothing is unpickled.
"""

import hashlib
import json
import math
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

MARK = b"sha256:"
COMMENT = len(MARK) + 64


class Kind(NamedTuple):
    """What a file is for, in the words of errors."""

    format: str  # in its header
    version: int  # the newest that can be read
    what: str  # "madbayes model"
    maker: str  # "model.save"
    again: str  # what to do when it is damaged


class Refused(Exception):
    """Why a file is not read, to be put behind its name."""


@contextmanager
def refusing(name: str, kind: Kind) -> Iterator[None]:
    """Whatever a file provokes becomes one line that names the file and says what to do.

    A crafted file can make the parsers of zip archives, npy headers and JSON raise almost any
    exception. None of them is about the program, so all are caught.
    """
    try:
        yield
    except Refused as error:
        raise ValueError(f"{name} {error}") from None
    except Exception as error:
        what = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise ValueError(f"{name} cannot be read as a {kind.what}: {what}. {kind.again}") from error


def write(path: Path, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Replace the file whole or not at all, also when the power fails."""
    with replacing(path, "w+b") as stream:
        _write(stream, header, arrays)
    if os.name == "posix":  # the new name, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def replacing(path: Path, mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """A stream to a new file that takes the place of `path` at the end; none if the block raises.

    `options` are those of `open`.
    """
    handle, partial = tempfile.mkstemp(".part", f".{path.name}-", path.absolute().parent)
    try:
        with os.fdopen(handle, mode, **options) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(partial, 0o666 & ~umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(stream: IO[bytes], header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    text = np.array(json.dumps(header, ensure_ascii=False, allow_nan=False))
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = bytes(COMMENT)
        for name, array in [("header", text), *((f"a{i}", a) for i, a in enumerate(arrays))]:
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: same content, same bytes
            with archive.open(member, "w", force_zip64=array.nbytes > 2**30) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    digest = _digest(stream, size - COMMENT)
    stream.seek(size - COMMENT)
    stream.write(digest)


def read(
    stream: IO[bytes], kind: Kind, max_bytes: int | None = None
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header and the arrays of a file that `write` made, or `Refused`."""
    head = stream.read(8)
    size = stream.seek(0, os.SEEK_END)
    if head[:1] == b"\x80" or head.startswith((b"cnumpy", b"ccopy_reg")):
        raise Refused(f"is a pickle, which could run any code when read. Save with {kind.maker}.")
    if not head.startswith(b"PK\x03\x04"):
        raise Refused(f"is not a {kind.what}: files written by {kind.maker} are npz files.")
    if max_bytes is not None and size > max_bytes:
        raise Refused(f"has {size:,} bytes, more than max_bytes={max_bytes:,}.")
    stream.seek(max(size - COMMENT, 0))
    given = stream.read()
    if not given.startswith(MARK):
        whole = zipfile.is_zipfile(stream)
        raise Refused(
            f"is an npz or zip file, but no {kind.what}: {kind.maker} writes those."
            if whole
            else f"is cut short or damaged. {kind.again}"
        )
    if given != _digest(stream, size - COMMENT):
        raise Refused("was changed or damaged after it was saved: its checksum does not match.")
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        names = ["header.npy", *(f"a{i}.npy" for i in range(len(members) - 1))]
        if [m.filename for m in members] != names or any(m.compress_type for m in members):
            raise Refused(f"is not laid out as {kind.maker} does it.")
        _no_overlap(archive, members)
        header = json.loads(str(_array(archive, members[0])))
        if not isinstance(header, dict) or header.get("format") != kind.format:
            raise Refused(f"is not a {kind.what}: its header says something else.")
        if header["version"] > kind.version:
            raise Refused(
                f"was saved by madbayes {header['versions']['madbayes']} in format "
                f"{header['version']}; this version reads formats up to {kind.version}. Update "
                "madbayes."
            )
        return header, [_array(archive, member) for member in members[1:]]


def _no_overlap(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> None:
    """Members lie one after another before the directory, so together they are in the file once."""
    starts = [member.header_offset for member in members]
    for member, end in zip(members, [*starts[1:], archive.start_dir], strict=True):
        room = end - member.header_offset - 30 - len(member.filename)  # 30 bytes before the name
        if not 0 <= member.compress_size == member.file_size <= room:
            raise Refused(f"holds {member.filename} over other parts of the file. It was forged.")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(cast(Any, stream))
        reader = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        shape, _, dtype = reader[version](cast(Any, stream))
        left = member.file_size - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != left:
        raise Refused(f"holds an array of {shape} {dtype} in {left} bytes, which cannot be.")
    with archive.open(member) as stream:
        array = np.lib.format.read_array(cast(Any, stream), allow_pickle=False)
    array = array.astype(
        array.dtype.newbyteorder("="), copy=False
    )  # from a machine of another kind
    if array.dtype.kind not in "biufcUSMm":  # numbers, text and dates
        raise Refused(f"holds an array of the type {dtype}, which no model has.")
    if array.dtype.kind == "U" and array.size and array.itemsize:
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.view(np.uint32).max() > sys.maxunicode:
            raise Refused("holds text with characters that do not exist.")
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise Refused("holds yes and no as something else than 0 and 1.")
    return array


def _digest(stream: IO[bytes], size: int) -> bytes:
    stream.seek(0)
    sha = hashlib.sha256()
    while size > 0 and (block := stream.read(min(size, 1 << 20))):
        sha.update(block)
        size -= len(block)
    return MARK + sha.hexdigest().encode()
