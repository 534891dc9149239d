"""Rows of any family of columns as sufficient statistics, and the divergences to centres.

For a Bregman divergence the best centre of a cluster is the mean of its rows (Banerjee, Merugu,
Dhillon & Ghosh 2005), and D_φ(x, μ) = φ(x) - T·θ(μ) + P·ψ(μ): a row is T (its values) and P (which
cells are there), a centre is θ and ψ. So nearest centres are matrix products, whatever the columns.

| family    | φ(v)                        | θ(μ)            | ψ(μ)          |
|-----------|-----------------------------|-----------------|---------------|
| squared   | v²                          | 2μ              | μ²            |
| poisson   | v log v                     | log μ + 1       | μ             |
| share     | v log v                     | log μ           | 0             |
| bernoulli | v log v + (1-v) log (1-v)   | log μ/(1-μ)     | -log(1-μ)     |
| gamma     | -a log v                    | -a/μ            | a(log μ - 1)  |
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from madbayes._rows.rows import segments
from madbayes._rows.threads import together
from madbayes.divergences import kernels
from madbayes.divergences.kernels import BERNOULLI, GAMMA, POISSON, SHARE, SQUARED

FAMILIES = {
    "squared": SQUARED,
    "poisson": POISSON,
    "multinomial": SHARE,
    "categorical": SHARE,
    "bernoulli": BERNOULLI,
    "gamma": GAMMA,
}


@dataclass(frozen=True)
class Layout:
    """What the columns of T are: blocks of columns that are there or missing together."""

    start: np.ndarray  # first column of each block, and the end
    family: np.ndarray
    scale: np.ndarray  # shape of GAMMA columns, else 1

    @cached_property
    def block(self) -> np.ndarray:
        """The block of each column."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @property
    def rule(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For the kernels."""
        return self.start, self.family, self.scale


@dataclass(frozen=True)
class Statistics:
    """Sums, counts and weights of some clusters."""

    S: np.ndarray
    N: np.ndarray
    W: np.ndarray

    def total(self) -> "Statistics":
        """All clusters as one."""
        return Statistics(
            self.S.sum(0, keepdims=True), self.N.sum(0, keepdims=True), self.W.sum(0, keepdims=True)
        )

    def means(self, layout: Layout, fallback: np.ndarray | None = None) -> np.ndarray:
        """Means of the columns; `fallback` where a cluster has no cell of a column."""
        N = self.N[:, layout.block]
        there = N > kernels.NOTHING
        means = self.S / np.where(there, N, 1.0)
        return means if fallback is None else np.where(there, means, fallback)


@dataclass(frozen=True)
class EncodedRows:
    """Rows with positive weights, ready for the kernels."""

    T: np.ndarray
    P: np.ndarray
    w: np.ndarray
    layout: Layout
    rest: np.ndarray | None = None  # φ of all columns but SQUARED, where it is known

    @property
    def n(self) -> int:
        return len(self.T)

    def take(self, rows: np.ndarray) -> "EncodedRows":
        if len(rows) == self.n and np.array_equal(rows, np.arange(self.n)):
            return self
        rest = None if self.rest is None else self.rest[rows]
        return replace(self, T=self.T[rows], P=self.P[rows], w=self.w[rows], rest=rest)

    def sample(self, size: int, rng: np.random.RandomState) -> "EncodedRows":
        """At most `size` rows, in their order, which weigh as much as all rows."""
        if self.n <= size:
            return self
        return self.sampled(np.sort(rng.choice(self.n, size, replace=False)))

    def sampled(self, rows: np.ndarray) -> "EncodedRows":
        """Some of the rows, which weigh as much as all rows."""
        some = self.take(rows)
        return replace(some, w=some.w * (self.w.sum() / some.w.sum()))

    def centred(self) -> "EncodedRows":
        """SQUARED columns minus their means, for exact sums."""
        return self.rescaled(np.where(self.layout.family == SQUARED, self.overall, 0.0))

    def rescaled(
        self,
        offset: np.ndarray,
        factor: np.ndarray | float = 1.0,
        scale: np.ndarray | float = 1.0,
    ) -> "EncodedRows":
        """SQUARED columns minus `offset`, times `factor` (0 and 1 for all others); missing cells
        stay 0. `scale`: shapes of GAMMA columns."""
        T = self.T - offset
        T *= factor
        j = self.numbers
        if self.P.shape[1] > 1:
            T[:, j] *= self.P[:, self.layout.block[j]]
        scale = np.broadcast_to(scale, self.layout.scale.shape)
        rest = self.rest_of_phi if np.array_equal(scale, self.layout.scale) else None
        return replace(self, T=T, layout=replace(self.layout, scale=scale), rest=rest)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The SQUARED columns."""
        return np.flatnonzero(self.layout.family == SQUARED)

    @cached_property
    def rest_of_phi(self) -> np.ndarray:
        """φ(x) of all columns but SQUARED."""
        return self.phi - self.squares.sum(axis=1) if self.rest is None else self.rest

    @cached_property
    def phi(self) -> np.ndarray:
        """φ(x) of each row."""
        if self.rest is not None:
            return np.asarray(self.rest + self.squares.sum(axis=1))
        out = np.empty(self.n)
        kernels.row_terms(self.T, self.P, *self.layout.rule, out)
        return out

    @cached_property
    def squares(self) -> np.ndarray:
        """v² of the SQUARED columns (0 where a cell is missing)."""
        return np.asarray(np.square(self.T[:, self.numbers]))

    @cached_property
    def logs(self) -> np.ndarray:
        """log v of the GAMMA columns (0 where a cell is missing)."""
        found = self.T[:, self.layout.family == GAMMA]
        return np.log(np.where(found > 0, found, 1.0))

    @cached_property
    def cells(self) -> np.ndarray:
        """How many rows have a cell of each block."""
        return np.count_nonzero(self.P, axis=0)

    @cached_property
    def rounding(self) -> np.ndarray:
        """The variance that rounding leaves in SQUARED columns: step²/12, where step is the
        smallest gap between two values of the column."""
        found = np.zeros(len(self.numbers))
        for at, j in enumerate(self.numbers):
            gaps = np.diff(np.unique(self.T[self.P[:, self.layout.block[j]] > 0, j]))
            found[at] = gaps.min(initial=np.inf) ** 2 / 12 if gaps.size else 0.0
        return found

    def add_up(self, labels: np.ndarray, k: int) -> Statistics:
        """Of k clusters; rows with a negative label count nowhere."""
        found = Statistics(
            np.zeros((k, self.T.shape[1])), np.zeros((k, self.P.shape[1])), np.zeros(k)
        )
        kernels.add_up(self.T, self.P, self.w, labels, found.S, found.N, found.W)
        return found

    @cached_property
    def per_row(self) -> float:
        """Counts of a row: 1, or the mean total of multinomial rows."""
        return float(self.w @ self.P[:, 0] / self.w.sum()) if self.P.shape[1] == 1 else 1.0

    @cached_property
    def total(self) -> Statistics:
        """Of all rows as one cluster."""
        return self.add_up(np.zeros(self.n, np.int64), 1)

    @property
    def overall(self) -> np.ndarray:
        """The mean of each column over all rows."""
        return self.total.means(self.layout)[0]

    def cost(self, centers: "Centers", a: int, b: int) -> np.ndarray:
        """D - φ(x) of rows a to b at all centres."""
        return self.P[a:b] @ centers.psi.T - self.T[a:b] @ centers.theta.T

    def nearest(self, centers: "Centers") -> tuple[np.ndarray, np.ndarray]:
        """The nearest centre of each row (the first among equals), and D - φ(x) there."""
        labels, least = np.empty(self.n, np.int64), np.empty(self.n)

        def some(cut: tuple[int, int]) -> None:
            for a in range(cut[0], cut[1], 4096):  # so many rows × centres fit the cache
                b = min(cut[1], a + 4096)
                cost = self.cost(centers, a, b)
                labels[a:b] = cost.argmin(axis=1)
                least[a:b] = cost[np.arange(b - a), labels[a:b]]

        together(some, segments(self.n, 1))
        return labels, least


@dataclass(frozen=True)
class Centers:
    """Centres as θ and ψ (ψ summed over the columns of a block)."""

    theta: np.ndarray
    psi: np.ndarray


def centers_of(means: np.ndarray, layout: Layout, zero: np.ndarray | float = 0.0) -> Centers:
    """θ and ψ of means.

    Where a share or rate is 0 the divergence of a row that has the value is infinite. `zero` (one
    for each centre) takes the place of such a 0; 0.0 leaves it infinite (`kernels.NEVER`).
    """
    zero = np.broadcast_to(np.asarray(zero, dtype=np.float64), (len(means),))
    found = Centers(np.zeros(means.shape), np.zeros((len(means), len(layout.start) - 1)))
    kernels.natural(means, zero, *layout.rule, found.theta, found.psi)
    return found


def half_seen(weights: np.ndarray) -> np.ndarray:
    """What takes the place of a share of 0 in a cluster of this weight: 1/e of one row more.

    Then a value that the cluster never had costs log(W + 1) + 1 nats, which is never less than the
    exact change of the objective by adding such a row (docs/families.md).
    """
    return np.exp(-1.0) / (weights + 1.0)
