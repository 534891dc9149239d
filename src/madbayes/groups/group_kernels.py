"""Steps of the hard HDP with all centres fixed: groups do not see each other, so threads may share
them (`start` then has the bounds of some groups only). Letters as in `hdp`; CT is the centres, one
to a column, so that distances to all of them are taken several at a time."""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._partition.moves import HEAVY, MARGIN, TOL
from madbayes._rows.row_kernels import read_only

ROUNDS = 1000  # a guard only: every round lowers the objective
LANES = 8  # clusters at a time; what is left over takes as long
INFINITE = int(np.float64(np.inf).view(np.int64))  # the bits of inf


def columns(C):
    """The centres, one to a column, and some that are infinitely far: a multiple of LANES."""
    CT = np.full((C.shape[1], -(-len(C) // LANES) * LANES), np.inf)
    CT[:, : len(C)] = C.T
    return CT


@inner
def weighted_distances(X, i, wi, CT, out):
    """wi times the squared distances of row i to the columns of CT, all of them at a time, two of
    the columns of X at a time."""
    d = CT.shape[0]
    for p in range(CT.shape[1]):
        out[p] = 0.0
    for f in range(0, d - 1, 2):
        x, y = np.float64(X[i, f]), np.float64(X[i, f + 1])
        for p in range(CT.shape[1]):
            gap, next_gap = x - CT[f, p], y - CT[f + 1, p]
            out[p] = (out[p] + gap * gap) + next_gap * next_gap
    if d % 2 == 1:
        x = np.float64(X[i, d - 1])
        for p in range(CT.shape[1]):
            gap = x - CT[d - 1, p]
            out[p] += gap * gap
    if wi != 1.0:
        for p in range(CT.shape[1]):
            out[p] *= wi


@inner
def least_of(bits, at, barred):
    """The least of the costs from `at` on of clusters that are not barred, as a whole number."""
    least = INFINITE
    for p in range(barred.shape[0]):
        cost = bits[at + p] | barred[p]
        least = cost if cost < least else least
    return least


def settle_groups(X, w, start, z, CT, local, cost, stop):
    """Which clusters each group uses, the centres (columns of CT) fixed: open or close one while
    that pays; returns what the groups cost in the end.

    With U the clusters that a group uses, its share is Σ_i min_{p in U} w‖x - μ_p‖² + λ_l|U|. A
    cluster that no row alone repays is opened when the rows of the group repay it together. Only
    rows that a change concerns look for their clusters again. `cost` is scratch: groups with more
    rows × clusters than it holds compute distances again and again.
    """
    k, n, whole = CT.shape[1], int(np.diff(start).max(initial=0)), np.int64
    room = np.empty(n), np.empty(n), np.empty(k, whole), np.empty(k), np.empty(k)
    bits = cost.view(whole), room[1].view(whole)
    return settle_each(read_only(X), w, start, z, CT, local, cost, *room, *bits, stop)


@kernel
def settle_each(
    X, w, start, z, CT, local, cost, best, second, barred, gain, loss, bits, second_bits, stop
):
    """`settle_groups`: room for the costs of each row's two clusters; for which clusters are not
    used (`INFINITE`, else 0), and what a change of each would bring. `bits` are costs read as whole
    numbers: none is negative, so their order is the same, and LLVM takes the least of several at a
    time only of whole numbers."""
    k, uses, total = CT.shape[1], 0, 0.0
    for j in range(start.shape[0] - 1):
        a, b = start[j], start[j + 1]
        if stop[0]:
            break
        kept = (b - a) * k <= cost.shape[0]
        for p in range(k):
            barred[p] = INFINITE
        for i in range(a, b):
            barred[z[i]] = 0
            if kept:
                weighted_distances(X, i, w[i], CT, cost[(i - a) * k : (i - a + 1) * k])
        change, share = -1, 0.0
        for _ in range(ROUNDS):
            uses, share = 0, 0.0
            for p in range(k):
                gain[p] = loss[p] = 0.0  # with a cluster more; without one that is used
                uses += barred[p] == 0
            for i in range(a, b):
                if stop[0]:
                    break
                at = (i - a) * k if kept else 0
                row = cost[at : at + k]
                if not kept:
                    weighted_distances(X, i, w[i], CT, row)
                own, r = z[i], i - a
                if change < 0 or (barred[change] != 0 and row[change] <= second[r]):
                    before = barred[own]
                    barred[own] = INFINITE
                    least = least_of(bits, at, barred)
                    barred[own] = before
                    if least <= bits[at + own] | before:  # another one, or the first of equals
                        own = 0
                        while own < k - 1 and bits[at + own] | barred[own] != least:
                            own += 1
                        barred[own] = INFINITE
                        least = least_of(bits, at, barred)
                        barred[own] = 0
                    best[r], second_bits[r] = row[own], least
                elif barred[change] == 0 and row[change] < second[r]:
                    second[r] = row[change]
                    if row[change] < best[r] or (row[change] == best[r] and change < own):
                        best[r], second[r], own = row[change], best[r], change
                z[i], least_cost = own, best[r]
                share += least_cost
                loss[own] += second[r] - least_cost
                for p in range(k):  # used ones are no cheaper than the best of them
                    saved = least_cost - row[p]
                    gain[p] += saved if saved > 0.0 else 0.0
            most, change = TOL * local, -1
            for p in range(k):
                saved = local - loss[p] if barred[p] == 0 else gain[p] - local
                if saved > most:
                    most, change = saved, p
            if change < 0 or stop[0]:
                break
            barred[change] = INFINITE - barred[change]
        total += share + local * uses
    return total


def find_frontier(X, w, start, z, CT, W, N, local, glob, rows, places, stop):
    """The rows of some groups that may move, and for each the clusters that are cheapest to join.

    These are rows for which another place costs at most MARGIN more than staying, and rows so heavy
    that only `move_rows` can tell. Returns how many; -1: no further place.
    """
    k, X = CT.shape[1], read_only(X)
    cost, none = np.empty(k), np.zeros(k, np.int64)
    room = cost, cost.view(np.int64), np.full(k, np.inf), np.ones(k), none.copy(), none
    return list_frontier(X, w, start, z, CT, W, N, local, glob, rows, places, *room, stop)


@kernel
def list_frontier(
    X, w, start, z, CT, W, N, local, glob, rows, places, cost, bits, extra, share, count, none, stop
):
    """`find_frontier`: room for numbers of each cluster (`bits` as in `settle_each`; `extra` is inf
    and `share` 1 where CT has a column more), and for the rows that the group has there (0 at first
    and in the end); `none` is 0."""
    slots, size, before = W.shape[0] - 1, 0, 0.0
    for j in range(start.shape[0] - 1):
        if stop[0]:
            break
        for i in range(start[j], start[j + 1]):
            count[z[i]] += 1
        for c in range(slots):
            extra[c] = local if count[c] == 0 else 0.0
            if N[c] == 0:
                extra[c] = np.inf
        for i in range(start[j], start[j + 1]):
            p, wi = z[i], w[i]
            weighted_distances(X, i, wi, CT, cost)
            leave = W[p] / (W[p] - wi) * cost[p]
            if N[p] == 1:
                leave = glob
            elif W[p] - wi < HEAVY * W[p]:
                leave = np.inf
            if count[p] == 1:
                leave += local
            if wi != before:  # mostly all weights are equal, and divisions take long
                before = wi
                for c in range(slots):
                    share[c] = W[c] / (W[c] + wi)
            limit, near = leave * (1 + MARGIN), 0
            for c in range(CT.shape[1]):
                cost[c] = share[c] * cost[c] + extra[c]
                near += cost[c] < limit
            near -= cost[p] < limit
            cost[p] = np.inf
            if near == 0 and (N[p] == 1 or not local + glob < limit):
                continue
            rows[size] = i
            for t in range(places.shape[1]):
                q, least = 0, least_of(bits, 0, none)
                while bits[q] != least:
                    q += 1
                places[size, t] = q if least < INFINITE else -1
                cost[q] = np.inf
            size += 1
        for i in range(start[j], start[j + 1]):
            count[z[i]] = 0
    return size
