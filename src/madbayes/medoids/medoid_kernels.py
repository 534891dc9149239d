"""Medoids: rows that stand for their clusters. One row of D at a time; sums in float64.

Letters: D (n, n), D[c, i] is what row i pays when c is its medoid; w weights, all positive; M the
medoids, in its first k slots; near and second: the slots of the medoids that cost a row least and
next to least, dn and ds what they cost (second = -1, ds = inf when there is only one).
λ is `penalty`, `cap` the largest number of medoids. J = Σ_i w_i dn_i + λk. `stop` ends what may
take long (`_rows.threads.patient`).
"""

import numpy as np

from madbayes._jit import compiled, kernel

TOL = 1e-10  # a move must lower J by more than this share of it


@kernel
def rank(D, M, k, near, second, dn, ds):
    """near, second, dn and ds afresh; ties go to the lowest slot."""
    n = D.shape[1]
    for i in range(n):
        near[i], second[i] = -1, -1
        dn[i], ds[i] = np.inf, np.inf
    for s in range(k):
        row = D[M[s]]
        for i in range(n):
            d = row[i]
            if d < dn[i]:
                second[i], ds[i] = near[i], dn[i]
                near[i], dn[i] = s, d
            elif d < ds[i]:
                second[i], ds[i] = s, d


@kernel
def put(D, M, k, s, c, near, second, dn, ds):
    """Slot s gets the medoid c: in place of another one, or as a new one (s = k - 1)."""
    M[s] = c
    row = D[c]
    for i in range(D.shape[1]):
        d = row[i]
        if near[i] == s:
            if d < ds[i] or k == 1:
                dn[i] = d
                continue
            near[i], dn[i] = second[i], ds[i]
        elif second[i] == s:
            if d < dn[i]:
                second[i], ds[i] = near[i], dn[i]
                near[i], dn[i] = s, d
                continue
            if d <= ds[i]:
                ds[i] = d
                continue
        else:
            if d < dn[i]:
                second[i], ds[i] = near[i], dn[i]
                near[i], dn[i] = s, d
            elif d < ds[i]:
                second[i], ds[i] = s, d
            continue
        second[i], ds[i] = -1, np.inf  # the second is lost: look through all of them
        for t in range(k):
            if t != near[i] and D[M[t], i] < ds[i]:
                second[i], ds[i] = t, D[M[t], i]


@kernel
def close(D, M, k, s, near, second, dn, ds):
    """Slot s is given up, and the last slot takes its number."""
    last = k - 1
    M[s] = M[last]
    for i in range(D.shape[1]):
        lost = near[i] == s or second[i] == s
        if near[i] == s:
            near[i], dn[i] = second[i], ds[i]
        if near[i] == last:
            near[i] = s
        if second[i] == last:
            second[i] = s
        if lost:
            second[i], ds[i] = -1, np.inf
            for t in range(last):
                if t != near[i] and D[M[t], i] < ds[i]:
                    second[i], ds[i] = t, D[M[t], i]


@kernel
def losses(w, k, near, dn, ds, loss):
    """Σ w dn; loss[s] becomes what it costs to give up slot s."""
    total = 0.0
    for s in range(k):
        loss[s] = 0.0
    for i in range(w.shape[0]):
        total += w[i] * dn[i]
        loss[near[i]] += w[i] * (ds[i] - dn[i])
    return total


@kernel
def sweep(D, w, M, k, cap, penalty, near, second, dn, ds, idle, stop):
    """One pass of all rows as candidates, each taken at once where it lowers J.

    A candidate replaces the medoid that it replaces best, or becomes one more; medoids that do not
    repay λ are given up. `idle` counts the candidates in a row that brought nothing: at n the
    search is over. Returns (k, Σ w dn, idle).
    """
    n = D.shape[0]
    loss, change = np.empty(cap), np.empty(cap)
    member, listed = np.zeros(n, np.bool_), np.empty(n + 1, np.int32)
    for s in range(k):
        member[M[s]] = True
    total = losses(w, k, near, dn, ds, loss)
    for c in range(-1, n):  # -1: look for medoids to give up before the first candidate
        if c >= 0:
            if idle >= n or stop[0]:
                break
            idle += 1
            if member[c]:
                continue
            row = D[c]
            gain = 0.0  # of one more medoid, without λ
            s = 0
            if k == 1:
                lowest = -total
                for i in range(n):
                    d = row[i]
                    lowest += w[i] * d
                    if d < dn[i]:
                        gain += w[i] * (d - dn[i])
            else:
                for t in range(k):
                    change[t] = loss[t]
                m = 0  # list the few rows that c is near to, without a branch to guess wrong
                for i in range(n):
                    listed[m] = i
                    m += row[i] < ds[i]
                for e in range(m):
                    i = listed[e]
                    d = row[i]
                    if d < dn[i]:
                        gain += w[i] * (d - dn[i])
                        change[near[i]] += w[i] * (dn[i] - ds[i])
                    else:
                        change[near[i]] += w[i] * (d - ds[i])
                for t in range(1, k):
                    if change[t] < change[s]:
                        s = t
                lowest = change[s] + gain
            opens = k < cap and gain + penalty < lowest
            if opens:
                lowest = gain + penalty
                s = k
            if not lowest < -TOL * (total + penalty * k):
                continue
            if opens:
                k += 1
            else:
                member[M[s]] = False
            member[c] = True
            put(D, M, k, s, c, near, second, dn, ds)
            total = losses(w, k, near, dn, ds, loss)
            idle = 0
        while k > 1:
            s = 0
            for t in range(1, k):
                if loss[t] < loss[s]:
                    s = t
            if not loss[s] - penalty < -TOL * (total + penalty * k):
                break
            member[M[s]] = False
            close(D, M, k, s, near, second, dn, ds)
            k -= 1
            total = losses(w, k, near, dn, ds, loss)
            idle = 0
    return k, total, idle


