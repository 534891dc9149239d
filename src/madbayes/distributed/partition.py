"""`_engine.partition` over the workers: the same steps, the segments elsewhere.

The driver keeps what is small (centres, error, what the bounds speak of) and decides; rows, labels,
bounds and sums of a segment stay on a worker. In a pass travel: the centres to the workers, a few
numbers for each segment and one table of sums back. Sums meet in a tree, in the order in which one
machine adds them (docs/adr/0022).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from madbayes._engine.centers import make_groups
from madbayes._engine.lloyd import serial
from madbayes._engine.partition import (
    Frame,
    Partition,
    add_up,
    check_closeness,
    make_frame,
    open_by_rule,
    scatter,
)
from madbayes._engine.rows import DIRECT_COLUMNS, MAX_SEGMENTS, Rows, segments
from madbayes._engine.seeding import spread_rows
from madbayes.distributed import piece
from madbayes.distributed.piece import NO_WEIGHT
from madbayes.distributed.table import Cut, SpreadTable, cut_anew
from madbayes.distributed.tasks import fetch, keep, task


def measure_spread(table: SpreadTable) -> Frame:
    """`_engine.partition.measure_to_fit`."""
    first = 0
    if table.weighted:
        found = fetch([task(first_positive, w) for w in table.weights])
        at = next((s for s, row in enumerate(found) if row >= 0), None)
        if at is None:
            raise ValueError("sample_weight: all weights are zero, so no row is left to fit.")
        first = table.cuts[at][0] + found[at]
    origin = table.take(np.array([first]))[0]
    parts = fetch(
        [
            task(add_up_piece, rows, weight, origin, table.unit)
            for rows, weight in zip(table.rows, table.weights, strict=True)
        ]
    )
    return check_closeness(make_frame(origin, parts))


def first_positive(weight: np.ndarray) -> int:
    found = np.flatnonzero(weight > 0)
    return int(found[0]) if found.size else -1


def add_up_piece(rows: np.ndarray, weight: np.ndarray, origin: np.ndarray, unit: bool) -> Any:
    return add_up(Rows(rows, unit=unit), weight, origin, (0, len(rows)))


def scatter_piece(rows: np.ndarray, weight: np.ndarray, mean: np.ndarray, unit: bool) -> float:
    return scatter(Rows(rows, unit=unit), weight, mean, (0, len(rows)))


class SpreadPartition(Partition):
    """The rows of a table on the workers, under way between centres."""

    source: SpreadTable  # type: ignore[assignment]

    def __init__(self, table: SpreadTable, frame: Frame) -> None:
        self.source, self.unit, self.run = table, table.unit, serial
        self.sse = self._sse_peak = 0.0
        self.frame = frame
        self.offset, self.scale = frame.offset, frame.scale
        self._direct = table.d <= DIRECT_COLUMNS
        self._bounds_for = None
        self._group, self._n_groups = np.empty(0, dtype=np.int32), 0
        self._use32 = True
        self._cuts, self._k = table.cuts, 0
        self._data = list(zip(table.rows, table.weights, strict=True))
        self._states = keep([task(piece.first_state, rows) for rows in table.rows])
        self._frame = keep([task(same, frame)])[0]  # what tasks share is sent once
        self._whole: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._proposed: tuple[np.ndarray, ...] = ()
        self._far_count = np.zeros(len(self._cuts), np.int64)

    # Segments that hold the labels

    @property
    def labels(self) -> Any:  # type: ignore[override]
        """Tasks, one for each segment of the table."""
        return [task(labels_of, state) for state in self._at(self.source.cuts)]

    def _at(self, cuts: list[Cut]) -> list[Any]:
        """The states of other segments."""
        if cuts == self._cuts:
            return self._states
        parts = [task(tuple_of, state) for state in self._states]
        out = []
        for a, b in cuts:
            here = [
                (part, max(a - first, 0), b - first)
                for part, (first, last) in zip(parts, self._cuts, strict=True)
                if first < b and a < last
            ]
            out.append(task(join_states, self.source.d, [list(each) for each in here]))
        return keep(out)

    def _make_room(self, k: int) -> None:
        if k == self._k:
            return
        cuts, before = segments(self.source.n, k), self._k
        self._k, self._whole = k, None
        if cuts != self._cuts:
            self._states = self._at(cuts)
            table = self.source
            rows = keep(cut_anew(table.rows, table.cuts, cuts))
            weights = [NO_WEIGHT] * len(cuts)
            if table.weighted:
                weights = keep(cut_anew(table.weights, table.cuts, cuts))
            self._data = list(zip(rows, weights, strict=True))
            self._cuts = cuts
            if before and self._all_assigned():
                self.recount()

    def _all_assigned(self) -> bool:
        return min(fetch([task(piece.lowest, state) for state in self._states])) >= 0

    def _make_bounds(self, centers: np.ndarray) -> None:
        k = centers.shape[0]
        if self._group.shape[0] != k:
            if self._direct:
                self._group, self._n_groups = np.zeros(k, dtype=np.int32), 1
            else:
                self._group, self._n_groups = make_groups((centers - self.offset) * self.scale)

    def _overlapping(self, first: int, last: int) -> Iterator[int]:
        return (s for s, (a, b) in enumerate(self._cuts) if a < last and first < b)

    # Assignment

    def _assign_segments(
        self, centers: np.ndarray, penalty: float | None, first: int, last: int, fresh: bool
    ) -> np.ndarray:
        previous = None if fresh else self._bounds_for
        separate = centers.shape[0] ** 2 * 4 <= self.source.n
        view = task(
            *(piece.make_view, centers, previous, self._group, self._n_groups, self._frame),
            separate,
        )
        touched = list(self._overlapping(first, last))
        new = keep(
            [
                view,
                *(
                    task(
                        *(piece.assign, *self._data[s], self._states[s], view),
                        *(
                            self._frame,
                            self.unit,
                            (first - self._cuts[s][0], last - self._cuts[s][0]),
                        ),
                        *(penalty, fresh, self._use32),
                    )
                    for s in touched
                ),
            ]
        )
        for s, state in zip(touched, new[1:], strict=True):
            self._states[s] = state
        stats = self._statistics(touched)
        self._far_count = stats[:, 2].astype(np.int64)
        return stats.sum(axis=0)

    def _statistics(self, touched: list[int]) -> np.ndarray:
        """(segments, 4); the sums come along when all segments took part."""
        self._whole = None
        if len(touched) == len(self._cuts):
            return self._sum_up()[0]
        stats = np.zeros((len(self._cuts), 4))
        stats[touched] = fetch([task(piece.stats, self._states[s]) for s in touched])
        return stats

    def _sum_up(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self._whole is None:
            level = [task(piece.report, state, self._k) for state in self._states]
            while len(level) > 1:
                level = [
                    task(piece.merge, *level[i : i + MAX_SEGMENTS])
                    for i in range(0, len(level), MAX_SEGMENTS)
                ]
            self._whole = fetch([task(piece.finish, level[0])])[0]
        return self._whole

    # Clusters

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, sums, count = self._sum_up()
        return sums[:, :-1], sums[:, -1], count

    def counts(self) -> np.ndarray:
        return self._sum_up()[2]

    def _each(self, function: Any, *args: Any) -> list[Any]:
        """A task for each segment."""
        whole = zip(self._data, self._states, strict=True)
        return [task(function, *data, state, self.unit, *args) for data, state in whole]

    def recount(self) -> None:
        self._states, self._whole = keep(self._each(piece.recount, self._k)), None

    def measure_sse(self, centers: np.ndarray) -> float:
        exact = keep([task(same, np.ascontiguousarray(centers, dtype=np.float64))])[0]
        table = self.source
        whole = zip(table.rows, table.weights, self._at(table.cuts), strict=True)
        parts = fetch([task(piece.error, *parts, self.unit, exact) for parts in whole])
        self.sse = self._sse_peak = float(sum(parts))
        return self.sse

    def farthest(self, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        exact = keep([task(same, centers)])[0]
        parts = fetch(self._each(piece.farthest, exact, count))
        rows = np.concatenate([at + a for (at, _), (a, _) in zip(parts, self._cuts, strict=True)])
        d2 = np.concatenate([part[1] for part in parts])
        order = np.argsort(-d2, kind="stable")[:count]
        return rows[order], d2[order]

    def move(self, row: int, to: int, d2: float) -> None:
        s = next(self._overlapping(row, row + 1))
        at = row - self._cuts[s][0]
        rows, weight = self._data[s]
        w = float(fetch([task(value_at, weight, at)])[0]) if self.source.weighted else 1.0
        moved = task(piece.move, rows, weight, self._states[s], self.unit, at, to, self._k)
        self._states[s] = keep([moved])[0]
        self._add_sse(-w * d2)
        self._bounds_for, self._whole = None, None

    def drop(self, keep_: np.ndarray) -> None:
        self._states = keep([task(piece.drop, state, keep_) for state in self._states])
        self._k, self._whole = int(keep_.sum()), None
        if self._bounds_for is not None:
            self._bounds_for = self._bounds_for[keep_]
            self._group = self._group[keep_]

    # Openings (KJ Algorithm 1)

    def far_rows(self, first: int, last: int, most: int) -> np.ndarray:
        """They come with what `open_clusters` asks next, from as few segments as have enough."""
        wanted, asked = [], 0
        for s in self._overlapping(first, last):
            if self._far_count[s] and asked < most:
                a = self._cuts[s][0]
                args = (self.unit, (first - a, last - a), most - asked)
                wanted.append((s, task(piece.far, self._data[s][0], self._states[s], *args)))
                asked += int(self._far_count[s])
        if not wanted:
            return np.empty(0, np.int64)
        parts = fetch([each for _, each in wanted])
        far = np.concatenate(
            [at + self._cuts[s][0] for (s, _), (at, _, _) in zip(wanted, parts, strict=True)]
        )
        weight = np.ones(far.size)
        if self.source.weighted:
            own = [
                task(value_at, self._data[s][1], part[0])
                for (s, _), part in zip(wanted, parts, strict=True)
            ]
            weight = np.concatenate(fetch(own))
        rows = np.concatenate([part[2] for part in parts]).astype(np.float64)
        self._proposed = (far, rows, weight, np.concatenate([part[1] for part in parts]))
        return far[:most]

    def open_clusters(
        self, centers: np.ndarray, far: np.ndarray, penalty: float, limit: int
    ) -> np.ndarray:
        _, rows, weight, labels = (part[: far.size] for part in self._proposed)
        opened = open_by_rule(rows, weight, labels, centers, penalty, limit)
        return far[opened]

    def _take_opened(self, rows: np.ndarray) -> np.ndarray:
        return self._proposed[1][np.searchsorted(self._proposed[0], rows)]

    def _offer_segments(
        self, exact: np.ndarray, new: np.ndarray, opened_at: np.ndarray, last: int
    ) -> np.ndarray:
        openings = task(piece.make_openings, exact, new, opened_at, self.scale)
        touched = list(self._overlapping(int(opened_at[0]), last))
        states = keep(
            [
                openings,
                *(
                    task(
                        *(piece.offer, *self._data[s], self._states[s], openings, self._frame),
                        *(self.unit, self._cuts[s][0], last),
                    )
                    for s in touched
                ),
            ]
        )
        for s, state in zip(touched, states[1:], strict=True):
            self._states[s] = state
        stats = np.zeros((len(self._cuts), 4))
        stats[touched] = fetch([task(piece.stats, self._states[s]) for s in touched])
        self._whole = None
        return stats.sum(axis=0)

    # Starts

    def mean_variance(self) -> float:
        table, mean = self.source, self.frame.mean[None, :]
        parts = fetch(
            [
                task(scatter_piece, rows, weight, mean, self.unit)
                for rows, weight in zip(table.rows, table.weights, strict=True)
            ]
        )
        return sum(parts) / (self.frame.total_weight * table.d)

    def spread(self, k: int) -> tuple[Rows, np.ndarray]:
        table, rows = self.source, spread_rows(self.source.n, k)
        if rows is None:
            return Rows(table.all_rows(), unit=self.unit), table.all_weights()
        return Rows(table.take(rows)), table.take_weights(rows)


def same(value: Any) -> Any:
    return value


def value_at(values: np.ndarray, at: Any) -> Any:
    return values[at]


def labels_of(state: piece.State) -> np.ndarray:
    return state.labels


def tuple_of(state: piece.State) -> tuple:
    return tuple(state[:4])


def join_states(d: int, parts: list[Any]) -> piece.State:
    """A state from parts of others; the sums begin at zero."""
    columns = zip(*([array[a:b] for array in each] for each, a, b in parts), strict=True)
    return piece.State(*(np.concatenate(column) for column in columns), piece.empty_tally(0, d))
