"""What samples of a Dirichlet process mixture say of other rows."""

from collections.abc import Iterator
from math import log, pi
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from madbayes.gibbs.base import GibbsMixin


def posterior(
    mean: np.ndarray, count: np.ndarray, sigma: float, rho: float
) -> tuple[np.ndarray, np.ndarray]:
    """What the rows of each cluster say of its mean: where it is, and its variance."""
    variance = sigma * rho / (sigma + rho * count)
    return (count * variance / sigma)[:, None] * mean, variance


def check_start(init: Any, n: int) -> np.ndarray:
    """Labels to start from."""
    if isinstance(init, str) and init == "one":
        return np.zeros(n, dtype=np.int64)
    labels = np.asarray(init)
    if labels.shape != (n,):
        raise ValueError(
            f"init={init!r} must be 'one' or an array of {n} labels, one for each row of X."
        )
    return np.unique(labels, return_inverse=True)[1]


class PredictiveMixin(ClusterMixin, GibbsMixin):
    """Estimators with `label_samples_`, `center_samples_` and what goes with them."""

    rho: float
    labels_: np.ndarray
    n_clusters_: int
    label_samples_: np.ndarray
    n_clusters_samples_: np.ndarray
    center_samples_: np.ndarray
    sigma_samples_: np.ndarray
    _log_alpha: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster of `labels_` for each row of X."""
        return self.predict_proba(X).argmax(axis=1).astype(np.int32)

    def predict_proba(self, X: Any) -> np.ndarray:
        """How probably each row of X belongs to each cluster of `labels_`, (n_rows, n_clusters_).

        The average over all samples. Samples do not share their clusters, so a cluster of a sample
        speaks for those clusters of `labels_` that its rows are in, each for its share: the
        probability that a row drawn from the new row's cluster has that label. That a row belongs
        to none of the clusters is left aside; `score_samples` tells.
        """
        X = self._check_new(X)
        total = np.zeros((len(X), self.n_clusters_))
        for labels, count, log_density, _ in self._predictive(X):
            together = np.zeros((len(count), self.n_clusters_))
            np.add.at(together, (labels, self.labels_), 1.0)
            total += softmax(log_density, axis=1) @ (together / count[:, None])
        return total / len(self.label_samples_)

    def score_samples(self, X: Any) -> np.ndarray:
        """log density of each row of X, averaged over all samples, new clusters included."""
        X = self._check_new(X)
        total = np.full(len(X), -np.inf)
        for _, _, log_density, log_new in self._predictive(X):
            here = np.logaddexp(logsumexp(log_density, axis=1), log_new)
            total = np.logaddexp(total, here)
        return total - log(len(self.label_samples_))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`: larger is better."""
        return float(self.score_samples(X).mean())

    def _check_new(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._table(X, reset=False)

    def _predictive(self, X: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Of each sample: labels, sizes, log P(x, c) of each row and cluster, and of a new one."""
        n, d = self.label_samples_.shape[1], X.shape[1]
        ends = np.cumsum(self.n_clusters_samples_)
        norm = np.einsum("ij,ij->i", X, X)
        for s, labels in enumerate(self.label_samples_):
            mean = self.center_samples_[ends[s] - self.n_clusters_samples_[s] : ends[s]]
            count = np.bincount(labels)
            sigma, log_alpha = self.sigma_samples_[s], self._log_alpha[s]
            center, variance = posterior(mean, count, sigma, self.rho)
            wide, narrow = sigma + self.rho, sigma + variance
            log_density = cdist(X, center, "sqeuclidean") / (-2 * narrow)
            log_density += np.log(count) - 0.5 * d * np.log(2 * pi * narrow)
            log_new = log_alpha - 0.5 * d * log(2 * pi * wide) - norm / (2 * wide)
            log_total = np.logaddexp(log(n), log_alpha)
            yield labels, count, log_density - log_total, log_new - log_total
