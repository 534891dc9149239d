"""Bounds that save distances, and the arrays that all assignment kernels read and write.

`check_bounds` skips a row if the bounds prove that its centre is still the nearest (Hamerly 2010,
with one lower bound for each group of centres as in Ding et al. 2015, "Yinyang k-means"). The
kernels `products` (many columns) or `direct` (few columns) find the nearest centres of the other
rows, and `settle` records them.
"""

from typing import NamedTuple

import numpy as np

from madbayes._jit import compiled, inner
from madbayes._jit.constants import DOWN, DOWN32, UP, UP32, ZERO32
from madbayes._rows.distance import add_row, sqdist


class Centers(NamedTuple):
    """The centres of a pass, in the forms that the kernels read (`prepared_centers.py`)."""

    exact: np.ndarray  # (k, d) float64, in the units of the data
    packed: np.ndarray  # (panels, d, PANEL) float32: shifted, scaled, one group after the other
    packed_half: np.ndarray  # (panels, PANEL) float32: half their squared norms; inf: no centre
    member: np.ndarray  # (panels * PANEL,) int32: the number of the centre at each packed place
    group: np.ndarray  # (k,) int32: the group of each centre
    start: np.ndarray  # (t + 1,) int64: the panel where each group begins
    shifted: np.ndarray  # (k, d) float64: shifted and scaled, in the order of `exact`
    rounded: np.ndarray  # (k, d) float32: `shifted`, rounded
    shifted_half: np.ndarray  # (k,) float64: half the squared norms of `shifted`
    longest: float  # the largest norm in `shifted`
    offset: np.ndarray  # (d,) of the rows' type: float32 is enough to shift float32 rows exactly
    scale: float  # a power of two
    drift: np.ndarray  # (k,) float32: how far each centre has moved since the last pass
    others: np.ndarray  # (k,) float32: the largest drift of the other centres in its group
    drifts: np.ndarray  # (t,) float32: the largest drift in each group
    separation: np.ndarray  # (k,) float32: half the distance to the nearest other centre, scaled


class RowState(NamedTuple):
    """Labels and bounds of the rows of a block: views into arrays of length n."""

    labels: np.ndarray  # int32; -1: not yet assigned
    upper: np.ndarray  # float32: upper bound on the scaled distance to its centre; or length 0 …
    lower: np.ndarray  # (b, t) float32: lower bound on the distance to other centres of a group …
    # … without bounds: every row is compared with every centre
    weight: np.ndarray  # float64, or length 0: all ones
    far: np.ndarray  # uint8, or length 0: set where weight * squared distance > penalty


class Tally(NamedTuple):
    """The sums of a segment of the rows. They stay between passes; rows that move change them."""

    sums: np.ndarray  # (k, d + 1) float64: weighted sums of the rows, and of their weights
    low: np.ndarray  # (k, d + 1) float64: the rounding errors of `sums`
    count: np.ndarray  # type: ignore[assignment]  # (k,) int64: rows of positive weight
    stats: np.ndarray  # (4,) float64: change of the objective, rows moved, far rows, hard rows


@compiled(fastmath={"nnan", "nsz"}, no_cpython_wrapper=True, forceinline=True)
def loosen(rows, i, p, centers):
    """Adjust the bounds of row i, whose centre is p, to the centres of this pass.

    Returns the upper bound on the distance to p, and a lower bound on the distance to any other
    centre.
    """
    lower, drifts, own = rows.lower, centers.drifts, np.int64(centers.group[p])
    upper = (rows.upper[i] + centers.drift[p]) * UP32
    low = max(ZERO32, lower[i, own] - centers.others[p]) * DOWN32
    gap = np.float32(np.inf)
    lower[i, own] = gap  # the loop leaves out this group: its bound does not cover p
    for g in range(lower.shape[1]):
        bound = (lower[i, g] - drifts[g]) * DOWN32
        bound = bound if bound > ZERO32 else ZERO32
        lower[i, g] = bound
        gap = bound if bound < gap else gap
    rows.upper[i], lower[i, own] = upper, low
    return upper, max(min(gap, low), centers.separation[p])


@inner
def check_bounds(X, next_row, centers, rows, penalty, active):
    """List the rows that bounds cannot exclude, until `active` is full.

    Returns the next row to look at, and the number of active rows. Rows without bounds are all
    active.
    """
    labels, uppers, far = rows.labels, rows.upper, rows.far
    opening, bounded, scale = far.shape[0] > 0, uppers.shape[0] > 0, centers.scale
    limit = np.sqrt(penalty) * scale * DOWN
    n_active = 0
    while next_row < X.shape[0] and n_active < active.shape[0]:
        i = next_row
        next_row += 1
        p = np.int64(labels[i])
        if opening:
            far[i] = 0
            limit = reach_of(rows.weight, i, penalty, scale)
        if p >= 0 and bounded:
            upper, gap = loosen(rows, i, p, centers)
            if upper < gap and upper < limit:
                continue
            upper = np.float32(np.sqrt(sqdist(X, i, centers.exact, p)) * scale * UP)
            uppers[i] = upper
            if upper < gap and upper < limit:
                continue
        active[n_active] = i
        n_active += 1
    return next_row, n_active


@inner
def reach_of(weight, i, penalty, scale):
    """The scaled distance from its centre beyond which row i opens a cluster."""
    w = weight[i] if weight.shape[0] > 0 else 1.0
    return np.sqrt(penalty / w) * scale * DOWN if w > 0.0 else np.inf


@inner
def settle(X, chosen, nearest, n_chosen, centers, rows, tally, penalty):
    """Assign the rows `chosen` to `nearest`: update labels, sums, the objective and any bounds."""
    labels, upper, lower, weight, far = rows.labels, rows.upper, rows.lower, rows.weight, rows.far
    exact, scale, group = centers.exact, centers.scale, centers.group
    sums, low, count, stats = tally.sums, tally.low, tally.count, tally.stats
    weighted, opening, bounded = weight.shape[0] > 0, far.shape[0] > 0, upper.shape[0] > 0
    for b in range(n_chosen):
        i = chosen[b]
        p, q = np.int64(labels[i]), nearest[b]
        if q == p and not opening:
            continue
        w = weight[i] if weighted else 1.0
        d2 = sqdist(X, i, exact, q)
        if q != p:
            labels[i] = q
            stats[0] += w * d2
            stats[1] += 1
            own = sqdist(X, i, exact, p) if p >= 0 else 0.0
            stats[0] -= w * own
            if bounded:
                upper[i] = np.sqrt(d2) * scale * UP
                if p >= 0:  # the bound of its group now includes p
                    g = group[p]
                    lower[i, g] = min(lower[i, g], np.sqrt(own) * scale * DOWN)
            if w > 0.0:
                add_row(sums, low, q, X, i, w)
                count[q] += 1
                if p >= 0:
                    add_row(sums, low, p, X, i, -w)
                    count[p] -= 1
        if opening and w * d2 > penalty:
            far[i] = 1
            stats[2] += 1
