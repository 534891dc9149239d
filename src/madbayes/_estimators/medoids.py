"""What estimators with medoids share: predict, transform, score."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._engine.checks import check_weight
from madbayes._engine.dissimilarity import Metric, check_dissimilar, paid, to_points
from madbayes._engine.rows import Rows
from madbayes._engine.threads import workers
from madbayes._estimators.centers import CentersMixin


class MedoidsMixin(CentersMixin):
    """Estimators with `medoid_indices_`."""

    metric: Metric  # type: ignore[assignment]
    medoid_indices_: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Dissimilarities to the medoids, (n_rows, n_clusters).

        With metric="precomputed", X has the dissimilarities to all the rows of `fit`.
        """
        check_is_fitted(self)
        return self._to_medoids(check_dissimilar(self, X, reset=False))

    def predict(self, X: Any, novel: bool = False) -> np.ndarray:
        """The index of the nearest medoid for each row of X.

        With ``novel=True`` (and a penalty), -1 where the dissimilarity to it is more than
        `penalty_`: such a row would open a cluster of its own.
        """
        check_is_fitted(self)
        return super().predict(X, novel)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of dissimilarities to the nearest medoids: larger is better."""
        return -self._nearest(X, sample_weight)[1]

    def _nearest(
        self, X: Any, sample_weight: Any = None, penalty: float | None = None
    ) -> tuple[np.ndarray, float]:
        """Labels (-1 where the penalty is exceeded) and the sum of dissimilarities."""
        check_is_fitted(self)
        X = check_dissimilar(self, X, reset=False)
        return self._measure(X, check_weight(sample_weight, X.shape[0]), penalty)

    def _measure(
        self, X: Any, weight: np.ndarray | None, penalty: float | None = None
    ) -> tuple[np.ndarray, float]:
        D = self._to_medoids(X)
        labels = D.argmin(axis=1).astype(np.int32)
        lowest = D[np.arange(len(D)), labels].astype(np.float64)
        if penalty is not None:
            labels[lowest > penalty] = -1
        return labels, paid(weight, lowest)

    def _to_medoids(self, X: Any) -> np.ndarray:
        if self.metric == "precomputed":
            return np.ascontiguousarray(X[:, self.medoid_indices_])
        with workers(self.n_jobs) as run:
            return to_points(X, self.cluster_centers_, self.metric, self._metric_params, run)

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