@kernel
def totals(D, w, stop):
    """What all rows together pay when c is the only medoid, for each c."""
    out = np.zeros(D.shape[0])
    for c in range(D.shape[0]):
        if stop[0]:
            break
        row = D[c]
        for i in range(D.shape[1]):
            out[c] += w[i] * row[i]
    return out


@compiled(fastmath={"reassoc"}, no_cpython_wrapper=True)
def saved_by(D, c, w, dn):
    """What one more medoid c saves. The sum is taken several lanes at a time."""
    total = 0.0
    for i in range(D.shape[1]):
        less = dn[i] - D[c, i]
        total += w[i] * (less if less > 0.0 else 0.0)
    return total


@kernel
def grow(D, w, M, k, cap, penalty, dn, stop):
    """More medoids one by one, each where it saves most, while that is more than λ; returns k.

    M has k of them already, and dn is what rows pay now. What a candidate saves can only shrink as
    medoids are added, so only candidates that once saved more than the best one does now are worked
    out again, the most promising one first (Minoux 1978). Ties go to the lowest row.
    """
    n = D.shape[0]
    saves = np.full(n, np.inf)
    for s in range(k):
        saves[M[s]] = -np.inf
    while k < cap and not stop[0]:
        first = np.argmax(saves)
        best, most = first, -np.inf
        for e in range(-1, n):
            c = first if e < 0 else e
            if e == first or not (saves[c] > most or (saves[c] == most and c < best)):
                continue
            saves[c] = total = saved_by(D, c, w, dn)
            if total > most or (total == most and c < best):
                best, most = c, total
        if most <= penalty:
            break
        M[k] = best
        k += 1
        saves[best] = -np.inf
        row = D[best]
        for i in range(n):
            dn[i] = min(dn[i], row[i])
    return k


@kernel
def update_medoids(D, w, labels, M, k):
    """M[s] becomes the row of cluster s to which its rows together are nearest.

    Ties go to the lowest row; a cluster without rows keeps its medoid.
    """
    n = D.shape[0]
    start = np.zeros(k + 1, np.int64)
    for i in range(n):
        start[labels[i] + 1] += 1
    for s in range(k):
        start[s + 1] += start[s]
    at, rows = start.copy(), np.empty(n, np.int64)
    for i in range(n):
        rows[at[labels[i]]] = i
        at[labels[i]] += 1
    for s in range(k):
        lowest = np.inf
        for a in range(start[s], start[s + 1]):
            row = D[rows[a]]
            total = 0.0
            for b in range(start[s], start[s + 1]):
                total += w[rows[b]] * row[rows[b]]
                if total >= lowest:  # what follows is not negative
                    break
            if total < lowest:
                lowest = total
                M[s] = rows[a]


@kernel
def assign_or_open(D, w, M, k, cap, penalty, labels):
    """KJ Algorithm 1, step 3, with medoids: row by row the nearest one, or a new one."""
    for i in range(D.shape[1]):
        near, lowest = 0, np.inf
        for s in range(k):
            d = D[M[s], i]
            if d < lowest:
                near, lowest = s, d
        if w[i] * (lowest - D[i, i]) > penalty and k < cap:
            near = k
            M[k] = i
            k += 1
        labels[i] = near
    return k


@kernel
def symmetric(D):
    """Whether D[i, j] is D[j, i] throughout; tile by tile, for the sake of memory."""
    n, tile = D.shape[0], 64
    for a in range(0, n, tile):
        for b in range(0, a + 1, tile):
            for i in range(a, min(a + tile, n)):
                for j in range(b, min(b + tile, n)):
                    if D[i, j] != D[j, i]:
                        return False
    return True
