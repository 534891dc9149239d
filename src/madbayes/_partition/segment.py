"""The functions that change the state of a share of the rows: (share, state, …) → state.

The rows of a share are in this process or on another machine. `Partition` only maps these functions
over the shares of a table. A function that returns a state may write into the state that it is
given; an executor that needs the old state unchanged passes a copy.
"""

from typing import NamedTuple

import numpy as np

from madbayes._partition.bounds import Centers, RowState, Tally
from madbayes._partition.nearest_direct import assign_direct
from madbayes._partition.nearest_products import assign_all, assign_products
from madbayes._partition.nearest_sparse import assign_sparse
from madbayes._partition.prepared_centers import make_direct_scratch, make_scratch
from madbayes._partition.seeding import squared_distances
from madbayes._partition.tallies import Report, empty_tally, report, room_for
from madbayes._rows.row_kernels import (
    distances_to,
    open_clusters,
    row_errors,
    squared_error,
    tally_rows,
)
from madbayes._rows.row_kernels import offer as offer_rows
from madbayes._rows.rows import Cut, Share
from madbayes._rows.threads import working_memory

NO_FLAGS = np.empty(0, dtype=np.uint8)
NO_BOUNDS = np.empty(0, np.float32), np.empty((0, 0), np.float32)


class State(NamedTuple):
    """What a share keeps between passes: labels and bounds of its rows, sums of its segments."""

    labels: np.ndarray  # int32; -1: not yet assigned
    upper: np.ndarray  # float32: see `RowState`
    lower: np.ndarray  # (rows, groups) float32
    far: np.ndarray  # uint8: set where weight * squared distance > penalty; or length 0
    tallies: list[Tally]  # one for each segment

    def copy(self) -> "State":
        """A copy that a function may write into."""
        tallies = [Tally(*(part.copy() for part in tally)) for tally in self.tallies]
        labels, upper, lower, far = (part.copy() for part in self[:4])
        return State(labels, upper, lower, far, tallies)


class Pass(NamedTuple):
    """The arguments of one pass over the rows, equal for all shares."""

    centers: Centers
    transposed: np.ndarray | None  # the centres, transposed, for sparse rows
    kernel: str  # "direct", "products" or "sparse"
    penalty: float | None
    rows: Cut  # the range of rows of the table that the pass assigns
    fresh: bool  # the bounds of these rows must be forgotten first
    bounded: bool  # bounds are used; without them each row is compared with each centre
    n_groups: int
    errors: bool  # False: only labels are needed
    use32: bool


class Openings(NamedTuple):
    """New clusters that rows may move to."""

    exact: np.ndarray  # the centres of the old clusters
    new: np.ndarray
    opened_at: np.ndarray  # the numbers of the rows that opened the new clusters
    half_gap: np.ndarray
    scale: float


class Proposals(NamedTuple):
    """Rows that may open clusters: their numbers in the table, and what `open_by_rule` needs."""

    at: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    labels: np.ndarray


def first_state(share: Share, columns: int) -> State:
    """The state before the first pass: no row has a label."""
    m = share.last - share.first
    labels, upper = np.full(m, -1, np.int32), np.empty(m, np.float32)
    tallies = [empty_tally(0, columns) for _ in share.cuts]
    return State(labels, upper, np.empty((m, 0), np.float32), NO_FLAGS, tallies)


# Passes


def assign(share: Share, state: State, how: Pass) -> State:
    """Assign those rows of the share that lie in the range of the pass."""
    m, t = len(state.labels), how.n_groups
    state = state._replace(tallies=room_for(state.tallies, len(how.centers.exact)))
    if how.bounded and state.lower.shape[1] != t:
        state = state._replace(lower=np.empty((m, t), np.float32))
    if how.penalty is not None and state.far.shape[0] == 0:
        state = state._replace(far=np.zeros(m, np.uint8))
    first, last = (row - share.start for row in how.rows)
    for (a, b), tally in zip(share.cuts, state.tallies, strict=True):
        a, b = max(a, first), min(b, last)
        tally.stats[:] = 0.0
        if a < b:
            if how.fresh and how.bounded:
                forget(state, slice(a - share.first, b - share.first))
            assign_rows(share, (a, b), state, tally, how)
    return state


