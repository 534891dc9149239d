"""What a fitted model does with a Dask table: lazy, chunk by chunk, since rows do not influence
each other."""

from typing import Any

import dask.array as da
import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from madbayes._rows.dask_executor import fetch, same, task
from madbayes._rows.dask_input import as_array, load, spread_weight


def blocks_of(model: Any, X: Any) -> tuple[list[Any], tuple[int, ...], Any, Any]:
    """Chunks of checked rows, their sizes, X as an array, and its names if it has any."""
    check_is_fitted(model)
    names = None if hasattr(X, "chunks") else X._meta
    X, chunks = as_array(X)
    head = np.empty((0, X.shape[1])) if names is None else names
    validate_data(model, head, reset=False, skip_check_array=True)
    starts = np.r_[0, np.cumsum(chunks)]
    dtype = str(X.dtype)
    blocks = [
        task(load, block, dtype, dtype, at, int(starts[at]), X.shape[1])
        for at, block in enumerate(X.to_delayed().ravel())
    ]
    return blocks, chunks, X, None if names is None else list(names.columns)


def map_rows(model: Any, name: str, X: Any, *args: Any, **options: Any) -> Any:
    """A lazy array of what the method says of each row."""
    blocks, chunks, X, names = blocks_of(model, X)
    sample = np.zeros((1, X.shape[1]), X.dtype)
    if options.get("groups") is not None:
        options["groups"] = check_groups(options["groups"], sum(chunks))
    meta = apply(model, name, sample, names, args, rows_of(options, 0, 1))
    shape = meta.shape[1:]
    ends = np.cumsum(chunks)
    lean = task(same, without_labels(model))
    parts = [
        da.from_delayed(
            task(
                apply, lean, name, block, names, args, rows_of(options, ends[at] - size, ends[at])
            ),
            (size, *shape),
            meta.dtype,
        )
        for at, (block, size) in enumerate(zip(blocks, chunks, strict=True))
    ]
    return da.concatenate(parts)


def score(model: Any, name: str, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """The sum over the chunks."""
    blocks, chunks, X, names = blocks_of(model, X)
    ends = np.cumsum(chunks)
    cuts = [(int(b - size), int(b)) for b, size in zip(ends, chunks, strict=True)]
    weights = spread_weight(sample_weight, int(ends[-1]), cuts)
    lean = task(same, without_labels(model))
    parts = [
        task(apply_weighted, lean, name, block, names, weight)
        for block, weight, size in zip(blocks, weights, chunks, strict=True)
        if size
    ]
    return float(sum(fetch(parts)))


def check_groups(groups: Any, n: int) -> np.ndarray:
    """The groups of all rows, here."""
    values = np.asarray(groups.compute() if hasattr(groups, "compute") else groups)
    if values.shape != (n,):
        raise ValueError(f"groups has shape {values.shape}, but X has {n} rows.")
    return values


def rows_of(options: dict, a: int, b: int) -> dict:
    """The options for some of the rows."""
    groups = options.get("groups")
    return options if groups is None else {**options, "groups": groups[a:b]}


def without_labels(model: Any) -> Any:
    """The model without what only speaks of the rows of the fit."""
    lean = type(model)(**model.get_params(deep=False))
    if hasattr(model, "_finish_novelty"):
        model._finish_novelty()
    heavy = ("labels_", "local_labels_", "assignments_", "path_", "_probabilities", "_finest")
    vars(lean).update({k: v for k, v in vars(model).items() if k not in heavy})
    return lean


def apply(model: Any, name: str, rows: Any, names: Any, args: tuple, options: dict) -> Any:
    if len(rows) == 0:
        one = apply(model, name, np.zeros((1, rows.shape[1]), rows.dtype), names, args, options)
        return one[:0]
    return getattr(model, name)(named(rows, names), *args, **options)


def apply_weighted(model: Any, name: str, rows: Any, names: Any, weight: np.ndarray) -> float:
    if weight.shape[0] and not weight.any():
        return 0.0
    return getattr(model, name)(
        named(rows, names), sample_weight=weight if weight.shape[0] else None
    )


def named(rows: np.ndarray, names: list[str] | None) -> Any:
    """With the names of the columns, which scikit-learn compares with those of the fit."""
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=names)
