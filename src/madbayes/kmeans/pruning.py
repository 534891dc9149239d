"""Proofs that a split of a cluster or a move of a row cannot pay, so that it need not be tried."""

from typing import Any

import numpy as np

from madbayes._partition import moves
from madbayes._partition.lloyd_kernels import pairs_of
from madbayes._search.division import Division

ROWS_AT_ONCE = 1024  # rows whose products are added up in float32


def indivisible(
    X: np.ndarray, w: np.ndarray, rows: np.ndarray, center: np.ndarray, penalty: float
) -> bool:
    """Whether no division of `rows` saves as much as the penalty of its additional clusters.

    k clusters save at most the sum of the k - 1 largest eigenvalues of the scatter matrix (Ding &
    He 2004, "K-means clustering via principal component analysis"). So no division pays if the
    largest eigenvalue is below the penalty.
    """
    n, d = len(rows), X.shape[1]
    if not penalty > 0 or d > min(n, 128):  # a larger matrix costs more than trying the splits
        return False
    if X.dtype == np.float32 and n > ROWS_AT_ONCE:
        scatter, wrong = rough_scatter(X, w, rows, center)
        if np.linalg.eigvalsh(scatter)[-1] + wrong < penalty:
            return True
    X, w = X[rows], w[rows]
    X = X - np.average(X, axis=0, weights=w)
    scatter = (w[:, None] * X).T @ X
    return bool(np.linalg.eigvalsh(scatter)[-1] < penalty * (1 - 1e-6))  # room for rounding


def rough_scatter(
    X: np.ndarray, w: np.ndarray, rows: np.ndarray, center: np.ndarray
) -> tuple[np.ndarray, float]:
    """The scatter matrix of float32 rows about `center`, and how wrong its eigenvalues can be.

    The products are computed in float32. A scatter matrix about a point other than the mean has
    larger eigenvalues, so `center` need only be near the mean. A sum of m products has a relative
    error of about m roundings, plus those of its factors; the trace bounds the sum over all
    columns. Rows are copied in small parts, because a copy of all rows would take longer than the
    products.
    """
    d, center, w = X.shape[1], center.astype(np.float32), w[rows]
    weighted, room = w.min() < w.max(), np.empty((ROWS_AT_ONCE, X.shape[1]), np.float32)
    scatter = np.zeros((d, d))
    for a in range(0, len(rows), ROWS_AT_ONCE):
        here = rows[a : a + ROWS_AT_ONCE]
        part = X.take(here, axis=0, out=room[: len(here)], mode="clip")  # other modes copy twice
        part -= center
        if weighted:
            part *= np.sqrt(w[a : a + ROWS_AT_ONCE]).astype(np.float32)[:, None]
        scatter += part.T @ part
    scatter *= 1.0 if weighted else float(w[0])
    return scatter, float(2 * (ROWS_AT_ONCE + 8) * np.finfo(np.float32).eps * np.trace(scatter))


def rows_to_watch(space: Any, now: Division, N: np.ndarray) -> np.ndarray:
    """The rows of a dense space for which an exact move may lower the objective.

    In a small problem all distances are computed; otherwise bounds exclude the other rows. If every
    cluster weighs more than two rows, one pair of limits holds for all rows: a row of weight w that
    leaves its cluster of weight W saves w·d²·W/(W - w), a factor that is largest for the lightest
    cluster.
    """
    w, price, room = space.w, space.price, now.k < space.price.cap
    if space.n <= 2**12 and space.rows.plain(now.k):
        D, rows = pairs_of(space.rows.columns, now.centers), np.arange(space.n)
        own = D[rows, now.labels] * (1 + 1e-9)  # room for rounding
        D[rows, now.labels] = np.inf
        other = D.min(axis=1) * (1 - 1e-9)
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
