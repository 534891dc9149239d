"""A table of rows in blocks: what `madbayes.blocks` returns (`sources.py` makes them)."""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

BLOCK_VALUES = 2**20  # rows × columns of a block that is checked or returned at a time
KEPT_VALUES = 2**24  # rows × columns of recently read blocks that stay in memory
READERS = (
    'KMeans, DPMeans, HardHDP(algorithm="paper"), OnlineKMeans, OnlineDPMeans and the feature '
    "models read X block by block"
)


def rows_at_once(d: int, values: int | None = None) -> int:
    """How many rows of d columns have `values` values (BLOCK_VALUES by default); never very few."""
    return max(16, (values or BLOCK_VALUES) // max(d, 1))


class Part(NamedTuple):
    """One block: its number of rows, its name in error messages, and the function that reads it."""

    n: int
    name: str
    read: Callable[[], np.ndarray]
    mapped: bool = False  # a memory map: it is read in pieces and not kept


class Blocks:
    """A table of rows in blocks, for `fit` and `predict`. Made by `madbayes.blocks`.

    It has a `shape`, a `dtype` and column `names` (or None), ``X[a:b]`` and ``X[index]`` are rows
    as an array, and a loop over it gives its blocks in order.
    """

    ndim = 2

    def __init__(
        self,
        parts: Sequence[Part],
        d: int,
        dtype: Any,
        names: Sequence[str] | None = None,
        *,
        finite: bool = False,
        array: np.ndarray | None = None,
    ) -> None:
        self.parts = [part for part in parts if part.n > 0]
        self.edges = np.concatenate([[0], np.cumsum([part.n for part in self.parts], dtype=int)])
        self.shape = (int(self.edges[-1]), d)
        self.dtype = np.dtype(dtype)
        self.names = None if names is None else tuple(map(str, names))
        self._finite, self._array = finite, array
        self._kept: dict[int, np.ndarray] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<madbayes.blocks: {n:,} rows of {d} columns, {self.dtype}>"

    def __iter__(self) -> Iterator[np.ndarray]:
        step = rows_at_once(self.shape[1])
        for a in range(0, len(self), step):
            yield self[a : a + step]

    def __getitem__(self, index: Any) -> np.ndarray:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._range(start, max(start, stop))
            index = np.arange(start, stop, step)
        rows = np.asarray(index)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        out = np.empty((rows.size, self.shape[1]), dtype=self.dtype)
        place = np.searchsorted(self.edges, rows, side="right") - 1
        for i in np.unique(place):
            here = np.flatnonzero(place == i)
            out[here] = self._part(int(i))[rows[here] - self.edges[i]]
        return out

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            f"X is a table of {len(self):,} rows that is not to be held in memory. {READERS}; "
            "X[rows] is an array of some rows."
        )

    def check(self) -> Any:
        """The rows for an estimator: finite numbers, a memory map where there is one."""
        if not self.shape[0]:
            raise ValueError("X has no rows: all its files or blocks are empty.")
        if not self._finite:
            for i, part in enumerate(self.parts):
                check_finite(self._part(i), part.name, names=self.names)
            self._finite = True
        return self if self._array is None else self._array

    def _range(self, start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(self.edges, start, side="right")) - 1
        pieces = []
        while start < stop:
            last = min(stop, int(self.edges[first + 1]))
            at = self.edges[first]
            pieces.append(self._part(first)[start - at : last - at])
            start, first = last, first + 1
        if not pieces:
            return np.empty((0, self.shape[1]), self.dtype)
        found = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return np.asarray(found, dtype=self.dtype)

    def _part(self, i: int) -> np.ndarray:
        part = self.parts[i]
        if part.mapped:
            return part.read()
        with self._lock:
            if i in self._kept:
                return self._kept[i]
        block = part.read()
        if block.shape != (part.n, self.shape[1]):
            raise ValueError(
                f"{part.name} has the shape {block.shape} now, and had {(part.n, self.shape[1])} "
                "before: X must not change while it is in use."
            )
        block = np.ascontiguousarray(block, dtype=self.dtype)
        with self._lock:
            self._kept[i] = block
            while len(self._kept) > 1 and sum(b.size for b in self._kept.values()) > KEPT_VALUES:
                del self._kept[next(iter(self._kept))]
        return block


def check_finite(
    block: np.ndarray, name: str, start: int = 0, names: Sequence[str] | None = None
) -> None:
    """Raise an error about the first value that is NaN or infinite."""
    step = rows_at_once(block.shape[1])
    for a in range(0, len(block), step):
        piece = block[a : a + step]
        if piece.dtype.kind == "f" and not np.isfinite(piece).all():
            i, j = np.argwhere(~np.isfinite(piece))[0]
            what = "NaN" if np.isnan(piece[i, j]) else "infinity"
            column = f"{j}" if names is None else f"{names[j]!r}"
            raise ValueError(
                f"X contains {what}: {name}, row {start + a + i}, column {column}. Rows must be "
                "finite numbers: leave such rows out, or fill them in."
            )
