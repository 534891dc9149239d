"""Prepare a table for the search, and turn what the search finds into a result for all its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from madbayes._partition.lloyd import nearest
from madbayes._partition.partition import measure_error
from madbayes._rows.frame import Frame, shift_for
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import together
from madbayes._search.division import Division
from madbayes._search.driver import by_size, never_rising
from madbayes._search.price import Price
from madbayes.kmeans.dense_space import DenseSpace
from madbayes.kmeans.sparse_space import SparseSpace

DENSE_VALUES = 2**25  # a CSR matrix up to this size is made dense for the search


@dataclass(frozen=True)
class Clustering:
    """The result of an algorithm that minimises squared error."""

    labels: Any  # in the form that `Rows.join` gives them
    centers: np.ndarray
    objective: float
    inertia: float
    history: list[float]
    n_iter: int
    converged: bool

    @property
    def k(self) -> int:
        return len(self.centers)


def rounded(offset: np.ndarray, scale: float) -> np.ndarray:
    """Round the offset to a millionth of the spread of the rows (1 / scale).

    The last digits of a sum depend on the order of the rows; the result of the search must not.
    """
    if not 0 < scale < np.inf:
        return offset
    grid = 2.0**-20 / scale
    with np.errstate(over="ignore"):
        steps = offset.astype(np.float64) / grid
    inside = np.abs(steps) < 2.0**52  # larger offsets are multiples of the step already
    near = np.round(np.where(inside, steps, 0.0)) * grid
    return np.where(inside, near, offset).astype(offset.dtype)


class SearchTable:
    """The rows of positive weight, shifted to their mean. `result` adds the rows of weight 0."""

    def __init__(self, rows: Rows, frame: Frame) -> None:
        self.rows, self.frame = rows, frame
        self.used = np.flatnonzero(rows.weight > 0) if rows.weighted else np.arange(rows.n)
        self.w = rows.take_weights(self.used)
        # Any point near the mean will do; an offset of the rows' own type is subtracted quickly.
        near = rounded(shift_for(rows.dtype, frame), frame.scale)
        keep_place = rows.unit or rows.sparse
        self.offset = np.zeros(rows.d, near.dtype) if keep_place else near

    def space(self, price: Price) -> DenseSpace | SparseSpace:
        """The space that the search works on."""
        rows = self.rows
        if rows.sparse:
            return SparseSpace(rows.X[self.used], self.w, price, unit=rows.unit)
        return DenseSpace(self._shifted(), self.w, price, unit=rows.unit)

    def _shifted(self) -> np.ndarray:
        """The shifted rows, in the type that they have."""
        used, rows = self.used, self.rows
        out = np.empty((used.size, rows.d), dtype=rows.dtype)

        def shift(cut: tuple[int, int]) -> None:
            if used.size == rows.n:
                for a, b, block in rows.blocks(*cut):
                    np.subtract(block, self.offset, out=out[a:b], casting="same_kind")
                return
            for a in range(*cut, 4096):
                b = min(cut[1], a + 4096)
                out[a:b] = rows.take(used[a:b]) - self.offset

        together(shift, segments(used.size, 1))
        return out

    def shifted(self, centers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Centres, shifted like the rows of the space."""
        return [C - self.offset for C in centers]

    def result(self, found: Division, history: list[float], penalty: float) -> Clustering:
        """The result for all rows: clusters from the heaviest to the lightest.

        Rows of weight 0 get the nearest cluster.
        """
        rows, rank = self.rows, by_size(found.centers, found.weights)
        centers = found.centers[rank] + self.offset
        labels = np.empty(rows.n, dtype=np.int32)
        labels[self.used] = np.argsort(rank)[found.labels]
        if self.used.size < rows.n:
            left_out = np.flatnonzero(rows.weight == 0)
            others = rows.X[left_out] if rows.sparse else rows.take(left_out)
            labels[left_out] = nearest(others, centers, frame=self.frame)
        inertia = measure_error(rows, [labels[a:b] for a, b in rows.spans], centers)
        history = never_rising([*history, inertia + penalty * found.k])
        how = history[-1], inertia, history, len(history), True
        return Clustering(rows.restored(labels), centers, *how)


class SpanTable(SearchTable):
    """CSR rows with far more columns than rows, searched in coordinates of the space they span.

    n rows span at most n dimensions. A pivoted Cholesky decomposition of the n×n matrix of their
    inner products gives coordinates that keep all distances, so that the search works on n columns
    instead of d. At the end the centres are computed from the original rows.
    """

    def __init__(self, rows: Rows, frame: Frame) -> None:
        super().__init__(rows, frame)
        X = rows.X[self.used].astype(np.float64)
        lower, pivots, rank, _ = dpstrf((X @ X.T).toarray(), lower=1)
        order, corner = pivots - 1, lower[:rank, :rank]
        if rank == 0:  # every row is zero
            rank, corner = 1, np.ones((1, 1))
        coordinates = np.empty((len(order), rank))
        coordinates[order] = np.tril(lower)[:, :rank]
        # Rounding gives equal rows slightly different coordinates: all take those of the first.
        first: dict[bytes, int] = {}
        parts = enumerate(pairwise(X.indptr))
        same = [
            first.setdefault(X.indices[a:b].tobytes() + X.data[a:b].tobytes(), row)
            for row, (a, b) in parts
        ]
        self._coordinates, self._corner = coordinates[same], corner
        self._basis = X[order[:rank]]  # equals corner × the axes of the coordinates

    def space(self, price: Price) -> DenseSpace:
        return DenseSpace(self._coordinates, self.w, price, unit=self.rows.unit)

    def shifted(self, centers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Centres in the coordinates of the rows."""
        return [
            solve_triangular(self._corner, self._basis @ np.asarray(C).T, lower=True).T
            for C in centers
        ]

    def result(self, found: Division, history: list[float], penalty: float) -> Clustering:
        exact = super().space(Price(penalty, found.k)).division(found.labels)
        return super().result(exact, history, penalty)
