"""What happens to the rows of a share of a feature model, as functions: (share, state, …) → state.

The state of a share is a `State`: Z and the errors of its rows. `Allocation` maps these functions
over the shares of a table, in threads or where Dask has the rows. `one_pass` writes into the state
that it is given (an executor that needs it unchanged hands over a copy); the others leave it alone.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from madbayes._rows.blocks import rows_at_once
from madbayes._rows.rows import Cut, Rows, Share
from madbayes.features import row_kernels as kernels
from madbayes.features.row_kernels import DONE, EXACT, OPEN, SOME, grow_seeds, paper_rows, triangle

FEW_ROWS = 500  # whose search trees cost less than the eigenvalues that could spare them
PIECE_VALUES = 2**16  # of X, in one call of a kernel
NO_REACH = np.empty((0, 2))
MOST_BOUND = 8  # features: with more, `longest_sum` costs more than the bounds save
FEW_CHANGES = 0.2  # of the rows: while more change in a pass, bounds cost more than they save
NODE = 16  # products that count as much as a node of a search tree …
COMBINATION = 2  # … and as a combination in a list of all: as much as the nodes it is in place of

Part = tuple[int, float, np.ndarray, np.ndarray, float]


class State(NamedTuple):
    """What is remembered of the rows of a share."""

    Z: np.ndarray  # (rows, K) uint8
    error: np.ndarray  # ‖x_n - z_n A‖² in the last pass
    reach: np.ndarray = NO_REACH  # see `bounds`
    parts: tuple[Part, ...] = ()  # of each segment, what the last pass found

    def copy(self) -> "State":
        return State(self.Z.copy(), self.error.copy())

    def rows(self, a: int, b: int, reach: np.ndarray = NO_REACH) -> "State":
        """Views of some rows."""
        return State(self.Z[a:b], self.error[a:b], reach[a:b])


class Bounds:
    """Which rows may change their z: bounds of all rows, while from pass to pass only A moves.

    A row has 2^K sums of features to choose from. When A moves by D, no sum moves farther than the
    longest sum of rows of D. So a row whose second best sum is farther off than its own by more
    than all these ways stays, and need not be looked at (Hamerly 2010 does so for centres).
    """

    def __init__(self) -> None:
        self.reach = np.empty((0, 2))  # of each row, as in `features.row_kernels.allocate`
        self.moved = 0.0  # the ways of the sum that went farthest, since the bounds began
        self.cost = 0.0  # of the choice of z in the last pass without bounds
        self._A = np.empty((0, 0))
        self._few = False

    def follow(self, A: np.ndarray, n: int) -> bool:
        """To the present A; returns whether only some rows need to be looked at."""
        before, self._A = self._A, A.copy()
        some = self.reach.size > 0 and before.shape == A.shape
        if some:
            self.moved += longest_sum(A - before) * (1 + 1e-9)
        else:  # trees do not tell which z is the second best
            sure = self._few and before.shape == A.shape and len(A) <= MOST_BOUND
            self.reach, self.moved = np.zeros((n if sure else 0, 2)), 0.0
        return some

    def few_changed(self, changed: int, n: int) -> None:
        self._few = changed <= FEW_CHANGES * n

    def forget(self, rows: np.ndarray) -> None:
        """Rows (a mask) that changed in another way."""
        if self.reach.size:
            self.reach[rows, 1] = -np.inf


UNBOUND = Bounds()  # for passes that look at every row


def longest_sum(D: np.ndarray) -> float:
    """The length of the longest of all sums of rows of D."""
    if D.shape[1] > len(D):
        D = np.linalg.qr(D.T)[1].T  # of the same lengths, in fewer columns
    sums = np.zeros((1, D.shape[1]))
    for row in D:
        sums = np.vstack([sums, sums + row])
    return float(np.sqrt((sums**2).sum(axis=1).max()))


def diagonal_part(G: np.ndarray) -> float:
    """The largest c, rounding aside, with c·diag(G) <= G as matrices."""
    root = np.sqrt(np.diag(G))
    if G.shape[0] == 0 or not root.min() > 0:
        return 0.0
    return max(0.0, float(np.linalg.eigvalsh(G / np.outer(root, root))[0]) - 1e-9)


class Pass(NamedTuple):
    """What every share is told about one pass over the rows."""

    A: np.ndarray
    how: int
    G: np.ndarray  # AAᵀ …
    L: np.ndarray  # … its triangle …
    square: np.ndarray  # … and its `squares_of_sums`
    ease: float  # how far G is from singular
    most_nodes: int
    moved: float  # see `bounds`


def make_pass(A: np.ndarray, how: int, n: int, most_nodes: int, bounds: Bounds = UNBOUND) -> Pass:
    """What the kernels need to know of A, for n rows."""
    G = A @ A.T
    L, square, ease = G, np.empty((0, 0)), 0.0
    if how in (EXACT, SOME) and len(A):
        L, square = triangle(G), kernels.squares_of_sums(G)
        if n > FEW_ROWS:
            ease = diagonal_part(G)
    return Pass(A, how, G, L, square, ease, most_nodes, bounds.moved)


def pieces(rows: Rows, cut: Cut) -> Iterable[tuple[int, int, np.ndarray]]:
    """Rows in float64, few enough at a time to stay in the cache."""
    if not rows.kept:
        return read_pieces(rows, cut)
    if cut not in rows.views:
        rows.views[cut] = list(read_pieces(rows, cut))
    return rows.views[cut]


def read_pieces(rows: Rows, cut: Cut) -> Iterator[tuple[int, int, np.ndarray]]:
    step = rows_at_once(rows.d, PIECE_VALUES)
    for a, b, block in rows.blocks(*cut):
        for i in range(a, b, step):
            piece = block[i - a : min(b, i + step) - a].astype(np.float64, copy=False)
            piece.flags.writeable = False  # one compiled version for all
            yield i, min(b, i + step), piece


# Passes


def one_pass(share: Share, state: State, told: Pass) -> State:
    """Of each segment: changes, squared error, ZᵀWZ, ZᵀW(X - ZA), and what it cost beyond a pass
    that only measures."""
    parts, (K, d), first = [], told.A.shape, share.first
    for cut in share.cuts:
        changed, rss, cost = 0, 0.0, (cut[1] - cut[0]) * COMBINATION * told.square.size
        S, T = np.zeros((K, K)), np.zeros((K, d))
        for i, j, X in pieces(share.rows, cut):
            here = slice(i - first, j - first)
            Z, reach = state.Z[here], state.reach[here]
            flips, error, nodes = kernels.allocate(
                *(X, share.rows.weight[i:j], Z, told.A, told.G, told.L, told.square),
                *(told.ease, told.most_nodes, told.how, reach, told.moved, state.error[here]),
                *(S, T),
            )
            changed, rss, cost = changed + flips, rss + error, cost + nodes * NODE
        parts.append((changed, rss, S, T, cost))
    return state._replace(parts=tuple(parts))


def pass_of_its_own(share: Share, state: State, A: np.ndarray, how: int, most_nodes: int) -> State:
    """The same for a share that is not in this process: it prepares the pass for its own rows."""

    return one_pass(share, state, make_pass(A, how, len(state.Z), most_nodes))


def rows_in_turn(
    share: Share, state: State, A: np.ndarray, penalty: float, cap: int
) -> tuple[State, np.ndarray, int]:
    """BP-means step 1 (BKJ 3): rows in order, features with one row opened on the way.

    The state, the features that were opened, and how many z changed.
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
    """Which rows are better off with each seed, how many, and the sum of their residuals."""
    on = np.empty((len(state.Z), len(seeds)), dtype=np.uint8)
    count, total = np.zeros(len(seeds)), np.zeros(seeds.shape)
    for cut in share.cuts:
        for i, j, X in pieces(share.rows, cut):
            here = slice(i - share.first, j - share.first)
            weight = share.rows.weight[i:j]
            grow_seeds(X, weight, state.Z[here], A, seeds, everybody, on[here], count, total)
    return on, count, total


