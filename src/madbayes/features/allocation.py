"""Rows as sums of features, under way: the state, and the steps the algorithms are written in.

An `Allocation` owns Z (a byte for each row and feature), A, and a number or two for each row; the
rows stay where they are and are read in blocks. Each step is a map over fixed segments of the rows
(`cuts`), whose sums are added in the order of the segments: nothing depends on how many threads
`run` has.
"""

from collections.abc import Iterator

import numpy as np

from madbayes._engine.rows import Rows, segments
from madbayes._engine.threads import Run
from madbayes._kernels import features as kernels
from madbayes._kernels.features import ENUMERATED

PIECE_VALUES = 2**16  # of X, turned into residuals at a time
KEEP_VALUES = 2**21  # residuals are kept between the passes of one birth up to here
NO_WEIGHT = np.empty(0)


def new_state(source: Rows, weight: np.ndarray | None, run: Run) -> "Allocation":
    """No features yet."""
    return Allocation(source, weight, run, segments(source.n, 16))


class Allocation:
    """The rows of `source`, with `weight` (None: all ones), allocated to no feature at first."""

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

    def pieces(self, cut: tuple[int, int]) -> Iterator[tuple[int, int, np.ndarray]]:
        """Rows of a segment, few enough at a time to stay in the cache."""
        step = max(16, min(1024, PIECE_VALUES // max(self.d, 1)))
        for a, b, block in self.source.blocks(*cut):
            for i in range(a, b, step):
                yield i, min(b, i + step), block[i - a : min(b, i + step) - a]

    def residuals(self, X: np.ndarray, i: int, j: int) -> np.ndarray:
        """Rows i to j of X - ZA."""
        E = X.astype(np.float64)
        if self.K:
            E -= self.Z[i:j].astype(np.float64) @ self.A
        return E

    def measure(self) -> None:
        """The squared error, directly from the residuals, and the sums that `refit` needs."""
        self._pass("nothing")

    def assign(self, how: str) -> int:
        """Choose each row's z, A fixed: "exact" or "coordinate"; returns how many changed."""
        return self._pass(how)

    def _pass(self, how: str) -> int:
        K = self.K
        G = self.A @ self.A.T
        helper = np.empty(0)
        if how == "exact":
            helper = kernels.all_sums(G) if K <= ENUMERATED else kernels.triangle(G)

        def partial(cut: tuple[int, int]) -> tuple[int, float, np.ndarray, np.ndarray]:
            changed, rss = 0, 0.0
            S, T = np.zeros((K, K)), np.zeros((K, self.d))
            for i, j, X in self.pieces(cut):
                E, Z = self.residuals(X, i, j), self.Z[i:j]
                if K and how == "coordinate":
                    flips = kernels.flip_rows(Z, E @ self.A.T, G)
                    if flips:
                        changed += flips
                        E = self.residuals(X, i, j)
                elif K and how == "exact":
                    want = np.empty_like(Z)
                    choose = kernels.enumerate_rows if K <= ENUMERATED else kernels.branch_rows
                    choose(Z, E @ self.A.T, G, helper, want)
                    changed += kernels.settle_rows(X, Z, E, self.A, want)
                error = self.error[i:j]
                np.einsum("ij,ij->i", E, E, out=error)
                on = Z.astype(np.float64)
                if self.weight.shape[0]:
                    rss += float(self.weight[i:j] @ error)
                    weighted = on.T * self.weight[i:j]
                else:
                    rss += float(error.sum())
                    weighted = on.T
                S += weighted @ on
                T += weighted @ E
            return changed, rss, S, T

        parts = self.run(partial, self.cuts)
        self.rss = sum(part[1] for part in parts)
        self.S = sum((part[2] for part in parts), np.zeros((K, K)))
        self._T = sum((part[3] for part in parts), np.zeros((K, self.d)))
        return sum(part[0] for part in parts)

    # Steps on K×K matrices

    def refit(self, reduce: bool = True) -> None:
        """A by least squares, after a pass. Columns of Z that depend on those before them go.

        With ``reduce=False`` they stay, and A is the smallest of the best.
        """
        if self.K == 0:
            return
        keep = np.diag(kernels.triangle(self.S)) > 0
        if keep.all():
            step = np.linalg.solve(self.S, self._T)
            self.A = self.A + step
        elif reduce:
            S = self.S[np.ix_(keep, keep)]
            self.A = np.linalg.solve(S, self.S[keep]) @ self.A  # the same fit on fewer columns
            self.Z = np.ascontiguousarray(self.Z[:, keep])
            self.S, self._T = S, self._T[keep]
            step = np.linalg.solve(S, self._T) if keep.any() else self._T
            self.A = self.A + step
        else:
            step = np.linalg.pinv(self.S, rcond=1e-10, hermitian=True)
            self.A = step @ (self._T + self.S @ self.A)
            step = step @ self._T
        self.rss = max(0.0, self.rss - float((self._T * step).sum()))
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
        self.Z = np.ascontiguousarray(np.delete(self.Z, k, axis=1))
        self.S = np.delete(np.delete(self.S, k, axis=0), k, axis=1)
        self._T = np.zeros_like(self.A)

    def drop_unpaid(self, penalty: float) -> int:
        """Remove features that do not repay the penalty, the worst first."""
        dropped = 0
        while self.K and penalty > 0:
            costs = self.death_costs()
            k = int(np.argmin(costs))
            if costs[k] >= penalty * (1 - 1e-9):
                break
            self.drop(k)
            dropped += 1
        return dropped

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
        block = self.source.take(rows)
        own = block - self.Z[rows].astype(np.float64) @ self.A
        seeds = np.vstack([np.zeros((1, self.d)), own]) if with_mean else own
        on = np.ones((self.n, seeds.shape[0]), dtype=np.uint8)
        kept: dict[int, np.ndarray] | None = {} if self.n * self.d <= KEEP_VALUES else None
        saved = np.full(seeds.shape[0], -np.inf)
        for round_ in range(rounds):
            norms = (seeds**2).sum(axis=1)
            first = with_mean and round_ == 0

            def partial(cut, seeds=seeds, norms=norms, first=first):
                count, total = np.zeros(seeds.shape[0]), np.zeros(seeds.shape)
                for i, j, X in self.pieces(cut):
                    if kept is None:
                        E = self.residuals(X, i, j)
                    else:
                        E = kept[i] if i in kept else kept.setdefault(i, self.residuals(X, i, j))
                    here = 2.0 * (E @ seeds.T) > norms
                    if first:
                        here[:, 0] = True
                    on[i:j] = here
                    weighted = here.T.astype(np.float64)
                    if self.weight.shape[0]:
                        weighted *= self.weight[i:j]
                    count += weighted.sum(axis=1)
                    total += weighted @ E
                return count, total

            parts = self.run(partial, self.cuts)
            count = sum(part[0] for part in parts)
            total = sum(part[1] for part in parts)
            seeds = total / np.where(count > 0, count, 1.0)[:, None]
            now = count * (seeds**2).sum(axis=1)
            if (now <= saved * (1 + 1e-6)).all():
                break
            saved = now
        best = int(np.argmax(now))
        return on[:, best], seeds[best], float(now[best])

    def nearer(self, a: np.ndarray) -> np.ndarray:
        """The rows that are better off with `a` added to what they have."""
        on = np.empty(self.n, dtype=np.uint8)

        def partial(cut: tuple[int, int]) -> None:
            for i, j, X in self.pieces(cut):
                on[i:j] = 2.0 * (self.residuals(X, i, j) @ a) > a @ a

        self.run(partial, self.cuts)
        return on
