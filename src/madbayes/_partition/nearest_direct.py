"""Nearest centres by plain distances, for few columns: there a matrix product does not pay.

The same bounds as in `products`, with a single group. Rows that they do not settle are handled a
tile at a time, and a tile is compared only with the centres that can be among the two nearest of
any of its rows. Where neighbouring rows lie close together (`_rows.rows.arrange` sees to that),
those are few: the tree of PRML 9.1 (Moore 2000), reduced to its leaves. Distances are those of
`sqdist` to the bit, so no certificate is needed.
"""

from typing import NamedTuple

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._jit.constants import DOWN, UP
from madbayes._partition.bounds import check_bounds, settle

DIRECT_TILE = 128  # rows


class DirectScratch(NamedTuple):
    """The working memory of one thread."""

    active: np.ndarray  # (tile,) int64: rows that the bounds could not settle
    columns: np.ndarray  # (d, tile) float64: those rows, turned
    line: np.ndarray  # (tile,) float64
    best: np.ndarray  # (tile,) float64
    second: np.ndarray  # (tile,) float64
    nearest: np.ndarray  # (tile,) int64
    near: np.ndarray  # (k,) int64: the centres that a tile is compared with
    reach: np.ndarray  # (k,) float64: distances of the centres to the middle of the tile


@inner
def centers_around(columns, m, exact, near, reach):
    """The centres that can be among the two nearest of rows 0..m, in order; returns how many.

    With every row within `radius` of the middle, a centre farther from the middle than the second
    nearest one by more than 2·radius is farther than both of those from every row.
    """
    radius2 = 0.0
    for c in range(exact.shape[0]):
        reach[c] = 0.0
    for j in range(exact.shape[1]):
        low, high = columns[j, 0], columns[j, 0]
        for r in range(m):
            low = min(low, columns[j, r])
            high = max(high, columns[j, r])
        middle = low + 0.5 * (high - low)
        half = max(high - middle, middle - low)
        radius2 += half * half
        for c in range(exact.shape[0]):
            diff = exact[c, j] - middle
            reach[c] += diff * diff
    first, second = np.inf, np.inf
    for c in range(exact.shape[0]):
        if reach[c] < first:
            second = first
            first = reach[c]
        elif reach[c] < second:
            second = reach[c]
    limit = (np.sqrt(second) + 2.0 * np.sqrt(radius2)) * UP
    count = 0
    for c in range(exact.shape[0]):
        if reach[c] <= limit * limit:
            near[count] = c
            count += 1
    return count


@inner
def two_nearest(columns, m, exact, near, n_near, line, best, second, nearest):
    """For rows 0..m, given as `columns` (d, tile): the two smallest squared distances."""
    for r in range(m):
        best[r] = np.inf
        second[r] = np.inf
        nearest[r] = -1
    for e in range(n_near):
        c = near[e]
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
            nearest[r] = c if d2 < old else nearest[r]
            best[r] = d2 if d2 < old else old


@kernel
def assign_direct(X, centers, rows, tally, scratch, penalty):
    """Assign the rows of one block; arguments as in `products.assign_products`."""
    active, columns = scratch.active, scratch.columns
    lower, exact, scale = rows.lower, centers.exact, centers.scale
    best, second, nearest, near = scratch.best, scratch.second, scratch.nearest, scratch.near
    i = np.int64(0)  # as in `assign_products`
    while i < X.shape[0]:
        i, m = check_bounds(X, i, centers, rows, penalty, active)
        if m == 0:
            continue
        for a in range(m):
            for j in range(X.shape[1]):
                columns[j, a] = X[active[a], j]
        n_near = centers_around(columns, m, exact, near, scratch.reach)
        two_nearest(columns, m, exact, near, n_near, scratch.line, best, second, nearest)
        for a in range(m if rows.upper.shape[0] > 0 else 0):
            lower[active[a], 0] = np.sqrt(second[a]) * scale * DOWN
        settle(X, active, nearest, m, centers, rows, tally, penalty)
