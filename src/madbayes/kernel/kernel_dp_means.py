"""Kernel DP-means: DP-means on rows that are known only through a kernel (KJ 5.2).

This file is the printed algorithm and the estimator. The default algorithm is the search over
`kernel_space`.

Objective: J = Σ_n w_n ‖φ(x_n) - μ_{z_n}‖² + λk, with ‖φ(x_i) - μ_c‖² = K_ii
- 2 Σ_{j in c} w_j K_ij / W_c + Σ_{j,l in c} w_j w_l K_jl / W_c² (KJ 5.2, with weights).

1. One cluster.
2. Row by row: if w·d² to the nearest mean exceeds λ, the row opens a cluster at its own place
   (visible to the rows after it, in the same pass); otherwise it goes to the nearest mean.
3. Clusters without rows are dropped. The new means are implied by the new labels.
4. Repeat 2 and 3 until nothing changes.

Departs from the paper: distances that rounding cannot tell apart count as equal, and go to the
cluster with the lowest number. With the linear kernel the result is that of `DPMeans`.
"""

import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from madbayes._model.fitting import Options, begin, keep_choice, warn_if_unfinished
from madbayes._rows.checks import check_rows
from madbayes._rows.rows import Rows, count_different
from madbayes._rows.threads import workers
from madbayes._search.number import printed_number, search_number
from madbayes._search.price import Price, per_cluster
from madbayes.howmany.staircase import Staircase
from madbayes.kernel.base import KernelMixin
from madbayes.kernel.gram import Gram, sums_of
from madbayes.kernel.move_kernels import assign_or_open as assign_block
from madbayes.kernel.move_kernels import distances
from madbayes.kernel.path import kernel_path
from madbayes.kernel.space import KernelDivision, KernelSpace, features_of, kernel_search
from madbayes.kmeans.farthest import first_gap, largest_gap


def objective(K: np.ndarray, labels: np.ndarray, penalty: float) -> float:
    """J of a partition."""
    clusters = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    saved = sum(K[np.ix_(rows, rows)].sum() / len(rows) for rows in clusters)
    return float(np.trace(K) - saved + penalty * len(clusters))


def assign_or_open(
    gram: Gram, w: np.ndarray, now: KernelDivision, penalty: float, cap: int
) -> np.ndarray:
    """2. One pass over the rows, in their order; returns the new labels."""
    z = np.empty(gram.n, np.int64)
    opened, n_opened = np.empty(gram.n, np.int64), 0
    s = np.diagonal(now.links) / now.weights**2
    for a, b, block in gram.blocks():
        M = sums_of(block, w, now.labels, now.k)
        D = np.empty_like(M)
        distances(M, gram.diagonal[a:b], now.weights, s, D)
        rows = block.toarray() if sp.issparse(block) else block
        n_opened = assign_block(rows, a, D, gram.diagonal, s, w, opened, n_opened, penalty, cap, z)
    return z


def kernel_dp_means(
    space: KernelSpace, *, max_clusters: int | None, max_iter: int
) -> tuple[KernelDivision, list[float], int, bool]:
    """KJ Algorithm 1 in kernel space, on the rows of `space` in their order."""
    gram, w, penalty = space.gram, space.w, space.price.penalty
    cap = gram.n + 1 if max_clusters is None else max_clusters  # the first one may lose its rows
    now = space.division(np.zeros(gram.n, np.int64))  # 1.
    history: list[float] = []
    for n_iter in range(1, max_iter + 1):
        z = assign_or_open(gram, w, now, penalty, cap)  # 2.
        if np.array_equal(z, now.labels):
            return now, [*history, now.objective], n_iter, True  # 4.
        new = space.division(z)  # 3.
        if new.objective > now.objective + 1e-9 * abs(now.objective):
            warnings.warn(
                "the objective rose, so this kernel is not positive semidefinite and the printed "
                "algorithm does not apply; it stops here. algorithm='search' takes any kernel.",
                ConvergenceWarning,
                stacklevel=4,
            )
            return now, [*history, now.objective], n_iter, True
        now = new
        history.append(now.objective)
    return now, history, max_iter, False


