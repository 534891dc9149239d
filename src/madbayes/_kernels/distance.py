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


@njit(nogil=True, cache=True)
def add(high, low, a, b, value):
    """high[a, b] + low[a, b] += value, with twice the digits (Knuth's two-sum).

    So what leaves a sum takes with it all that it brought, however large it was.
    """
    old = high[a, b]
    new = old + value
    back = new - old
    low[a, b] += (old - (new - back)) + (value - back)
    high[a, b] = new


@njit(nogil=True, cache=True)
def add_row(high, low, x, w):
    """`add` of w * x, and of w itself behind it."""
    d = x.shape[0]
    for j in range(d):
        value = w * x[j]
        old = high[j]
        new = old + value
        back = new - old
        low[j] += (old - (new - back)) + (value - back)
        high[j] = new
    old = high[d]
    new = old + w
    back = new - old
    low[d] += (old - (new - back)) + (w - back)
    high[d] = new


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def sqnorm(X, i):
    """Squared length of row i of X, in float64."""
    total = 0.0
    for j in range(X.shape[1]):
        total += np.float64(X[i, j]) * np.float64(X[i, j])
    return total
