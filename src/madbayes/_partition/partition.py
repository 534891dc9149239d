"""A partition of rows among centres: the label of each row, and the sums of each cluster.

Every algorithm on squared error uses a `Partition`. The `Partition` keeps what is small (the
centres that the bounds refer to, the error) and makes the decisions. Everything that has one value
for each row (a label, one upper and a few lower bounds), and the sums of each cluster, is in a
`State`. There is one state for each share of the rows, and the functions of `segment.py` change it.
The executor of the rows maps these functions over the shares, in threads of this process or on the
workers that hold the rows. Algorithms are written with the steps `assign`, `means`, `far_rows`,
`offer` and `drop`.
"""

from typing import Any

import numpy as np

from madbayes._partition import segment
from madbayes._partition.bounds import Tally
from madbayes._partition.prepared_centers import make_groups, prepare
from madbayes._partition.seeding import spread_rows
from madbayes._partition.segment import Pass, Proposals, State
from madbayes._partition.small_lloyd import take_means
from madbayes._partition.tallies import Report, merge, room_for
from madbayes._rows.frame import Frame, check_reach, measure, shift_for
from madbayes._rows.rows import DIRECT_COLUMNS, Cut, Rows, overlaps, segments

# Up to this many centres × columns, comparing a row with all centres costs less than its bounds.
BOUNDS_PAY = 2**11


def make_pass(centers: np.ndarray, how: tuple, kernel: str, *rest: Any) -> Pass:
    """A `Pass`, with the centres in the forms that its kernel reads (`how`: see `prepare`)."""
    ready = prepare(centers, *how)
    transposed = np.ascontiguousarray(ready.exact.T) if kernel == "sparse" else None
    return Pass(ready, transposed, kernel, *rest)


