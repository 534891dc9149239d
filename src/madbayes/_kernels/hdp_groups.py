"""Steps of the hard HDP with all centres fixed: groups do not see each other, so threads may share
them (`start` then has the bounds of some groups only). Letters as in `hdp`; CT is the centres, one
to a column, so that distances to all of them are taken several at a time."""

import numpy as np

from madbayes._kernels import inner, kernel
from madbayes._kernels.moves import HEAVY, MARGIN, TOL
from madbayes._kernels.rows import read_only

ROUNDS = 1000  # a guard only: every round lowers the objective


@inner
def weighted_distances(X, i, wi, CT, out):
    """wi times the squared distances of row i to the columns of CT, all of them at a time."""
    for p in range(CT.shape[1]):
        out[p] = 0.0
    for f in range(CT.shape[0]):
        x = np.float64(X[i, f])
        for p in range(CT.shape[1]):
            gap = x - CT[f, p]
            out[p] += gap * gap
    for p in range(CT.shape[1]):
        out[p] *= wi


def settle_groups(X, w, start, z, CT, local, cost, stop):
    """Which clusters each group uses, the centres (columns of CT) fixed: open or close one while
    that pays; returns what the groups cost in the end.

    With U the clusters that a group uses, its share is Σ_i min_{p in U} w‖x - μ_p‖² + λ_l|U|. A
    cluster that no row alone repays is opened when the rows of the group repay it together. Only
    rows that a change concerns look for their clusters again. `cost` is scratch: groups with more
    rows × clusters than it holds compute distances again and again.
    """
    k, n, whole = CT.shape[1], int(np.diff(start).max(initial=0)), np.int64
    of_rows = np.empty(n), np.empty(n), np.empty(n, whole)
    of_clusters = np.empty(k, whole), np.empty(k, whole), np.empty(k), np.empty(k)
    return settle_each(read_only(X), w, start, z, CT, local, cost, *of_rows, *of_clusters, stop)


@kernel
def settle_each(
    X, w, start, z, CT, local, cost, best, second, other, used, inside, gain, loss, stop
):
    """`settle_groups`: room for the costs of each row's two clusters and for the second of them;
    for which clusters are used, a list of these, and what a change of each would bring."""
    k, uses, total = CT.shape[1], 0, 0.0
    for j in range(start.shape[0] - 1):
        a, b = start[j], start[j + 1]
        if stop[0]:
            break
        kept = (b - a) * k <= cost.shape[0]
        for p in range(k):
            used[p] = 0
        for i in range(a, b):
            used[z[i]] = 1
            if kept:
                weighted_distances(X, i, w[i], CT, cost[(i - a) * k : (i - a + 1) * k])
        change, share = -1, 0.0
        for _ in range(ROUNDS):
            uses, share = 0, 0.0
            for p in range(k):
                gain[p] = loss[p] = 0.0  # with a cluster more; without one that is used
                inside[uses] = p
                uses += used[p]
            for i in range(a, b):
                if stop[0]:
                    break
                row = cost[(i - a) * k : (i - a + 1) * k] if kept else cost[:k]
                if not kept:
                    weighted_distances(X, i, w[i], CT, row)
                own, least, next_, then = z[i], best[i - a], second[i - a], other[i - a]
                if change < 0 or (used[change] == 0 and (own == change or then == change)):
                    least, next_ = np.inf, np.inf
                    for t in range(uses):
                        c = row[inside[t]]
                        if c < next_:
                            if c < least:
                                least, next_, own, then = c, least, inside[t], own
                            else:
                                next_, then = c, inside[t]
                elif used[change] == 1 and row[change] < next_:
                    next_, then = row[change], change
                    if next_ < least or (next_ == least and change < own):
                        least, next_, own, then = next_, least, change, own
                z[i], best[i - a], second[i - a], other[i - a] = own, least, next_, then
                share += least
                loss[own] += next_ - least
                for p in range(k):  # used ones are no cheaper than the best of them
                    saved = least - row[p]
                    gain[p] += saved if saved > 0.0 else 0.0
            most, change = TOL * local, -1
            for p in range(k):
                saved = local - loss[p] if used[p] == 1 else gain[p] - local
                if saved > most:
                    most, change = saved, p
            if change < 0 or stop[0]:
                break
            used[change] = 1 - used[change]
        total += share + local * uses
    return total


def find_frontier(X, w, start, z, CT, W, N, local, glob, rows, places, stop):
    """The rows of some groups that may move, and for each the clusters that are cheapest to join.

    These are rows for which another place costs at most MARGIN more than staying, and rows so heavy
    that only `move_rows` can tell. Returns how many; -1: no further place.
    """
    k, X = CT.shape[1], read_only(X)
    room = np.empty(k), np.empty(k), np.empty(k), np.zeros(k, np.int64)
    return list_frontier(X, w, start, z, CT, W, N, local, glob, rows, places, *room, stop)


@kernel
def list_frontier(
    X, w, start, z, CT, W, N, local, glob, rows, places, cost, extra, share, count, stop
):
    """`find_frontier`: room for numbers of each cluster, and for the rows that the group has there
    (0 at first and in the end)."""
    slots, size, before = CT.shape[1], 0, 0.0
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
            for c in range(slots):
                cost[c] = share[c] * cost[c] + extra[c]
                near += cost[c] < limit
            near -= cost[p] < limit
            cost[p] = np.inf
            if near == 0 and (N[p] == 1 or not local + glob < limit):
                continue
            rows[size] = i
            for t in range(places.shape[1]):
                q = 0
                for c in range(slots):
                    if cost[c] < cost[q]:
                        q = c
                places[size, t] = q if cost[q] < np.inf else -1
                cost[q] = np.inf
            size += 1
        for i in range(start[j], start[j + 1]):
            count[z[i]] = 0
    return size
