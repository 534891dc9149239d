"""Nearest centres by float32 products, with bounds and with certainty (dense rows, many columns).

One call handles the rows of one block. A row passes through, in this order:

1. bounds: the row is skipped when its centre must still be the nearest (`bounds`);
2. float32 products with the centres of only those groups that can win (`panels`);
3. a certificate: if the best score beats the second by more than twice the rounding error, it is
   the nearest centre; otherwise
4. a float64 product, and `sqdist` among the centres that it cannot tell apart.

So labels are those of the plain float64 loop, whatever the speed-ups did. Scores are
‖c‖²/2 - x·c of rows and centres shifted by `offset` and scaled by a power of two, so that neither
data far from the origin nor huge or tiny values lose anything.
"""

from typing import NamedTuple

import numpy as np

from madbayes._kernels import inner, kernel
from madbayes._kernels.bounds import DOWN, check_bounds, settle
from madbayes._kernels.distance import sqdist, sqnorm
from madbayes._kernels.panels import BUNCH, compare

TILE_ROWS = 512  # rows that stay in a core's own cache while groups of centres pass by
HARD_ROWS = 32  # rows of one float64 product
EPS32 = 2.0**-24
EPS64 = 2.0**-53
TINY = 2.0**-148  # float32 has no finer steps than 2**-149


class Scratch(NamedTuple):
    """The working memory of one thread, for TILE_ROWS rows at a time. Made by the engine."""

    active: np.ndarray  # (tile,) int64: rows that the bounds could not settle
    own: np.ndarray  # (tile,) float64: their squared distance to their present centre
    nearest: np.ndarray  # (tile,) int64: the nearest centre
    norm2: np.ndarray  # (tile,) float64: squared norm, shifted and scaled
    error: np.ndarray  # (tile,) float64: how wrong a score can be
    best: np.ndarray  # (tile,) float64: the smallest score so far
    second: np.ndarray  # (tile,) float64: the next one
    home: np.ndarray  # (tile,) int64: the group with the smallest score; -1: its own centre
    home_next: np.ndarray  # (tile,) float64: the next score of that group
    need: np.ndarray  # (t,) int64: how many rows need each group
    todo: np.ndarray  # (t, tile + BUNCH) int64: which ones
    rows32: np.ndarray  # (tile, d) float32: active rows, shifted and scaled
    low1: np.ndarray  # (2, tile + BUNCH) float32: the smallest scores of a group, and of a panel
    low2: np.ndarray  # (2, tile + BUNCH) float32: the next ones
    place: np.ndarray  # (2, tile + BUNCH) int32: where in the panels the smallest are
    hard: np.ndarray  # (tile,) int64: rows that float32 cannot tell apart
    rows64: np.ndarray  # (HARD_ROWS, d) float64
    scores64: np.ndarray  # (HARD_ROWS, k) float64


@inner
def error_bound(d, norm, longest, eps):
    """How far a computed score can be from the true one (Higham 2002, section 3.1, with room)."""
    rounding = eps * ((d + 8.0) * norm * longest + 2.0 * longest * longest + 2.0 * norm * norm)
    return rounding + (d + 8.0) * TINY * (1.0 + norm + longest) if eps == EPS32 else rounding


@inner
def turn_and_list(X, n_active, centers, rows, scratch):
    """Shift and scale the active rows, and list which of them each group has to be tried for."""
    labels, upper, lower = rows.labels, rows.upper, rows.lower
    offset, scale, group = centers.offset, centers.scale, centers.group
    active, todo, need, rows32 = scratch.active, scratch.todo, scratch.need, scratch.rows32
    norm2, best = scratch.norm2, scratch.best
    d = X.shape[1]
    for g in range(need.shape[0]):
        need[g] = 0
    for a in range(n_active):
        i = active[a]
        for j in range(d):
            rows32[a, j] = (np.float64(X[i, j]) - offset[j]) * scale
        norm2[a] = sqnorm(rows32, a)
        scratch.error[a] = error_bound(d, np.sqrt(norm2[a]), centers.longest, EPS32)
        best[a], scratch.second[a], scratch.home[a] = np.inf, np.inf, -1
        p = np.int64(labels[i])
        scratch.nearest[a] = p
        limit = upper[i] if p >= 0 else np.float32(np.inf)
        for g in range(need.shape[0]):
            todo[g, need[g]] = a
            need[g] += lower[i, g] <= limit
        if p >= 0 and lower[i, group[p]] > limit:  # its own group is not tried
            best[a] = 0.5 * (scratch.own[a] * scale * scale - norm2[a])


