"""Nearest centres by float32 products, with bounds and without errors (dense rows, many columns).

One call assigns the rows of one block, in four steps:

1. *Bounds* (`bounds.py`). Skip a row if its bounds prove that its centre is still the nearest. If
   its upper bound is too large for that, compute the distance to its centre and try again.
2. *Products.* Compute float32 products with the centres of those groups that may hold the nearest
   centre (`panels`).
3. *Certificate.* If the best score is better than the second by more than twice the rounding error,
   it belongs to the nearest centre.
4. *Otherwise* compute a float64 product, and `sqdist` for centres that this product cannot tell
   apart.

So the labels equal those of a plain float64 loop. If there are few centres and columns, bounds
cost more than they save: `assign_all` compares each row with each centre (steps 2 and 3, and a
plain loop for the rows that are left).

The score of row x and centre c is ‖c‖²/2 - x·c, where both are shifted by `offset` and scaled by a
power of two, so that neither data far from the origin nor huge or tiny values lose digits.
"""

from typing import NamedTuple

import numpy as np

from madbayes._jit import compiled, inner, kernel
from madbayes._jit.constants import DOWN, DOWN32, UP, ZERO32
from madbayes._jit.vectors import BUNCH, compare
from madbayes._partition.bounds import loosen, reach_of, settle
from madbayes._rows.distance import sqdist, sqnorm

TILE_ROWS = 256  # rows that stay in a core's own cache while groups of centres pass by
HARD_ROWS = 32  # rows of one float64 product
EPS32, EPS64 = 2.0**-24, 2.0**-53
TINY = 2.0**-148  # float32 has no finer steps than 2**-149


class Scratch(NamedTuple):
    """The working memory of one thread, for TILE_ROWS rows at a time (`make_scratch`)."""

    active: np.ndarray  # (tile,) int64: rows that bounds could not exclude
    nearest: np.ndarray  # (tile,) int64: the nearest centre
    floor: np.ndarray  # (tile,) float64: lower bound on: squared norm minus twice the score's error
    error: np.ndarray  # (tile,) float64: bound on the rounding error of a score
    best: np.ndarray  # (tile,) float64: the smallest score so far
    second: np.ndarray  # (tile,) float64: the second smallest score so far
    home: np.ndarray  # (tile,) int64: the group with the smallest score; -1: the row's own centre
    home_next: np.ndarray  # (tile,) float64: the second smallest score of the group `home`
    need: np.ndarray  # (t,) int64: how many rows must be compared with each group
    todo: np.ndarray  # (t, tile + BUNCH) int64: which rows must be compared with each group
    rows32: np.ndarray  # (tile, d) float32: active rows, shifted and scaled
    low1: np.ndarray  # (tile + BUNCH,) float32: the smallest scores of a group
    low2: np.ndarray  # (tile + BUNCH,) float32: the second smallest scores of a group
    place: np.ndarray  # (tile + BUNCH,) int32: the places of the smallest scores in the panels
    hard: np.ndarray  # (tile,) int64: rows whose nearest centre float32 cannot decide
    rows64: np.ndarray  # (HARD_ROWS, d) float64: hard rows, shifted and scaled
    scores64: np.ndarray  # (HARD_ROWS, k) float64: their scores


@inner
def error_bound(d, norm, longest, eps):
    """A bound on the rounding error of a score (Higham 2002, section 3.1, with a safety margin)."""
    rounding = eps * ((d + 8.0) * norm * longest + 2.0 * longest * longest + 2.0 * norm * norm)
    return rounding + (d + 8.0) * TINY * (1.0 + norm + longest) if eps == EPS32 else rounding


@compiled(fastmath={"reassoc", "contract"}, no_cpython_wrapper=True, forceinline=True)
def turn(X, i, offset, scale, out, a, C, c):
    """Shift and scale row i of X into out[a].

    Returns the squared norm of out[a], and its squared distance to row c of C. The subtraction is
    done in the type of `offset`: float32 is exact enough for float32 rows.
    """
    factor = offset.dtype.type(scale)
    norm2, own2 = ZERO32, ZERO32
    for j in range(X.shape[1]):
        v = np.float32((X[i, j] - offset[j]) * factor)
        diff = v - C[c, j]
        out[a, j] = v
        norm2 += v * v
        own2 += diff * diff
    return np.float64(norm2), np.float64(own2)


