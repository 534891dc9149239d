"""Rows and their nearest centres, with the bounds that save distances: half of a `Partition`.

Every step is a map over fixed segments of the rows (`partial`), whose results are added in the
order of the segments: nothing depends on how many threads ran it.
"""

import threading
from typing import Any

import numpy as np

from madbayes._jit.vectors import LANES
from madbayes._partition.bound_history import History, bounds_now, make_marks
from madbayes._partition.bounds import Centers, Marks, RowState, Tally
from madbayes._partition.nearest_direct import assign_direct
from madbayes._partition.nearest_plain import assign_plain
from madbayes._partition.nearest_products import assign_products
from madbayes._partition.nearest_sparse import assign_sparse
from madbayes._partition.prepared_centers import (
    bare,
    make_direct_scratch,
    make_groups,
    make_scratch,
    prepare,
)
from madbayes._partition.tallies import Tallies
from madbayes._rows.frame import NO_WEIGHT, Frame, check_reach, measure, shift_for
from madbayes._rows.rows import DIRECT_COLUMNS, Rows
from madbayes._rows.threads import Run

NO_PASSES = np.empty((0, 0, 0))
NO_FLAGS = np.empty(0, dtype=np.uint8)
NO_BOUNDS = {"upper": np.empty(0, np.float32), "lower": np.empty((0, 0), np.float32)}
FEW_ROWS = 2**12  # up to which every row is compared with every centre …
SMALL = 2**24  # … if rows × centres × columns are not more
FARTHEST = 1e30  # scaled
ALL = slice(None)


