"""Exact moves of the hard HDP: rows, local clusters as a whole, merges. Letters as in `hdp`."""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._partition.moves import HEAVY, SWEEPS, TOL, copy_row
from madbayes._rows.distance import sqdist
from madbayes._rows.row_kernels import read_only
from madbayes.groups.group_kernels import columns, weighted_distances


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


@inner
def copy_to_column(C, c, CT):
    for f in range(CT.shape[0]):
        CT[f, c] = C[c, f]


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


def move_local(X, w, start, z, C, W, N, local, glob, stop):
    """Each local cluster as a whole goes where the objective is lowest; returns the moves.

    The exact change is that of a row with its mean and weight; λ_l is saved where the group uses
    the new place already, λ_g paid or saved where a global cluster is opened or emptied.
    """
    k, d = len(C) - 1, C.shape[1]
    M, CT = np.zeros((k, d)), columns(C[:-1])
    room = M, read_only(M), CT, np.zeros(k), np.empty(CT.shape[1]), np.zeros(k, np.int64)
    return move_parts(read_only(X), w, start, z, C, W, N, local, glob, *room, stop)


@kernel
def move_parts(X, w, start, z, C, W, N, local, glob, M, Q, CT, A, cost, count, stop):
    """`move_local`: CT are the centres in columns; M, A and count the means, weights and row counts
    of a group's local clusters, 0 at first; Q is M, read-only as X is; `cost` is room."""
    slots, moved = C.shape[0] - 1, 0
    for _ in range(SWEEPS):
        now = 0
        for j in range(start.shape[0] - 1):
            if stop[0]:
                return moved
            a, b = start[j], start[j + 1]
            for i in range(a, b):
                p = z[i]
                A[p] += w[i]
                count[p] += 1
                for f in range(X.shape[1]):
                    M[p, f] += w[i] * X[i, f]
            for p in range(slots):
                if count[p] > 0:
                    for f in range(X.shape[1]):
                        M[p, f] /= A[p]
            for p in range(slots):
                if count[p] == 0:
                    continue
                alone, rest, weight = count[p] == N[p], 0.0, A[p]
                weighted_distances(Q, p, weight, CT, cost)
                if alone:
                    leave = glob
                elif W[p] - weight < HEAVY * W[p]:
                    rest = rest_of_cluster(X, w, z, p, a, b, C)
                    leave = weight * rest / (weight + rest) * sqdist(Q, p, C, slots)
                else:
                    leave = W[p] / (W[p] - weight) * cost[p]
                for c in range(slots):
                    cost[c] *= W[c] / (W[c] + weight)
                best, q = leave - TOL * (leave + local), -1
                for c in range(slots):
                    if cost[c] - local < best and N[c] > 0 and c != p:
                        saved = local if count[c] > 0 else 0.0
                        if cost[c] - saved < best:
                            best, q = cost[c] - saved, c
                if glob < best and not alone:
                    c = 0
                    while c < slots and N[c] > 0:
                        c += 1
                    if c < slots:
                        q = c
                if q < 0:
                    continue
                now += 1
                transfer(C, W, p, q, Q, p, weight, alone, N[q] == 0, rest)
                copy_to_column(C, p, CT)
                copy_to_column(C, q, CT)
                for i in range(a, b):
                    if z[i] == p:
                        z[i] = q
                N[p] -= count[p]
                N[q] += count[p]
                share = weight / (weight + A[q])
                for f in range(X.shape[1]):
                    M[q, f] += share * (M[p, f] - M[q, f])
                A[q] += weight
                count[q] += count[p]
                count[p] = 0
            for p in range(slots):
                count[p] = 0
                A[p] = 0.0
                for f in range(X.shape[1]):
                    M[p, f] = 0.0
        moved += now
        if now == 0:
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
    """`first` and `groups`, ascending: those that use cluster c are groups[first[c]:first[c+1]]."""
    n_groups = len(start) - 1
    key = z * n_groups + np.repeat(np.arange(n_groups), np.diff(start))
    if n_groups * k > 4 * len(z) + 1024:  # most are not in use
        found = np.unique(key)
    else:
        found = np.flatnonzero(np.bincount(key, minlength=n_groups * k))
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
