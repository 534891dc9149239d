"""A Dask array or data frame as segments of rows on the workers.

The rows are cut where one machine cuts them (`_engine.rows.segments`), whatever the chunks are, so
that every sum is made of the same parts. Neighbouring chunks are joined for that once, when a fit
begins; the rows of a segment stay on their worker from then on.
"""

from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
from sklearn.utils.validation import validate_data

from madbayes._engine.checks import DTYPES, HEAVIEST
from madbayes._engine.rows import (
    ARRANGE_AT_ONCE,
    Rows,
    restore,
    segments,
    spatial_order,
    worth_arranging,
)
from madbayes.distributed.piece import NO_WEIGHT, taken
from madbayes.distributed.tasks import fetch, keep, remote, task

Cut = tuple[int, int]


@dataclass(frozen=True)
class SpreadTable:
    """Rows in segments; `chunks` are the rows of each chunk of X."""

    rows: list[Any]  # of each segment, (rows, d)
    weights: list[Any]  # of each segment; empty: all ones
    cuts: list[Cut]
    n: int
    d: int
    dtype: np.dtype  # of the rows as the kernels see them
    chunks: tuple[int, ...]
    unit: bool = False
    order: list[Any] | None = None  # where the rows of each block of `blocks` came from
    sparse = False
    sparsity = 1.0

    @property
    def weighted(self) -> bool:
        return self.weights[0] is not NO_WEIGHT

    def take(self, index: np.ndarray) -> np.ndarray:
        """Rows as a new float64 array."""
        return self.take_kept(index).astype(np.float64)

    def take_kept(self, index: np.ndarray) -> np.ndarray:
        """The same in the type of the rows."""
        out = np.empty((index.size, self.d), self.dtype)
        return self._take(self.rows, index, out, taken, self.unit)

    def take_weights(self, index: np.ndarray) -> np.ndarray:
        if not self.weighted:
            return NO_WEIGHT
        return self._take(self.weights, index, np.empty(index.size), np.take)

    def _take(
        self, pieces: list[Any], index: np.ndarray, out: np.ndarray, how: Any, *more: Any
    ) -> Any:
        at = np.searchsorted([b for _, b in self.cuts], index, side="right")
        places = {int(s): np.flatnonzero(at == s) for s in np.unique(at)}
        found = fetch(
            [task(how, pieces[s], index[p] - self.cuts[s][0], *more) for s, p in places.items()]
        )
        for p, values in zip(places.values(), found, strict=True):
            out[p] = values
        return out

    def all_rows(self) -> np.ndarray:
        """As they are; for tables that are small."""
        return np.concatenate(fetch(self.rows))

    def all_weights(self) -> np.ndarray:
        return np.concatenate(fetch(self.weights)) if self.weighted else NO_WEIGHT

    def labels(self, pieces: list[Any], dtype: Any = np.int32) -> Any:
        """A lazy array of what each segment says of its rows, in the order and chunks of X."""
        parts = [
            da.from_delayed(piece, (b - a,), dtype)
            for (a, b), piece in zip(self.cuts, pieces, strict=True)
        ]
        return da.concatenate(parts).rechunk((self.chunks,))

    # Rows near each other put next to each other, as `_engine.rows.arrange` does

    def arranged(self) -> "SpreadTable":
        """In an order in which neighbours are close together, where that pays."""
        if not worth_arranging(self.n, self.d):
            return self
        if self.n > ARRANGE_AT_ONCE:
            order = keep([task(spatial_order, rows) for rows in self.rows])
            rows = keep([task(in_order, r, o) for r, o in zip(self.rows, order, strict=True)])
            weights = self.weights
            if self.weighted:
                weights = [task(in_order, w, o) for w, o in zip(weights, order, strict=True)]
            return replace(self, rows=rows, weights=keep_weights(weights), order=order)
        together = keep([task(join, *self.rows)])[0]  # few columns: a worker has room for all
        whole = keep([task(spatial_order, together)])[0]
        rows = keep([task(in_order, together, task(part, whole, a, b)) for a, b in self.cuts])
        weights = self.weights
        if self.weighted:
            joined = task(join, *weights)
            weights = [task(in_order, joined, task(part, whole, a, b)) for a, b in self.cuts]
        return replace(self, rows=rows, weights=keep_weights(weights), order=[whole])

    def restored(self, pieces: list[Any]) -> list[Any]:
        """What each segment says of its rows, in the order of X."""
        if self.order is None:
            return pieces
        if self.n > ARRANGE_AT_ONCE:
            return [task(restore, p, o) for p, o in zip(pieces, self.order, strict=True)]
        whole = keep([task(restore, task(join, *pieces), self.order[0])])[0]
        return [task(part, whole, a, b) for a, b in self.cuts]


