"""Find the rows that must be compared with centres, and the groups to compare them with.

This is step 1 of `nearest_products.py`. Three loops over a tile of rows each exclude some rows:

1. `list_unsure`: rows whose centre stays the nearest because the centres have moved little;
2. `check_groups`: rows whose upper bound is below all their lower bounds;
3. `find_active`: rows whose distance to their own centre is below all their lower bounds.
"""

import numpy as np

from madbayes._jit import compiled, inner
from madbayes._jit.constants import DOWN, DOWN32, UP, UP32, ZERO32
from madbayes._jit.vectors import loosen
from madbayes._partition.bounds import reach_of, room_left, this_pass
from madbayes._rows.distance import sqdist

EPS32 = 2.0**-24
TINY = 2.0**-148  # float32 has no finer steps than 2**-149
ROUGH = 2.0**-6  # a float32 distance with a larger relative error is computed again in float64


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
def list_unsure(next_row, labels, path, marks, look, chosen):
    """List rows from `next_row` on whose nearest centre may have changed, until `chosen` is full.

    `look`: list all rows. Returns the next row to look at, and the number of rows listed.
    """
    n, m = labels.shape[0], 0
    while next_row < n and m < chosen.shape[0]:
        last = min(n, next_row + chosen.shape[0] - m)
        for i in range(next_row, last):
            p = max(labels[i], 0)
            chosen[m] = i
            m += look or not path[p] < marks.sure[i]
        next_row = last
    return next_row, m


@inner
def check_groups(X, m, centers, rows, marks, penalty, scratch):
    """Keep those of the m rows in `active` that bounds cannot exclude; return their number."""
    labels, uppers, lower, far = rows.labels, rows.upper, rows.lower, rows.far
    group, separation, path = centers.group, centers.separation, centers.path
    active, lines = scratch.active, scratch.lines
    opening, t, now = far.shape[0] > 0, lower.shape[1], this_pass(centers)
    reach = np.sqrt(penalty) * centers.scale * DOWN
    a = 0
    for b in range(m):
        i = active[b]
        p = np.int64(labels[i])
        if opening:
            far[i] = 0
            reach = reach_of(rows.weight, i, penalty, centers.scale)
        limit, gap = np.float32(np.inf), ZERO32
        if p < 0:
            for g in range(t):
                lines[a, g] = ZERO32
        else:
            own = np.int64(group[p])
            limit, gap = (uppers[i] + centers.drift[marks.upper[i], p]) * UP32, limit
            if t > 1:
                gap = loosen(lower, marks.lower, i, centers.drifts, own, lines, a)
            low = max(ZERO32, lower[i, own] - centers.others[marks.lower[i, own], p]) * DOWN32
            lines[a, own] = low
            gap = max(min(gap, low), separation[p])
            if opening or centers.fold:  # `offer` reads upper bounds
                uppers[i], marks.upper[i] = limit, now
            if centers.fold:
                for g in range(t):
                    lower[i, g], marks.lower[i, g] = lines[a, g], now
            if limit < gap and limit < reach:
                marks.sure[i] = room_left(path[p], limit, gap, separation[p])
                continue
        active[a], scratch.limit[a], scratch.gap[a] = i, limit, gap
        a += 1
    return a


@inner
def find_active(X, next_row, centers, rows, marks, penalty, scratch, use32):
    """Step 1 for one tile. Returns the next row to look at, and the number of active rows.

    Active rows are shifted and scaled, and listed for each group that may hold the nearest centre.
    """
    labels, uppers, lines = rows.labels, rows.upper, scratch.lines
    exact, scale, longest, group = centers.exact, centers.scale, centers.longest, centers.group
    active, todo, need = scratch.active, scratch.todo, scratch.need
    opening, d, t = rows.far.shape[0] > 0, X.shape[1], scratch.need.shape[0]
    now, look = this_pass(centers), opening or centers.fold
    next_row, m = list_unsure(next_row, labels, centers.path, marks, look, active)
    m = check_groups(X, m, centers, rows, marks, penalty, scratch)
    reach = np.sqrt(penalty) * scale * DOWN
    share = (d + 16.0) * EPS32  # relative error of a sum of d squares, at most
    slack = 4.0 * EPS32 * longest + np.sqrt((d + 8.0) * TINY)
    for g in range(t):
        need[g] = 0
    a = 0
    for b in range(m):
        i, limit, gap = active[b], scratch.limit[b], scratch.gap[b]
        p = np.int64(labels[i])
        norm2, own2 = turn(
            X, i, centers.offset, scale, scratch.rows32, a, centers.rounded, max(p, 0)
        )
        own = np.sqrt(own2)
        wrong = share * own + slack
        if p >= 0:
            if opening:
                reach = reach_of(rows.weight, i, penalty, scale)
            if not use32 or wrong > ROUGH * own:
                own2 = sqdist(X, i, exact, p) * scale * scale
                own, wrong = np.sqrt(own2), 0.0
            limit = np.float32((own + wrong) * UP)
            uppers[i], marks.upper[i] = limit, now
            if limit < gap and limit < reach:
                marks.sure[i] = room_left(centers.path[p], limit, gap, centers.separation[p])
                continue
        active[a], marks.sure[i] = i, ZERO32
        norm = np.sqrt(norm2) * (1.0 + share)
        error = error_bound(d, norm, longest, EPS32)
        scratch.best[a], scratch.second[a], scratch.home[a] = np.inf, np.inf, -1
        scratch.nearest[a] = p
        for g in range(t):
            todo[g, need[g]] = a
            need[g] += lines[b, g] <= limit
        if p >= 0 and lines[b, group[p]] > limit:  # its own group is not compared
            scratch.best[a] = 0.5 * (own2 - norm2)
            error = max(error, wrong * (own + wrong) + share * norm2)
        scratch.error[a] = error
        scratch.floor[a] = norm2 - share * norm2 - 2.0 * error
        a += 1
    return next_row, a
