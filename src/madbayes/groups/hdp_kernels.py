"""Compiled loops of the hard HDP: the printed step 4, and moves that never raise F (KJ Eq. 2).

Letters: X (n, d) rows, those of one group together, group j from start[j] to start[j+1]; w weights
(all positive), z global labels, C global centres, W and N their weights and row counts. `local` and
`glob` are λ_l and λ_g. A gain must exceed TOL of what is compared. Sums are in float64.

Rows are copied and divided by loops: an assignment from array to array would bring its error
messages with it, which take longer to compile than this file.

The first moves leave all centres fixed. Groups do not influence each other there, so each thread
takes some groups (`start` then holds the bounds of these groups only). CT holds the centres, one to
a column, because the compiler computes the distances to several columns at a time. The second part
changes the centres and is serial, so that the result does not depend on threads.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._partition.moves import HEAVY, MARGIN, SWEEPS, TOL, copy_row
from madbayes._rows.distance import sqdist
from madbayes._rows.row_kernels import read_only
from madbayes._search.division import without_gaps

LANES = 8  # centres in one step of the compiled loops; a smaller remainder takes as long
INFINITE = int(np.float64(np.inf).view(np.int64))  # the bits of inf

# KJ Algorithm 2


@kernel
def assign_rows(X, w, start, z, C, k, local, glob, user, done):
    """`assign_or_open` with room in C; `user` of a cluster is one more than the group that used it
    last. Returns the number of centres; `done` rows have been assigned before, and when C is full
    the others wait."""
    for j in range(start.shape[0] - 1):
        if start[j + 1] <= done[0]:
            continue
        for i in range(start[j], start[j + 1]):
            user[z[i]] = j + 1
        for i in range(max(start[j], done[0]), start[j + 1]):
            best, q = np.inf, 0
            for p in range(k):
                cost = w[i] * sqdist(X, i, C, p)
                if user[p] != j + 1:
                    cost += local
                if cost < best:
                    best, q = cost, p
            if best > local + glob:
                if k == C.shape[0]:
                    done[0] = i
                    return k
                copy_row(X, i, C, k)
                q = k
                k += 1
            z[i] = q
            user[q] = j + 1
    done[0] = X.shape[0]
    return k


@kernel
def add_errors(total, X, w, z, C):
    """total + Σ w‖x - μ_z‖², one row after the other."""
    for i in range(X.shape[0]):
        total += w[i] * sqdist(X, i, C, z[i])
    return total


# Moves that leave the centres fixed


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
        for _ in range(1000):  # a guard only: every round lowers the objective
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


# Moves that change the centres


@inner
def rest_of_cluster(X, w, z, p, a, b, C):
    """The weight of the rows of cluster p outside a..b; their mean goes to the last row of C.

    O(n), for what is so heavy that subtracting it would leave only rounding.
    """
    rest, free = 0.0, C.shape[0] - 1
    for f in range(X.shape[1]):
        C[free, f] = 0.0
    for e in range(X.shape[0]):
        if z[e] == p and not a <= e < b:
            rest += w[e]
            for f in range(X.shape[1]):
                C[free, f] += w[e] * X[e, f]
    for f in range(X.shape[1]):
        C[free, f] /= rest
    return rest


@inner
def transfer(C, W, p, q, M, m, a, alone, fresh, rest):
    """Take a point (row m of M, weight a) out of cluster p and put it into q.

    `alone`: p has nothing else; `fresh`: q is a free slot; rest > 0: what is left of p was computed
    afresh, its mean in the last row of C.
    """
    if rest > 0.0:
        W[p] = rest
        for e in range(C.shape[1]):
            C[p, e] = C[C.shape[0] - 1, e]
    elif not alone:
        f = a / (W[p] - a)
        W[p] -= a
        for e in range(C.shape[1]):
            C[p, e] -= f * (M[m, e] - C[p, e])
    if fresh:
        W[q] = a
        copy_row(M, m, C, q)
    else:
        W[q] += a
        f = a / W[q]
        for e in range(C.shape[1]):
            C[q, e] += f * (M[m, e] - C[q, e])


def move_rows(X, w, start, z, rows, places, C, W, N, local, glob, stop):
    """Each of `rows` (ascending) in turn goes to one of its `places`, or to a cluster of its own,
    where the objective is lowest by the exact change, until none moves; returns the moves.

    From p to q: W_q w/(W_q+w)·‖x-μ_q‖² - W_p w/(W_p-w)·‖x-μ_p‖², λ_l more if q is new to the group,
    λ_l less if the row was alone in p in its group, λ_g more or less if q is opened or p emptied.
    """
    room = np.zeros(len(C), np.int64), np.zeros(len(C), np.int64), np.full(len(rows), -1)
    return move_each(read_only(X), w, start, z, rows, places, C, W, N, local, glob, *room, stop)


@kernel
def move_each(X, w, start, z, rows, places, C, W, N, local, glob, count, changed, seen, stop):
    """`move_rows`; `count` is room for the rows of a group in each cluster, 0 at first. `changed`
    (0) is the number of the last move from or to each cluster, `seen` (-1) how many there had been
    when one of `rows` was looked at: if none of its clusters changed since, it stays."""
    slots, moved = C.shape[0] - 1, 0
    for _ in range(SWEEPS):
        before, j, a, b = moved, 0, 0, 0  # rows a to b are the group
        for t in range(rows.shape[0]):
            if stop[0]:
                return moved
            i = rows[t]
            latest = changed[z[i]]
            for s in range(places.shape[1]):
                if places[t, s] >= 0:
                    latest = max(latest, changed[places[t, s]])
            if latest <= seen[t]:
                continue
            seen[t] = moved
            if i >= b:
                for e in range(a, b):
                    count[z[e]] = 0
                while start[j + 1] <= i:
                    j += 1
                a, b = start[j], start[j + 1]
                for e in range(a, b):
                    count[z[e]] += 1
            p, wi, rest = z[i], w[i], 0.0
            if N[p] == 1:
                leave = glob
            elif W[p] - wi < HEAVY * W[p]:
                rest = rest_of_cluster(X, w, z, p, i, i + 1, C)
                leave = wi * rest / (wi + rest) * sqdist(X, i, C, slots)
            else:
                leave = W[p] * wi / (W[p] - wi) * sqdist(X, i, C, p)
            if count[p] == 1:
                leave += local
            best, q, at = leave * (1 - TOL), -1, -1
            for s in range(places.shape[1]):
                c = places[t, s]
                if c >= 0 and N[c] > 0 and c != p:
                    cost = W[c] * wi / (W[c] + wi) * sqdist(X, i, C, c)
                    if count[c] == 0:
                        cost += local
                    if cost < best:
                        best, q, at = cost, c, s
            if local + glob < best and N[p] > 1:
                at, c = 0, 0
                while c < slots and N[c] > 0:
                    c += 1
                if c < slots:
                    q = c
                else:
                    seen[t] = -1  # until there is room
            if q < 0:
                continue
            moved += 1
            changed[p] = changed[q] = moved
            transfer(C, W, p, q, X, i, wi, N[p] == 1, N[q] == 0, rest)
            N[p] -= 1
            N[q] += 1
            count[p] -= 1
            count[q] += 1
            z[i] = q
            places[t, at] = p  # it may come back
        for e in range(a, b):
            count[z[e]] = 0
        if moved == before:
            break
    return moved


@inner
def shared_groups(first, groups, a, b):
    """How many groups use both clusters; those of c are groups[first[c]:first[c+1]], sorted."""
    s, t, both = first[a], first[b], 0
    while s < first[a + 1] and t < first[b + 1]:
        if groups[s] == groups[t]:
            both += 1
            s += 1
            t += 1
        elif groups[s] < groups[t]:
            s += 1
        else:
            t += 1
    return both


def merge_clusters(start, z, C, W, k, local, glob, stop):
    """Merge global clusters while that pays: W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖² < λ_g + λ_l · #{groups
    using both}. Every cluster has its best partner; pairs that do not overlap merge at once.
    Relabels z; returns the number of merges (clusters that were merged away have no rows left)."""
    first, groups = users(start, z, k)
    change, partner = np.zeros(k), np.full(k, -1)
    best_partners(first, groups, C, read_only(C), W, local, glob, change, partner, stop)
    target, taken = np.arange(k), np.zeros(k, bool)
    for a in np.argsort(change, kind="stable"):
        b = partner[a]
        if b >= 0 and not taken[a] and not taken[b]:
            taken[a] = taken[b] = True
            target[b] = a
    merges = int(taken.sum()) // 2
    if merges:
        z[:] = target[z]
    return merges


def users(start, z, k):
    """`first` and `groups`, ascending: groups[first[c]:first[c+1]] are those that use cluster c."""
    n_groups = len(start) - 1
    key = z * n_groups + np.repeat(np.arange(n_groups), np.diff(start))
    pair, count = without_gaps(key)
    found = np.empty(count, np.int64)
    found[pair] = key
    return found.searchsorted(np.arange(k + 1) * n_groups), found % n_groups


@kernel
def best_partners(first, groups, C, Q, W, local, glob, change, partner, stop):
    """For each cluster a the change of the objective when it merges with the best b > a, and b (-1:
    none pays; so at first, with a change of 0). Q is C, read-only; see `users` for the others."""
    k = change.shape[0]
    for a in range(k):
        if stop[0]:
            break
        for b in range(a + 1, k):
            cost = W[a] * W[b] / (W[a] + W[b]) * sqdist(Q, a, C, b) - glob
            most = min(first[a + 1] - first[a], first[b + 1] - first[b])
            if cost - local * most < change[a]:
                cost -= local * shared_groups(first, groups, a, b)
                if cost < min(change[a], -TOL * (glob + local)):
                    change[a], partner[a] = cost, b
