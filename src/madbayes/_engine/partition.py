"""Rows divided among centres: who belongs where, and what the clusters add up to.

This is what every algorithm on squared error stands on. A `Partition` owns O(n) memory (a label, an
upper and a few lower bounds a row) and the sums of each cluster, and offers the steps that the
algorithms are written in: `assign` (nearest centres), `means`, `far_rows`, `offer`, `drop`.

Every step is a map over fixed segments of the rows (`partial`), whose results are added in the
order of the segments: nothing depends on how many threads ran it.
"""

import threading
from typing import Any

import numpy as np

from madbayes._engine.centers import make_direct_scratch, make_groups, make_scratch, prepare
from madbayes._engine.frame import NO_WEIGHT, Frame, check_reach, measure
from madbayes._engine.rows import DIRECT_COLUMNS, Rows, segments
from madbayes._engine.seeding import spread_rows
from madbayes._engine.segment import half_gaps, open_by_rule, own_distances, scatter
from madbayes._engine.tallies import Tallies
from madbayes._engine.threads import Run
from madbayes._kernels.bounds import Centers, RowState, Tally
from madbayes._kernels.direct import assign_direct
from madbayes._kernels.plain import assign_plain
from madbayes._kernels.products import assign_products
from madbayes._kernels.rows import offer, squared_error
from madbayes._kernels.sparse import assign_sparse

NO_FLAGS = np.empty(0, dtype=np.uint8)
FEW_ROWS = 2**12  # up to which every row is compared with every centre …
SMALL = 2**24  # … if rows × centres × columns are not more