def join(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts)


def part(whole: np.ndarray, a: int, b: int) -> np.ndarray:
    return whole[a:b]


def in_order(rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows[order])


def keep_weights(weights: list[Any]) -> list[Any]:
    return weights if weights[0] is NO_WEIGHT else keep(weights)


# From what the user gave


def spread_table(
    model: Any, X: Any, sample_weight: Any = None, *, reset: bool = True
) -> SpreadTable:
    """X and the weights, checked, in segments. `model` learns the number and names of columns."""
    names = None if hasattr(X, "chunks") else X._meta
    X, chunks = as_array(X)
    head = np.empty((0, X.shape[1])) if names is None else names
    validate_data(model, head, reset=reset, skip_check_array=True)
    n = X.shape[0]
    if n == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    cuts = segments(n, 1)
    dtype = np.dtype(X.dtype if X.dtype in DTYPES else np.float64)
    blocks = X.to_delayed().ravel()
    starts = np.r_[0, np.cumsum(chunks)]
    loaded = [
        task(load, block, str(X.dtype), str(dtype), at, int(starts[at]), X.shape[1])
        for at, block in enumerate(blocks)
    ]
    rows = cut_anew(loaded, [(int(a), int(b)) for a, b in zip(starts, starts[1:])], cuts)
    if remote():
        rows = keep(rows)
        fetch([task(len, piece) for piece in rows])  # complaints about X come first
    weights = spread_weight(sample_weight, n, cuts)
    return SpreadTable(
        rows, weights, cuts, n, X.shape[1], Rows(np.empty((1, 1), dtype)).dtype, chunks
    )


def as_array(X: Any) -> tuple[Any, tuple[int, ...]]:
    """A two-dimensional array whose chunks have whole rows and known sizes; the rows of each."""
    if not hasattr(X, "chunks"):
        wrong = [name for name, kind in X.dtypes.items() if not is_number(kind)]
        if wrong:
            raise ValueError(
                f"the columns {wrong[:5]} of X do not hold numbers "
                f"({', '.join(str(X.dtypes[name]) for name in wrong[:5])}). Leave them out, or "
                "turn them into numbers first."
            )
        X = X.to_dask_array()
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X.shape={X.shape}. Reshape your data: "
            "rows are what is clustered, columns are what is known of them."
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
    return getattr(kind, "kind", "O") in "biuf" or str(kind) in ("boolean", "Float64", "Int64")


def load(block: Any, declared: str, dtype: str, at: int, start: int, d: int) -> np.ndarray:
    """One chunk, checked; complaints say which."""
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


def cut_anew(pieces: list[Any], old: list[Cut], new: list[Cut]) -> list[Any]:
    """The same rows in other pieces."""
    if old == new:
        return pieces
    out = []
    for a, b in new:
        parts = [
            piece if a <= first and last <= b else task(part, piece, max(a - first, 0), b - first)
            for piece, (first, last) in zip(pieces, old, strict=True)
            if first < b and a < last
        ]
        out.append(parts[0] if len(parts) == 1 else task(join, *parts))
    return out


def spread_weight(sample_weight: Any, n: int, cuts: list[Cut]) -> list[Any]:
    """Weights in segments; checked as `_engine.checks.check_weight` does."""
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
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight.shape={weight.shape} must be {(n,)}: one weight for each row of X."
        )
    weight = weight.astype(np.float64).rechunk((tuple(b - a for a, b in cuts),))
    pieces = keep(list(weight.to_delayed().ravel()))
    ranges = np.array(fetch([task(low_and_high, piece) for piece in pieces]))
    low, high = ranges[:, 0].min(), ranges[:, 1].max()
    if not np.isfinite(low + high):
        raise ValueError("Input sample_weight contains NaN or infinity.")
    if low < 0:
        raise ValueError(
            f"sample_weight has a negative value ({low:g}); weights count rows, so they must be "
            ">= 0. A weight of 0 leaves the row out."
        )
    if not 1 / HEAVIEST <= high <= HEAVIEST:
        raise ValueError(
            f"sample_weight reaches {high:.3g}; the largest weight must be between "
            f"{1 / HEAVIEST:g} and {HEAVIEST:g}."
        )
    return pieces


def low_and_high(weight: np.ndarray) -> tuple[float, float]:
    if np.isnan(weight).any():
        return np.nan, np.nan
    return float(weight.min(initial=np.inf)), float(weight.max(initial=0.0))
