"""Elliptical means: each cluster has a covariance of its own.

The default (`algorithm="search"`) minimises, over all divisions of the rows,

    J = Σ_n w_n [(x_n - μ)ᵀΣ⁻¹(x_n - μ) + log|Σ| - 2 log π]                    (of x_n's cluster)
        + Σ_k [tr(ΦΣ_k⁻¹) + ν log|Σ_k| - ν (d + log|Φ/ν|)] + penalty·k

the *classification likelihood* of a Gaussian mixture (Celeux & Govaert 1992), times -2; the prior
of BKJ Sup. E on the covariances, which forbids collapse (`covariance_penalty` is ν, Φ is
ν·`reg_covar` times the variance of each column), counted from what a cluster without rows pays; and
the papers' penalty.

For a division the best parameters are the means, Σ_k = (S_k + Φ)/(W_k + ν) and π_k = W_k/W.

BKJ let all variances go to zero together, and then log|Σ_k| is counted once for a cluster instead
of once for a row (`paper.py`, the objective as printed). One large cluster and several tiny
ones can then be the minimum, whatever the data: here every row pays for the volume it lies in.

Files: the objective and its moves are in `space.py`, the search in `search.py`, the number of
clusters in `path.py`, the printed algorithm in `paper.py`.
"""

from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from madbayes._model.centers import CentersMixin
from madbayes._model.fitting import begin, keep_choice, warn_if_unfinished
from madbayes._model.novelty_mixin import Closest, without_ellipse
from madbayes._rows.checks import (
    DTYPES,
    check_container,
    check_count,
    check_weight,
    without_arrow,
)
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.elliptical import ellipse_kernels as kernels
from madbayes.elliptical.paper import print_ellipses
from madbayes.elliptical.path import find_ellipses
from madbayes.elliptical.space import Ellipses


