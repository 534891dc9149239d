"""`SpectralDPMeans`: the steps of `spectral`, among rows or in sums of kernel values."""

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances_argmin

from madbayes._model.fitting import Options, begin, keep_choice
from madbayes._rows.checks import check_count, check_rows, dense
from madbayes._rows.threads import workers
from madbayes._search.driver import by_size, descend
from madbayes._search.number import between
from madbayes._search.price import fixed, per_cluster
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase
from madbayes.kernel.base import KernelMixin
from madbayes.kernel.gram import HELD_ROWS, Gram, is_all
from madbayes.kernel.path import kernel_path
from madbayes.kernel.space import KernelSpace, descend_kernel, features_of
from madbayes.kernel.spectral import centred_spectrum, cluster_rows, relaxed_bound
from madbayes.kernel.spectral_graph import graph_path, neighbour_graph
from madbayes.kernel.spectrum import Spectrum, linear_spectrum
from madbayes.kmeans.dense_space import DenseSpace


class SpectralDPMeans(KernelMixin):
    """DP-means by the eigenvectors of a kernel, and a bound on what any clustering can reach.

    Minimises the objective of `DPMeans` (of `KernelDPMeans` for a kernel other than "linear"): all
    eigenvectors with eigenvalues above `penalty` are the best relaxed solution (Kulis & Jordan
    2012, 5.1); their rows are clustered, and the result is polished by exact moves.

    Use it to know how far from the optimum a DP-means result can be at most (`relaxed_bound_`,
    `gap_`), to see in the spectrum which numbers of clusters the data separates (`plots.spectrum`),
    and when you have a kernel of your own and want its spectrum to decide. Do not use it for the
    lowest objective (`DPMeans` and `KernelDPMeans` search longer), nor for rows whose clusters are
    not round: `NeighborCut` looks for valleys, where ``kernel="nearest_neighbors"`` has only the
    gaps between eigenvalues.

    Parameters
    ----------
    penalty : float or "auto", default="auto"
        The cost of one more cluster, in squared-distance units. With "nearest_neighbors" between 0
        and 1: groups from which a random walk escapes with probability below 1 - `penalty` stay
        apart. "auto" is `penalties.path` for the linear kernel, a rule like that of `KernelDPMeans`
        for others, and the widest gap between eigenvalues for "nearest_neighbors".
    kernel : str or callable, default="linear"
        As in `KernelDPMeans` ("precomputed" may be sparse), or "nearest_neighbors": the graph of
        each row and its nearest ones, normalized (it cannot `predict`, `transform` or `score`).
    gamma, degree, coef0, kernel_params
        As in `KernelDPMeans`.
    n_neighbors : int, default=10
        For "nearest_neighbors"; the row itself counts.
    max_clusters : int or None
        Never more clusters than this.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        From the largest cluster to the smallest.
    eigenvalues_ : array of shape (r,)
        Those of the centred kernel matrix above `penalty_`, largest first.
    embedding_ : array of shape (n_rows, r)
        Their eigenvectors, one row for each row of X that counts; with weights divided by their
        square roots.
    spectrum_ : array
        All eigenvalues that were found, `eigenvalues_` first.
    relaxed_bound_ : float
        No division of these rows has a lower objective at `penalty_`.
    gap_ : float
        (`objective_` - `relaxed_bound_`) / `objective_`: at most this share could still be saved. 0
        proves that the clustering is optimal; the bound is rarely reached, so a gap does not prove
        that it is not.
    n_clusters_, penalty_, objective_, inertia_, objective_history_, n_iter_, converged_
        As in `DPMeans`. With "nearest_neighbors" the objective is the normalized cut plus
        (`penalty_` - 1) for each cluster, up to a constant.
    evidence_, path_ : penalties.Choice, penalties.Staircase
        With ``penalty="auto"``: how many clusters and how sure; clusters against the penalty.
    n_features_in_, feature_names_in_

    Notes
    -----
    The linear kernel needs the d×d scatter matrix only. Others need the n×n kernel matrix, for up
    to 8,192 rows; for more, put ``sklearn.kernel_approximation.Nystroem`` before the linear kernel,
    or use "nearest_neighbors" or a sparse matrix, for which Lanczos' method goes on until it passes
    below `penalty`.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans, SpectralDPMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 50, axis=0) + rng.normal(size=(150, 2))
    >>> model = SpectralDPMeans(penalty=200.0, random_state=0).fit(X)
    >>> model.n_clusters_, len(model.eigenvalues_)
    (3, 2)
    >>> model.relaxed_bound_ <= DPMeans(200.0, random_state=0).fit(X).objective_
    True
    """

    def __init__(
        self,
        penalty: float | Literal["auto"] = "auto",
        *,
        kernel: Any = "linear",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_neighbors: int = 10,
        max_clusters: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_neighbors = n_neighbors
        self.max_clusters = max_clusters
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X (or the rows that the kernel matrix X is about)."""
        X = check_rows(self, X)
        used, w = self._used_rows(X, sample_weight)
        options = begin(self, "auto")
        linear = isinstance(self.kernel, str) and self.kernel == "linear"
        with workers(self.n_jobs):
            fit = self._fit_rows if linear else self._fit_kernel
            path = fit(X, used, w, options)
        if path is not None:
            keep_choice(self, path, self.n_clusters_, self.penalty_)
        self.gap_ = max(self.objective_ - self.relaxed_bound_, 0.0) / abs(self.objective_)
        self.n_iter_, self.converged_ = len(self.objective_history_), True
        if not self._is_graph():
            self._calibrate_kernel(X, sample_weight)
        return self

    def _fit_rows(
        self, X: Any, used: np.ndarray, w: np.ndarray, options: Options
    ) -> Staircase | None:
        """The linear kernel: everything happens among the rows themselves."""
        X = dense(X, "SpectralDPMeans")
        self._kernel, rows = self._place(X, used, w)  # 1.
        path = None
        if options.penalty == "auto":
            path = find_path(rows, w, options.cap, None)
        scaled = rows * np.sqrt(w)[:, None] if (w != 1).any() else rows
        trace = float(np.einsum("ij,ij->", scaled, scaled))

        def spectrum(penalty: float) -> tuple[Spectrum, float]:
            return linear_spectrum(scaled, penalty), trace

        def polish(price: Any, z: np.ndarray) -> Any:
            space = DenseSpace(rows, w, price)
            start = space.division(z)
            start = space.merge(start) if start.k > price.cap else start
            history = [start.objective]
            return space, descend(space, start, options.random_state, history), history

        now, history = self._solve(spectrum, polish, w, options, path)
        rank = by_size(now.centers, now.weights)
        centers = now.centers[rank]
        gram, one = Gram.of_rows(self._kernel, centers), np.ones(now.k)
        self._rows = centers  # each cluster is represented by its mean
        self._store_clusters(gram, one, np.arange(now.k), one, gram.diagonal)
        self._store_labels(X, used, np.argsort(rank)[now.labels], history)
        return path

    def _fit_kernel(
        self, X: Any, used: np.ndarray, w: np.ndarray, options: Options
    ) -> Staircase | None:
        """Other kernels: everything happens in sums of kernel values."""
        rng, path = options.random_state, None
        if self._is_graph():
            rows = X if is_all(used, X) else X[used]
            n_neighbors = min(check_count("n_neighbors", self.n_neighbors), len(used))
            K, w = neighbour_graph(rows, w, n_neighbors, self.n_jobs)
            gram = Gram.of_matrix(K)
            self._rows = None
        else:
            self._check_size(X, used)
            gram = self._make_gram(X, used, w)
        if options.penalty == "auto" and self._is_graph():
            path = graph_path(gram, w, options.cap, rng)
        elif options.penalty == "auto":
            path = kernel_path(gram, features_of(gram, w), w, options.cap, None, rng)

        def spectrum(penalty: float) -> tuple[Spectrum, float]:
            return centred_spectrum(gram, w, penalty, rng)  # 1., 2.

        def polish(price: Any, z: np.ndarray) -> Any:
            features = np.zeros((gram.n, 1))
            if len(self.eigenvalues_):
                features = self.embedding_ * np.sqrt(self.eigenvalues_)
            space = KernelSpace(gram, w, price, features)
            return space, *descend_kernel(space, z, rng)

        now, history = self._solve(spectrum, polish, w, options, path)
        self._store_clusters(gram, w, now.labels, now.weights, np.diagonal(now.links))
        self._store_labels(X, used, now.labels, history)
        return path

    def _solve(
        self,
        spectrum: Any,
        polish: Any,
        w: np.ndarray,
        options: Options,
        path: Staircase | None,
    ) -> tuple[Any, list[float]]:
        """Steps 2 to 4; for a number that was chosen also where the polish finds another one."""
        rng, cap = options.random_state, options.cap
        penalty = options.penalty if path is None else path.best().price
        self._keep_spectrum(spectrum(penalty), w, penalty)  # 2.
        z = cluster_rows(self.embedding_, w, cap, rng)  # 3.
        _, now, history = polish(per_cluster(penalty, cap, len(w)), z)  # 4.
        if path is not None and now.k != path.best().number:
            space, now, history = polish(fixed(path.best().number, len(w)), now.labels)
            low, high = space.stable_penalties(now, rng)
            penalty = between(low, high, penalty, now.objective)
            history = [value + penalty * now.k for value in history]
            self._keep_spectrum(spectrum(penalty), w, penalty)
        self.n_clusters_, self.penalty_ = now.k, penalty
        return now, history

    def _keep_spectrum(self, found: tuple[Spectrum, float], w: np.ndarray, penalty: float) -> None:
        (self.spectrum_, vectors), trace = found
        self.eigenvalues_ = self.spectrum_[: vectors.shape[1]]
        self.embedding_ = vectors / np.sqrt(w)[:, None]
        self.relaxed_bound_ = relaxed_bound(trace, self.eigenvalues_, penalty)

    def _store_labels(self, X: Any, used: np.ndarray, z: np.ndarray, history: list[float]) -> None:
        if self._is_graph() and not is_all(used, X):  # rows of weight 0: as the nearest row
            self.labels_ = z[pairwise_distances_argmin(X, X[used])].astype(np.int32)
            self.labels_[used] = z
        else:
            self.labels_ = self._all_labels(X, used, z)
        self.objective_ = history[-1]
        self.inertia_ = history[-1] - self.penalty_ * self.n_clusters_
        self.objective_history_ = np.array(history)

    def _check_size(self, X: Any, used: np.ndarray) -> None:
        if len(used) > HELD_ROWS and not (self._is_precomputed() and sp.issparse(X)):
            raise ValueError(
                f"X has {len(used)} rows, and kernel={self.kernel!r} needs the matrix of all "
                f"pairs: at most {HELD_ROWS}. Put sklearn.kernel_approximation.Nystroem before "
                "kernel='linear', or use kernel='nearest_neighbors'."
            )

    def _is_graph(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "nearest_neighbors"
