"""Hard HDP: clusters shared by many data sets (KJ section 4, Algorithm 2, Eq. 2).

This file is the printed algorithm; `hard_hdp.py` has the estimator. The default algorithm is the
search (`_search/driver.py`) over `grouped_space`.

Objective: F = Σ_n w_n ‖x_n - μ_{z_n}‖² + λ_l Σ_j k_j + λ_g g (KJ Eq. 2, with weights), with z_n the
global cluster of row n, k_j the number of clusters that group j uses, g the number in all.

1., 2. One global cluster, its centre the mean of all rows; each group has one local cluster in it.
3. Repeat 4 to 6 until nothing changes.
4. Group by group, row by row: w·d² to each centre, λ_l more for a cluster that the group does not
   use. The cheapest one takes the row (and the group uses it from then on), unless it costs more
   than λ_l + λ_g: then the row opens a global cluster at its own place.
5. Each local cluster as a whole goes to the nearest centre, or opens a global cluster at its own
   mean when its rows together save more than λ_g.
6. Each centre becomes the mean of its rows.

Step 5 without what it can never change (the scatter of a local cluster about its own mean) compares
n_jc‖μ̄_jc - μ_p‖², so it is a pass of DP-means over the local means, their weights and λ_g.

Departs from the paper: after each pass, clusters without rows are dropped and local clusters of a
group that point to the same global one become one. Read literally they are kept and charged for,
and F can rise. The order of step 5, which is not printed, is by group and then by global cluster.
"""

from dataclasses import dataclass

import numpy as np

from madbayes._partition.moves import means
from madbayes._partition.nearest_plain import close_gaps
from madbayes.groups import hdp_kernels as hdp
from madbayes.groups.grouped_rows import Grouped


@dataclass(frozen=True)
class Sharing:
    """Global labels of the grouped rows, and how they were found."""

    labels: np.ndarray
    history: list[float]
    n_iter: int
    converged: bool

    @property
    def k(self) -> int:
        return int(self.labels.max()) + 1


def objective(
    X: np.ndarray, groups: np.ndarray, labels: np.ndarray, local: float, glob: float
) -> float:
    """KJ Eq. 2 of a partition."""
    clusters = np.unique(labels)
    error = sum(
        float(((X[labels == p] - X[labels == p].mean(axis=0)) ** 2).sum()) for p in clusters
    )
    n_local = sum(len(np.unique(labels[groups == j])) for j in np.unique(groups))
    return error + local * n_local + glob * len(clusters)


class Allotment:
    """The grouped rows and their labels, under way: steps 4 to 6."""

    def __init__(self, rows: Grouped) -> None:
        self.rows = rows
        self.z = np.zeros(len(rows.X), np.int64)
        self._before = self.z

    def remember(self) -> None:
        self._before = self.z.copy()

    def unchanged(self) -> bool:
        """Whether all labels are those that were remembered."""
        return np.array_equal(self.z, self._before)

    def assign_rows(self, centers: np.ndarray, local: float, glob: float) -> np.ndarray:
        """4. Returns all centres."""
        rows, k = self.rows, len(centers)
        return hdp.assign_or_open(rows.X, rows.w, rows.start, self.z, centers, k, local, glob)[0]

    def assign_local_clusters(self, centers: np.ndarray, glob: float) -> None:
        """5. DP-means over the local means."""
        M, A, label = self.local_clusters(len(centers))
        each = np.arange(len(M) + 1)
        hdp.assign_or_open(M, A, each, label, centers, len(centers), 0.0, glob)
        self.follow(label)

    def local_clusters(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, weights and labels of the local clusters."""
        rows = self.rows
        M, A, label, self._member = hdp.local_clusters(rows.X, rows.w, rows.start, self.z, k)
        return M, A, label

    def follow(self, label: np.ndarray) -> None:
        """Rows go where their local cluster goes."""
        self.z = label[self._member]

    def update_means(self) -> np.ndarray:
        """6. Means of what is left; clusters without rows are dropped, labels move up."""
        k = close_gaps(self.z, np.bincount(self.z))
        return means(self.rows.X, self.rows.w, self.z, k, False)[0]

    def objective(self, centers: np.ndarray, local: float, glob: float) -> float:
        """KJ Eq. 2; `centers` are the means."""
        rows, k = self.rows, len(centers)
        return hdp.objective(rows.X, rows.w, rows.start, self.z, k, local, glob)


def hard_hdp(rows: Grouped, local: float, glob: float, max_iter: int) -> Sharing:
    """KJ Algorithm 2."""
    return algorithm2(Allotment(rows), local, glob, max_iter)


def algorithm2(state: Allotment, local: float, glob: float, max_iter: int) -> Sharing:
    """The same for rows that may be elsewhere."""
    centers = state.update_means()  # 1., 2.
    history: list[float] = []
    converged = False
    while len(history) < max_iter and not converged:  # 3.
        state.remember()
        centers = state.assign_rows(centers, local, glob)  # 4.
        state.assign_local_clusters(centers, glob)  # 5.
        centers = state.update_means()  # 6.
        F = state.objective(centers, local, glob)
        history.append(min(F, history[-1]) if history else F)  # not even by rounding
        converged = state.unchanged()
    return Sharing(state.z, history, len(history), converged)
