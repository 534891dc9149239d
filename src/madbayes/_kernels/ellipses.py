"""Clusters with covariances: exact moves of single rows.

Letters: Y (n, d) rows in float64, w weights, z labels; of cluster c: C[c] the mean, W[c] the
weight, N[c] the rows, A[c] the inverse of Φ + S_c (S_c the scatter). A slot with N = 0 is free.
Everything is in units of λ²: a cluster costs log|I + Φ⁻¹S_c| + `price`.
"""

import numpy as np

from madbayes._kernels import inner, kernel


@kernel
def scatter(Y, w, z, C, W, N, S):
    """Means, weights, row counts and scatter matrices of the clusters, all afresh."""
    n, d = Y.shape
    C[:], W[:], N[:], S[:] = 0.0, 0.0, 0, 0.0
    for i in range(n):
        W[z[i]] += w[i]
        N[z[i]] += 1
        for j in range(d):
            C[z[i], j] += w[i] * Y[i, j]
    for c in range(C.shape[0]):
        if N[c] > 0:
            C[c] /= W[c]
    for i in range(n):
        c = z[i]
        for j in range(d):
            u = w[i] * (Y[i, j] - C[c, j])
            for e in range(j + 1):
                S[c, j, e] += u * (Y[i, e] - C[c, e])
    for c in range(C.shape[0]):
        for j in range(d):
            for e in range(j):
                S[c, e, j] = S[c, j, e]


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
    n, d = Y.shape
    u = np.empty(d)
    for i in range(n):
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
            C[k] = Y[i]
            A[k] = first
            k += 1
        z[i] = near
    return k


@kernel
def move_rows(Y, w, z, C, W, N, A, first, price, least, tol):
    """One sweep of exact moves: each row goes where the objective is lowest. Returns their number.

    With y joining cluster q, S grows by f·uuᵀ, f = W w/(W + w), u = y - μ: log|Φ + S| grows by
    log(1 + f·uᵀAu); leaving is the same with W - w, and A follows by Sherman & Morrison. A cluster
    of `least` rows gives none away. With a finite `price`, a row may open a cluster (in a free
    slot), and an emptied one refunds it.
    """
    n, d = Y.shape
    slots = C.shape[0]
    u, v = np.empty(d), np.empty(d)
    moved = 0
    for i in range(n):
        p, wi = z[i], w[i]
        if N[p] <= least or (N[p] > 1 and W[p] - wi <= 1e-9 * W[p]):  # or only rounding would stay
            continue
        stay, best, q, free = 0.0, np.inf, -1, -1
        for c in range(slots):
            if N[c] == 0:
                if free < 0:
                    free = c
                continue
            if c == p and N[p] == 1:
                stay = price
                continue
            total = form(Y, i, C, A, c, u)
            if c == p:
                share = W[c] * wi / (W[c] - wi) * total
                stay = -np.log1p(-share) if share < 1.0 else np.inf
            else:
                cost = np.log1p(W[c] * wi / (W[c] + wi) * total)
                if cost < best:
                    best, q = cost, c
        if price < best and free >= 0 and N[p] > 1:
            best, q = price, free
        if q < 0 or not best < stay - tol:
            continue
        moved += 1
        z[i] = q
        for side in range(2):
            c = p if side == 0 else q
            if (side == 0 and N[c] == 1) or (side == 1 and N[c] == 0):
                N[c], W[c] = side, wi * side
                C[c] = Y[i]
                A[c] = first
                continue
            sign = -1.0 if side == 0 else 1.0
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
            for j in range(d):
                for e in range(d):
                    A[c, j, e] -= f * v[j] * v[e]
            W[c] += sign * wi
            N[c] += 1 if side == 1 else -1
            for j in range(d):
                C[c, j] += sign * wi / W[c] * u[j]
    return moved
