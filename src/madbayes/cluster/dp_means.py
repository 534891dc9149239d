"""DP-means: k-means that opens clusters where they pay (KJ Algorithm 1; BKJ Eq. 3 and 12).

This file is the printed algorithm and the estimator; `dp_search` holds the default algorithm.

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights).

1. One cluster, its centre the mean of all rows.
2. Row by row: if w·d² to the nearest centre exceeds λ, the row opens a cluster at its own place
   (visible to the rows after it, in the same pass); otherwise it goes to the nearest centre.
3. Each centre becomes the mean of its rows; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

Departs from the paper: nothing in the result. Step 2 is serial as printed, but distances to the
centres known at the start of a stretch of rows do not depend on order: threads find them, and only
the rows that are too far from all of those need the serial rule (docs/adr/0004).
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from madbayes._engine.checks import (
    check_choice,
    check_count,
    check_hint,
    check_penalty,
    check_rows,
    check_weight,
    weight_of_directions,
)
from madbayes._engine.partition import Frame, Partition, measure_to_fit
from madbayes._engine.progress import Stage
from madbayes._engine.rows import Rows, arrange, restore
from madbayes._engine.threads import Run, workers
from madbayes._estimators.centers import CentersMixin
from madbayes.cluster.dp_search import dp_search
from madbayes.cluster.farthest import largest_gap
from madbayes.cluster.path import find_path
from madbayes.cluster.sparse_search import sparse_search

FIRST_STRETCH = 1024  # rows before the first look at who opens a cluster
FAR_ROWS = 8192  # rows under the serial rule at a time
DENSE_VALUES = 2**25  # a CSR matrix up to this size is made dense for the search
GAPS = 2**22  # distances between old and new centres that are kept at a time


@dataclass(frozen=True)
class Clustering:
    labels: np.ndarray
    centers: np.ndarray
    objective: float
    inertia: float
    history: list[float]
    n_iter: int
    converged: bool


def objective(X: np.ndarray, labels: np.ndarray, penalty: float) -> float:
    """KJ Eq. 1 of a partition."""
    clusters = [X[labels == c] for c in np.unique(labels)]
    return sum(float(((x - x.mean(axis=0)) ** 2).sum()) + penalty for x in clusters)


def assign_or_open(
    partition: Partition, centers: np.ndarray, penalty: float, max_clusters: int, stretch: int
) -> tuple[np.ndarray, bool]:
    """2. One pass over the rows; returns all centres, and whether anything changed."""
    n = partition.source.n
    changed = False
    first = 0
    while first < n:
        last = min(n, first + stretch)
        changed |= partition.assign(centers, penalty, rows=(first, last)) > 0
        far = partition.far_rows(first, last)
        room = max_clusters - centers.shape[0]
        opened = far[:0]
        if far.size and room > 0:
            at_once = min(FAR_ROWS, max(256, GAPS // centers.shape[0]))
            if far.size > at_once:  # the rest comes in the next stretch
                last = int(far[at_once])
                far = far[:at_once]
            opened = partition.open_clusters(centers, far, penalty, room)
            if opened.size:
                centers = partition.offer(centers, opened, last)
                changed = True
        # Few openings: look less often. The result does not depend on it.
        stretch = min(n, 2 * stretch) if opened.size <= 16 else max(256, stretch // 2)
        first = last
    return centers, changed


def update_means(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """3. Means of what is left."""
    centers = partition.means(centers)
    filled = partition.counts() > 0
    if not filled.all():
        partition.drop(filled)
    return centers[filled]


def dp_means(
    partition: Partition,
    penalty: float,
    *,
    max_clusters: int | None,
    max_iter: int,
) -> Clustering:
    """KJ Algorithm 1 on the rows of `partition`, in their order."""
    n = partition.source.n
    cap = n + 1 if max_clusters is None else max_clusters  # the first one may lose its rows
    centers = partition.middle()  # 1.
    partition.assign(centers)
    history: list[float] = []
    converged = fresh_sums = False
    n_iter = 0
    stretch = FIRST_STRETCH
    stage = Stage("passes of Algorithm 1")
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        centers, changed = assign_or_open(partition, centers, penalty, cap, stretch)  # 2.
        stretch = n
        if changed or not fresh_sums:
            if not changed:  # see if it holds without the rounding of the running sums
                partition.recount()
                n_iter -= 1
            fresh_sums = not changed
            centers = update_means(partition, centers)  # 3.
            if changed:
                history.append(partition.sse + penalty * centers.shape[0])
        else:
            converged = True  # 4.
    if not converged:
        partition.assign(centers)
    inertia = partition.measure_sse(centers)
    history.append(inertia + penalty * centers.shape[0])
    return Clustering(partition.labels, centers, history[-1], inertia, history, n_iter, converged)


def search(
    X: Any,
    weight: np.ndarray | None,
    penalty: float,
    *,
    frame: Frame,
    max_clusters: int | None,
    n_init: int,
    random_state: np.random.RandomState,
    run: Run,
    unit: bool = False,
    start: np.ndarray | None = None,
) -> Clustering:
    """`dp_search` on the rows of positive weight, and the nearest centre for the others.

    For CSR it is `sparse_search`.
    """
    source, weight, order = arrange(X, weight, unit=unit)
    partition = Partition(source, weight, run, frame)
    used = np.arange(source.n) if weight is None else np.flatnonzero(weight > 0)
    used_weight = np.ones(source.n) if weight is None else weight[used]
    options: dict[str, Any] = {
        "max_clusters": max_clusters,
        "random_state": random_state,
        "run": run,
        "unit": unit,
    }
    if source.sparse:
        sparse, centers, history = sparse_search(
            source.X[used], used_weight, penalty, **options, start=start
        )
        found, weights = sparse.labels, sparse.weights
    else:
        offset = np.zeros(source.d) if unit else partition.offset
        rows = shifted_rows(source, used, offset)
        shifted_start = None if start is None else start - offset
        division, history = dp_search(
            rows, used_weight, penalty, **options, effort=n_init, start=shifted_start
        )
        found, weights, centers = division.labels, division.weights, division.centers + offset
    rank = by_size(centers, weights)
    labels = np.empty(source.n, dtype=np.int32)
    labels[used] = np.argsort(rank)[found]
    centers = centers[rank]
    if used.size < source.n:
        partition.assign(centers)
        left_out = weight == 0
        labels[left_out] = partition.labels[left_out]
    partition.labels = labels
    inertia = partition.measure_sse(centers)
    history.append(inertia + penalty * len(centers))
    return Clustering(
        restore(labels, order), centers, history[-1], inertia, history, len(history), True
    )


def shifted_rows(source: Rows, used: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The rows `used` minus `offset`, in their own type."""
    out = np.empty((used.size, source.d), dtype=source.dtype)
    for a in range(0, used.size, 4096):
        out[a : a + 4096] = source.take(used[a : a + 4096]) - offset
    return out


