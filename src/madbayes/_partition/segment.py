"""What is found out about the rows of one segment, or settled for all: steps of `partition`.

Rows of a segment can be in this process or on another machine; these functions are the same there.
"""

import numpy as np

from madbayes._partition.seeding import squared_distances
from madbayes._rows.row_kernels import distances_to, open_clusters, row_errors
from madbayes._rows.rows import Rows


def scatter(source: Rows, weight: np.ndarray, mean: np.ndarray, cut: tuple[int, int]) -> float:
    """Σ w ‖x - mean‖² of a segment."""
    d2 = squared_distances(source, *cut, mean)[0]
    return float((weight[cut[0] : cut[1]] * d2 if weight.shape[0] else d2).sum())


def own_distances(
    block: np.ndarray, weight: np.ndarray, labels: np.ndarray, centers: np.ndarray
) -> np.ndarray:
    """The squared distance of each row to the centre of its label; 0 for rows of weight 0."""
    d2 = np.empty(len(labels))
    row_errors(block, labels, np.ascontiguousarray(centers, dtype=np.float64), d2)
    return np.where(weight == 0, 0.0, d2) if weight.shape[0] else d2


def open_by_rule(
    X: np.ndarray,
    weight: np.ndarray,
    labels: np.ndarray,
    centers: np.ndarray,
    penalty: float,
    limit: int,
) -> np.ndarray:
    """Which rows of X open a cluster, one after the other (KJ Algorithm 1)."""
    opened = np.empty(min(limit, len(X)), dtype=np.int64)
    exact = np.ascontiguousarray(centers)
    return opened[: open_clusters(X, weight, labels, exact, penalty, limit, opened)]


def half_gaps(exact: np.ndarray, new: np.ndarray, scale: float) -> np.ndarray:
    """(k, m) half the distances between centres and new ones, scaled."""
    gap = np.empty((new.shape[0], exact.shape[0]))
    distances_to(exact, new, gap)
    return 0.5 * scale * np.sqrt(np.ascontiguousarray(gap.T))
