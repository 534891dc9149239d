"""What the clusters add up to: kept from pass to pass, changed by the rows that move.

Every segment of the rows has sums of its own, and they are added in the order of the segments, so
nothing depends on how many threads there are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from madbayes._engine.rows import Rows, segments
from madbayes._engine.threads import Run
from madbayes._kernels.bounds import Tally, move_row
from madbayes._kernels.rows import add_sums, tally_rows

MERGED_AT_ONCE = 8192  # sums that one thread adds up: they stay in its cache


class Tallies:
    """Sums, weights and numbers of rows of each cluster, for each segment of `source`."""

    def __init__(self, source: Rows, weight: np.ndarray, run: Run) -> None:
        self.source, self.weight, self.run = source, weight, run
        self._segments: list[tuple[int, int]] = []
        self._parts: list[Tally] = []

    def map(self, function: Callable[[int, int, Tally], Any]) -> list[Any]:
        """`function(first, last, tally)` of each segment, in threads; results in order."""

        def of_segment(segment: tuple[tuple[int, int], Tally]) -> Any:
            (first, last), tally = segment
            return function(first, last, tally)

        return self.run(of_segment, zip(self._segments, self._parts, strict=True))

    def totals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums, weights and numbers of rows of each cluster."""
        first = self._parts[0]
        sums, low = first.sums.copy(), first.low.copy()

        def partial(clusters: slice) -> None:
            for tally in self._parts[1:]:
                add_sums(sums[clusters], low[clusters], tally.sums[clusters], tally.low[clusters])

        step = max(1, MERGED_AT_ONCE // (self.source.d + 1))
        self.run(partial, [slice(c, c + step) for c in range(0, len(sums), step)])
        sums += low
        return sums[:, :-1], sums[:, -1], self.counts()

    def counts(self) -> np.ndarray:
        """Numbers of rows (of positive weight) of each cluster."""
        return np.sum([tally.count for tally in self._parts], axis=0)

    def recount(self, labels: np.ndarray) -> None:
        """Add up sums and weights afresh from the labels, which removes what rounding left."""

        def partial(first: int, last: int, tally: Tally) -> None:
            for part in tally[:3]:
                part[:] = 0
            for a, b, block in self.source.blocks(first, last):
                tally_rows(block, self.weight[a:b], labels[a:b], tally)

        self.map(partial)

    def move(self, row: int, old: int, new: int) -> None:
        """One row leaves cluster `old` and joins `new`."""
        at = next(s for s, (a, b) in enumerate(self._segments) if a <= row < b)
        w = self.weight[row] if self.weight.shape[0] else 1.0
        if w > 0:
            move_row(self.source.take(np.array([row])), 0, w, old, new, self._parts[at])

    def drop(self, keep: np.ndarray) -> None:
        """Forget the clusters that are not in the mask `keep`."""
        self._parts = [
            Tally(t.sums[keep], t.low[keep], t.count[keep], t.stats) for t in self._parts
        ]

    def make_room(self, k: int, labels: np.ndarray) -> None:
        """Hold k clusters, of which those that were there keep what they have."""
        if self._parts and self._parts[0].sums.shape[0] == k:
            return
        old, self._segments = self._parts, segments(self.source.n, k * self.source.sparsity)
        shape = (k, self.source.d + 1)
        self._parts = [
            Tally(np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(4))
            for _ in self._segments
        ]
        if len(old) == len(self._segments):
            for before, now in zip(old, self._parts, strict=True):
                m = min(k, before.sums.shape[0])
                for part, whole in zip(before[:3], now[:3], strict=True):
                    whole[:m] = part[:m]
        elif old and labels.min() >= 0:
            self.recount(labels)
