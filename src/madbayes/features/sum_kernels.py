"""Rows against all 2^K sums of features, a tile at a time, by float32 products with a certificate.

The sums are centres, and the nearest one is found as in `products`: panels, the two smallest scores
of a row, and a bound on what rounding can do to them. Rows for which that is not enough are left to
`feature_trees`, so which z is best does not depend on it.
"""

from typing import NamedTuple

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._jit.vectors import BUNCH, compare
from madbayes._partition.nearest_products import EPS32, error_bound
from madbayes.features.row_kernels import dot, residual

TILE = 64  # rows


class Sums(NamedTuple):
    """The sums of all combinations of features, in the order of their bits. Made by
    `features.sums`."""

    plain: np.ndarray  # (d, 2^K) float64; or empty: search trees
    packed: np.ndarray  # (panels, c, PANEL) float32: shifted, turned and scaled; or empty
    half: np.ndarray  # (panels, PANEL) float32: half their squared norms; inf: no sum
    axes: np.ndarray  # (d, c) float64: the columns of `packed`, if c < d; otherwise empty
    offset: np.ndarray  # (d,) float64: the mean of all sums
    scale: float  # a power of two
    longest: float  # the largest norm in `packed`


class Met(NamedTuple):
    """What is found out about rows; or empty."""

    best: np.ndarray  # int32: the smallest sum
    gap: np.ndarray  # float64: how much larger the second smallest error is at least; <= 0: unsure
    own: np.ndarray  # float64: squared errors as they are, if bounds were looked at


@inner
def put_row(x, sums, y, rows32, a):
    """Shift, turn and scale a row into rows32[a]; returns its norm there."""
    d, c = x.shape[0], rows32.shape[1]
    if c == d:
        for j in range(d):
            y[j] = (x[j] - sums.offset[j]) * sums.scale
    else:
        for i in range(c):
            y[i] = 0.0
        for j in range(d):
            v = (x[j] - sums.offset[j]) * sums.scale
            for i in range(c):
                y[i] += v * sums.axes[j, i]
    norm2 = 0.0
    for i in range(c):
        rows32[a, i] = y[i]
        norm2 += y[i] * y[i]
    return np.sqrt(norm2) * (1.0 + 2.0 * EPS32)


@kernel
def meet_sums(X, Z, A, sums, some, reach, moved, met):
    """Rows meet all sums; with `some` but for those that bounds settle, as in `allocate`."""
    d, c = X.shape[1], sums.packed.shape[1]
    e, who, chosen = np.empty(d), np.empty(TILE, np.int64), np.empty(TILE + BUNCH, np.int64)
    rows32, wrong = np.empty((TILE, c), np.float32), np.empty(TILE)
    low1, low2 = np.empty(TILE + BUNCH, np.float32), np.empty(TILE + BUNCH, np.float32)
    place = np.empty(TILE + BUNCH, np.int32)
    n = 0
    while n < X.shape[0]:
        m = 0
        while n < X.shape[0] and m < TILE:
            met.gap[n] = 0.0
            n += 1
            if some:
                if reach[n - 1, 0] + moved < reach[n - 1, 1] - moved:
                    continue
                residual(X[n - 1], Z[n - 1], A, e)
                met.own[n - 1] = dot(e, e)
                own = np.sqrt(met.own[n - 1])
                if own < reach[n - 1, 1] - moved:
                    reach[n - 1, 0] = own - moved
                    continue
            norm = put_row(X[n - 1], sums, e, rows32, m)
            wrong[m] = error_bound(c, norm, sums.longest, EPS32)
            who[m], chosen[m] = n - 1, m
            m += 1
        for b in range(m, m + BUNCH if m else 0):  # the last bunch is filled up
            chosen[b] = m - 1
        for b in range(0, m, BUNCH):
            compare(
                *(sums.packed, sums.half, 0, sums.packed.shape[0], rows32, chosen, b),
                *(low1, low2, place),
            )
        for a in range(m):
            gap = np.float64(low2[a]) - np.float64(low1[a]) - 2.0 * wrong[a]
            met.gap[who[a]] = 2.0 * gap / (sums.scale * sums.scale)
            met.best[who[a]] = place[a]
