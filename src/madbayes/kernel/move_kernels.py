"""Steps of kernel DP-means: means exist only through sums of kernel values.

Letters: R (b, n) rows of the kernel matrix, w weights, z labels, M[i, c] = Σ_{j in c} w_j R[i, j],
W[c] = Σ w_j, S[c] = Σ_{i,j in c} w_i w_j K_ij, L[a, b] the same between two clusters, λ `penalty`.
‖φ(x_i) - μ_c‖² = K_ii - 2 M[i, c]/W[c] + S[c]/W[c]² (KJ 5.2, with weights). ROUNDING times the
terms of such a sum is what its rounding may amount to: less than that decides nothing.
"""

import numpy as np

from madbayes._jit import kernel
from madbayes._partition.moves import TOL

ROUNDING = 1e-12
ZERO = 1e-14


@kernel
def label_sums(R, w, z, M):
    """M of the rows R."""
    for i in range(R.shape[0]):
        for c in range(M.shape[1]):
            M[i, c] = 0.0
        for j in range(R.shape[1]):
            M[i, z[j]] += w[j] * R[i, j]


@kernel
def sum_links(M, w, z, first, L):
    """Add the rows of M, which begin with row `first`, to L."""
    for i in range(M.shape[0]):
        for c in range(M.shape[1]):
            L[z[first + i], c] += w[first + i] * M[i, c]


@kernel
def distances(M, diagonal, W, s, D):
    """D: squared distances to the means, 0 where only rounding is left; s is S/W²."""
    for i in range(M.shape[0]):
        for c in range(M.shape[1]):
            d2 = diagonal[i] - 2.0 * M[i, c] / W[c] + s[c]
            D[i, c] = d2 if d2 > ZERO * (abs(diagonal[i]) + abs(s[c])) else 0.0


@kernel
def nearest(D, diagonal, s, z, nearest_d2):
    """The column of the smallest distance; what rounding cannot tell apart goes to the first."""
    for i in range(D.shape[0]):
        best, at = np.inf, 0
        for c in range(D.shape[1]):
            if D[i, c] < best - ROUNDING * (abs(diagonal[i]) + abs(s[c])):
                best, at = D[i, c], c
        z[i], nearest_d2[i] = at, best


@kernel
def assign_or_open(R, first, D, diagonal, s, w, opened, n_opened, penalty, cap, z):
    """KJ Algorithm 1, step 2, for the rows R, which begin with row `first`.

    D: distances to the k clusters known when the pass began. Row opened[t] is the place of cluster
    k + t. Labels go to z; returns the new number of opened rows.
    """
    k = D.shape[1]
    for b in range(R.shape[0]):
        i = first + b
        slack = ROUNDING * abs(diagonal[i])
        best, at, error = np.inf, 0, 0.0
        for c in range(k):
            gap = slack + ROUNDING * abs(s[c])
            if D[b, c] < best - gap:
                best, at, error = D[b, c], c, gap
        for t in range(n_opened):
            o = opened[t]
            gap = slack + ROUNDING * abs(diagonal[o])
            d2 = max(diagonal[i] - 2.0 * R[b, o] + diagonal[o], 0.0)
            if d2 < best - gap:
                best, at, error = d2, k + t, gap
        if w[i] * (best - error) > penalty and k + n_opened < cap:
            opened[n_opened] = i
            at = k + n_opened
            n_opened += 1
        z[i] = at
    return n_opened


@kernel
def move_block(B, first, diagonal, w, z, M, W, S, N, penalty, cap):
    """Hartigan's moves of a block of rows, which begin with row `first`, each where J is lowest.

    A cluster of its own is one of the places. B: kernel values within the block, M: sums of its
    rows. z, M, W, S, N (rows in each cluster; 0 is a free slot) are updated. Returns the moves.
    """
    slots = W.shape[0]
    k, moved = 0, 0
    for c in range(slots):
        k += N[c] > 0
    for b in range(B.shape[0]):
        i = first + b
        p, wi, kii = z[i], w[i], diagonal[i]
        error = 0.0
        if N[p] == 1:
            leave = penalty
        else:
            rest = W[p] - wi
            if not rest > 1e-12 * W[p]:  # beside such a weight the others are rounding
                continue
            sp = S[p] / (W[p] * W[p])
            leave = W[p] * wi / rest * (kii - 2.0 * M[b, p] / W[p] + sp)
            error = ROUNDING * W[p] * wi / rest * (abs(kii) + abs(sp))
        best, q = leave - TOL * abs(leave) - error, -1
        for c in range(slots):
            if N[c] > 0 and c != p:
                sc = S[c] / (W[c] * W[c])
                share = W[c] * wi / (W[c] + wi)
                cost = share * (kii - 2.0 * M[b, c] / W[c] + sc)
                if cost < best - ROUNDING * share * (abs(kii) + abs(sc)):
                    best, q = cost, c
        if penalty < best and N[p] > 1 and k < cap:
            c = 0
            while c < slots and N[c] > 0:
                c += 1
            if c < slots:
                q = c
                W[q], S[q] = 0.0, 0.0
                for e in range(M.shape[0]):
                    M[e, q] = 0.0
        if q < 0:
            continue
        moved += 1
        k += (N[q] == 0) - (N[p] == 1)
        S[p] += wi * (wi * kii - 2.0 * M[b, p])
        S[q] += wi * (wi * kii + 2.0 * M[b, q])
        W[p] -= wi
        W[q] += wi
        N[p] -= 1
        N[q] += 1
        for e in range(B.shape[0]):
            M[e, p] -= wi * B[e, b]
            M[e, q] += wi * B[e, b]
        z[i] = q
    return moved