class Partition:
    """The rows of `source`, with `weight` (None: all ones), under way between centres.

    With `unit` rows and centres have length 1 (spherical k-means, for the cosine metric).
    """

    def __init__(
        self,
        source: Rows,
        weight: np.ndarray | None,
        run: Run,
        frame: Frame | None = None,
        *,
        unit: bool = False,
    ) -> None:
        self.source = source
        self.run = run
        self.unit = unit
        self.weight = NO_WEIGHT if weight is None else np.ascontiguousarray(weight, np.float64)
        self.labels = np.full(source.n, -1, dtype=np.int32)
        self.sse = 0.0  # Σ w d² to the centres that `assign` or `means` dealt with last
        self._sse_peak = 0.0  # the largest it has been since it was last measured
        self.frame = frame or measure(source, self.weight, run)
        self.offset, self.scale = self.frame.offset, self.frame.scale
        self._direct = not source.sparse and source.d <= DIRECT_COLUMNS
        self._upper = np.empty(source.n, dtype=np.float32)
        self._lower = np.empty((source.n, 0), dtype=np.float32)
        self._far = NO_FLAGS
        self._bounds_for: np.ndarray | None = None  # the centres that the bounds speak of
        self._group = np.empty(0, dtype=np.int32)
        self._n_groups = 0
        self._use32 = True
        self._tallies = Tallies(source, self.weight, run)

    # Assignment

    def assign(
        self, centers: np.ndarray, penalty: float | None = None, rows: tuple[int, int] | None = None
    ) -> int:
        """Give each row (of `rows`, a range) its nearest centre; return how many moved.

        With a penalty, `far_rows` tells afterwards where weight * squared distance exceeds it.
        """
        first, last = rows or (0, self.source.n)
        self._make_room(centers.shape[0])
        check_reach(centers, self.frame, self.source.d)
        fresh = self._bounds_for is None or self._bounds_for.shape != centers.shape
        if fresh:
            self._make_bounds(centers)
        stats = self._assign_segments(centers, penalty, first, last, fresh)
        if not fresh or (first, last) == (0, self.source.n):
            self._bounds_for = np.ascontiguousarray(centers, dtype=np.float64)
        self._add_sse(stats[0])
        # Where the float32 product cannot tell most rows apart, do not try it again.
        self._use32 = self._use32 and stats[3] <= 0.3 * (last - first)
        return int(stats[1])

    def _assign_segments(
        self, centers: np.ndarray, penalty: float | None, first: int, last: int, fresh: bool
    ) -> np.ndarray:
        """The statistics of all segments together."""
        k = centers.shape[0]
        if self._lower.shape[1] != self._n_groups:
            self._lower = np.empty((self.source.n, self._n_groups), dtype=np.float32)
        if penalty is not None and self._far.shape[0] == 0:
            self._far = np.zeros(self.source.n, dtype=np.uint8)
        view = prepare(
            centers,
            self._group,
            self._n_groups,
            self.offset,
            self.scale,
            None if fresh else self._bounds_for,
            separate=k * k * 4 <= self.source.n,
        )
        local = threading.local()
        transposed = None
        if self.source.sparse or is_small(self.source.n, k, self.source.d):
            transposed = np.ascontiguousarray(view.exact.T)

        def partial(a: int, b: int, tally: Tally) -> np.ndarray:
            a, b = max(a, first), min(b, last)
            tally.stats[:] = 0.0
            if a < b:
                if fresh:
                    self._upper[a:b] = np.inf
                    self._lower[a:b] = 0.0
                self._assign_range(a, b, view, tally, penalty, fresh, local, transposed)
            return tally.stats

        return np.sum(self._tallies.map(partial), axis=0)

    def _assign_range(
        self,
        first: int,
        last: int,
        view: Centers,
        tally: Tally,
        penalty: float | None,
        fresh: bool,
        local: Any,
        transposed: np.ndarray | None,
    ) -> None:
        limit = np.inf if penalty is None else penalty
        if self.source.sparse:
            X = self.source.X
            rows = self._rows(first, last, penalty is not None)
            assign_sparse(X.data, X.indices, X.indptr, first, view, transposed, rows, tally, limit)
            return
        if transposed is not None:  # a small problem
            for a, b, block in self.source.blocks(first, last):
                rows = self._rows(a, b, penalty is not None)
                assign_plain(block, view.exact, transposed, view.scale, rows, tally, limit)
            return
        if not hasattr(local, "scratch"):
            k, d = view.exact.shape
            local.scratch = (
                make_direct_scratch(k, d) if self._direct else make_scratch(k, d, view.start)
            )
        for a, b, block in self.source.blocks(first, last):
            rows = self._rows(a, b, penalty is not None)
            if self._direct:
                assign_direct(block, view, rows, tally, local.scratch, limit)
            else:
                assign_products(block, view, rows, tally, local.scratch, limit, fresh, self._use32)

    def _rows(self, a: int, b: int, flags: bool) -> RowState:
        return RowState(
            self.labels[a:b],
            self._upper[a:b],
            self._lower[a:b],
            self.weight[a:b],
            self._far[a:b] if flags else NO_FLAGS,
        )

    def _make_bounds(self, centers: np.ndarray) -> None:
        k = centers.shape[0]
        if self._group.shape[0] != k:
            if self._direct or self.source.sparse or is_small(self.source.n, k, self.source.d):
                self._group, self._n_groups = np.zeros(k, dtype=np.int32), 1
            else:
                self._group, self._n_groups = make_groups((centers - self.offset) * self.scale)

    def _make_room(self, k: int) -> None:
        self._tallies.make_room(k, self.labels)

    def squared_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared distance to the own centre (at most) and to any other one (at least)."""
        lower = self._lower.min(axis=1).astype(np.float64) / self.scale
        return (self._upper.astype(np.float64) / self.scale) ** 2, lower**2

    # Clusters

    def means(self, centers: np.ndarray) -> np.ndarray:
        """The weighted mean of each cluster; an empty one keeps its place in `centers`.

        With `unit` the direction of the mean, which minimises the squared error among them.
        """
        sums, weight, count = self.totals()
        filled = count > 0
        if not (weight[filled] > 0).all():  # weights too different for running sums
            self.recount()
            sums, weight, count = self.totals()
        new = np.array(centers, dtype=np.float64)
        if self.unit:
            filled &= sums.any(axis=1)
            new[filled] = directions(sums[filled])
            old, now = centers[filled], new[filled]
            longer = (now**2).sum(axis=1) - (old**2).sum(axis=1)  # first centres are rounded rows
            change = weight[filled] @ longer - 2.0 * (sums[filled] * (now - old)).sum()
            self._add_sse(float(change))
        else:
            new[filled] = sums[filled] / weight[filled, None]
            step2 = ((new[filled] - centers[filled]) ** 2).sum(axis=1)
            self._add_sse(-float(weight[filled] @ step2))
        if self.sse < 1e-5 * self._sse_peak and self._all_assigned():
            self.measure_sse(new)  # most of the digits have cancelled
        return new

    def _all_assigned(self) -> bool:
        return bool(self.labels.min() >= 0)

    def middle(self) -> np.ndarray:
        """The centre of all rows, (1, d)."""
        mean = self.frame.mean[None, :]
        return directions(mean) if self.unit and mean.any() else mean

    def mean_variance(self) -> float:
        """The mean over the columns of the variance of the rows."""
        mean = self.frame.mean[None, :]
        parts = self.run(
            lambda cut: scatter(self.source, self.weight, mean, cut), segments(self.source.n, 1)
        )
        return sum(parts) / (self.frame.total_weight * self.source.d)

    def spread(self, k: int) -> tuple[Rows, np.ndarray]:
        """The rows among which k first centres are looked for, and their weights."""
        rows = spread_rows(self.source.n, k)
        if rows is None:
            return self.source, self.weight
        return Rows(self.source.take(rows)), self.weight[rows] if self.weight.size else NO_WEIGHT

    def _add_sse(self, change: float) -> None:
        self.sse = max(self.sse + change, 0.0)
        self._sse_peak = max(self._sse_peak, self.sse)

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums, weights and numbers of rows of each cluster."""
        return self._tallies.totals()

    def counts(self) -> np.ndarray:
        """Numbers of rows (of positive weight) of each cluster."""
        return self._tallies.counts()

    def recount(self) -> None:
        """Add up sums and weights afresh from the labels, which removes what rounding left."""
        self._tallies.recount(self.labels)

    def measure_sse(self, centers: np.ndarray) -> float:
        """Σ w d² of the labels and `centers`, afresh from the rows."""
        exact = np.ascontiguousarray(centers, dtype=np.float64)

        def partial(segment: tuple[int, int]) -> float:
            return sum(
                squared_error(block, self.weight[a:b], self.labels[a:b], exact)
                for a, b, block in self.source.blocks(*segment)
            )

        self.sse = self._sse_peak = float(sum(self.run(partial, segments(self.source.n, 1))))
        return self.sse

    def move(self, row: int, to: int, d2: float) -> None:
        """Put one row, d² from its centre, into cluster `to`, whose centre is at its place."""
        self._tallies.move(row, self.labels[row], to)
        self.labels[row] = to
        self._add_sse(-(self.weight[row] if self.weight.shape[0] else 1.0) * d2)
        self._bounds_for = None

    def farthest(self, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` rows that are farthest from the centres of their labels, and how far (d²)."""

        def partial(cut: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            parts = [
                own_distances(block, self.weight[a:b], self.labels[a:b], centers)
                for a, b, block in self.source.blocks(*cut)
            ]
            d2 = np.concatenate(parts)
            rows = np.argsort(-d2, kind="stable")[:count]
            return cut[0] + rows, d2[rows]

        parts = self.run(partial, segments(self.source.n, 1))
        rows, d2 = (np.concatenate(column) for column in zip(*parts, strict=True))
        first = np.argsort(-d2, kind="stable")[:count]
        return rows[first], d2[first]

    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Tally]]:
        """Labels, bounds and sums, which a checkpoint keeps."""
        return self.labels, self._upper, self._lower, self._tallies.parts

    def set_state(
        self, labels: np.ndarray, upper: np.ndarray, lower: np.ndarray, parts: list[Tally]
    ) -> None:
        """Go on from there."""
        self.labels, self._upper, self._lower = labels, upper, lower
        self._tallies.put(parts)

    def relabel(self, new_label: np.ndarray) -> None:
        """Give the clusters other numbers; nothing is assigned after that."""
        self.labels = new_label.astype(np.int32)[self.labels]

    def drop(self, keep: np.ndarray) -> None:
        """Forget the (empty) clusters that are not in the mask `keep`; labels move up."""
        # Only rows of weight 0 can be left in a cluster that counts as empty.
        new_label = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
        self.labels[:] = new_label[self.labels]
        self._tallies.drop(keep)
        if self._bounds_for is not None:
            self._bounds_for = self._bounds_for[keep]
            self._group = self._group[keep]

    # Openings (KJ Algorithm 1)

    def far_rows(self, first: int, last: int, most: int) -> np.ndarray:
        """Rows that the last `assign` with a penalty found too far from every centre.

        Only the first `most` of them are asked for.
        """
        return first + np.flatnonzero(self._far[first:last])[:most]

    def open_clusters(
        self, centers: np.ndarray, far: np.ndarray, penalty: float, limit: int
    ) -> np.ndarray:
        """Which of the rows `far` (in order) open a cluster by the serial rule; at most `limit`."""
        weight = self.weight[far] if self.weight.shape[0] else np.ones(far.size)
        X, labels = self.source.take(far), self.labels[far]
        return far[open_by_rule(X, weight, labels, centers, penalty, limit)]

    def offer(self, centers: np.ndarray, opened_at: np.ndarray, last: int) -> np.ndarray:
        """Rows up to `last` may move to clusters that rows `opened_at` opened before them.

        Returns the centres with the new ones behind them.
        """
        new = self._take_opened(opened_at)
        exact = np.ascontiguousarray(centers)
        self._make_room(exact.shape[0] + new.shape[0])
        self._add_sse(self._offer_segments(exact, new, opened_at, last)[0])
        self._bounds_for = None
        return np.vstack([centers, new])

    def _take_opened(self, rows: np.ndarray) -> np.ndarray:
        return self.source.take(rows)

    def _offer_segments(
        self, exact: np.ndarray, new: np.ndarray, opened_at: np.ndarray, last: int
    ) -> np.ndarray:
        half_gap = half_gaps(exact, new, self.scale)

        def partial(a: int, b: int, tally: Tally) -> np.ndarray:
            tally.stats[:] = 0.0
            self._offer_range(a, min(b, last), new, opened_at, half_gap, exact, tally)
            return tally.stats

        return np.sum(self._tallies.map(partial), axis=0)

    def _offer_range(
        self,
        a: int,
        b: int,
        new: np.ndarray,
        opened_at: np.ndarray,
        half_gap: np.ndarray,
        exact: np.ndarray,
        tally: Tally,
    ) -> None:
        a, k_old, scale = max(a, int(opened_at[0])), exact.shape[0], self.scale
        for first, end, block in self.source.blocks(a, b) if a < b else ():
            rows = self._rows(first, end, False)
            offer(block, first, new, opened_at, half_gap, exact, scale, k_old, rows, tally)


def is_small(n: int, k: int, d: int) -> bool:
    """Is each of n rows compared with each of k centres, without further ado?"""
    return n <= FEW_ROWS and n * k * d <= SMALL


def directions(sums: np.ndarray) -> np.ndarray:
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)
