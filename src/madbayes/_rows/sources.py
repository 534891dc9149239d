"""Rows that are not in memory, as one table: files, and functions that return blocks.

`blocks(...)` finds the numbers of rows and columns, and their type. Sources that must be decoded or
can be read only once (Parquet, iterators) are written once, as plain numbers, to a temporary file
that is then mapped into memory. So every pass is as quick as on an array, and later changes of the
sources do not matter. NumPy files, and blocks that single functions return, are not copied.
"""

import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._rows.blocks import Blocks, Part, check_finite, rows_at_once
from madbayes._rows.parquet import ParquetFile, Stream, numbers


def blocks(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    dtype: Any = None,
    spool: bool | str | os.PathLike[str] = True,
) -> Blocks:
    """A table that is too large for memory, for the estimators that read X block by block.

    Parameters
    ----------
    source : path, pattern, list of paths, callable or list of callables
        Parquet and NumPy (.npy) files: one, a folder, a pattern such as ``"big/*.parquet"``, or a
        list, in this order. A callable returns an iterator of blocks; of a list of callables each
        returns one block. Blocks are arrays or tables of the same columns.
    columns : list of str, optional
        The columns of Parquet files and tables to read. By default all that hold numbers; a column
        of lists of one length counts as that many columns.
    dtype : {"float32", "float64"}, optional
        The type of the numbers. By default float32 where that loses nothing, else float64.
    spool : bool or path, default=True
        Parquet files and iterators are decoded once, into a temporary file that is as large as the
        numbers are in memory and is gone at the end; a path names the folder for it. False reads
        Parquet files (row group by row group) again for every pass. NumPy files and lists of
        callables are never copied.

    Returns
    -------
    Blocks
        For `fit`, `predict` and the like. ``X.shape``, ``X.dtype``, ``X[rows]`` as of an array; a
        loop over it gives its blocks in order.

    Examples
    --------
    >>> import numpy as np
    >>> import madbayes
    >>> def read():
    ...     for start in (0, 100, 200):
    ...         yield np.arange(start, start + 100.0)[:, None]
    >>> X = madbayes.blocks(read)
    >>> X.shape
    (300, 1)
    >>> madbayes.KMeans(3, random_state=0).fit(X).labels_.shape
    (300,)
    """
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} must be 'float32', 'float64' or None.")
    folder = check_folder(spool)
    if callable(source):
        if folder is None:
            raise ValueError(
                "spool=False cannot read a callable that returns an iterator again and again from "
                "any place. Give a list of callables, one for each block, or leave spool at True."
            )
        return spooled(named_blocks(source(), columns), dtype, None, folder)
    several = isinstance(source, list | tuple)
    if several and source and all(callable(one) for one in source):
        return from_callables(source, columns, dtype)
    files = [open_file(path, columns) for path in list_files(source)]
    return from_files(files, dtype, folder)


# Files


class NpyFile:
    """A NumPy file, mapped."""

    names = None

    def __init__(self, path: Path) -> None:
        self.path, self._unchanged = path, watch(path)
        try:
            self.array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path} cannot be read as a .npy file: {error}") from error
        if self.array.ndim != 2 or self.array.dtype.kind not in "fiub":
            raise ValueError(
                f"{path} holds an array of shape {self.array.shape} and type {self.array.dtype}; "
                "rows of numbers are needed."
            )
        (self.n, self.d), self.dtype = self.array.shape, self.array.dtype

    def parts(self) -> Iterator[Part]:
        yield Part(self.n, str(self.path), self._read, mapped=True)

    def _read(self) -> np.ndarray:
        self._unchanged()
        return self.array

    def stream(self) -> Stream:
        step = rows_at_once(self.d)
        for a in range(0, self.n, step):
            yield str(self.path), a, self._read()[a : a + step]


def list_files(source: Any) -> list[Path]:
    """The files that a path, a folder, a pattern or a list of them names."""
    if not isinstance(source, list | tuple):
        source = [source]
    found: list[Path] = []
    for one in source:
        if not isinstance(one, str | os.PathLike):
            raise TypeError(
                f"source={one!r} must be a path, a pattern, a list of paths, a callable that "
                "returns an iterator of blocks, or a list of callables."
            )
        path = Path(one)
        if path.is_dir():
            inside = [*path.rglob("*.parquet"), *path.rglob("*.npy")]
            inside = sorted(p for p in inside if not p.name.startswith((".", "_")))
        else:
            inside = [path] if path.exists() else sorted(map(Path, glob.glob(str(one))))
        if not inside:
            raise FileNotFoundError(f"source={str(one)!r}: there is no .parquet or .npy file.")
        found += inside
    return found


def open_file(path: Path, columns: Sequence[str] | None) -> Any:
    if path.suffix.lower() == ".npy":
        if columns is not None:
            raise ValueError(f"columns={list(columns)!r}: {path} has no names for its columns.")
        return NpyFile(path)
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise ValueError(f"{path}: .parquet and .npy files can be read in blocks, no others.")
    return ParquetFile(path, columns, watch(path))


