"""The checks that estimators make before they fit.

Messages name the parameter, the value received, what is accepted, and the way out.
"""

import warnings
from datetime import date
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from madbayes._rows.blocks import READERS, Blocks

# Types that are kept and converted block by block; all other types become float64 at once.
DTYPES = [np.float64, np.float32, np.float16, np.uint8, np.int8, np.uint16, np.int16]

DENSE_VALUES = 2**28  # a CSR matrix up to this size may be made dense


def check_rows(estimator: BaseEstimator, X: Any, *, reset: bool = True) -> Any:
    """X as a 2-d array or CSR matrix of finite numbers, copied only where it has to be.

    A table in blocks (`madbayes.blocks`) is for estimators with `_reads_blocks` only.
    """
    if is_spread(X):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, and {type(estimator).__name__} needs the rows in "
            "this process: X.compute() brings them here. KMeans, DPMeans, HardHDP, KFeatures and "
            "BPMeans take Dask tables."
        )
    if isinstance(X, Blocks):
        return check_blocks(estimator, X, reset)
    X = check_pattern(check_container(without_arrow(X)))
    with np.errstate(over="ignore", invalid="ignore"):  # the sum that tells whether all are finite
        try:
            X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=DTYPES)
        except (ValueError, TypeError) as error:
            if hint := column_without_numbers(X):
                raise ValueError(f"{error}\n{hint}") from error
            raise
    return canonical(X)


def column_without_numbers(X: Any) -> str:
    """A sentence that names the column with text, dates or missing values, and what reads it.

    It is empty if there is no such column.
    """
    if sp.issparse(X) or len(getattr(X, "shape", ())) != 2:
        return ""
    names = list(getattr(X, "columns", range(X.shape[1])))
    cells = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    way = (
        "madbayes.explore(table) clusters tables with text and gaps as they are, and "
        "madbayes.TableEncoder turns them into numbers."
    )
    for name, column in zip(names, cells.T, strict=True):
        if any(isinstance(cell, date | np.datetime64) for cell in column[:100]):
            return f"Column {name!r} holds dates: {way}"
        if column.dtype.kind in "OUS":
            text = [cell for cell in column.tolist() if isinstance(cell, str)]
            if text:
                return f"Column {name!r} holds text such as {text[0][:40]!r}: {way}"
            # Neither NaN nor pandas' NA equals itself.
            gaps = sum(cell is None or (cell == cell) is not True for cell in column.tolist())
        else:
            gaps = int(np.isnan(column).sum()) if column.dtype.kind == "f" else 0
        if gaps:
            return f"Column {name!r} has {gaps} missing cell{'s' if gaps > 1 else ''}: {way}"
    return ""


def is_spread(X: Any) -> bool:
    """Whether X is a table of Dask, whose rows are on workers."""
    homes = {kind.__module__.partition(".")[0] for kind in type(X).__mro__}
    return not homes.isdisjoint(("dask", "dask_expr"))


def check_table(X: Any) -> Any:
    """`check_rows` for functions that are not estimators."""
    if isinstance(X, Blocks):
        return X.check()
    X = check_pattern(check_container(without_arrow(X)))
    with np.errstate(over="ignore", invalid="ignore"):
        X = check_array(X, accept_sparse="csr", dtype=DTYPES)
    return canonical(X)


def check_blocks(estimator: Any, X: Blocks, reset: bool) -> Any:
    """A table in blocks, if the estimator reads blocks. The estimator learns the column names."""
    if not getattr(estimator, "_reads_blocks", False):
        raise TypeError(
            f"{type(estimator).__name__} needs the rows in memory, and X is a table in blocks. "
            f"{READERS}; X[rows] is an array of some rows."
        )
    rows = X.check()
    names = None if X.names is None else np.array(X.names, dtype=object)
    before = getattr(estimator, "feature_names_in_", None)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        if names is not None:
            estimator.feature_names_in_ = names
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    elif names is not None and before is not None and list(names) != list(before):
        raise ValueError(
            f"X has the columns {list(names)[:8]}, and the model was fitted on {list(before)[:8]}."
        )
    return rows


