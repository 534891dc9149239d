"""What a worker does with its share of the rows: one or more segments, one after the other.

These functions run in tasks. Each returns a new `State` and leaves the old one as it was, so that
a step can be repeated when a worker is lost. The arithmetic is that of `_partition.partition`,
segment by segment: the sums that come out are the same to the bit.
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from madbayes._partition.bound_history import make_marks
from madbayes._partition.bounds import Centers, Tally
from madbayes._partition.partition import Partition
from madbayes._partition.prepared_centers import prepare
from madbayes._partition.segment import half_gaps, own_distances
from madbayes._partition.tallies import add_in_order, move_row
from madbayes._rows.frame import Frame
from madbayes._rows.row_kernels import squared_error, tally_rows
from madbayes._rows.threads import serial, workers
from madbayes.distributed.local import Cuts, Share, taken


class State(NamedTuple):
    """What is remembered of the rows of a share between passes."""

    labels: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    far: np.ndarray
    tallies: list[Tally]  # one for each segment


class Report(NamedTuple):
    """What leaves the worker: the statistics and sums of one or more segments."""

    stats: np.ndarray  # (segments, 4)
    sums: np.ndarray
    low: np.ndarray
    number: np.ndarray  # of rows


class Openings(NamedTuple):
    """New clusters that rows are offered."""

    exact: np.ndarray  # the centres before
    new: np.ndarray
    opened_at: np.ndarray
    half_gap: np.ndarray


def first_state(share: Share) -> State:
    m = len(share.rows)
    return State(
        np.full(m, -1, np.int32),
        np.empty(m, np.float32),
        np.empty((m, 0), np.float32),
        np.zeros(m, np.uint8),
        [empty_tally(0, share.rows.shape[1]) for _ in share.cuts],
    )


def empty_tally(k: int, d: int) -> Tally:
    shape = (k, d + 1)
    return Tally(np.zeros(shape), np.zeros(shape), np.zeros(k, np.int64), np.zeros(4))


def tallies_for(state: State, k: int) -> list[Tally]:
    """Copies with room for k clusters; statistics at zero."""
    out = []
    for tally in state.tallies:
        new = empty_tally(k, tally.sums.shape[1] - 1)
        m = min(k, tally.sums.shape[0])
        for old, now in zip(tally[:3], new[:3], strict=True):
            now[:m] = old[:m]
        out.append(new)
    return out


def opened(share: Share, frame: Frame, state: State) -> Any:
    """The share as a partition of its own, in arrays that may be changed."""
    weight = share.weight if share.weight.shape[0] else None
    part = Partition(share.source, weight, serial, frame, unit=share.unit)
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
    past = np.empty((0, *centers.shape)) if previous is None else previous[None] * frame.scale
    with workers(1):
        return prepare(centers, group, n_groups, frame.offset, frame.scale, past, separate)


def assign(
    share: Share,
    state: State | None,
    view: Centers,
    frame: Frame,
    span: tuple[int, int],
    penalty: float | None,
    fresh: bool,
    use32: bool,
    small: bool,
) -> State:
    """Nearest centres for the rows `span`."""
    state = state or first_state(share)
    part = opened(share, frame, state)
    part._use32 = use32
    t = len(view.start) - 1
    if part._lower.shape[1] != t:
        part._lower = np.empty((len(share.rows), t), np.float32)
    part._marks = make_marks(*part._lower.shape)
    tallies, local = tallies_for(state, len(view.exact)), threading.local()
    columns = np.ascontiguousarray(view.exact.T) if small else None
    with workers(1):
        for (a, b), tally in zip(share.cuts, tallies, strict=True):
            a, b = max(a, span[0]), min(b, span[1])
            if a < b:
                if fresh:
                    part._forget(a, b)
                part._assign_range(a, b, view, tally, penalty, local, columns)
    return State(part.labels, part._upper, part._lower, part._far, tallies)


def make_openings(
    exact: np.ndarray, new: np.ndarray, opened_at: np.ndarray, scale: float
) -> Openings:
    return Openings(exact, new, opened_at, half_gaps(exact, new, scale))


def offer(
    share: Share, state: State, openings: Openings, frame: Frame, start: int, last: int
) -> State:
    """Rows up to `last` may move to clusters that were opened before them."""
    part = opened(share, frame, state)
    exact, new, opened_at, half_gap = openings
    tallies = tallies_for(state, len(exact) + len(new))
    for (a, b), tally in zip(share.cuts, tallies, strict=True):
        until = min(b, last - start)
        part._offer_range(a, until, new, opened_at - start, half_gap, exact, tally)
    return State(part.labels, part._upper, part._lower, part._far, tallies)


def move(share: Share, state: State, row: int, to: int, k: int) -> State:
    """Put one row into another cluster."""
    tallies, labels = tallies_for(state, k), state.labels.copy()
    at = next(s for s, (a, b) in enumerate(share.cuts) if a <= row < b)
    move_row(share.source, share.weight, row, labels[row], to, tallies[at])
    labels[row] = to
    return state._replace(labels=labels, tallies=tallies)


def drop(state: State, keep: np.ndarray) -> State:
    """Forget empty clusters; labels move up."""
    new_label = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
    return state._replace(
        labels=new_label[state.labels],
        tallies=[
            Tally(t.sums[keep], t.low[keep], t.count[keep], t.stats)
            for t in tallies_for(state, len(keep))
        ],
    )


def relabel(state: State, new: np.ndarray) -> State:
    return state._replace(labels=new[state.labels])


def recount(share: Share, state: State, k: int) -> State:
    """The sums afresh from the labels."""
    tallies = [empty_tally(k, share.rows.shape[1]) for _ in share.cuts]
    for cut, tally in zip(share.cuts, tallies, strict=True):
        for a, b, block in share.source.blocks(*cut):
            tally_rows(block, share.weight[a:b], state.labels[a:b], tally, 1)
    return state._replace(tallies=tallies)


# What leaves the worker


def report(state: State, k: int) -> list[Report]:
    """One for each segment."""
    fits = state.tallies[0].sums.shape[0] == k
    tallies = state.tallies if fits else tallies_for(state, k)
    whole = zip(state.tallies, tallies, strict=True)
    return [Report(old.stats[None, :], new.sums, new.low, new.count) for old, new in whole]


def merge(*parts: list[Report]) -> list[Report]:
    """One inner node of the tree of sums."""
    reports = [report for part in parts for report in part]
    high, low = add_in_order([(report.sums, report.low) for report in reports])
    count = np.sum([report.number for report in reports], axis=0)
    return [Report(np.vstack([report.stats for report in reports]), high, low, count)]


def some(reports: list[Report], a: int, b: int) -> list[Report]:
    return reports[a:b]


def finish(whole: list[Report]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The root: statistics of each segment, sums, counts."""
    return whole[0].stats, whole[0].sums + whole[0].low, whole[0].number


