"""Moves of the DP-means search: serial, so that no result depends on threads; sums in float64.

Letters: X (n, d) rows, w weights, z labels, C centres, W cluster weights, N cluster row counts;
λ is `penalty`, `cap` the largest number of clusters. A gain must exceed TOL of what is compared.
With `unit` rows and centres have length 1 (the cosine metric), and W are the lengths of the sums;
kernels take None in its place if it is not so: Numba leaves out what None forbids.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._partition.lloyd_kernels import lloyd_by_columns
from madbayes._partition.ward import join_cost, merge_below
from madbayes._rows.distance import sqdist
from madbayes._rows.row_kernels import read_only, squared_error

TOL = 1e-10  # a gain below this share of the objective counts as rounding
MARGIN = 0.05  # a row is watched while another cluster costs at most so much more
SWEEPS = 100  # a guard only: more are hardly ever needed
PLACES = 4  # clusters that a row at the frontier may go to before all are looked at again
HEAVY = 1e-4  # a cluster without a row keeps at least this share, or its mean is taken afresh


@kernel
def add_rows(X, w, z, C, W, N, divide):
    """Add rows to the sums, weights and row counts of their clusters; then `divide` the sums of
    those that have rows, for their means."""
    for i in range(X.shape[0]):
        c, wi = z[i], w[i]
        W[c] += wi
        N[c] += 1
        for j in range(X.shape[1]):
            C[c, j] += wi * X[i, j]
    for c in range(C.shape[0] if divide else 0):
        if N[c] > 0:
            for j in range(C.shape[1]):
                C[c, j] /= W[c]


@kernel
def unit_means(C, W, N):
    """Means C to directions, and weights W to the lengths of the sums."""
    for c in range(C.shape[0]):
        if N[c] > 0:
            W[c] *= to_unit(C, c)


def means(X, w, z, k, unit):
    """Means, weights and row counts of k clusters; with `unit` W are the lengths of the sums."""
    C, W, N = np.zeros((k, X.shape[1])), np.zeros(k), np.zeros(k, np.int64)
    add_rows(X, w, z, C, W, N, True)
    if unit:
        unit_means(C, W, N)
    return C, W, N


def close_gaps(z, N):
    """Renumber the clusters that have rows; returns their number."""
    k = np.count_nonzero(N)
    if np.count_nonzero(N[:k]) < k:
        z[:] = (N > 0).cumsum()[z] - 1
    return k


@inner
def to_unit(C, c):
    """Give row c length 1; returns the length it had."""
    length2 = 0.0
    for j in range(C.shape[1]):
        length2 += C[c, j] * C[c, j]
    length = np.sqrt(length2)
    if length > 0.0:
        for j in range(C.shape[1]):
            C[c, j] /= length
    return length


@inner
def leave_gain(W, w, d2, unit):
    """What the objective falls by when weight w, d2 away, leaves its cluster of weight W."""
    if unit is not None:
        rest = W - w
        root = np.sqrt(rest * rest + W * w * d2)
        return 2.0 * W * w * d2 / (root + rest) if rest > 0.0 else 2.0 * (root - rest)
    return W * w / (W - w) * d2


def rows_to_watch(own, other, w, z, W, N, penalty, room, unit):
    """Rows for which a move may help, by their squared distances to their own centre (at most
    `own`) and to any other (at least `other`); with `room` for one cluster more, at least."""
    here, lightest, alone = W[z], W.min(), N[z] == 1  # the lightest is the easiest to join
    with np.errstate(divide="ignore", invalid="ignore"):
        rest, both = here - w, lightest + w
        cost, gain = lightest * w / both * other, here * w / rest * own
        if unit:  # see `join_cost` and `leave_gain`
            apart, root = lightest * w * other, np.sqrt(rest * rest + here * w * own)
            cost = 2.0 * apart / (both + np.sqrt(np.maximum(both * both - apart, 0.0)))
            gain = np.where(rest > 0, 2.0 * here * w * own / (root + rest), 2.0 * (root - rest))
        if room:
            cost = np.where(alone, cost, np.minimum(cost, penalty))
        gain[np.abs(rest) < HEAVY * np.maximum(here, w)] = np.inf
        gain[alone] = penalty
        return np.flatnonzero(~(cost >= gain * (1 + MARGIN)))


@inner
def rest_of_cluster(X, w, z, i, C, unit):
    """The weight of the other rows of row i's cluster; their mean goes to the last row of C.

    O(n), for a row so heavy that subtracting it would leave only rounding.
    """
    rest, free = 0.0, C.shape[0] - 1
    for j in range(X.shape[1]):
        C[free, j] = 0.0
    for e in range(X.shape[0]):
        if z[e] == z[i] and e != i:
            rest += w[e]
            for j in range(X.shape[1]):
                C[free, j] += w[e] * X[e, j]
    for j in range(X.shape[1]):
        C[free, j] /= rest
    if unit is not None:
        rest *= to_unit(C, free)
    return rest


@inner
def copy_row(X, i, C, c):
    for j in range(X.shape[1]):
        C[c, j] = X[i, j]


@inner
def shift(X, i, C, W, c, wi, unit):
    """Centre and weight of cluster c with row i in it (wi > 0) or without it (wi < 0)."""
    if unit is not None:
        for j in range(X.shape[1]):
            C[c, j] = W[c] * C[c, j] + wi * X[i, j]
        W[c] = to_unit(C, c)
    else:
        W[c] += wi
        f = wi / W[c]
        for j in range(X.shape[1]):
            C[c, j] += f * (X[i, j] - C[c, j])


@inner
def look_around(X, i, wi, p, C, W, N, costs, places, at, unit):
    """The clusters that row i of cluster p joins most cheaply, the cheapest first; -1: no more."""
    last = costs.shape[0] - 1
    for t in range(last + 1):
        costs[t], places[at, t] = np.inf, -1
    for c in range(C.shape[0] - 1):
        if N[c] > 0 and c != p:
            cost = join_cost(W[c], wi, sqdist(X, i, C, c), unit)
            if cost < costs[last]:
                t = last
                while t > 0 and costs[t - 1] > cost:
                    costs[t], places[at, t] = costs[t - 1], places[at, t - 1]
                    t -= 1
                costs[t], places[at, t] = cost, c


@inner
def look_again(X, i, wi, p, C, W, N, costs, places, at, unit):
    """The cheapest of these clusters comes first, now that centres have moved."""
    for t in range(costs.shape[0]):
        c = places[at, t]
        costs[t] = np.inf
        if c >= 0 and c != p and N[c] > 0:
            costs[t] = join_cost(W[c], wi, sqdist(X, i, C, c), unit)
            if costs[t] < costs[0]:
                costs[0], costs[t] = costs[t], costs[0]
                places[at, 0], places[at, t] = c, places[at, 0]


def move_rows(X, w, z, rows, C, W, N, penalty, cap, unit, excess, stop):
    """Hartigan's moves: each of `rows` in turn goes where J is lowest by the exact change.

    A cluster of its own is one of the places. Returns the number of moves; stops after
    SWEEPS, or when what J has to fall by (`excess`) is more than twice what was gained since
    all rows were looked at.
    z, C, W, N are updated; N[c] = 0 is a free slot, the last slot is scratch. A sweep of all `rows`
    notes the frontier, those for which another cluster costs at most MARGIN more than staying, and
    the PLACES clusters next to each; only the frontier is swept, among those clusters, until it
    rests, then all rows again, until none of them moves.
    """
    frontier, places = np.empty(len(rows), np.int64), np.empty((len(rows) + 1, PLACES), np.int64)
    book = frontier, places, np.empty(PLACES)
    unit = unit or None
    return sweep(read_only(X), w, z, rows, C, W, N, penalty, cap, unit, excess, book, stop)


@kernel
def sweep(X, w, z, rows, C, W, N, penalty, cap, unit, excess, book, stop):
    """`move_rows`; `book` is room for the frontier, the places and their costs."""
    frontier, places, costs = book
    slots, size = C.shape[0] - 1, 0
    k, moved = 0, 0
    for c in range(slots):
        k += N[c] > 0
    everything = True
    rest = gained = 0.0
    for _ in range(SWEEPS):
        now = 0
        if everything:
            size, gained = 0, 0.0
        for t in range(rows.shape[0] if everything else size):
            if stop[0]:
                return moved
            i = rows[t] if everything else frontier[t]
            p, wi, at = z[i], w[i], size if everything else t
            own = sqdist(X, i, C, p)
            left = W[p] - wi
            if unit is not None:
                left = np.sqrt(left * left + W[p] * wi * own)
            heavy = N[p] > 1 and left < HEAVY * (W[p] if W[p] > wi else wi)
            if N[p] == 1:
                leave = penalty
            elif heavy:
                rest = rest_of_cluster(X, w, z, i, C, unit)
                leave = join_cost(rest, wi, sqdist(X, i, C, slots), unit)
            else:
                leave = leave_gain(W[p], wi, own, unit)
            if everything:
                look_around(X, i, wi, p, C, W, N, costs, places, at, unit)
            else:
                look_again(X, i, wi, p, C, W, N, costs, places, at, unit)
            best, q = costs[0], places[at, 0]
            if penalty < best and N[p] > 1 and k < cap:
                c = 0
                while c < slots and N[c] > 0:
                    c += 1
                if c < slots:
                    best, q = penalty, c
            if not best < leave * (1 + MARGIN):
                continue
            if everything:
                frontier[size] = i
                size += 1
            if not best < leave * (1 - TOL):
                continue
            now += 1
            gained += leave - best
            if N[p] == 1:
                k -= 1
            if heavy:
                for j in range(C.shape[1]):
                    C[p, j] = C[slots, j]
                W[p] = rest
            elif N[p] > 1:
                shift(X, i, C, W, p, -wi, unit)
            if N[q] == 0:
                k += 1
                copy_row(X, i, C, q)
                W[q] = wi
            else:
                shift(X, i, C, W, q, wi, unit)
            N[p] -= 1
            N[q] += 1
            z[i] = q
            places[at, 0] = p  # it may come back
        moved += now
        if now == 0 and (everything or excess - gained > gained):
            break
        if now == 0:
            excess -= gained
        everything = now == 0  # the frontier rests: look at all rows again
    return moved


def relax(X, w, C, penalty, cap, unit, limit, stop):
    """From centres C: nearest centre, then row moves and merges in turn until neither lowers J, or
    there is no hope to come below `limit`.

    Where only rounding is left, the moves may undo the merges: what does not lower J is taken back.
    Returns labels, k and J. Python, since a kernel of kernels would compile them all once more.
    """
    n, rows, R = len(X), np.arange(len(X)), read_only(X)
    columns = np.ascontiguousarray(X.T, dtype=np.float64)
    z = lloyd_by_columns(columns, w, C, 0)[0]  # a kernel that is compiled already
    k = close_gaps(z, np.bincount(z, minlength=len(C)))
    lowest, best_z, best_k = np.inf, z, k
    for _ in range(1000):  # a guard only: every round of all moves lowers the objective
        C, W, N = means(X, w, z, min(n, k + 4) + 1, unit)
        excess = squared_error(R, w, z, C) + penalty * k - limit
        move_rows(R, w, z, rows, C, W, N, penalty, cap, unit, excess, stop)
        k = close_gaps(z, N)
        C, W, N = means(X, w, z, k, unit)
        J = squared_error(R, w, z, C) + penalty * k
        if k <= cap:
            if not J < lowest:
                break
            lowest, best_z, best_k = J, z.copy(), k
        group, merged = merge_below(C, W, penalty * (1 - TOL), cap, unit, stop)
        if merged == k or stop[0]:
            break
        z, k = group[z], merged
    return best_z, best_k, lowest