@inner
def find_active(X, next_row, centers, rows, penalty, scratch, use32):
    """Step 1 for one tile. Returns the next row to look at, and the number of active rows.

    Active rows are shifted and scaled, and listed for each group that may hold the nearest centre.
    """
    labels, lower, weight, far = rows.labels, rows.lower, rows.weight, rows.far
    exact, scale, longest, group = centers.exact, centers.scale, centers.longest, centers.group
    active, todo, need = scratch.active, scratch.todo, scratch.need
    opening, d, t = far.shape[0] > 0, X.shape[1], need.shape[0]
    reach = np.sqrt(penalty) * scale * DOWN
    share = (d + 16.0) * EPS32  # relative error of a sum of d squares, at most
    slack = 4.0 * EPS32 * longest + np.sqrt((d + 8.0) * TINY)
    for g in range(t):
        need[g] = 0
    a = 0
    while next_row < X.shape[0] and a < active.shape[0]:
        i = next_row
        next_row += 1
        p = np.int64(labels[i])
        if opening:
            far[i] = 0
            reach = reach_of(weight, i, penalty, scale)
        limit, gap = np.float32(np.inf), ZERO32
        if p >= 0:
            limit, gap = loosen(rows, i, p, centers)
            if limit < gap and limit < reach:
                continue
        where = centers.offset, scale, scratch.rows32, a, centers.rounded, max(p, 0)
        norm2, own2 = turn(X, i, *where)
        own = np.sqrt(own2)
        wrong = share * own + slack
        if p >= 0:
            if not use32 or wrong > own / 64:  # too rough: computed again in float64
                own2 = sqdist(X, i, exact, p) * scale * scale
                own, wrong = np.sqrt(own2), 0.0
            limit = np.float32((own + wrong) * UP)
            rows.upper[i] = limit
            if limit < gap and limit < reach:
                continue
        active[a] = i
        norm = np.sqrt(norm2) * (1.0 + share)
        error = error_bound(d, norm, longest, EPS32)
        scratch.best[a], scratch.second[a], scratch.home[a] = np.inf, np.inf, -1
        scratch.nearest[a] = p
        for g in range(t):
            todo[g, need[g]] = a
            need[g] += lower[i, g] <= limit
        if p >= 0 and lower[i, group[p]] > limit:  # its own group is not compared
            scratch.best[a] = 0.5 * (own2 - norm2)
            error = max(error, wrong * (own + wrong) + share * norm2)
        scratch.error[a] = error
        scratch.floor[a] = norm2 - share * norm2 - 2.0 * error
        a += 1
    return next_row, a


@inner
def multiply(centers, lower, scratch):
    """Step 2: the two smallest scores of each active row, over the groups that it is compared with.

    The smallest score of a group becomes the row's lower bound for this group.
    """
    start, member, active = centers.start, centers.member, scratch.active
    floor, best, second = scratch.floor, scratch.best, scratch.second
    for g in range(scratch.need.shape[0]):
        m, chosen = scratch.need[g], scratch.todo[g]
        if m == 0:
            continue
        if start[g] == start[g + 1]:  # a group without centres
            for b in range(m):
                lower[active[chosen[b]], g] = np.inf
            continue
        for b in range(m, m + BUNCH):  # the last bunch is filled up
            chosen[b] = chosen[m - 1]
        low1, low2, place = scratch.low1, scratch.low2, scratch.place
        meet(start[g], start[g + 1], m, chosen, centers, scratch)
        for b in range(m):
            a, low = chosen[b], np.float64(low1[b])
            second[a] = min(second[a], np.float64(low2[b]), max(best[a], low))
            if low < best[a]:
                best[a] = low
                scratch.home[a], scratch.home_next[a] = g, low2[b]
                scratch.nearest[a] = member[place[b]]
            lower[active[a], g] = least_distance(floor[a], low)


@inner
def meet(panel, last, m, chosen, centers, scratch):
    """Compare m rows with panels. The loop is inside, because a call copies both tuples."""
    for b in range(0, m, BUNCH):
        compare(
            *(centers.packed, centers.packed_half, panel, last, scratch.rows32, chosen, b),
            *(scratch.low1, scratch.low2, scratch.place),
        )


@inner
def least_distance(floor, score):
    return np.sqrt(np.float32(max(0.0, floor + 2.0 * score))) * DOWN32


@inner
def certify(n_active, lower, scratch):
    """Step 3: list the rows whose nearest centre is not certain in `hard`; return their number."""
    error, best, second = scratch.error, scratch.best, scratch.second
    n_hard = 0
    for a in range(n_active):
        if not second[a] - best[a] > 2.0 * error[a]:
            scratch.hard[n_hard] = a
            n_hard += 1
        elif scratch.home[a] >= 0:  # the bound leaves out the row's own centre
            low = least_distance(scratch.floor[a], scratch.home_next[a])
            lower[scratch.active[a], scratch.home[a]] = low
    return n_hard