def stats(state: State) -> np.ndarray:
    return np.array([tally.stats for tally in state.tallies])


def lowest(state: State) -> int:
    return int(state.labels.min(initial=0))


def error(share: Share, state: State, centers: np.ndarray) -> list[float]:
    """Σ w d² of the labels and `centers`, for each segment."""
    return [
        sum(
            squared_error(block, share.weight[a:b], state.labels[a:b], centers)
            for a, b, block in share.source.blocks(*cut)
        )
        for cut in share.cuts
    ]


def far(share: Share, state: State, span: tuple[int, int], most: int) -> tuple[np.ndarray, ...]:
    """The first rows that are too far from all centres: where, rows, weights, labels."""
    a, b = max(0, span[0]), min(len(share.rows), span[1])
    at = a + np.flatnonzero(state.far[a:b])[:most]
    weight = share.weight[at] if share.weight.shape[0] else np.ones(at.size)
    return at, taken(share, at), weight, state.labels[at]


def farthest(
    share: Share, state: State, centers: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows farthest from their centres, and how far."""
    parts = [
        own_distances(block, share.weight[a:b], state.labels[a:b], centers)
        for a, b, block in share.source.blocks(0, len(share.rows))
    ]
    d2 = np.concatenate(parts)
    at = np.argsort(-d2, kind="stable")[:count]
    return at, d2[at]


def labels_of(state: State) -> np.ndarray:
    return state.labels


def parts_of(state: State, a: int, b: int) -> tuple[np.ndarray, ...]:
    return tuple(array[a:b] for array in state[:4])


def join_states(d: int, cuts: Cuts, *parts: tuple[np.ndarray, ...]) -> State:
    """A state from parts of others; the sums begin at zero."""
    labels, upper, lower, far = (np.concatenate(column) for column in zip(*parts, strict=True))
    return State(labels, upper, lower, far, [empty_tally(0, d) for _ in cuts])
