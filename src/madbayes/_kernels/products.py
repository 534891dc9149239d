"""Nearest centres by matrix products, with bounds and with certainty (dense rows, many columns).

One call handles the rows of one block. A row passes through, in this order:

1. bounds: the row is skipped when its centre must still be the nearest (`bounds`);
2. a float32 matrix product with the centres of only those groups that can win;
3. a certificate: if the best score beats the second by more than twice the rounding error, it is
   the nearest centre; otherwise
4. a float64 product, and `sqdist` among the centres that it cannot tell apart.

So labels are those of the plain float64 loop, whatever the speed-ups did. Scores are
‖c‖²/2 - x·c of rows and centres shifted by `offset` and scaled by a power of two, so that neither
data far from the origin nor huge or tiny values lose anything.
"""

from typing import NamedTuple

import numpy as np

from madbayes._kernels import compiled, inner, kernel
from madbayes._kernels.bounds import DOWN, check_bounds, settle
from madbayes._kernels.distance import sqdist, sqnorm

TILE_ROWS = 512  # rows and their products with centres stay in a core's own cache
TILE_COLUMNS = 256
HARD_ROWS = 32  # rows of one float64 product
EPS32 = 2.0**-24
EPS64 = 2.0**-53
TINY = 2.0**-148  # float32 has no finer steps than 2**-149


class Scratch(NamedTuple):
    """The working memory of one thread, for TILE_ROWS rows at a time. Made by the engine."""

    active: np.ndarray  # (tile,) int64: rows that the bounds could not settle
    own: np.ndarray  # (tile,) float64: their squared distance to their present centre
    norm2: np.ndarray  # (tile,) float64: squared norm, shifted and scaled
    error: np.ndarray  # (tile,) float64: how wrong a score can be
    low1: np.ndarray  # (t + 1, tile) float32: the smallest score of each group; inf: not computed
    low2: np.ndarray  # (t + 1, tile) float32: the next one
    place: np.ndarray  # (t + 1, tile) int32: where in the group the smallest is
    need: np.ndarray  # (t,) int64: how many rows need each group
    todo: np.ndarray  # (t, tile) int64: which ones
    rows32: np.ndarray  # (tile, d) float32: active rows, shifted and scaled
    gathered: np.ndarray  # (tile, d) float32: those of them that a group needs
    products: np.ndarray  # (tile * widest chunk of centres,) float32
    rows64: np.ndarray  # (HARD_ROWS, d) float64
    scores64: np.ndarray  # (HARD_ROWS, k) float64


@inner
def error_bound(d, norm, longest, eps):
    """How far a computed score can be from the true one (Higham 2002, section 3.1, with room)."""
    rounding = eps * ((d + 8.0) * norm * longest + 2.0 * longest * longest + 2.0 * norm * norm)
    return rounding + (d + 8.0) * TINY * (1.0 + norm + longest) if eps == EPS32 else rounding


@compiled(fastmath={"nnan", "nsz"}, no_cpython_wrapper=True)
def two_smallest(half, products, low1, low2, place):
    """For each column of `products` the smallest of half - products, where it is, and the next.

    Centres are rows and the data's rows are columns, so the inner loops are free of reductions and
    vectorise; four centres at a time save traffic, and which of the four it was is looked up
    afterwards. Ties go to the first.
    """
    k, m = products.shape
    for r in range(m):
        low1[r] = np.inf
        low2[r] = np.inf
        place[r] = 0
    most = k // 4 * 4
    for c in range(0, most, 4):
        h0, h1, h2, h3 = half[c], half[c + 1], half[c + 2], half[c + 3]
        line0, line1, line2, line3 = products[c], products[c + 1], products[c + 2], products[c + 3]
        first = np.int32(c)
        for r in range(m):
            v, u = h0 - line0[r], h1 - line1[r]
            low_a, high_a = min(u, v), max(u, v)
            v, u = h2 - line2[r], h3 - line3[r]
            low_b, high_b = min(u, v), max(u, v)
            low = min(low_a, low_b)
            high = min(min(high_a, high_b), max(low_a, low_b))  # the next of the four
            old = low1[r]
            low2[r] = min(min(low2[r], high), max(old, low))
            place[r] = first if low < old else place[r]
            low1[r] = min(low, old)
    if most > 0:
        for r in range(m):
            c, low = place[r], low1[r]
            which = np.int32(3)
            which = np.int32(2) if half[c + 2] - products[c + 2, r] == low else which
            which = np.int32(1) if half[c + 1] - products[c + 1, r] == low else which
            which = np.int32(0) if half[c] - products[c, r] == low else which
            place[r] = c + which
    for c in range(most, k):
        line0, here = products[c], np.int32(c)
        for r in range(m):
            v, old = half[c] - line0[r], low1[r]
            low2[r] = min(low2[r], max(old, v))
            place[r] = here if v < old else place[r]
            low1[r] = min(v, old)


