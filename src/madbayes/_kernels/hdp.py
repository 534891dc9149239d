"""Moves of the hard HDP: serial, so that no result depends on threads; sums in float64.

Letters: X (n, d) rows, those of one group together, group j from start[j] to start[j+1]; w weights
(all positive), z global labels, C global centres, W and N their weights and row counts. `local` and
`glob` are λ_l and λ_g. A local cluster is what the rows of one group with one label are, so the
objective is Σ w‖x - μ_z‖² + λ_l · #{(group, label)} + λ_g · #{labels}. A gain must exceed TOL.
"""

import numpy as np

from madbayes._kernels import inner, kernel
from madbayes._kernels.distance import sqdist
from madbayes._kernels.moves import HEAVY, SWEEPS, TOL, close_gaps, means
from madbayes._kernels.rows import squared_error

ROUNDS = 1000  # a guard only: every round lowers the objective
CACHE = 2**21  # costs of a group's rows that are kept at a time


@kernel
def assign_or_open(X, w, start, z, C, k, local, glob):
    """KJ Algorithm 2, step 4: each row to its cheapest cluster, or to a new one.

    A cluster that the group of the row does not use costs λ_l more. With λ_l = 0 and one row to a
    group it is a pass of DP-means (KJ Algorithm 1), which is step 5 when the rows are local means.
    Returns the centres, the new ones behind the k that were there, and their number.
    """
    user = np.full(C.shape[0], -1)  # the group that used the cluster last
    for j in range(start.shape[0] - 1):
        for i in range(start[j], start[j + 1]):
            user[z[i]] = j
        for i in range(start[j], start[j + 1]):
            best, q = np.inf, 0
            for p in range(k):
                cost = w[i] * sqdist(X, i, C, p)
                if user[p] != j:
                    cost += local
                if cost < best:
                    best, q = cost, p
            if best > local + glob:
                if k == C.shape[0]:
                    more, more_user = np.empty((2 * k, C.shape[1])), np.full(2 * k, -1)
                    more[:k], more_user[:k] = C, user
                    C, user = more, more_user
                C[k] = X[i]
                q = k
                k += 1
            z[i] = q
            user[q] = j
    return C[:k], k


@kernel
def count_local(start, z, k):
    """The number of local clusters of each group."""
    user, found = np.full(k, -1), np.zeros(start.shape[0] - 1, np.int64)
    for j in range(start.shape[0] - 1):
        for i in range(start[j], start[j + 1]):
            if user[z[i]] != j:
                user[z[i]] = j
                found[j] += 1
    return found


@kernel
def local_clusters(X, w, start, z, k):
    """Means, weights and global labels of the local clusters, by group, then by label; and the
    local cluster of each row."""
    total = np.sum(count_local(start, z, k))
    M, A, label = np.zeros((total, X.shape[1])), np.zeros(total), np.empty(total, np.int64)
    member, seen, at = np.empty(X.shape[0], np.int64), np.zeros(k, np.bool_), np.zeros(k, np.int64)
    t = 0
    for j in range(start.shape[0] - 1):
        for i in range(start[j], start[j + 1]):
            seen[z[i]] = True
        for p in range(k):
            if seen[p]:
                label[t], at[p], seen[p] = p, t, False
                t += 1
        for i in range(start[j], start[j + 1]):
            m = at[z[i]]
            member[i] = m
            A[m] += w[i]
            for f in range(X.shape[1]):
                M[m, f] += w[i] * X[i, f]
    for m in range(total):
        M[m] /= A[m]
    return M, A, label, member


@kernel
def objective(X, w, start, z, k, local, glob):
    """KJ Eq. 2, every one of the k labels in use."""
    C = means(X, w, z, k, False)[0]
    return squared_error(X, w, z, C) + local * np.sum(count_local(start, z, k)) + glob * k


@inner
def settle_groups(X, w, start, z, C, k, local, cost, stop):
    """Which clusters each group uses, the centres fixed: open or close one while that pays.

    With U the clusters that a group uses, its share is Σ_i min_{p in U} w‖x - μ_p‖² + λ_l|U|. A
    cluster that no row alone repays is opened when the rows of the group repay it together. `cost`
    is scratch: groups with more rows × clusters than it holds compute distances again and again.
    """
    used, gain = np.empty(k, np.bool_), np.empty(k)
    for j in range(start.shape[0] - 1):
        a, b = start[j], start[j + 1]
        if stop[0]:
            break
        kept = (b - a) * k <= cost.shape[0]
        used[:] = False
        for i in range(a, b):
            used[z[i]] = True
            if kept:
                for p in range(k):
                    cost[(i - a) * k + p] = w[i] * sqdist(X, i, C, p)
        for _ in range(ROUNDS):
            gain[:] = 0.0  # of a used cluster: what its rows lose without it
            for i in range(a, b):
                if stop[0]:
                    break
                best, second, own = np.inf, np.inf, 0
                for p in range(k):
                    if used[p]:
                        c = cost[(i - a) * k + p] if kept else w[i] * sqdist(X, i, C, p)
                        if c < best:
                            best, second, own = c, best, p
                        elif c < second:
                            second = c
                z[i] = own
                gain[own] += second - best
                for p in range(k):
                    if not used[p]:
                        c = cost[(i - a) * k + p] if kept else w[i] * sqdist(X, i, C, p)
                        if c < best:
                            gain[p] += best - c
            most, change = TOL * local, -1
            for p in range(k):
                saved = local - gain[p] if used[p] else gain[p] - local
                if saved > most:
                    most, change = saved, p
            if change < 0 or stop[0]:
                break
            used[change] = not used[change]


