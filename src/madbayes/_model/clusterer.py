"""What all clusterings with a distance to their clusters share."""

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from madbayes._model.callbacks import CallbacksMixin
from madbayes._model.layers import LayersMixin
from madbayes._model.novelty_mixin import NoveltyMixin
from madbayes._rows.checks import check_rows
from madbayes._storage.saving import SaveMixin


class Clusterer(
    SaveMixin,
    LayersMixin,
    NoveltyMixin,
    CallbacksMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Base of the estimators with centres, medoids or means in kernel space."""

    n_jobs: int | None
    labels_: np.ndarray
    n_clusters_: int
    penalty_: float
    objective_: float
    inertia_: float
    objective_history_: np.ndarray
    n_iter_: int
    converged_: bool

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit and return `labels_`."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit and return the distances of the rows of X to the clusters, as `transform`."""
        return self.fit(X, sample_weight=sample_weight)._transform_fitted(X)

    def _transform_fitted(self, X: Any) -> np.ndarray:
        """Of the rows of the fit."""
        return self.transform(X)

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_rows(self, X, reset=False)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