def from_files(files: list[Any], dtype: Any, folder: str | None) -> Blocks:
    first = files[0]
    for i, other in enumerate(files):
        if other.names != first.names and sorted(other.names or ()) == sorted(first.names or ()):
            files[i] = other = open_file(other.path, first.columns)  # in another order
        if other.names != first.names or other.d != first.d:
            raise ValueError(
                f"{other.path} does not have the columns of {first.path}: "
                f"{differ(first, other)}. columns=[…] names those to read."
            )
    dtype = np.dtype(dtype) if dtype else float_for(np.result_type(*(f.dtype for f in files)))
    mapped = all(isinstance(file, NpyFile) for file in files)
    if mapped or folder is None:
        parts = [part for file in files for part in file.parts()]
        return Blocks(parts, first.d, dtype, first.names)
    size = sum(file.n for file in files) * first.d * dtype.itemsize
    stream = (piece for file in files for piece in file.stream())
    return spooled(stream, dtype, first.names, folder, size)


def differ(first: Any, other: Any) -> str:
    if first.names is None or other.names is None:
        return f"{other.d} and {first.d} columns"
    missing = [name for name in first.names if name not in other.names]
    more = [name for name in other.names if name not in first.names]
    said = [f"it lacks {missing[:5]}"] if missing else []
    said += [f"it also has {more[:5]}"] if more else []
    return " and ".join(said) or "they are in another order"


def watch(path: Path) -> Callable[[], None]:
    """A function that raises an error if the file has changed meanwhile."""

    def state() -> tuple[int, int]:
        found = path.stat()
        return found.st_size, found.st_mtime_ns

    before = state()

    def unchanged() -> None:
        if not path.exists() or state() != before:
            raise ValueError(
                f"{path} was changed or removed while it was being read. Start again, and leave "
                "the files alone until the fit is done (or read them once: spool=True)."
            )

    return unchanged


# Blocks from elsewhere


def from_callables(source: Sequence[Any], columns: Any, dtype: Any) -> Blocks:
    """One callable for each block: each is called once now, and again whenever it is needed."""
    parts, kinds, d = [], [], None
    for i, make in enumerate(source):
        name = f"block {i}"
        block = called(make, name, columns)
        check_finite(block, name)
        d = check_width(block, d, name)
        kinds.append(block.dtype)
        parts.append(Part(len(block), name, partial(called, make, name, columns)))
    dtype = np.dtype(dtype) if dtype else float_for(np.result_type(*kinds))
    return Blocks(parts, d or 0, dtype, finite=True)


def called(make: Callable[[], Any], name: str, columns: Any) -> np.ndarray:
    return numbers(make(), name, columns)


def named_blocks(found: Iterable[Any], columns: Any) -> Stream:
    for i, block in enumerate(found):
        yield f"block {i}", 0, numbers(block, f"block {i}", columns)


def spooled(
    found: Stream | Iterable[Any],
    dtype: Any,
    names: Sequence[str] | None,
    folder: str,
    size: int = 0,
) -> Blocks:
    """The blocks in a temporary file without a name, which is deleted when the process ends."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OSError(
            f"X takes {size:,} bytes as plain numbers, and {folder} has {free:,} left. Name "
            "another folder with spool=…, or read the files for every pass with spool=False."
        )
    file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  it lives as long as its map
    d, n, given = None, 0, dtype
    for name, start, block in found:
        d = check_width(block, d, name)
        check_finite(block, name, start, names)
        dtype = dtype or float_for(block.dtype)
        if given is None and not np.can_cast(block.dtype, dtype):
            raise ValueError(
                f"{name} is {block.dtype}, and the blocks before it were {dtype}: say which with "
                "dtype='float64' or dtype='float32'."
            )
        file.write(np.ascontiguousarray(block, dtype=dtype).data)
        n += len(block)
    file.flush()
    if n == 0:
        return Blocks([], d or 0, dtype or np.float64, names)
    array = np.memmap(file, np.dtype(dtype), "r", shape=(n, d or 0))
    part = Part(n, "X", lambda: array, mapped=True)
    return Blocks([part], array.shape[1], dtype, names, finite=True, array=array)


def scratch(shape: tuple[int, ...], dtype: Any, folder: str | None = None) -> np.ndarray:
    """An array for a table, in a temporary file. A full disk raises an error at once."""
    file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  it lives as long as its map
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if hasattr(os, "posix_fallocate"):  # a full disk would otherwise end the process later on
        os.posix_fallocate(file.fileno(), 0, size)
    return np.memmap(file, dtype, "w+", shape=shape).view(np.ndarray)


def check_folder(spool: Any) -> str | None:
    """The folder for the temporary file, or None if no file is to be written."""
    if isinstance(spool, bool):
        return tempfile.gettempdir() if spool else None
    if not isinstance(spool, str | os.PathLike):
        raise TypeError(f"spool={spool!r} must be True, False or a folder.")
    if not Path(spool).is_dir():
        raise FileNotFoundError(f"spool={str(spool)!r} must be a folder that exists.")
    return str(spool)


def float_for(dtype: Any) -> np.dtype:
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


def check_width(block: np.ndarray, d: int | None, name: str) -> int:
    if d is not None and block.shape[1] != d:
        raise ValueError(f"{name} has {block.shape[1]} columns, and those before it have {d}.")
    return block.shape[1]
