"""Nearest centres by comparing every row with every centre, for small problems.

The other ways (`direct`, `products`) save distances and take seconds to compile: not worth it where
there are few. Distances to all centres are added up column by column, which the processor does for
several centres at a time; `sqdist` decides among those that rounding could exchange. So labels are
the same.
"""

import numpy as np

from madbayes._jit import kernel
from madbayes._jit.constants import DOWN, UP
from madbayes._partition.bounds import RowState, Tally
from madbayes._rows.distance import add_row, sqdist
from madbayes._rows.row_kernels import NONE, read_only

ROUNDING = 2.0**-50  # for each column: what two ways to add up a distance can differ by, with room
NO_SUMS, NO_BOUNDS, NO_FLAGS = np.empty((0, 0)), np.empty((0, 0), np.float32), np.empty(0, np.uint8)


@kernel
def assign_plain(X, exact, columns, line, scale, rows, tally, penalty):
    """Assign the rows of one block to the centres `exact`, which are also given by `columns`;
    `line` is room for one number of each.

    See `bounds` for the rest; all groups get the same lower bound.
    """
    labels, upper, lower, weight, far = rows
    sums, low, count, stats = tally
    k, d = exact.shape
    for i in range(X.shape[0]):
        for c in range(k):
            line[c] = 0.0
        for j in range(d):
            x = np.float64(X[i, j])
            for c in range(k):
                diff = x - columns[j, c]
                line[c] += diff * diff
        p, q = np.int64(labels[i]), np.int64(0)
        best, second = np.inf, np.inf
        for c in range(k):
            if line[c] < second:
                second = line[c]
                if second < best:
                    best, second, q = second, best, c
        d2 = sqdist(X, i, exact, q)
        limit = best * (1.0 + d * ROUNDING) + 1e-300
        for c in range(k if second <= limit else 0):
            if line[c] <= limit:
                other = sqdist(X, i, exact, c)
                if other < d2 or (other == d2 and c < q):
                    d2, q = other, c
        upper[i] = np.sqrt(d2) * scale * UP
        for g in range(lower.shape[1]):
            lower[i, g] = np.sqrt(second) * scale * DOWN
        w = weight[i] if weight.shape[0] > 0 else 1.0
        if q != p:
            labels[i] = q
            stats[0] += w * d2
            stats[1] += 1
            if p >= 0:
                stats[0] -= w * sqdist(X, i, exact, p)
            if w > 0.0:
                add_row(sums, low, q, X, i, w)
                count[q] += 1
                if p >= 0:
                    add_row(sums, low, p, X, i, -w)
                    count[p] -= 1
        if far.shape[0] > 0:
            far[i] = w * d2 > penalty
            stats[2] += far[i]


def find_nearest(X, C, z, N):
    """z = the nearest of the centres for each row; add to N how many rows each has."""
    labels, upper = np.empty(len(X), np.int32), np.empty(len(X), np.float32)
    labels.fill(-1)
    rows = RowState(labels, upper, NO_BOUNDS, NONE, NO_FLAGS)
    tally = Tally(NO_SUMS, NO_SUMS, N, np.zeros(4))
    columns, line = np.ascontiguousarray(C.T), np.empty(len(C))
    assign_plain(read_only(X), C, columns, line, 1.0, rows, tally, np.inf)
    z[:] = labels


def close_gaps(z, N):
    """Renumber the clusters that have rows; returns their number."""
    k = np.count_nonzero(N)
    if np.count_nonzero(N[:k]) < k:
        z[:] = (N > 0).cumsum()[z] - 1
    return k


def nearest_by_products(X, C):
    """The nearest of the centres for each row.

    By one matrix product; rows that its rounding leaves in doubt are looked at again.

    Of x·c - ‖c‖²/2 a product gets each of the d + 2 terms wrong by 2⁻⁵³ of ‖x‖‖c‖ + ‖c‖² at most.
    """
    half = 0.5 * np.einsum("ij,ij->i", C, C)
    score = X @ C.T
    score -= half
    z, at, far = score.argmax(axis=1), np.arange(len(X)), half.max()
    best = score[at, z]
    score[at, z] = -np.inf
    size = np.sqrt(2.0 * far * np.einsum("ij,ij->i", X, X)) + 2.0 * far
    wrong = 8.0 * (X.shape[1] + 2) * 2.0**-53 * size  # with room
    doubt = np.flatnonzero(~(best - score.max(axis=1) > wrong))
    again = np.empty(len(doubt), np.int64)
    find_nearest(X[doubt], C, again, np.zeros(len(C), np.int64))
    z[doubt] = again
    return z