def nearer(share: Share, state: State, A: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The rows that are better off with `a` added to what they have."""
    return grow(share, state, A, a[None], False)[0][:, 0]


# Other features


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
    """With columns of features that no row of the share has."""
    more = K - state.Z.shape[1]
    if not more:
        return state
    return State(np.column_stack([state.Z, np.zeros((len(state.Z), more), np.uint8)]), state.error)


# Questions


def parts_of(state: State) -> tuple[Part, ...]:
    return state.parts


def z_of(state: State) -> np.ndarray:
    return state.Z


def column_sums(share: Share, state: State) -> np.ndarray:
    return state.Z.T @ share.weights()


def rows_with_z(share: Share, state: State, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return share.rows.take(share.first + rows), state.Z[rows]


def add_errors(total: float, share: Share, state: State) -> float:
    """`total` and the errors of the rows, added one after the other."""
    return float(np.cumsum(np.r_[total, errors(share, state)])[-1])


def places_of(total: float, share: Share, state: State, at: np.ndarray) -> np.ndarray:
    """The rows of the table whose errors take the sum beyond each of `at`."""
    reached = np.cumsum(np.r_[total, errors(share, state)])[1:]
    rows = np.minimum(np.searchsorted(reached, at, side="right"), len(reached) - 1)
    return share.start + share.first + rows


def errors(share: Share, state: State) -> np.ndarray:
    return state.error * share.weight if share.rows.weighted else state.error
