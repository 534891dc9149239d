"""Dissimilarities between rows by any metric."""

from collections.abc import Callable
from math import fsum
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import validate_data

from madbayes._partition.seeding import squared_distances
from madbayes._rows.checks import check_rows
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import together
from madbayes.medoids.medoid_kernels import symmetric

Metric = str | Callable[[np.ndarray, np.ndarray], float]
# By plain sums over the columns of two rows, in threads. scikit-learn takes these from a product of
# matrices, whose last digits depend on the shape of the matrices and on the processor.
DIRECT = ("euclidean", "l2", "nan_euclidean", "sqeuclidean", "cosine")
MATRIX_GIB = 8  # the largest matrix that is made
ROUNDING = 1e-6  # a negative value of at most this share of the largest is zero


def check_dissimilar(estimator: Any, X: Any, *, reset: bool = True) -> Any:
    """The rows of X, or with metric="precomputed" a matrix of dissimilarities (square for fit)."""
    if estimator.metric != "precomputed":
        return check_rows(estimator, X, reset=reset)
    X = validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32])
    if reset and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"metric='precomputed' needs a square matrix of dissimilarities, but X has shape "
            f"{X.shape}. Pass pairwise_distances(X), or name a metric to work on rows."
        )
    if X.min() < -ROUNDING * X.max():
        i, j = np.unravel_index(np.argmin(X), X.shape)
        raise ValueError(
            f"Negative values in data: X[{i}, {j}]={X[i, j]:g}. With metric='precomputed' X holds "
            "dissimilarities, which must be >= 0; turn similarities into, for example, X.max() - X."
        )
    if reset and np.diagonal(X).mean() > X.mean():
        raise ValueError(
            "metric='precomputed': X is larger on its diagonal than elsewhere, so it seems to hold "
            "similarities. Dissimilarities are small for rows that are alike; pass, for example, "
            "X.max() - X."
        )
    return without_rounding(X)


def without_rounding(D: np.ndarray) -> np.ndarray:
    """D with values that are negative by rounding (as in 1 - correlation) set to zero."""
    return np.maximum(D, 0) if D.min() < 0 else D


def check_params(X: Any, metric: Metric, params: Any) -> dict[str, Any]:
    """Options of the metric, with those that scikit-learn would take from the rows."""
    if params is not None and not isinstance(params, dict):
        raise TypeError(f"metric_params={params!r} must be a dict of options, or None.")
    params = dict(params or {})
    if params and (metric == "precomputed" or is_direct(metric)):
        raise ValueError(f"metric_params={params!r}: metric={metric!r} takes no options.")
    if sp.issparse(X):
        return params
    if metric == "seuclidean" and "V" not in params:
        params["V"] = np.var(in_order(X), axis=0, ddof=1, dtype=np.float64)
    if metric == "mahalanobis" and "VI" not in params:
        params["VI"] = np.linalg.inv(np.atleast_2d(np.cov(in_order(X).T, dtype=np.float64)))
    return params


def in_order(X: Any) -> Any:
    """Dense rows in C order: sums over columns have the same last digits for any memory layout."""
    return X if sp.issparse(X) else np.ascontiguousarray(X)


def matrix(X: Any, metric: Metric, params: dict[str, Any]) -> np.ndarray:
    """D[c, i]: the dissimilarity of row i to row c; read-only, C order, float32 or float64."""
    n = X.shape[0]
    if metric == "precomputed":
        D = np.ascontiguousarray(X)
        D = D if symmetric(frozen(D)) else np.ascontiguousarray(D.T)
        return frozen(D)
    source = Rows(X, unit=metric == "cosine")
    size = n * n * (source.dtype.itemsize if is_direct(metric) else 8)
    if size > MATRIX_GIB * 2**30:
        raise ValueError(
            f"The dissimilarities of {n} rows would take {size / 2**30:.1f} GiB, more than the "
            f"limit of {MATRIX_GIB} GiB. Fit a sample of the rows and use predict for the others, "
            "or pass a matrix of your own with metric='precomputed'; float32 rows with a Euclidean "
            "metric need half as much."
        )
    if not is_direct(metric):
        X = in_order(X)
        return frozen(checked(pairwise_distances(X, metric=metric, **params), metric))
    measure_to_fit(source)  # refuses what would over- or underflow
    D = np.empty((n, n), dtype=source.dtype)

    def partial(first: int) -> None:
        chosen = np.arange(first, min(first + 32, n))
        part = direct(source, first, n, source.take(chosen), metric)
        D[chosen, first:] = part
        D[first:, chosen] = part.T

    together(partial, range(0, n, 32))
    return frozen(checked(D, metric))


