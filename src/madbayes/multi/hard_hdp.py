"""Hard HDP: clusters shared by many data sets (KJ section 4, Algorithm 2, Eq. 2).

This file is the printed algorithm and the estimator; `hard_hdp_search` holds the default algorithm.

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

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from madbayes._engine.checks import check_choice, check_count, check_rows, check_weight
from madbayes._engine.groups import Grouped, Groups, check_groups, gather, put_together
from madbayes._engine.partition import check_reach, measure
from madbayes._engine.rows import Rows
from madbayes._engine.seeding import squared_distances
from madbayes._engine.threads import Run, workers
from madbayes._estimators.centers import CentersMixin
from madbayes._kernels import hdp
from madbayes._kernels.moves import close_gaps, means
from madbayes._kernels.rows import squared_error
from madbayes.multi.hard_hdp_search import hdp_search
from madbayes.multi.hdp_penalty import choose_penalties

COSTS = 2**20  # distances that predict keeps at a time


@dataclass(frozen=True)
class Sharing:
    """Global labels of the grouped rows, and how they were found."""

    labels: np.ndarray
    history: list[float]
    n_iter: int
    converged: bool


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


def assign_rows(
    rows: Grouped, z: np.ndarray, centers: np.ndarray, local: float, glob: float
) -> np.ndarray:
    """4. z is updated; returns all centres."""
    return hdp.assign_or_open(rows.X, rows.w, rows.start, z, centers, len(centers), local, glob)[0]


def assign_local_clusters(
    rows: Grouped, z: np.ndarray, centers: np.ndarray, glob: float
) -> np.ndarray:
    """5. DP-means over the local means; returns the new label of each row."""
    k = len(centers)
    M, A, label, member = hdp.local_clusters(rows.X, rows.w, rows.start, z, k)
    each = np.arange(len(M) + 1)
    hdp.assign_or_open(M, A, each, label, centers, k, 0.0, glob)
    return label[member]


def update_means(rows: Grouped, z: np.ndarray) -> np.ndarray:
    """6. Means of what is left; clusters without rows are dropped, labels move up."""
    k = close_gaps(z, np.bincount(z))
    return means(rows.X, rows.w, z, k, False)[0]


def hard_hdp(rows: Grouped, local: float, glob: float, max_iter: int) -> Sharing:
    """KJ Algorithm 2."""
    z = np.zeros(len(rows.X), np.int64)  # 1., 2.
    centers = update_means(rows, z)
    history: list[float] = []
    converged = False
    while len(history) < max_iter and not converged:  # 3.
        before = z.copy()
        centers = assign_rows(rows, z, centers, local, glob)  # 4.
        z = assign_local_clusters(rows, z, centers, glob)  # 5.
        centers = update_means(rows, z)  # 6.
        F = hdp.objective(rows.X, rows.w, rows.start, z, len(centers), local, glob)
        history.append(min(F, history[-1]) if history else F)  # not even by rounding
        converged = np.array_equal(z, before)
    return Sharing(z, history, len(history), converged)


def search(
    rows: Grouped,
    local: float,
    glob: float,
    *,
    n_init: int,
    max_iter: int,
    random_state: np.random.RandomState,
    run: Run,
) -> Sharing:
    """`hdp_search`, from Algorithm 2 among others; clusters from the heaviest to the lightest."""
    printed = hard_hdp(rows, local, glob, max_iter)
    found, history = hdp_search(
        rows.X,
        rows.w,
        rows.group,
        local,
        glob,
        effort=n_init,
        random_state=random_state,
        run=run,
        printed=printed.labels,
    )
    # Among equals by place, not by order of rows.
    direction = np.random.RandomState(0).standard_normal(rows.X.shape[1])
    rank = np.lexsort((found.centers @ direction, -found.weights))
    return Sharing(np.argsort(rank)[found.labels], history, len(history), True)


def usage(groups: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """How many rows of each group are in each cluster."""
    return sp.csr_array((np.ones(len(labels), np.int64), (groups, labels)), shape=shape)


def number_locally(table: sp.csr_array, groups: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The rank of each row's cluster among those of its group; -1 where the group has none."""
    key = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * table.shape[1]
    at = np.searchsorted(key + table.indices, groups * table.shape[1] + labels)
    return np.where(np.diff(table.indptr)[groups] > 0, at - table.indptr[groups], -1)


