"""A table encoder and a model as one scikit-learn pipeline that predicts on raw tables."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from madbayes._storage.saving import SaveMixin
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.frame import Frame


class TablePipeline(SaveMixin, Pipeline):
    """A `TableEncoder` and a clustering: `predict` takes tables like the one of the fit.

    A `sklearn.pipeline.Pipeline` of the steps "table" and "clusters" that can also be saved
    (`save`, `madbayes.load`) and tells how usual rows are (`novelty_score`). Results of the model
    (`labels_`, `evidence_`, `path_`, …) are attributes of the pipeline, too.
    """

    @property
    def encoder(self) -> TableEncoder:
        return self.steps[0][1]

    @property
    def estimator(self) -> Any:
        return self.steps[-1][1]

    def shown_in_report(self, X: Any) -> tuple["InUnits", np.ndarray]:
        """The model and its rows as reports show them."""
        shown = InUnits(self)
        return shown, shown.values(self.encoder.fitting_frame(X))

    def novelty_score(self, X: Any) -> np.ndarray:
        """How usual each row is: a p-value, small for rows like none of the fit."""
        return self.estimator.novelty_score(self.encoder.transform(X))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not name.endswith("_") or "steps" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.steps[-1][1], name)


class InUnits:
    """A pipeline as reports and pictures see it: rows in the units of the table, without gaps.

    Categories are columns of 0 and 1, and missing cells show the mean of their column.
    """

    def __init__(self, pipeline: TablePipeline) -> None:
        self.model = pipeline.estimator
        self.encoder = pipeline.encoder

    @property
    def feature_names_in_(self) -> np.ndarray:
        return self.encoder.names_out("numeric")

    @property
    def scale(self) -> np.ndarray | None:
        """What columns were divided by; None where they keep their units."""
        return self.encoder.scale_

    def values(self, frame: Frame) -> np.ndarray:
        """The rows of a frame in units, gaps filled with means."""
        values = self.encoder.encode(frame, units=True, output="numeric")
        gaps = ~np.isfinite(values)
        if not gaps.any():
            return values
        there = np.maximum((~gaps).sum(axis=0), 1)
        mean = np.where(gaps, 0.0, values).sum(axis=0, dtype=np.float64) / there
        return np.where(gaps, mean, values)

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Rows in units as the model (or, for mixed tables, the map) sees them."""
        return self.encoder.scaled(values)
