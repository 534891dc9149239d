"""Rows from any source, in blocks that the kernels can read.

A kernel reads a C-contiguous, read-only block of float32 or float64. If an array (or a memory map)
has this form, its blocks are views. Anything else (Fortran order, strides, small integers, CSR, a
permutation of the rows, files) is copied block by block, never as a whole. The ends of the blocks
depend on the number of columns only, so that sums over blocks are equal to the bit for any source.
"""

import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from madbayes._rows.blocks import Blocks, rows_at_once
from madbayes._rows.executor import HERE, MAX_SEGMENTS
from madbayes._rows.row_kernels import NO_WEIGHT, read_only

Cut = tuple[int, int]  # the first row, and the row behind the last

SEGMENT_ROWS = 2**21  # rows of a segment of one that is
DIRECT_COLUMNS = 6  # up to this many columns plain distances are quicker than matrix products
ARRANGE_AT_ONCE = 2**24  # more of them are sorted within their segments
DISK_VALUES = 2**25  # rows on disk up to this size may be copied into memory


class Rows:
    """The rows of a 2-d array or CSR matrix, in the given order or in that of `permutation`.

    `weight`, in the order in which the rows are handed out, is None where all weights are one. With
    `unit` every row is divided by its length as it is handed out (for the cosine metric); of a CSR
    matrix the values are copied for that, the pattern is not.
    """

    executor = HERE  # functions run in this process
    order: np.ndarray | None = None  # the places of the rows in X, if `arranged` moved them

    def __init__(
        self,
        X: Any,
        permutation: np.ndarray | None = None,
        *,
        unit: bool = False,
        weight: np.ndarray | None = None,
    ) -> None:
        if sp.issparse(X) and permutation is not None:
            X, permutation = X[permutation], None
        if unit and sp.issparse(X):
            X = unit_csr(X)
        self.X = X
        self.unit = unit
        self.permutation = permutation
        self.weight = NO_WEIGHT if weight is None else np.ascontiguousarray(weight, np.float64)
        self.n, self.d = X.shape
        self.sparse = sp.issparse(X)
        exact_in_32 = np.can_cast(X.dtype, np.float32)
        self.dtype = np.dtype(np.float32 if exact_in_32 else np.float64)
        self.sparsity = 1.0  # an eighth of how much more room a row of sums takes than one of data
        if self.sparse:
            self.sparsity = max(1.0, self.n * self.d / (8.0 * max(X.nnz, 1)))
        self.cuts = segments(self.n, 1)
        self.views: dict[Cut, Any] = {}  # pieces of rows that need no copy, kept by who asks

    def __sizeof__(self) -> int:
        """The size in bytes, which Dask uses to know how much memory a worker uses."""
        size = self.X.data.nbytes if self.sparse else getattr(self.X, "nbytes", 0)
        return int(size + self.weight.nbytes)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the views, which would be pickled as copies of the rows."""
        return {**self.__dict__, "views": {}}

    @property
    def in_memory(self) -> bool:
        return not on_disk(self.X)

    @property
    def weighted(self) -> bool:
        return self.weight.shape[0] > 0

    @property
    def spans(self) -> list[Cut]:
        """The rows of each share."""
        return self.cuts

    @property
    def shares(self) -> "list[Share]":
        """One share for each segment: what a thread works on."""
        return [Share(self, [cut], 0) for cut in self.cuts]

    def sizes(self) -> list[int]:
        """How many segments each share has."""
        return [1] * len(self.cuts)

    def cut_at(self, cuts: list[Cut]) -> Self:
        """The same rows in other segments."""
        if cuts == self.cuts:
            return self
        other = copy.copy(self)
        other.cuts = cuts
        return other

    @property
    def ready(self) -> bool:
        """Whether blocks are views of X, an array in memory."""
        X, as_given = self.X, self.permutation is None and not self.unit
        view = as_given and isinstance(X, np.ndarray) and X.dtype == self.dtype
        return view and X.flags.c_contiguous and self.in_memory

    @property
    def kept(self) -> bool:
        """Whether blocks are views of float64, which may be kept."""
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

    def take_weights(self, index: np.ndarray) -> np.ndarray:
        """The weights of the rows `index`; ones where there are no weights."""
        return self.weight[index] if self.weighted else np.ones(len(index))

    def weighing(self, weight: np.ndarray | None) -> "Rows":
        """The same rows with other weights."""
        other = copy.copy(self)
        other.weight = NO_WEIGHT if weight is None else np.ascontiguousarray(weight, np.float64)
        return other

    def arranged(self, k: int = 2**31) -> "Rows":
        """The rows in an order in which neighbours lie close together, if this saves time when they
        are assigned to k centres."""
        return arrange(self) if worth_arranging(self.n, self.d, k) else self

    def shuffled(self, rng: np.random.RandomState) -> "Rows":
        """The rows in a random order."""
        order = rng.permutation(self.n)
        weight = self.weight[order] if self.weighted else None
        other = Rows(self.X, order, unit=self.unit, weight=weight)
        other.order = order
        return other

    def here(self) -> "Rows":
        """All rows, in this process."""
        return self

    def some(self, index: np.ndarray) -> "Rows":
        """The rows `index`, in this process."""
        return Rows(self.take(index), weight=self.weight[index] if self.weighted else None)

    def join(self, parts: list[np.ndarray]) -> np.ndarray:
        """The values of the rows of all shares (labels, for example), as one array."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def restored(self, values: np.ndarray) -> np.ndarray:
        """The values of all rows, in the order of X."""
        return restore(values, self.order)

    def public(self, values: Any) -> Any:
        """The values of all rows, as an attribute of a model."""
        return values

    def _get(self, index: Any) -> np.ndarray:
        if self.sparse:
            return self.X[index].toarray()
        if self.unit:
            return unit_rows(self.X[index]).astype(self.dtype)
        return self.X[index]


