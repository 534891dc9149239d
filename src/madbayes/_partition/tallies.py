"""What the clusters add up to: kept from pass to pass, changed by the rows that move.

Every segment of the rows has sums of its own, and they are added in the order of the segments, so
nothing depends on how many threads there are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from madbayes._partition.bounds import Tally
from madbayes._rows.row_kernels import FEW, add_sums, tally_rows
from madbayes._rows.rows import MAX_SEGMENTS, Rows, segments
from madbayes._rows.threads import Run

MERGED_AT_ONCE = 8192  # sums that one thread adds up: they stay in its cache


class Tallies:
    """Sums, weights and numbers of rows of each cluster, for each segment of `source`.

    Without `sums` the numbers alone: for those who only ask for labels.
    """

    def __init__(self, source: Rows, weight: np.ndarray, run: Run, sums: bool = True) -> None:
        self.source, self.weight, self.run = source, weight, run
        self._columns = source.d + 1 if sums else 0
        self._segments: list[tuple[int, int]] = []
        self.parts: list[Tally] = []

    def map(self, function: Callable[[int, int, Tally], Any]) -> list[Any]:
        """`function(first, last, tally)` of each segment, in threads; results in order."""

        def of_segment(segment: tuple[tuple[int, int], Tally]) -> Any:
            (first, last), tally = segment
            return function(first, last, tally)

        return self.run(of_segment, zip(self._segments, self.parts, strict=True))

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums, weights and numbers of rows of each cluster."""
        shape = self.parts[0].sums.shape
        sums = np.empty(shape)

        def partial(clusters: slice) -> None:
            high, low = merge_sums([(t.sums[clusters], t.low[clusters]) for t in self.parts])
            np.add(high, low, out=sums[clusters])

        step = max(1, MERGED_AT_ONCE // (self.source.d + 1))
        self.run(partial, [slice(c, c + step) for c in range(0, shape[0], step)])
        return sums[:, :-1], sums[:, -1], self.counts()

    def counts(self) -> np.ndarray:
        """Numbers of rows (of positive weight) of each cluster."""
        return np.sum([tally.count for tally in self.parts], axis=0)

    def recount(self, labels: np.ndarray) -> None:
        """Add up sums and weights afresh from the labels, which removes what rounding left."""

        def partial(first: int, last: int, tally: Tally) -> None:
            for part in tally[:3]:
                part[:] = 0
            for a, b, block in self.source.blocks(first, last):
                tally_rows(block, self.weight[a:b], labels[a:b], tally, 1)

        self.map(partial)

    def move(self, row: int, old: int, new: int) -> None:
        """One row leaves cluster `old` and joins `new`."""
        at = next(s for s, (a, b) in enumerate(self._segments) if a <= row < b)
        move_row(self.source, self.weight, row, old, new, self.parts[at])

    def drop(self, keep: np.ndarray) -> None:
        """Forget the clusters that are not in the mask `keep`."""
        self.parts = [Tally(t.sums[keep], t.low[keep], t.count[keep], t.stats) for t in self.parts]

    def put(self, parts: list[Tally]) -> None:
        """Go on from the sums of another time."""
        k = parts[0].sums.shape[0]
        self._segments, self.parts = segments(self.source.n, k * self.source.sparsity), parts

    def make_room(self, k: int, labels: np.ndarray) -> None:
        """Hold k clusters, of which those that were there keep what they have."""
        if self.parts and self.parts[0].sums.shape[0] == k:
            return
        old, self._segments = self.parts, segments(self.source.n, k * self.source.sparsity)
        shape = (k, self._columns)
        self.parts = [
            Tally(np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(4))
            for _ in self._segments
        ]
        if len(old) == len(self._segments):
            for before, now in zip(old, self.parts, strict=True):
                m = min(k, before.sums.shape[0])
                for part, whole in zip(before[:3], now[:3], strict=True):
                    whole[:m] = part[:m]
        elif old and labels.min() >= 0:
            self.recount(labels)


def move_row(source: Rows, weight: np.ndarray, row: int, old: int, new: int, tally: Tally) -> None:
    """The row of its sums goes from cluster `old` to `new`."""
    _, _, block = next(source.blocks(row, row + 1))
    for label, sign in ((new, 1), (old, -1)):
        labels = np.array([label], np.int32)
        tally_rows(block, weight[row : row + 1], labels, tally, sign)


def merge_sums(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of segments in two parts, added in their order, MAX_SEGMENTS at a time."""
    while len(parts) > 1:
        cuts = range(0, len(parts), MAX_SEGMENTS)
        parts = [add_in_order(parts[i : i + MAX_SEGMENTS]) for i in cuts]
    return parts[0]


def add_in_order(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    high, low = parts[0][0].copy(), parts[0][1].copy()
    many = len(parts) * high.size > FEW
    for more, more_low in parts[1:]:
        add_sums(high, low, more, more_low, many)
    return high, low
