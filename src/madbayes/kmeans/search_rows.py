"""A table as the search wants it, and what it finds as a result for every row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from madbayes._partition.partition import Partition
from madbayes._rows.frame import Frame, shift_for
from madbayes._rows.rows import Rows, arrange, restore, segments
from madbayes._rows.threads import Run
from madbayes._search.division import Division
from madbayes._search.driver import by_size, never_rising
from madbayes._search.price import Price
from madbayes.kmeans.dense_space import DenseSpace
from madbayes.kmeans.sparse_space import SparseSpace

DENSE_VALUES = 2**25  # a CSR matrix up to this size is made dense for the search


@dataclass(frozen=True)
class Clustering:
    """What an algorithm on squared error finds."""

    labels: np.ndarray
    centers: np.ndarray
    objective: float
    inertia: float
    history: list[float]
    n_iter: int
    converged: bool

    @property
    def k(self) -> int:
        return len(self.centers)


class Table:
    """Rows of positive weight, shifted to their mean; the others follow at the end.

    `order`: where the rows of `source` are in X, if they are not in its order.
    """

    def __init__(
        self,
        source: Rows,
        weight: np.ndarray | None,
        order: np.ndarray | None,
        run: Run,
        frame: Frame,
        *,
        unit: bool = False,
    ) -> None:
        self.source, self.weight, self.order = source, weight, order
        self.run, self.unit = run, unit
        self.partition = Partition(self.source, self.weight, run, frame)
        n = self.source.n
        self.used = np.arange(n) if self.weight is None else np.flatnonzero(self.weight > 0)
        self.w = np.ones(n) if self.weight is None else self.weight[self.used]
        keep_place = unit or self.source.sparse
        # a number of the rows' own type: any place near the mean will do, and this one is quick
        near = shift_for(self.source.dtype, frame)
        self.offset = np.zeros(self.source.d, near.dtype) if keep_place else near

    @classmethod
    def arranged(
        cls, X: Any, weight: np.ndarray | None, run: Run, frame: Frame, *, unit: bool = False
    ) -> "Table":
        """With near rows near each other, where that pays."""
        return cls(*arrange(X, weight, unit=unit), run, frame, unit=unit)

    def space(self, price: Price) -> DenseSpace | SparseSpace:
        """The rows for the search."""
        if self.source.sparse:
            return SparseSpace(self.source.X[self.used], self.w, price, self.run, self.unit)
        return DenseSpace(self._shifted(), self.w, price, self.run, self.unit)

    def _shifted(self) -> np.ndarray:
        """In their own type."""
        rows, source = self.used, self.source
        out = np.empty((rows.size, source.d), dtype=source.dtype)

        def shift(cut: tuple[int, int]) -> None:
            if rows.size == source.n:
                for a, b, block in source.blocks(*cut):
                    np.subtract(block, self.offset, out=out[a:b], casting="same_kind")
                return
            for a in range(*cut, 4096):
                b = min(cut[1], a + 4096)
                out[a:b] = source.take(rows[a:b]) - self.offset

        self.run(shift, segments(rows.size, 1))
        return out

    def shifted(self, centers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Centres where the space has its rows."""
        return [C - self.offset for C in centers]

    def result(self, found: Division, history: list[float], penalty: float) -> Clustering:
        """Clusters from the heaviest to the lightest; rows of weight 0 go to the nearest."""
        rank = by_size(found.centers, found.weights)
        centers = found.centers[rank] + self.offset
        labels = np.empty(self.source.n, dtype=np.int32)
        labels[self.used] = np.argsort(rank)[found.labels]
        if self.used.size < self.source.n:
            self.partition.assign(centers)
            left_out = self.weight == 0
            labels[left_out] = self.partition.labels[left_out]
        self.partition.labels = labels
        inertia = self.partition.measure_sse(centers)
        history = never_rising([*history, inertia + penalty * found.k])
        return Clustering(
            restore(labels, self.order), centers, history[-1], inertia, history, len(history), True
        )


class SpanTable(Table):
    """CSR rows with far more columns than rows, searched in coordinates of the space they span.

    n rows span at most n dimensions. A pivoted Cholesky decomposition of their n×n products gives
    coordinates with the same distances, in which every step of the search takes n columns instead
    of d. Centres are computed from the rows themselves at the end.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        X = self.source.X[self.used].astype(np.float64)
        lower, pivots, rank, _ = dpstrf((X @ X.T).toarray(), lower=1)
        order, corner = pivots - 1, lower[:rank, :rank]
        if rank == 0:  # every row is zero
            rank, corner = 1, np.ones((1, 1))
        rows = np.empty((len(order), rank))
        rows[order] = np.tril(lower)[:, :rank]
        # Rounding moves equal rows apart: each takes the coordinates of the first that equals it.
        first: dict[bytes, int] = {}
        parts = enumerate(pairwise(X.indptr))
        same = [
            first.setdefault(X.indices[a:b].tobytes() + X.data[a:b].tobytes(), row)
            for row, (a, b) in parts
        ]
        self._rows, self._corner = rows[same], corner
        self._basis = X[order[:rank]]  # = corner × the axes of the coordinates

    def space(self, price: Price) -> DenseSpace:
        return DenseSpace(self._rows, self.w, price, self.run, self.unit)

    def shifted(self, centers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Centres in the coordinates of the rows."""
        return [
            solve_triangular(self._corner, self._basis @ np.asarray(C).T, lower=True).T
            for C in centers
        ]

    def result(self, found: Division, history: list[float], penalty: float) -> Clustering:
        exact = super().space(Price(penalty, found.k)).division(found.labels)
        return super().result(exact, history, penalty)
