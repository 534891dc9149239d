"""Hard HDP: clusters shared by many data sets (KJ section 4, Algorithm 2, Eq. 2).

This file is the printed algorithm; `hard_hdp.py` has the estimator. The default algorithm is the
search (`_search/driver.py`) over `space.GroupedSpace`.

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
from typing import Any

import numpy as np

from madbayes._partition.moves import add_rows
from madbayes._rows.executor import Executor
from madbayes._rows.row_kernels import read_only
from madbayes._rows.speculation import in_turn
from madbayes._search.division import without_gaps
from madbayes.groups.grouped_rows import Grouped, local_clusters, starts
from madbayes.groups.hdp_kernels import add_errors, assign_rows

ROOM = 64  # centres that can be opened before their array grows, beside as many as there are


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


@dataclass(frozen=True)
class SharedClustering:
    """Global labels of the grouped rows, and how they were found."""

    labels: Any  # in the order of the groups; one item for each share
    history: list[float]
    n_iter: int
    converged: bool


class GroupedLabels:
    """The labels of grouped rows, and steps 4 to 6 that change them.

    The groups lie in shares, and an executor maps functions over the shares. In this process all
    groups are one share. On Dask workers step 4, which is serial, is tried on several shares at a
    time (`_rows.speculation`), and the sums of step 6 pass from share to share in the order of the
    rows. So the result has the same bits everywhere.
    """

    def __init__(self, shares: list[Any], sizes: list[int], d: int, executor: Executor) -> None:
        self.shares, self.d, self.executor = shares, d, executor
        self.z: list[Any] = [np.zeros(size, np.int64) for size in sizes]
        self._k, self._opened = 1, True  # the number of clusters; whether step 4 opened some

    def assign_rows(self, centers: np.ndarray, local: float, glob: float) -> np.ndarray:
        """4. Returns all centres, the new ones last."""
        args = self.shares, self.z, centers, (local, glob), self._opened
        self.z, found, _ = in_turn(self.executor, assign_share, *args)
        self._k, self._opened = len(found), len(found) > len(centers)
        return found

    def assign_local_clusters(self, centers: np.ndarray, glob: float) -> None:
        """5. A pass of DP-means over the local means; rows follow their local cluster."""
        found = self.executor.map(local_of_share, self.shares, self.z, args=(self._k,))
        parts = self.executor.ask(without_members, found)
        M, weights, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
        assign_or_open(M, weights, np.arange(len(M)), labels, centers, 0.0, glob)
        ends = np.cumsum([len(part[0]) for part in parts])[:-1]
        self.z = self.executor.map(follow, found, np.split(labels, ends))
        self._k = int(labels.max()) + 1

    def update_means(self) -> np.ndarray:
        """6. The means; clusters without rows are dropped, and labels close the gaps."""
        k = self._k
        sums = np.zeros((k, self.d)), np.zeros(k), np.zeros(k, np.int64)
        C, W, N = self.executor.fold(add_share, sums, self.shares, self.z)[0]
        used = N > 0
        if not used.all():
            self.z = self.executor.map(renumber, self.z, args=(np.cumsum(used) - 1,))
            self._k = int(used.sum())
        return C[used] / W[used, None]

    def error(self, centers: np.ndarray) -> float:
        """Σ w d²."""
        each = [self.executor.once(np.array, centers)] * len(self.shares)
        return float(self.executor.fold(add_error, 0.0, self.shares, self.z, each)[0])

    def objective(self, centers: np.ndarray, local: float, glob: float) -> float:
        """KJ Eq. 2; `centers` are the means."""
        n_local = sum(self.executor.ask(count_local, self.shares, self.z, args=(len(centers),)))
        return self.error(centers) + local * n_local + glob * len(centers)


def hard_hdp(state: GroupedLabels, local: float, glob: float, max_iter: int) -> SharedClustering:
    """KJ Algorithm 2."""
    centers = state.update_means()  # 1., 2.
    history: list[float] = []
    converged = False
    while len(history) < max_iter and not converged:  # 3.
        before = list(state.z)
        centers = state.assign_rows(centers, local, glob)  # 4.
        state.assign_local_clusters(centers, glob)  # 5.
        centers = state.update_means()  # 6.
        F = state.objective(centers, local, glob)
        history.append(min(F, history[-1]) if history else F)  # does not rise by rounding
        converged = all(state.executor.ask(np.array_equal, state.z, before))
    return SharedClustering(state.z, history, len(history), converged)


def assign_or_open(
    X: np.ndarray,
    w: np.ndarray,
    group: np.ndarray,
    z: np.ndarray,
    centers: np.ndarray,
    local: float,
    glob: float,
) -> np.ndarray:
    """4. Each row goes to its cheapest cluster, or opens one; z is updated, the centres returned.

    With λ_l = 0 and one row to a group it is a pass of DP-means (KJ Algorithm 1).
    """
    k, C, user = len(centers), centers, np.zeros(len(centers), np.int64)
    done, start = np.zeros(1, np.int64), starts(group)
    while done[0] < len(X):
        more = min(k + ROOM, len(X) - int(done[0]))  # at most one for each row that is left
        C = np.concatenate([C, np.empty((more, C.shape[1]))])
        user = np.concatenate([user, np.zeros(more, np.int64)])
        k = assign_rows(read_only(X), w, start, z, C, k, local, glob, user, done)
    return C[:k]


# Functions of one share


def assign_share(
    share: Grouped, z: np.ndarray, centers: np.ndarray, local: float, glob: float
) -> tuple[np.ndarray, np.ndarray, None]:
    """4. Labels, and the centres that rows of the share opened."""
    z = z.copy()
    found = assign_or_open(share.X, share.w, share.group, z, centers, local, glob)
    return z, found[len(centers) :], None


def local_of_share(share: Grouped, z: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """Means, weights and labels of the local clusters, and the local cluster of each row."""
    M, weights, _, labels, member = local_clusters(share.X, share.w, share.group, z, k)
    return M, weights, labels, member


def without_members(found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return found[:3]


def follow(found: tuple[np.ndarray, ...], labels: np.ndarray) -> np.ndarray:
    """The labels of rows whose local clusters have these."""
    return labels[found[3]]


def renumber(z: np.ndarray, new: np.ndarray) -> np.ndarray:
    return new[z]


def add_share(sums: tuple[np.ndarray, ...], share: Grouped, z: np.ndarray) -> tuple:
    """6. Sums, weights and numbers of rows of each cluster."""
    C, W, N = (part.copy() for part in sums)
    add_rows(share.X, share.w, z, C, W, N, False)
    return C, W, N


def add_error(total: float, share: Grouped, z: np.ndarray, centers: np.ndarray) -> float:
    return add_errors(total, share.X, share.w, z, centers)


def count_local(share: Grouped, z: np.ndarray, k: int) -> int:
    return without_gaps(share.group * k + z)[1]