def part(X: Any, rows: np.ndarray, metric: Metric) -> Any:
    """X for some of its rows; X itself if that is all of them."""
    if len(rows) == X.shape[0]:
        return X
    return X[np.ix_(rows, rows)] if metric == "precomputed" else X[rows]


def to_points(X: Any, points: np.ndarray, metric: Metric, params: dict[str, Any]) -> np.ndarray:
    """(n, m) dissimilarities of the rows of X to m points."""
    unit = metric == "cosine"
    source = Rows(X, unit=unit)
    if not is_direct(metric):
        out = pairwise_distances(in_order(X), in_order(points), metric=metric, **params)
        return checked(out, metric).astype(source.dtype, copy=False)
    points = Rows(points, unit=unit).take(np.arange(len(points)))
    out = np.empty((source.n, points.shape[0]), dtype=source.dtype)

    def partial(cut: tuple[int, int]) -> None:
        for first in range(*cut, 1024):
            last = min(first + 1024, cut[1])
            out[first:last] = direct(source, first, last, points, metric).T

    together(partial, segments(source.n, 1))
    return checked(out, metric)


def direct(source: Rows, first: int, last: int, points: np.ndarray, metric: Metric) -> np.ndarray:
    """(m, last - first) dissimilarities of a range of rows to m points, by one of DIRECT.

    1 - cos is half the squared distance at length 1; a row of zeros is 1 away from all others.
    """
    out = squared_distances(source, first, last, points)
    if metric == "sqeuclidean":
        return out
    if metric != "cosine":
        return np.sqrt(out, out=out)
    out /= 2
    origin = np.zeros((1, source.d))
    empty = squared_distances(source, first, last, origin)[0] == 0
    out[(points == 0).all(axis=1)[:, None] != empty] = 1.0
    return out


def is_direct(metric: Metric) -> bool:
    return isinstance(metric, str) and metric in DIRECT


def check_total(D: np.ndarray, weight: np.ndarray) -> None:
    """Sums of weighted dissimilarities must neither overflow nor vanish."""
    highest, heaviest = float(D.max()), float(weight.max())
    with np.errstate(over="ignore"):
        most, least = np.sum(weight) * highest, heaviest * highest
    if not most < 1e307:
        raise ValueError(
            f"dissimilarities up to {highest:.3g} and weights up to {heaviest:.3g}: their sum "
            "would overflow float64. Divide sample_weight (or X) by a large number."
        )
    if highest > 0 and least < 1e-290:
        raise ValueError(
            f"dissimilarities up to {highest:.3g} and weights up to {heaviest:.3g}: their products "
            "would underflow float64. Multiply sample_weight (or X) by a large number."
        )


def paid(weight: np.ndarray | None, costs: np.ndarray) -> float:
    """Σ w·cost, rounded once: whatever the order of the rows, and rows of weight 0 change nothing.

    (A product of vectors is rounded as its length and the processor have it.)
    """
    return fsum((costs if weight is None else weight * costs).tolist())


def checked(D: np.ndarray, metric: Metric) -> np.ndarray:
    """D, if it holds dissimilarities."""
    low, high = D.min(), D.max()
    if not (low >= -ROUNDING * high and high < np.inf):
        raise ValueError(
            f"metric={metric!r} gave values from {low:g} to {high:g}; dissimilarities must be "
            "finite and >= 0. Values that overflow need X divided by a large number; a negative "
            "value or NaN is a matter of the metric."
        )
    return without_rounding(D)


def frozen(D: np.ndarray) -> np.ndarray:
    """A read-only view: one compiled version for all."""
    D = D.view(np.ndarray)
    D.flags.writeable = False
    return D
