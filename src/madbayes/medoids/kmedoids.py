"""K-medoids: a given number of clusters, each around one of the rows, for any dissimilarity.

Objective: J = Σ_n w_n V(x_n, μ_{z_n}), each μ one of the rows (PRML Eq. 9.6, with weights).

The book's algorithm (`algorithm="paper"`):
1. E step: each row goes to the medoid that it is least dissimilar to.
2. M step: each medoid becomes the row of its cluster to which the rows of the cluster together are
   least dissimilar: a discrete search over them.
3. Repeat until no row moves.

The default, `algorithm="search"`, is in `medoid_search`: grow, swap, renew.

The alternation moves a medoid only within its cluster and stops early; a swap can take a medoid
from where there are too many to where there are too few. J never rises in either of them.
Departs from the book: a medoid that loses all its rows (to an equal one) stays where it is.
"""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from madbayes._model.fitting import Options, begin, warn_if_unfinished
from madbayes._rows.checks import check_choice, check_count, check_weight
from madbayes.medoids import medoid_kernels as kernels
from madbayes.medoids.base import MedoidsMixin, used_rows
from madbayes.medoids.dissimilarity import (
    Metric,
    check_dissimilar,
    paid,
)
from madbayes.medoids.search import (
    Medoids,
    assign,
    grow,
    never_rising,
    renew,
    swap,
)


def objective(D: np.ndarray, weight: np.ndarray, medoids: np.ndarray) -> float:
    """PRML Eq. 9.6 when every row is with its nearest medoid."""
    return paid(weight, D[medoids].min(axis=0))


def alternate(D: np.ndarray, weight: np.ndarray, medoids: np.ndarray, *, max_iter: int) -> Medoids:
    """The book's algorithm from the given medoids."""
    medoids = medoids.copy()
    labels = np.full(len(D), -1, np.int32)
    history: list[float] = []
    converged = False
    n_iter = 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        near, _, dn, _ = assign(D, medoids)  # 1. E step
        history.append(paid(weight, dn))
        converged = np.array_equal(near, labels)  # 3.
        if not converged:
            labels = near
            kernels.update_medoids(D, weight, labels, medoids, len(medoids))  # 2. M step
    if not converged:
        history.append(objective(D, weight, medoids))
    return Medoids(medoids, history[-1], history, n_iter, converged)


