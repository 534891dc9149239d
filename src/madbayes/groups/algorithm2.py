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

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from madbayes._partition.moves import add_rows
from madbayes._rows.executor import HERE, Executor
from madbayes._rows.speculation import in_turn
from madbayes.groups import hdp_kernels as hdp
from madbayes.groups.grouped_rows import Grouped


@dataclass(frozen=True)
class SharedClustering:
    """Global labels of the grouped rows, and how they were found."""

    labels: Any  # for each share, where there are several
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


class GroupShare(NamedTuple):
    """The rows of some whole groups, shifted to the mean of all rows."""

    X: np.ndarray
    w: np.ndarray
    start: np.ndarray  # group j of the share is rows start[j] to start[j + 1]
    first: int  # the number of its first group


class GroupedLabels:
    """The grouped rows and their labels, under way: steps 4 to 6.

    Groups lie in shares, and the executor of the shares maps functions over them. In this process
    all groups are one share; on Dask workers step 4, which is serial, is tried on several shares at
    a time (`_rows.speculation`), and sums of step 6 pass from share to share in the order of the
    rows.
    """

    def __init__(self, shares: list[Any], labels: list[Any], d: int, executor: Executor) -> None:
        self.shares, self.z, self.d, self.executor = shares, labels, d, executor
        self._before = labels
        self._k, self._opens = 1, True  # step 4 opened clusters when it ran last

    def remember(self) -> None:
        self._before = list(self.z)

    def unchanged(self) -> bool:
        """Whether all labels are those that were remembered."""
        return all(self.executor.ask(np.array_equal, self.z, self._before))

    def assign_rows(self, centers: np.ndarray, local: float, glob: float) -> np.ndarray:
        """4. Returns all centres."""
        args = self.shares, self.z, centers, (local, glob), self._opens
        self.z, found, _ = in_turn(self.executor, assign_or_open, *args)
        self._k, self._opens = len(found), len(found) > len(centers)
        return found

    def assign_local_clusters(self, centers: np.ndarray, glob: float) -> None:
        """5. DP-means over the local means; rows go where their local cluster goes."""
        args = (self._k,)
        found = self.executor.map(local_clusters, self.shares, self.z, args=args)
        parts = self.executor.ask(without_rows, found)
        M, A, label = (np.concatenate(column) for column in zip(*parts, strict=True))
        each = np.arange(len(M) + 1)
        hdp.assign_or_open(M, A, each, label, centers, len(centers), 0.0, glob)
        labels = np.split(label, np.cumsum([len(part[0]) for part in parts])[:-1])
        self.z = self.executor.map(follow, found, labels)
        self._k = int(label.max()) + 1

    def update_means(self) -> np.ndarray:
        """6. Means of what is left; clusters without rows are dropped, labels move up."""
        k, each = self._k, (self.shares, self.z)
        sums = np.zeros((k, self.d)), np.zeros(k), np.zeros(k, np.int64)
        C, W, N = self.executor.fold(add_share, sums, *each)[0]
        used = N > 0
        if not used.all():
            new = np.cumsum(used) - 1
            self.z = self.executor.map(renumber, self.z, args=(new,))
            self._k = int(used.sum())
        return C[used] / W[used, None]

    def error(self, centers: np.ndarray) -> float:
        """Σ w d²."""
        each = [self.executor.once(np.array, centers)] * len(self.shares)
        return float(self.executor.fold(add_error, 0.0, self.shares, self.z, each)[0])

    def objective(self, centers: np.ndarray, local: float, glob: float) -> float:
        """KJ Eq. 2; `centers` are the means."""
        args = (len(centers),)
        n_local = sum(self.executor.ask(count_local, self.shares, self.z, args=args))
        return self.error(centers) + local * n_local + glob * len(centers)


def algorithm2(state: GroupedLabels, local: float, glob: float, max_iter: int) -> SharedClustering:
    """KJ Algorithm 2."""
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
    return SharedClustering(state.z, history, len(history), converged)


def hard_hdp(rows: Grouped, local: float, glob: float, max_iter: int) -> SharedClustering:
    """The same for rows in this process."""
    one = GroupShare(rows.X, rows.w, rows.start, 0)
    state = GroupedLabels([one], [np.zeros(len(rows.X), np.int64)], rows.X.shape[1], HERE)
    found = algorithm2(state, local, glob, max_iter)
    return replace(found, labels=found.labels[0])


# What happens to a share


def assign_or_open(
    share: GroupShare, z: np.ndarray, centers: np.ndarray, local: float, glob: float
) -> tuple[np.ndarray, np.ndarray, None]:
    """4. Labels, and the clusters that rows of the share opened."""
    z, k = z.copy(), len(centers)
    C = hdp.assign_or_open(share.X, share.w, share.start, z, centers, k, local, glob)[0]
    return z, C[k:], None


def local_clusters(share: GroupShare, z: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """Means, weights and labels of the local clusters, and the local cluster of each row."""
    return hdp.local_clusters(share.X, share.w, share.start, z, k)


def without_rows(found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return found[:3]


def follow(found: tuple[np.ndarray, ...], label: np.ndarray) -> np.ndarray:
    """The labels of rows whose local clusters have these."""
    return label[found[3]]


def renumber(z: np.ndarray, new: np.ndarray) -> np.ndarray:
    return new[z]


def add_share(sums: tuple[np.ndarray, ...], share: GroupShare, z: np.ndarray) -> tuple:
    """6. Sums, weights and numbers of rows of each cluster."""
    C, W, N = (part.copy() for part in sums)
    add_rows(share.X, share.w, z, C, W, N, False)
    return C, W, N


def add_error(total: float, share: GroupShare, z: np.ndarray, centers: np.ndarray) -> float:
    return hdp.add_errors(total, share.X, share.w, z, centers)


def count_local(share: GroupShare, z: np.ndarray, k: int) -> int:
    return int(hdp.count_local(share.start, z, k).sum())
