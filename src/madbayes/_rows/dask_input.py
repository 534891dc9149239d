"""Turn Dask arrays and data frames of any chunks, and weights, into a checked `DaskRows`."""

from itertools import pairwise
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from sklearn.utils.validation import validate_data

from madbayes._rows.checks import DTYPES, check_weight_range, check_weight_shape, check_zeros
from madbayes._rows.dask_executor import fetch, keep, remote, shares_wanted, task
from madbayes._rows.dask_table import (
    DaskRows,
    bundle,
    local_cuts,
    make_share,
)
from madbayes._rows.rows import NO_WEIGHT, Cut, Rows, Share, overlaps, segments


def open_dask(model: Any, X: Any, sample_weight: Any = None, *, unit: bool = False) -> DaskRows:
    """The checked rows of X and their weights. `model` learns the number and names of columns."""
    names = None if hasattr(X, "chunks") else X._meta
    X, chunks = as_array(X)
    head = np.empty((0, X.shape[1])) if names is None else names
    validate_data(model, head, skip_check_array=True)
    n = X.shape[0]
    if n == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    cuts = segments(n, 1)
    dtype = np.dtype(X.dtype if X.dtype in DTYPES else np.float64)
    enough = -(-n * X.shape[1] * dtype.itemsize // 2**27)  # 128 MB in a share, at most
    spans = bundle(cuts, max(shares_wanted(), enough))
    starts = np.r_[0, np.cumsum(chunks)]
    loaded = [
        task(load, block, str(X.dtype), str(dtype), at, int(starts[at]), X.shape[1])
        for at, block in enumerate(X.to_delayed().ravel())
    ]
    weights = spread_weight(sample_weight, n, spans)
    parts = overlaps([(int(a), int(b)) for a, b in pairwise(starts)], spans)
    shares = [
        task(
            *(first_share, local_cuts(cuts, span), span[0], weight),
            *(task(getitem, loaded[s], slice(a, b)) for s, a, b in each),
        )
        for span, weight, each in zip(spans, weights, parts, strict=True)
    ]
    if remote():
        shares = keep(shares)
        fetch([task(len, share) for share in shares])  # errors in X come before others
    kept = Rows(np.empty((1, 1), dtype)).dtype
    weighted = sample_weight is not None
    table = DaskRows(shares, spans, cuts, n, X.shape[1], kept, chunks, weighted)
    return weight_directions(table) if unit else table


def first_share(cuts: list[Cut], start: int, weight: np.ndarray, *parts: np.ndarray) -> Share:
    X = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return make_share(X, weight, cuts, start, False)


# metric="cosine": rows of zeros have no direction, so their weight becomes 0


def weight_directions(table: DaskRows) -> DaskRows:
    """`_rows.checks.weight_of_directions` for a Dask table."""
    zero = table.executor.ask(zeros, table.shares)
    number = sum(each.size for each in zero)
    if number:
        s = next(s for s, each in enumerate(zero) if each.size)
        check_zeros(number, table.n, int(table.spans[s][0] + zero[s][0]), 6)
    weighted = table.weighted or number > 0
    every = [weighted] * len(zero)
    return table.change(of_directions, zero, every, weighted=weighted, unit=True)


def zeros(share: Share) -> np.ndarray:
    """Whether each row of the share is zero, so that it has no direction."""
    return np.flatnonzero(~share.rows.X.any(axis=1))


def of_directions(share: Share, zero: np.ndarray, weighted: bool) -> Share:
    """The share with rows of length 1 and weight 0 for rows of zeros."""
    weight = share.weight
    if weighted:
        weight = share.weights().copy()
        weight[zero] = 0.0
    return make_share(share.rows.X, weight, share.cuts, share.start, True)


def as_array(X: Any) -> tuple[Any, tuple[int, ...]]:
    """A two-dimensional array whose chunks hold whole rows, and each chunk's number of rows."""
    if not hasattr(X, "chunks"):
        wrong = [name for name, kind in X.dtypes.items() if not is_number(kind)]
        if wrong:
            raise ValueError(
                f"the columns {wrong[:5]} of X do not hold numbers "
                f"({', '.join(str(X.dtypes[name]) for name in wrong[:5])}). Leave them out, or "
                "turn them into numbers first."
            )
        X = with_numbers(X).to_dask_array()
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X.shape={X.shape}. Reshape your "
            "data: rows are what is clustered, columns are what is known of them."
        )
    if not is_number(X.dtype):
        raise ValueError(f"X has the type {X.dtype}; it must hold numbers.")
    if np.isnan(X.shape[1]):
        raise ValueError(f"X.shape={X.shape}: the number of columns of X must be known.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    chunks = X.chunks[0]
    if np.isnan(chunks).any():
        chunks = tuple(fetch([task(len, block) for block in X.to_delayed().ravel()]))
        X = da.Array(X.dask, X.name, (chunks, X.chunks[1]), meta=X._meta)
    return X, tuple(int(size) for size in chunks)


def is_number(kind: Any) -> bool:
    return getattr(kind, "kind", "O") in "biuf"


def with_numbers(X: Any) -> Any:
    """A frame whose columns are of types that make one array of numbers.

    Columns of booleans and of pandas' own types, which may have gaps, become numbers of NumPy.
    """
    plain = {name: plain_type(kind) for name, kind in X.dtypes.items()}
    if all(X.dtypes[name] == kind for name, kind in plain.items()):
        return X
    return X.map_partitions(numbers_of, plain, meta=numbers_of(X._meta, plain))


def plain_type(kind: Any) -> np.dtype:
    """The type of NumPy for a column; float for whole numbers that may have gaps."""
    if isinstance(kind, np.dtype):
        return np.dtype(np.uint8) if kind.kind == "b" else kind
    narrow = kind.kind == "f" and kind.itemsize == 4
    return np.dtype(np.float32 if narrow else np.float64)


def numbers_of(frame: Any, plain: dict[Any, np.dtype]) -> Any:
    """A chunk in these types. A missing value becomes NaN, for which `load` raises an error."""
    changed = {
        name: frame[name].to_numpy(kind, **({} if kind.kind != "f" else {"na_value": np.nan}))
        for name, kind in plain.items()
        if frame[name].dtype != kind
    }
    return frame.assign(**changed)


def load(block: Any, declared: str, dtype: str, at: int, start: int, d: int) -> np.ndarray:
    """One checked chunk. An error message names the chunk."""
    here = f"chunk {at} of X (from row {start} on)"
    if not isinstance(block, np.ndarray):
        raise TypeError(
            f"{here} is a {type(block).__name__}, and numpy arrays are needed: "
            "X.map_blocks(lambda chunk: chunk.toarray()) makes sparse ones dense."
        )
    if block.ndim != 2 or block.shape[1] != d:
        raise ValueError(f"{here} has the shape {block.shape}, and X has {d} columns.")
    if not np.can_cast(block.dtype, np.dtype(declared), "safe"):
        raise TypeError(
            f"{here} holds {block.dtype}, and X says {declared}. Make them agree: "
            f"X.map_blocks(lambda chunk: chunk.astype({declared!r}), dtype={declared!r})."
        )
    rows = np.ascontiguousarray(block, dtype=np.dtype(dtype))
    if rows.dtype.kind == "f" and not np.isfinite(rows.sum(dtype=np.float64)):
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            what = "NaN" if np.isnan(rows[bad[0]]).any() else "infinity"
            raise ValueError(
                f"Input X contains {what}: {bad.size} of {len(rows)} rows of {here}, the first is "
                f"row {start + int(bad[0])}. Leave these rows out, or fill them in."
            )
    return rows


def spread_weight(sample_weight: Any, n: int, cuts: list[Cut]) -> list[Any]:
    """Weights in segments; checked as `_rows.checks.check_weight` does."""
    if sample_weight is None:
        return [NO_WEIGHT] * len(cuts)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n, float(sample_weight))  # type: ignore[arg-type]
    if hasattr(sample_weight, "to_dask_array"):
        sample_weight = sample_weight.to_dask_array(lengths=True)
    weight = da.asarray(sample_weight)
    if weight.ndim == 1 and np.isnan(weight.shape[0]):
        weight = weight.copy()
        weight.compute_chunk_sizes()
    check_weight_shape(weight, n)
    weight = weight.astype(np.float64).rechunk((tuple(b - a for a, b in cuts),))
    pieces = keep(list(weight.to_delayed().ravel()))
    ranges = np.array(fetch([task(low_and_high, piece) for piece in pieces]))
    check_weight_range(ranges[:, 0].min(), ranges[:, 1].max())
    return pieces


def low_and_high(weight: np.ndarray) -> tuple[float, float]:
    if np.isnan(weight).any():
        return np.nan, np.nan
    return float(weight.min(initial=np.inf)), float(weight.max(initial=0.0))
