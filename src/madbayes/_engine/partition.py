"""Rows divided among centres: who belongs where, and what the clusters add up to.

This is what every algorithm on squared error stands on. A `Partition` owns O(n) memory (a label, an
upper and a few lower bounds a row) and the sums of each cluster, and offers the steps that the
algorithms are written in: `assign` (nearest centres), `means`, `far_rows`, `offer`, `drop`.

Every step is a map over fixed segments of the rows (`partial`), whose results are added in the
order of the segments: nothing depends on how many threads ran it.
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from madbayes._engine.centers import make_direct_scratch, make_groups, make_scratch, prepare
from madbayes._engine.rows import DIRECT_COLUMNS, MAX_SEGMENTS, segments
from madbayes._engine.rows import Rows as Source
from madbayes._engine.seeding import spread_rows, squared_distances
from madbayes._engine.threads import Run
from madbayes._kernels import assign as products
from madbayes._kernels.assign import Centers, Tally, move_row
from madbayes._kernels.direct import assign_direct
from madbayes._kernels.rows import (
    add_sums,
    distances_to,
    moments,
    offer,
    open_clusters,
    squared_error,
    tally_rows,
)
from madbayes._kernels.sparse import assign_sparse

NO_WEIGHT = np.empty(0)
NO_FLAGS = np.empty(0, dtype=np.uint8)
MERGED_AT_ONCE = 8192  # sums that one thread adds up: they stay in its cache


class Frame(NamedTuple):
    """Where the data lies: measured once for a fit."""

    mean: np.ndarray  # (d,) float64: the weighted mean
    total_weight: float
    offset: np.ndarray  # (d,) float64: the kernels work on x - offset …
    scale: float  # … times this power of two


class Partition:
    """The rows of `source`, with `weight` (None: all ones), under way between centres.

    With `unit` rows and centres have length 1 (spherical k-means, for the cosine metric).
    """

    def __init__(
        self,
        source: Source,
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
        self._segments: list[tuple[int, int]] = []
        self._tallies: list[Tally] = []

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

    def _prepare(self, centers: np.ndarray, fresh: bool) -> Centers:
        return prepare(
            centers,
            self._group,
            self._n_groups,
            self.offset,
            self.scale,
            None if fresh else self._bounds_for,
            separate=centers.shape[0] ** 2 * 4 <= self.source.n,
        )

    def _assign_segments(
        self, centers: np.ndarray, penalty: float | None, first: int, last: int, fresh: bool
    ) -> np.ndarray:
        """The statistics of all segments together."""
        if self._lower.shape[1] != self._n_groups:
            self._lower = np.empty((self.source.n, self._n_groups), dtype=np.float32)
        if penalty is not None and self._far.shape[0] == 0:
            self._far = np.zeros(self.source.n, dtype=np.uint8)
        view = self._prepare(centers, fresh)
        local = threading.local()
        transposed = np.ascontiguousarray(view.exact.T) if self.source.sparse else None

        def partial(segment: tuple[tuple[int, int], Tally]) -> np.ndarray:
            (a, b), tally = segment
            a, b = max(a, first), min(b, last)
            tally.stats[:] = 0.0
            if a < b:
                if fresh:
                    self._upper[a:b] = np.inf
                    self._lower[a:b] = 0.0
                self._assign_range(a, b, view, tally, penalty, fresh, local, transposed)
            return tally.stats

        return np.sum(self.run(partial, zip(self._segments, self._tallies, strict=True)), axis=0)

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
                products.assign_products(
                    block, view, rows, tally, local.scratch, limit, fresh, self._use32
                )

    def _rows(self, a: int, b: int, flags: bool) -> products.Rows:
        return products.Rows(
            self.labels[a:b],
            self._upper[a:b],
            self._lower[a:b],
            self.weight[a:b],
            self._far[a:b] if flags else NO_FLAGS,
        )

    def _make_bounds(self, centers: np.ndarray) -> None:
        k = centers.shape[0]
        if self._group.shape[0] != k:
            if self._direct or self.source.sparse:
                self._group, self._n_groups = np.zeros(k, dtype=np.int32), 1
            else:
                self._group, self._n_groups = make_groups((centers - self.offset) * self.scale)

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

    def spread(self, k: int) -> tuple[Source, np.ndarray]:
        """The rows among which k first centres are looked for, and their weights."""
        rows = spread_rows(self.source.n, k)
        if rows is None:
            return self.source, self.weight
        return Source(self.source.take(rows)), self.weight[rows] if self.weight.size else NO_WEIGHT

    def _add_sse(self, change: float) -> None:
        self.sse = max(self.sse + change, 0.0)
        self._sse_peak = max(self._sse_peak, self.sse)

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums, weights and numbers of rows of each cluster."""
        shape = self._tallies[0].sums.shape
        sums = np.empty(shape)

        def partial(clusters: slice) -> None:
            parts = [(tally.sums[clusters], tally.low[clusters]) for tally in self._tallies]
            high, low = merge_sums(parts)
            np.add(high, low, out=sums[clusters])

        step = max(1, MERGED_AT_ONCE // (self.source.d + 1))
        self.run(partial, [slice(c, c + step) for c in range(0, shape[0], step)])
        return sums[:, :-1], sums[:, -1], self.counts()

    def counts(self) -> np.ndarray:
        """Numbers of rows (of positive weight) of each cluster."""
        return np.sum([tally.count for tally in self._tallies], axis=0)

    def recount(self) -> None:
        """Add up sums and weights afresh from the labels, which removes what rounding left."""

        def partial(segment: tuple[tuple[int, int], Tally]) -> None:
            (first, last), tally = segment
            for part in tally[:3]:
                part[:] = 0
            for a, b, block in self.source.blocks(first, last):
                tally_rows(block, self.weight[a:b], self.labels[a:b], tally)

        self.run(partial, zip(self._segments, self._tallies, strict=True))

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
        at = next(s for s, (a, b) in enumerate(self._segments) if a <= row < b)
        w = self.weight[row] if self.weight.shape[0] else 1.0
        if w > 0:
            x = self.source.take(np.array([row]))
            move_row(x, 0, w, self.labels[row], to, self._tallies[at])
        self.labels[row] = to
        self._add_sse(-w * d2)
        self._bounds_for = None

    def drop(self, keep: np.ndarray) -> None:
        """Forget the (empty) clusters that are not in the mask `keep`; labels move up."""
        # Only rows of weight 0 can be left in a cluster that counts as empty.
        new_label = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
        self.labels[:] = new_label[self.labels]
        self._tallies = [
            Tally(t.sums[keep], t.low[keep], t.count[keep], t.stats) for t in self._tallies
        ]
        if self._bounds_for is not None:
            self._bounds_for = self._bounds_for[keep]
            self._group = self._group[keep]

    def farthest(self, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` rows that are farthest from the centres of their labels, and how far (d²)."""
        d2 = np.empty(self.source.n)

        def partial(cut: tuple[int, int]) -> None:
            for a, b, block in self.source.blocks(*cut):
                d2[a:b] = own_distances(block, self.weight[a:b], self.labels[a:b], centers)

        self.run(partial, segments(self.source.n, 1))
        rows = np.argsort(-d2, kind="stable")[:count]
        return rows, d2[rows]

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

        def partial(segment: tuple[tuple[int, int], Tally]) -> np.ndarray:
            (a, b), tally = segment
            tally.stats[:] = 0.0
            self._offer_range(a, min(b, last), new, opened_at, half_gap, exact, tally)
            return tally.stats

        return np.sum(self.run(partial, zip(self._segments, self._tallies, strict=True)), axis=0)

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
        a, k_old = max(a, int(opened_at[0])), exact.shape[0]
        for first, end, block in self.source.blocks(a, b) if a < b else ():
            rows = self._rows(first, end, False)
            offer(
                *(block, first, new, opened_at, half_gap, exact, self.scale, k_old, rows, tally),
            )

    def _make_room(self, k: int) -> None:
        """Let the sums hold k clusters."""
        if self._tallies and self._tallies[0].sums.shape[0] == k:
            return
        cuts = segments(self.source.n, k * self.source.sparsity)
        old, self._segments = self._tallies, cuts
        shape = (k, self.source.d + 1)
        self._tallies = [
            Tally(np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(4))
            for _ in cuts
        ]
        if not old:
            return
        if len(old) == len(cuts):
            for before, now in zip(old, self._tallies, strict=True):
                m = min(k, before.sums.shape[0])
                for part, whole in zip(before[:3], now[:3], strict=True):
                    whole[:m] = part[:m]
        elif self._all_assigned():
            self.recount()


def own_distances(
    block: np.ndarray, weight: np.ndarray, labels: np.ndarray, centers: np.ndarray
) -> np.ndarray:
    """The squared distance of each row to the centre of its label; 0 for rows of weight 0."""
    diff = block - centers[labels]
    d2 = np.einsum("ij,ij->i", diff, diff)
    return np.where(weight == 0, 0.0, d2) if weight.shape[0] else d2


def scatter(source: Source, weight: np.ndarray, mean: np.ndarray, cut: tuple[int, int]) -> float:
    """Σ w ‖x - mean‖² of a segment."""
    d2 = squared_distances(source, *cut, mean)[0]
    return float((weight[cut[0] : cut[1]] * d2 if weight.shape[0] else d2).sum())


def open_by_rule(
    X: np.ndarray,
    weight: np.ndarray,
    labels: np.ndarray,
    centers: np.ndarray,
    penalty: float,
    limit: int,
) -> np.ndarray:
    """Which rows of X open a cluster, one after the other."""
    opened = np.empty(min(limit, len(X)), dtype=np.int64)
    exact = np.ascontiguousarray(centers)
    return opened[: open_clusters(X, weight, labels, exact, penalty, limit, opened)]


def half_gaps(exact: np.ndarray, new: np.ndarray, scale: float) -> np.ndarray:
    """(k, m) half the distances between centres and new ones, scaled."""
    gap = np.empty((new.shape[0], exact.shape[0]))
    distances_to(exact, new, gap)
    return 0.5 * scale * np.sqrt(np.ascontiguousarray(gap.T))


def merge_sums(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of segments in two parts, added in their order, MAX_SEGMENTS at a time."""
    while len(parts) > 1:
        parts = [
            add_in_order(parts[i : i + MAX_SEGMENTS]) for i in range(0, len(parts), MAX_SEGMENTS)
        ]
    return parts[0]


def add_in_order(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    high, low = parts[0][0].copy(), parts[0][1].copy()
    for more, more_low in parts[1:]:
        add_sums(high, low, more, more_low)
    return high, low


def directions(sums: np.ndarray) -> np.ndarray:
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def measure(source: Source, weight: np.ndarray | None, run: Run) -> Frame:
    """The weighted mean, the total weight, and the shift and scale that the kernels work in."""
    weight = NO_WEIGHT if weight is None else weight
    if source.sparse:
        total = float(weight.sum()) if weight.shape[0] else float(source.n)
        sums = source.X.T @ (weight if weight.shape[0] else np.ones(source.n))
        largest = float(np.abs(source.X.data).max(initial=0.0))
        check_spread(largest, total, source.d)
        mean = np.asarray(sums).ravel() / total
        return Frame(mean, total, np.zeros(source.d), power_of_two(largest))
    first = int(np.argmax(weight > 0)) if weight.shape[0] else 0  # a row that counts
    origin = source.take(np.array([first]))[0]

    parts = run(lambda cut: add_up(source, weight, origin, cut), segments(source.n, 1))
    return make_frame(origin, parts)


def add_up(
    source: Source, weight: np.ndarray, origin: np.ndarray, cut: tuple[int, int]
) -> tuple[np.ndarray, float, float]:
    """The sum of the rows of a segment about `origin`, their weight, the largest difference."""
    sums, total, largest = np.zeros(source.d), 0.0, 0.0
    for a, b, block in source.blocks(*cut):
        w, top = moments(block, weight[a:b], origin, sums)
        total, largest = total + w, max(largest, top)
    return sums, total, largest


def make_frame(origin: np.ndarray, parts: list[tuple[np.ndarray, float, float]]) -> Frame:
    """What the segments add up to."""
    total = float(sum(part[1] for part in parts))
    largest = float(max(part[2] for part in parts))
    check_spread(largest, total, origin.size)
    mean = origin + sum(part[0] for part in parts) / total
    with np.errstate(over="ignore"):
        farthest = np.abs(origin).max() + largest
        if not farthest * max(total, 1.0) < 1e307:
            raise ValueError(
                f"X reaches {farthest:.3g}: the sum of its rows would overflow float64. "
                "Subtract its mean, or divide it."
            )
    return Frame(mean, total, mean, power_of_two(largest))


def measure_to_fit(source: Source, weight: np.ndarray | None, run: Run) -> Frame:
    """The same for rows from which centres are to be found: they must not be too close together."""
    return check_closeness(measure(source, weight, run))


def check_closeness(frame: Frame) -> Frame:
    """Rows that are not the same must differ by more than float64 can square."""
    if frame.scale > 1e151:
        raise ValueError(
            f"X spreads over only {1 / frame.scale:.3g}: squared distances would underflow "
            f"float64. Multiply X by, say, {frame.scale:.1g} (and the penalty by its square)."
        )
    return frame


def check_reach(centers: np.ndarray, frame: Frame, d: int) -> None:
    """Squared distances between rows and centres must not overflow."""
    with np.errstate(over="ignore"):
        reach = float(np.abs(centers - frame.offset).max(initial=0.0)) + 1.0 / frame.scale
        top = np.float64(reach) ** 2 * max(frame.total_weight, 1.0) * d
    if not top < 1e307:
        raise ValueError(
            f"X and the centres are {reach:.3g} apart: the sum of squared distances would overflow "
            f"float64. Divide both by, say, {min(reach, 1e300):.1g}."
        )


def power_of_two(largest: float) -> float:
    """A factor that brings `largest` near 1 and changes no digit."""
    return float(2.0 ** min(-np.ceil(np.log2(largest)), 1000.0)) if largest > 0 else 1.0


def check_spread(largest: float, total_weight: float, d: int) -> None:
    with np.errstate(over="ignore"):
        top = np.float64(largest) ** 2 * max(total_weight, 1.0) * d
    if not np.isfinite(top) or top > 1e307:
        raise ValueError(
            f"X spreads over {largest:.3g}, and the weights add up to {total_weight:.3g}: the sum "
            "of squared distances would overflow float64. Divide X by, say, "
            f"{min(largest, 1e300):.1g} (and the penalty by its square)."
        )
