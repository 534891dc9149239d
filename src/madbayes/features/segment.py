"""The rows of a share of a feature model, and the functions that change them: (share, state, …).

The state of a share is a `State`: Z and the errors of its rows. `Allocation` maps these functions
over the shares of a table, in this process or where Dask has the rows. The segments of a share run
in the threads of the fit. `one_pass` writes into the state that it is given (an executor that needs
the state unchanged passes a copy); all other functions leave it unchanged.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from madbayes._rows.blocks import rows_at_once
from madbayes._rows.rows import Cut, Rows, Share
from madbayes._rows.threads import together
from madbayes.features import row_kernels as kernels
from madbayes.features.row_kernels import DONE, EXACT, OPEN, SOME, grow_seeds, paper_rows, triangle

FEW_CHANGES = 0.2  # share of the rows: while more rows change in a pass, bounds save no time
NO_REACH = np.empty((0, 2))

Part = tuple[int, float, np.ndarray, np.ndarray, float]


class State(NamedTuple):
    """The rows of a share."""

    Z: np.ndarray  # (rows, K) uint8
    error: np.ndarray  # ‖x_n - z_n A‖² in the last pass
    parts: tuple[Part, ...] = ()  # what the last pass found in each segment

    def copy(self) -> "State":
        return State(self.Z.copy(), self.error.copy())


class Bounds:
    """Bounds that prove which rows keep their z, while only A moves from pass to pass.

    A row has 2^K sums of features to choose from. When A moves by D, no sum moves farther than the
    longest sum of rows of D. If the second best sum of a row is farther off than its own sum by
    more than all these movements, the row keeps its z and is skipped (Hamerly 2010 does this for
    centres).
    """

    def __init__(self) -> None:
        self.reach = NO_REACH  # of each row, as in `row_kernels.allocate`
        self.moved = 0.0  # how far the sum that moved most has come since the bounds began
        self.cost = 0.0  # cost of the choice of z in the last pass without bounds
        self._A = np.empty((0, 0))
        self._few = False

    def follow(self, A: np.ndarray, n: int) -> bool:
        """Move the bounds to the present A; return whether some rows can be skipped."""
        before, self._A = self._A, A.copy()
        some = self.reach.size > 0 and before.shape == A.shape
        if some:
            self.moved += longest_sum(A - before) * (1 + 1e-9)
        else:  # with more than 8 features `longest_sum` costs more than the bounds save
            begin = self._few and before.shape == A.shape and len(A) <= 8
            self.reach, self.moved = np.zeros((n if begin else 0, 2)), 0.0
        return some

    def note_changes(self, changed: int, n: int) -> None:
        self._few = changed <= FEW_CHANGES * n

    def forget(self, rows: np.ndarray) -> None:
        """Drop the bounds of rows (a mask) that changed in another way."""
        if self.reach.size:
            self.reach[rows, 1] = -np.inf


def longest_sum(D: np.ndarray) -> float:
    """The length of the longest of all sums of rows of D."""
    if D.shape[1] > len(D):
        D = np.linalg.qr(D.T)[1].T  # the same lengths in fewer columns
    sums = np.zeros((1, D.shape[1]))
    for row in D:
        sums = np.vstack([sums, sums + row])
    return float(np.sqrt((sums**2).sum(axis=1).max()))


def diagonal_part(G: np.ndarray) -> float:
    """The largest c, rounding aside, with c·diag(G) <= G as matrices."""
    root = np.sqrt(np.diag(G))
    if not root.min() > 0:
        return 0.0
    return max(0.0, float(np.linalg.eigvalsh(G / np.outer(root, root))[0]) - 1e-9)


def pieces(rows: Rows, cut: Cut) -> Iterable[tuple[int, int, np.ndarray]]:
    """Rows in float64, few enough at a time to stay in the cache."""
    if not rows.kept:
        return read_pieces(rows, cut)
    if cut not in rows.views:
        rows.views[cut] = list(read_pieces(rows, cut))
    return rows.views[cut]


def read_pieces(rows: Rows, cut: Cut) -> Iterator[tuple[int, int, np.ndarray]]:
    step = rows_at_once(rows.d, 2**16)
    for a, b, block in rows.blocks(*cut):
        for i in range(a, b, step):
            piece = block[i - a : min(b, i + step) - a].astype(np.float64, copy=False)
            piece.flags.writeable = False  # kernels are compiled for read-only rows
            yield i, min(b, i + step), piece


# Passes


def one_pass(
    share: Share,
    state: State,
    A: np.ndarray,
    how: int,
    most_nodes: int,
    reach: np.ndarray = NO_REACH,
    moved: float = 0.0,
) -> State:
    """Choose z of each row, or only measure, as `how` says (`row_kernels.allocate`).

    The parts of the new state have for each segment: the number of changes, the squared error,
    ZᵀWZ, ZᵀW(X - ZA), and the cost beyond that of a pass that only measures, in products.
    """
    (K, d), first, G = A.shape, share.first, A @ A.T
    L, square, ease = G, np.empty((0, 0)), 0.0
    if how in (EXACT, SOME) and K:
        L, square = triangle(G), kernels.squares_of_sums(G)
        if len(state.Z) > 500:  # the trees of fewer rows cost less than the eigenvalues
            ease = diagonal_part(G)

    def segment(cut: Cut) -> Part:
        # A combination counts as 2 products, and a node of a search tree as 16.
        changed, rss, cost = 0, 0.0, float((cut[1] - cut[0]) * 2 * square.size)
        S, T = np.zeros((K, K)), np.zeros((K, d))
        for i, j, X in pieces(share.rows, cut):
            here = slice(i - first, j - first)
            flips, error, nodes = kernels.allocate(
                *(X, share.rows.weight[i:j], state.Z[here], A, G, L, square, ease),
                *(most_nodes, how, reach[here], moved, state.error[here], S, T),
            )
            changed, rss, cost = changed + flips, rss + error, cost + nodes * 16
        return changed, rss, S, T, cost

    return state._replace(parts=tuple(together(segment, share.cuts)))


def rows_in_turn(
    share: Share, state: State, A: np.ndarray, penalty: float, cap: int
) -> tuple[State, np.ndarray, int]:
    """BP-means step 1 (BKJ 3): rows in order, which may open features with one row.

    Returns the state, the features that were opened, and how many z changed.
    """
    known, Z, count = len(A), padded(state, len(A)).Z.copy(), np.zeros(1, dtype=np.int64)
    for a, b, block in pieces(share.rows, (share.first, share.last)):
        row, why, here = 0, OPEN, slice(a - share.first, b - share.first)
        while why != DONE:
            row, why = paper_rows(
                *(block, share.rows.weight[a:b], Z[here], A, A @ A.T, row),
                *(penalty, len(A) < cap, count),
            )
            if why == OPEN:
                mine = np.arange(len(Z)) == here.start + row
                e = block[row] - Z[here.start + row].astype(np.float64) @ A
                Z, A = np.column_stack([Z, mine.astype(np.uint8)]), np.vstack([A, e])
                count[0] += 1
                row += 1
    return State(Z, state.error), A[known:], int(count[0])


def grow(
    share: Share, state: State, A: np.ndarray, seeds: np.ndarray, everybody: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which rows are better off with each seed, how many they are, and the sum of their residuals.

    With `everybody` all rows take the first seed.
    """
    on = np.empty((len(state.Z), len(seeds)), dtype=np.uint8)

    def segment(cut: Cut) -> tuple[np.ndarray, np.ndarray]:
        count, total = np.zeros(len(seeds)), np.zeros(seeds.shape)
        for i, j, X in pieces(share.rows, cut):
            here = slice(i - share.first, j - share.first)
            weight = share.rows.weight[i:j]
            grow_seeds(X, weight, state.Z[here], A, seeds, everybody, on[here], count, total)
        return count, total

    counts, totals = zip(*together(segment, share.cuts), strict=True)
    return on, np.asarray(sum(counts)), np.asarray(sum(totals))