class Partition:
    """The rows of a table, divided among centres.

    `unit` (None: as the rows say): rows and centres have length 1, as in spherical k-means for the
    cosine metric. `once`: the caller assigns to one set of centres only, and reads labels and
    errors only. `errors=False`: the caller reads labels only, and `sse` may be wrong. `bounds`:
    the caller reads `squared_bounds`, so bounds are kept even if they cost more than they save.
    """

    def __init__(
        self,
        rows: Any,
        frame: Frame | None = None,
        *,
        unit: bool | None = None,
        once: bool = False,
        errors: bool = True,
        bounds: bool = False,
    ) -> None:
        self.rows, self.executor = rows, rows.executor
        self.unit = rows.unit if unit is None else unit
        self.frame = frame or measure(rows)
        self.scale = self.frame.scale
        self.sse = 0.0  # Σ w d² to the centres of the last `assign` or `means`
        self._sse_peak = 0.0  # the largest `sse` since it was last measured from the rows
        self._once, self._errors, self._keeps_bounds = once, errors, bounds
        self._shift = shift_for(rows.dtype, self.frame)
        self._bounds_for: np.ndarray | None = None  # the centres that the bounds refer to
        self._group = np.empty(0, dtype=np.int32)
        self._n_groups = 0
        self._use32 = True
        self._k = 0
        self._cut: Any = rows  # the table, cut into the segments that have sums of their own …
        self._shares: list[Any] = []  # … and the shares of this table
        self._states: list[Any] = []  # one for each share
        self._far = np.zeros(0, np.int64)  # how many rows of each share are far from all centres
        self._report: Report | None = None  # the sums of all clusters; None: to be added up

    @property
    def labels(self) -> Any:
        """The label of each row, in the form that `Rows.join` gives them."""
        return self.rows.join(self._labels())

    def _labels(self) -> list[Any]:
        """The labels of each share of the table."""
        return self.executor.map(segment.labels_of, self._states_of(self.rows), brief=True)

    # Assignment

    def assign(
        self, centers: np.ndarray, penalty: float | None = None, rows: Cut | None = None
    ) -> int:
        """Assign each row (of the range `rows`) to its nearest centre; return how many rows moved.

        With a penalty, `far_rows` then gives the rows whose weight * squared distance exceeds it.
        """
        everything = (0, self.rows.n)
        rows = rows or everything
        self._make_room(len(centers))
        check_reach(centers, self.frame, self.rows.d)
        kernel, bounded = self._kernel(centers, penalty)
        exact = np.ascontiguousarray(centers, dtype=np.float64)
        fresh = not bounded or not self._bounds_hold(exact, whole=rows == everything)
        if fresh:
            self._make_groups(exact, kernel if bounded else "")
        past, separate = self._bounds_for, bounded and 4 * len(centers) ** 2 <= self.rows.n
        ready = self._group, self._n_groups, self._shift, self.scale, None if fresh else past
        how = self.executor.once(
            *(make_pass, exact, (*ready, separate), kernel, penalty, rows, fresh),
            *(bounded, self._n_groups, self._errors, self._use32),
        )
        stats = self._change(segment.assign, self._touched(*rows), how)
        self._bounds_for = exact if bounded and (not fresh or rows == everything) else None
        self._add_sse(stats[0])
        # If float32 products leave the nearest centre of many rows open, do not try them again.
        self._use32 = self._use32 and stats[3] <= 0.3 * (rows[1] - rows[0])
        return int(stats[1])

    def _kernel(self, centers: np.ndarray, penalty: float | None) -> tuple[str, bool]:
        """The kernel of a pass, and whether it uses bounds.

        `offer` reads bounds after a pass with a penalty.
        """
        if self.rows.sparse:
            return "sparse", True
        kernel = "direct" if self.rows.d <= DIRECT_COLUMNS else "products"
        if self._once or not self._errors:
            return kernel, False
        needed = self._keeps_bounds or penalty is not None or not self._use32
        return kernel, needed or centers.size > BOUNDS_PAY

    def _bounds_hold(self, centers: np.ndarray, whole: bool) -> bool:
        """Whether the bounds of all rows can be adjusted to these centres.

        float32 bounds cannot be adjusted for a centre that moved extremely far. A pass over a part
        of the rows adjusts only their bounds, so it needs the same centres as before.
        """
        before = self._bounds_for
        if before is None or before.shape != centers.shape:
            return False
        step = float(np.abs(centers - before).max())
        return step == 0.0 or (whole and step * self.scale <= 1e30)

    def _make_groups(self, centers: np.ndarray, kernel: str) -> None:
        """Divide the centres into groups. A row has one lower bound for each group."""
        k = len(centers)
        if self._group.shape[0] != k:
            if kernel != "products":
                self._group, self._n_groups = np.zeros(k, dtype=np.int32), 1
            else:
                self._group, self._n_groups = make_groups(
                    (centers - self.frame.offset) * self.scale
                )

    def _touched(self, first: int, last: int) -> list[int]:
        return [s for s, (a, b) in enumerate(self._cut.spans) if a < last and first < b]

    def _change(self, function: Any, touched: list[int], *args: Any) -> np.ndarray:
        """Apply `function` to the states of some shares; return the sum of their statistics."""
        shares, states = self._shares, self._states
        found = self.executor.change(
            function, [shares[s] for s in touched], [states[s] for s in touched], *args
        )
        for s, state in zip(touched, found, strict=True):
            states[s] = state
        self._report = None
        if self.executor.remote and len(touched) == len(states):  # the caller needs sums next
            stats = self._totals().stats
        else:
            stats = np.vstack(self.executor.ask(segment.stats_of, found, brief=True))
        sizes = np.array(self._cut.sizes())[touched]
        self._far[:] = 0
        self._far[touched] = np.add.reduceat(stats[:, 2], np.cumsum(sizes) - sizes)
        return stats.sum(axis=0)

    def _make_room(self, k: int) -> None:
        """Make room for the sums of k clusters; the more clusters, the fewer segments."""
        if k == self._k:
            return
        cut, before = self.rows.cut_at(segments(self.rows.n, k * self.rows.sparsity)), self._k
        self._k, self._report = k, None
        if before and cut.cuts == self._cut.cuts:
            return
        if before:
            self._states = self._states_of(cut)
        else:
            columns = self.rows.d + 1 if not self._once or self.rows.sparse else 0
            args = (columns,)
            self._states = self.executor.map(segment.first_state, cut.shares, args=args, brief=True)
        self._cut_into(cut)
        if before and self._all_assigned():
            self.recount()

    def _cut_into(self, table: Any) -> None:
        self._cut, self._shares = table, table.shares
        self._far = np.zeros(len(table.spans), np.int64)

    def _states_of(self, table: Any) -> list[Any]:
        """The states of the rows, rearranged for a table that is cut at other rows."""
        if table.cuts == self._cut.cuts:
            return self._states
        parts = [
            [(self._states[s], a, b) for s, a, b in each]
            for each in overlaps(self._cut.spans, table.spans)
        ]
        return self.executor.map(segment.join_states, table.shares, parts)

    def _all_assigned(self) -> bool:
        return min(self.executor.ask(segment.lowest_label, self._states)) >= 0

    def squared_bounds(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """For each row, an upper bound on the squared distance to its own centre, and a lower bound
        on the squared distance to any other centre."""
        lower = np.ascontiguousarray(state.lower.T).min(axis=0)  # ten times as fast as by rows
        lower = lower.astype(np.float64) / self.scale
        return (state.upper.astype(np.float64) / self.scale) ** 2, lower**2

    def shares_and_states(self) -> list[tuple[Any, Any]]:
        return list(zip(self._shares, self._states, strict=True))

    def _add_sse(self, change: float) -> None:
        self.sse = max(self.sse + change, 0.0)
        self._sse_peak = max(self._sse_peak, self.sse)

    # Clusters

    def means(self, centers: np.ndarray) -> np.ndarray:
        """The weighted mean of each cluster; an empty cluster keeps its centre in `centers`.

        With `unit`, the mean scaled to length 1, which has the least squared error of all centres
        of length 1.
        """
        whole, old = self._totals(), np.ascontiguousarray(centers, np.float64)
        new = np.empty_like(old)
        saved = take_means(whole.sums, whole.low, whole.count, old, new)
        if saved < 0.0:  # rounding of very different weights
            self.recount()
            whole = self._totals()
            saved = take_means(whole.sums, whole.low, whole.count, old, new)
        if self.unit:
            sums, weight, count = self.totals()
            filled = (count > 0) & sums.any(axis=1)
            new = old.copy()
            new[filled] = directions(sums[filled])
            old, now = old[filled], new[filled]
            longer = (now**2).sum(axis=1) - (old**2).sum(axis=1)  # first centres are rounded
            saved = 2.0 * (sums[filled] * (now - old)).sum() - weight[filled] @ longer
        self._add_sse(-float(saved))
        if self.sse < 1e-5 * self._sse_peak and self._all_assigned():
            self.measure_sse(new)  # differences have cancelled most of the digits of `sse`
        return new

    def filled_means(self, centers: np.ndarray) -> np.ndarray:
        """The means of the clusters that have rows; empty clusters are dropped."""
        centers = self.means(centers)
        filled = self.counts() > 0
        if not filled.all():
            self.drop(filled)
        return centers[filled]

    def put(self, means: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """Use `centers` instead of `means`, and change `sse` accordingly.

        `means` is the result of the last `means()`; every cluster has rows.
        """
        sums, weight, _ = self.totals()
        centers = directions(centers) if self.unit else centers
        middle = sums / weight[:, None]  # with `unit` not of length 1, as the means are
        farther = ((centers - middle) ** 2 - (means - middle) ** 2).sum(axis=1)
        self._add_sse(float(weight @ farther))
        return centers

    def middle(self) -> np.ndarray:
        """The mean of all rows (with `unit`, its direction), of shape (1, d)."""
        mean = self.frame.mean[None, :]
        return directions(mean) if self.unit and mean.any() else mean

    def mean_variance(self) -> float:
        """The variance of a column, averaged over the columns."""
        mean = self.frame.mean[None, :]
        parts = self.executor.ask(segment.scatter, self.rows.shares, args=(mean,))
        total = sum(part for share in parts for part in share)
        return total / (self.frame.total_weight * self.rows.d)

    def spread(self, k: int) -> Rows:
        """The rows from which k first centres are drawn, copied into this process."""
        rows = spread_rows(self.rows.n, k)
        return self.rows.here() if rows is None else self.rows.some(rows)

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each cluster: the weighted sum of its rows, its weight, and its number of rows."""
        whole = self._totals()
        sums = whole.sums + whole.low
        return sums[:, :-1], sums[:, -1], self.counts()

    def counts(self) -> np.ndarray:
        """The number of rows (of positive weight) of each cluster."""
        return np.array(self._totals().count)

    def _totals(self) -> Report:
        if self._report is None:
            args = self._states, self._cut.sizes(), self._k
            self._report = self.executor.tree(segment.report_of, merge, *args)
        return self._report

    def recount(self) -> None:
        """Add up sums and weights again from the labels, which removes rounding errors."""
        args = self._shares, self._states, self._k
        self._states, self._report = self.executor.change(segment.recount, *args), None

    def measure_sse(self, centers: np.ndarray) -> float:
        """Measure Σ w d² for the labels and `centers` from the rows."""
        exact = self.executor.once(np.ascontiguousarray, centers, np.float64)
        self.sse = self._sse_peak = measure_error(self.rows, self._labels(), exact)
        return self.sse

    def move(self, row: int, to: int, d2: float) -> None:
        """Move one row into cluster `to`, whose centre is this row.

        d2 is the squared distance of the row to its old centre.
        """
        weight = float(self.rows.take_weights(np.array([row]))[0])
        self._change(segment.move, self._touched(row, row + 1), row, to)
        self._add_sse(-weight * d2)

    def farthest(self, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` rows farthest from their own centres, and their squared distances."""
        exact = self.executor.once(np.ascontiguousarray, centers, np.float64)
        args = self._shares, self._states
        parts = self.executor.ask(segment.farthest, *args, args=(exact, count))
        rows, d2 = (np.concatenate(column) for column in zip(*parts, strict=True))
        first = np.argsort(-d2, kind="stable")[:count]
        return rows[first], d2[first]

    def relabel(self, new_label: np.ndarray) -> None:
        """Renumber the clusters. Bounds are not renumbered, so no `assign` may follow."""
        args = self._shares, self._states, new_label.astype(np.int32)
        self._states = self.executor.change(segment.relabel, *args)

    def drop(self, keep: np.ndarray) -> None:
        """Remove the (empty) clusters that are not in the mask `keep`, and close gaps in labels."""
        self._states = self.executor.change(segment.drop, self._shares, self._states, keep)
        self._k, self._report = int(keep.sum()), None
        if self._bounds_for is not None:
            self._bounds_for = self._bounds_for[keep]
            self._group = self._group[keep]

    # Openings (KJ Algorithm 1)

    def far_rows(self, first: int, last: int, most: int) -> Proposals:
        """The rows that the last `assign` with a penalty found too far from every centre.

        Returns only the first `most` of them, and reads no more shares than necessary.
        """
        asked, wanted = 0, []
        for s in self._touched(first, last):
            if self._far[s] and asked < most:
                wanted.append(s)
                asked += int(self._far[s])
        shares, states = ([each[s] for s in wanted] for each in (self._shares, self._states))
        args = ((first, last), most)
        parts = self.executor.ask(segment.far_rows, shares, states, args=args)
        if not parts:
            none = np.empty(0, np.int64)
            return Proposals(none, np.empty((0, self.rows.d)), np.empty(0), none)
        return Proposals(*(np.concatenate(column)[:most] for column in zip(*parts, strict=True)))

    def open_clusters(
        self, centers: np.ndarray, far: Proposals, penalty: float, limit: int
    ) -> Proposals:
        """The rows of `far` that open a cluster, at most `limit`.

        A row counts the clusters that earlier rows opened (KJ Algorithm 1).
        """
        opened = segment.open_by_rule(far, centers, penalty, limit)
        return Proposals(*(part[opened] for part in far))

    def offer(self, centers: np.ndarray, opened: Proposals, last: int) -> np.ndarray:
        """Move rows up to `last` to a new cluster that an earlier row opened, if it is nearer.

        Returns the old centres, followed by the new ones.
        """
        exact, new = np.ascontiguousarray(centers), opened.rows.astype(np.float64)
        self._make_room(len(exact) + len(new))
        openings = self.executor.once(segment.make_openings, exact, new, opened.at, self.scale)
        touched = self._touched(int(opened.at[0]), last)
        self._add_sse(self._change(segment.offer, touched, openings, last)[0])
        self._bounds_for = None
        return np.vstack([centers, new])

    # Checkpoints

    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Tally]]:
        """Labels, upper bounds, lower bounds and sums, for a checkpoint."""
        states = self.executor.fetch(self._states)
        labels = np.concatenate([state.labels for state in states])
        upper = np.concatenate([state.upper for state in states])
        lower = segment.join_lower([state.lower for state in states])
        tallies = [room_for(state.tallies, self._k) for state in states]
        return labels, upper, lower, [tally for share in tallies for tally in share]

    def set_state(
        self, labels: np.ndarray, upper: np.ndarray, lower: np.ndarray, tallies: list[Tally]
    ) -> None:
        """Continue from a checkpoint, with the values that `state` returned."""
        self._k, self._report = len(tallies[0].sums), None
        self._cut_into(self.rows.cut_at(segments(self.rows.n, self._k * self.rows.sparsity)))
        left, states = list(tallies), []
        for (a, b), number in zip(self._cut.spans, self._cut.sizes(), strict=True):
            mine, left = left[:number], left[number:]
            parts = labels[a:b], upper[a:b], lower[a:b]
            states.append(State(*parts, segment.NO_FLAGS, mine))
        self._states = self.executor.map(State.copy, states)


def measure_error(rows: Any, labels: list[Any], centers: Any) -> float:
    """Σ w d² between the rows and the centres of their labels; one array of labels per share."""
    parts = rows.executor.ask(segment.error_of, rows.shares, labels, args=(centers,))
    return float(sum(part for share in parts for part in share))


def directions(sums: np.ndarray) -> np.ndarray:
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)
