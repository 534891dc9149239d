"""The one squared distance that decides.

Every label in this library is the label that a plain float64 loop over `sqdist` would give, ties to
the lowest index. Matrix products and bounds only save work: where their error could matter, the
comparison is made again with this function.
"""

import numpy as np

from madbayes._jit import compiled, inner


@inner
def sqdist(X, i, C, c):
    """Squared distance between row i of X and row c of C, in float64."""
    if X.shape[1] >= 16:  # so many columns that several lanes of a sum at a time are quicker
        return _sqdist_lanes(X, i, C, c)
    total = 0.0
    for j in range(X.shape[1]):
        diff = np.float64(X[i, j]) - C[c, j]
        total += diff * diff
    return total


@compiled(fastmath={"reassoc"}, no_cpython_wrapper=True)
def _sqdist_lanes(X, i, C, c):
    total = 0.0
    for j in range(X.shape[1]):
        diff = np.float64(X[i, j]) - C[c, j]
        total += diff * diff
    return total


@inner
def add(high, low, a, b, value):
    """high[a, b] + low[a, b] += value, with twice the digits (Knuth's two-sum).

    So what leaves a sum takes with it all that it brought, however large it was.
    """
    old = high[a, b]
    new = old + value
    back = new - old
    low[a, b] += (old - (new - back)) + (value - back)
    high[a, b] = new


@inner
def add_row(high, low, c, X, i, w):
    """`add` of w times row i of X to row c, and of w itself behind it; sums without columns are
    not kept."""
    d = X.shape[1]
    for j in range(high.shape[1]):
        value = w * X[i, j] if j < d else w
        old = high[c, j]
        new = old + value
        back = new - old
        low[c, j] += (old - (new - back)) + (value - back)
        high[c, j] = new


@compiled(fastmath={"reassoc"}, no_cpython_wrapper=True)
def sqnorm(X, i):
    """Squared length of row i of X, in float64."""
    total = 0.0
    for j in range(X.shape[1]):
        total += np.float64(X[i, j]) * np.float64(X[i, j])
    return total
