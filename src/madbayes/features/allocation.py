"""Rows as sums of features, under way: the state, and the steps the algorithms are written in.

An `Allocation` owns Z (a byte for each row and feature), A, and a number or two for each row; the
rows stay where they are and are read in blocks. Each step is a map over fixed segments of the rows
(`cuts`), whose sums are added in the order of the segments: nothing depends on how many threads
`run` has. `work` counts what the passes cost, so that a search can end by a count, not by a clock.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from madbayes._rows.blocks import rows_at_once
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import Run
from madbayes.features import row_kernels as kernels
from madbayes.features.birth_kernels import grow_seeds
from madbayes.features.bounds import UNBOUND, Bounds, diagonal_part
from madbayes.features.row_kernels import COORDINATE, EXACT, MEASURE, NODES, SOME
from madbayes.features.sums import NO_SUMS, NODE, meet, sums_for
from madbayes.features.tree_kernels import triangle

FEW_ROWS = 500  # whose search trees cost less than the eigenvalues that could spare them
PIECE_VALUES = 2**16  # of X, in one call of a kernel
NO_WEIGHT = np.empty(0)

Views = Mapping[tuple[int, int], list[tuple[int, int, np.ndarray]]]


def new_state(source: Rows, weight: np.ndarray | None, run: Run) -> "Allocation":
    """No features yet."""
    return Allocation(source, weight, run, segments(source.n, 16))


class Allocation:
    """The rows of `source`, with `weight` (None: all ones), allocated to no feature at first."""

    work = 0.0  # products, about
    most_nodes = NODES
    _views: Views = MappingProxyType({})  # pieces that are no copies, by segment
    beat = np.inf  # an objective that another start has reached

    def __init__(
        self,
        source: Rows,
        weight: np.ndarray | None,
        run: Run,
        cuts: list[tuple[int, int]],
    ) -> None:
        self.source, self.run, self.cuts = source, run, cuts
        self.weight = NO_WEIGHT if weight is None else np.ascontiguousarray(weight, np.float64)
        self.n, self.d = source.n, source.d
        self.Z = np.zeros((self.n, 0), dtype=np.uint8)
        self.A = np.zeros((0, self.d))
        self.error = np.zeros(self.n)  # ‖x_n - z_n A‖² in the last pass
        self.rss = np.inf
        self.S = np.zeros((0, 0))  # ZᵀWZ
        self._T = np.zeros((0, self.d))  # ZᵀW(X - ZA), until `refit` has made it zero
        self.measure()

    @property
    def K(self) -> int:
        return self.A.shape[0]

    def one_pass(self) -> float:
        """What a pass costs that only measures."""
        return float(self.n * (1 + self.K) * (self.d + self.K))

    def save(self) -> tuple:
        return self.Z.copy(), self.A.copy(), self.S.copy(), self.error.copy(), self.rss

    def restore(self, saved: tuple) -> None:
        self.Z, self.A, self.S, self.error, self.rss = saved
        self._T = np.zeros_like(self.A)

    def put(self, Z: np.ndarray, A: np.ndarray) -> None:
        """Start from a given allocation."""
        self.Z = np.array(Z, dtype=np.uint8, order="C")
        self.A = np.array(A, dtype=np.float64, order="C")
        self.measure()

    # Passes over all rows

    def pieces(self, cut: tuple[int, int]) -> Iterable[tuple[int, int, np.ndarray]]:
        """Rows of a segment in float64, few enough at a time to stay in the cache."""
        if cut not in self._views:
            if not self.source.kept:
                return self._read(cut)
            self._views = {**self._views, cut: list(self._read(cut))}
        return self._views[cut]

    def _read(self, cut: tuple[int, int]) -> Iterator[tuple[int, int, np.ndarray]]:
        step = rows_at_once(self.d, PIECE_VALUES)
        for a, b, block in self.source.blocks(*cut):
            for i in range(a, b, step):
                piece = block[i - a : min(b, i + step) - a].astype(np.float64, copy=False)
                piece.flags.writeable = False  # one compiled version for all
                yield i, min(b, i + step), piece

    def measure(self) -> None:
        """The squared error, directly from the residuals, and the sums that `refit` needs."""
        self._pass(MEASURE)

    def assign(self, how: str) -> int:
        """Choose each row's z, A fixed: "exact" or "coordinate"; returns how many changed."""
        return self._pass(EXACT if how == "exact" else COORDINATE)

    def assign_some(self, bounds: Bounds) -> int:
        """`assign` exactly, without the rows that bounds prove to stay as they are, if nothing but
        `refit` came in between. It counts as if all rows were looked at."""
        some = bounds.follow(self.A, self.n, self.most_nodes)
        rss, S, T, work = self.rss, self.S, self._T, self.work + self.one_pass() + bounds.cost
        changed = self._pass(SOME if some else EXACT, bounds)
        if some:  # what was there, and what the rows that changed add to it
            self.rss, self.S, self._T = max(0.0, rss + self.rss), S + self.S, T + self._T
        bounds.few_changed(changed, self.n)
        if bounds.reach.size:
            self.work = work
        else:
            bounds.cost = self.work - work + bounds.cost
        return changed

    def catch_up(self, bounds: Bounds) -> None:
        """What passes with bounds left out; free of charge."""
        if bounds.reach.size:
            work = self.work
            self.measure()
            self.work = work

    def _pass(self, how: int, bounds: Bounds = UNBOUND) -> int:
        parts = self._map(how, bounds)
        changed, self.rss, self.S, self._T, cost = parts[0]
        for part in parts[1:]:
            changed, self.rss = changed + part[0], self.rss + part[1]
            self.S, self._T, cost = self.S + part[2], self._T + part[3], cost + part[4]
        self.work += self.one_pass() + cost
        return int(changed)

    def _map(
        self, how: int, bounds: Bounds = UNBOUND
    ) -> list[tuple[int, float, np.ndarray, np.ndarray, float]]:
        """One pass over each segment: changes, squared error, ZᵀWZ, ZᵀW(X - ZA), and what it cost
        beyond `one_pass`."""
        K = self.K
        G = self.A @ self.A.T
        L, sums, each, ease = G, NO_SUMS, 0.0, 0.0
        if how in (EXACT, SOME) and K:
            L = triangle(G)
            if self.n > FEW_ROWS:
                ease = diagonal_part(G)
            sums, each = sums_for(self, G, L, ease, bounds)

        def partial(cut: tuple[int, int]) -> tuple[int, float, np.ndarray, np.ndarray, float]:
            changed, rss = 0, 0.0
            S, T = np.zeros((K, K)), np.zeros((K, self.d))
            cost = (cut[1] - cut[0]) * each
            for i, j, X in self.pieces(cut):
                Z, reach, moved = self.Z[i:j], bounds.reach[i:j], bounds.moved
                met = meet(X, Z, self.A, sums, how == SOME, reach, moved)
                flips, error, nodes = kernels.allocate(
                    *(X, self.weight[i:j], Z, self.A, G, L, sums.plain, met, ease),
                    *(self.most_nodes, how, reach, moved, self.error[i:j], S, T),
                )
                changed, rss, cost = changed + flips, rss + error, cost + nodes * NODE
            return changed, rss, S, T, cost

        return self.run(partial, self.cuts)

    def in_turn(self, rows_in_turn: Callable[..., int], penalty: float, cap: int) -> int:
        """Rows one after another, wherever they are; returns how many z changed."""
        return rows_in_turn(self, penalty, cap)

    # Steps on K×K matrices

    def independent(self) -> np.ndarray:
        """Which columns of Z do not depend on those before them."""
        return triangle(self.S).diagonal() > 0

    def refit(self, penalty: float = 0.0) -> int:
        """A by least squares, after a pass. Columns of Z that depend on those before them go, then
        features that do not repay the penalty, the worst first; returns how many."""
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

    def move(self, step: np.ndarray) -> None:
        """A is moved away from where `refit` put it."""
        self.A = self.A + step
        self._T = -self.S @ step
        self.rss -= float((self._T * step).sum())

    def refit_all(self) -> None:
        """The same with dependent columns kept: A is the smallest of the best."""
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
        self.Z = np.ascontiguousarray(self.Z[:, keep])

    def everybody(self) -> np.ndarray:
        """A feature that all rows have, for `add`."""
        return np.ones(self.n)

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """What the features leave of some rows."""
        return self.source.take(rows) - self.Z[rows].astype(np.float64) @ self.A

    def add(self, z: np.ndarray, a: np.ndarray) -> None:
        """One more feature; follow with a pass."""
        self.Z = np.column_stack([self.Z, z.astype(np.uint8)])
        self.A = np.vstack([self.A, a])

    # Births

    def draw(self, rng: np.random.RandomState, count: int) -> np.ndarray:
        """Rows with probability proportional to their squared error (BKJ 5)."""
        chance = np.cumsum(self.error * self.weight if self.weight.shape[0] else self.error)
        if not chance[-1] > 0:
            return np.zeros(0, dtype=np.intp)
        at = np.searchsorted(chance, rng.random_sample(count) * chance[-1], side="right")
        return np.minimum(at, self.n - 1)

    def birth(
        self, rows: np.ndarray, with_mean: bool = True, rounds: int = 10
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The best new feature grown from the residuals of `rows` (and from the mean of all).

        Each in turn: z = [2Ra > aᵀa], a = the mean of R over z. Returns z, a and what they save.
        """
        seeds = self.residuals(rows)
        if with_mean:
            seeds = np.vstack([np.zeros((1, self.d)), seeds])
        on = np.empty((self.n, seeds.shape[0]), dtype=np.uint8)
        saved = np.full(seeds.shape[0], -np.inf)
        for round_ in range(rounds):
            count, total = self._grow(seeds, with_mean and round_ == 0, on)
            seeds = total / np.where(count > 0, count, 1.0)[:, None]
            now = count * (seeds**2).sum(axis=1)
            if (now <= saved * (1 + 1e-6)).all():
                break
            saved = now
        best = int(np.argmax(now))
        return on[:, best], seeds[best], float(now[best])

    def nearer(self, a: np.ndarray) -> np.ndarray:
        """The rows that are better off with `a` added to what they have."""
        on = np.empty((self.n, 1), dtype=np.uint8)
        self._grow(a[None], False, on)
        return on[:, 0]

    def _grow(self, seeds: np.ndarray, everybody: bool, on: np.ndarray) -> tuple[Any, Any]:
        def partial(cut: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            count, total = np.zeros(seeds.shape[0]), np.zeros(seeds.shape)
            for i, j, X in self.pieces(cut):
                grow_seeds(
                    *(X, self.weight[i:j], self.Z[i:j], self.A),
                    *(seeds, everybody, on[i:j], count, total),
                )
            return count, total

        parts = self.run(partial, self.cuts)
        self.work += self.n * (1 + self.K + len(seeds)) * self.d
        return sum(part[0] for part in parts), sum(part[1] for part in parts)
