"""A model together with what was done to its columns before the fit.

What the command line saves: scaling is part of the answer, so a prediction has to repeat it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from madbayes._storage.saving import SaveMixin


@dataclass(frozen=True)
class Column:
    """One column of the file and how it becomes numbers."""

    name: str
    categories: tuple[str, ...] | None = None  # of text: one 0/1 column for each
    fill: float | None = None  # for missing values

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that the model sees."""
        if self.categories is None:
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories)


@dataclass
class Prepared(SaveMixin):
    """A fitted model for rows in the units of the file.

    `predict`, `transform`, `novelty_score` and `score` take such rows and scale them as it was done
    for the fit; `cluster_centers_` are in these units too. All else is the attribute of `model`.
    """

    model: Any
    columns: tuple[Column, ...]
    mean: np.ndarray | None = None  # None: as they are in the file
    scale: np.ndarray | None = None
    options: dict[str, Any] | None = None  # how the file was read, for the next one

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The columns that the model sees, text columns taken apart."""
        return np.array([name for column in self.columns for name in column.names], dtype=object)

    @property
    def cluster_centers_(self) -> np.ndarray:
        """In the units of the file."""
        return self.in_units(self.model.cluster_centers_)

    def in_units(self, values: Any) -> np.ndarray:
        """From what the model sees back to the units of the file."""
        values = np.asarray(values, dtype=np.float64)
        if self.mean is None or self.scale is None:
            return values
        return values * self.scale + self.mean

    def scaled(self, X: Any) -> np.ndarray:
        """Rows in the units of the file as the model sees them."""
        names = self.feature_names_in_
        if hasattr(X, "columns") and not isinstance(X, np.ndarray):
            missing = [name for name in names if name not in list(X.columns)]
            if missing:
                raise ValueError(f"X lacks the columns {missing} that the model was fitted on.")
            X = X[list(names)]
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != len(names):
            raise ValueError(
                f"X.shape={X.shape}: the model was fitted on {len(names)} columns ("
                + ", ".join(names[:8])
                + ("…)." if len(names) > 8 else ").")
            )
        if self.mean is None or self.scale is None:
            return X
        return scale_rows(X, self.mean, self.scale)

    def predict(self, X: Any, **options: Any) -> np.ndarray:
        """The cluster of each row."""
        return self.model.predict(self.scaled(X), **options)

    def transform(self, X: Any) -> np.ndarray:
        """Distances to the centres (or features of the rows), in scaled units."""
        return self.model.transform(self.scaled(X))

    def novelty_score(self, X: Any) -> np.ndarray:
        """How usual each row is: see the model's."""
        return self.model.novelty_score(self.scaled(X))

    def score(self, X: Any) -> float:
        """The model's score of these rows."""
        return self.model.score(self.scaled(X))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return self.model._repr_mimebundle_(**kwargs)

    @property
    def _repr_html_(self) -> Any:
        return self.model._repr_html_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "model" not in vars(self):
            raise AttributeError(name)
        return getattr(self.model, name)


def scale_rows(
    X: np.ndarray, mean: np.ndarray, scale: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """(X - mean) / scale block by block, in the type of X; `out` may be X itself."""
    out = np.empty(X.shape, X.dtype if X.dtype.kind == "f" else np.float64) if out is None else out
    for start in range(0, len(X), 2**16):
        rows = slice(start, start + 2**16)
        out[rows] = (X[rows] - mean) / scale
    return out
