"""Where k-means starts: `init` and `n_init`, and what its `tol` is relative to."""

from typing import Any

import numpy as np

from madbayes._engine.checks import check_choice, check_count
from madbayes._engine.partition import Partition
from madbayes._engine.rows import segments, unit_rows
from madbayes._engine.seeding import kmeans_plus_plus, random_rows, squared_distances


def count_starts(init: Any, n_init: Any) -> int:
    """How many starts `n_init` stands for."""
    if hasattr(init, "__array__") or isinstance(init, (list, tuple)):
        return 1
    if isinstance(init, str) and n_init == "auto":
        return 1 if init == "k-means++" else 10
    return 10 if n_init == "auto" else check_count("n_init", n_init)


def first_centers(
    init: Any, X: Any, partition: Partition, k: int, random_state: np.random.RandomState
) -> np.ndarray:
    """The centres that `init` draws, makes or is."""
    source, weight, unit = partition.source, partition.weight, partition.unit
    if isinstance(init, str):
        check_choice("init", init, "k-means++", "random")
        if init == "random":
            return random_rows(source, weight, k, random_state, partition.run)
        return kmeans_plus_plus(source, weight, k, random_state, partition.run)
    given = init(X, k, random_state) if callable(init) else init
    centers = np.array(given, dtype=np.float64, order="C")
    if centers.shape != (k, source.d):
        raise ValueError(
            f"init has shape {centers.shape}, but {k} centres of {source.d} features are needed: "
            f"{(k, source.d)}."
        )
    if not np.isfinite(centers).all():
        raise ValueError("init contains NaN or infinity; centres must be finite numbers.")
    if unit and not centers.any(axis=1).all():
        raise ValueError("init has a row of zeros, which has no direction (metric='cosine').")
    return unit_rows(centers) if unit else centers


def mean_variance(partition: Partition) -> float:
    """The mean over the columns of the variance of the rows, which scales `tol`."""
    mean = partition.frame.mean[None, :]
    source, weight = partition.source, partition.weight

    def partial(cut: tuple[int, int]) -> float:
        d2 = squared_distances(source, *cut, mean)[0]
        return float((weight[cut[0] : cut[1]] * d2 if weight.shape[0] else d2).sum())

    total = sum(partition.run(partial, segments(source.n, 1)))
    return total / (partition.frame.total_weight * source.d)
