"""What estimators with medoids share: predict, transform, score."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._model.centers import CentersMixin
from madbayes._model.novelty_mixin import NoveltyMixin
from madbayes._rows.checks import check_weight
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.medoids.dissimilarity import (
    Metric,
    check_dissimilar,
    check_params,
    check_total,
    matrix,
    paid,
    part,
    to_points,
)
from madbayes.medoids.search import Medoids, by_size


class MedoidsMixin(CentersMixin):
    """Estimators with `medoid_indices_`."""

    metric: Metric  # type: ignore[assignment]
    metric_params: dict[str, Any] | None
    algorithm: str
    medoid_indices_: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Dissimilarities to the medoids, (n_rows, n_clusters).

        With metric="precomputed", X has the dissimilarities to all the rows of `fit`.
        """
        return self._to_medoids(self._new_rows(X))

    _distance_power = 1.0  # what the objective adds up is the dissimilarity itself

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_dissimilar(self, X, reset=False)

    def _gaps(self, X: Any) -> np.ndarray:
        return self._to_medoids(X)

    _closest = NoveltyMixin._closest

    def _held_out(
        self, X: Any, rows: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray
    ) -> np.ndarray:
        """A medoid is where it is whether a row is there or not; the medoids themselves are not
        held out."""
        if self.metric == "precomputed":  # without a copy of whole rows of the matrix
            own = np.asarray(X[rows, self.medoid_indices_[label]], np.float64)
        else:
            own = self._gaps(X[rows])[np.arange(len(rows)), label].astype(np.float64)
        own[np.isin(rows, self.medoid_indices_)] = np.nan
        return np.where(total[label] - weight <= 1e-12 * total[label], np.inf, own)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of dissimilarities to the nearest medoids: larger is better."""
        return -self._nearest(X, sample_weight)[1]

    def _nearest(self, X: Any, sample_weight: Any = None, **how: Any) -> tuple[np.ndarray, float]:
        """Labels and the sum of dissimilarities."""
        X = self._new_rows(X)
        return self._measure(X, check_weight(sample_weight, X.shape[0]))

    def _measure(self, X: Any, weight: np.ndarray | None) -> tuple[np.ndarray, float]:
        D = self._to_medoids(X)
        labels = D.argmin(axis=1).astype(np.int32)
        lowest = D[np.arange(len(D)), labels].astype(np.float64)
        return labels, paid(weight, lowest)

    def _to_medoids(self, X: Any) -> np.ndarray:
        if self.metric == "precomputed":
            return np.ascontiguousarray(X[:, self.medoid_indices_])
        with workers(self.n_jobs):
            return to_points(X, self.cluster_centers_, self.metric, self._metric_params)

    def _fit_medoids(
        self,
        X: Any,
        weight: np.ndarray | None,
        solve: Callable[[np.ndarray, np.ndarray], Medoids],
    ) -> list[float]:
        """Store the medoids that `solve(D, w)` finds among the rows that count; returns what the
        objective was on the way."""
        used = used_rows(X, weight)
        counted = part(X, used, self.metric)
        self._metric_params = check_params(counted, self.metric, self.metric_params)
        w = np.ones(used.size) if weight is None else weight[used]
        with workers(self.n_jobs):
            D = matrix(counted, self.metric, self._metric_params)
            check_total(D, w)
            found = solve(D, w)
            rows = by_size(D, w, found.rows) if self.algorithm == "search" else found.rows
        del D, counted
        self._store_medoids(X, used[rows])
        self.labels_, self.inertia_ = self._measure(X, weight)
        self.n_iter_, self.converged_ = found.n_iter, found.converged
        return found.history

    def _store_medoids(self, X: Any, medoids: np.ndarray) -> None:
        self.medoid_indices_ = medoids
        if self.metric == "precomputed":
            self.__dict__.pop("cluster_centers_", None)  # of an earlier fit by another metric
        else:
            source = Rows(X)
            self.cluster_centers_ = source.take(medoids).astype(source.dtype)

    @property
    def _n_features_out(self) -> int:
        return int(self.medoid_indices_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.positive_only = self.metric == "precomputed"
        tags.input_tags.sparse = self.metric != "precomputed"
        return tags


def used_rows(X: Any, weight: np.ndarray | None) -> np.ndarray:
    """The rows of positive weight."""
    return np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
