"""The printed algorithms with a divergence, step for step.

DP-means (Jiang, Kulis & Jordan 2012, the small-variance limit of a Dirichlet process mixture of an
exponential family): as KJ Algorithm 1, with D_φ in the place of the squared distance.

1. One cluster, its centre the mean of all rows.
2. Row by row: if w·D to the nearest centre exceeds λ, the row opens a cluster at its own place,
   which the rows after it see; otherwise it goes to the nearest centre.
3. Each centre becomes the mean of its rows; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

K-means (Banerjee et al. 2005, Algorithm 1): nearest centres and means until no row moves.

Departs from the papers: a cell that is missing costs nothing. A centre at one row has shares of 0;
a row that has such a value is infinitely far from it. In k-means the first centres lie half-way
between rows and the mean of all rows, because of the same zeros, and a cluster that loses all its
rows takes over the row that is farthest from its centre.
"""

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import Run, patient
from madbayes._search.division import without_gaps
from madbayes._search.driver import never_rising
from madbayes.divergences import kernels
from madbayes.divergences.families import Centers, EncodedRows, centers_of

# Labels, history, passes, converged
Printed = tuple[np.ndarray, list[float], int, bool]


def row_centers(rows: EncodedRows) -> Centers:
    """A centre at each row; the mean of all rows where a cell is missing."""
    P = rows.P[:, rows.layout.block]
    own = np.where(P > 0, rows.T / np.where(P > 0, P, 1.0), rows.overall())
    return centers_of(own, rows.layout)


def error(rows: EncodedRows, phi: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Σ w D of the rows to the means of their clusters, by sums and counts."""
    found = rows.add_up(labels, k)
    F = np.empty(k)
    kernels.cluster_terms(found.S, found.N, *rows.layout.rule, F)
    return max(float(rows.w @ phi - F.sum()), 0.0)


def update_means(rows: EncodedRows, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """3. Labels without gaps, and means."""
    z, k = without_gaps(labels)
    return z, rows.add_up(z, k).means(rows.layout, rows.overall())


def dp_means(
    rows: EncodedRows, penalty: float, *, max_clusters: int | None, max_iter: int
) -> Printed:
    """Jiang, Kulis & Jordan's algorithm on the rows, in their order."""
    phi, layout = rows.phi(), rows.layout
    cap = min(rows.n + 1, max_clusters or rows.n + 1)
    own = row_centers(rows)
    z = np.zeros(rows.n, np.int64)
    means = rows.overall()[None, :]  # 1.
    history: list[float] = []
    converged, n_iter = False, 0
    stage = Stage("passes of Algorithm 1")
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        k = len(means)
        room = max(cap, k)
        theta, psi = np.zeros((room, means.shape[1])), np.zeros((room, rows.P.shape[1]))
        now = centers_of(means, layout)
        theta[:k], psi[:k] = now.theta, now.psi
        new = np.empty(rows.n, np.int64)
        args = rows.T, rows.P, rows.w, phi, new, theta, psi, k, penalty, cap
        opened = patient(kernels.opening_pass, *args, own.theta, own.psi)  # 2.
        converged = bool(opened == k and np.array_equal(new, z))
        if not converged:
            z, means = update_means(rows, new)  # 3.
            cost = error(rows, phi, z, len(means))
            history.append(cost + penalty * len(means))
    if not converged:  # the labels belong to the means
        z, means = update_means(rows, rows.nearest(centers_of(means, layout))[0])
    cost = error(rows, phi, z, len(means))
    return z, never_rising([*history, cost + penalty * len(means)], passes=True), n_iter, converged


def lloyd(rows: EncodedRows, means: np.ndarray, *, max_iter: int, run: Run) -> Printed:
    """Banerjee et al.'s Algorithm 1 from the given centres."""
    phi, layout, k = rows.phi(), rows.layout, len(means)
    z = np.full(rows.n, -1, np.int64)
    history: list[float] = []
    converged, n_iter = False, 0
    stage = Stage("k-means", max_iter)
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        new, least = rows.nearest(centers_of(means, layout), run)
        new = fill_empty(new, least + phi, k)
        converged = np.array_equal(new, z)
        if not converged:
            z = new
            means = rows.add_up(z, k).means(layout, rows.overall())
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
