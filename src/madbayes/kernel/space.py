"""Rows known only through a kernel, for the search (`_search/driver.py`).

Objective: J = Σ_n w_n ‖φ(x_n) - μ_{z_n}‖² + λk = Σ_n w_n K_nn - Σ_c S_c/W_c + λk,
where S_c = Σ_{i,j in c} w_i w_j K_ij and W_c = Σ_{i in c} w_i.

1. *Features.* Rows of an incomplete Cholesky factor of the kernel matrix: distances between them
   are those of kernel space, exactly up to 1024 rows, nearly above (at most RANK columns).
2. *Search* on the features, as dense rows.
3. *Descend* with the kernel itself: merges, exact moves of single rows (openings and closings
   included), and splits on the features, merged again where the kernel says that they do not pay.

Guaranteed at the end, up to rounding, for any symmetric kernel: no move of one row, no row opened
as a cluster of its own and no merge of two clusters lowers J (at `max_clusters`: no move, no
merge).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from madbayes._partition.moves import SWEEPS, TOL
from madbayes._partition.ward import merge_sums_below, ward_tree_of_sums
from madbayes._rows.threads import patient
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import descend, never_rising, search
from madbayes._search.price import Price, fixed
from madbayes.kernel.gram import Gram, embed, sums_of
from madbayes.kernel.move_kernels import move_block, sum_links
from madbayes.kmeans.dense_space import DenseSpace

FULL_RANK = 1024  # rows up to which the features are exact
RANK = 256


@dataclass(frozen=True)
class KernelDivision(Division):
    """Rows divided into k clusters; without centres, but with the sums `links` between them."""

    links: np.ndarray
    inertia: float


@dataclass(frozen=True)
class KernelSpace:
    """Kernel values, positive weights, a price, and features for splits."""

    gram: Gram
    w: np.ndarray
    price: Price
    features: np.ndarray

    @property
    def n(self) -> int:
        return self.gram.n

    def division(self, labels: np.ndarray) -> KernelDivision:
        z, k = without_gaps(labels)
        L = np.zeros((k, k))
        for first, _, M in self.gram.sums(self.w, z, k):
            sum_links(M, self.w, z, first, L)
        L = (L + L.T) / 2
        W = np.bincount(z, self.w)
        inertia = float(self.w @ self.gram.diagonal) - float((np.diagonal(L) / W).sum())
        if abs(inertia) < 1e-13 * float(self.w @ np.abs(self.gram.diagonal)):
            inertia = 0.0  # rounding
        J = inertia + self.price.penalty * k
        return KernelDivision(z, np.empty((k, 0)), W, J, L, inertia)

    def part(self, rows: np.ndarray, cap: int) -> DenseSpace:
        """For halves: features may miss a part of the distances, so no penalty is asked here."""
        return DenseSpace(self.features[rows], self.w[rows], fixed(2, len(rows)))

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        """Features may miss a part of the distances, so nothing is certain."""
        return False

    def merge_halves(self, now: KernelDivision) -> KernelDivision:
        return self.merge(now)

    def moves(self) -> Sequence[Callable[[KernelDivision], KernelDivision]]:
        return self.merge, self.move_rows

    def merge(self, now: KernelDivision) -> KernelDivision:
        """Merges that save more than they cost."""
        penalty = self.price.penalty * (1 - TOL)
        cap = self.price.cap
        group, k = patient(merge_sums_below, now.links, now.weights, penalty, cap, False)
        return self.division(group[now.labels]) if k < now.k else now

    def move_rows(self, now: KernelDivision) -> KernelDivision:
        """Hartigan's moves, block after block, until a sweep over all rows finds none."""
        gram, w, penalty = self.gram, self.w, self.price.penalty
        for _ in range(SWEEPS):
            slots = min(gram.n, 2 * now.k + 16)
            z, W, S = now.labels.copy(), np.zeros(slots), np.zeros(slots)
            W[: now.k], S[: now.k] = now.weights, np.diagonal(now.links)
            N = np.bincount(z, minlength=slots)
            moved = 0
            for a, b, block in gram.blocks():
                M = sums_of(block, w, z, slots)
                inside = block[:, a:b]
                inside = inside.toarray() if sp.issparse(inside) else np.ascontiguousarray(inside)
                moved += move_block(
                    inside, a, gram.diagonal, w, z, M, W, S, N, penalty, self.price.cap
                )
            new = self.division(z) if moved else now
            if not new.objective < now.objective:  # at rest, or only rounding is left
                return now
            now = new
        return now

    def stable_penalties(
        self, now: KernelDivision, rng: np.random.RandomState
    ) -> tuple[float, float]:
        """As `DenseSpace.stable_penalties`; splits by the features."""
        dense = DenseSpace(self.features, self.w, self.price)
        saved = dense.stable_penalties(dense.division(now.labels), rng)[0]
        if now.k == 1:
            return saved, np.inf
        return saved, float(patient(ward_tree_of_sums, now.links, now.weights, False)[2].min())


def descend_kernel(
    space: KernelSpace, labels: np.ndarray, rng: np.random.RandomState
) -> tuple[KernelDivision, list[float]]:
    """3. Clusters from the heaviest to the lightest, and the objective on the way."""
    now = space.division(labels)
    if now.k > space.price.cap:
        now = space.merge(now)
    history = [now.objective]
    found = descend(space, now, rng, history)
    return by_size(found), never_rising([*history, found.objective])


def features_of(gram: Gram, w: np.ndarray) -> np.ndarray:
    """1. Rows whose distances are those of kernel space."""
    return embed(gram, w, FULL_RANK if gram.n <= FULL_RANK else RANK)[0]


def kernel_search(
    space: KernelSpace,
    *,
    effort: float,
    n_init: int,
    random_state: np.random.RandomState,
    centers: Sequence[np.ndarray] = (),
) -> tuple[KernelDivision, list[float]]:
    """Minimise J; `centers`: where else to start from, among the features."""
    dense = DenseSpace(space.features, space.w, space.price)
    found, _ = search(  # 2.
        dense, random_state=random_state, effort=effort, n_init=n_init, centers=centers
    )
    return descend_kernel(space, found.labels, random_state)  # 3.


def by_size(now: KernelDivision) -> KernelDivision:
    """Clusters from the heaviest to the lightest; among equals those near the mean of all first."""
    W = now.weights
    d2 = np.diagonal(now.links) / W**2 - 2 * now.links.sum(axis=1) / (W * W.sum())
    rank = np.lexsort((d2, -W))
    links = now.links[np.ix_(rank, rank)]
    labels = np.argsort(rank)[now.labels]
    return KernelDivision(labels, now.centers, W[rank], now.objective, links, now.inertia)
