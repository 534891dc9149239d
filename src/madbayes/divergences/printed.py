"""The printed algorithms with a divergence, step for step.

DP-means (Jiang, Kulis & Jordan 2012, the small-variance limit of a Dirichlet process mixture of an
exponential family): as KJ Algorithm 1, with D_φ in the place of the squared distance.

1. One cluster, its centre the mean of all rows.
2. Row by row: if w·D to the nearest centre exceeds λ, the row opens a cluster at its own place,
   which the rows after it see; otherwise it goes to the nearest centre.
3. Each centre becomes the mean of its rows; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

Hard HDP (the same paper): KJ Algorithm 2 (`groups/algorithm2.py` has its steps) with D_φ. Step 5,
in which local clusters go to the nearest centre or open a cluster, is a pass of step 2 over local
clusters: a local cluster is a row with the sums and counts of its rows.

K-means (Banerjee et al. 2005, Algorithm 1): nearest centres and means until no row moves.

Departs from the papers: a cell that is missing costs nothing. A centre at one row has shares of 0;
a row that has such a value is infinitely far from it. In k-means the first centres lie half-way
between rows and the mean of all rows, because of the same zeros, and a cluster that loses all its
rows takes over the row that is farthest from its centre.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import patient
from madbayes._search.division import without_gaps
from madbayes._search.driver import never_rising
from madbayes.divergences import kernels
from madbayes.divergences.families import Centers, EncodedRows, centers_of

# Labels, history, passes, converged
Printed = tuple[np.ndarray, list[float], int, bool]


def row_centers(rows: EncodedRows, overall: np.ndarray) -> Centers:
    """A centre at each row; the mean of all rows where a cell is missing."""
    P = rows.P[:, rows.layout.block]
    own = np.where(P > 0, rows.T / np.where(P > 0, P, 1.0), overall)
    return centers_of(own, rows.layout)


@dataclass(frozen=True)
class OpeningRows:
    """Rows that may open clusters, in their order, and the group of each."""

    rows: EncodedRows
    own: Centers
    group: np.ndarray

    @cached_property
    def phi(self) -> np.ndarray:
        return self.rows.phi

    def open(
        self, centers: Centers, z: np.ndarray, penalty: float, local: float, cap: int
    ) -> tuple[np.ndarray, Centers]:
        """2. Labels and all centres; groups use the clusters of their labels `z`."""
        rows, k = self.rows, len(centers.theta)
        room = max(cap, k)
        theta, psi = np.zeros((room, rows.T.shape[1])), np.zeros((room, rows.P.shape[1]))
        theta[:k], psi[:k] = centers.theta, centers.psi
        use = np.zeros((int(self.group.max()) + 1, room), np.bool_)
        use[self.group, z] = True
        new = np.empty(rows.n, np.int64)
        args = rows.T, rows.P, rows.w, self.phi, new, self.group, use, theta, psi, k
        price = float(penalty), float(local), cap
        k = patient(kernels.opening_pass, *args, price, self.own.theta, self.own.psi)
        return new, Centers(theta[:k], psi[:k])


def error(rows: EncodedRows, phi: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Σ w D of the rows to the means of their clusters, by sums and counts."""
    found = rows.add_up(labels, k)
    F = np.empty(k)
    kernels.cluster_terms(found.S, found.N, *rows.layout.rule, F)
    return max(float(rows.w @ phi - F.sum()), 0.0)


