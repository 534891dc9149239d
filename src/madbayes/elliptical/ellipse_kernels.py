"""Clusters with covariances: assignments, exact moves of single rows, merges.

Letters: Y (n, d) rows in float64, w weights, z labels; of cluster c: C[c] the mean, W[c] the
weight, N[c] the rows, S[c] the scatter, A[c] the inverse of Φ + S[c] and L[c] the logarithm of its
determinant, with Φ = φI. A slot with N = 0 is free. T and M are scratch (d, d). `stop` ends what
may take long (`_rows.threads.patient`).
"""

import numpy as np

from madbayes._jit import inner, kernel


@inner
def factor(M, T):
    """Cholesky's factor of M in the lower half of T; returns log|M|."""
    total = 0.0
    for j in range(M.shape[0]):
        for e in range(j + 1):
            v = M[j, e]
            for g in range(e):
                v -= T[j, g] * T[e, g]
            if e == j:
                v = max(v, 1e-300)  # not positive only by rounding: Φ is in it
                T[j, j] = np.sqrt(v)
                total += np.log(v)
            else:
                T[j, e] = v / T[e, e]
    return total


@inner
def invert(T, A, c):
    """A[c] becomes the inverse of the matrix whose factor T is; T is used up."""
    d = T.shape[0]
    for j in range(d):  # the inverse of the factor in the lower half of A[c]
        A[c, j, j] = 1.0 / T[j, j]
        for i in range(j + 1, d):
            v = 0.0
            for g in range(j, i):
                v -= T[i, g] * A[c, g, j]
            A[c, i, j] = v / T[i, i]
    for i in range(d):
        for j in range(i + 1):
            v = 0.0
            for g in range(i, d):
                v += A[c, g, i] * A[c, g, j]
            T[i, j] = v
    for i in range(d):
        for j in range(i + 1):
            A[c, i, j] = A[c, j, i] = T[i, j]


@kernel
def measure(Y, w, z, phi, C, W, N, S, A, L):
    """Means, weights, counts, scatters, inverses and log-determinants of the clusters, afresh.

    C, W, N and S come in as zeros. (Loops, because slices take long to compile.)
    """
    n, d = Y.shape
    for i in range(n):
        W[z[i]] += w[i]
        N[z[i]] += 1
        for j in range(d):
            C[z[i], j] += w[i] * Y[i, j]
    for c in range(C.shape[0]):
        for j in range(d):
            C[c, j] /= W[c]
    for i in range(n):
        c = z[i]
        for j in range(d):
            u = w[i] * (Y[i, j] - C[c, j])
            for e in range(j + 1):
                S[c, j, e] += u * (Y[i, e] - C[c, e])
    M, T = np.empty((d, d)), np.empty((d, d))
    for c in range(C.shape[0]):
        for j in range(d):
            for e in range(j + 1):
                S[c, e, j] = S[c, j, e]
                M[j, e] = S[c, j, e]
            M[j, j] += phi
        L[c] = factor(M, T)
        invert(T, A, c)


@inner
def form(Y, i, C, A, c, u):
    """(y_i - μ_c)ᵀ A_c (y_i - μ_c); u is scratch."""
    d = Y.shape[1]
    for j in range(d):
        u[j] = Y[i, j] - C[c, j]
    total = 0.0
    for j in range(d):
        part = 0.0
        for e in range(j):
            part += A[c, j, e] * u[e]
        total += u[j] * (2.0 * part + A[c, j, j] * u[j])
    return total


@kernel
def quadratic(Y, C, A, out):
    """out[i, c] = (y_i - μ_c)ᵀ A_c (y_i - μ_c)."""
    u = np.empty(Y.shape[1])
    for i in range(Y.shape[0]):
        for c in range(C.shape[0]):
            out[i, c] = form(Y, i, C, A, c, u)


@kernel
def assign_or_open(Y, w, z, C, A, k, first, price):
    """KJ Algorithm 1, step 3, with (y-μ)ᵀA(y-μ) for the distance; returns the number of clusters.

    `first` is A of a cluster of one row. Slots of C and A beyond k are free.
    """
    n, d = Y.shape
    u = np.empty(d)
    for i in range(n):
        near, lowest = 0, np.inf
        for c in range(k):
            total = form(Y, i, C, A, c, u)
            if total < lowest:
                near, lowest = c, total
        if w[i] * lowest > price and k < C.shape[0]:
            near = k
            for j in range(d):
                C[k, j] = Y[i, j]
                for e in range(d):
                    A[k, j, e] = first[j, e]
            k += 1
        z[i] = near
    return k


@kernel
def assign(Y, C, A, scale, offset, z, stop):
    """z[i] = argmin over c of scale[c]·(y_i - μ_c)ᵀ A_c (y_i - μ_c) + offset[c]."""
    u = np.empty(Y.shape[1])
    for i in range(Y.shape[0]):
        if stop[0]:
            break
        lowest = np.inf
        for c in range(C.shape[0]):
            if offset[c] < lowest:  # forms are not negative
                total = scale[c] * form(Y, i, C, A, c, u) + offset[c]
                if total < lowest:
                    z[i], lowest = c, total


@inner
def price_of(W, L, d, nu):
    """What a cluster costs: (W + ν)(log|Φ + S| - d·log(W + ν)) - 2W·log W."""
    return (W + nu) * (L - d * np.log(W + nu)) - 2.0 * W * np.log(W)