def forget(state: State, rows: slice) -> None:
    """Reset the bounds of these rows to values that are always true."""
    state.upper[rows], state.lower[rows] = np.inf, 0.0


def assign_rows(share: Share, cut: Cut, state: State, tally: Tally, how: Pass) -> None:
    """Run the kernel of the pass, block by block."""
    view, limit = how.centers, np.inf if how.penalty is None else how.penalty
    (k, d), t = view.exact.shape, how.n_groups
    if how.kernel == "sparse":
        X, here = share.rows.X, slice(cut[0] - share.first, cut[1] - share.first)
        rows = row_state(state, here, share.rows.weight[slice(*cut)], how)
        args = cut[0], view, how.transposed, rows, tally, limit
        assign_sparse(X.data, X.indices, X.indptr, *args)
        return
    for here, block, weight in share.blocks(cut):
        rows = row_state(state, here, weight, how)
        if how.kernel == "direct":
            scratch = working_memory(make_direct_scratch, k, d)
            assign_direct(block, view, rows, tally, scratch, limit)
            continue
        scratch = working_memory(make_scratch, k, d, t)
        if how.bounded:
            assign_products(block, view, rows, tally, scratch, limit, how.use32)
        else:
            assign_all(block, view, rows, tally, scratch, not how.errors)


def row_state(state: State, here: slice, weight: np.ndarray, how: Pass) -> RowState:
    """The part of the state that belongs to one block, in the form that kernels read."""
    far = state.far[here] if how.penalty is not None else NO_FLAGS
    upper, lower = (state.upper[here], state.lower[here]) if how.bounded else NO_BOUNDS
    return RowState(state.labels[here], upper, lower, weight, far)


def offer(share: Share, state: State, openings: Openings, last: int) -> State:
    """Move rows up to row `last` of the table to nearer clusters that earlier rows opened."""
    exact, new, opened_at, half_gap, scale = openings
    state = state._replace(tallies=room_for(state.tallies, len(exact) + len(new)))
    for (a, b), tally in zip(share.cuts, state.tallies, strict=True):
        tally.stats[:] = 0.0
        a, b = max(a, int(opened_at[0]) - share.start), min(b, last - share.start)
        for here, block, weight in share.blocks((a, b)) if a < b else ():
            labels, upper, lower = (part[here] for part in state[:3])
            rows = RowState(labels, upper, lower, weight, NO_FLAGS)
            at = share.start + share.first + here.start, new, opened_at
            offer_rows(block, *at, half_gap, exact, scale, len(exact), rows, tally)
    return state


def recount(share: Share, state: State, k: int) -> State:
    """Add up sums and weights again from the labels, which removes rounding errors."""
    columns = state.tallies[0].sums.shape[1]
    tallies = [empty_tally(k, columns) for _ in share.cuts]
    for cut, tally in zip(share.cuts, tallies, strict=True):
        for here, block, weight in share.blocks(cut):
            tally_rows(block, weight, state.labels[here], tally, 1)
    return state._replace(tallies=tallies)


def move(share: Share, state: State, row: int, to: int) -> State:
    """Move one row of the table into another cluster, whose centre is this row."""
    row, here = row - share.start, row - share.start - share.first
    at = next(s for s, (a, b) in enumerate(share.cuts) if a <= row < b)
    state = state._replace(tallies=room_for(state.tallies, max(to + 1, tally_size(state))))
    for _, block, weight in share.blocks((row, row + 1)):
        for label, sign in ((to, 1), (int(state.labels[here]), -1)):
            tally_rows(block, weight, np.array([label], np.int32), state.tallies[at], sign)
    state.labels[here] = to
    forget(state, slice(here, here + 1))  # the centre of `to` has moved here
    return state


def drop(share: Share, state: State, keep: np.ndarray) -> State:
    """Remove the clusters that are not in the mask `keep`, and close the gaps in the labels."""
    # A cluster that counts as empty can still hold rows of weight 0.
    new_label = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
    tallies = [
        Tally(t.sums[keep], t.low[keep], t.count[keep], t.stats)
        for t in room_for(state.tallies, len(keep))
    ]
    return state._replace(labels=new_label[state.labels], tallies=tallies)


def relabel(share: Share, state: State, new_label: np.ndarray) -> State:
    return state._replace(labels=new_label[state.labels])