@inner
def multiply(X, n_active, centers, rows, scratch, everything):
    """Step 2: the two smallest scores of the active rows in each group that can win."""
    labels, upper, lower = rows.labels, rows.upper, rows.lower
    packed, packed_half = centers.packed, centers.packed_half
    start, offset, scale = centers.start, centers.offset, centers.scale
    active, todo, need = scratch.active, scratch.todo, scratch.need
    norm2, error, rows32 = scratch.norm2, scratch.error, scratch.rows32
    low1, low2, place = scratch.low1, scratch.low2, scratch.place
    d = X.shape[1]
    t = lower.shape[1]
    for a in range(n_active):
        i = active[a]
        for j in range(d):
            rows32[a, j] = (np.float64(X[i, j]) - offset[j]) * scale
        norm2[a] = sqnorm(rows32, a)
        error[a] = error_bound(d, np.sqrt(norm2[a]), centers.longest, EPS32)
    for g in range(t):
        need[g] = n_active if everything else 0
    for a in range(0 if everything else n_active):
        i = active[a]
        new = labels[i] < 0
        for g in range(t):
            todo[g, need[g]] = a
            need[g] += new or lower[i, g] <= upper[i]
    for g in range(t):
        if 4 * need[g] > 3 * n_active:  # not worth a copy: multiply them all
            need[g] = n_active
    g = 0
    while g < t:
        n_todo = need[g]
        stop = g + 1
        if n_todo == n_active:
            while (
                stop < t and need[stop] == n_active and start[stop + 1] - start[g] <= TILE_COLUMNS
            ):
                stop += 1
        lo, hi = start[g], start[stop]
        if n_todo < n_active or hi == lo:
            for h in range(g, stop):
                for a in range(n_active):
                    low1[h, a] = np.inf
                    low2[h, a] = np.inf
        if n_todo > 0 and hi > lo:
            source = rows32[:n_todo]
            if n_todo < n_active:
                source = scratch.gathered[:n_todo]
                for b in range(n_todo):
                    a = todo[g, b]
                    for j in range(d):
                        source[b, j] = rows32[a, j]
            products = scratch.products[: n_todo * (hi - lo)].reshape((hi - lo, n_todo))
            np.dot(packed[lo:hi], source.T, products)
            for h in range(g, stop):
                line = h if n_todo == n_active else t
                first, last = start[h], start[h + 1]
                two_smallest(
                    packed_half[first:last],
                    products[first - lo : last - lo],
                    low1[line],
                    low2[line],
                    place[line],
                )
            if n_todo < n_active:
                for b in range(n_todo):
                    a = todo[g, b]
                    low1[g, a], low2[g, a], place[g, a] = low1[t, b], low2[t, b], place[t, b]
        g = stop


