"""Dense rows for the search (`_search/driver.py`).

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights). For the cosine metric rows
and centres have length 1 (`unit`); only the formulas for the gain of a move are different.

1. *Start.* Make many small clusters (k-means++ seeds and a few of Lloyd's passes on a sample; if
   there are few rows, each row is a small cluster). Merge two clusters a, b as long as Ward's cost
   W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖² is below λ.
2. *Combine.* Take all centres of two divisions, merge by Ward's cost, make a few of Lloyd's passes.
3. *Moves.* Merges, Lloyd's passes, and Hartigan's exact moves of single rows. An exact move may
   also open a cluster for one row, or close a cluster of one row.

Departs from KJ: Algorithm 1 opens a cluster only when one row alone saves more than λ.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from madbayes._partition import draws, moves
from madbayes._partition.lloyd import LloydRows, nearest
from madbayes._partition.moves import TOL
from madbayes._partition.ward import merge_below, ward_tree
from madbayes._rows.row_kernels import squared_error
from madbayes._rows.threads import patient
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import SPLITS
from madbayes._search.price import Price
from madbayes._search.space import Step
from madbayes.kmeans.pruning import indivisible, rows_to_watch
from madbayes.kmeans.trial import FIRST, PASSES, approach

TINY = 100  # rows: up to this many, a trial makes exact moves only, which cost hardly anything
SEEDS = 64  # small clusters of a start; four times as many above MANY rows
MANY = 20_000  # rows
SMALL = 1024  # rows: up to this many, a start may merge single rows instead of small clusters
BOX = 4096  # rows of a box, at most


@dataclass(frozen=True)
class DenseSpace:
    """Rows (centred, or of length 1 with `unit`), their positive weights, and a price."""

    X: np.ndarray
    w: np.ndarray
    price: Price
    unit: bool = False

    neighbours = 12
    passes = 22.5
    counts = True
    redraw_any = True
    tries = 1

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def values(self) -> int:
        return self.X.size

    def division(self, labels: np.ndarray) -> Division:
        z, k = without_gaps(labels)
        C, W, _ = moves.means(self.X, self.w, z, k, self.unit)
        J = squared_error(self.X, self.w, z, C) + self.price.penalty * k
        return Division(z, C, W, J)

    @cached_property
    def rows(self) -> LloydRows:
        """The rows, with bounds on the distances to their nearest centres."""
        return LloydRows(self.X, self.w, self.unit)

    def settle(self, centers: np.ndarray) -> Division:
        return self.division(self.rows.nearest(centers))

    def part(self, rows: np.ndarray, cap: int) -> "DenseSpace":
        price = self.price.part(min(cap, len(rows)))
        return DenseSpace(self.X[rows], self.w[rows], price, unit=self.unit)

    def sample(self, size: int, rng: np.random.RandomState) -> "DenseSpace":
        rows = self._sample_rows(size, rng)
        w = self.w[rows] * (self.w.sum() / self.w[rows].sum())
        return replace(self, X=self.X[rows], w=w)

    def _sample_rows(self, size: int, rng: np.random.RandomState) -> np.ndarray:
        n = self.n
        return np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        return draw(self.X, self.w, count, rng)

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        at_cap = self.price.penalty == 0  # k-means: always as many clusters as the cap allows
        U = rng.random_sample(3 + 2 * most)
        return draws.redraw_some(self.X, self.w, centers, most, U, at_cap)

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        """Lloyd's passes, then exact moves if they may lower the objective below `limit`."""
        rule = self.price.penalty, self.price.cap, self.unit
        passes, sweeps = 0.0, 30  # the cost of exact moves alone, in passes (estimated)
        if self.n > TINY and self.rows.plain(len(centers)):
            near = approach(self.rows.columns, self.w, centers, self.price, limit, known)
            if not near.hopeful:
                return near.labels, near.objective, near.passes
            centers, limit, passes, sweeps = near.centers, near.limit, near.passes, 10
        labels, _, J = patient(moves.relax, self.X, self.w, centers, *rule, limit)
        return labels, J, passes + sweeps * len(centers)

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        return not self.unit and indivisible(self.X, self.w, rows, center, self.price.penalty)

    # 1. Start

    def first_centers(self, rng: np.random.RandomState) -> Iterator[np.ndarray]:
        """Ward's merges of many small clusters, until a merge costs more than the penalty."""
        cap, penalty = self.price.cap, self.price.penalty * (1 - TOL)
        m = 4 * cap if penalty == 0 else 0
        m = max(m, SEEDS if self.n <= MANY else 4 * SEEDS)
        m = self.n if 4 * m > self.n and self.n <= SMALL else m
        k = self.n
        while m < self.n and m <= 16_384:  # more small clusters take longer than boxes of rows
            centers, seeds = self._merge_seeds(m, penalty, cap, rng)
            k = len(centers)
            if 3 * k <= m or k == cap or seeds < m:  # the small clusters were small enough
                yield centers
                return
            m = 2 * m if 4 * m <= self.n else self.n
        if self.n > BOX:
            self._warn_of_many(k)
        yield self._merge_boxes(penalty)

    def _merge_seeds(
        self, m: int, penalty: float, cap: int, rng: np.random.RandomState
    ) -> tuple[np.ndarray, int]:
        """Merge m small clusters while a merge costs less than `penalty` or there are over `cap`.

        Returns the centres, and the number of small clusters: less than m if fewer rows are
        different.
        """
        some: DenseSpace = self
        if self.n > 4000 + 4 * m:
            rows = self._sample_rows(4000 + 4 * m, rng)
            some = replace(self, X=self.X[rows], w=self.w[rows])
        seeds = some.draw(m, rng)
        labels = some.rows.lloyd(seeds, FIRST, 0.0, ahead=some.rows.plain(len(seeds)))[0]
        small, weights, _ = moves.means(some.X, some.w, *without_gaps(labels), self.unit)
        weights *= self.w.sum() / some.w.sum()
        group, k = patient(merge_below, small, weights, penalty, cap, self.unit)
        return moves.means(small, weights, group, k, self.unit)[0], len(seeds)

    def _merge_boxes(self, penalty: float) -> np.ndarray:
        """Merge single rows by Ward's cost within each box, then the clusters of all boxes."""
        z, n_clusters = np.empty(self.n, np.int64), 0
        for rows in boxes(self.X, np.arange(self.n)):
            X = self.X[rows].astype(np.float64)
            group, k = patient(merge_below, X, self.w[rows], penalty, self.price.cap, self.unit)
            z[rows] = n_clusters + group
            n_clusters += k
        return self.merge(self.division(z)).centers

    def _warn_of_many(self, k: int) -> None:
        warnings.warn(
            f"penalty={self.price.penalty:.4g} is so small that the {self.n} rows fall into more "
            f"than {k} clusters, which takes long. A larger penalty, or max_clusters, makes it "
            "quick; penalties.path(X) shows how many clusters there are at which penalty.",
            stacklevel=2,
        )

    # 2. Combinations

    def new_start(self, k: int, rng: np.random.RandomState) -> Division:
        """A new start: 2k small clusters, merged down to k clusters."""
        return self.around(self._merge_seeds(min(2 * k, self.n), 0.0, k, rng)[0])

    def cross(self, one: Division, other: Division, k: int) -> Division:
        """Assign the rows to the centres of both divisions, then merge down to k clusters."""
        both = self.around(np.unique(np.vstack([one.centers, other.centers]), axis=0))
        group, _ = patient(merge_below, both.centers, both.weights, 0.0, k, self.unit)
        return self.division(group[both.labels])

    def around(self, centers: np.ndarray) -> Division:
        """As `settle`, without keeping bounds: the same centres will not be used again."""
        if self.rows.plain(len(centers)):
            return self.settle(centers)
        return self.division(nearest(self.X, centers, frame=self.rows.frame))

    def lloyd_until(self, now: Division, gain: float) -> Division:
        """Lloyd's passes as long as a pass lowers the error by the share `gain`."""
        return self.division(self.rows.lloyd(now.centers, PASSES, gain, ahead=True)[0])

    # 3. Moves

    def moves(self) -> Sequence[Step]:
        return self.merge, self.follow_lloyd, self.move_rows

    def merge(self, now: Division) -> Division:
        """Make all merges that lower the objective."""
        penalty = self.price.penalty * (1 - TOL)
        cap = self.price.cap
        group, k = patient(merge_below, now.centers, now.weights, penalty, cap, self.unit)
        return self.division(group[now.labels]) if k < now.k else now

    def follow_lloyd(self, now: Division) -> Division:
        """Lloyd's passes (nearest centres, then means) until no row changes its cluster."""
        labels = self.rows.settle(now.centers, PASSES)
        return now if np.array_equal(labels, now.labels) else self.division(labels)

    def move_rows(self, now: Division) -> Division:
        """Hartigan's exact moves, tried only for rows that may gain by a move (`pruning.py`)."""
        X, w, unit = self.X, self.w, self.unit
        penalty, cap = self.price.penalty, self.price.cap
        while True:
            z, room = now.labels, min(self.n, 2 * now.k + 16) + 1
            N = np.bincount(z, minlength=room)
            rows = rows_to_watch(self, now, N)
            if not len(rows):
                return now
            z = z.copy()
            C, W, N = moves.means(X, w, z, room, unit)
            if not patient(moves.move_rows, X, w, z, rows, C, W, N, penalty, cap, unit, -np.inf):
                return now
            new = self.division(z)
            if not new.objective < now.objective:  # the gain of the moves was rounding only
                return now
            now = new

    # The penalties at which a division is best

    def stable_penalties(self, now: Division, rng: np.random.RandomState) -> tuple[float, float]:
        """The penalties between which neither a split nor a merge of `now` pays.

        The lower one is the error that the best split saves, the upper one the error that the
        cheapest merge adds.
        """
        own = ((self.X - now.centers[now.labels]) ** 2).sum(axis=1)
        W = now.weights[now.labels]
        rest = np.where(W > self.w * (1 + 1e-12), W - self.w, np.inf)
        saved = float((W * self.w / rest * own).max(initial=0.0))  # by a cluster of one row
        for rows in now.rows():
            one = DenseSpace(self.X[rows], self.w[rows], Price(0.0, 2), unit=self.unit)
            if one.n > 1:
                whole = one.division(np.zeros(one.n, np.int64)).objective
                halves = min(one.relax(one.draw(2, rng))[1] for _ in range(SPLITS))
                saved = max(saved, whole - halves)
        if now.k == 1:
            return saved, np.inf
        return saved, float(patient(ward_tree, now.centers, now.weights, self.unit)[2].min())


def draw(X: np.ndarray, w: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """`count` rows far from each other (k-means++); fewer if fewer rows are different."""
    seeds = np.empty((count, X.shape[1]))
    return seeds[: patient(draws.draw_seeds, X, w, seeds, 0, rng.random_sample(count))]


def boxes(X: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Cut the rows in two along the widest column, until no part has more than BOX rows."""
    if len(rows) <= BOX:
        yield rows
        return
    column = X[rows, np.argmax(np.ptp(X[rows], axis=0))]
    order = np.argsort(column, kind="stable")
    for half in np.array_split(rows[order], 2):
        yield from boxes(X, half)
