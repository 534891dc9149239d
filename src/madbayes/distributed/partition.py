"""`_partition.partition` over the workers: the same steps, the segments elsewhere.

The driver keeps what is small (centres, error, what the bounds speak of) and decides; rows, labels,
bounds and sums of a segment stay on a worker. In a pass travel: the centres to the workers, a few
numbers for each segment and one table of sums back. Sums meet in a tree, in the order in which one
machine adds them (docs/adr/0022).
"""

from typing import Any

import numpy as np

from madbayes._partition.assignment import is_small
from madbayes._partition.bounds import Tally
from madbayes._partition.partition import Partition
from madbayes._partition.seeding import spread_rows
from madbayes._partition.segment import open_by_rule
from madbayes._rows.frame import Frame, check_closeness, make_frame
from madbayes._rows.rows import DIRECT_COLUMNS, MAX_SEGMENTS, Rows, segments
from madbayes._rows.threads import serial
from madbayes.distributed import local, piece
from madbayes.distributed.table import SpreadTable, overlaps
from madbayes.distributed.tasks import fetch, keep, same, task


def measure_spread(table: SpreadTable) -> Frame:
    """`_rows.frame.measure_to_fit`."""
    first = 0
    if table.weighted:
        found = table.each(local.first_positive)
        at = next((s for s, row in enumerate(found) if row >= 0), None)
        if at is None:
            raise ValueError("sample_weight: all weights are zero, so no row is left to fit.")
        first = table.spans[at][0] + found[at]
    origin = table.take(np.array([first]))[0]
    parts = [part for share in table.each(local.add_up_all, origin) for part in share]
    return check_closeness(make_frame(origin, parts))


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
        self._table, self._k = table, 0  # the rows as they are cut at present
        self._states: list[Any] = [None] * len(table.spans)
        self._frame = keep([task(same, frame)])[0]  # what tasks share is sent once
        self._whole: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._far_count = np.zeros(len(table.spans), np.int64)
        self._proposed: tuple[np.ndarray, ...] = ()

    # Where the rows are

    @property
    def labels(self) -> Any:  # type: ignore[override]
        """Tasks, one for each share of the table."""
        return [task(piece.labels_of, state) for state in self._states_of(self.source)]

    def _states_of(self, table: SpreadTable) -> list[Any]:
        """The states of the rows of a table that is cut in other places."""
        if table.spans == self._table.spans and table.cuts == self._table.cuts:
            return self._states
        parts = overlaps(self._table.spans, table.spans)
        return keep(
            [
                task(
                    *(piece.join_states, table.d, table.local_cuts(at)),
                    *(task(piece.parts_of, self._states[s], a, b) for s, a, b in each),
                )
                for at, each in enumerate(parts)
            ]
        )

    def _make_room(self, k: int) -> None:
        if k == self._k:
            return
        cuts, before = segments(self.source.n, k), self._k
        self._k, self._whole = k, None
        if cuts != self._table.cuts:
            table = self.source.cut_at(cuts)
            if before:
                self._states = self._states_of(table)
            else:
                self._states = [None] * len(table.spans)
            self._table = table
            if before and self._all_assigned():
                self.recount()

    def _all_assigned(self) -> bool:
        return min(fetch([task(piece.lowest, state) for state in self._states])) >= 0

    def _touched(self, first: int, last: int) -> list[int]:
        return [s for s, (a, b) in enumerate(self._table.spans) if a < last and first < b]

    # Assignment

    def _assign_segments(
        self, centers: np.ndarray, penalty: float | None, first: int, last: int, fresh: bool
    ) -> np.ndarray:
        previous = None if fresh else self._bounds_for
        groups, separate = (self._group, self._n_groups), len(centers) ** 2 * 4 <= self.source.n
        view = task(piece.make_view, centers, previous, *groups, self._frame, separate)
        how = (penalty, fresh, self._use32, is_small(self.source.n, *centers.shape))
        touched = self._touched(first, last)
        tasks = []
        for s in touched:
            share, state, start = self._table.shares[s], self._states[s], self._table.spans[s][0]
            span = (first - start, last - start)
            tasks.append(task(piece.assign, share, state, view, self._frame, span, *how))
        return self._update(touched, [view, *tasks], sums=True)

    def _update(self, touched: list[int], tasks: list[Any], sums: bool = False) -> np.ndarray:
        """Keep the new states (behind what they share); the statistics of all segments."""
        for s, state in zip(touched, keep(tasks)[1:], strict=True):
            self._states[s] = state
        self._whole = None
        if sums and len(touched) == len(self._states):  # they will be asked for next
            stats = self._sum_up()[0]
        else:
            parts = fetch([task(piece.stats, self._states[s]) for s in touched])
            stats = np.vstack(parts)
        ends = np.cumsum([len(self._table.local_cuts(s)) for s in touched])
        self._far_count[:] = 0
        for s, part in zip(touched, np.split(stats[:, 2], ends[:-1]), strict=True):
            self._far_count[s] = int(part.sum())
        return stats.sum(axis=0)

    def _sum_up(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Statistics of each segment, sums and counts: the tree of `merge_sums`."""
        if self._whole is None:
            level = [task(piece.report, state, self._k) for state in self._states]
            spans = [(cuts[0], cuts[-1] + 1) for cuts in self._table.numbers()]
            while spans[-1][1] > 1:
                n = spans[-1][1]
                nodes = [(i, min(n, i + MAX_SEGMENTS)) for i in range(0, n, MAX_SEGMENTS)]
                level = [
                    task(
                        piece.merge,
                        *(
                            level[s]
                            if (a, b) == (0, size(spans[s]))
                            else task(piece.some, level[s], a, b)
                            for s, a, b in each
                        ),
                    )
                    for each in overlaps(spans, nodes)
                ]
                spans = [(i, i + 1) for i in range(len(nodes))]
            self._whole = fetch([task(piece.finish, level[0])])[0]
        return self._whole

    # Clusters

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, sums, count = self._sum_up()
        return sums[:, :-1], sums[:, -1], count

    def counts(self) -> np.ndarray:
        return self._sum_up()[2]

    def recount(self) -> None:
        whole = zip(self._table.shares, self._states, strict=True)
        self._states = keep([task(piece.recount, *each, self._k) for each in whole])
        self._whole = None

    def measure_sse(self, centers: np.ndarray) -> float:
        exact = task(same, np.ascontiguousarray(centers, dtype=np.float64))
        whole = zip(self.source.shares, self._states_of(self.source), strict=True)
        parts = fetch([task(piece.error, *each, exact) for each in whole])
        self.sse = self._sse_peak = float(sum(error for share in parts for error in share))
        return self.sse

    def farthest(self, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        whole = zip(self._table.shares, self._states, strict=True)
        exact = task(same, centers)
        parts = fetch([task(piece.farthest, *each, exact, count) for each in whole])
        starts = [a for a, _ in self._table.spans]
        rows = np.concatenate([at + a for (at, _), a in zip(parts, starts, strict=True)])
        d2 = np.concatenate([part[1] for part in parts])
        order = np.argsort(-d2, kind="stable")[:count]
        return rows[order], d2[order]

    def move(self, row: int, to: int, d2: float) -> None:
        s = self._touched(row, row + 1)[0]
        share, at = self._table.shares[s], row - self._table.spans[s][0]
        w = float(fetch([task(local.weights_at, share, np.array([at]))])[0][0])
        moved = task(piece.move, share, self._states[s], at, to, self._k)
        self._states[s] = keep([moved])[0]
        self._add_sse(-w * d2)
        self._bounds_for = self._whole = None

    def relabel(self, new_label: np.ndarray) -> None:
        """Give the clusters other numbers; nothing is assigned after that."""
        new = new_label.astype(np.int32)
        self._states = keep([task(piece.relabel, state, new) for state in self._states])

    def drop(self, keep_: np.ndarray) -> None:
        self._states = keep([task(piece.drop, state, keep_) for state in self._states])
        self._k, self._whole = int(keep_.sum()), None
        if self._bounds_for is not None:
            self._bounds_for = self._bounds_for[keep_]
            self._group = self._group[keep_]

    # Checkpoints

    def state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Tally]]:
        states = fetch(self._states)
        labels, upper, lower = (np.concatenate([s[i] for s in states]) for i in range(3))
        return labels, upper, lower, [tally for s in states for tally in s.tallies]

    def set_state(
        self, labels: np.ndarray, upper: np.ndarray, lower: np.ndarray, parts: list[Tally]
    ) -> None:
        self._k, self._whole = parts[0].sums.shape[0], None
        self._table = self.source.cut_at(segments(self.source.n, self._k))
        states = []
        for (a, b), numbers in zip(self._table.spans, self._table.numbers(), strict=True):
            far, tallies = np.zeros(b - a, np.uint8), [parts[i] for i in numbers]
            states.append(piece.State(labels[a:b], upper[a:b], lower[a:b], far, tallies))
        self._states = keep([task(same, state) for state in states])

    # Openings (KJ Algorithm 1)

    def far_rows(self, first: int, last: int, most: int) -> np.ndarray:
        """They come with what `open_clusters` asks next, from as few shares as have enough."""
        asked, starts, wanted = 0, [], []
        for s in self._touched(first, last):
            if self._far_count[s] and asked < most:
                start = self._table.spans[s][0]
                span, share = (first - start, last - start), self._table.shares[s]
                wanted.append(task(piece.far, share, self._states[s], span, most - asked))
                starts.append(start)
                asked += int(self._far_count[s])
        if not wanted:
            return np.empty(0, np.int64)
        parts = fetch(wanted)
        at, rows, weight, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
        at = at + np.repeat(starts, [len(part[0]) for part in parts])
        self._proposed = (at, rows.astype(np.float64), weight, labels)
        return at

    def open_clusters(
        self, centers: np.ndarray, far: np.ndarray, penalty: float, limit: int
    ) -> np.ndarray:
        _, rows, weight, labels = (part[: far.size] for part in self._proposed)
        return far[open_by_rule(rows, weight, labels, centers, penalty, limit)]

    def _take_opened(self, rows: np.ndarray) -> np.ndarray:
        return self._proposed[1][np.searchsorted(self._proposed[0], rows)]

    def _offer_segments(
        self, exact: np.ndarray, new: np.ndarray, opened_at: np.ndarray, last: int
    ) -> np.ndarray:
        openings = task(piece.make_openings, exact, new, opened_at, self.scale)
        touched = self._touched(int(opened_at[0]), last)
        tasks = []
        for s in touched:
            share, start = self._table.shares[s], self._table.spans[s][0]
            tasks.append(
                task(piece.offer, share, self._states[s], openings, self._frame, start, last)
            )
        return self._update(touched, [openings, *tasks])

    # Starts

    def mean_variance(self) -> float:
        parts = self.source.each(local.scatter_all, self.frame.mean[None, :])
        total = sum(part for share in parts for part in share)
        return total / (self.frame.total_weight * self.source.d)

    def spread(self, k: int) -> tuple[Rows, np.ndarray]:
        table, rows = self.source, spread_rows(self.source.n, k)
        if rows is None:
            X, weight = table.everything()
            return Rows(X, unit=self.unit), weight
        return Rows(table.take(rows)), table.take_weights(rows)


def size(span: tuple[int, int]) -> int:
    return span[1] - span[0]