class Assignment:
    """The rows of `source`, with `weight` (None: all ones), under way between centres.

    With `unit` rows and centres have length 1 (spherical k-means, for the cosine metric). `once`:
    only labels and errors are asked for, of one set of centres; without `errors` not even those,
    and `sse` need not be right.
    """

    _once = False  # bounds and sums will be used again
    _errors = True

    def __init__(
        self,
        source: Rows,
        weight: np.ndarray | None,
        run: Run,
        frame: Frame | None = None,
        *,
        unit: bool = False,
        once: bool = False,
        errors: bool = True,
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
        self._shift = shift_for(source.dtype, self.frame)
        self._direct = not source.sparse and source.d <= DIRECT_COLUMNS
        self._upper = np.empty(source.n, dtype=np.float32)
        self._lower = np.empty((source.n, 0), dtype=np.float32)
        self._far = NO_FLAGS
        self._bounds_for: np.ndarray | None = None  # the centres that bounds speak of …
        self._history, self._marks = History(), make_marks(0, 0)  # … and those of earlier passes
        self._group = np.empty(0, dtype=np.int32)
        self._n_groups = 0
        self._use32 = True
        self._once, self._errors = once, errors
        self._tallies = Tallies(source, self.weight, run, sums=not once or source.sparse)

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
        fresh = fresh or not self._errors
        if not fresh:  # bounds of float32 cannot follow a centre from the end of the world
            fresh = bool(np.abs(centers - self._bounds_for).max() * self.scale > FARTHEST)
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
        n = self.source.n
        if self._lower.shape[1] != self._n_groups:
            self._lower = np.empty((n, self._n_groups), dtype=np.float32)
        if penalty is not None and self._far.shape[0] == 0:
            self._far = np.zeros(n, dtype=np.uint8)
        sparse, small = self.source.sparse, is_small(n, k, self.source.d)
        products, history = not (small or sparse or self._direct), self._history
        marked = products and self._errors
        if small and not sparse:
            view = bare(centers, self.scale)
        else:
            fold = fresh or not marked or history.full
            past = history.known() if marked and not fresh else NO_PASSES
            if self._bounds_for is not None and not fresh and len(past) == 0:
                past = self._bounds_for[None] * self.scale
            groups = self._group, self._n_groups
            near = not self._once and k * k * 4 <= n
            path = None if fold else history.path
            view = prepare(centers, *groups, self._shift, self.scale, past, near, path)
        if marked:
            if self._marks.lower.shape != self._lower.shape:
                self._marks = make_marks(*self._lower.shape)
            if view.fold and not fresh and last - first < n:  # bounds of the others would be lost
                self._forget(0, n)
        local = threading.local()
        transposed = np.ascontiguousarray(view.exact.T) if sparse or small else None

        def partial(a: int, b: int, tally: Tally) -> np.ndarray:
            a, b = max(a, first), min(b, last)
            tally.stats[:] = 0.0
            if a < b:
                if fresh and (marked or not products):
                    self._forget(a, b)
                self._assign_range(a, b, view, tally, penalty, local, transposed)
            return tally.stats

        stats = np.sum(self._tallies.map(partial), axis=0)
        if marked:
            history.path, now = view.path, view.exact * self.scale
            if view.fold:
                history.restart(n, now)
            else:
                history.add(now)
        return stats

    def _forget(self, a: int, b: int) -> None:
        """Nothing is known of these rows."""
        self._upper[a:b], self._lower[a:b] = np.inf, 0.0
        for marks in self._marks:
            marks[a:b] = 0

    def _assign_range(
        self,
        first: int,
        last: int,
        view: Centers,
        tally: Tally,
        penalty: float | None,
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
            line = np.empty(len(view.exact))
            for a, b, block in self.source.blocks(first, last):
                rows = self._rows(a, b, penalty is not None)
                assign_plain(block, view.exact, transposed, line, view.scale, rows, tally, limit)
            return
        if not hasattr(local, "scratch"):
            k, d = view.exact.shape
            local.scratch = (
                make_direct_scratch(k, d)
                if self._direct
                else make_scratch(k, d, len(view.start) - 1)
            )
        for a, b, block in self.source.blocks(first, last):
            rows = self._rows(a, b, penalty is not None)
            if self._direct:
                assign_direct(block, view, rows, tally, local.scratch, limit)
            else:
                if not self._errors:
                    rows = rows._replace(**NO_BOUNDS)
                marks = Marks(*(part[a:b] for part in self._marks))
                how = tally, local.scratch, limit, self._use32
                assign_products(block, view, rows, marks, *how)

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
            if self._in_one_group(k):
                self._group, self._n_groups = np.zeros(k, dtype=np.int32), 1
            else:
                self._group, t = make_groups((centers - self.offset) * self.scale)
                self._n_groups = LANES * -(-t // LANES)  # the last ones are empty

    def _in_one_group(self, k: int) -> bool:
        few = self._direct or self.source.sparse or is_small(self.source.n, k, self.source.d)
        return few or self._once

    def _make_room(self, k: int) -> None:
        self._tallies.make_room(k, self.labels)

    def fold(self) -> None:
        """The next `assign` makes all bounds those of then, which is what it costs to ask."""
        self._history.close()

    def squared_bounds(self, rows: slice = ALL) -> tuple[np.ndarray, np.ndarray]:
        """Squared distance to the own centre (at most) and to any other one (at least)."""
        upper, lower = self._bounds(rows)
        lower = np.ascontiguousarray(lower.T).min(axis=0)  # a tenth of what rows would take
        lower = lower.astype(np.float64) / self.scale
        return (upper.astype(np.float64) / self.scale) ** 2, lower**2

    def _bounds(self, rows: slice = ALL) -> tuple[np.ndarray, np.ndarray]:
        """Upper and lower bounds, with the centres of now."""
        upper, lower, past = self._upper[rows], self._lower[rows], self._history.known()
        if len(past) < 2:
            return upper, lower
        marks = Marks(*(mark[rows] for mark in self._marks))
        return bounds_now(upper, lower, marks, self.labels[rows], self._group, past)

    def _add_sse(self, change: float) -> None:
        self.sse = max(self.sse + change, 0.0)
        self._sse_peak = max(self._sse_peak, self.sse)


def is_small(n: int, k: int, d: int) -> bool:
    """Is each of n rows compared with each of k centres, without further ado?"""
    return n <= FEW_ROWS and n * k * d <= SMALL