def by_size(centers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Clusters from the heaviest to the lightest; among equals by place, not by order of rows."""
    direction = np.random.RandomState(0).standard_normal(centers.shape[1])
    return np.lexsort((centers @ direction, -weights))


class DPMeans(CentersMixin):
    """K-means that finds the number of clusters (Kulis & Jordan 2012).

    Minimises the sum of squared distances to the centres plus `penalty` for each cluster.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in squared-distance units (λ of the paper). "auto" takes the
        number of clusters that the data supports best (`penalties.path`), 1 when nothing stands out
        from noise. "farthest-first" derives it from `n_clusters_hint` (KJ 6.1).
    algorithm : {"search", "paper"}, default="search"
        "search" looks for the lowest objective: at the end no move of one row, no row opened as a
        cluster of its own and no merge of two clusters lowers it, and splits of every cluster have
        been tried in vain. It is a heuristic: the global minimum is found nearly always for few
        rows and is not guaranteed. "paper" is KJ Algorithm 1, step for step: the same result as a
        plain loop over the rows; it opens a cluster only where one row alone repays the penalty.
    max_clusters : int or None
        Never more clusters than this (BKJ Eq. 12).
    n_clusters_hint : int or None
        A rough number of clusters, for "auto" (which then looks between two thirds and three halves
        of it) and "farthest-first".
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" compares directions: rows are taken at length 1 (block by block, X is not copied),
        centres have length 1, and the squared distance is 2 - 2 cos. With "paper" this is DP-vMF-
        means (Straub et al. 2015), for a given number of clusters spherical k-means (Dhillon &
        Modha 2001). Rows of zeros are left out, with a
        warning.
    n_init : int, default=1
        More effort for "search": so many times more attempts before a cluster counts as settled.
    order : {"given", "random"}
        For "paper": the order in which rows are visited; it matters for which rows open clusters.
    max_iter : int, default=300
        For "paper": passes at most.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features)
        By "search" from the largest cluster to the smallest.
    labels_ : array of shape (n_rows,)
    n_clusters_ : int
    penalty_ : float
    evidence_ : penalties.Choice
        With ``penalty="auto"``: the strength of the evidence, and the runners-up.
    path_ : penalties.PenaltyPath
        With ``penalty="auto"``: clusters against the penalty; `path_.plot()` draws it.
    objective_ : float
        KJ Eq. 1: `inertia_` plus `penalty_` times `n_clusters_`.
    inertia_ : float
        Sum of (weighted) squared distances to the centres.
    objective_history_ : array
        The objective after each pass or improvement; never rises (KJ Theorem 3.1).
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    "search" needs the rows in memory, and a copy of them. A CSR matrix of up to 2²⁵ values, zeros
    included, is made dense for it; a larger one is searched as it is, with somewhat fewer moves.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 50, axis=0) + rng.normal(size=(150, 2))
    >>> model = DPMeans(random_state=0).fit(X)
    >>> model.n_clusters_, model.evidence_.strength
    (3, 'strong')
    >>> DPMeans(penalty=20.0, algorithm="paper").fit(X).n_clusters_
    4
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        algorithm: str = "search",
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        metric: str = "euclidean",
        n_init: int = 1,
        order: str = "given",
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.metric = metric
        self.n_init = n_init
        self.order = order
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        X = check_rows(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        if self._unit:
            weight = weight_of_directions(X, weight)
        penalty = check_penalty(self.penalty, "auto", "farthest-first")
        check_choice("algorithm", self.algorithm, "search", "paper")
        check_choice("order", self.order, "given", "random")
        cap = None if self.max_clusters is None else check_count("max_clusters", self.max_clusters)
        n_init = check_count("n_init", self.n_init)
        max_iter = check_count("max_iter", self.max_iter)
        random_state = check_random_state(self.random_state)
        if self.algorithm == "search" and X.shape[0] * X.shape[1] <= DENSE_VALUES:
            X = X.toarray() if sp.issparse(X) else X
        start = None
        with workers(self.n_jobs) as run:
            source = Rows(X, unit=self._unit)
            frame = measure_to_fit(source, weight, run)
            if penalty == "auto":
                path = find_path(
                    X, weight, cap, self.n_clusters_hint, random_state, run, unit=self._unit
                )
                self.path_ = path.without_rows()
                self.evidence_ = path.best()
                penalty = self.evidence_.penalty
                start = path.centers_at(penalty)
            elif penalty == "farthest-first":
                penalty = largest_gap(
                    source, weight, check_hint(self.n_clusters_hint), run, unit=self._unit
                )
            if self.algorithm == "paper":
                permutation = None
                if self.order == "random":
                    permutation = random_state.permutation(X.shape[0])
                    weight = None if weight is None else weight[permutation]
                source = Rows(X, permutation, unit=self._unit)
                partition = Partition(source, weight, run, frame, unit=self._unit)
                result = dp_means(partition, penalty, max_clusters=cap, max_iter=max_iter)
                result = replace(result, labels=restore(result.labels, permutation))
            else:
                result = search(
                    X,
                    weight,
                    penalty,
                    frame=frame,
                    max_clusters=cap,
                    n_init=n_init,
                    random_state=random_state,
                    run=run,
                    unit=self._unit,
                    start=start,
                )
        if not result.converged:
            warnings.warn(
                f"DPMeans did not converge in max_iter={max_iter} passes; rows still change their "
                "cluster. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.labels_ = result.labels
        self._store_centers(result.centers, Rows(X).dtype)
        self.n_clusters_ = result.centers.shape[0]
        self.penalty_ = penalty
        self.objective_ = result.objective
        self.inertia_ = result.inertia
        self.objective_history_ = np.array(result.history)
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        return self

    def predict(self, X: Any, novel: bool = False) -> np.ndarray:
        """The index of the nearest centre for each row of X.

        With ``novel=True``, -1 where the squared distance to it is more than `penalty_`: such a row
        would open a cluster of its own.
        """
        check_is_fitted(self)
        return self._nearest(X, penalty=self.penalty_ if novel else None)[0]
