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
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from madbayes._model.calibration import clusters_with_rows
from madbayes._model.centers import CentersMixin
from madbayes._model.checkpoint import NOT_KEPT, Passes, checkpoint_of
from madbayes._model.fitting import Options, begin
from madbayes._model.open_rows import open_rows
from madbayes._partition.partition import Partition
from madbayes._partition.small_lloyd import FEW_PRODUCTS, lloyd_at_once
from madbayes._rows.blocks import rows_at_once
from madbayes._rows.checks import check_count
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.progress import Stage
from madbayes._rows.row_kernels import distances_to, in_turn
from madbayes._rows.threads import workers
from madbayes._search.driver import never_rising
from madbayes.divergences.estimating import DivergenceMixin
from madbayes.divergences.fitting import fit_kmeans
from madbayes.kmeans.search_rows import Clustering
from madbayes.kmeans.solve import Core, FitInput, bring_here, keep_core, search_fixed
from madbayes.kmeans.starts import count_starts, first_centers


def assign(partition: Partition, centers: np.ndarray) -> int:
    """1. The E step; returns how many rows moved."""
    return partition.assign(centers)


def fill_empty(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """Give each centre without rows the row that is farthest from its own centre."""
    empty = np.flatnonzero(partition.counts() == 0)
    if empty.size == 0:
        return centers
    centers = centers.copy()
    rows, d2 = partition.farthest(centers, empty.size)
    for cluster, row, far in zip(empty, rows, d2, strict=False):
        x = partition.rows.take(np.array([row]))[0]
        rounding = 4.0 * np.finfo(np.float64).eps * np.abs(x).max()
        if far > x.size * rounding**2:  # not just the mean of equal rows, rounded
            centers[cluster] = x
            partition.move(int(row), int(cluster), d2=far)
    return centers


def update_means(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """2. The M step."""
    return partition.means(centers)


def lloyd(
    partition: Partition,
    centers: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    passes: Passes = NOT_KEPT,
) -> Clustering:
    """Steps 1 to 3 from the given centres; `tol` bounds the squared movement of all centres, and
    `passes` keeps where it is."""
    history: list[float] = []
    converged = fresh_sums = False
    n_iter, stage = 0, Stage("k-means", 100)
    if (past := passes.resume(partition)) is not None:
        centers, history, fresh_sums, n_iter = past
    elif passes is NOT_KEPT or passes.checkpoint is None:
        limits = max_iter, tol
        if (found := lloyd_at_once(partition.rows, partition.frame, centers, *limits)) is not None:
            labels, centers, inertia, history, n_iter, converged = found
            history = never_rising([*history, inertia], passes=True)
            return Clustering(labels, centers, inertia, inertia, history, n_iter, converged)
    while n_iter < max_iter and not converged:
        n_iter += 1
        moved = assign(partition, centers)  # 1. nearest centres
        if moved == 0 and fresh_sums:
            converged = True
        elif moved == 0:
            # Nothing moves: remove the rounding of the running sums, and see if that still holds.
            partition.recount()
            new = update_means(partition, centers)
            converged = bool((new == centers).all())
            fresh_sums, centers, n_iter = True, new, n_iter - (not converged)
        else:
            fresh_sums = False
            new = update_means(partition, fill_empty(partition, centers))  # 2. means
            history.append(partition.sse)
            # Fewer rows move from pass to pass, at about the same rate.
            settled = 1 - np.log1p(moved) / np.log1p(partition.rows.n)
            stage.at(int(100 * max(settled, n_iter / max_iter)))
            shift = in_turn(((new - centers) ** 2).ravel())
            centers = new
            if shift <= tol:  # 3. hardly anything moves
                converged = True
                assign(partition, centers)
        if not converged:
            passes.keep(partition, (centers, history, fresh_sums, n_iter))
    if not converged:
        assign(partition, centers)
    inertia = partition.measure_sse(centers)
    history = never_rising([*history, inertia], passes=True)
    return Clustering(partition.labels, centers, inertia, inertia, history, n_iter, converged)


def best_start(model: Any, X: Any, k: int, inputs: FitInput, file: Any) -> Clustering:
    """Lloyd's passes from one or more starts, each on a partition of its own; the best."""
    past = {} if file is None or file.past is None else file.past
    best: Any = past.get("best")
    options, tol = inputs.options, None
    rng = options.random_state
    for start in range(past.get("start", 0), count_starts(model.init, model.n_init)):
        partition = Partition(inputs.rows, inputs.frame)
        fresh = file is None or file.past is None  # else it goes on from the centres in the file
        centers: Any = first_centers(model.init, X, partition, k, rng) if fresh else None
        if tol is None:  # the same for all starts
            tol = model.tol * partition.mean_variance() if model.tol else 0.0
        passes = Passes(file, start=start, best=best, random_state=rng)
        result = lloyd(partition, centers, max_iter=options.max_iter, tol=tol, passes=passes)
        best = result if best is None or result.inertia < best.inertia else best
    if file is not None:
        file.remove()
    return best


def without_empty(rows: Any, best: Clustering) -> Clustering:
    """The clustering without the clusters that have no row."""
    used = clusters_with_rows(rows, best.labels, best.k)
    if used.all():
        return best
    place = np.cumsum(used, dtype=np.int32) - np.int32(1)
    if rows.executor.remote:
        labels = rows.executor.map(renumber, best.labels, args=(place,))
    else:
        labels = renumber(best.labels, place)
    return replace(best, labels=labels, centers=best.centers[used])


def renumber(labels: np.ndarray, place: np.ndarray) -> np.ndarray:
    return place[labels]


def each_its_own(rows: Any, k: int) -> Clustering | None:
    """The best clustering of at most k different rows: each is a cluster. None if there are more.

    The search cannot find it, because the rounding of means makes equal rows look different.
    """
    if rows.executor.remote or not rows.in_memory:
        return None
    weight = rows.take_weights(np.arange(rows.n)) if rows.weighted else None
    used = np.arange(rows.n) if weight is None else np.flatnonzero(weight > 0)
    different, seen = np.empty((0, rows.d)), 0
    step = 2 * k  # most tables have more different rows among the first 2k
    while seen < used.size:
        some = rows.take(used[seen : seen + step])
        different = np.unique(np.vstack([different, some]), axis=0)
        if len(different) > k:
            return None
        seen, step = seen + step, max(2 * k, rows_at_once(rows.d))
    labels = np.empty(rows.n, np.int32)
    for a, b, block in rows.blocks(0, rows.n):
        gaps = np.empty((len(different), b - a))
        distances_to(block, different, gaps)
        labels[a:b] = gaps.argmin(axis=0)
    return Clustering(labels, different, 0.0, 0.0, [0.0], 1, True)


class KMeans(DivergenceMixin, CentersMixin):
    """K-means with a given number of clusters.

    Minimises the sum of squared distances of the rows to their cluster's centre. Use it when the
    number of clusters is known; `DPMeans` finds it.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    init : {"k-means++", "random"}, array of shape (n_clusters, n_features) or callable
        The first centres. "k-means++" draws rows far from each other (greedy form), "random" draws
        rows at random; of a table of more than 2¹⁷ rows (and 64 for each cluster) both draw from
        evenly spaced ones. A callable gets ``(X, n_clusters, random_state)``.
    algorithm : {"paper", "search"}, default="paper"
        "paper": Lloyd's passes from each start. "search": the search of `DPMeans` with the number
        of clusters fixed, which takes longer than one start and ends lower than the best of many.
    n_init : int or "auto", default="auto"
        How many starts (or searches) to try; the best result is kept. "auto" is 1 for "k-means++",
        an array and "search", 10 otherwise.
    effort : float, default=1
        For "search": its patience (.1: hardly any rounds). More patience never ends higher.
    max_iter : int, default=300
        For "paper": passes at most for one start.
    tol : float, default=1e-4
        For "paper": stop when all centres together move less than this (squared, relative to the
        mean variance of the columns). 0 runs until no row changes its cluster.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" is spherical k-means (Dhillon & Modha 2001): rows are taken at length 1 (block by
        block, X is not copied), centres have length 1, and the squared distance is 2 - 2 cos. Rows
        of zeros are left out, with a warning.
    divergence, columns, missing : see `DPMeans`
        Counts, yes/no, categories, positive numbers, mixed tables, and gaps. With "paper" these are
        Bregman k-means (Banerjee, Merugu, Dhillon & Ghosh 2005).
    checkpoint : path or None
        For "paper": a file that records the state of the fit after passes. An interrupted fit that
        is called again continues from this file, and gives the same result to the bit. A finished
        fit removes the file.
    random_state : int, RandomState or None
        Seed for the first centres. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features)
    labels_ : array of shape (n_rows,)
    inertia_, objective_ : float
        Sum of (weighted) squared distances to the centres.
    objective_history_ : array
        The objective after each pass of the best start; never rises.
    coreset_size_, coreset_error_ : int, float
        Only where a search went through a coreset, as in `DPMeans`.
    n_clusters_ : int
        The clusters that have rows: fewer than `n_clusters` if X has fewer different rows.
    n_iter_, converged_
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

    _reads_blocks = True

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
        divergence: str = "squared",
        columns: dict[Any, str] | None = None,
        missing: Literal["error", "observed"] = "error",
        checkpoint: Any = None,
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
        self.divergence = divergence
        self.columns = columns
        self.missing = missing
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        if self._by_divergence:
            fit_kmeans(self, X, sample_weight)
            return self
        given = open_rows(self, X, sample_weight, unit=self._unit)
        k, options = self._check(given.n)
        search = self.algorithm == "search"
        with workers(self.n_jobs, enough=search or given.n * given.d * k > FEW_PRODUCTS):
            rows = bring_here(given) if search else given
            core = None
            if search:
                best, core = self._search(rows, k, options)
            else:
                best = self._restart(X, rows, k, options)
            keep_core(self, core, rows.n)
            best = without_empty(rows, best)
            self._store(given, best, k)
            self._calibrate_rows(rows, best.labels)
        return self

    def _check(self, n: int) -> tuple[int, Options]:
        """The parameters, for a table of n rows."""
        k = check_count("n_clusters", self.n_clusters)
        if k > n:
            raise ValueError(f"n_clusters={k} must be <= n_samples={n}: a cluster needs a row.")
        options = begin(self)
        if not isinstance(self.tol, (int, float, np.number)) or not 0 <= self.tol < np.inf:
            raise ValueError(f"tol={self.tol!r} must be a number >= 0.")
        return k, options

    def _store(self, rows: Any, best: Clustering, k: int) -> None:
        """What was found, without the clusters that have no row."""
        self._warn_of_end(best.k, k, best.converged)
        self.labels_ = rows.public(best.labels)
        self._store_centers(best.centers, rows.dtype)
        self.inertia_ = self.objective_ = best.inertia
        self.objective_history_ = np.array(best.history)
        self.n_clusters_, self.n_iter_, self.converged_ = best.k, best.n_iter, best.converged

    def _warn_of_end(self, distinct: int, k: int, converged: bool) -> None:
        """If there are fewer clusters than asked for, or passes are missing."""
        if distinct < k:
            warnings.warn(
                f"Number of distinct clusters ({distinct}) found smaller than n_clusters ({k}). "
                "Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not converged:
            warnings.warn(
                f"KMeans did not converge in max_iter={self.max_iter} passes; rows still change "
                "their cluster. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _restart(self, X: Any, rows: Any, k: int, options: Options) -> Clustering:
        """Lloyd's passes from one or more starts; the best."""
        arranged = rows.arranged(k)
        frame = measure_to_fit(arranged)
        file, options = checkpoint_of(self, rows, frame, options)
        starts = count_starts(self.init, self.n_init)
        if file is not None and starts > 1 and rows.executor.remote:
            raise ValueError(
                f"checkpoint={self.checkpoint!r} keeps one start of a Dask table, and n_init asks "
                f"for {starts}. Use n_init=1."
            )
        best = best_start(self, X, k, FitInput(arranged, frame, options), file)
        return replace(best, labels=arranged.restored(best.labels))

    def _search(self, rows: Any, k: int, options: Options) -> tuple[Clustering, Core | None]:
        """The search of `DPMeans`, with as many clusters as asked for and no price on them."""
        if not isinstance(self.init, str) or self.init != "k-means++":
            raise ValueError(
                f"init={self.init!r} is for algorithm='paper'; the search has its own starts."
            )
        frame = measure_to_fit(rows)
        checkpoint_of(self, rows, frame, options)  # complains if there is one
        if (exact := each_its_own(rows, k)) is not None:
            return exact, None
        return search_fixed(FitInput(rows, frame, options), k)