@inner
def certify(n_active, centers, rows, scratch, chosen, nearest, chosen_own):
    """Step 3: rows whose nearest centre is certain go to `chosen`, others to the front of `active`.

    Returns the number of both.
    """
    labels, lower = rows.labels, rows.lower
    group, member, start, scale = centers.group, centers.member, centers.start, centers.scale
    active, own, norm2, error = scratch.active, scratch.own, scratch.norm2, scratch.error
    low1, low2, place = scratch.low1, scratch.low2, scratch.place
    t = lower.shape[1]
    n_certain = np.int64(0)
    n_hard = np.int64(0)
    for a in range(n_active):
        i = active[a]
        p = labels[i]
        best, second, home = np.inf, np.inf, np.int64(-1)
        if p >= 0 and low1[group[p], a] == np.inf:  # its own group was not computed
            best = 0.5 * (own[a] * scale * scale - norm2[a])
        for g in range(t):
            low = np.float64(low1[g, a])
            second = min(second, np.float64(low2[g, a]), max(best, low))
            home = g if low < best else home
            best = min(best, low)
        if not second - best > 2.0 * error[a]:
            active[n_hard] = i
            own[n_hard] = own[a]
            n_hard += 1
            continue
        floor = norm2[a] - 2.0 * error[a]
        for g in range(t):  # of the winner's group the next one counts
            low = low2[g, a] if g == home else low1[g, a]
            if low1[g, a] < np.inf:
                lower[i, g] = np.sqrt(max(0.0, floor + 2.0 * low)) * DOWN
        chosen[n_certain] = i
        nearest[n_certain] = member[start[home] + place[home, a]] if home >= 0 else p
        chosen_own[n_certain] = own[a]
        n_certain += 1
    return n_certain, n_hard


@inner
def tell_apart(X, chosen, n_chosen, centers, lower, scratch, nearest):
    """Step 4 for up to HARD_ROWS rows: their nearest centres and all their lower bounds."""
    exact, shifted_half, group = centers.exact, centers.shifted_half, centers.group
    offset, scale = centers.offset, centers.scale
    rows64, scores = scratch.rows64, scratch.scores64
    d = X.shape[1]
    for b in range(n_chosen):
        for j in range(d):
            rows64[b, j] = (np.float64(X[chosen[b], j]) - offset[j]) * scale
    np.dot(rows64[:n_chosen], centers.shifted.T, scores[:n_chosen])
    for b in range(n_chosen):
        i = chosen[b]
        norm2 = sqnorm(rows64, b)
        error = error_bound(d, np.sqrt(norm2), centers.longest, EPS64)
        smallest = np.inf
        for c in range(exact.shape[0]):
            scores[b, c] = shifted_half[c] - scores[b, c]
            smallest = min(smallest, scores[b, c])
        nearest[b] = -1
        nearest2 = np.inf
        for c in range(exact.shape[0]):
            if scores[b, c] <= smallest + 2.0 * error:
                d2 = sqdist(X, i, exact, c)
                if d2 < nearest2 or nearest[b] < 0:
                    nearest2 = d2
                    nearest[b] = c
        for g in range(lower.shape[1]):
            lower[i, g] = np.inf
        for c in range(exact.shape[0]):
            if c != nearest[b]:
                low = np.sqrt(max(0.0, norm2 + 2.0 * (scores[b, c] - error))) * DOWN
                lower[i, group[c]] = min(lower[i, group[c]], low)


@kernel
def assign_products(X, centers, rows, tally, scratch, penalty, fresh, use32):
    """Assign the rows of one block; see the module's text. X is C-contiguous float32 or float64.

    `fresh`: there are no bounds yet. `use32`: try the float32 product first.
    """
    active, own = scratch.active, scratch.own
    chosen = np.empty(active.shape[0], np.int64)
    nearest = np.empty(active.shape[0], np.int64)
    chosen_own = np.empty(active.shape[0])
    n = X.shape[0]
    i = np.int64(0)  # a plain 0 has a type of its own, and everything would be compiled twice
    while i < n:
        i, n_active, n_new = check_bounds(X, i, centers, rows, penalty, active, own)
        if n_active == 0:
            break
        n_certain, n_hard = np.int64(0), n_active
        if use32:
            multiply(X, n_active, centers, rows, scratch, fresh or n_new == n_active)
            n_certain, n_hard = certify(
                n_active, centers, rows, scratch, chosen, nearest, chosen_own
            )
        settle(X, chosen, nearest, chosen_own, n_certain, centers, rows, tally, penalty)
        tally.stats[3] += n_hard
        for b in range(0, n_hard, HARD_ROWS):
            m = min(HARD_ROWS, n_hard - b)
            tell_apart(X, active[b:], m, centers, rows.lower, scratch, nearest)
            settle(X, active[b:], nearest, own[b:], m, centers, rows, tally, penalty)
