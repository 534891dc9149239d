"""DP-medoids: medoids for any dissimilarity, as many as pay (PRML Eq. 9.6 with KJ's penalty).

Objective: J = Σ_n w_n V(x_n, μ_{z_n}) + λk, each μ one of the rows.

KJ Algorithm 1 with medoids in the place of means (`algorithm="paper"`):
1. One cluster, its medoid the best single row.
2. Row by row: if w·V to the nearest medoid exceeds λ, the row becomes a medoid (visible to the rows
   after it, in the same pass); otherwise it goes to the nearest.
3. Each medoid becomes the best row of its cluster; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

The default, `algorithm="search"`, is in `medoid_search`: grow; open, swap and close; renew.

The problem is known as (uncapacitated) facility location: λ is the price of a facility. Where the
dissimilarity is a metric and the number of medoids is not capped, no end of the search is above
three times the minimum (Arya et al. 2004, "Local search heuristics for k-median and facility
location problems").

`penalty="auto"` chooses a number (`medoid_path`), and then a penalty on the scale of the algorithm:
what a whole cluster repays for the search, what one row repays for the printed algorithm.
"""

from typing import Any, Literal, Self

import numpy as np

from madbayes._model.fitting import Options, begin, keep_choice, warn_if_unfinished
from madbayes._rows.checks import check_penalty, check_weight
from madbayes._rows.threads import patient
from madbayes._search.number import printed_number
from madbayes.howmany.staircase import Staircase
from madbayes.medoids import medoid_kernels as kernels
from madbayes.medoids.base import MedoidsMixin
from madbayes.medoids.dissimilarity import (
    Metric,
    check_dissimilar,
    paid,
)
from madbayes.medoids.path import SQUARED, farthest_first, find_path
from madbayes.medoids.search import Medoids, never_rising, search, search_number


def objective(D: np.ndarray, weight: np.ndarray, medoids: np.ndarray, penalty: float) -> float:
    """J when every row is with its nearest medoid."""
    return paid(weight, D[medoids].min(axis=0)) + penalty * len(medoids)


def follow_paper(
    D: np.ndarray, weight: np.ndarray, penalty: float, *, cap: int, max_iter: int
) -> Medoids:
    """KJ Algorithm 1 with medoids, the rows in their order."""
    n = len(D)
    medoids = np.empty(n, np.int64)
    medoids[0], k = patient(kernels.totals, D, weight).argmin(), 1  # 1.
    labels = np.zeros(n, np.int32)
    history: list[float] = []
    converged = False
    n_iter = 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        before = labels.copy()
        k = kernels.assign_or_open(D, weight, medoids, k, cap, penalty, labels)  # 2.
        converged = np.array_equal(labels, before)  # 4.
        if not converged:
            kernels.update_medoids(D, weight, labels, medoids, k)  # 3.
            kept, new = np.unique(labels, return_inverse=True)
            labels, k = new.astype(np.int32), len(kept)
            medoids[:k] = medoids[kept]
            history.append(paid(weight, D[medoids[labels], np.arange(n)]) + penalty * k)
    medoids = medoids[:k].copy()
    history.append(objective(D, weight, medoids, penalty))
    return Medoids(medoids, history[-1], history, n_iter, converged)


