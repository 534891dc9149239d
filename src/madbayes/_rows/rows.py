"""Rows from any source, handed out in blocks that the kernels can read.

A kernel sees a C-contiguous, read-only block of float32 or float64. Arrays that already look like
that (memory-mapped ones too) are handed out as views; anything else (Fortran order, strides, small
integers, CSR, a permutation of the rows, files) is copied block by block, never as a whole. Where
blocks end depends on the number of columns alone, so that sums over them are the same to the bit
for any source.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._rows.blocks import Blocks, rows_at_once
from madbayes._rows.row_kernels import read_only

MAX_SEGMENTS = 32  # of a table that is not huge
SEGMENT_ROWS = 2**21  # rows of a segment of one that is
DIRECT_COLUMNS = 6  # up to here plain distances beat the matrix product
ARRANGE_ROWS = 4096  # fewer rows are not worth sorting
ARRANGE_AT_ONCE = 2**24  # more of them are sorted within their segments
DISK_VALUES = 2**25  # rows on disk up to this size may be copied into memory
ARRANGE_VALUES = 2**24  # more values are not copied for that if they are on disk


class Rows:
    """The rows of a 2-d array or CSR matrix, in the given order or in that of `permutation`.

    With `unit` every row is divided by its length as it is handed out (for the cosine metric); of a
    CSR matrix the values are copied for that, the pattern is not.
    """

    def __init__(
        self, X: Any, permutation: np.ndarray | None = None, *, unit: bool = False
    ) -> None:
        if sp.issparse(X) and permutation is not None:
            X, permutation = X[permutation], None
        if unit and sp.issparse(X):
            X, unit = unit_csr(X), False
        self.X = X
        self.unit = unit
        self.permutation = permutation
        self.n, self.d = X.shape
        self.sparse = sp.issparse(X)
        exact_in_32 = np.can_cast(X.dtype, np.float32)
        self.dtype = np.dtype(np.float32 if exact_in_32 else np.float64)
        self.sparsity = 1.0  # an eighth of how much more room a row of sums takes than one of data
        if self.sparse:
            self.sparsity = max(1.0, self.n * self.d / (8.0 * max(X.nnz, 1)))

    @property
    def kept(self) -> bool:
        """Are blocks views of float64, which may be kept?"""
        X, as_given = self.X, self.permutation is None and not self.unit
        return as_given and isinstance(X, np.ndarray) and X.dtype == float and X.flags.c_contiguous

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (start, stop, dense rows) that cover start..stop in order."""
        step = rows_at_once(self.d)
        for a in range(start, stop, step):
            b = min(stop, a + step)
            index = slice(a, b) if self.permutation is None else self.permutation[a:b]
            yield a, b, read_only(np.ascontiguousarray(self._get(index), dtype=self.dtype))

    def take(self, index: np.ndarray) -> np.ndarray:
        """The rows `index` as a new float64 array."""
        index = index if self.permutation is None else self.permutation[index]
        return np.array(self._get(index), dtype=np.float64, order="C")

    def _get(self, index: Any) -> np.ndarray:
        if self.sparse:
            return self.X[index].toarray()
        if self.unit:
            return unit_rows(self.X[index]).astype(self.dtype)
        return self.X[index]


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Each row divided by its length, in float64 and C order; zeros stay.

    In C order the squares of a row are added in the order of its columns, so that the last digits
    of a length do not depend on the memory layout of X.
    """
    X = X.astype(np.float64, order="C")
    X /= or_one(np.abs(X).max(axis=1))[:, None]  # so that no square overflows
    X /= or_one(np.sqrt(np.einsum("ij,ij->i", X, X)))[:, None]
    return X


def unit_csr(X: Any) -> Any:
    """The same for a CSR matrix."""
    size = np.diff(X.indptr)
    largest = abs(X).max(axis=1).toarray().ravel().astype(np.float64)
    data = X.data / np.repeat(or_one(largest), size)
    squares = np.bincount(np.repeat(np.arange(X.shape[0]), size), data**2, minlength=X.shape[0])
    data /= np.repeat(or_one(np.sqrt(squares)), size)
    return sp.csr_array((data.astype(X.dtype), X.indices, X.indptr), shape=X.shape)


def or_one(length: np.ndarray) -> np.ndarray:
    return np.where(length > 0, length, 1.0)


def count_different(X: Any, most: int) -> int:
    """How many different rows X has, counted up to `most`: equal rows make no further clusters."""
    seen = set()
    for i in range(X.shape[0]):
        if sp.issparse(X):
            cut = slice(X.indptr[i], X.indptr[i + 1])
            seen.add((X.indices[cut].tobytes(), X.data[cut].tobytes()))
        else:
            seen.add((X[i] + 0.0).tobytes())  # -0.0 becomes 0.0
        if len(seen) >= most:
            break
    return len(seen)


def on_disk(X: Any) -> bool:
    """Whether the rows are in a file: a memory map (or a view of one), or `madbayes.blocks`."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, Blocks)


