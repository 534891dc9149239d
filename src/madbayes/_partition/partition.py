"""Rows divided among centres: who belongs where, and what the clusters add up to.

This is what every algorithm on squared error stands on. A `Partition` keeps what is small (centres,
error, what the bounds speak of) and decides; what is known of the rows (a label, an upper and a few
lower bounds a row, sums of each cluster) is a state for each share of them, which functions of
`segment.py` change. The executor of the rows maps these functions: in threads of this process, or
where the rows are. `assign`, `means`, `far_rows`, `offer` and `drop` are the steps that algorithms
are written in.
"""

from typing import Any, NamedTuple

import numpy as np

from madbayes._jit.vectors import LANES
from madbayes._partition import segment
from madbayes._partition.bound_history import History
from madbayes._partition.bounds import Tally
from madbayes._partition.prepared_centers import bare, make_groups, prepare
from madbayes._partition.seeding import spread_rows
from madbayes._partition.segment import Pass, Proposals, State
from madbayes._partition.tallies import Report, merge, room_for
from madbayes._rows.frame import Frame, check_reach, measure, shift_for
from madbayes._rows.rows import DIRECT_COLUMNS, Cut, Rows, overlaps, segments

NO_PASSES = np.empty((0, 0, 0))
FEW_ROWS = 2**12  # up to which every row is compared with every centre …
SMALL = 2**24  # … if rows × centres × columns are not more
FARTHEST = 1e30  # scaled


def is_small(n: int, k: int, d: int, small: int | None = None) -> bool:
    """Whether each of n rows is compared with each of k centres, without bounds."""
    return n <= FEW_ROWS and n * k * d <= (SMALL if small is None else small)


class View(NamedTuple):
    """How the centres of a pass are prepared (`prepared_centers.prepare`)."""

    group: np.ndarray
    n_groups: int
    offset: np.ndarray
    scale: float
    past: np.ndarray
    separate: bool
    path: np.ndarray | None


def make_pass(centers: np.ndarray, view: View, kernel: str, *rest: Any) -> Pass:
    """A pass, its centres in the forms that its kernel reads."""
    ready = bare(centers, view.scale) if kernel == "plain" else prepare(centers, *view)
    by_columns = kernel in ("plain", "sparse")
    transposed = np.ascontiguousarray(ready.exact.T) if by_columns else None
    return Pass(ready, transposed, kernel, *rest)