def without_arrow(X: Any) -> Any:
    """Turn a pyarrow table into a data frame; return anything else unchanged."""
    return X.to_pandas() if hasattr(X, "to_pandas") and hasattr(X, "column_names") else X


def check_container(X: Any) -> Any:
    """X, or an error if X holds several tables, of which the caller has to name one."""
    if hasattr(X, "obsm") and hasattr(X, "obs"):  # AnnData of the single-cell libraries
        places = [f"X.obsm[{name!r}]" for name in X.obsm]
        ways = ", ".join([*places, "X.X"]) if places else "X.X"
        raise TypeError(
            f"X is an {type(X).__name__} object, which holds several tables: pass one of them, "
            f"{ways}. Coordinates such as obsm['X_pca'] are usually what is clustered."
        )
    return with_vectors(X) if hasattr(X, "dtypes") and hasattr(X, "columns") else X


def with_vectors(frame: Any) -> Any:
    """A data frame whose only column holds vectors (embeddings) as an array of them.

    Beside other columns vectors are refused: their scale has to be chosen.
    """
    names = [name for name in frame.columns if holds_vectors(frame[name])]
    if not names:
        return frame
    if len(frame.columns) > 1:
        raise ValueError(
            f"the column {names[0]!r} of X holds vectors beside other columns: pass the vectors "
            f"alone, np.stack(X[{names[0]!r}]), or bring them to the scale of the others first."
        )
    vectors = [np.asarray(row) for row in frame[names[0]]]
    sizes = {row.shape for row in vectors}
    if len(sizes) > 1:
        raise ValueError(
            f"the column {names[0]!r} of X holds vectors of different lengths "
            f"({', '.join(str(size[0]) for size in sorted(sizes))}): one length is needed."
        )
    return np.stack(vectors)


def holds_vectors(column: Any) -> bool:
    """Whether the cells are sequences of numbers."""
    first = column[0] if hasattr(column, "to_arrow") else column.iloc[0] if len(column) else None
    return isinstance(first, (list, tuple, np.ndarray)) or hasattr(first, "to_arrow")


def check_pattern(X: Any) -> Any:
    """X, or an error if it is CSR or CSC and its `indices` or `indptr` lie outside of the matrix.

    scipy does not check them, and the kernels would read and write beyond the ends of arrays.
    """
    if not sp.issparse(X) or X.format not in ("csr", "csc"):
        return X
    lines, places = X.shape if X.format == "csr" else X.shape[::-1]
    start, stored = X.indptr, min(X.indices.size, X.data.size)
    sound = start.size == lines + 1 and start[0] == 0 and start[-1] <= stored
    sound = sound and bool((start[1:] >= start[:-1]).all())
    used = X.indices[: start[-1]] if sound else X.indices
    if not sound or (used.size and not (0 <= used.min() and used.max() < places)):
        raise ValueError(
            f"X is a {X.format.upper()} matrix of shape {X.shape} whose indices or indptr point "
            "outside it. Build it again from its rows and columns, for example with "
            "scipy.sparse.coo_array((values, (rows, columns)), shape)."
        )
    return X


def canonical(X: Any) -> Any:
    """CSR with sorted indices and without duplicates, float32 or float64. X is not changed."""
    if not sp.issparse(X):
        return X
    X = sp.csr_array(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def dense(X: Any, who: str) -> np.ndarray:
    """X as a dense array, for algorithms that cannot use a sparse matrix."""
    if not sp.issparse(X):
        return X
    n, d = X.shape
    if n * d > DENSE_VALUES:
        raise ValueError(
            f"{who} works on dense rows, and this sparse matrix of shape {(n, d)} would have "
            f"{n * d:.2g} values. Use DPMeans, or reduce the columns first, for example with "
            "sklearn.decomposition.TruncatedSVD."
        )
    return X.toarray()


def check_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights as float64, or None if all weights are 1."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real) and not isinstance(sample_weight, bool):
        sample_weight = np.full(n, float(sample_weight))
    weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    check_weight_shape(weight, n)
    check_weight_range(weight.min(), weight.max(), f" at row {weight.argmin()}")
    return weight


def check_weight_shape(weight: Any, n: int) -> None:
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight.shape={weight.shape} must be {(n,)}: one weight for each row of X."
        )


