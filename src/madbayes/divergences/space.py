"""Rows of any family of columns for the search (`_search/driver.py`).

Objective: J = Σ_n w_n D_φ(x_n, μ_{z_n}) + λk (KJ Eq. 1 with a Bregman divergence: Jiang, Kulis &
Jordan 2012), for groups + λ_l Σ_j k_j (KJ Eq. 2). A cluster is its sums and counts, and
J = Σ w φ(x) - Σ_clusters F(S, N) + price (`kernels.py`), so all changes below are exact.

1. *Start.* Rows far from each other as centres, a few passes, and merges while one costs less than
   λ (Telgarsky & Dasgupta 2012, "Agglomerative Bregman clustering").
2. *Moves.* Merges; nearest centres and means; exact moves of single rows, openings and closings
   included.

A centre whose share or rate of a value is 0 would never get a row that has the value. In nearest
centres `half_seen` stands for that 0; the objective and the exact moves never use it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from madbayes._rows.threads import Run, patient, serial
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import SPLITS
from madbayes._search.price import Price
from madbayes._search.space import Step
from madbayes.divergences import kernels
from madbayes.divergences.families import EncodedRows, Statistics, centers_of, half_seen

SEEDS, MANY = 64, 20_000  # small clusters to begin with; four times as many of more rows
MOST_SEEDS = 2048  # merges compare all pairs
FIRST = 3  # passes of nearest centres and means in a start or a trial
WORK = 40.0  # rows visited by exact moves in a trial, as a multiple of all rows


@dataclass(frozen=True)
class DivergenceSpace:
    """Encoded rows, a price, and for the hard HDP the group of each row."""

    rows: EncodedRows
    price: Price
    run: Run = serial
    group: np.ndarray | None = None
    watched: bool = True  # of many rows, only those near another cluster are moved exactly

    neighbours = 8
    passes = 60.0
    counts = True
    redraw_any = True
    tries = 1

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def values(self) -> int:
        return self.rows.T.size

    @property
    def local(self) -> float:
        return float(getattr(self.price, "local", 0.0))

    @cached_property
    def groups(self) -> np.ndarray:
        return np.zeros(self.n, np.int64) if self.group is None else self.group

    @cached_property
    def n_groups(self) -> int:
        return int(self.groups.max(initial=0)) + 1

    @cached_property
    def phi(self) -> np.ndarray:
        return self.rows.phi

    @cached_property
    def constant(self) -> float:
        return float(self.rows.w @ self.phi)

    @cached_property
    def overall(self) -> np.ndarray:
        return self.rows.overall

    # What a division costs

    def division(self, labels: np.ndarray) -> Division:
        z, k = without_gaps(labels)
        found = self.rows.add_up(z, k)
        error = self.constant - float(self.earned(found).sum())
        return Division(z, self.means(found), found.W, max(error, 0.0) + self.priced(z, k))

    def earned(self, found: Statistics) -> np.ndarray:
        """F of each cluster."""
        F = np.empty(len(found.W))
        kernels.cluster_terms(found.S, found.N, *self.rows.layout.rule, F)
        return F

    def priced(self, z: np.ndarray, k: int) -> float:
        """What the clusters cost."""
        total = self.price.penalty * k
        if self.local > 0:
            total += self.local * len(np.unique(self.groups * k + z))
        return total

    def means(self, found: Statistics) -> np.ndarray:
        return found.means(self.rows.layout, self.overall)

    def use(self, z: np.ndarray, room: int) -> np.ndarray:
        """How many rows of each group are in each cluster; rows that are left out (-1) in none."""
        flat = np.bincount((self.groups * room + z)[z >= 0], minlength=self.n_groups * room)
        return flat.reshape(self.n_groups, room)

    # Nearest centres

    def nearest(self, centers: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        if weights is None:
            weights = np.full(len(centers), self.rows.w.sum() / len(centers))
        near = centers_of(centers, self.rows.layout, half_seen(weights * self.rows.per_row))
        return self.rows.nearest(near)[0]

    def lloyd(self, labels: np.ndarray, passes: int) -> np.ndarray:
        """Nearest centres and means, while the objective falls."""
        now = self.division(labels)
        for _ in range(passes):
            new = self.division(self.nearest(now.centers, now.weights))
            if not new.objective < now.objective * (1 - 1e-7):
                break
            now = new
        return now.labels

    def settle(self, centers: np.ndarray) -> Division:
        return self.division(self.nearest(centers))

    # 1. Starts

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        return self.draw_more(np.empty((0, self.rows.T.shape[1])), count, rng)

    def draw_more(self, centers: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
        """The centres and up to `count` rows far from them and each other (k-means++), each moved
        half-way to the mean of all rows, so that no value is impossible in it."""
        some, phi = self.rows, self.phi
        if self.n > 4000 + 4 * count:
            chosen = np.sort(rng.choice(self.n, 4000 + 4 * count, replace=False))
            some, phi = some.take(chosen), phi[chosen]
        layout, weight = some.layout, some.w
        share = weight.sum() / (len(centers) + count)
        zero = half_seen(np.array([share * self.rows.per_row]))
        gap = np.full(some.n, np.inf)
        if len(centers):
            near = centers_of(centers, layout, np.repeat(zero, len(centers)))
            gap = np.maximum(some.nearest(near)[1] + phi, 0.0)
        found = [centers]
        for _ in range(count):
            chances = weight * np.where(np.isinf(gap), 1.0, gap)
            total = chances.cumsum()
            if not total[-1] > 0:
                break
            i = min(int(np.searchsorted(total, rng.random_sample() * total[-1])), some.n - 1)
            there = some.P[i, layout.block] > 0
            own = some.T[i] / np.where(there, some.P[i, layout.block], 1.0)
            seed = (self.overall + np.where(there, own, self.overall)) / 2
            found.append(seed[None, :])
            near = centers_of(found[-1], layout, zero)
            gap = np.minimum(gap, np.maximum(some.cost(near, 0, some.n)[:, 0] + phi, 0.0))
            gap[i] = 0.0
        return np.vstack(found)

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        away = min(rng.randint(0 if self.price.penalty > 0 else 1, most + 1), len(centers))
        kept = centers[np.sort(rng.permutation(len(centers))[away:])]
        more = away if self.price.penalty == 0 else max(0, away + rng.randint(-1, 2))
        more = min(max(more, 1 if len(kept) == 0 else 0), self.price.cap - len(kept))
        return self.draw_more(kept, more, rng)

    def first_centers(self, rng: np.random.RandomState) -> Iterator[np.ndarray]:
        m = max(SEEDS if self.n <= MANY else 4 * SEEDS, 4 * self.price.cap * (self.local == 0))
        m = SEEDS if self.price.penalty > 0 else min(m, MOST_SEEDS)
        while True:
            m = self.n if self.n <= max(m, 256) else m  # few rows are merged without seeds
            labels = np.arange(self.n)
            if m < self.n:
                labels = self.lloyd(self.nearest(self.draw(m, rng)), FIRST)
            fine = self.division(labels)
            group = self.merge_tree(fine, self.price.penalty, self.price.cap, local=0.0)[0]
            merged = self.division(group[fine.labels])
            if 3 * merged.k <= m or m >= min(self.n, MOST_SEEDS) or merged.k == self.price.cap:
                break
            m *= 4
        yield merged.centers
        if self.local > 0:
            yield self.overall[None, :]

    # 2. Moves

    def moves(self) -> Sequence[Step]:
        return self.merge, self.follow_lloyd, self.move_rows

    def merge(self, now: Division) -> Division:
        """Merges that save more than they cost."""
        group = self.merge_tree(now, self.price.penalty, self.price.cap)[0]
        return self.division(group[now.labels]) if group.max() + 1 < now.k else now

    def merge_tree(
        self, now: Division, penalty: float, cap: int, local: float | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which clusters come together, the pairs in the order of the merges, and their costs.

        `local`: what a merge saves for each group that uses both, if it is not the usual price (0:
        of many small clusters, all groups use nearly all, and everything would be merged)."""
        local = self.local if local is None else local
        k = now.k
        found = self.rows.add_up(now.labels, k)
        tree, heights = np.zeros((k, 2), np.int64), np.zeros(k)
        use = self.use(now.labels, k)
        below = penalty * (1 - kernels.GAIN)
        rule = below, local, cap, *self.rows.layout.rule
        args = found.S, found.N, self.earned(found), use, *rule, tree, heights
        merges = patient(kernels.merge_clusters, *args)
        return merged_groups(tree[:merges], k), tree[:merges], heights[:merges]

    def follow_lloyd(self, now: Division) -> Division:
        labels = self.lloyd(now.labels, 30)
        return now if np.array_equal(labels, now.labels) else self.division(labels)

    def move_rows(self, now: Division) -> Division:
        z = now.labels.copy()
        return self.division(z) if self.move(z, now, np.inf) else now

    def move(self, z: np.ndarray, now: Division, limit: float, outlier: float = np.inf) -> int:
        """Exact moves of rows, in place; -1 for rows that are left out for the price `outlier`."""
        rows, room = self.rows, min(self.n, 2 * now.k + 16) + 1
        found, use = rows.add_up(z, room), self.use(z, room)
        count = use.sum(axis=0)
        rule = self.price.penalty, self.local, outlier, min(self.price.cap, room)
        args: Any = rows.T, rows.P, rows.w, self.phi, z, self.groups
        args = *args, self.watch(now) if outlier == np.inf else np.arange(self.n)
        args = *args, found.S, found.N, count, use, rule, *rows.layout.rule, limit
        return int(patient(kernels.move_rows, *args))

    def watch(self, now: Division) -> np.ndarray:
        """Rows that exact moves look at: all, or of many those whose second cluster is at most a
        tenth and one nat farther than their own."""
        if not self.watched or self.n <= MANY or now.k < 2 or self.local > 0:
            return np.arange(self.n)
        near = centers_of(now.centers, self.rows.layout, half_seen(now.weights * self.rows.per_row))
        close = np.empty(self.n, bool)
        for a in range(0, self.n, 4096):
            b = min(self.n, a + 4096)
            cost = np.partition(self.rows.cost(near, a, b), 1, axis=1)[:, :2]
            own = cost[:, 0] + self.phi[a:b]
            close[a:b] = cost[:, 1] + self.phi[a:b] <= 1.1 * own + 1.0
        return np.flatnonzero(close)

    # Parts and trials

    def part(self, rows: np.ndarray, cap: int) -> "DivergenceSpace":
        group = None if self.group is None else np.unique(self.group[rows], return_inverse=True)[1]
        price = self.price.part(min(cap, len(rows)))
        return DivergenceSpace(self.rows.take(rows), price, group=group)

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        return False

    def sample(self, size: int, rng: np.random.RandomState) -> "DivergenceSpace":
        chosen = np.sort(rng.choice(self.n, size, replace=False))
        group = None if self.group is None else self.group[chosen]
        return replace(self, rows=self.rows.sampled(chosen), group=group)

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        if len(centers) == 0:
            centers = self.overall[None, :]
        now = self.division(self.lloyd(self.nearest(centers), FIRST))
        if self.price.penalty > 0:
            now = self.merge(now)
        z = now.labels.copy()
        if self.move(z, now, WORK * self.n):
            now = self.division(z)
        return now.labels, now.objective, WORK * len(centers)

    def stable_penalties(self, now: Division, rng: np.random.RandomState) -> tuple[float, float]:
        """What the best split of a cluster would save, and what the cheapest merge would cost."""
        saved = 0.0
        for rows in now.rows():
            one = DivergenceSpace(self.rows.take(rows), Price(0.0, 2))
            if one.n > 1:
                whole = one.division(np.zeros(one.n, np.int64)).objective
                halves = min(one.relax(one.draw(2, rng))[1] for _ in range(SPLITS))
                saved = max(saved, whole - halves)
        if now.k == 1:
            return saved, np.inf
        one_less = replace(self, price=Price(0.0, now.k))
        return saved, float(one_less.merge_tree(now, 0.0, now.k - 1)[2][0])


def merged_groups(tree: np.ndarray, m: int) -> np.ndarray:
    """The group of each of m clusters after these merges, numbered 0, 1, …"""
    first = np.arange(m)
    for a, b in tree[::-1]:  # the last merges first: a's own group is known then
        first[b] = first[a]
    return np.unique(first, return_inverse=True)[1]
