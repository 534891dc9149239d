"""Nearest centres by plain distances, for few columns: there a matrix product does not pay.

The same bounds as in `assign`, with a single group. A row that they do not settle is compared only
with centres near its own: by the triangle inequality the nearest two centres lie within
2·(distance to its own) + (distance from that to the next) (Newling & Fleuret 2016, "exponion").
Distances are those of `sqdist` to the bit, so no certificate is needed.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from madbayes._kernels.assign import DOWN, UP, check_bounds, settle
from madbayes._kernels.distance import sqdist


class DirectScratch(NamedTuple):
    """The working memory of one thread."""

    active: np.ndarray  # (tile,) int64: rows that the bounds could not settle
    own: np.ndarray  # (tile,) float64: their squared distance to their present centre
    columns: np.ndarray  # (d, tile) float64: those rows, turned
    line: np.ndarray  # (tile,) float64
    best: np.ndarray  # (tile,) float64
    second: np.ndarray  # (tile,) float64
    nearest: np.ndarray  # (tile,) int64


@njit(nogil=True, cache=True)
def two_nearest(columns, m, exact, line, best, second, place):
    """For rows 0..m, given as `columns` (d, tile): the two smallest squared distances."""
    for r in range(m):
        best[r] = np.inf
        second[r] = np.inf
        place[r] = -1
    for c in range(exact.shape[0]):
        for r in range(m):
            line[r] = 0.0
        for j in range(exact.shape[1]):
            v = exact[c, j]
            x = columns[j]
            for r in range(m):
                diff = x[r] - v
                line[r] += diff * diff
        for r in range(m):
            d2 = line[r]
            old = best[r]
            loser = old if d2 < old else d2
            second[r] = loser if loser < second[r] else second[r]
            place[r] = c if d2 < old else place[r]
            best[r] = d2 if d2 < old else old


@njit(nogil=True, cache=True)
def two_nearest_around(X, active, own, m, labels, centers, best, second, place):
    """The same for rows `active` that have a centre, looking only at the centres around it."""
    exact, scale = centers.exact, centers.scale
    neighbor, neighbor_gap = centers.neighbor, centers.neighbor_gap
    for a in range(m):
        i = active[a]
        p = np.int64(labels[i])
        radius = (2.0 * np.sqrt(own[a]) * scale + neighbor_gap[p, 0]) * UP
        low, next_low, q = own[a], np.inf, p
        for e in range(neighbor.shape[1]):
            if neighbor_gap[p, e] > radius:
                break
            c = np.int64(neighbor[p, e])
            d2 = sqdist(X, i, exact, c)
            if d2 < low or (d2 == low and c < q):
                next_low = low
                low = d2
                q = c
            elif d2 < next_low:
                next_low = d2
        best[a] = low
        second[a] = next_low
        place[a] = q


@njit(nogil=True, cache=True)
def assign_direct(X, centers, rows, tally, scratch, penalty):
    """Assign the rows of one block; arguments as in `assign.assign_products`."""
    active, own, columns = scratch.active, scratch.own, scratch.columns
    lower, exact, scale = rows.lower, centers.exact, centers.scale
    best, second, nearest = scratch.best, scratch.second, scratch.nearest
    d = X.shape[1]
    i = 0
    while i < X.shape[0]:
        i, m, n_new = check_bounds(X, i, centers, rows, penalty, active, own)
        if m == 0:
            break
        if n_new == 0 and centers.neighbor.shape[1] > 0:
            two_nearest_around(X, active, own, m, rows.labels, centers, best, second, nearest)
        else:
            for a in range(m):
                for j in range(d):
                    columns[j, a] = X[active[a], j]
            two_nearest(columns, m, exact, scratch.line, best, second, nearest)
        for a in range(m):
            lower[active[a], 0] = np.sqrt(second[a]) * scale * DOWN
        settle(X, active, nearest, own, m, centers, rows, tally, penalty)