def check_weight_range(low: float, top: float, where: str = "") -> None:
    """Raise an error unless weights from `low` to `top` can be used; `where` the lowest one is."""
    heaviest = 1e100  # the square of the largest weight, times squared distances, must be a number
    if not np.isfinite(low + top):
        raise ValueError("Input sample_weight contains NaN or infinity.")
    if low < 0:
        raise ValueError(
            f"sample_weight has a negative value ({low:g}{where}); weights count rows, so they "
            "must be >= 0. A weight of 0 leaves the row out."
        )
    if top == 0:
        raise ValueError("sample_weight: all weights are zero, so no row is left to fit.")
    if not 1 / heaviest <= top <= heaviest:
        raise ValueError(
            f"sample_weight reaches {top:.3g}; the largest weight must be between {1 / heaviest:g} "
            f"and {heaviest:g}, or products of weights leave the range of float64. Divide the "
            f"weights (and the penalty) by {top:.0e}."
        )


def rows_of_zeros(X: Any) -> np.ndarray:
    """Whether each row of X is zero, so that it has no direction."""
    if sp.issparse(X):
        return np.asarray(abs(X).max(axis=1).toarray().ravel() == 0)
    return np.concatenate([~X[a : a + 8192].any(axis=1) for a in range(0, X.shape[0], 8192)])


def weight_of_directions(
    X: Any, weight: np.ndarray | None, *, quiet: bool = False, up: int = 0
) -> Any:
    """For metric="cosine": rows of zeros have no direction, so their weight becomes 0.

    `up`: the number of calls between `fit` and this function, for the line that a warning names.
    """
    zero = rows_of_zeros(X)
    if not zero.any():
        return weight
    check_zeros(int(zero.sum()), len(zero), int(np.argmax(zero)), None if quiet else 4 + up)
    weight = np.where(zero, 0.0, 1.0 if weight is None else weight)
    if weight.max() == 0:
        raise ValueError("the rows of X with a weight > 0 are all zeros: they have no direction.")
    return weight


def check_zeros(number: int, n: int, first: int, stacklevel: int | None) -> None:
    """Raise an error if all n rows are zeros, and warn if some are; `first` is one of them."""
    if number == n:
        raise ValueError(
            "all rows of X are zeros: they have no direction, so metric='cosine' cannot compare "
            "them."
        )
    if stacklevel is not None:
        warnings.warn(
            f"{number} rows of X are all zeros (the first is row {first}): they have no direction, "
            "so they are left out of the fit and get the label 0.",
            stacklevel=stacklevel,
        )


def check_penalty(penalty: Any, *names: str, of: str = "cluster", unit: str = "") -> Any:
    """A positive finite float, or one of the allowed names. `unit`: if not squared distances."""
    if isinstance(penalty, str) and penalty in names:
        return penalty
    accepted = " or ".join(["a number > 0", *(repr(name) for name in names)])
    meaning = f"It is the cost of one more {of}, in {unit or 'squared-distance units'}"
    if isinstance(penalty, bool) or not isinstance(penalty, Real):
        raise TypeError(f"penalty={penalty!r} must be {accepted}. {meaning}.")
    if not 0 < float(penalty) < np.inf:
        finder = "farthest_first(X, n_clusters)" if of == "cluster" else "feature_path(X)"
        way = "" if unit else f"; penalties.{finder} helps to find one"
        raise ValueError(f"penalty={penalty!r} must be {accepted}. {meaning}{way}.")
    return float(penalty)


def check_count(name: str, value: Any, *, low: int = 1, why: str = "") -> int:
    """A whole number >= low."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} must be a whole number >= {low}. {why}".rstrip())
    if value < low:
        raise ValueError(f"{name}={value!r} must be >= {low}. {why}".rstrip())
    return int(value)


def is_cosine(metric: Any) -> bool:
    """Whether rows and centres are taken at length 1."""
    return check_choice("metric", metric, "euclidean", "cosine") == "cosine"


def check_choice(name: str, value: Any, *choices: str) -> str:
    """One of the names in `choices`."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}.")
    return str(value)