class DPMedoids(MedoidsMixin):
    """K-medoids that finds the number of clusters, for any dissimilarity.

    Minimises the sum of dissimilarities of the rows to the medoid of their cluster, plus `penalty`
    for each cluster. Use it like `KMedoids` when the number of clusters is not known; for squared
    distances in a vector space `DPMeans` is faster and needs no n×n matrix.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in the unit of the metric: a cluster pays for itself when it
        brings its rows nearer to a medoid by more than this in all. "auto" takes the number of
        clusters that held-out rows support best, 1 when no number stands out from noise;
        "farthest-first" aims at `n_clusters_hint` clusters. The two algorithms need penalties of
        very different size: "search" opens a cluster where a whole group of rows saves more than
        the penalty, "paper" where one row does. Both words give a penalty of the right size (with
        "paper", "farthest-first" is the heuristic of KJ 6.1).
    metric : str or callable, default="euclidean"
        A name that `sklearn.metrics.pairwise_distances` knows, a symmetric function of two rows, or
        "precomputed": X is then the square matrix of dissimilarities, X[i, j] that of row i to row
        j as its medoid. It need not be symmetric, nor obey the triangle inequality.
    metric_params : dict or None
        Options of the metric, as for `pairwise_distances`.
    algorithm : {"search", "paper"}, default="search"
        "search" ends where no opening, swap or closing of medoids lowers the objective (by more
        than 1e-10 of it). "paper" is KJ Algorithm 1 with medoids for means; it opens a cluster only
        where one row alone repays the penalty.
    max_clusters : int or None
        Never more clusters than this.
    n_clusters_hint : int or None
        A rough number of clusters: "auto" then looks between two thirds and three halves of it,
        "farthest-first" takes it as it is.
    n_init : int, default=1
        For "search": how many starts; the best is kept. Starts after the first are random rows.
    effort : float, default=1
        For "search": its patience, as a multiple of the usual one.
    max_iter : int, default=300
        Passes at most.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Threads for Euclidean dissimilarities; None uses all cores. The result is the same to the
        bit for any value.

    Attributes
    ----------
    medoid_indices_ : array of shape (n_clusters_,)
        The medoids as rows of X; by "search" that of the largest cluster first.
    cluster_centers_ : array of shape (n_clusters_, n_features)
        The rows themselves; absent with metric="precomputed".
    labels_ : array of shape (n_rows,)
    n_clusters_ : int
    penalty_ : float
    evidence_ : penalties.Choice
        With ``penalty="auto"``: how many clusters, the strength of the evidence, the runners-up.
    path_ : penalties.Staircase
        With ``penalty="auto"``: clusters against the penalty; `path_.plot()` draws it.
    objective_ : float
        `inertia_` plus `penalty_` times `n_clusters_`.
    inertia_ : float
        Sum of (weighted) dissimilarities to the medoids.
    objective_history_ : array
        The objective after each pass; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    All dissimilarities are held in memory, as for `KMedoids`; more than 8 GiB is an error. A row of
    weight 0 is left out and cannot be a medoid.

    "auto" considers up to √n clusters of at most 2,000 rows, so 45 (or those around
    `n_clusters_hint`). One half of the rows proposes clusters and the other half confirms them by
    valleys between them, as for `DPMeans`. That test is exact for dissimilarities that are
    Euclidean distances in some space; for others it is a heuristic.

    Examples
    --------
    >>> from madbayes import DPMedoids
    >>> X = [[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [99, 2]]
    >>> model = DPMedoids(penalty=20.0).fit(X)
    >>> model.cluster_centers_.tolist(), model.objective_
    ([[10.0, 2.0], [1.0, 2.0], [99.0, 2.0]], 68.0)
    >>> model.predict([[1.0, 3], [50, 2]], novel="paper").tolist()
    [1, -1]
    """

    def __init__(
        self,
        penalty: float | Literal["auto", "farthest-first"] = "auto",
        *,
        metric: Metric = "euclidean",
        metric_params: dict[str, Any] | None = None,
        algorithm: Literal["search", "paper"] = "search",
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        n_init: int = 1,
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X (or those that the matrix X is about)."""
        X = check_dissimilar(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        unit = "the unit of the metric (so a squared distance only for sqeuclidean)"
        check_penalty(self.penalty, "auto", "farthest-first", unit=unit)
        options = begin(self, "auto", "farthest-first")
        penalty, path = 0.0, None

        def solve(D: np.ndarray, w: np.ndarray) -> Medoids:
            nonlocal penalty, path
            found, penalty, path = self._solve(D, w, options)
            return found

        history = self._fit_medoids(X, weight, solve)
        self.n_clusters_ = len(self.medoid_indices_)
        self.penalty_ = penalty
        if path is not None:
            keep_choice(self, path, self.n_clusters_, penalty)
        self.objective_ = self.inertia_ + penalty * self.n_clusters_
        self.objective_history_ = never_rising(history, self.objective_)
        warn_if_unfinished(self, self.converged_)
        self._calibrate(X, self.labels_, weight)
        return self

    def _solve(
        self, D: np.ndarray, w: np.ndarray, options: Options
    ) -> tuple[Medoids, float, Staircase | None]:
        """Medoids, penalty, and the path that led to them."""
        cap = min(len(D), options.cap or len(D))
        printed = self.algorithm == "paper"

        def follow(penalty: float) -> Medoids:
            return follow_paper(D, w, penalty, cap=cap, max_iter=options.max_iter)

        path, penalty = None, options.penalty
        if penalty == "auto":
            squared = isinstance(self.metric, str) and self.metric in SQUARED
            rng = options.random_state
            path = find_path(D, w, cap, options.hint, rng, squared=squared)
            number, penalty = path.best().number, path.best().price
            if printed:
                first = farthest_first(D, w, number, strict=False)
                penalty, result = printed_number(follow, lambda m: len(m.rows), number, first)
                return result, penalty, path
        elif penalty == "farthest-first":
            assert options.hint is not None
            number, penalty = min(options.hint, cap), farthest_first(D, w, options.hint)
        elif not printed:
            return search(D, w, penalty, options, cap=cap), penalty, None
        if printed:
            return follow(penalty), penalty, path
        result, penalty = search_number(D, w, number, penalty, options, cap=cap)
        return result, penalty, path
