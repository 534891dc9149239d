"""A model and its rows as a report sees them: names, labels, units, and a sample to draw."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._rows.checks import without_arrow

DRAWN = 20_000  # rows on the map
COMPARED = 2_000  # rows whose labels are predicted again
AGREE = 0.8  # less than this share of them the same: other rows, or rows on another scale
COUNTED = 100_000  # rows that means and distributions are taken from


@dataclass(frozen=True)
class Seen:
    """Everything about rows that the page needs."""

    model: Any  # the estimator itself
    of: str  # "cluster", "feature" or "community"
    names: tuple[str, ...]
    ids: Sequence[Any]
    id_name: str
    labels: np.ndarray  # of all rows; -1: none
    number: int
    sizes: np.ndarray
    counted: np.ndarray  # which rows `values` and `X` hold
    values: np.ndarray  # in the units of the file, dense
    X: np.ndarray  # what the model saw
    drawn: np.ndarray  # positions among `counted`
    done: dict[str, str]  # what was done to columns before they were compared
    graph: Any = None  # the adjacency matrix, where the rows are the nodes of a graph

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def is_sample(self) -> bool:
        return len(self.counted) < self.n


def see(model: Any, X: Any, ids: Any, id_name: str) -> Seen:
    """Bring a model and the rows it is shown with into one form."""
    if hasattr(model, "shown_in_report"):  # a pipeline on raw tables
        model, X = model.shown_in_report(X)
    elif hasattr(model, "steps"):
        model = ScaledByPipeline(model)
    inner = getattr(model, "model", model)  # that of a `Prepared`
    of = "feature" if hasattr(inner, "components_") else "cluster"
    if hasattr(inner, "conductance_") and not hasattr(inner, "predict"):
        of = "community"
    X = without_arrow(X)
    names = _names(model, X)
    n = X.shape[0]
    labels = _labels(inner, model, X, n, of)
    number = int(inner.n_components_ if of == "feature" else inner.n_clusters_)
    sizes = np.bincount(labels[labels >= 0], minlength=number)
    if of == "feature" and len(inner.assignments_) == n:
        sizes = np.asarray(inner.assignments_).sum(axis=0)
    if ids is not None and len(ids) != n:
        raise ValueError(f"ids has {len(ids)} entries for the {n} rows of X.")
    counted = _even(n, COUNTED)
    if of == "community":
        values = np.zeros((len(counted), 0))
        names = ()
    else:
        values = _dense(X, counted)
    seen = model.scaled(values) if hasattr(model, "scaled") else values
    return Seen(
        inner,
        of,
        names,
        range(1, n + 1) if ids is None else list(ids),
        id_name,
        labels,
        number,
        sizes,
        counted,
        values,
        seen,
        _even(len(counted), DRAWN),
        _done(model, names),
        sp.csr_array(X) if of == "community" else None,
    )


class ScaledByPipeline:
    """A scikit-learn pipeline: rows are shown as given, and compared as its last step sees them."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline, self.model = pipeline, pipeline[-1]
        if hasattr(pipeline, "feature_names_in_"):
            self.feature_names_in_ = pipeline.feature_names_in_

    def scaled(self, values: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the values have no names
            return _dense(self.pipeline[:-1].transform(values), np.arange(len(values)))

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.pipeline.predict(X))


def _done(model: Any, names: Sequence[str]) -> dict[str, str]:
    if hasattr(model, "done"):
        return dict(model.done)
    scaled = hasattr(model, "scaled") and getattr(model, "scale", None) is not None
    return dict.fromkeys(names, "standardized") if scaled else {}


def _names(model: Any, X: Any) -> tuple[str, ...]:
    names = getattr(X, "columns", None)
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(X.shape[1])]
    return tuple(str(name) for name in names)


def _labels(inner: Any, model: Any, X: Any, n: int, of: str) -> np.ndarray:
    if of == "feature":
        Z = np.asarray(inner.assignments_ if len(inner.assignments_) == n else model.transform(X))
        _, kinds = np.unique(Z.astype(bool), axis=0, return_inverse=True)
        order = np.argsort(np.argsort(-np.bincount(kinds.ravel()), kind="stable"))
        return order[kinds.ravel()]
    labels = getattr(inner, "labels_", None)
    if labels is None or len(labels) != n:
        if not hasattr(model, "predict"):
            raise ValueError(f"X has {n} rows, and the model was fitted on {len(inner.labels_)}.")
        return _predicted(model, X).astype(np.int64)
    labels = np.asarray(labels, dtype=np.int64)
    check_together(inner, model, X, labels, of)
    return labels


def _predicted(model: Any, X: Any) -> np.ndarray:
    with warnings.catch_warnings():  # a table may give names to the columns of an array
        warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
        return np.asarray(model.predict(X))


def check_together(inner: Any, model: Any, X: Any, labels: np.ndarray, of: str) -> None:
    """Refuse rows that are not those of the fit, such as raw rows for a model of scaled rows."""
    if of != "cluster" or not hasattr(model, "predict"):
        return
    if inner.__sklearn_tags__().input_tags.pairwise or hasattr(inner, "partial_fit"):
        return  # a matrix of pairs; or a stream, whose clusters have moved since
    some = _even(len(labels), COMPARED)
    part = X.iloc[some] if hasattr(X, "iloc") else X[some]
    try:
        again = _predicted(model, part)
    except AttributeError:  # a kernel without distances to other rows
        return
    own = labels[some]
    agree = float(np.mean(again[own >= 0] == own[own >= 0])) if (own >= 0).any() else 1.0
    if agree < AGREE:
        raise ValueError(
            f"model and X do not belong together: predict(X) repeats only {agree:.0%} of the "
            f"model's labels_. Pass X as the model was fitted on it (scaled or reduced in the same "
            "way), or the whole pipeline with its own rows."
        )


def _even(n: int, most: int) -> np.ndarray:
    """All positions, or an even selection of so many."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _dense(X: Any, rows: np.ndarray) -> np.ndarray:
    if sp.issparse(X):
        part = X.tocsr()[rows]
        if part.shape[0] * part.shape[1] > 2**26:
            raise ValueError(
                f"X of shape {X.shape} is sparse and too wide for a report: pass fewer rows or "
                "columns."
            )
        return np.asarray(part.toarray(), dtype=np.float64)
    part = X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]
    return np.asarray(part, dtype=np.float64)
