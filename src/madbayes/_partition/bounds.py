"""Bounds that save distances, and the books that are kept of rows: what all assignments share.

`check_bounds`: a row is skipped when its centre must still be the nearest (Hamerly 2010, with one
lower bound for each group of centres as in Ding et al. 2015, "Yinyang k-means"). The others go to
`products` (many columns) or `direct` (few), and `settle` writes down where they belong.
"""

from typing import NamedTuple

import numpy as np

from madbayes._jit import inner
from madbayes._jit.constants import DOWN, DOWN32, UP, UP32, ZERO32
from madbayes._rows.distance import add_row, sqdist


class Centers(NamedTuple):
    """The centres of a pass, in the forms that the kernels read (`prepared_centers.py`)."""

    exact: np.ndarray  # (k, d) float64, in the units of the data
    packed: np.ndarray  # (panels, d, PANEL) float32: shifted, scaled, one group after the other
    packed_half: np.ndarray  # (panels, PANEL) float32: half their squared norms; inf: no centre
    member: np.ndarray  # (panels * PANEL,) int32: which centre each of them is
    group: np.ndarray  # (k,) int32: the group of each centre
    start: np.ndarray  # (t + 1,) int64: the panel where each group begins
    shifted: np.ndarray  # (k, d) float64: shifted and scaled, in the order of `exact`
    rounded: np.ndarray  # (k, d) float32: the same, rounded
    shifted_half: np.ndarray  # (k,) float64
    longest: float  # the largest norm in `shifted`
    offset: np.ndarray  # (d,) as the rows: float32 rows need no others to be shifted exactly
    scale: float  # a power of two
    drift: np.ndarray  # (e, k) float32: how far each centre is from where it was in earlier passes
    others: np.ndarray  # (e, k) float32: the largest drift in its group, that centre left out
    drifts: np.ndarray  # (e, t) float32: the largest drift in each group
    path: np.ndarray  # (k,) float32: what a centre and the fastest other one have gone, so far
    fold: bool  # bounds are to be kept as they are now
    separation: np.ndarray  # (k,) float32: half the distance to the nearest other centre, scaled


class RowState(NamedTuple):
    """What is remembered of each row of a block: views into arrays of length n."""

    labels: np.ndarray  # int32; -1: not yet assigned
    upper: np.ndarray  # float32: at least the distance to its centre, scaled; or length 0
    lower: np.ndarray  # (b, t) float32: at most the distance to any other centre of the group
    weight: np.ndarray  # float64, or length 0: all ones
    far: np.ndarray  # uint8, or length 0: set where weight * squared distance > penalty


class Marks(NamedTuple):
    """Since when bounds hold: views into arrays of length n."""

    upper: np.ndarray  # (b,) uint8: the pass that the upper bound is from
    lower: np.ndarray  # (b, t) uint8: those of the lower bounds
    sure: np.ndarray  # (b,) float32: up to this `path` of its centre the row need not be looked at


class Tally(NamedTuple):
    """What a segment of the rows adds up to: kept from pass to pass, changed by rows that move."""

    sums: np.ndarray  # (k, d + 1) float64: weighted sums of the rows, and of their weights
    low: np.ndarray  # (k, d + 1) float64: what rounding left out of `sums`
    count: np.ndarray  # type: ignore[assignment]  # (k,) int64: rows of positive weight
    stats: np.ndarray  # (4,) float64: change of the objective, rows moved, far rows, hard rows


@inner
def check_bounds(X, next_row, centers, rows, penalty, active):
    """Step 1 with a single group: list rows that bounds cannot settle, until `active` is full.

    Returns the row to go on with, and how many are active.
    """
    labels, uppers, lower, weight, far = rows.labels, rows.upper, rows.lower, rows.weight, rows.far
    drift, others, separation = centers.drift, centers.others, centers.separation
    opening, scale = far.shape[0] > 0, centers.scale
    limit = np.sqrt(penalty) * scale * DOWN
    n_active = 0
    while next_row < X.shape[0] and n_active < active.shape[0]:
        i = next_row
        next_row += 1
        p = np.int64(labels[i])
        if opening:
            far[i] = 0
            limit = reach_of(weight, i, penalty, scale)
        if p >= 0:
            upper = (uppers[i] + drift[0, p]) * UP32
            gap = max(ZERO32, lower[i, 0] - others[0, p]) * DOWN32
            uppers[i], lower[i, 0] = upper, gap
            gap = max(gap, separation[p])
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
    """How far row i may be from its centre without opening a cluster, scaled."""
    w = weight[i] if weight.shape[0] > 0 else 1.0
    return np.sqrt(penalty / w) * scale * DOWN if w > 0.0 else np.inf


@inner
def this_pass(centers):
    """The mark of bounds that are of now."""
    return np.uint8(0 if centers.fold else centers.drift.shape[0])


@inner
def room_left(path, limit, gap, separation):
    """What `path` may grow to before a row can be nearer to another centre: it is within `limit`
    of its own, and no other is within `gap`, nor within twice the `separation`, of the row or of
    its centre."""
    return (path + max(gap - limit, separation + separation - limit - limit)) * DOWN32


@inner
def leave(chosen, nearest, n_chosen, centers, rows, marks):
    """Before `settle`: for rows that leave their centre, what is known of the rest of its group
    becomes what holds now, since that centre is one of them from now on."""
    now = this_pass(centers)
    for b in range(n_chosen):
        i = chosen[b]
        p = np.int64(rows.labels[i])
        if p >= 0 and nearest[b] != p:
            g = centers.group[p]
            since = marks.lower[i, g]
            if since != now:
                low = rows.lower[i, g] - centers.others[since, p]
                rows.lower[i, g], marks.lower[i, g] = max(ZERO32, low) * DOWN32, now
            marks.upper[i] = now


@inner
def settle(X, chosen, nearest, n_chosen, centers, rows, tally, penalty):
    """Rows `chosen` belong to `nearest`: bring labels, bounds, sums and objective up to date."""
    labels, upper, lower, weight, far = rows.labels, rows.upper, rows.lower, rows.weight, rows.far
    exact, scale, group = centers.exact, centers.scale, centers.group
    sums, low, count, stats = tally.sums, tally.low, tally.count, tally.stats
    weighted, opening = weight.shape[0] > 0, far.shape[0] > 0
    for b in range(n_chosen):
        i = chosen[b]
        p, q = np.int64(labels[i]), nearest[b]
        if q == p and not opening:
            continue
        w = weight[i] if weighted else 1.0
        d2 = sqdist(X, i, exact, q)
        if q != p:
            upper[i] = np.sqrt(d2) * scale * UP
            labels[i] = q
            stats[0] += w * d2
            stats[1] += 1
            if p >= 0:  # p is now one of the others of its group
                own, g = sqdist(X, i, exact, p), group[p]
                lower[i, g] = min(lower[i, g], np.sqrt(own) * scale * DOWN)
                stats[0] -= w * own
            if w > 0.0:
                add_row(sums, low, q, X, i, w)
                count[q] += 1
                if p >= 0:
                    add_row(sums, low, p, X, i, -w)
                    count[p] -= 1
        if opening and w * d2 > penalty:
            far[i] = 1
            stats[2] += 1
