"""K-means: a given number of clusters (PRML 9.1; KJ 2.1).

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² (PRML Eq. 9.1, with weights).

1. E step: each row goes to the nearest centre (Eq. 9.2).
2. M step: each centre becomes the mean of its rows (Eq. 9.4).
3. Repeat until no row moves, or the centres move less than `tol`.

Departs from the book: a centre that loses all its rows takes over the row that is farthest from its
own centre, as in scikit-learn. Distances that cannot matter are not computed (PRML cites Elkan 2003
and Hodgson 1998 for that); the result is the one of the plain loop.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from madbayes._engine.checks import (
    check_choice,
    check_count,
    check_rows,
    check_weight,
    weight_of_directions,
)
from madbayes._engine.frame import measure_to_fit
from madbayes._engine.partition import Partition
from madbayes._engine.progress import Stage
from madbayes._engine.rows import Rows, arrange, restore, segments, unit_rows
from madbayes._engine.seeding import kmeans_plus_plus, random_rows, squared_distances
from madbayes._engine.threads import Run, workers
from madbayes._estimators.centers import CentersMixin
from madbayes._estimators.fitting import Options, begin
from madbayes._search.driver import never_rising, search
from madbayes._search.price import fixed
from madbayes.cluster.table import DENSE_VALUES, Table


@dataclass(frozen=True)
class KMeansResult:
    labels: np.ndarray
    centers: np.ndarray
    inertia: float
    history: list[float]
    n_iter: int
    converged: bool


def assign(partition: Partition, centers: np.ndarray) -> int:
    """1. The E step; returns how many rows moved."""
    return partition.assign(centers)


def fill_empty(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """Give each centre without rows the row that is farthest from its own centre."""
    count = partition.counts()
    empty = np.flatnonzero(count == 0)
    if empty.size == 0:
        return centers
    centers = centers.copy()
    d2 = own_distances(partition, centers)
    if partition.weight.shape[0]:
        d2[partition.weight == 0] = 0.0
    for cluster, row in zip(empty, np.argsort(-d2, kind="stable"), strict=False):
        x = partition.source.take(np.array([row]))[0]
        rounding = 4.0 * np.finfo(np.float64).eps * np.abs(x).max()
        if d2[row] > x.size * rounding**2:  # not just the mean of equal rows, rounded
            w = partition.weight[row] if partition.weight.shape[0] else 1.0
            centers[cluster] = x
            partition.move(int(row), int(cluster), gain=w * d2[row])
    return centers


def own_distances(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """The squared distance of each row to the centre of its label."""
    out = np.empty(partition.source.n)

    def partial(cut: tuple[int, int]) -> None:
        for a, b, block in partition.source.blocks(*cut):
            diff = block - centers[partition.labels[a:b]]
            out[a:b] = np.einsum("ij,ij->i", diff, diff)

    partition.run(partial, segments(partition.source.n, 1))
    return out


def update_means(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """2. The M step."""
    return partition.means(centers)


def lloyd(
    partition: Partition,
    centers: np.ndarray,
    *,
    max_iter: int,
    tol: float,
) -> KMeansResult:
    """Steps 1 to 3 from the given centres; `tol` bounds the squared movement of all centres."""
    history: list[float] = []
    converged = False
    fresh_sums = False
    n_iter = 0
    stage = Stage("k-means", 100)
    while n_iter < max_iter and not converged:
        n_iter += 1
        moved = assign(partition, centers)  # 1. nearest centres
        if moved == 0 and fresh_sums:
            converged = True
        elif moved == 0:
            # Nothing moves: remove the rounding of the running sums, and see if that still holds.
            partition.recount()
            fresh_sums = True
            n_iter -= 1
            centers = update_means(partition, centers)
        else:
            fresh_sums = False
            new = update_means(partition, fill_empty(partition, centers))  # 2. means
            history.append(partition.sse)
            # Fewer rows move from pass to pass, at about the same rate.
            settled = 1 - np.log1p(moved) / np.log1p(partition.source.n)
            stage.at(int(100 * max(settled, n_iter / max_iter)))
            shift = float(((new - centers) ** 2).sum())
            centers = new
            if shift <= tol:  # 3. hardly anything moves
                converged = True
                assign(partition, centers)
    if not converged:
        assign(partition, centers)
    inertia = partition.measure_sse(centers)
    history = never_rising([*history, inertia], passes=True)
    return KMeansResult(partition.labels, centers, inertia, history, n_iter, converged)


class KMeans(CentersMixin):
    """K-means with a given number of clusters.

    Minimises the sum of squared distances of the rows to their cluster's centre. Use it when the
    number of clusters is known; `DPMeans` finds it.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    init : {"k-means++", "random"}, array of shape (n_clusters, n_features) or callable
        The first centres. "k-means++" draws rows far from each other (greedy form), "random" draws
        rows at random; a callable gets ``(X, n_clusters, random_state)``.
    algorithm : {"paper", "search"}, default="paper"
        "paper": Lloyd's passes from each start. "search": the search of `DPMeans` with the number
        of clusters fixed, which takes longer than one start and ends lower than the best of many.
    n_init : int or "auto", default="auto"
        How many starts (or searches) to try; the best result is kept. "auto" is 1 for "k-means++",
        an array and "search", 10 otherwise.
    effort : float, default=1
        For "search": so many times the usual patience.
    max_iter : int, default=300
        For "paper": passes at most for one start.
    tol : float, default=1e-4
        For "paper": stop when all centres together move less than this (squared, relative to the
        mean variance of the columns). 0 runs until no row changes its cluster.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" is spherical k-means (Dhillon & Modha 2001): rows are taken at length 1 (block by
        block, X is not copied), centres have length 1, and the squared distance is 2 - 2 cos. Rows
        of zeros are left out, with a warning.
    random_state : int, RandomState or None
        Seed for the first centres. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
    labels_ : array of shape (n_rows,)
    inertia_, objective_ : float
        Sum of (weighted) squared distances to the centres.
    objective_history_ : array
        The objective after each pass of the best start; never rises.
    n_clusters_, n_iter_, converged_
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import KMeans
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> sorted(model.cluster_centers_.tolist())
    [[1.0, 2.0], [10.0, 2.0]]
    >>> model.inertia_
    16.0
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        algorithm: Literal["paper", "search"] = "paper",
        n_init: int | Literal["auto"] = "auto",
        effort: float = 1.0,
        max_iter: int = 300,
        tol: float = 1e-4,
        metric: str = "euclidean",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.algorithm = algorithm
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.tol = tol
        self.metric = metric
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        X = check_rows(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        if self._unit:
            weight = weight_of_directions(X, weight)
        k = check_count("n_clusters", self.n_clusters)
        if k > X.shape[0]:
            raise ValueError(
                f"n_clusters={k} must be <= n_samples={X.shape[0]}: a cluster needs a row."
            )
        options = begin(self)
        if not isinstance(self.tol, (int, float, np.number)) or not 0 <= self.tol < np.inf:
            raise ValueError(f"tol={self.tol!r} must be a number >= 0.")
        with workers(self.n_jobs) as run:
            solve = self._search if self.algorithm == "search" else self._restart
            best = solve(X, weight, k, options, run)
        distinct = np.unique(best.labels).size
        if distinct < k:
            warnings.warn(
                f"Number of distinct clusters ({distinct}) found smaller than n_clusters ({k}). "
                "Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif not best.converged:
            warnings.warn(
                f"KMeans did not converge in max_iter={self.max_iter} passes; rows still change "
                "their cluster. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.labels_ = best.labels
        self._store_centers(best.centers, Rows(X).dtype)
        self.inertia_ = self.objective_ = best.inertia
        self.objective_history_ = np.array(best.history)
        self.n_clusters_ = k
        self.n_iter_ = best.n_iter
        self.converged_ = best.converged
        self._calibrate(X, self.labels_, weight)
        return self

    def _count_starts(self) -> int:
        if hasattr(self.init, "__array__") or isinstance(self.init, (list, tuple)):
            return 1
        if isinstance(self.init, str) and self.n_init == "auto":
            return 1 if self.init == "k-means++" else 10
        return 10 if self.n_init == "auto" else check_count("n_init", self.n_init)

    def _restart(
        self, X: Any, weight: np.ndarray | None, k: int, options: Options, run: Run
    ) -> KMeansResult:
        """Lloyd's passes from one or more starts; the best."""
        source, weight, order = arrange(X, weight, unit=self._unit)
        frame = measure_to_fit(source, weight, run)
        results = []
        for _ in range(self._count_starts()):
            partition = Partition(source, weight, run, frame, unit=self._unit)
            centers = self._first_centers(X, partition, k, options.random_state, run)
            tol = self.tol * mean_variance(partition) if self.tol else 0.0
            results.append(lloyd(partition, centers, max_iter=options.max_iter, tol=tol))
        best = min(results, key=lambda result: result.inertia)
        return replace(best, labels=restore(best.labels, order))

    def _search(
        self, X: Any, weight: np.ndarray | None, k: int, options: Options, run: Run
    ) -> KMeansResult:
        """The search of `DPMeans`, with as many clusters as asked for and no price on them."""
        if not isinstance(self.init, str) or self.init != "k-means++":
            raise ValueError(
                f"init={self.init!r} is for algorithm='paper'; the search has its own starts."
            )
        if sp.issparse(X) and X.shape[0] * X.shape[1] <= DENSE_VALUES:
            X = X.toarray()
        frame = measure_to_fit(Rows(X, unit=self._unit), weight, run)
        table = Table.arranged(X, weight, run, frame, unit=self._unit)
        space = table.space(fixed(k, table.used.size))
        found, history = search(space, **options.for_search(run))
        result = table.result(found, history, 0.0)
        centers = result.centers[np.minimum(np.arange(k), result.k - 1)]  # too few different rows
        return KMeansResult(
            result.labels, centers, result.inertia, result.history, result.n_iter, True
        )

    def _first_centers(
        self, X: Any, partition: Partition, k: int, random_state: Any, run: Run
    ) -> np.ndarray:
        source, weight = partition.source, partition.weight
        if isinstance(self.init, str):
            check_choice("init", self.init, "k-means++", "random")
            if self.init == "random":
                return random_rows(source, weight, k, random_state, run)
            return kmeans_plus_plus(source, weight, k, random_state, run)
        given = self.init(X, k, random_state) if callable(self.init) else self.init
        centers = np.array(given, dtype=np.float64, order="C")
        if centers.shape != (k, source.d):
            raise ValueError(
                f"init has shape {centers.shape}, but {k} centres of {source.d} features are "
                f"needed: {(k, source.d)}."
            )
        if not np.isfinite(centers).all():
            raise ValueError("init contains NaN or infinity; centres must be finite numbers.")
        if self._unit and not centers.any(axis=1).all():
            raise ValueError("init has a row of zeros, which has no direction (metric='cosine').")
        return unit_rows(centers) if self._unit else centers


def mean_variance(partition: Partition) -> float:
    """The mean over the columns of the variance of the rows, which scales `tol`."""
    mean = partition.frame.mean[None, :]
    source, weight = partition.source, partition.weight

    def partial(cut: tuple[int, int]) -> float:
        d2 = squared_distances(source, *cut, mean)[0]
        return float((weight[cut[0] : cut[1]] * d2 if weight.shape[0] else d2).sum())

    total = sum(partition.run(partial, segments(source.n, 1)))
    return total / (partition.frame.total_weight * source.d)