def segments(n: int, k: float) -> list[tuple[int, int]]:
    """Cut 0..n into segments that keep sums of their own.

    The cuts depend on n and k alone, so the order of every sum is the same for any number of
    threads; there are few of them, so their k×d sums stay small beside the rows.
    """
    most = max(MAX_SEGMENTS, n // SEGMENT_ROWS)
    count = max(1, min(most, n // 1024, int(n / (8 * max(k, 1)))))
    if count == 1:
        return [(0, n)]
    edges = np.linspace(0, n, count + 1).astype(np.int64)
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def arrange(
    X: Any, weight: np.ndarray | None, *, unit: bool = False
) -> tuple[Rows, np.ndarray | None, np.ndarray | None]:
    """Rows in an order in which neighbours lie close together, where that pays.

    Only for arrays of few columns, whose copy is small, and for algorithms that do not ask for an
    order. Returns the rows, their weights and the order (None: as given).
    """
    n, d = X.shape
    stays = sp.issparse(X) or (n * d > ARRANGE_VALUES and on_disk(X))
    if stays or not worth_arranging(n, d):
        return Rows(X, unit=unit), weight, None
    X = X[:]
    cuts = [(0, n)] if n <= ARRANGE_AT_ONCE else segments(n, 1)
    order = np.concatenate([a + spatial_order(X[a:b]) for a, b in cuts])
    return (
        Rows(np.ascontiguousarray(X[order]), unit=unit),
        None if weight is None else weight[order],
        order,
    )


def worth_arranging(n: int, d: int) -> bool:
    return d <= DIRECT_COLUMNS and n >= ARRANGE_ROWS


def spatial_order(X: np.ndarray) -> np.ndarray:
    """Rows along a Z-order curve (Morton 1966) through a grid of sampled quantiles.

    A code of the cell and the number of the row are one number, so that sorting them is enough.
    """
    n, d = X.shape
    below = max(1, (n - 1).bit_length())  # bits for the number of a row
    bits = min(12, (64 - below) // d)
    code = np.zeros(n, dtype=np.uint64)
    sample = X[:: max(1, n // 2**14)]
    for j in range(d):
        edges = quantiles(sample[:, j], np.linspace(0, 1, 2**bits + 1)[1:-1])
        spread = np.zeros(2**bits, dtype=np.uint64)  # the bits of each cell, d apart
        for bit in range(bits):
            one = np.arange(2**bits, dtype=np.uint64) >> np.uint64(bit) & np.uint64(1)
            spread |= one << np.uint64(bit * d + j + below)
        code |= spread[cells_of(X[:, j].astype(np.float64), edges)]
    code |= np.arange(n, dtype=np.uint64)
    code.sort()
    return (code & np.uint64((1 << below) - 1)).astype(np.int64)


def cells_of(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """`np.searchsorted(edges, x)`, with a table for most: equal steps from the least x to the
    largest, of which few have an edge in them."""
    low, steps = x.min(), 8 * len(edges)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        factor = steps / (x.max() - low)
    if not 0 < factor < np.inf:
        return np.searchsorted(edges, x)

    def step(x: np.ndarray) -> np.ndarray:  # never falls, so rounding does no harm
        return np.minimum((x - low) * factor, steps).astype(np.int32)

    edge, of = np.bincount(step(edges), minlength=steps + 1), step(x)
    cell = (np.cumsum(edge) - edge)[of]
    unsure = np.flatnonzero(edge[of])
    cell[unsure] = np.searchsorted(edges, x[unsure])
    return cell


def quantiles(x: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """`np.quantile`, to the bit, by sorting: for thousands of shares it is hundreds of times as
    quick as numpy's partition."""
    x, at = np.sort(x), shares * (len(x) - 1)
    low = at.astype(np.int64)
    t, a, b = at - low, x[low], x[np.minimum(low + 1, len(x) - 1)]
    return np.where(t < 0.5, a + (b - a) * t, b - (b - a) * (1 - t))


def restore(labels: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Labels of rows that were taken in `order`, in the order of X."""
    if order is None:
        return labels
    out = np.empty_like(labels)
    out[order] = labels
    return out