class Partition:
    """The rows of a table under way between centres, and their clusters.

    With `unit` (None: that of the rows) rows and centres have length 1 (spherical k-means, for the
    cosine metric). `once`: only labels and errors are asked for, of one set of centres; without
    `errors` not even those, and `sse` need not be right. Up to `small` (None: SMALL) products of
    rows, centres and columns every row is compared with every centre.
    """

    def __init__(
        self,
        rows: Any,
        frame: Frame | None = None,
        *,
        unit: bool | None = None,
        once: bool = False,
        errors: bool = True,
        small: int | None = None,
    ) -> None:
        self.rows, self.executor = rows, rows.executor
        self.unit = rows.unit if unit is None else unit
        self.frame = frame or measure(rows)
        self.scale = self.frame.scale
        self.sse = 0.0  # Σ w d² to the centres that `assign` or `means` dealt with last
        self._sse_peak = 0.0  # the largest it has been since it was last measured
        self._once, self._errors, self._small = once, errors, small
        self._shift = shift_for(rows.dtype, self.frame)
        self._bounds_for: np.ndarray | None = None  # the centres that bounds speak of …
        self._history = History(single=self.executor.remote)  # … and those of earlier passes
        self._group = np.empty(0, dtype=np.int32)
        self._n_groups = 0
        self._use32 = True
        self._k = 0
        self._cut: Any = rows  # the table, in the segments that sums are kept for …
        self._shares: list[Any] = []  # … and its shares
        self._states: list[Any] = []  # one for each share of it
        self._far = np.zeros(0, np.int64)  # how many rows of each share are far from all centres
        self._report: Report | None = None  # what all clusters add up to, if it is known

    @property
    def labels(self) -> Any:
        """The label of each row, as the table joins them."""
        return self.rows.join(self._labels())

    def _labels(self) -> list[Any]:
        """The same, of each share of the table."""
        return self.executor.map(segment.labels_of, self._states_of(self.rows), brief=True)

    # Assignment

    def assign(
        self, centers: np.ndarray, penalty: float | None = None, rows: Cut | None = None
    ) -> int:
        """Give each row (of the range `rows`) its nearest centre; return how many moved.

        With a penalty, `far_rows` tells afterwards where weight * squared distance exceeds it.
        """
        n = self.rows.n
        rows = rows or (0, n)
        self._make_room(len(centers))
        check_reach(centers, self.frame, self.rows.d)
        fresh = self._bounds_for is None or self._bounds_for.shape != centers.shape
        fresh = fresh or not self._errors
        if not fresh:  # bounds of float32 cannot follow a centre from the end of the world
            fresh = bool(np.abs(centers - self._bounds_for).max() * self.scale > FARTHEST)
        kernel = self._kernel(len(centers))
        if fresh:
            self._make_groups(centers, kernel)
        stats = self._assign_shares(centers, penalty, rows, fresh, kernel)
        if not fresh or rows == (0, n):
            self._bounds_for = np.ascontiguousarray(centers, dtype=np.float64)
        self._add_sse(stats[0])
        # Where the float32 product cannot tell most rows apart, do not try it again.
        self._use32 = self._use32 and stats[3] <= 0.3 * (rows[1] - rows[0])
        return int(stats[1])

    def _kernel(self, k: int) -> str:
        if self.rows.sparse:
            return "sparse"
        if is_small(self.rows.n, k, self.rows.d, self._small):
            return "plain"
        return "direct" if self.rows.d <= DIRECT_COLUMNS else "products"

    def _make_groups(self, centers: np.ndarray, kernel: str) -> None:
        """Groups of centres, each of which has a lower bound of its own."""
        k = len(centers)
        if self._group.shape[0] != k:
            if kernel != "products" or self._once:
                self._group, self._n_groups = np.zeros(k, dtype=np.int32), 1
            else:
                self._group, t = make_groups((centers - self.frame.offset) * self.scale)
                self._n_groups = LANES * -(-t // LANES)  # the last ones are empty

    def _assign_shares(
        self, centers: np.ndarray, penalty: float | None, rows: Cut, fresh: bool, kernel: str
    ) -> np.ndarray:
        """The statistics of all segments together."""
        n, k, history = self.rows.n, len(centers), self._history
        marks = kernel == "products" and self._errors
        fold = fresh or not marks or history.full
        past = history.known() if marks and not fresh else NO_PASSES
        if self._bounds_for is not None and not fresh and len(past) == 0:
            past = self._bounds_for[None] * self.scale
        now = np.ascontiguousarray(centers, dtype=np.float64) * self.scale
        # Bounds of rows that this pass leaves out would be taken for bounds of its centres.
        partial = fold and marks and not fresh and rows != (0, n)
        forget = partial and not (len(past) == 1 and np.array_equal(past[0], now))
        separate = not self._once and k * k * 4 <= n
        path = None if fold else history.path
        groups = self._group, self._n_groups
        view = View(*groups, self._shift, self.scale, past, separate, path)
        told = fresh and (marks or kernel != "products"), forget, self._n_groups
        keeps = not self.executor.remote
        how = self.executor.once(
            *(make_pass, centers, view, kernel, penalty, rows, *told),
            *(marks, keeps, self._errors, self._use32),
        )
        touched = list(range(len(self._states))) if forget else self._touched(*rows)
        stats = self._change(segment.assign, touched, how)
        if marks:
            if keeps:
                history.path = how.centers.path
            if fold:
                history.restart(n, now)
            else:
                history.add(now)
        return stats

    def _touched(self, first: int, last: int) -> list[int]:
        return [s for s, (a, b) in enumerate(self._cut.spans) if a < last and first < b]

    def _change(self, function: Any, touched: list[int], *args: Any) -> np.ndarray:
        """New states for some shares; the statistics of their segments together."""
        shares, states = self._shares, self._states
        found = self.executor.change(
            function, [shares[s] for s in touched], [states[s] for s in touched], *args
        )
        for s, state in zip(touched, found, strict=True):
            states[s] = state
        self._report = None
        if self.executor.remote and len(touched) == len(states):  # sums will be asked for next
            stats = self._totals().stats
        else:
            stats = np.vstack(self.executor.ask(segment.stats_of, found, brief=True))
        sizes = np.array(self._cut.sizes())[touched]
        self._far[:] = 0
        self._far[touched] = np.add.reduceat(stats[:, 2], np.cumsum(sizes) - sizes)
        return stats.sum(axis=0)

    def _make_room(self, k: int) -> None:
        """Sums of k clusters, in as many segments as they may take room for."""
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
        """The states of the rows, for a table that is cut in other places."""
        if table.cuts == self._cut.cuts:
            return self._states
        parts = [
            [(self._states[s], a, b) for s, a, b in each]
            for each in overlaps(self._cut.spans, table.spans)
        ]
        return self.executor.map(segment.join_states, table.shares, parts)

    def _all_assigned(self) -> bool:
        return min(self.executor.ask(segment.lowest_label, self._states)) >= 0

    def fold(self) -> None:
        """The next `assign` refreshes every bound: then bounds can be asked for at no cost."""
        self._history.close()

    def squared_bounds(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Squared distance to the own centre (at most) and to any other one (at least)."""
        upper, lower = segment.bounds_of(state, self._group, self._history.known())
        lower = np.ascontiguousarray(lower.T).min(axis=0)  # a tenth of what rows would take
        lower = lower.astype(np.float64) / self.scale
        return (upper.astype(np.float64) / self.scale) ** 2, lower**2

    def shares_and_states(self) -> list[tuple[Any, Any]]:
        return list(zip(self._shares, self._states, strict=True))

    def _add_sse(self, change: float) -> None:
        self.sse = max(self.sse + change, 0.0)
        self._sse_peak = max(self._sse_peak, self.sse)

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

    def middle(self) -> np.ndarray:
        """The centre of all rows, (1, d)."""
        mean = self.frame.mean[None, :]
        return directions(mean) if self.unit and mean.any() else mean

    def mean_variance(self) -> float:
        """The mean over the columns of the variance of the rows."""
        mean = self.frame.mean[None, :]
        parts = self.executor.ask(segment.scatter, self.rows.shares, args=(mean,))
        total = sum(part for share in parts for part in share)
        return total / (self.frame.total_weight * self.rows.d)

    def spread(self, k: int) -> Rows:
        """The rows among which k first centres are looked for, in this process."""
        rows = spread_rows(self.rows.n, k)
        return self.rows.here() if rows is None else self.rows.some(rows)

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums, weights and numbers of rows of each cluster."""
        whole = self._totals()
        sums = whole.sums + whole.low
        return sums[:, :-1], sums[:, -1], self.counts()

    def counts(self) -> np.ndarray:
        """Numbers of rows (of positive weight) of each cluster."""
        return np.array(self._totals().count)

    def _totals(self) -> Report:
        if self._report is None:
            args = self._states, self._cut.sizes(), self._k
            self._report = self.executor.tree(segment.report_of, merge, *args)
        return self._report

    def recount(self) -> None:
        """Add up sums and weights afresh from the labels, which removes what rounding left."""
        args = self._shares, self._states, self._k
        self._states, self._report = self.executor.change(segment.recount, *args), None

    def measure_sse(self, centers: np.ndarray) -> float:
        """Σ w d² of the labels and `centers`, afresh from the rows."""
        exact = self.executor.once(np.ascontiguousarray, centers, np.float64)
        self.sse = self._sse_peak = measure_error(self.rows, self._labels(), exact)
        return self.sse

    def move(self, row: int, to: int, d2: float) -> None:
        """Put one row, d² from its centre, into cluster `to`, whose centre is at its place."""
        weight = float(self.rows.take_weights(np.array([row]))[0])
        self._change(segment.move, self._touched(row, row + 1), row, to)
        self._add_sse(-weight * d2)

    def farthest(self, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` rows that are farthest from the centres of their labels, and how far (d²)."""
        exact = self.executor.once(np.ascontiguousarray, centers, np.float64)
        args = self._shares, self._states
        parts = self.executor.ask(segment.farthest, *args, args=(exact, count))
        rows, d2 = (np.concatenate(column) for column in zip(*parts, strict=True))
        first = np.argsort(-d2, kind="stable")[:count]
        return rows[first], d2[first]

    def relabel(self, new_label: np.ndarray) -> None:
        """Give the clusters other numbers; nothing is assigned after that."""
        args = self._shares, self._states, new_label.astype(np.int32)
        self._states = self.executor.change(segment.relabel, *args)

    def drop(self, keep: np.ndarray) -> None:
        """Forget the (empty) clusters that are not in the mask `keep`; labels move up."""
        self._states = self.executor.change(segment.drop, self._shares, self._states, keep)
        self._k, self._report = int(keep.sum()), None
        if self._bounds_for is not None:
            self._bounds_for = self._bounds_for[keep]
            self._group = self._group[keep]
            self._history.keep(keep)

    # Openings (KJ Algorithm 1)

    def far_rows(self, first: int, last: int, most: int) -> Proposals:
        """Rows that the last `assign` with a penalty found too far from every centre.

        Only the first `most` of them are asked for, from as few shares as have enough.
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
        """Which of the rows (in order) open a cluster by the serial rule; at most `limit`."""
        opened = segment.open_by_rule(far, centers, penalty, limit)
        return Proposals(*(part[opened] for part in far))

    def offer(self, centers: np.ndarray, opened: Proposals, last: int) -> np.ndarray:
        """Rows up to `last` may move to the clusters that rows before them opened.

        Returns the centres with the new ones behind them.
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
        """Labels, bounds and sums, which a checkpoint keeps."""
        states, past = self.executor.fetch(self._states), self._history.known()
        bounds = [segment.bounds_of(state, self._group, past) for state in states]
        upper, lower = (np.concatenate(column) for column in zip(*bounds, strict=True))
        labels = np.concatenate([state.labels for state in states])
        tallies = [room_for(state.tallies, self._k) for state in states]
        return labels, upper, lower, [tally for share in tallies for tally in share]

    def set_state(
        self, labels: np.ndarray, upper: np.ndarray, lower: np.ndarray, tallies: list[Tally]
    ) -> None:
        """Go on from there."""
        self._k, self._report = len(tallies[0].sums), None
        self._cut_into(self.rows.cut_at(segments(self.rows.n, self._k * self.rows.sparsity)))
        left, states = list(tallies), []
        for (a, b), number in zip(self._cut.spans, self._cut.sizes(), strict=True):
            mine, left = left[:number], left[number:]
            parts = labels[a:b], upper[a:b], lower[a:b]
            states.append(State(*parts, segment.NO_FLAGS, segment.NO_MARKS, mine))
        self._states = self.executor.map(State.copy, states)


def measure_error(rows: Any, labels: list[Any], centers: Any) -> float:
    """Σ w d² of rows, labels (for each share) and the centres of these labels."""
    parts = rows.executor.ask(segment.error_of, rows.shares, labels, args=(centers,))
    return float(sum(part for share in parts for part in share))


def directions(sums: np.ndarray) -> np.ndarray:
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)