class KMedoids(MedoidsMixin):
    """K-medoids: k-means for any dissimilarity; the centres are rows of the data.

    Minimises the sum of dissimilarities of the rows to the medoid of their cluster. Use it when
    means make no sense (strings, sets, trees, any matrix of dissimilarities), when a typical row of
    each cluster is wanted, or when outliers should not pull the centres. For squared distances in
    a vector space `KMeans` is faster and needs no n×n matrix; `DPMedoids` finds the number of
    clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    metric : str or callable, default="euclidean"
        A name that `sklearn.metrics.pairwise_distances` knows, a symmetric function of two rows, or
        "precomputed": X is then the square matrix of dissimilarities, X[i, j] that of row i to row
        j as its medoid. It need not be symmetric, nor obey the triangle inequality.
    metric_params : dict or None
        Options of the metric, as for `pairwise_distances`.
    algorithm : {"search", "paper"}, default="search"
        "search" ends where no swap of a medoid for another row lowers the objective (by more than
        1e-10 of it). "paper" is the alternation of the book, which is quicker and stops earlier.
    init : {"auto", "greedy", "random"} or array of n_clusters row indices, default="auto"
        The first medoids. "greedy" takes the rows that save most, one by one; "random" draws rows.
        "auto" is "greedy" for "search" and "random" for "paper" (as the book advises).
    n_init : int, default=1
        How many starts to try; the best result is kept. Those after the first are random rows.
    effort : float, default=1
        The patience of "search": it ends after a number of exchanges of a few neighbouring medoids
        without success. Without effect on "paper".
    max_iter : int, default=300
        Passes at most for one start.
    random_state : int, RandomState or None
        Seed for random rows.
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
    inertia_, objective_ : float
        Sum of (weighted) dissimilarities to the medoids.
    objective_history_ : array
        The objective at the start and after each pass of the best start; never rises.
    n_clusters_ : int
        The clusters that have rows: fewer than `n_clusters` if X has fewer different rows.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    All dissimilarities are held in memory: n² numbers of 8 bytes (4 for float32 rows and a
    Euclidean metric), 0.8 GB for 10,000 rows. More than 8 GiB (32,768 rows, or 46,340) is an error;
    a precomputed matrix has no limit, and is copied only if it is not symmetric or not C-ordered.
    A pass of the search looks at each of them once. A row of weight 0 is left out and cannot be a
    medoid. With a metric (symmetric, triangle inequality) no result of "search" is more than five
    times the minimum (Arya et al. 2004); usually it is within a few per cent.

    Examples
    --------
    >>> from madbayes import KMedoids
    >>> X = [[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [99, 2]]
    >>> model = KMedoids(n_clusters=3).fit(X)
    >>> model.cluster_centers_.tolist(), model.inertia_
    ([[10.0, 2.0], [1.0, 2.0], [99.0, 2.0]], 8.0)
    >>> words = ["ant", "and", "any", "horse", "house", "mouse"]
    >>> def changes(v, w):
    ...     return sum(a != b for a, b in zip(v, w)) + abs(len(v) - len(w))
    >>> D = [[changes(v, w) for w in words] for v in words]
    >>> model = KMedoids(n_clusters=2, metric="precomputed").fit(D)
    >>> [words[i] for i in model.medoid_indices_], model.labels_.tolist()
    (['ant', 'house'], [0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: Metric = "euclidean",
        metric_params: dict[str, Any] | None = None,
        algorithm: str = "search",
        init: Any = "auto",
        n_init: int = 1,
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.init = init
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X (or those that the matrix X is about)."""
        X = check_dissimilar(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        k = check_count("n_clusters", self.n_clusters)
        options = begin(self)
        used = used_rows(X, weight)
        if k > used.size:
            of = f"n_samples={used.size}" + ("" if weight is None else " (of positive weight)")
            raise ValueError(f"n_clusters={k} must be <= {of}: a cluster needs a row.")
        first = self._given_rows(k, used)
        history = self._fit_medoids(X, weight, lambda D, w: self._solve(D, w, k, first, options))
        distinct = np.unique(self.labels_)
        if distinct.size < k:  # the others have no row
            self._store_medoids(X, self.medoid_indices_[distinct])
            self.labels_ = np.searchsorted(distinct, self.labels_).astype(np.int32)
        self.objective_ = self.inertia_
        self.objective_history_ = never_rising(history, self.objective_)
        self.n_clusters_ = distinct.size
        if distinct.size < k:
            warnings.warn(
                f"Number of distinct clusters ({distinct.size}) found smaller than n_clusters "
                f"({k}). Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        else:
            warn_if_unfinished(self, self.converged_)
        self._calibrate(X, self.labels_, weight)
        return self

    def _solve(self, D: np.ndarray, w: np.ndarray, k: int, first: Any, options: Options) -> Medoids:
        """The best of all starts."""
        rng, max_iter = options.random_state, options.max_iter
        found = []
        for start in range(options.n_init):
            if start == 0 and not isinstance(first, str):
                medoids = first
            elif start == 0 and first == "greedy":
                medoids = grow(D, w, k)
            else:
                medoids = rng.permutation(len(D))[:k]
            step = alternate if self.algorithm == "paper" else swap
            found.append(step(D, w, medoids, max_iter=max_iter))
        best = min(found, key=lambda one: one.objective)
        if self.algorithm == "paper":
            return best
        return renew(D, w, best, max_iter=max_iter, effort=options.effort, random_state=rng)

    def _given_rows(self, k: int, used: np.ndarray) -> Any:
        """The rows of `init` among `used`, or its name."""
        if isinstance(self.init, str):
            check_choice("init", self.init, "auto", "greedy", "random")
            if self.init == "auto":
                return "greedy" if self.algorithm == "search" else "random"
            return self.init
        rows = np.asarray(self.init)
        if rows.shape != (k,) or rows.dtype.kind not in "iu" or np.unique(rows).size < k:
            raise ValueError(
                f"init={self.init!r} must be 'auto', 'greedy', 'random' or {k} different indices "
                "of rows, as many as n_clusters."
            )
        if not np.isin(rows, used).all():
            wrong = rows[~np.isin(rows, used)][0]
            raise ValueError(f"init has {wrong}, which is no index of a row of positive weight.")
        return np.searchsorted(used, rows).astype(np.int64)
