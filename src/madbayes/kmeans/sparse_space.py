"""CSR rows for the search (`_search/driver.py`): tables too large to be made dense, as texts are.

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights), for the cosine metric with
rows and centres of length 1 (`unit`). A cluster of weight W whose rows add up to S saves ‖S‖²/W
(2‖S‖ with `unit`) of what its rows would cost alone: sums are all that the moves need.

1. *Start.* Over-segment (k-means++ seeds, a few Lloyd passes) and merge while a merge costs less
   than λ.
2. *Combine.* All centres of two divisions, merged in the same way, and a few Lloyd passes.
3. *Moves.* Merges, Lloyd, Hartigan's exact moves of single rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._partition.lloyd import LloydRows, lloyd, nearest
from madbayes._partition.moves import TOL
from madbayes._partition.ward import merge_sums_below, ward_tree_of_sums
from madbayes._rows.threads import patient
from madbayes._search.division import Division, without_gaps
from madbayes._search.price import Price
from madbayes._search.space import Step
from madbayes.kmeans.sparse_kernels import move_csr_rows


@dataclass(frozen=True)
class SparseSpace:
    """CSR rows (of length 1 with `unit`), their positive weights, and a price."""

    X: Any
    w: np.ndarray
    price: Price
    unit: bool = False

    neighbours = 6  # a relaxation costs more here than among dense rows
    passes = 10.0
    counts = False
    redraw_any = True
    tries = 1

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def values(self) -> int:
        return int(self.X.nnz)

    @cached_property
    def norm2(self) -> np.ndarray:
        return np.asarray(self.X.astype(np.float64).power(2).sum(axis=1)).ravel()

    def division(self, labels: np.ndarray) -> Division:
        z, k = without_gaps(labels)
        sums, weights = self._sums(z, k)
        J = self._alone() - self._saved(sums, weights).sum() + self.price.penalty * k
        return Division(z, self._centers(sums, weights), weights, float(J))

    def _sums(self, z: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        members = sp.csr_array((self.w, (z, np.arange(len(z)))), shape=(k, len(z)))
        return (members @ self.X).toarray(), np.bincount(z, self.w, minlength=k)

    def _centers(self, sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if not self.unit:
            return sums / weights[:, None]
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        return sums / np.where(length > 0, length, 1.0)

    def _alone(self) -> float:
        """The squared error of rows that all have the centre 0, or, with `unit`, another one."""
        return float(2.0 * self.w.sum() if self.unit else self.w @ self.norm2)

    def _saved(self, sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
        length2 = np.einsum("ij,ij->i", sums, sums)
        return 2.0 * np.sqrt(length2) if self.unit else length2 / weights

    def settle(self, centers: np.ndarray) -> Division:
        return self.division(nearest(self.X, centers))

    def part(self, rows: np.ndarray, cap: int) -> "SparseSpace":
        price = self.price.part(min(cap, len(rows)))
        return SparseSpace(self.X[rows], self.w[rows], price, unit=self.unit)

    def sample(self, size: int, rng: np.random.RandomState) -> "SparseSpace":
        rows = np.sort(rng.permutation(self.n)[:size])
        w = self.w[rows] * (self.w.sum() / self.w[rows].sum())
        return replace(self, X=self.X[rows], w=w)

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        return self._draw_more(np.empty((0, self.X.shape[1])), count, rng)

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        k = len(centers)
        gone = rng.randint(min(most, k) + 1)
        drawn = max(gone - 1 + rng.randint(3), 1 if gone in (0, k) else 0)
        return self._draw_more(centers[np.sort(rng.permutation(k)[gone:])], drawn, rng)

    def _draw_more(self, centers: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
        """So many rows more, each drawn in proportion to its squared distance from what is there
        (k-means++); fewer where rows are equal."""
        mass = np.full(self.n, np.inf)
        if len(centers):
            product = np.asarray(self.X @ centers.T)
            length2 = np.einsum("ij,ij->i", centers, centers)
            mass = np.maximum((self.norm2[:, None] + length2 - 2.0 * product).min(axis=1), 0.0)
        seeds: list[int] = []
        floor = 1e-12 * float(self.w @ self.norm2)
        while len(seeds) < count:
            total = np.cumsum(self.w if not len(centers) and not seeds else self.w * mass)
            if total[-1] <= floor:
                break
            at = rng.random_sample() * total[-1]
            i = min(int(np.searchsorted(total, at, side="right")), self.n - 1)
            seeds.append(i)
            gap2 = self.norm2 + self.norm2[i] - 2.0 * (self.X @ self.X[[i]].T).toarray()[:, 0]
            mass = np.minimum(mass, np.maximum(gap2, 0.0))
        return np.vstack([centers, self.X[seeds].toarray()])

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        now = self.settle(centers)
        while True:
            before = now
            for step in (self.move_rows, self.merge):
                new = step(now)
                now = new if new.objective < now.objective or new.k < before.k else now
            if now.k > self.price.cap:
                continue
            if not now.objective < before.objective * (1 - TOL):
                return now.labels, now.objective, 0.0

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        return False

    # 1. Start

    def first_centers(self, rng: np.random.RandomState) -> Iterator[np.ndarray]:
        """Merges of many small clusters, until a merge costs more than the penalty."""
        m = 128
        while True:
            merged, seeds = self._merge_seeds(m, rng)
            fine = 3 * merged.k <= m or merged.k == self.price.cap or seeds < m
            if fine or m > 512:
                yield merged.centers
                return
            m *= 2

    def _merge_seeds(self, m: int, rng: np.random.RandomState) -> tuple[Division, int]:
        """m small clusters after the merges that pay; and m, less where rows are equal."""
        some = np.sort(rng.permutation(self.n)[: 4000 + 8 * m])
        seeds = self.part(some, self.n).draw(min(m, self.n), rng)
        labels = lloyd(self.X, seeds, self.w, 3, unit=self.unit)[0]
        return self.merge(self.division(labels)), len(seeds)

    # 2. Combinations

    def new_start(self, k: int, rng: np.random.RandomState) -> Division:
        """Another start: twice as many seeds, merged down to k clusters."""
        return self.division(self._at(k)._merge_seeds(2 * k, rng)[0].labels)

    def cross(self, one: Division, other: Division, k: int) -> Division:
        """The clusters around the centres of both, merged down to k."""
        both = self.settle(np.vstack([one.centers, other.centers]))
        return self.division(self._at(k).merge(both).labels)

    def _at(self, k: int) -> "SparseSpace":
        """With k clusters and no price."""
        return replace(self, price=Price(0.0, k))

    def lloyd_until(self, now: Division, gain: float) -> Division:
        """Lloyd's passes while one gains this share of the error."""
        return self._lloyd(now, gain)

    # 3. Moves

    def moves(self) -> Sequence[Step]:
        return self.merge, self.follow_lloyd, self.move_rows

    def merge(self, now: Division) -> Division:
        """The cheapest merge first, while it costs less than λ: from the products of the sums."""
        sums, W = self._sums(now.labels, now.k)
        penalty = self.price.penalty * (1 - TOL)
        links, cap = sums @ sums.T, self.price.cap
        group, k = patient(merge_sums_below, links, W, penalty, cap, self.unit)
        return self.division(group[now.labels]) if k < now.k else now

    def follow_lloyd(self, now: Division) -> Division:
        """Nearest centres and means, until nothing moves."""
        return self._lloyd(now, 0.0)

    def _lloyd(self, now: Division, gain: float) -> Division:
        rows = LloydRows(self.X, self.w, self.unit)
        found = rows.lloyd(now.centers, 300, gain, ahead=True)
        return self.division(found[0])

    def move_rows(self, now: Division) -> Division:
        """Hartigan's moves of single rows."""
        X, k = self.X, now.k
        sums, weights = self._sums(now.labels, k)
        slots = min(self.n, k + 16)
        z = now.labels.copy()
        S = np.zeros((X.shape[1], slots))
        S[:, :k] = sums.T
        W = np.pad(weights, (0, slots - k))
        length2 = np.pad(np.einsum("ij,ij->i", sums, sums), (0, slots - k))
        N = np.bincount(z, minlength=slots)
        rule = self.price.penalty, self.price.cap, self.unit
        csr = X.data, X.indices, X.indptr
        patient(move_csr_rows, *csr, self.norm2, self.w, z, S, W, length2, N, *rule)
        return self.division(z)

    def stable_penalties(self, now: Division, rng: np.random.RandomState) -> tuple[float, float]:
        """As `DenseSpace.stable_penalties`."""
        saved = 0.0
        for rows in now.rows():
            one = replace(self, X=self.X[rows], w=self.w[rows], price=Price(0.0, 2))
            if one.n > 1:
                whole = one.division(np.zeros(one.n, np.int64)).objective
                saved = max(saved, whole - one.relax(one.draw(2, rng))[1])
        sums, W = self._sums(now.labels, now.k)
        if now.k == 1:
            return saved, np.inf
        return saved, float(patient(ward_tree_of_sums, sums @ sums.T, W, self.unit)[2].min())
