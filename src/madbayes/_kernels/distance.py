"""The one squared distance that decides.

Every label in this library is the label that a plain float64 loop over `sqdist` would give, ties to
the lowest index. Matrix products and bounds only save work: where their error could matter, the
comparison is made again with this function.
"""

import numpy as np
from numba import njit

LONG = 16  # from this many columns on, sums are taken several lanes at a time


@njit(nogil=True, cache=True)
def sqdist(X, i, C, c):
    """Squared distance between row i of X and row c of C, in float64."""
    if X.shape[1] >= LONG:
        return _sqdist_lanes(X, i, C, c)
    total = 0.0
    for j in range(X.shape[1]):
        diff = np.float64(X[i, j]) - C[c, j]
        total += diff * diff
    return total


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _sqdist_lanes(X, i, C, c):
    total = 0.0
    for j in range(X.shape[1]):
        diff = np.float64(X[i, j]) - C[c, j]
        total += diff * diff
    return total


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def sqnorm(X, i):
    """Squared length of row i of X, in float64."""
    total = 0.0
    for j in range(X.shape[1]):
        total += np.float64(X[i, j]) * np.float64(X[i, j])
    return total
