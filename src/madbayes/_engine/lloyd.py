"""A few Lloyd passes and nearest centres on an array, for algorithms that need them as a step."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from madbayes._engine.assignment import FEW_ROWS, is_small
from madbayes._engine.frame import Frame
from madbayes._engine.partition import Partition
from madbayes._engine.rows import Rows
from madbayes._engine.threads import Run
from madbayes._kernels.moves import means
from madbayes._kernels.plain import nearest_by_products


def serial(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """`run` without threads, for work that is itself one item among many."""
    return [function(item) for item in items]


def nearest(
    X: Any,
    centers: np.ndarray,
    run: Run = serial,
    *,
    unit: bool = False,
    frame: Frame | None = None,
) -> np.ndarray:
    """The nearest centre of each row (`unit`: of its direction); `frame` if it is known."""
    partition = Partition(Rows(X, unit=unit), None, run, frame, once=True, errors=False)
    partition.assign(np.asarray(centers, dtype=np.float64))
    return partition.labels


def lloyd_passes(
    X: Any,
    centers: np.ndarray,
    weight: np.ndarray | None,
    passes: int,
    run: Run = serial,
    unit: bool = False,
    frame: Frame | None = None,
    gain: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, float]:
    """At most so many passes; clusters without rows are dropped. Labels, centres, squared error.

    It ends too when a pass lowers the error by less than a share `gain` of it.
    """
    partition = Partition(Rows(X), weight, run, frame, unit=unit)
    before = np.inf
    for _ in range(passes):
        if partition.assign(centers) == 0 or before - partition.sse < gain * partition.sse:
            break
        before = partition.sse
        centers = partition.filled_means(centers)
    else:
        partition.assign(centers)
    return partition.labels, centers, partition.sse


def lloyd_labels(
    X: np.ndarray,
    centers: np.ndarray,
    weight: np.ndarray,
    passes: int,
    run: Run = serial,
    unit: bool = False,
) -> np.ndarray:
    """The labels of `lloyd_passes`, without gaps.

    Few rows in many columns would compile the kernels for large tables: BLAS does it for them.
    """
    if unit or len(X) > FEW_ROWS or is_small(len(X), *centers.shape):
        return lloyd_passes(X, centers, weight, passes, run, unit)[0]
    rows = np.ascontiguousarray(X, dtype=np.float64)
    z, k = nearest_by_products(rows, centers)
    for _ in range(passes):
        before = z
        z, k = nearest_by_products(rows, means(rows, weight, z, k, False)[0])
        if np.array_equal(z, before):
            break
    return z


def nearest_bounds(
    X: Any,
    labels: np.ndarray,
    centers: np.ndarray,
    run: Run = serial,
    frame: Frame | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances to the own centre (at most this) and to any other one (at least this)."""
    partition = Partition(Rows(X), None, run, frame, once=True)
    partition.assign(centers)
    upper, lower = partition.squared_bounds()
    moved = partition.labels != labels  # the nearest is another one: it need not be near at all
    upper[moved], lower[moved] = np.inf, 0.0
    return upper, lower