def nearer(share: Share, state: State, A: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Which rows are better off with the feature `a` added to those that they have."""
    return grow(share, state, A, a[None], False)[0][:, 0]


# Other columns of Z


def nothing(share: Share, K: int) -> State:
    """No row has any of K features."""
    m = share.last - share.first
    return State(np.zeros((m, K), np.uint8), np.zeros(m))


def everybody(state: State) -> np.ndarray:
    """A feature that all rows have."""
    return np.ones(len(state.Z), np.uint8)


def with_more(state: State, z: np.ndarray) -> State:
    return State(np.column_stack([state.Z, z.astype(np.uint8)]), state.error)


def with_columns(state: State, columns: np.ndarray) -> State:
    return State(np.ascontiguousarray(state.Z[:, columns]), state.error)


def padded(state: State, K: int) -> State:
    """With columns of zeros, for features that no row of the share has."""
    return with_more(state, np.zeros((len(state.Z), K - state.Z.shape[1]), np.uint8))


# Questions


def parts_of(state: State) -> tuple[Part, ...]:
    return state.parts


def z_of(state: State) -> np.ndarray:
    return state.Z


def column_sums(share: Share, state: State) -> np.ndarray:
    return state.Z.T @ share.weights()


def residuals(share: Share, state: State, A: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """X - ZA of some rows, counted from the first row of the share."""
    return share.rows.take(share.first + rows) - state.Z[rows].astype(np.float64) @ A


def add_errors(total: float, share: Share, state: State) -> float:
    """`total` plus the errors of the rows, added one after the other."""
    return float(np.cumsum(np.r_[total, errors(share, state)])[-1])


def places_of(total: float, share: Share, state: State, at: np.ndarray) -> np.ndarray:
    """The rows of the share at which the sum of `total` and the errors passes each of `at`."""
    reached = np.cumsum(np.r_[total, errors(share, state)])[1:]
    return np.minimum(np.searchsorted(reached, at, side="right"), len(reached) - 1)


def errors(share: Share, state: State) -> np.ndarray:
    return state.error * share.weight if share.rows.weighted else state.error