class EllipticalMeans(CentersMixin):
    """K-means with a covariance for each cluster: ellipses of any direction, size and share.

    A row goes to the cluster in which it is most likely, by hard assignments, and the number of
    clusters need not be known. It answers the questions that `sklearn.mixture.GaussianMixture` with
    BIC is used for, in a fraction of the time; use the mixture where clusters overlap so much that
    probabilities are wanted rather than labels.

    Parameters
    ----------
    n_clusters : int or None
        The number of clusters, if it is known. With a number as penalty: the largest allowed.
    penalty : float or "auto", default="auto"
        Without `n_clusters`: the cost of one more cluster, in the unit of squared Mahalanobis
        distances (-2 log-likelihood). "auto" takes (d(d+3)/2 + 1)·log n, the parameters of a
        cluster times log n (but at least 12.5): the objective is then ICL, which is BIC for hard
        assignments (Biernacki, Celeux & Govaert 2000). For "paper" it is a penalty at which that
        algorithm finds as many, or nearly.
    covariance_penalty : float or None
        λ² of BKJ, the weight of log|Σ_k| in the prior, as a number of rows. None is 1, and for
        "paper" `reg_covar` times the total weight.
    reg_covar : float, default=0.1
        The covariance of the prior, as a share of the variance of each column (Φ = λ² times this).
        For "paper" Φ is this share of the scatter of all rows. The larger it is, the rounder the
        clusters.
    algorithm : {"search", "paper"}, default="search"
        "search" ends where no move of one row lowers the objective (nor, with a penalty, a row
        opened as a cluster or a merge of two), and cuts of every cluster were tried in vain.
        "paper" is BKJ Sup. E as printed, with another objective (see Notes).
    max_clusters : int or None
        With a penalty: never more clusters than this.
    n_clusters_hint : int or None
        With "auto": a rough number; only two thirds to three halves of it are considered.
    n_init : int, default=1
        For "search": so many starts, of which the best is taken.
    effort : float, default=1
        For "search": its patience, as a multiple of the usual one.
    min_cluster_size : int or None
        With `n_clusters`: a cluster of so many different rows gives none away. None is 1, and
        n_features + 1 for "paper", where clusters would collapse.
    max_iter : int, default=300
        Passes at most.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Threads; None uses all cores. The result is the same to the bit for any value.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features)
        By "search" from the largest cluster to the smallest.
    covariances_ : array of shape (n_clusters_, n_features, n_features), Σ_k in the units of X
    weights_ : array of shape (n_clusters_,), the share of each cluster
    labels_, n_clusters_
    penalty_, covariance_penalty_ : float
        The values used; `penalty_` is 0 when the number of clusters was given.
    evidence_ : penalties.Choice
        With "auto": how many clusters, the strength of the evidence, the runners-up.
    path_ : penalties.Staircase
        With "auto": clusters against the penalty; `path_.plot()` draws it.
    objective_ : float
        J, with `penalty_` times `n_clusters_`. It can be negative, like any log-density.
    inertia_ : float
        Sum of (weighted) squared Mahalanobis distances to the centres.
    objective_history_ : array
        The objective after each pass; never rises.
    n_iter_, converged_, n_features_in_, feature_names_in_

    Notes
    -----
    Columns are standardized inside, so units do not matter. Rows are copied as float64; a pass
    takes time n·k·d². More than 5,000 rows: the search sees a sample, the last passes see all.
    "auto" assumes clusters like Gaussians: uniform or heavy-tailed ones may be cut in pieces.

    The objective as printed by Broderick, Kulis & Jordan counts the logarithm of the volume once
    for each cluster, not once for each row; its minimum is often one large cluster and several tiny
    ones, so "paper" is for comparison (adjusted Rand index on iris with three clusters: 0.43, by
    "search" 0.90).

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import EllipticalMeans
    >>> rng = np.random.default_rng(0)
    >>> flat, tall = rng.normal(size=(200, 2)) * [9, 1], rng.normal(size=(200, 2)) * [1, 9]
    >>> X = np.vstack([flat, tall + [20, 20]])
    >>> model = EllipticalMeans(random_state=0).fit(X)
    >>> model.n_clusters_, model.evidence_.strength, np.bincount(model.labels_).tolist()
    (2, 'strong', [201, 199])
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        penalty: float | Literal["auto"] = "auto",
        covariance_penalty: float | None = None,
        reg_covar: float = 0.1,
        algorithm: Literal["search", "paper"] = "search",
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        n_init: int = 1,
        effort: float = 1.0,
        min_cluster_size: int | None = None,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.penalty = penalty
        self.covariance_penalty = covariance_penalty
        self.reg_covar = reg_covar
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.n_init = n_init
        self.effort = effort
        self.min_cluster_size = min_cluster_size
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        X = self._check_rows(X)
        weight = check_weight(sample_weight, X.shape[0])
        options = begin(self, "auto")
        used = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
        self._check_number(used.size)
        w = np.ones(used.size) if weight is None else weight[used]
        with workers(self.n_jobs):
            self._standardize(X[used], w)
            Y = self._standardized(X[used])
            solve = print_ellipses if self.algorithm == "paper" else find_ellipses
            number = self.n_clusters if options.penalty == "auto" else None
            if number is None:
                options = options._replace(cap=self.n_clusters or options.cap)
            found = solve(
                Y,
                w,
                options,
                n_clusters=number,
                reg_covar=float(self.reg_covar),
                covariance_penalty=self.covariance_penalty,
                min_cluster_size=self.min_cluster_size,
            )
        warn_if_unfinished(self, found.converged)
        self._store(X, w, used, found)
        if found.path is not None:
            keep_choice(self, found.path, self.n_clusters_, found.penalty)
        self._calibrate(X, self.labels_, weight)
        return self

    def _store(self, X: np.ndarray, w: np.ndarray, used: np.ndarray, found: Ellipses) -> None:
        now = found.division
        self._means, self._level = now.C, found.level
        self._inverse = np.linalg.inv(found.covariances)
        self.labels_ = np.empty(X.shape[0], np.int32)
        self.labels_[used] = now.labels
        if used.size < X.shape[0]:
            left_out = np.setdiff1d(np.arange(X.shape[0]), used)
            self.labels_[left_out] = (self._distances(X[left_out]) + self._level).argmin(axis=1)
        own = self._distances(X[used])[np.arange(used.size), now.labels]
        self.inertia_ = float((w * own).sum())
        self._store_centers(now.C * self._scale + self._offset, Rows(X).dtype)
        self.covariances_ = found.covariances * np.outer(self._scale, self._scale)
        self.weights_ = now.W / now.W.sum()
        self.n_clusters_ = now.k
        self.penalty_ = found.penalty
        self.covariance_penalty_ = found.nu
        self.objective_history_ = np.array(found.history)
        self.objective_ = float(found.history[-1])
        self.n_iter_ = len(found.history) - 1 + found.converged  # the last pass found nothing
        self.converged_ = found.converged

    def transform(self, X: Any) -> np.ndarray:
        """Mahalanobis distances to the centres, (n_rows, n_clusters)."""
        X = self._new_rows(X)
        return np.sqrt(self._distances(X)).astype(Rows(X).dtype, copy=False)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus what the rows of X pay: larger is better.

        Distance, volume and share as in the objective; for "paper" the squared distances alone.
        """
        return -self._nearest(X, sample_weight)[1]

    def _new_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._check_rows(X, reset=False)

    def _gaps(self, X: Any) -> np.ndarray:
        return self._distances(X)

    def _closest(self, X: Any) -> Closest:
        X = self._new_rows(X)
        labels, d2 = self._nearest(X)[0], self._gaps(X)
        return Closest(labels, d2[np.arange(len(d2)), labels], lambda rows: self._gaps(X[rows]))

    def _held_out(
        self, X: Any, rows: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray
    ) -> np.ndarray:
        """Without the row, mean and covariance change: see `without_ellipse`."""
        d2 = self._gaps(X[rows])[np.arange(len(rows)), label]
        return without_ellipse(d2, label, weight, total, X.shape[1])

    def _nearest(self, X: Any, sample_weight: Any = None, **how: Any) -> tuple[np.ndarray, float]:
        X = self._new_rows(X)
        weight = check_weight(sample_weight, X.shape[0])
        paid = self._distances(X) + self._level
        labels = paid.argmin(axis=1).astype(np.int32)
        lowest = paid[np.arange(len(paid)), labels]
        return labels, float((lowest if weight is None else weight * lowest).sum())

    def _check_number(self, n: int) -> None:
        for name in ("reg_covar", "covariance_penalty"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 < value < np.inf) and (name == "reg_covar" or value is not None):
                raise ValueError(f"{name}={value!r} must be a number > 0.")
        if self.min_cluster_size is not None:
            check_count("min_cluster_size", self.min_cluster_size)
        if self.n_clusters is None:
            return
        k = check_count("n_clusters", self.n_clusters)
        if k > n:
            raise ValueError(f"n_clusters={k} must be <= n_samples={n}: a cluster needs a row.")
        for name in ("max_clusters", "n_clusters_hint"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} would be ignored, because n_clusters={k} says "
                    "how many clusters there are. Give one of them."
                )

    def _check_rows(self, X: Any, reset: bool = True) -> np.ndarray:
        X = check_container(without_arrow(X))
        with np.errstate(over="ignore", invalid="ignore"):  # as in `check_rows`
            return validate_data(self, X, reset=reset, dtype=DTYPES)

    def _standardize(self, X: np.ndarray, weight: np.ndarray) -> None:
        """Mean and deviation of each column; a constant column is left as it is."""
        frame = measure_to_fit(Rows(X, weight=weight))
        self._offset, self._scale = frame.mean, np.ones(X.shape[1])
        variance = np.average(self._standardized(X) ** 2, axis=0, weights=weight)
        varies = (X.max(axis=0) > X.min(axis=0)) & (variance > 0)
        self._scale = np.where(varies, np.sqrt(variance), 1.0)

    def _standardized(self, X: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((np.asarray(X, np.float64) - self._offset) / self._scale)

    def _distances(self, X: np.ndarray) -> np.ndarray:
        """Squared Mahalanobis distances to the centres."""
        out = np.empty((X.shape[0], len(self._means)))
        kernels.quadratic(self._standardized(X), self._means, self._inverse, out)
        return np.maximum(out, 0.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
