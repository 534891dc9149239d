"""What a worker does with the rows of one segment.

These functions run in tasks. Each returns a new `State` and leaves the old one as it was, so that
a step can be repeated when a worker is lost. The arithmetic is that of `_engine.partition`, called
for one segment: the sums that come out are the same to the bit.
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from madbayes._engine.centers import prepare
from madbayes._engine.lloyd import serial
from madbayes._engine.partition import (
    Frame,
    Partition,
    add_in_order,
    half_gaps,
    own_distances,
)
from madbayes._engine.rows import Rows
from madbayes._engine.threads import workers
from madbayes._kernels.assign import Centers, Tally, move_row
from madbayes._kernels.rows import squared_error, tally_rows

NO_WEIGHT = np.empty(0)


class State(NamedTuple):
    """What is remembered of the rows of a segment between passes."""

    labels: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    far: np.ndarray
    tally: Tally


class Report(NamedTuple):
    """What leaves the worker: the statistics and sums of one or more segments."""

    stats: np.ndarray  # (segments, 4)
    sums: np.ndarray
    low: np.ndarray
    count: np.ndarray


class Openings(NamedTuple):
    """New clusters that rows are offered."""

    exact: np.ndarray  # the centres before
    new: np.ndarray
    opened_at: np.ndarray
    half_gap: np.ndarray


def first_state(rows: np.ndarray) -> State:
    m = len(rows)
    return State(
        np.full(m, -1, np.int32),
        np.empty(m, np.float32),
        np.empty((m, 0), np.float32),
        np.zeros(m, np.uint8),
        empty_tally(0, rows.shape[1]),
    )


def empty_tally(k: int, d: int) -> Tally:
    shape = (k, d + 1)
    return Tally(np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(4))


def tally_for(tally: Tally, k: int) -> Tally:
    """A copy with room for k clusters; statistics at zero."""
    new = empty_tally(k, tally.sums.shape[1] - 1)
    m = min(k, tally.sums.shape[0])
    for old, now in zip(tally[:3], new[:3], strict=True):
        now[:m] = old[:m]
    return new


def opened(rows: np.ndarray, weight: np.ndarray, frame: Frame, unit: bool, state: State) -> Any:
    """The segment as a partition of its own, in arrays that may be changed."""
    weighted = weight if weight.shape[0] else None
    part = Partition(Rows(rows, unit=unit), weighted, serial, frame, unit=unit)
    part.labels, part._upper = state.labels.copy(), state.upper.copy()
    part._lower, part._far = state.lower.copy(), state.far.copy()
    return part


def make_view(
    centers: np.ndarray,
    previous: np.ndarray | None,
    group: np.ndarray,
    n_groups: int,
    frame: Frame,
    separate: bool,
) -> Centers:
    with workers(1):
        return prepare(centers, group, n_groups, frame.offset, frame.scale, previous, separate)


def assign(
    rows: np.ndarray,
    weight: np.ndarray,
    state: State,
    view: Centers,
    frame: Frame,
    unit: bool,
    cut: tuple[int, int],
    penalty: float | None,
    fresh: bool,
    use32: bool,
) -> State:
    """Nearest centres for the rows `cut` of the segment."""
    a, b = max(0, cut[0]), min(len(rows), cut[1])
    part = opened(rows, weight, frame, unit, state)
    part._use32 = use32
    t = len(view.start) - 1
    if part._lower.shape[1] != t:
        part._lower = np.empty((len(rows), t), np.float32)
    if fresh:
        part._upper[a:b] = np.inf
        part._lower[a:b] = 0.0
    tally = tally_for(state.tally, len(view.exact))
    with workers(1):
        part._assign_range(a, b, view, tally, penalty, fresh, threading.local(), None)
    return State(part.labels, part._upper, part._lower, part._far, tally)


def make_openings(
    exact: np.ndarray, new: np.ndarray, opened_at: np.ndarray, scale: float
) -> Openings:
    return Openings(exact, new, opened_at, half_gaps(exact, new, scale))


def offer(
    rows: np.ndarray,
    weight: np.ndarray,
    state: State,
    openings: Openings,
    frame: Frame,
    unit: bool,
    start: int,
    last: int,
) -> State:
    """Rows up to `last` may move to clusters that were opened before them."""
    part = opened(rows, weight, frame, unit, state)
    exact, new, opened_at, half_gap = openings
    tally = tally_for(state.tally, len(exact) + len(new))
    until = min(len(rows), last - start)
    part._offer_range(0, until, new, opened_at - start, half_gap, exact, tally)
    return State(part.labels, part._upper, part._lower, part._far, tally)


def move(
    rows: np.ndarray, weight: np.ndarray, state: State, unit: bool, row: int, to: int, k: int
) -> State:
    """Put one row into another cluster."""
    tally, labels = tally_for(state.tally, k), state.labels.copy()
    w = weight[row] if weight.shape[0] else 1.0
    if w > 0:
        x = Rows(rows, unit=unit).take(np.array([row]))
        move_row(x, 0, w, labels[row], to, tally)
    labels[row] = to
    return state._replace(labels=labels, tally=tally)


def drop(state: State, keep: np.ndarray) -> State:
    """Forget empty clusters; labels move up."""
    tally = tally_for(state.tally, len(keep))
    new_label = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
    return state._replace(
        labels=new_label[state.labels],
        tally=Tally(tally.sums[keep], tally.low[keep], tally.count[keep], tally.stats),
    )


def recount(rows: np.ndarray, weight: np.ndarray, state: State, unit: bool, k: int) -> State:
    """The sums afresh from the labels."""
    tally = empty_tally(k, rows.shape[1])
    for a, b, block in Rows(rows, unit=unit).blocks(0, len(rows)):
        tally_rows(block, weight[a:b], state.labels[a:b], tally)
    return state._replace(tally=tally)


def report(state: State, k: int) -> Report:
    tally = state.tally
    if tally.sums.shape[0] != k:
        tally = tally_for(tally, k)
    return Report(state.tally.stats[None, :], tally.sums, tally.low, tally.count)


def merge(*reports: Report) -> Report:
    """One inner node of the tree of sums."""
    high, low = add_in_order([(part.sums, part.low) for part in reports])
    return Report(
        np.vstack([part.stats for part in reports]),
        high,
        low,
        np.sum([part.count for part in reports], axis=0),
    )


def finish(whole: Report) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The root: statistics of each segment, sums, counts."""
    return whole.stats, whole.sums + whole.low, whole.count