@inner
def rest_of_cluster(X, w, z, p, a, b, C):
    """The weight of the rows of cluster p outside a..b; their mean goes to the last row of C.

    O(n), for what is so heavy that subtracting it would leave only rounding.
    """
    rest, free = 0.0, C.shape[0] - 1
    C[free] = 0.0
    for e in range(X.shape[0]):
        if z[e] == p and not a <= e < b:
            rest += w[e]
            for f in range(X.shape[1]):
                C[free, f] += w[e] * X[e, f]
    C[free] /= rest
    return rest


@inner
def transfer(C, W, p, q, M, m, a, alone, fresh, rest):
    """Take a point (row m of M, weight a) out of cluster p and put it into q.

    `alone`: p has nothing else; `fresh`: q is a free slot; rest > 0: what is left of p was computed
    afresh, its mean in the last row of C.
    """
    if rest > 0.0:
        C[p], W[p] = C[C.shape[0] - 1], rest
    elif not alone:
        f = a / (W[p] - a)
        W[p] -= a
        for e in range(C.shape[1]):
            C[p, e] -= f * (M[m, e] - C[p, e])
    if fresh:
        C[q], W[q] = M[m], a
    else:
        W[q] += a
        f = a / W[q]
        for e in range(C.shape[1]):
            C[q, e] += f * (M[m, e] - C[q, e])


@inner
def free_slot(N):
    """The first cluster number without rows; -1 when there is none. The last slot is scratch."""
    for c in range(N.shape[0] - 1):
        if N[c] == 0:
            return c
    return -1


@kernel
def move_rows(X, w, start, z, C, W, N, local, glob, stop):
    """Each row in turn goes where the objective is lowest, by the exact change; returns the moves.

    From p to q: W_q w/(W_q+w)·‖x-μ_q‖² - W_p w/(W_p-w)·‖x-μ_p‖², λ_l more if q is new to the group,
    λ_l less if the row was alone in p in its group, λ_g more or less if q is opened or p emptied.
    """
    slots, moved = C.shape[0] - 1, 0
    count = np.zeros(slots, np.int64)
    for _ in range(SWEEPS):
        now = 0
        for j in range(start.shape[0] - 1):
            for i in range(start[j], start[j + 1]):
                count[z[i]] += 1
            for i in range(start[j], start[j + 1]):
                if stop[0]:
                    return moved
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
                best, q = leave * (1 - TOL), -1
                for c in range(slots):
                    if N[c] > 0 and c != p:
                        cost = W[c] * wi / (W[c] + wi) * sqdist(X, i, C, c)
                        if count[c] == 0:
                            cost += local
                        if cost < best:
                            best, q = cost, c
                if local + glob < best and N[p] > 1:
                    c = free_slot(N)
                    if c >= 0:
                        q = c
                if q < 0:
                    continue
                now += 1
                transfer(C, W, p, q, X, i, wi, N[p] == 1, N[q] == 0, rest)
                N[p] -= 1
                N[q] += 1
                count[p] -= 1
                count[q] += 1
                z[i] = q
            for i in range(start[j], start[j + 1]):
                count[z[i]] = 0
        moved += now
        if now == 0:
            break
    return moved


@inner
def move_local(X, w, start, z, C, W, N, local, glob, stop):
    """Each local cluster as a whole goes where the objective is lowest; returns the moves.

    The exact change is that of a row with its mean and weight; λ_l is saved where the group uses
    the new place already, λ_g paid or saved where a global cluster is opened or emptied.
    """
    slots, moved = C.shape[0] - 1, 0
    M, A, count = np.zeros((slots, X.shape[1])), np.zeros(slots), np.zeros(slots, np.int64)
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
                    M[p] /= A[p]
            for p in range(slots):
                if count[p] == 0:
                    continue
                alone, rest = count[p] == N[p], 0.0
                if alone:
                    leave = glob
                elif W[p] - A[p] < HEAVY * W[p]:
                    rest = rest_of_cluster(X, w, z, p, a, b, C)
                    leave = A[p] * rest / (A[p] + rest) * sqdist(M, p, C, slots)
                else:
                    leave = W[p] * A[p] / (W[p] - A[p]) * sqdist(M, p, C, p)
                best, q = leave - TOL * (leave + local), -1
                for c in range(slots):
                    if N[c] > 0 and c != p:
                        cost = W[c] * A[p] / (W[c] + A[p]) * sqdist(M, p, C, c)
                        if count[c] > 0:
                            cost -= local
                        if cost < best:
                            best, q = cost, c
                if glob < best and not alone:
                    c = free_slot(N)
                    if c >= 0:
                        q = c
                if q < 0:
                    continue
                now += 1
                transfer(C, W, p, q, M, p, A[p], alone, N[q] == 0, rest)
                for i in range(a, b):
                    if z[i] == p:
                        z[i] = q
                N[p] -= count[p]
                N[q] += count[p]
                f = A[p] / (A[p] + A[q])
                for e in range(X.shape[1]):
                    M[q, e] += f * (M[p, e] - M[q, e])
                A[q] += A[p]
                count[q] += count[p]
                count[p] = 0
                A[p] = 0.0
                M[p] = 0.0
            for i in range(a, b):
                p = z[i]
                if count[p] > 0:
                    count[p] = 0
                    A[p] = 0.0
                    M[p] = 0.0
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