def check_penalty(name: str, value: Any) -> Any:
    """A positive finite float, "auto" or "farthest-first"."""
    if value in ("auto", "farthest-first") and isinstance(value, str):
        return value
    what = "group's share of a cluster" if name == "penalty_local" else "shared cluster"
    says = (
        f"{name}={value!r} must be a number > 0, 'auto' or 'farthest-first'. It is the cost of one "
        f"more {what}, in squared-distance units; penalties.hdp_farthest_first(X, groups, n_local, "
        "n_global) proposes both for rough numbers of clusters."
    )
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(says)
    if not 0 < float(value) < np.inf:
        raise ValueError(says)
    return float(value)


class SharedClusters:
    """What `HardHDP` and `KernelHardHDP` share: parameters, checks, and what is stored."""

    labels_: np.ndarray

    def __init__(
        self,
        penalty_local: float | str = "auto",
        penalty_global: float | str = "auto",
        *,
        algorithm: str = "search",
        n_local_hint: int | None = None,
        n_global_hint: int | None = None,
        n_init: int = 1,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty_local = penalty_local
        self.penalty_global = penalty_global
        self.algorithm = algorithm
        self.n_local_hint = n_local_hint
        self.n_global_hint = n_global_hint
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check(self) -> None:
        for name in ("penalty_local", "penalty_global"):
            value = check_penalty(name, getattr(self, name))
            hint = f"n_{name.removeprefix('penalty_')}_hint"
            given = getattr(self, hint)
            if given is not None:
                check_count(hint, given, why="It is a rough number of clusters.")
                if not isinstance(value, str):
                    raise ValueError(
                        f"{hint}={given} would be ignored, because {name}={value} decides already. "
                        "Give one of them."
                    )
            elif value == "farthest-first":
                raise ValueError(f"{name}='farthest-first' needs {hint}, a rough number.")
        check_choice("algorithm", self.algorithm, "search", "paper")
        check_count("n_init", self.n_init)
        check_count("max_iter", self.max_iter)

    def _solve(
        self, X: Any, weight: np.ndarray | None, groups: Groups, run: Run
    ) -> tuple[Grouped, np.ndarray, np.ndarray]:
        """Fit on checked rows: all but what depends on how a centre is kept.

        Returns the grouped rows, the centres among them, and the label of each row of X (-1 for a
        row of weight 0).
        """
        random_state = check_random_state(self.random_state)
        rows = put_together(X, weight, groups, run)
        local, glob = choose_penalties(self, rows, random_state, run)
        if self.algorithm == "paper":
            found = hard_hdp(rows, local, glob, self.max_iter)
        else:
            found = search(
                rows,
                local,
                glob,
                n_init=self.n_init,
                max_iter=self.max_iter,
                random_state=random_state,
                run=run,
            )
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} passes; rows "
                "still change their cluster. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        z, g = found.labels, int(found.labels.max()) + 1
        centers = means(rows.X, rows.w, z, g, False)[0]
        self.groups_ = groups.names
        self._rows_of = usage(rows.group, z, (len(groups.names), g))
        self.n_local_clusters_ = np.diff(self._rows_of.indptr)
        self.n_clusters_ = g
        self.penalty_local_, self.penalty_global_ = local, glob
        self.objective_ = found.history[-1]
        self.inertia_ = float(squared_error(rows.X, rows.w, z, centers))
        self.objective_history_ = np.array(found.history)
        self.n_iter_ = found.n_iter
        self.converged_ = found.converged
        labels = np.full(X.shape[0], -1, dtype=np.int64)
        labels[rows.place] = z
        return rows, centers, labels

    def _store_labels(self, labels: np.ndarray, groups: Groups) -> None:
        self.labels_ = labels.astype(np.int32)
        self.local_labels_ = number_locally(self._rows_of, groups.code, labels).astype(np.int32)

    def _nearest_of_group(self, gaps: np.ndarray, code: np.ndarray) -> np.ndarray:
        """For rows that do not count: the nearest cluster that their group uses, or any."""
        uses = self._rows_of[code].toarray() > 0
        uses[~uses.any(axis=1)] = True
        return np.where(uses, gaps, np.inf).argmin(axis=1)

    def _surcharge(self, groups: Any, n: int) -> tuple[np.ndarray, sp.csr_array]:
        """The group of each row (one beyond the last: new), and which clusters the groups use."""
        uses = sp.vstack([self._rows_of, sp.csr_array((1, self.n_clusters_), dtype=np.int64)])
        new = len(self.groups_)
        if groups is None:
            return np.full(n, new), sp.csr_array(uses)
        names, code, _, _ = check_groups(groups, n)
        try:
            at = np.minimum(np.searchsorted(self.groups_, names), new - 1)
            known = self.groups_[at] == names
        except TypeError:  # text where there were numbers, or the other way round
            at, known = np.zeros(len(names), np.int64), np.zeros(len(names), bool)
        return np.where(known, at, new)[code], sp.csr_array(uses)

    def _cheapest(self, distances: Any, n: int, groups: Any, novel: bool) -> np.ndarray:
        """The cluster with the least w·d² + λ_l·[not used by the group]; `distances(a, b)` has one
        line for each cluster."""
        code, uses = self._surcharge(groups, n)
        labels = np.empty(n, dtype=np.int32)
        step = max(1, COSTS // self.n_clusters_)
        for a in range(0, n, step):
            b = min(n, a + step)
            cost = distances(a, b) + self.penalty_local_ * (uses[code[a:b]].toarray().T == 0)
            labels[a:b] = cost.argmin(axis=0)
            if novel:
                far = cost.min(axis=0) > self.penalty_local_ + self.penalty_global_
                labels[a:b][far] = -1
        return labels


class HardHDP(SharedClusters, CentersMixin):
    """Clusters shared by many data sets, their number found (Kulis & Jordan 2012, section 4).

    Rows come in groups (patients, shops, documents). Minimises the sum of squared distances to the
    shared centres, plus `penalty_local` for every cluster that a group uses and `penalty_global`
    for every cluster that exists: groups borrow clusters from each other, and each uses few.

    Use it when single groups are too small to be clustered alone, or when clusters of different
    groups have to be the same ones. With one group it is `DPMeans`, with the sum of both penalties.
    When groups do not matter, `DPMeans` on all rows is simpler.

    Parameters
    ----------
    penalty_local : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster in a group, in squared-distance units (λ_l of the paper).
    penalty_global : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster altogether, in squared-distance units (λ_g). "auto" takes the
        penalties whose clusters describe the data in the fewest words (`multi.hdp_penalty`), or
        those that give about as many clusters as the hints say; it takes clusters to be round, and
        cuts up long ones. "farthest-first" derives the penalties from the hints (KJ 6.1).
    algorithm : {"search", "paper"}, default="search"
        "search" looks for the lowest objective: at the end no move of one row or of one group's
        share of a cluster, to another cluster or to a new one, and no merge of two clusters lowers
        it, and splits of every cluster have been tried in vain. Never above "paper". It is a
        heuristic; the global minimum is not guaranteed. "paper" is KJ Algorithm 2.
    n_local_hint, n_global_hint : int or None
        Rough numbers of clusters, in a group on average and in all.
    n_init : int, default=1
        More effort for "search": so many times more attempts before a cluster counts as settled.
    max_iter : int, default=300
        Passes of Algorithm 2 at most.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        The (global) cluster of each row.
    local_labels_ : array of shape (n_rows,)
        The same, counted within the group of the row: 0 to ``n_local_clusters_[group] - 1``, in the
        order of the global labels.
    cluster_centers_ : array of shape (n_clusters_, n_features)
        By "search" from the largest cluster to the smallest.
    n_clusters_ : int
        The number of global clusters, g.
    n_local_clusters_ : array of shape (n_groups,)
        How many of them each group uses, k_j, in the order of `groups_`.
    groups_ : array of shape (n_groups,)
        The labels of the groups, sorted.
    penalty_local_, penalty_global_ : float
    objective_ : float
        KJ Eq. 2: `inertia_` + `penalty_local_` · Σ `n_local_clusters_` + `penalty_global_` ·
        `n_clusters_`.
    inertia_ : float
        Sum of (weighted) squared distances to the centres.
    objective_history_ : array
        The objective after each pass or improvement; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    Rows of weight 0 get the nearest cluster that their group uses; a group of such rows only uses
    none, and their local label is -1. The rows are copied once; a CSR matrix is made dense.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import HardHDP
    >>> rng = np.random.default_rng(0)
    >>> places = np.array([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    >>> X = [np.repeat(places[pair], 4, axis=0) + rng.normal(size=(8, 2))
    ...      for pair in ([0, 1], [1, 2], [2, 3], [0, 3], [0, 2])]
    >>> model = HardHDP(penalty_local=10.0, penalty_global=20.0, random_state=0).fit(X)
    >>> model.n_clusters_, model.n_local_clusters_
    (4, array([2, 2, 2, 2, 2]))
    >>> new = [[4.4, 0.0]]  # between two clusters, of which group 3 uses the first
    >>> model.predict(new, groups=[3]) == model.predict([[0.0, 0.0]])
    array([ True])
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array, table or CSR matrix, or a list of them, one for each group
        y : ignored
        sample_weight : array of shape (n_rows,), optional
        groups : array of shape (n_rows,), optional
            The group of each row: numbers or text. One group when left out.
        """
        X, groups = gather(X, groups)
        X = check_rows(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        found = check_groups(groups, X.shape[0])
        self._check()
        with workers(self.n_jobs) as run:
            rows, centers, labels = self._solve(X, weight, found, run)
            centers = centers + rows.offset
            self._store_centers(centers, Rows(X).dtype)
            left_out = np.flatnonzero(labels < 0)
            if left_out.size:
                gaps = self._distances(X[left_out])(0, left_out.size).T
                labels[left_out] = self._nearest_of_group(gaps, found.code[left_out])
        self._store_labels(labels, found)
        return self

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit and return `labels_`."""
        return self.fit(X, sample_weight=sample_weight, groups=groups).labels_

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit and return the distances of the rows of X to the centres."""
        return self.fit(X, sample_weight=sample_weight, groups=groups).transform(X)

    def transform(self, X: Any) -> np.ndarray:
        """Euclidean distances, (n_rows, n_clusters)."""
        return super().transform(gather(X, None)[0])

    def predict(self, X: Any, groups: Any = None, novel: bool = False) -> np.ndarray:
        """The cluster of each row of X: the least squared distance, `penalty_local_` added for
        clusters that the group of the row does not use.

        Rows of groups that were not there in `fit` (or all rows, without `groups`) get the nearest
        cluster. With ``novel=True``, -1 where even the cheapest costs more than `penalty_local_` +
        `penalty_global_`: such a row would open a cluster of its own. Rows do not influence each
        other.
        """
        check_is_fitted(self)
        X, groups = gather(X, groups)
        X = check_rows(self, X, reset=False)
        return self._cheapest(self._distances(X), X.shape[0], groups, novel)

    def _distances(self, X: Any) -> Any:
        source, centers = Rows(X), np.ascontiguousarray(self._exact_centers())
        with workers(1) as run:
            check_reach(centers, measure(source, None, run), source.d)
        return lambda a, b: squared_distances(source, a, b, centers)
