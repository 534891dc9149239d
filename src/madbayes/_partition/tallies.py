"""What the clusters add up to: kept from pass to pass, changed by the rows that move.

Every segment of the rows has sums of its own (a `Tally`), and they are added in the order of the
segments, MAX_SEGMENTS at a time: nothing depends on how many threads or workers there are.
"""

from typing import NamedTuple

import numpy as np

from madbayes._partition.bounds import Tally
from madbayes._rows.executor import MAX_SEGMENTS
from madbayes._rows.row_kernels import SMALL_ARRAY, add_sums
from madbayes._rows.threads import together

Sums = tuple[np.ndarray, np.ndarray]  # sums, and what rounding left out of them


class Report(NamedTuple):
    """What one or more neighbouring segments add up to."""

    stats: np.ndarray  # (segments, 4), see `Tally`
    sums: np.ndarray
    low: np.ndarray
    count: np.ndarray  # type: ignore[assignment]


def empty_tally(k: int, columns: int) -> Tally:
    """`columns`: one more than the rows have, or 0 where only the rows are counted."""
    shape = (k, columns)
    return Tally(np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(4))


def room_for(tallies: list[Tally], k: int) -> list[Tally]:
    """The same sums with room for k clusters."""
    if len(tallies[0].count) == k:
        return tallies
    out = []
    for tally in tallies:
        new = empty_tally(k, tally.sums.shape[1])
        m = min(k, len(tally.sums))
        for old, now in zip(tally[:3], new[:3], strict=True):
            now[:m] = old[:m]
        out.append(new._replace(stats=tally.stats))
    return out


def report(tallies: list[Tally], k: int) -> list[Report]:
    """One for each segment."""
    return [Report(t.stats[None, :], t.sums, t.low, t.count) for t in room_for(tallies, k)]


def merge(reports: list[Report]) -> Report:
    """Those of neighbouring segments as one, in threads where there are any."""
    high, low = merge_sums([(each.sums, each.low) for each in reports])
    count = np.sum([each.count for each in reports], axis=0)
    return Report(np.vstack([each.stats for each in reports]), high, low, count)


def merge_sums(parts: list[Sums]) -> Sums:
    """Sums added in their order, MAX_SEGMENTS at a time."""
    while len(parts) > 1:
        cuts = range(0, len(parts), MAX_SEGMENTS)
        parts = [add_in_order(parts[i : i + MAX_SEGMENTS]) for i in cuts]
    return parts[0]


def add_in_order(parts: list[Sums]) -> Sums:
    """The same for at most MAX_SEGMENTS of them, some clusters at a time."""
    high, low = np.empty_like(parts[0][0]), np.empty_like(parts[0][1])
    many = len(parts) * high.size > SMALL_ARRAY

    def add(clusters: slice) -> None:
        high[clusters], low[clusters] = parts[0][0][clusters], parts[0][1][clusters]
        for more, more_low in parts[1:]:
            add_sums(high[clusters], low[clusters], more[clusters], more_low[clusters], many)

    step = max(1, 8192 // max(1, high.shape[1]))  # sums that stay in the cache of a thread
    together(add, [slice(c, c + step) for c in range(0, len(high), step)])
    return high, low