def stats(state: State) -> np.ndarray:
    return state.tally.stats


def lowest(state: State) -> int:
    return int(state.labels.min(initial=0))


def error(rows: np.ndarray, weight: np.ndarray, state: State, unit: bool, centers: Any) -> float:
    """Σ w d² of the labels and `centers`."""
    return sum(
        squared_error(block, weight[a:b], state.labels[a:b], centers)
        for a, b, block in Rows(rows, unit=unit).blocks(0, len(rows))
    )


def far(
    rows: np.ndarray, state: State, unit: bool, cut: tuple[int, int], most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first rows that are too far from all centres: where, their labels, the rows."""
    a, b = max(0, cut[0]), min(len(rows), cut[1])
    at = a + np.flatnonzero(state.far[a:b])[:most]
    return at, state.labels[at], taken(rows, at, unit)


def farthest(
    rows: np.ndarray, weight: np.ndarray, state: State, unit: bool, centers: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows farthest from their centres, and how far."""
    d2 = np.concatenate(
        [
            own_distances(block, weight[a:b], state.labels[a:b], centers)
            for a, b, block in Rows(rows, unit=unit).blocks(0, len(rows))
        ]
    )
    at = np.argsort(-d2, kind="stable")[:count]
    return at, d2[at]


def taken(rows: np.ndarray, at: np.ndarray, unit: bool) -> np.ndarray:
    """Some rows in the type that they are kept in."""
    return Rows(rows, unit=unit).take(at).astype(Rows(rows).dtype)
