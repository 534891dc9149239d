"""What is sure to be of no use, and need not be tried: splits of clusters, moves of rows."""

from typing import Any

import numpy as np

from madbayes._partition import moves
from madbayes._partition.lloyd_kernels import pairs_of
from madbayes._partition.partition import is_small
from madbayes._search.division import Division

MOST_COLUMNS = 128  # whose scatter matrix costs less than to try splits
SURE = 1e-6  # what rounding may do to its eigenvalues is less than this
ROUNDING = 1e-9  # of a distance, with room
ROWS_AT_ONCE = 1024  # rows that are added up in float32


def indivisible(
    X: np.ndarray, w: np.ndarray, rows: np.ndarray, center: np.ndarray, penalty: float
) -> bool:
    """Whether no division of `rows`, with their mean, repays a penalty for each further cluster.

    k clusters save at most the k - 1 largest eigenvalues of the scatter matrix (Ding & He 2004,
    "K-means clustering via principal component analysis").
    """
    n, d = len(rows), X.shape[1]
    if not penalty > 0 or d > min(n, MOST_COLUMNS):
        return False
    if X.dtype == np.float32 and n > ROWS_AT_ONCE:
        scatter, wrong = rough_scatter(X, w, rows, center)
        if np.linalg.eigvalsh(scatter)[-1] + wrong < penalty:
            return True
    X, w = X[rows], w[rows]
    X = X - np.average(X, axis=0, weights=w)
    scatter = (w[:, None] * X).T @ X
    return bool(np.linalg.eigvalsh(scatter)[-1] < penalty * (1 - SURE))


def rough_scatter(
    X: np.ndarray, w: np.ndarray, rows: np.ndarray, center: np.ndarray
) -> tuple[np.ndarray, float]:
    """The scatter of float32 rows about a point near the mean, by products of float32, and how far
    off its eigenvalues can be.

    About another point the scatter is larger. A sum of m products is wrong by about m roundings of
    each, some of them of the factors; the products of all columns add up to the trace. A copy of
    all rows would take longer than the products.
    """
    d, center, w = X.shape[1], center.astype(np.float32), w[rows]
    weighted, room = w.min() < w.max(), np.empty((ROWS_AT_ONCE, X.shape[1]), np.float32)
    scatter = np.zeros((d, d))
    for a in range(0, len(rows), ROWS_AT_ONCE):
        here = rows[a : a + ROWS_AT_ONCE]
        part = X.take(here, axis=0, out=room[: len(here)], mode="clip")  # else it is copied twice
        part -= center
        if weighted:
            part *= np.sqrt(w[a : a + ROWS_AT_ONCE]).astype(np.float32)[:, None]
        scatter += part.T @ part
    scatter *= 1.0 if weighted else float(w[0])
    return scatter, float(2 * (ROWS_AT_ONCE + 8) * np.finfo(np.float32).eps * np.trace(scatter))


def rows_to_watch(space: Any, now: Division, N: np.ndarray) -> np.ndarray:
    """Rows of a dense space for which a move may help; the others are left out by their bounds, of
    a few by all distances.

    Where every cluster is heavier than two rows, weights change little: what a row of weight w
    gains by leaving its cluster of weight W is w·d²·W/(W - w), largest for the lightest cluster.
    """
    w, price, room = space.w, space.price, now.k < space.price.cap
    if is_small(space.n, *now.centers.shape):
        D, rows = pairs_of(space.rows.columns, now.centers), np.arange(space.n)
        own = D[rows, now.labels] * (1 + ROUNDING)
        D[rows, now.labels] = np.inf
        other = D.min(axis=1) * (1 - ROUNDING)
    else:
        ratio, most = 0.0, np.inf
        least, heaviest = float(now.weights.min()), float(w.max())
        if not space.unit and least > 2 * heaviest:
            leave = least / (least - heaviest) * (1 + moves.MARGIN) * (1 + 1e-9)
            ratio = leave * (least + heaviest) / least
            most = price.penalty / leave if room else np.inf
        rows, own, other = space.rows.bounds(now.labels, now.centers, ratio, most)
    z, rule = now.labels[rows], (price.penalty, room, space.unit)
    return rows[moves.rows_to_watch(own, other, w[rows], z, now.weights, N, *rule)]