class KernelDPMeans(KernelMixin):
    """DP-means in the space of a kernel: clusters of any shape that the kernel can see.

    Minimises the sum of squared distances to the means in kernel space plus `penalty` for each
    cluster (Kulis & Jordan 2012, 5.2).

    Use it for up to some ten thousand rows whose likeness a kernel describes better than a straight
    distance: histograms, or (by a matrix of kernel values) strings and graphs. Do not use it where
    the linear kernel would do (`DPMeans` is far faster), nor for large data: see Notes.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in units of squared distance in kernel space (with the "rbf"
        kernel no two rows are farther apart than 2). "auto" is described in Notes; "farthest-first"
        aims at `n_clusters_hint` clusters. See `DPMeans` for the scale of "search" and "paper".
    kernel : str or callable, default="rbf"
        A name of ``sklearn.metrics.pairwise.pairwise_kernels`` ("linear", "rbf", "laplacian",
        "poly", "sigmoid", "cosine", "chi2", "additive_chi2"), "precomputed" (X is the symmetric
        matrix of kernel values), or a function of two rows that returns a number.
    gamma : float, "scale" or None, default="scale"
        For "rbf", "laplacian", "poly", "sigmoid" and "chi2". "scale" is 1 / (columns × variance of
        X) ("laplacian": standard deviation; "chi2": 1); None is scikit-learn's 1 / columns.
    degree, coef0 : float
        For "poly" and "sigmoid".
    kernel_params : dict or None
        Further arguments of the kernel.
    algorithm : {"search", "paper"}, default="search"
        "search" looks for the lowest objective: at the end no move of one row, no row opened as a
        cluster of its own and no merge of two clusters lowers it. "paper" is KJ Algorithm 1 with
        distances in kernel space; it opens a cluster only where one row alone repays the penalty.
    max_clusters : int or None
        Never more clusters than this.
    n_clusters_hint : int or None
        A rough number of clusters, for "auto" and "farthest-first".
    n_init : int, default=1
        For "search": how many searches, from different seeds; the best is kept.
    effort : float, default=1
        For "search": its patience, as a multiple of the usual one.
    order : {"given", "random"}
        For "paper": the order in which rows are visited.
    max_iter : int, default=300
        For "paper": passes at most.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        By "search" from the largest cluster to the smallest.
    n_clusters_, penalty_, objective_, inertia_, objective_history_, n_iter_, converged_
        As in `DPMeans`; distances are those of kernel space.
    evidence_ : penalties.Choice
        With ``penalty="auto"``: how many clusters, the strength of the evidence, the runners-up
        (their scores are the widths of their steps).
    path_ : penalties.Staircase
        With ``penalty="auto"``: clusters against the penalty.
    n_features_in_, feature_names_in_

    Notes
    -----
    *Size.* Up to 8,192 rows the kernel matrix is held (512 MiB). Above that, blocks of it are
    computed anew for every pass over the rows: memory stays bounded and time grows with the square
    of the rows; more than 100,000 are refused. For more, approximate the kernel by features, as in
    the second example.

    *"auto"* takes the widest step of the staircase of Ward's merges in kernel space, if held-out
    rows confirm it or it is wider than noise can make it; 1 cluster otherwise. Round groups that
    are apart are found over a wide range of `gamma`. It does not choose `gamma`, and groups inside
    each other, as below, rarely make a wide step: give a penalty, or use
    ``SpectralDPMeans(kernel="nearest_neighbors")``.

    *Kernels that are not positive semidefinite* ("sigmoid", some precomputed ones) have no space in
    which distances live. "search" still ends in a minimum of J as written with kernel values, but
    `predict` need not repeat `labels_`.

    Examples
    --------
    Two rings, one inside the other:

    >>> import numpy as np
    >>> from madbayes import KernelDPMeans
    >>> rng = np.random.default_rng(0)
    >>> angle, radius = rng.uniform(0, 2 * np.pi, 300), np.repeat([1.0, 5.0], 150)
    >>> X = np.c_[radius * np.cos(angle), radius * np.sin(angle)] + rng.normal(0, 0.1, (300, 2))
    >>> model = KernelDPMeans(penalty=30.0, random_state=0).fit(X)
    >>> np.bincount(model.labels_[:150]).tolist(), np.bincount(model.labels_[150:]).tolist()
    ([0, 150], [150])
    >>> model.predict([[0.0, 1.2], [5.0, 0.0]]).tolist()
    [1, 0]

    The same approximately, in time that grows with the rows and not with their square:

    >>> from sklearn.kernel_approximation import Nystroem
    >>> from sklearn.pipeline import make_pipeline
    >>> from madbayes import DPMeans
    >>> features = Nystroem(gamma=0.04, n_components=100, random_state=0)
    >>> labels = make_pipeline(features, DPMeans(30.0, random_state=0)).fit_predict(X)
    >>> np.bincount(labels[:150]).tolist(), np.bincount(labels[150:]).tolist()
    ([150], [0, 150])
    """

    def __init__(
        self,
        penalty: float | Literal["auto", "farthest-first"] = "auto",
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        algorithm: Literal["search", "paper"] = "search",
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        n_init: int = 1,
        effort: float = 1.0,
        order: Literal["given", "random"] = "given",
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.n_init = n_init
        self.effort = effort
        self.order = order
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X (or the rows that the kernel matrix X is about)."""
        X = check_rows(self, X)
        used, w = self._used_rows(X, sample_weight)
        options = begin(self, "auto", "farthest-first")
        printed = self.algorithm == "paper"
        if printed and self.order == "random":
            shuffle = options.random_state.permutation(len(used))
            used, w = used[shuffle], w[shuffle]
        path = None
        with workers(self.n_jobs):
            gram = self._make_gram(X, used, w)
            needed = not printed or isinstance(options.penalty, str)
            features = features_of(gram, w) if needed else np.empty((0, 0))
            space = KernelSpace(gram, w, Price(1.0, gram.n), features)
            if options.penalty == "auto":
                rng = options.random_state
                path = kernel_path(gram, features, w, options.cap, options.hint, rng)
            solve = self._print if printed else self._search
            now, history, n_iter, converged, penalty = solve(space, options, path)
        warn_if_unfinished(self, converged)
        if path is not None:
            keep_choice(self, path, now.k, penalty)
        self._store_clusters(gram, w, now.labels, now.weights, np.diagonal(now.links))
        self.n_clusters_, self.penalty_ = now.k, penalty
        self.labels_ = self._all_labels(X, used, now.labels)
        self.inertia_ = now.inertia
        self.objective_ = now.inertia + penalty * now.k
        self.objective_history_ = np.array(history)
        self.n_iter_, self.converged_ = n_iter, converged
        self._calibrate_kernel(X, sample_weight)
        return self

    def _search(
        self, space: KernelSpace, options: Options, path: Staircase | None
    ) -> tuple[KernelDivision, list[float], int, bool, float]:
        """The search, at a penalty or for the number of clusters that was chosen."""
        common = options.for_search()
        if path is not None or options.penalty == "farthest-first":
            # Equal rows have features that are equal up to rounding, and make no further clusters.
            points = np.round(space.features / (np.abs(space.features).max() or 1.0), 9)
            number, first = count_different(points, options.hint or 1), None
            if path is not None:
                number, first = path.best().number, path.best().price
            found, history, penalty = search_number(
                space, number, first, max_clusters=options.cap, solve=kernel_search, **common
            )
        else:
            penalty = options.penalty
            space = replace(space, price=per_cluster(penalty, options.cap, space.n))
            found, history = kernel_search(space, **common)
        return found, history, len(history), True, penalty

    def _print(
        self, space: KernelSpace, options: Options, path: Staircase | None
    ) -> tuple[KernelDivision, list[float], int, bool, float]:
        """Algorithm 1, at a penalty or at one that gives the number of clusters that was chosen."""

        def solve(penalty: float) -> Any:
            priced = replace(space, price=Price(penalty, space.n))
            return kernel_dp_means(priced, max_clusters=options.cap, max_iter=options.max_iter)

        penalty = options.penalty
        if path is not None:
            number = path.best().number
            first = first_gap(Rows(space.features, weight=space.w), number)
            penalty, found = printed_number(solve, lambda found: found[0].k, number, first)
        else:
            if penalty == "farthest-first":
                penalty = largest_gap(Rows(space.features, weight=space.w), options.hint or 1)
            found = solve(penalty)
        return *found, penalty