@kernel
def merge_clusters(start, z, C, W, k, local, glob, stop):
    """Merge global clusters while that pays: W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖² < λ_g + λ_l · #{groups
    using both}. Every cluster has its best partner; pairs that do not overlap merge at once.
    Relabels z; returns the number of merges (clusters that were merged away have no rows left)."""
    first = np.zeros(k + 1, np.int64)
    user = np.full(k, -1)
    for j in range(start.shape[0] - 1):
        for i in range(start[j], start[j + 1]):
            if user[z[i]] != j:
                user[z[i]] = j
                first[z[i] + 1] += 1
    for c in range(k):
        first[c + 1] += first[c]
    groups, at = np.empty(first[k], np.int64), first[:k].copy()
    user[:] = -1
    for j in range(start.shape[0] - 1):
        for i in range(start[j], start[j + 1]):
            p = z[i]
            if user[p] != j:
                user[p] = j
                groups[at[p]] = j
                at[p] += 1
    change, partner = np.zeros(k), np.full(k, -1)
    for a in range(k):
        if stop[0]:
            return 0
        for b in range(a + 1, k):
            cost = W[a] * W[b] / (W[a] + W[b]) * sqdist(C, a, C, b) - glob
            most = min(first[a + 1] - first[a], first[b + 1] - first[b])
            if cost - local * most < change[a]:
                cost -= local * shared_groups(first, groups, a, b)
                if cost < min(change[a], -TOL * (glob + local)):
                    change[a], partner[a] = cost, b
    target, merges = np.arange(k), 0
    taken = np.zeros(k, np.bool_)
    for a in np.argsort(change, kind="mergesort"):
        b = partner[a]
        if b >= 0 and not taken[a] and not taken[b]:
            taken[a] = taken[b] = True
            target[b] = a
            merges += 1
    if merges:
        for i in range(z.shape[0]):
            z[i] = target[z[i]]
    return merges


@kernel
def descend(X, w, start, z, k, local, glob, stop):
    """All moves in turn until none lowers the objective; z is updated, k and the objective
    returned."""
    n = X.shape[0]
    widest = 0
    for j in range(start.shape[0] - 1):
        widest = max(widest, start[j + 1] - start[j])
    F = objective(X, w, start, z, k, local, glob)
    for _ in range(ROUNDS):
        old = z.copy()
        for _ in range(SWEEPS):  # groups choose, then means
            before = z.copy()
            cost = np.empty(min(widest * k, CACHE))
            settle_groups(X, w, start, z, means(X, w, z, k, False)[0], k, local, cost, stop)
            changed = np.sum(z != before)
            k = close_gaps(z, means(X, w, z, k, False)[2])
            if stop[0] or changed <= n // 1000:  # the exact moves do the rest
                break
        C, W, N = means(X, w, z, min(n, k + 4) + 1, False)
        move_rows(X, w, start, z, C, W, N, local, glob, stop)
        k = close_gaps(z, N)
        C, W, N = means(X, w, z, min(n, k + 4) + 1, False)
        move_local(X, w, start, z, C, W, N, local, glob, stop)
        k = close_gaps(z, N)
        while not stop[0]:  # each merge leaves one cluster fewer
            C, W, N = means(X, w, z, k, False)
            if merge_clusters(start, z, C, W, k, local, glob, stop) == 0:
                break
            k = close_gaps(z, means(X, w, z, k, False)[2])
        new = objective(X, w, start, z, k, local, glob)
        if stop[0] or not new < F - TOL * abs(F):
            if new > F:  # only rounding is left
                z[:] = old
                k = np.max(z) + 1
            break
        F = new
    return k, objective(X, w, start, z, k, local, glob)


@kernel
def nearest_centers(X, C):
    """The nearest of the centres for each row, numbered without gaps, and how many have rows."""
    z, N = np.zeros(X.shape[0], np.int64), np.zeros(C.shape[0], np.int64)
    for i in range(X.shape[0]):
        best = np.inf
        for c in range(C.shape[0]):
            d2 = sqdist(X, i, C, c)
            if d2 < best:
                best, z[i] = d2, c
        N[z[i]] += 1
    return z, close_gaps(z, N)
