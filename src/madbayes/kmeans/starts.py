"""The starts of k-means: the parameters `init` and `n_init`."""

from typing import Any

import numpy as np

from madbayes._partition.partition import Partition
from madbayes._partition.seeding import kmeans_plus_plus, random_rows
from madbayes._rows.checks import check_choice, check_count
from madbayes._rows.rows import unit_rows


def count_starts(init: Any, n_init: Any) -> int:
    """The number of starts; resolves ``n_init="auto"``."""
    if hasattr(init, "__array__") or isinstance(init, (list, tuple)):
        return 1
    if isinstance(init, str) and n_init == "auto":
        return 1 if init == "k-means++" else 10
    return 10 if n_init == "auto" else check_count("n_init", n_init)


def first_centers(
    init: Any, X: Any, partition: Partition, k: int, random_state: np.random.RandomState
) -> np.ndarray:
    """The first centres: `init` names a method, is a function that makes them, or is an array."""
    d, unit = partition.rows.d, partition.unit
    if isinstance(init, str):
        check_choice("init", init, "k-means++", "random")
        draw = random_rows if init == "random" else kmeans_plus_plus
        return draw(partition.spread(k), k, random_state)
    given = init(X, k, random_state) if callable(init) else init
    centers = np.array(given, dtype=np.float64, order="C")
    if centers.shape != (k, d):
        raise ValueError(
            f"init has shape {centers.shape}, but {k} centres of {d} features are needed: {(k, d)}."
        )
    if not np.isfinite(centers).all():
        raise ValueError("init contains NaN or infinity; centres must be finite numbers.")
    if unit and not centers.any(axis=1).all():
        raise ValueError("init has a row of zeros, which has no direction (metric='cosine').")
    return unit_rows(centers) if unit else centers