def update_means(rows: EncodedRows, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """3. Labels without gaps, and means."""
    z, k = without_gaps(labels)
    return z, rows.add_up(z, k).means(rows.layout, rows.overall)


def dp_means(
    rows: EncodedRows, penalty: float, *, max_clusters: int | None, max_iter: int
) -> Printed:
    """Jiang, Kulis & Jordan's algorithm on the rows, in their order."""
    layout, z = rows.layout, np.zeros(rows.n, np.int64)
    cap = min(rows.n + 1, max_clusters or rows.n + 1)
    opening = OpeningRows(rows, row_centers(rows, rows.overall), z)
    phi = opening.phi
    means = rows.overall[None, :]  # 1.
    history: list[float] = []
    converged, n_iter = False, 0
    stage = Stage("passes of Algorithm 1")
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        new, found = opening.open(centers_of(means, layout), z, penalty, 0.0, cap)  # 2.
        opened, k = len(found.theta), len(means)
        converged = bool(opened == k and np.array_equal(new, z))
        if not converged:
            z, means = update_means(rows, new)  # 3.
            cost = error(rows, phi, z, len(means))
            history.append(cost + penalty * len(means))
    if not converged:  # the labels belong to the means
        z, means = update_means(rows, rows.nearest(centers_of(means, layout))[0])
    cost = error(rows, phi, z, len(means))
    return z, never_rising([*history, cost + penalty * len(means)], passes=True), n_iter, converged


def hard_hdp(
    rows: EncodedRows, group: np.ndarray, local: float, glob: float, *, max_iter: int
) -> Printed:
    """KJ Algorithm 2 with a divergence; the rows of a group lie together."""
    layout, overall = rows.layout, rows.overall
    opening = OpeningRows(rows, row_centers(rows, overall), group)
    phi = opening.phi
    z, means = np.zeros(rows.n, np.int64), overall[None, :]  # 1., 2.
    history: list[float] = []
    converged = False
    stage = Stage("passes of Algorithm 2")
    while len(history) < max_iter and not converged:  # 3.
        stage.at(len(history) + 1)
        new, centers = opening.open(centers_of(means, layout), z, glob, local, rows.n + 1)  # 4.
        key, share = np.unique(group * len(centers.theta) + new, return_inverse=True)
        sums = rows.add_up(share, len(key))
        small = EncodedRows(sums.S, sums.N, np.ones(len(key)), layout)
        at = key % len(centers.theta)
        own = OpeningRows(small, row_centers(small, overall), np.zeros(len(key), np.int64))
        new = own.open(centers, at, glob, 0.0, len(centers.theta) + len(key))[0][share]  # 5.
        new, means = update_means(rows, new)  # 6.
        uses = len(np.unique(group * len(means) + new))
        cost = error(rows, phi, new, len(means)) + local * uses + glob * len(means)
        history.append(cost)
        converged, z = np.array_equal(new, z), new
    return z, never_rising(history, passes=True), len(history), converged


def lloyd(rows: EncodedRows, means: np.ndarray, *, max_iter: int) -> Printed:
    """Banerjee et al.'s Algorithm 1 from the given centres."""
    phi, layout, k = rows.phi, rows.layout, len(means)
    z = np.full(rows.n, -1, np.int64)
    history: list[float] = []
    converged, n_iter = False, 0
    stage = Stage("k-means", max_iter)
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        new, least = rows.nearest(centers_of(means, layout))
        new = fill_empty(new, least + phi, k)
        converged = np.array_equal(new, z)
        if not converged:
            z = new
            means = rows.add_up(z, k).means(layout, rows.overall)
            history.append(error(rows, phi, z, len(means)))
    return z, never_rising(history, passes=True), n_iter, converged


def fill_empty(z: np.ndarray, cost: np.ndarray, k: int) -> np.ndarray:
    """Each cluster without rows takes over the row that is farthest from its own centre."""
    count = np.bincount(z, minlength=k)
    empty = np.flatnonzero(count == 0)
    for c, i in zip(empty, np.argsort(-cost, kind="stable"), strict=False):
        if cost[i] > 1e-12 and count[z[i]] > 1:
            count[z[i]] -= 1
            z[i] = c
    return z


def farthest_divergence(rows: EncodedRows) -> float:
    """From the mean of all rows."""
    near = centers_of(rows.overall[None, :], rows.layout)
    return float((rows.nearest(near)[1] + rows.phi).max()) or 1.0
