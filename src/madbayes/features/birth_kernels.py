"""New features: grown from the residuals of all rows, or opened by one row (BKJ 3 and 5)."""

import numpy as np

from madbayes._jit import kernel
from madbayes.features.collapsed_kernels import DONE, OPEN
from madbayes.features.row_kernels import dot, residual
from madbayes.features.tree_kernels import flip


@kernel
def grow_seeds(X, weight, Z, A, seeds, everybody, on, count, total):
    """One round of births: z = [2Ra > aᵀa] for each seed a, and the sums of R over those rows.

    With `everybody` all rows take the first seed.
    """
    c, d = seeds.shape
    e, half = np.empty(d), np.empty(c)
    for s in range(c):
        half[s] = 0.5 * dot(seeds[s], seeds[s])
    for n in range(X.shape[0]):
        residual(X[n], Z[n], A, e)
        w = weight[n] if weight.shape[0] else 1.0
        for s in range(c):
            if (everybody and s == 0) or dot(seeds[s], e) > half[s]:
                on[n, s] = 1
                count[s] += w
                for j in range(d):
                    total[s, j] += w * e[j]
            else:
                on[n, s] = 0


@kernel
def paper_rows(X, weight, Z, A, G, start, penalty, may_open, count):
    """BP-means step 1 (BKJ 3) from row `start` on, until a row opens a feature.

    Returns (row, DONE or OPEN); `count[0]` grows by the flips.
    """
    e, g = np.empty(X.shape[1]), np.empty(Z.shape[1])
    for n in range(start, X.shape[0]):
        w = weight[n] if weight.shape[0] else 1.0
        residual(X[n], Z[n], A, e)
        for k in range(Z.shape[1]):
            g[k] = dot(A[k], e)
        flips = flip(Z[n], g, G)
        if flips:
            count[0] += flips
            residual(X[n], Z[n], A, e)
        if may_open and w * dot(e, e) > penalty:
            return n, OPEN
    return X.shape[0], DONE
