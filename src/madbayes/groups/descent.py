"""The descent of the hard HDP: all moves in turn, until none lowers F (`space.py`).

1. With the centres fixed, each group opens and closes clusters (`settle`), then means.
2. Rows: with the centres fixed, which of them may move, and where to; these then move one after
   another, by the exact change (`move_rows`).
3. Whole local clusters, likewise; merges of global clusters.

What leaves the centres fixed is done group by group in threads, the rest in the order of the rows:
the result is the same for any number of threads.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from madbayes._partition.lloyd import nearest as nearest_centers
from madbayes._partition.moves import PLACES, SWEEPS, TOL, close_gaps, means
from madbayes._rows.threads import patient, together
from madbayes.groups import group_kernels as hdp_groups
from madbayes.groups import hdp_kernels as hdp
from madbayes.groups import move_kernels as hdp_moves

ROUNDS = 1000  # a guard only: every round lowers the objective
CACHE = 2**21  # costs of a group's rows that are kept at a time
FEW = 0.02  # of the rows: when no more change, the groups have settled
FEW_MOVES = 0.002  # likewise, for moves of single rows
SHARES = 16  # of the groups, for threads
SHARED_ROWS = 2000  # fewer are one share


class Problem(NamedTuple):
    """Rows (those of group j from start[j] to start[j+1]), weights, λ_l and λ_g."""

    X: np.ndarray
    w: np.ndarray
    start: np.ndarray
    local: float
    glob: float

    def objective(self, z: np.ndarray, k: int) -> float:
        return hdp.objective(self.X, self.w, self.start, z, k, self.local, self.glob)

    def shares(self) -> list[np.ndarray]:
        """The bounds of groups that one thread takes."""
        n, groups = len(self.X), len(self.start) - 1
        count = max(1, min(SHARES, groups, n // SHARED_ROWS))
        at = np.searchsorted(self.start, np.linspace(0, n, count + 1)[1:-1])
        cuts = np.unique(np.r_[0, at, groups])
        return [self.start[a : b + 1] for a, b in pairwise(cuts)]


def nearest(problem: Problem, centers: np.ndarray) -> tuple[np.ndarray, int]:
    """The nearest centre of each row, numbered without gaps, and how many have rows."""
    z = np.empty(len(problem.X), np.int64)

    def find(start: np.ndarray) -> None:
        here = slice(start[0], start[-1])
        z[here] = nearest_centers(problem.X[here], centers)

    together(find, problem.shares())
    return z, close_gaps(z, np.bincount(z, minlength=len(centers)))


def settle(problem: Problem, z: np.ndarray, k: int) -> int:
    """1. until few rows change; z is updated, the number of clusters returned."""
    shares = problem.shares()
    for _ in range(SWEEPS):
        before = z.copy()
        CT = hdp_groups.columns(means(problem.X, problem.w, z, k, False)[0])

        def choose(start: np.ndarray, CT: np.ndarray = CT) -> None:
            cost = np.empty(max(CT.shape[1], min(int(np.diff(start).max()) * CT.shape[1], CACHE)))
            patient(
                hdp_groups.settle_groups,
                *(problem.X, problem.w, start, z, CT, problem.local, cost),
            )

        together(choose, shares)
        changed = np.count_nonzero(z != before)
        k = close_gaps(z, np.bincount(z, minlength=k))
        if changed <= FEW * len(z):  # the exact moves do the rest
            break
    return k


def move_rows(problem: Problem, z: np.ndarray, k: int) -> int:
    """2. until few rows move."""
    X, w, start, local, glob = problem
    C, W, N = means(X, w, z, min(len(X), k + 4) + 1, False)
    shares = problem.shares()
    for _ in range(SWEEPS):
        CT = hdp_groups.columns(C[:-1])

        def find(start: np.ndarray, CT: np.ndarray = CT) -> tuple[np.ndarray, np.ndarray]:
            n = int(start[-1] - start[0])
            rows, places = np.empty(n, np.int64), np.empty((n, PLACES), np.int64)
            size = patient(
                hdp_groups.find_frontier,
                *(X, w, start, z, CT, W, N, local, glob, rows, places),
            )
            return rows[:size], places[:size]

        found = together(find, shares)
        rows, places = (np.concatenate(each) for each in zip(*found, strict=True))
        moved = patient(hdp_moves.move_rows, X, w, start, z, rows, places, C, W, N, local, glob)
        if moved <= FEW_MOVES * len(X):  # the next round sees to the rest
            break
    return close_gaps(z, N)


def move_local(problem: Problem, z: np.ndarray, k: int) -> int:
    """3. Whole local clusters."""
    X, w, start, local, glob = problem
    C, W, N = means(X, w, z, min(len(X), k + 4) + 1, False)
    patient(hdp_moves.move_local, X, w, start, z, C, W, N, local, glob)
    return close_gaps(z, N)


def merge(problem: Problem, z: np.ndarray, k: int) -> int:
    """3. Merges; each leaves one cluster fewer."""
    X, w, start, local, glob = problem
    while True:
        C, W, _ = means(X, w, z, k, False)
        if patient(hdp_moves.merge_clusters, start, z, C, W, k, local, glob) == 0:
            return k
        k = close_gaps(z, np.bincount(z, minlength=k))


def descend(
    problem: Problem,
    z: np.ndarray,
    k: int,
    limit: float = np.inf,
    stop: Any = None,
) -> tuple[int, float]:
    """1 to 3 until none lowers F; z is updated, k and F returned.

    Gives up when another round like the last one would not come below `limit`. (`stop` comes from
    `patient`, and the kernels find it by themselves.)
    """
    F = problem.objective(z, k)
    for round_ in range(ROUNDS):
        old = z.copy()
        k = settle(problem, z, k)
        k = move_rows(problem, z, k)
        k = move_local(problem, z, k)
        k = merge(problem, z, k)
        new = problem.objective(z, k)
        if not new < F - TOL * abs(F):
            if new > F:  # only rounding is left
                z[:] = old
                k = int(z.max()) + 1
            break
        hopeless, F = round_ > 0 and new - limit > F - new, new
        if hopeless:
            break
    return k, problem.objective(z, k)