# States of a table that is cut differently


def join_states(share: Share, parts: list[tuple[State, int, int]]) -> State:
    """The state of a share, put together from rows a to b of other states; all sums are zero."""
    pieces = [[array[a:b] for array in state[:4]] for state, a, b in parts]
    if any(len(piece[3]) != len(piece[0]) for piece in pieces):
        pieces = [[*piece[:3], NO_FLAGS] for piece in pieces]
    lower = join_lower([piece[2] for piece in pieces])
    labels, upper, far = (np.concatenate([piece[e] for piece in pieces]) for e in (0, 1, 3))
    columns = parts[0][0].tallies[0].sums.shape[1]
    return State(labels, upper, lower, far, [empty_tally(0, columns) for _ in share.cuts])


def join_lower(parts: list[np.ndarray]) -> np.ndarray:
    """The lower bounds of several shares.

    Passes over a part of the rows can leave shares with bounds for different numbers of groups.
    Such bounds are not used any more, so none are kept.
    """
    same = len({part.shape[1] for part in parts}) == 1
    return np.concatenate(parts if same else [part[:, :0] for part in parts])


# Functions that only read a state


def labels_of(state: State) -> np.ndarray:
    return state.labels


def tally_size(state: State) -> int:
    return len(state.tallies[0].sums)


def report_of(state: State, k: int) -> list[Report]:
    return report(state.tallies, k)


def stats_of(state: State) -> np.ndarray:
    """The statistics of all segments, of shape (segments, 4): see `Tally`."""
    return np.array([tally.stats for tally in state.tallies])


def lowest_label(state: State) -> int:
    return int(state.labels.min(initial=0))


def error_of(share: Share, labels: np.ndarray, centers: np.ndarray) -> list[float]:
    """Σ w d² for the labels and `centers`, for each segment."""
    return [
        sum(
            squared_error(block, weight, labels[here], centers)
            for here, block, weight in share.blocks(cut)
        )
        for cut in share.cuts
    ]


def far_rows(share: Share, state: State, span: Cut, most: int) -> Proposals:
    """The first `most` rows of a span of the table that are too far from all centres."""
    origin = share.start + share.first
    a, b = max(0, span[0] - origin), max(0, span[1] - origin)
    at = a + np.flatnonzero(state.far[a:b])[:most]
    weight = share.rows.take_weights(share.first + at)
    return Proposals(at + origin, share.take(at), weight, state.labels[at])


def farthest(
    share: Share, state: State, centers: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `count` rows of the share farthest from their own centres, and the squared distances."""
    d2 = np.empty(len(state.labels))
    for here, block, weight in share.blocks():
        row_errors(block, state.labels[here], centers, d2[here])
        if weight.shape[0]:
            d2[here][weight == 0] = 0.0
    rows = np.argsort(-d2, kind="stable")[:count]
    return share.start + share.first + rows, d2[rows]


def scatter(share: Share, mean: np.ndarray) -> list[float]:
    """Σ w ‖x - mean‖², for each segment."""
    parts = []
    for a, b in share.cuts:
        d2, weight = squared_distances(share.rows, a, b, mean)[0], share.rows.weight[a:b]
        parts.append(float((weight * d2 if weight.shape[0] else d2).sum()))
    return parts


# Functions for all shares together


def open_by_rule(far: Proposals, centers: np.ndarray, penalty: float, limit: int) -> np.ndarray:
    """The positions of the proposals that open a cluster (KJ Algorithm 1), at most `limit`.

    A row counts the clusters that earlier rows opened.
    """
    opened = np.empty(min(limit, len(far.at)), dtype=np.int64)
    X, exact = far.rows.astype(np.float64, copy=False), np.ascontiguousarray(centers)
    return opened[: open_clusters(X, far.weight, far.labels, exact, penalty, limit, opened)]


def make_openings(
    exact: np.ndarray, new: np.ndarray, opened_at: np.ndarray, scale: float
) -> Openings:
    """`Openings`, with half the scaled distances between old and new centres, of shape (k, m)."""
    gap = np.empty((new.shape[0], exact.shape[0]))
    distances_to(exact, new, gap)
    half_gap = 0.5 * scale * np.sqrt(np.ascontiguousarray(gap.T))
    return Openings(exact, new, opened_at, half_gap, scale)