@inner
def tell_apart(X, chosen, n_chosen, centers, lower, scratch):
    """Step 4 for up to HARD_ROWS active rows: their nearest centres and all lower bounds."""
    exact, shifted_half, group = centers.exact, centers.shifted_half, centers.group
    offset, scale = centers.offset, centers.scale
    rows64, scores, active = scratch.rows64, scratch.scores64, scratch.active
    d = X.shape[1]
    for b in range(n_chosen):
        for j in range(d):
            rows64[b, j] = (np.float64(X[active[chosen[b]], j]) - offset[j]) * scale
    np.dot(rows64[:n_chosen], centers.shifted.T, scores[:n_chosen])
    for b in range(n_chosen):
        i = active[chosen[b]]
        norm2 = sqnorm(rows64, b)
        error = error_bound(d, np.sqrt(norm2), centers.longest, EPS64)
        smallest = np.inf
        for c in range(exact.shape[0]):
            scores[b, c] = shifted_half[c] - scores[b, c]
            smallest = min(smallest, scores[b, c])
        nearest = -1
        nearest2 = np.inf
        for c in range(exact.shape[0]):
            if scores[b, c] <= smallest + 2.0 * error:
                d2 = sqdist(X, i, exact, c)
                if d2 < nearest2 or nearest < 0:
                    nearest2 = d2
                    nearest = c
        for g in range(lower.shape[1]):
            lower[i, g] = np.inf
        for c in range(exact.shape[0]):
            if c != nearest:
                low = np.sqrt(max(0.0, norm2 + 2.0 * (scores[b, c] - error))) * DOWN
                lower[i, group[c]] = min(lower[i, group[c]], low)
        scratch.nearest[chosen[b]] = nearest


@kernel
def assign_products(X, centers, rows, tally, scratch, penalty, use32):
    """Assign the rows of one block (steps 1 to 4). X is C-contiguous float32 or float64.

    `use32`: try float32 products first.
    """
    active, hard = scratch.active, scratch.hard
    i = np.int64(0)  # with a literal 0, Numba would compile everything twice
    while i < X.shape[0]:
        i, n_active = find_active(X, i, centers, rows, penalty, scratch, use32)
        n_hard = n_active
        if use32:
            multiply(centers, rows.lower, scratch)
            n_hard = certify(n_active, rows.lower, scratch)
        else:
            for a in range(n_active):
                hard[a] = a
        tally.stats[3] += n_hard
        for b in range(0, n_hard, HARD_ROWS):
            m = min(HARD_ROWS, n_hard - b)
            tell_apart(X, hard[b:], m, centers, rows.lower, scratch)
        settle(X, active, scratch.nearest, n_active, centers, rows, tally, penalty)


@inner
def compare_all(X, first, centers, scratch):
    """Steps 2 and 3 without bounds: compare a tile of rows from `first` on with all centres.

    Returns the number of rows, and the number of rows whose nearest centre is not certain.
    """
    d, m = X.shape[1], min(X.shape[0] - first, scratch.active.shape[0])
    chosen, low1, low2 = scratch.todo[0], scratch.low1, scratch.low2
    for a in range(m):
        where = centers.offset, centers.scale, scratch.rows32, a, centers.rounded, 0
        norm = np.sqrt(turn(X, first + a, *where)[0]) * (1.0 + (d + 16.0) * EPS32)
        scratch.error[a] = error_bound(d, norm, centers.longest, EPS32)
        scratch.active[a], chosen[a] = first + a, a
    for b in range(m, m + BUNCH):  # the last bunch is filled up
        chosen[b] = m - 1
    n_hard = 0
    meet(0, centers.packed.shape[0], m, chosen, centers, scratch)
    for a in range(m):
        scratch.nearest[a] = centers.member[scratch.place[a]]
        if not np.float64(low2[a]) - np.float64(low1[a]) > 2.0 * scratch.error[a]:
            scratch.hard[n_hard] = a
            n_hard += 1
    return m, n_hard


@inner
def nearest_of_all(X, i, exact):
    """The nearest centre of row i by the distance that decides; the first of equal ones."""
    nearest, nearest2 = 0, sqdist(X, i, exact, 0)
    for c in range(1, exact.shape[0]):
        d2 = sqdist(X, i, exact, c)
        if d2 < nearest2:
            nearest, nearest2 = c, d2
    return nearest


@kernel
def assign_all(X, centers, rows, tally, scratch, labels_only):
    """Assign the rows of one block without bounds: each row is compared with each centre.

    `labels_only`: neither the sums nor the error are needed.
    """
    active, hard, nearest = scratch.active, scratch.hard, scratch.nearest
    i = np.int64(0)
    while i < X.shape[0]:
        m, n_hard = compare_all(X, i, centers, scratch)
        tally.stats[3] += n_hard
        for b in range(n_hard):
            nearest[hard[b]] = nearest_of_all(X, i + hard[b], centers.exact)
        if labels_only:
            for a in range(m):
                rows.labels[i + a] = nearest[a]
        else:
            settle(X, active, nearest, m, centers, rows, tally, np.inf)
        i += m
