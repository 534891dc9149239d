"""Rows in groups that share clusters, for the search (`_search/driver.py`).

Objective: F = Σ w ‖x - μ_z‖² + λ_l Σ_j k_j + λ_g g (KJ Eq. 2, with weights). A local cluster
consists of the rows of one group in one global cluster, so F is a sum over global clusters: squared
error, λ_l for each group that uses the cluster, and λ_g.

*Start* from several places: many small clusters merged by Ward's cost below λ_g; one cluster; the
result of Algorithm 2.

*Moves*, in turn until none lowers F:

1. With the centres fixed, each group opens and closes clusters: the rows of a group repay λ_l
   together. Then the means are computed.
2. Single rows move by the exact change of F. The rows that may gain, and the clusters that each of
   them may join, are found with the centres fixed; then these rows move one after another.
3. Whole local clusters move in the same way: a local cluster is a row at its mean, with its weight.
4. Two global clusters merge, which saves λ_g, and λ_l for every group that uses both.

At the end no move of one row or of one local cluster, to another cluster or to a new one, and no
merge of two global clusters lowers F, and the driver has tried to split every cluster. Departs from
KJ: Algorithm 2 opens a cluster only where one row, or one local cluster, repays λ.

Threads share the groups where centres are fixed; all other moves follow the order of the rows. So
the result does not depend on the number of threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise

import numpy as np

from madbayes._partition import draws
from madbayes._partition.lloyd import lloyd
from madbayes._partition.lloyd import nearest as nearest_centers
from madbayes._partition.moves import PLACES, SWEEPS, TOL, close_gaps, means
from madbayes._partition.ward import merge_below
from madbayes._rows.row_kernels import squared_error
from madbayes._rows.threads import patient, together
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import SAMPLE_ROWS
from madbayes._search.price import SharedPrice
from madbayes._search.space import Step
from madbayes.groups import hdp_kernels as kernels
from madbayes.groups.grouped_rows import local_clusters, starts
from madbayes.kmeans.dense_space import draw
from madbayes.kmeans.pruning import indivisible

SEEDS = 256  # small clusters to start from
SAMPLE_GROUPS = 32  # a sample consists of whole groups if it has at least this many
SHARED_ROWS = 2000  # rows that one thread takes, at least
KEPT_COSTS = 2**21  # costs of a group's rows that are kept; larger groups compute them again


@dataclass(frozen=True)
class GroupedSpace:
    """Rows (centred, those of a group together), positive weights, groups (ascending), a price."""

    X: np.ndarray
    w: np.ndarray
    group: np.ndarray
    price: SharedPrice

    neighbours = 8
    passes = 200.0  # more than where divisions can be crossed
    counts = False
    redraw_any = False
    tries = 3

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def values(self) -> int:
        return self.X.size

    @property
    def penalties(self) -> tuple[float, float]:
        return self.price.local, self.price.penalty

    @cached_property
    def start(self) -> np.ndarray:
        return starts(self.group)

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """The bounds of the groups that one thread takes."""
        groups = len(self.start) - 1
        number = max(1, min(16, groups, self.n // SHARED_ROWS))
        at = np.searchsorted(self.start, np.linspace(0, self.n, number + 1)[1:-1])
        return [self.start[a : b + 1] for a, b in pairwise(np.unique(np.r_[0, at, groups]))]

    def at(self, local: float, glob: float) -> "GroupedSpace":
        """The same rows at other penalties."""
        return replace(self, price=replace(self.price, local=local, penalty=glob))

    def division(self, labels: np.ndarray) -> Division:
        z, k = without_gaps(labels)
        C, W, _ = means(self.X, self.w, z, k, False)
        return Division(z, C, W, self.objective(z, C))

    def objective(self, z: np.ndarray, centers: np.ndarray) -> float:
        """F of labels without gaps, `centers` being the means."""
        n_local = without_gaps(self.group * len(centers) + z)[1]
        local, glob = self.penalties
        return squared_error(self.X, self.w, z, centers) + local * n_local + glob * len(centers)

    def part(self, rows: np.ndarray, cap: int) -> "GroupedSpace":
        price = self.price.part(min(cap, len(rows)))
        return GroupedSpace(self.X[rows], self.w[rows], self.group[rows], price)

    def sample(self, size: int, rng: np.random.RandomState) -> "GroupedSpace":
        """Whole groups where there are many; otherwise rows with larger weights."""
        picked = rng.permutation(len(self.start) - 1)
        enough = 1 + int(np.searchsorted(np.cumsum(np.diff(self.start)[picked]), size))
        if enough >= SAMPLE_GROUPS:
            chosen = np.sort(picked[:enough])
            rows = np.concatenate([np.arange(*self.start[j : j + 2]) for j in chosen])
            some = self.part(rows, len(rows))
            share = float(some.w.sum() / self.w.sum())
            return some.at(self.price.local, self.price.penalty * share)
        rows = np.sort(rng.choice(self.n, size, replace=False))
        some = self.part(rows, len(rows))
        return replace(some, w=some.w * (self.w.sum() / some.w.sum()))

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        return draw(self.X, self.w, count, rng)

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        return draws.redraw_some(self.X, self.w, centers, most, rng.random_sample(3 + 2 * most))

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        return indivisible(self.X, self.w, rows, center, self.price.penalty)

    def first_centers(self, rng: np.random.RandomState) -> Iterator[np.ndarray]:
        """Small clusters of all groups, merged by Ward's cost while that is below λ_g; the mean."""
        some = self.sample(SAMPLE_ROWS, rng) if self.n > SAMPLE_ROWS else self
        yield some.merged_seeds(rng)
        yield np.average(some.X, axis=0, weights=some.w)[None, :]

    def merged_seeds(self, rng: np.random.RandomState) -> np.ndarray:
        seeds = self.draw(min(SEEDS, self.n), rng)
        labels = lloyd(self.X, seeds, self.w, 3)[0]
        small, weights, _ = means(self.X, self.w, *without_gaps(labels), False)
        penalty = self.price.penalty * (1 - TOL)
        group, k = patient(merge_below, small, weights, penalty, self.n, False)
        return means(small, weights, group, k, False)[0]

    def settle(self, centers: np.ndarray) -> Division:
        z, k = self.nearest(centers)
        self.settle_groups(z, k)
        return self.division(z)

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        z, k = self.nearest(centers)
        return z, self.descend(z, k, limit), 0.0

    def nearest(self, centers: np.ndarray) -> tuple[np.ndarray, int]:
        """The nearest centre of each row, numbered without gaps, and how many have rows."""
        z = np.empty(self.n, np.int64)

        def find(start: np.ndarray) -> None:
            here = slice(start[0], start[-1])
            z[here] = nearest_centers(self.X[here], centers)

        together(find, self.shares)
        return z, close_gaps(z, np.bincount(z, minlength=len(centers)))

    def moves(self) -> Sequence[Step]:
        return (self.move,)

    def move(self, now: Division) -> Division:
        """Moves 1 to 4, until none lowers F."""
        z = now.labels.copy()
        self.descend(z, now.k)
        return self.division(z)

    def descend(self, z: np.ndarray, k: int, limit: float = np.inf) -> float:
        """Moves 1 to 4 until none lowers F; z is updated, F returned.

        Gives up when another round that gains as much would not come below `limit`.
        """

        def cost(z: np.ndarray, k: int) -> float:
            return self.objective(z, means(self.X, self.w, z, k, False)[0])

        F = cost(z, k)
        for round_ in count():
            old = z.copy()
            k = self.settle_groups(z, k)  # 1.
            k = self.move_rows(z, k)  # 2.
            k = self.move_local_clusters(z, k)  # 3.
            k = self.merge(z, k)  # 4.
            new = cost(z, k)
            if not new < F - TOL * abs(F):
                if new > F:  # only rounding is left
                    z[:] = old
                return min(new, F)
            if round_ > 0 and new - limit > F - new:
                return new
            F = new
        raise AssertionError("every round lowers F, so there is a last one")

    def settle_groups(self, z: np.ndarray, k: int) -> int:
        """1. until few rows change; z is updated, the number of clusters returned."""
        for _ in range(SWEEPS):
            before = z.copy()
            CT = kernels.columns(means(self.X, self.w, z, k, False)[0])

            def choose(start: np.ndarray, CT: np.ndarray = CT) -> None:
                size = min(int(np.diff(start).max()) * CT.shape[1], KEPT_COSTS)
                cost = np.empty(max(CT.shape[1], size))
                local = self.price.local
                patient(kernels.settle_groups, self.X, self.w, start, z, CT, local, cost)

            together(choose, self.shares)
            changed = np.count_nonzero(z != before)
            k = close_gaps(z, np.bincount(z, minlength=k))
            if changed <= 0.02 * len(z):  # the exact moves change the rest
                break
        return k

    def move_rows(self, z: np.ndarray, k: int) -> int:
        """2. until few rows move; z is updated, the number of clusters returned."""
        X, w = self.X, self.w
        C, W, N = means(X, w, z, min(self.n, k + 4) + 1, False)
        for _ in range(SWEEPS):
            CT = kernels.columns(C[:-1])

            def find(start: np.ndarray, CT: np.ndarray = CT) -> tuple[np.ndarray, np.ndarray]:
                n = int(start[-1] - start[0])
                rows, places = np.empty(n, np.int64), np.empty((n, PLACES), np.int64)
                size = patient(
                    kernels.find_frontier,
                    *(X, w, start, z, CT, W, N, *self.penalties, rows, places),
                )
                return rows[:size], places[:size]

            found = together(find, self.shares)
            rows, places = (np.concatenate(each) for each in zip(*found, strict=True))
            moved = patient(
                kernels.move_rows, X, w, self.start, z, rows, places, C, W, N, *self.penalties
            )
            if moved <= 0.002 * self.n:  # the next round moves the rest
                break
        return close_gaps(z, N)

    def move_local_clusters(self, z: np.ndarray, k: int) -> int:
        """3. `move_rows` of local clusters; z is updated, the number of clusters returned."""
        M, weights, group, labels, member = local_clusters(self.X, self.w, self.group, z, k)
        k = GroupedSpace(M, weights, group, self.price).move_rows(labels, k)
        z[:] = labels[member]
        return k

    def merge(self, z: np.ndarray, k: int) -> int:
        """4. while that pays; z is updated, the number of clusters returned."""
        while True:
            C, W, _ = means(self.X, self.w, z, k, False)
            if patient(kernels.merge_clusters, self.start, z, C, W, k, *self.penalties) == 0:
                return k
            k = close_gaps(z, np.bincount(z, minlength=k))
