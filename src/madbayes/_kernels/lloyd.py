"""Lloyd's passes over few rows, where the bookkeeping of `_engine.partition` costs more."""

import numpy as np

from madbayes._kernels import inner, kernel
from madbayes._kernels.distance import sqdist


@kernel
def all_pairs(X, C):
    """‖x - c‖² of each row of X and each row of C."""
    D = np.empty((X.shape[0], C.shape[0]))
    for i in range(X.shape[0]):
        for c in range(C.shape[0]):
            D[i, c] = sqdist(X, i, C, c)
    return D


@kernel
def lloyd(X, w, C, passes):
    """At most so many passes; clusters without rows are dropped. Labels, centres, squared error."""
    n, z = X.shape[0], np.full(X.shape[0], -1)
    C, sse = C.copy(), 0.0
    for turn in range(passes + 1):
        moved, sse = 0, 0.0
        for i in range(n):
            best, at = np.inf, 0
            for c in range(C.shape[0]):
                d2 = sqdist(X, i, C, c)
                if d2 < best:
                    best, at = d2, c
            moved += z[i] != at
            z[i] = at
            sse += w[i] * best
        if moved == 0 or turn == passes:
            break
        C = filled_means(X, w, z, C.shape[0])
    return z, C, sse


@inner
def filled_means(X, w, z, k):
    """Means of the clusters that have rows; z is numbered without gaps."""
    weight, new = np.zeros(k), np.full(k, -1)
    for i in range(X.shape[0]):
        weight[z[i]] += w[i]
    filled = 0
    for c in range(k):
        if weight[c] > 0.0:
            new[c] = filled
            filled += 1
    C = np.zeros((filled, X.shape[1]))
    for i in range(X.shape[0]):
        share = w[i] / weight[z[i]]
        z[i] = new[z[i]]
        for j in range(X.shape[1]):
            C[z[i], j] += share * X[i, j]
    return C
