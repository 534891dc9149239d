"""metric="cosine": rows of zeros have no direction, so their weight becomes 0."""

import warnings
from dataclasses import replace

import numpy as np

from madbayes.distributed.table import SpreadTable
from madbayes.distributed.tasks import fetch, keep, task


def weight_directions(table: SpreadTable) -> SpreadTable:
    """`_engine.checks.weight_of_directions`."""
    zero = fetch([task(zeros, rows) for rows in table.rows])
    number = sum(each.size for each in zero)
    table = replace(table, unit=True)
    if not number:
        return table
    if number == table.n:
        raise ValueError(
            "all rows of X are zeros: they have no direction, so metric='cosine' cannot compare "
            "them."
        )
    s = next(s for s, each in enumerate(zero) if each.size)
    warnings.warn(
        f"{number} rows of X are all zeros (the first is row {table.cuts[s][0] + zero[s][0]}): "
        "they have no direction, so they are left out of the fit and get the label 0.",
        stacklevel=4,
    )
    whole = zip(table.weights, zero, table.cuts, strict=True)
    return replace(table, weights=keep([task(left_out, w, at, b - a) for w, at, (a, b) in whole]))


def zeros(rows: np.ndarray) -> np.ndarray:
    return np.flatnonzero(~rows.any(axis=1))


def left_out(weight: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    weight = weight.copy() if weight.shape[0] else np.ones(size)
    weight[at] = 0.0
    return weight
