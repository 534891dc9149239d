"""Rows divided among centres: who belongs where, and what the clusters add up to.

This is what every algorithm on squared error stands on. A `Partition` owns O(n) memory (a label, an
upper and a few lower bounds a row) and the sums of each cluster, and offers the steps that the
algorithms are written in: `assign` (nearest centres, in `assignment.py`), `means`, `far_rows`,
`offer`, `drop`.
"""

import numpy as np

from madbayes._partition.assignment import Assignment
from madbayes._partition.bounds import Tally
from madbayes._partition.seeding import spread_rows
from madbayes._partition.segment import half_gaps, open_by_rule, own_distances, scatter
from madbayes._rows.frame import NO_WEIGHT
from madbayes._rows.row_kernels import offer, squared_error
from madbayes._rows.rows import Rows, segments


class Partition(Assignment):
    """The rows of `source` under way between centres, and their clusters."""

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

    def filled_means(self, centers: np.ndarray) -> np.ndarray:
        """The same for the clusters that have rows; the others are dropped."""
        centers = self.means(centers)
        filled = self.counts() > 0
        if not filled.all():
            self.drop(filled)
        return centers[filled]

    def put(self, means: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """These centres in place of the means, which the error is of; all clusters have rows."""
        sums, weight, _ = self.totals()
        centers = directions(centers) if self.unit else centers
        middle = sums / weight[:, None]  # with `unit` not the same as the means
        farther = ((centers - middle) ** 2 - (means - middle) ** 2).sum(axis=1)
        self._add_sse(float(weight @ farther))
        return centers

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
        self._forget(row, row + 1)  # that centre has come from elsewhere

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
        return self.labels, *self._bounds(), self._tallies.parts

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
            self._history.keep(keep)

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


def directions(sums: np.ndarray) -> np.ndarray:
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)