class Share(NamedTuple):
    """One or more neighbouring segments: the rows that one call of a function works on.

    `cuts` are ranges of rows of `rows`, whose row 0 is row `start` of the whole table. Labels and
    bounds of a share are in arrays that begin with the first row of the share.
    """

    rows: Rows
    cuts: list[Cut]
    start: int

    @property
    def first(self) -> int:
        return self.cuts[0][0]

    @property
    def last(self) -> int:
        return self.cuts[-1][1]

    @property
    def weight(self) -> np.ndarray:
        """The weights of the rows of this share; empty where all are one."""
        return self.rows.weight[self.first : self.last]

    def weights(self) -> np.ndarray:
        """The weights of the rows of this share, also if all are one."""
        return self.weight if self.rows.weighted else np.ones(self.last - self.first)

    def blocks(self, cut: Cut | None = None) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Blocks of the rows of `cut` (all): their place in the share, the rows, the weights."""
        for a, b in self.cuts if cut is None else [cut]:
            for i, j, block in self.rows.blocks(a, b):
                yield slice(i - self.first, j - self.first), block, self.rows.weight[i:j]

    def block_cuts(self) -> Iterator[Cut]:
        """The ranges of the blocks of the share in `rows`, without reading the blocks."""
        step = rows_at_once(self.rows.d)
        for first, last in self.cuts:
            yield from ((a, min(last, a + step)) for a in range(first, last, step))

    def take(self, at: np.ndarray) -> np.ndarray:
        """Some rows, counted from the first of the share, in the type that kernels read."""
        return self.rows.take(self.first + at).astype(self.rows.dtype)


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
    """`unit_rows` for a CSR matrix."""
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
    """Cut 0..n into segments, each of which has its own sums.

    The cuts depend on n and k only, so the order of every sum is the same for any number of
    threads. There are few segments, so that their k×d sums are small compared with the rows.
    """
    most = max(MAX_SEGMENTS, n // SEGMENT_ROWS)
    count = max(1, min(most, n // 1024, int(n / (8 * max(k, 1)))))
    if count == 1:
        return [(0, n)]
    edges = np.linspace(0, n, count + 1).astype(np.int64)
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def overlaps(old: list[Cut], new: list[Cut]) -> list[list[tuple[int, int, int]]]:
    """For each new range, its parts in old ranges: (number of the old range, from, to).

    `from` and `to` are counted from the first row of the old range.
    """
    starts, ends = np.array(old).T
    out = []
    for a, b in new:
        first = int(np.searchsorted(ends, a, side="right"))
        last = int(np.searchsorted(starts, b, side="left"))
        out.append(
            [
                (s, int(max(a, starts[s]) - starts[s]), int(min(b, ends[s]) - starts[s]))
                for s in range(first, last)
                if starts[s] < ends[s]
            ]
        )
    return out


def arrange(rows: Rows) -> Rows:
    """Rows in an order in which neighbours lie close together.

    This is only for arrays of few columns, whose copy is small, and for algorithms whose result
    does not depend on the order. `order` of the result has the places of the rows in X (None: the
    order is the given one).
    """
    X, (n, d) = rows.X, rows.X.shape
    if rows.sparse or (n * d > 2**24 and on_disk(X)):  # too many values for a copy
        return rows
    X = X[:]
    cuts = [(0, n)] if n <= ARRANGE_AT_ONCE else segments(n, 1)
    order = np.concatenate([a + spatial_order(X[a:b]) for a, b in cuts])
    weight = rows.weight[order] if rows.weighted else None
    moved = Rows(np.ascontiguousarray(X[order]), unit=rows.unit, weight=weight)
    moved.order = order
    return moved


def worth_arranging(n: int, d: int, k: int) -> bool:
    """Whether sorting n rows of d columns costs less than comparing them with all of k centres."""
    return d <= DIRECT_COLUMNS and n >= 4096 and k >= 16


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
    """`np.searchsorted(edges, x)`, by a table for most values.

    The table has equal steps from the least x to the largest. Only for values in the few steps that
    contain an edge is the edge searched.
    """
    low, steps = x.min(), 8 * len(edges)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        factor = steps / (x.max() - low)
    if not 0 < factor < np.inf:
        return np.searchsorted(edges, x)

    def step(x: np.ndarray) -> np.ndarray:  # monotone, so rounding does no harm
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