@kernel
def move_rows(Y, w, z, C, W, N, A, L, phi, nu, extra, least, tol, stop):
    """One sweep of exact moves: each row goes where the objective is lowest. Returns their number.

    With y joining cluster q, S grows by f·uuᵀ, f = W w/(W + w), u = y - μ: log|Φ + S| grows by
    log(1 + f·uᵀAu); leaving is the same with W - w, and A follows by Sherman & Morrison. A cluster
    of `least` rows gives none away. With a finite `extra` (the price of a cluster, less what Φ
    brings), a row may open a cluster in a free slot, and an emptied one refunds it.
    """
    n, d = Y.shape
    slots = C.shape[0]
    u, v = np.empty(d), np.empty(d)
    alone = d * np.log(phi)
    moved = 0
    for i in range(n):
        if stop[0]:
            break
        p, wi = z[i], w[i]
        if N[p] <= least or (N[p] > 1 and W[p] - wi <= 1e-9 * W[p]):  # or only rounding would stay
            continue
        single = price_of(wi, alone, d, nu) + extra
        stay, left = single, 0.0
        if N[p] > 1:
            share = W[p] * wi / (W[p] - wi) * form(Y, i, C, A, p, u)
            if share >= 1.0:
                continue
            left = L[p] + np.log1p(-share)
            stay = price_of(W[p], L[p], d, nu) - price_of(W[p] - wi, left, d, nu)
        best, q, joined, free = np.inf, -1, 0.0, -1
        for c in range(slots):
            if N[c] == 0:
                free = c if free < 0 else free
            elif c != p:
                new = L[c] + np.log1p(W[c] * wi / (W[c] + wi) * form(Y, i, C, A, c, u))
                cost = price_of(W[c] + wi, new, d, nu) - price_of(W[c], L[c], d, nu)
                if cost < best:
                    best, q, joined = cost, c, new
        if free >= 0 and N[p] > 1 and single < best:
            best, q, joined = single, free, alone
        if q < 0 or not best < stay - tol:
            continue
        moved += 1
        z[i] = q
        for side in range(2):
            c, sign = (p, -1.0) if side == 0 else (q, 1.0)
            L[c] = left if side == 0 else joined
            N[c] += 2 * side - 1
            if N[c] == side:  # emptied, or new
                W[c] = wi * side
                for j in range(d):
                    C[c, j] = Y[i, j]
                    for e in range(d):
                        A[c, j, e] = 1.0 / phi if j == e else 0.0
                continue
            f = sign * W[c] * wi / (W[c] + sign * wi)
            total = 0.0
            for j in range(d):
                u[j] = Y[i, j] - C[c, j]
            for j in range(d):
                v[j] = 0.0
                for e in range(d):
                    v[j] += A[c, j, e] * u[e]
                total += u[j] * v[j]
            f /= 1.0 + f * total
            W[c] += sign * wi
            for j in range(d):
                C[c, j] += sign * wi / W[c] * u[j]
                for e in range(d):
                    A[c, j, e] -= f * v[j] * v[e]
    return moved


@inner
def together(C, W, S, a, b, phi, M, T):
    """log|Φ + S| of clusters a and b in one."""
    d = C.shape[1]
    f = W[a] * W[b] / (W[a] + W[b])
    for j in range(d):
        for e in range(j + 1):
            M[j, e] = S[a, j, e] + S[b, j, e] + f * (C[a, j] - C[b, j]) * (C[a, e] - C[b, e])
        M[j, j] += phi
    return factor(M, T)


@kernel
def merge_all(C, W, S, L, phi, nu, into, gone, cost):
    """Merge the two clusters for which that costs least, again and again, down to one.

    Step t puts cluster `gone[t]` into `into[t]`, for `cost[t]` more. C, W, S and L are used up.
    """
    k, d = C.shape
    M, T = np.empty((d, d)), np.empty((d, d))
    joint, change = np.empty((k, k)), np.empty((k, k))  # for a > b
    alive = np.ones(k, np.bool_)
    fresh = -1  # the cluster whose merges have to be worked out; -1: all of them
    for t in range(k - 1):
        lowest = np.inf
        into[t] = -1
        for a in range(k):
            for b in range(a):
                if not (alive[a] and alive[b]):
                    continue
                if fresh < 0 or a == fresh or b == fresh:
                    joint[a, b] = together(C, W, S, a, b, phi, M, T)
                    change[a, b] = (
                        price_of(W[a] + W[b], joint[a, b], d, nu)
                        - price_of(W[a], L[a], d, nu)
                        - price_of(W[b], L[b], d, nu)
                    )
                if into[t] < 0 or change[a, b] < lowest:
                    lowest, gone[t], into[t] = change[a, b], a, b
        cost[t] = lowest
        a, b = gone[t], into[t]
        f = W[a] * W[b] / (W[a] + W[b])
        for j in range(d):
            for e in range(d):
                S[b, j, e] += S[a, j, e] + f * (C[a, j] - C[b, j]) * (C[a, e] - C[b, e])
        for j in range(d):
            C[b, j] += W[a] / (W[a] + W[b]) * (C[a, j] - C[b, j])
        W[b] += W[a]
        L[b] = joint[a, b]
        alive[a] = False
        fresh = b
