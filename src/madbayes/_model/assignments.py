"""What models with features share: `components_`, and back from features to rows."""

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted


class AssignmentsMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Estimators with `components_` (A) and `assignments_` (Z)."""

    components_: np.ndarray
    assignments_: np.ndarray

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """The sums of features, ZA."""
        check_is_fitted(self)
        Z = check_array(Z, dtype=self.components_.dtype, ensure_min_features=0)
        if Z.shape[1] != self.components_.shape[0]:
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but the model has {self.components_.shape[0]} "
                "features; pass what transform returns."
            )
        return Z @ self.components_

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
