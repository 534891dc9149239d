"""Rows as sums of features: the state of a fit, and the steps that the algorithms are written with.

An `Allocation` keeps the features A and makes the decisions. Z (a byte for each row and feature)
and the errors of the rows are in one state for each share of rows (`segment.py`). In this process
all rows are one share. The rows stay where they are and are read in blocks. Each step is a map over
fixed segments of the rows, and sums are added in the order of the segments, so that nothing depends
on the number of threads or workers. `work` counts the cost of the passes, so that a search ends by
a count, not by a clock.
"""

from typing import Any

import numpy as np

from madbayes._rows.rows import NO_WEIGHT, Share, segments
from madbayes._rows.speculation import in_turn
from madbayes.features import row_kernels as kernels
from madbayes.features import segment
from madbayes.features.row_kernels import COORDINATE, EXACT, MEASURE, SOME, triangle
from madbayes.features.segment import Bounds, State


class Allocation:
    """The rows of a table, allocated to no feature at first."""

    work = 0.0  # products, about
    most_nodes = 10_000  # of the search tree of a row
    beat = np.inf  # an objective that another start has reached

    def __init__(self, rows: Any) -> None:
        self.rows = rows.cut_at(segments(rows.n, 16))
        self.executor, self.remote = rows.executor, rows.executor.remote
        self.weight = NO_WEIGHT if self.remote else rows.weight
        self.n, self.d = rows.n, rows.d
        self.shares = self.rows.shares if self.remote else [Share(rows, self.rows.cuts, 0)]
        self.spans = self.rows.spans if self.remote else [(0, self.n)]
        self.A = np.zeros((0, self.d))
        self.rss = np.inf
        self.S = np.zeros((0, 0))  # ZᵀWZ
        self._T = np.zeros((0, self.d))  # ZᵀW(X - ZA), until `refit` has made it zero
        self._opens = True  # rows opened features in the last pass of `open_in_turn`
        self.states = self.executor.map(segment.nothing, self.shares, args=(0,))
        self.measure()

    @property
    def K(self) -> int:
        return self.A.shape[0]

    @property
    def Z(self) -> np.ndarray:
        """Z of all rows; only for rows in this process."""
        return self.states[0].Z

    @Z.setter
    def Z(self, Z: np.ndarray) -> None:
        self.states = [State(Z, self.error)]

    @property
    def error(self) -> np.ndarray:
        """‖x_n - z_n A‖² in the last pass; only for rows in this process."""
        return self.states[0].error

    def objective(self, penalty: float) -> float:
        """J: the squared error and the penalty of each feature."""
        return self.rss + penalty * self.K

    def one_pass(self) -> float:
        """The cost of a pass that only measures the error."""
        return float(self.n * (1 + self.K) * (self.d + self.K))

    def save(self) -> tuple:
        states = self.states if self.remote else [state.copy() for state in self.states]
        return states, self.A.copy(), self.S.copy(), self.rss

    def restore(self, saved: tuple) -> None:
        self.states, self.A, self.S, self.rss = saved
        self._T = np.zeros_like(self.A)

    def put(self, Z: np.ndarray, A: np.ndarray) -> None:
        """Start from a given allocation; only for rows in this process."""
        self.Z = np.array(Z, dtype=np.uint8, order="C")
        self.A = np.array(A, dtype=np.float64, order="C")
        self.measure()

    def put_features(self, A: np.ndarray) -> None:
        """Start from features that no row has yet."""
        self.A = np.array(A, dtype=np.float64, order="C")
        self.states = self.executor.map(segment.nothing, self.shares, args=(len(A),))
        self.measure()

    # Passes over all rows

    def measure(self) -> None:
        """The squared error, directly from the residuals, and the sums that `refit` needs."""
        self._pass(MEASURE)

    def assign(self, how: str) -> int:
        """Choose each row's z, A fixed: "exact" or "coordinate"; returns how many changed."""
        return self._pass(EXACT if how == "exact" else COORDINATE)

    def assign_some(self, bounds: Bounds) -> int:
        """Exact `assign`, without the rows whose z cannot change, as their bounds prove.

        The bounds hold if only `refit` was called since the last pass. `work` grows as if all rows
        had been looked at.
        """
        some = bounds.follow(self.A, self.n)
        rss, S, T, work = self.rss, self.S, self._T, self.work + self.one_pass() + bounds.cost
        changed = self._pass(SOME if some else EXACT, bounds)
        if some:  # what was there, and what the rows that changed add to it
            self.rss, self.S, self._T = max(0.0, rss + self.rss), S + self.S, T + self._T
        bounds.note_changes(changed, self.n)
        if bounds.reach.size:
            self.work = work
        else:
            bounds.cost = self.work - work + bounds.cost
        return changed

    def catch_up(self, bounds: Bounds) -> None:
        """Compute the errors that passes with bounds left out; `work` does not count this."""
        if bounds.reach.size:
            work = self.work
            self.measure()
            self.work = work

    def _pass(self, how: int, bounds: Bounds | None = None) -> int:
        args: tuple = self.executor.once(np.array, self.A), how, self.most_nodes
        if bounds is not None:
            args = (*args, bounds.reach, bounds.moved)
        self.states = self.executor.change(segment.one_pass, self.shares, self.states, *args)
        parts = [p for share in self.executor.ask(segment.parts_of, self.states) for p in share]
        changed, self.rss, self.S, self._T, cost = parts[0]
        for part in parts[1:]:
            changed, self.rss = changed + part[0], self.rss + part[1]
            self.S, self._T, cost = self.S + part[2], self._T + part[3], cost + part[4]
        self.work += self.one_pass() + cost
        return int(changed)

    def open_in_turn(self, penalty: float, cap: int) -> int:
        """Visit the rows one after another; a row sees the features that earlier rows opened.

        Returns how many z changed.
        """
        args = penalty, cap
        states, new, flips = in_turn(
            self.executor, segment.rows_in_turn, self.shares, self.states, self.A, args, self._opens
        )
        self._opens = len(new) > len(self.A)
        self.A = new
        self.states = self.executor.map(segment.padded, states, args=(self.K,))
        return sum(flips)

    # Steps on K×K matrices

    def independent(self) -> np.ndarray:
        """Which columns of Z do not depend on those before them."""
        return triangle(self.S).diagonal() > 0

    def refit(self, penalty: float = 0.0) -> int:
        """Compute A by least squares, after a pass; return how many features were removed.

        Columns of Z that depend linearly on earlier ones are removed, then features that save less
        than the penalty, the worst first.
        """
        if self.K == 0:
            return 0
        before = self.K
        keep = self.independent()
        if not keep.all():
            S = np.ascontiguousarray(self.S[keep][:, keep])
            self.A = np.linalg.solve(S, self.S[keep]) @ self.A  # the same fit on fewer columns
            self._keep_columns(keep)
            self.S, self._T = S, self._T[keep]
        costs = np.empty(self.K)
        fall = kernels.fit_features(self.A, self.S, self._T, costs)
        self.rss = max(0.0, self.rss - fall)
        self._T = np.zeros_like(self.A)
        while self.K and costs.min() < penalty * (1 - 1e-9):
            self.drop(int(np.argmin(costs)))
            costs = self.death_costs()
        return before - self.K

    def refit_all(self) -> None:
        """`refit` that keeps dependent columns: A is the best solution of smallest norm."""
        if self.independent().all():
            self.refit()
            return
        step = np.linalg.pinv(self.S, rcond=1e-10, hermitian=True)
        self.A = step @ (self._T + self.S @ self.A)
        self.rss = max(0.0, self.rss - float((self._T * (step @ self._T)).sum()))
        self._T = np.zeros_like(self.A)

    def death_costs(self) -> np.ndarray:
        """By how much the squared error rises when feature k goes and the others refit."""
        if self.K == 0:
            return np.empty(0)
        return (self.A**2).sum(axis=1) / np.diag(np.linalg.inv(self.S))

    def drop(self, k: int) -> None:
        """Remove feature k; the others refit."""
        M = np.linalg.inv(self.S)
        self.rss += float((self.A[k] ** 2).sum() / M[k, k])
        A = self.A - np.outer(M[:, k] / M[k, k], self.A[k])
        self.A = np.delete(A, k, axis=0)
        self._keep_columns(np.arange(M.shape[0]) != k)
        self.S = np.delete(np.delete(self.S, k, axis=0), k, axis=1)
        self._T = np.zeros_like(self.A)

    def _keep_columns(self, keep: np.ndarray) -> None:
        self.states = self.executor.map(
            segment.with_columns, self.states, args=(np.flatnonzero(keep),)
        )

    def everybody(self) -> list[Any]:
        """A feature that all rows have, for `add`."""
        return self.executor.map(segment.everybody, self.states)

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """The residuals X - ZA of some rows."""
        found, at = np.empty((rows.size, self.d)), self._share_of(rows)
        for s in np.unique(at):
            each = [self.shares[s]], [self.states[s]]
            args = self.A, rows[at == s] - self.spans[s][0]
            found[at == s] = self.executor.ask(segment.residuals, *each, args=args)[0]
        return found

    def _share_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted([b for _, b in self.spans], rows, side="right")

    def add(self, z: list[Any], a: np.ndarray) -> None:
        """Add a feature; a pass must follow. `z` has the new column of Z for each share."""
        self.states = self.executor.map(segment.with_more, self.states, z)
        self.A = np.vstack([self.A, a])

    def column_sums(self) -> np.ndarray:
        """How many rows have each feature, by weight."""
        return np.sum(self.executor.ask(segment.column_sums, self.shares, self.states), axis=0)

    # Births

    def draw(self, rng: np.random.RandomState, count: int) -> np.ndarray:
        """Rows with probability proportional to their squared error (BKJ 5)."""
        each = self.shares, self.states
        reached = np.array([0.0, *self.executor.fold(segment.add_errors, 0.0, *each, every=True)])
        if not reached[-1] > 0:
            return np.zeros(0, dtype=np.intp)
        at, found = rng.random_sample(count) * reached[-1], np.empty(count, dtype=np.intp)
        of = np.minimum(np.searchsorted(reached[1:], at, side="right"), len(self.states) - 1)
        for s in np.unique(of):
            columns = [reached[s]], [self.shares[s]], [self.states[s]]
            places = self.executor.ask(segment.places_of, *columns, args=(at[of == s],))
            found[of == s] = self.spans[s][0] + places[0]
        return found

    def birth(
        self, rows: np.ndarray, with_mean: bool = True, rounds: int = 10
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The best new feature grown from the residuals of `rows` (and from the mean of all rows).

        Each seed a in turn: z = [2Ra > aᵀa], a = the mean of R over z. Returns z, a and by how much
        they lower the error; only for rows in this process.
        """
        seeds = self.residuals(rows)
        if with_mean:
            seeds = np.vstack([np.zeros((1, self.d)), seeds])
        saved = np.full(seeds.shape[0], -np.inf)
        for round_ in range(rounds):
            everybody = with_mean and round_ == 0
            on, count, total = segment.grow(
                self.shares[0], self.states[0], self.A, seeds, everybody
            )
            self.work += self.n * (1 + self.K + len(seeds)) * self.d
            seeds = total / np.where(count > 0, count, 1.0)[:, None]
            now = count * (seeds**2).sum(axis=1)
            if (now <= saved * (1 + 1e-6)).all():
                break
            saved = now
        best = int(np.argmax(now))
        return on[:, best], seeds[best], float(now[best])

    def nearer(self, a: np.ndarray) -> list[Any]:
        """The rows whose error falls if they get a feature `a`, for `add`."""
        self.work += self.n * (2 + self.K) * self.d
        args = self.executor.once(np.array, self.A), a
        return self.executor.map(segment.nearer, self.shares, self.states, args=args)