@inner
def multiply(centers, lower, scratch):
    """Step 2: the two smallest scores of the active rows among the groups that can win.

    Of every group that is tried the smallest score becomes the lower bound.
    """
    start, member, active = centers.start, centers.member, scratch.active
    norm2, error, best, second = scratch.norm2, scratch.error, scratch.best, scratch.second
    for g in range(scratch.need.shape[0]):
        m, chosen = scratch.need[g], scratch.todo[g]
        if m == 0 or start[g] == start[g + 1]:
            continue
        for b in range(m, m + BUNCH):  # the last bunch is filled up
            chosen[b] = chosen[m - 1]
        low1, low2, place = scratch.low1[0], scratch.low2[0], scratch.place[0]
        try_panel(start[g], m, chosen, centers, scratch.rows32, low1, low2, place)
        for panel in range(start[g] + 1, start[g + 1]):
            low, after, where = scratch.low1[1], scratch.low2[1], scratch.place[1]
            try_panel(panel, m, chosen, centers, scratch.rows32, low, after, where)
            for b in range(m):
                low2[b] = min(min(low2[b], after[b]), max(low1[b], low[b]))
                place[b] = where[b] if low[b] < low1[b] else place[b]
                low1[b] = min(low1[b], low[b])
        for b in range(m):
            a, low = chosen[b], np.float64(low1[b])
            second[a] = min(second[a], np.float64(low2[b]), max(best[a], low))
            if low < best[a]:
                best[a] = low
                scratch.home[a], scratch.home_next[a] = g, low2[b]
                scratch.nearest[a] = member[place[b]]
            lower[active[a], g] = least_distance(norm2[a] - 2.0 * error[a], low)


@inner
def try_panel(panel, m, chosen, centers, rows32, low1, low2, place):
    for b in range(0, m, BUNCH):
        compare(centers.packed, centers.packed_half, panel, rows32, chosen, b, low1, low2, place)


@inner
def least_distance(floor, score):
    return np.sqrt(max(0.0, floor + 2.0 * score)) * DOWN


@inner
def certify(n_active, lower, scratch):
    """Step 3: rows whose nearest centre is not certain go to `hard`; returns how many."""
    error, best, second = scratch.error, scratch.best, scratch.second
    n_hard = 0
    for a in range(n_active):
        if not second[a] - best[a] > 2.0 * error[a]:
            scratch.hard[n_hard] = a
            n_hard += 1
        elif scratch.home[a] >= 0:  # of the winner's group the next one counts
            floor = scratch.norm2[a] - 2.0 * error[a]
            low = least_distance(floor, scratch.home_next[a])
            lower[scratch.active[a], scratch.home[a]] = low
    return n_hard


@inner
def tell_apart(X, chosen, n_chosen, centers, lower, scratch):
    """Step 4 for up to HARD_ROWS of the active rows: nearest centres, and all lower bounds."""
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
    """Assign the rows of one block; see the module's text. X is C-contiguous float32 or float64.

    `use32`: try float32 first.
    """
    active, own, hard = scratch.active, scratch.own, scratch.hard
    i = np.int64(0)  # a plain 0 has a type of its own, and everything would be compiled twice
    while i < X.shape[0]:
        i, n_active = check_bounds(X, i, centers, rows, penalty, active, own)
        n_hard = n_active
        if use32 and n_active > 0:
            turn_and_list(X, n_active, centers, rows, scratch)
            multiply(centers, rows.lower, scratch)
            n_hard = certify(n_active, rows.lower, scratch)
        else:
            for a in range(n_active):
                hard[a] = a
        tally.stats[3] += n_hard
        for b in range(0, n_hard, HARD_ROWS):
            m = min(HARD_ROWS, n_hard - b)
            tell_apart(X, hard[b:], m, centers, rows.lower, scratch)
        settle(X, active, scratch.nearest, own, n_active, centers, rows, tally, penalty)
