"""Rows in groups that share clusters, for the search (`_search/driver.py`).

Objective: F = Σ w ‖x - μ_z‖² + λ_l Σ_j k_j + λ_g g (KJ Eq. 2, with weights). A local cluster is a
group's share of a global one, so F is a sum over global clusters: of squared error, λ_l for each
group that uses the cluster, and λ_g.

1. *Start* from several places: many small clusters merged by Ward's cost below λ_g; one cluster;
   the result of Algorithm 2.
2. *Moves*, until none lowers F: each group opens and closes clusters, the centres fixed (the rows
   of a group repay λ_l together); exact moves of rows and of whole local clusters, each to any
   cluster or a new one; merges of global clusters, which save λ_g and λ_l for every group that
   uses both.

Guaranteed at the end: no move of one row or of one local cluster, to another cluster or to a new
one, and no merge of two global clusters lowers F; splits of every cluster have been tried in vain.
Departs from KJ: Algorithm 2 opens a cluster only where one row, or one local cluster, repays λ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from madbayes._partition import draws, moves
from madbayes._partition.lloyd import lloyd
from madbayes._partition.moves import TOL
from madbayes._partition.ward import merge_below
from madbayes._rows.threads import patient
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import SAMPLE_ROWS
from madbayes._search.price import SharedPrice
from madbayes._search.space import Step
from madbayes.groups import descent
from madbayes.groups import hdp_kernels as hdp
from madbayes.groups.grouped_rows import starts
from madbayes.kmeans.dense_space import draw
from madbayes.kmeans.pruning import indivisible

SEEDS = 256  # small clusters to start from
SAMPLE_GROUPS = 32  # fewer groups than this are not a sample of the groups


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
    def start(self) -> np.ndarray:
        return starts(self.group)

    @property
    def penalties(self) -> tuple[float, float]:
        return self.price.local, self.price.penalty

    def at(self, local: float, glob: float) -> "GroupedSpace":
        """The same rows at other penalties."""
        return replace(self, price=replace(self.price, local=local, penalty=glob))

    def division(self, labels: np.ndarray) -> Division:
        z, k = without_gaps(labels)
        C, W, _ = moves.means(self.X, self.w, z, k, False)
        F = hdp.objective(self.X, self.w, self.start, z, k, *self.penalties)
        return Division(z, C, W, F)

    @property
    def problem(self) -> descent.Problem:
        return descent.Problem(self.X, self.w, self.start, *self.penalties)

    def settle(self, centers: np.ndarray) -> Division:
        z, k = descent.nearest(self.problem, centers)
        descent.settle(self.problem, z, k)
        return self.division(z)

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        z, k = descent.nearest(self.problem, centers)
        return z, self.descend(z, k, limit)[1], 0.0

    def descend(self, z: np.ndarray, k: int, limit: float = np.inf) -> tuple[int, float]:
        """All moves; where threads would have nothing to share, as one piece of work."""
        if len(self.problem.shares()) < 2:
            return patient(descent.descend, self.problem, z, k, limit)
        return descent.descend(self.problem, z, k, limit)

    def part(self, rows: np.ndarray, cap: int) -> "GroupedSpace":
        price = self.price.part(min(cap, len(rows)))
        return GroupedSpace(self.X[rows], self.w[rows], self.group[rows], price)

    def sample(self, size: int, rng: np.random.RandomState) -> "GroupedSpace":
        """Whole groups where there are many, else rows that stand for several."""
        start = self.start
        picked = rng.permutation(len(start) - 1)
        enough = 1 + int(np.searchsorted(np.cumsum(np.diff(start)[picked]), size))
        if enough >= SAMPLE_GROUPS:
            rows = np.concatenate(
                [np.arange(start[j], start[j + 1]) for j in np.sort(picked[:enough])]
            )
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

    # 1. Start

    def first_centers(self, rng: np.random.RandomState) -> Iterator[np.ndarray]:
        """Small clusters of all groups, merged by Ward's cost while that is below λ_g; the mean."""
        some = self.sample(SAMPLE_ROWS, rng) if self.n > SAMPLE_ROWS else self
        yield some.merged_seeds(rng)
        yield np.average(some.X, axis=0, weights=some.w)[None, :]

    def merged_seeds(self, rng: np.random.RandomState) -> np.ndarray:
        seeds = self.draw(min(SEEDS, self.n), rng)
        labels = lloyd(self.X, seeds, self.w, 3)[0]
        small, weights, _ = moves.means(self.X, self.w, *without_gaps(labels), False)
        penalty = self.price.penalty * (1 - TOL)
        group, k = patient(merge_below, small, weights, penalty, self.n, False)
        return moves.means(small, weights, group, k, False)[0]

    # 2. Moves

    def moves(self) -> Sequence[Step]:
        return (self.move,)

    def move(self, now: Division) -> Division:
        """All moves of the kernel, until none lowers F."""
        z = now.labels.copy()
        self.descend(z, now.k)
        return self.division(z)
