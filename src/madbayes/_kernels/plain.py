"""Nearest centres by comparing every row with every centre, for small problems.

The other ways (`direct`, `products`) save distances and take seconds to compile: not worth it where
there are few. Labels are the same.
"""

import numpy as np

from madbayes._kernels import kernel
from madbayes._kernels.bounds import DOWN, UP
from madbayes._kernels.distance import add_row, sqdist


@kernel
def assign_plain(X, exact, scale, rows, tally, penalty):
    """Assign the rows of one block to the centres `exact`; see `bounds` for the rest."""
    labels, upper, lower, weight, far = rows
    sums, low, count, stats = tally
    for i in range(X.shape[0]):
        p, q = np.int64(labels[i]), np.int64(0)
        best, second, own = np.inf, np.inf, 0.0
        for c in range(exact.shape[0]):
            d2 = sqdist(X, i, exact, c)
            if c == p:
                own = d2
            if d2 < best:
                best, second, q = d2, best, c
            elif d2 < second:
                second = d2
        upper[i] = np.sqrt(best) * scale * UP
        for g in range(lower.shape[1]):
            lower[i, g] = np.sqrt(second) * scale * DOWN
        w = weight[i] if weight.shape[0] > 0 else 1.0
        if q != p:
            labels[i] = q
            stats[0] += w * best
            stats[1] += 1
            if p >= 0:
                stats[0] -= w * own
            if w > 0.0:
                add_row(sums, low, q, X, i, w)
                count[q] += 1
                if p >= 0:
                    add_row(sums, low, p, X, i, -w)
                    count[p] -= 1
        if far.shape[0] > 0:
            far[i] = w * best > penalty
            stats[2] += far[i]
