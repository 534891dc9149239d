"""One pass over a block of rows that are sums of features: x ≈ zA with z in {0, 1}^K (BKJ 3-5).

Everything is measured from the residual e = x - zA of the present z, never from x itself, so data
far from the origin loses no digits. With g = Ae and G = AAᵀ, turning feature k on changes ‖e‖² by
G_kk - 2g_k, turning it off by G_kk + 2g_k.
"""

import numpy as np

from madbayes._kernels import inner, kernel

DONE, SOLE, OPEN = 0, 1, 2  # why `collapsed_rows` and `paper_rows` came back
ENUMERATED = 12  # up to so many features all 2^K sums are compared
NODES = 1_000  # of the search tree of one row, beyond that


@kernel
def slack(x, ee):
    """What rounding can do to ‖x - zA‖² = ee: differences below this mean nothing."""
    xx = 0.0
    for j in range(x.shape[0]):
        xx += float(x[j]) * float(x[j])
    return 1e-11 * ee + 2e-14 * np.sqrt(xx) * np.sqrt(ee) + 1e-28 * xx


@kernel
def flip_rows(Z, g, G):
    """The printed step: for k = 1..K choose the better z_nk, the others fixed. Counts changes.

    `g` follows; ties change nothing.
    """
    changed = 0
    for n in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            if Z[n, k]:
                sign = -1.0
            else:
                sign = 1.0
            if 2.0 * sign * g[n, k] > G[k, k] * (1 + 1e-12):
                Z[n, k] = 1 - Z[n, k]
                changed += 1
                for i in range(Z.shape[1]):
                    g[n, i] -= sign * G[k, i]
    return changed


@kernel
def all_sums(G):
    """zGz for each of the 2^K z, bit k of the index being z_k."""
    K = G.shape[0]
    table = np.zeros(2**K)
    for code in range(1, 2**K):
        top = 0
        while code >> (top + 1):
            top += 1
        rest = code - (1 << top)
        cross = G[top, top]
        for i in range(top):
            if rest >> i & 1:
                cross += 2.0 * G[top, i]
        table[code] = table[rest] + cross
    return table


@kernel
def enumerate_rows(Z, g, G, table, want):
    """The best of all 2^K z for each row, given as `want`.

    ‖x - z'A‖² = const + z'Gz' - 2z'b with b = g + zG. The 2^K values are a sum of three tables, two
    of them small (a half of the features each), so that the inner loop is one addition.
    """
    K = Z.shape[1]
    low = K // 2
    first, second = np.zeros(2**low), np.zeros(2 ** (K - low))
    b = np.empty(K)
    for n in range(Z.shape[0]):
        own = 0
        for k in range(K):
            b[k] = g[n, k]
            if Z[n, k]:
                own |= 1 << k
        for k in range(K):
            if Z[n, k]:
                for i in range(K):
                    b[i] += G[k, i]
        for code in range(1, first.shape[0]):
            top = 0
            while code >> (top + 1):
                top += 1
            first[code] = first[code - (1 << top)] - 2.0 * b[top]
        for code in range(1, second.shape[0]):
            top = 0
            while code >> (top + 1):
                top += 1
            second[code] = second[code - (1 << top)] - 2.0 * b[low + top]
        best = own
        value = table[own] + first[own & ((1 << low) - 1)] + second[own >> low]
        for high in range(second.shape[0]):
            base = high << low
            smallest = np.inf
            for code in range(first.shape[0]):
                smallest = min(smallest, first[code] + table[base + code])
            if smallest + second[high] < value:
                for code in range(first.shape[0]):
                    if first[code] + table[base + code] == smallest:
                        value = smallest + second[high]
                        best = base + code
                        break
        for k in range(K):
            want[n, k] = best >> k & 1


@kernel
def triangle(G):
    """R with RᵀR = G, upper triangular; rows of dependent features are zero."""
    K = G.shape[0]
    R = np.zeros((K, K))
    for i in range(K):
        pivot = G[i, i]
        for j in range(i):
            pivot -= R[j, i] * R[j, i]
        if pivot <= 1e-10 * G[i, i]:
            continue
        R[i, i] = np.sqrt(pivot)
        for c in range(i + 1, K):
            value = G[i, c]
            for j in range(i):
                value -= R[j, i] * R[j, c]
            R[i, c] = value / R[i, i]
    return R


@kernel
def branch_rows(Z, g, G, R, want):
    """As `enumerate_rows`, by branch and bound: ‖e + (z - z')A‖² = Σ_i (y_i - (Rδ)_i)² + const.

    Features are decided from the last to the first; what the decided ones leave over in their rows
    of R bounds the rest from below (the sphere decoder of Fincke & Pohst 1985). After `NODES` nodes
    the best z so far counts.
    """
    K = Z.shape[1]
    y, delta, cost = np.empty(K), np.zeros(K), np.zeros(K + 1)
    tried = np.zeros(K, dtype=np.int64)
    present = np.empty((1, K), dtype=np.uint8)
    left = np.empty((1, K))
    for n in range(Z.shape[0]):
        present[0] = Z[n]
        left[0] = g[n]
        while flip_rows(present, left, G):
            pass
        bound = 0.0
        for i in range(K):  # Rᵀy = g
            value = g[n, i]
            for j in range(i):
                value -= R[j, i] * y[j]
            y[i] = value / R[i, i] if R[i, i] > 0 else 0.0
        for i in range(K):
            miss = y[i]
            for c in range(i, K):
                miss -= R[i, c] * (float(present[0, c]) - float(Z[n, c]))
            bound += miss * miss
            want[n, i] = present[0, i]
        bound -= 1e-12 * bound
        i, nodes = K - 1, 0
        tried[i] = 0
        while i < K and nodes < NODES:
            if tried[i] == 2:
                i += 1
                continue
            miss = y[i]
            for c in range(i + 1, K):
                miss -= R[i, c] * delta[c]
            other = -1.0 if Z[n, i] else 1.0  # δ_i is 0 or this
            swap = abs(miss - R[i, i] * other) < abs(miss)
            delta[i] = other if swap == (tried[i] == 0) else 0.0
            tried[i] += 1
            nodes += 1
            miss -= R[i, i] * delta[i]
            cost[i] = cost[i + 1] + miss * miss
            if cost[i] >= bound:
                continue
            if i > 0:
                i -= 1
                tried[i] = 0
            else:
                bound = cost[0] - 1e-12 * cost[0]
                for k in range(K):
                    want[n, k] = Z[n, k] if delta[k] == 0 else 1 - Z[n, k]


@kernel
def settle_rows(X, Z, E, A, want):
    """Take over `want` where it truly lowers ‖x - zA‖², by residuals in full; counts changes."""
    changed = 0
    new = np.empty(E.shape[1])
    for n in range(Z.shape[0]):
        same = True
        for k in range(Z.shape[1]):
            if want[n, k] != Z[n, k]:
                same = False
        if same:
            continue
        before, after = 0.0, 0.0
        new[:] = E[n]
        for k in range(Z.shape[1]):
            if want[n, k] != Z[n, k]:
                sign = 1.0 if Z[n, k] else -1.0
                for j in range(E.shape[1]):
                    new[j] += sign * A[k, j]
        for j in range(E.shape[1]):
            before += E[n, j] * E[n, j]
            after += new[j] * new[j]
        if after < before - slack(X[n], before):
            changed += 1
            E[n] = new
            Z[n] = want[n]
    return changed


@kernel
def paper_rows(X, weight, Z, A, G, start, penalty, may_open, count):
    """BP-means step 1 (BKJ 3) from row `start` on, until a row opens a feature.

    Returns (row, DONE or OPEN); `count[0]` grows by the flips.
    """
    e, g = np.empty(X.shape[1]), np.empty((1, Z.shape[1]))
    for n in range(start, X.shape[0]):
        w = weight[n] if weight.shape[0] else 1.0
        residual(X[n], Z[n], A, e)
        for k in range(Z.shape[1]):
            g[0, k] = np.dot(A[k], e)
        flips = flip_rows(Z[n : n + 1], g, G)
        if flips:
            count[0] += flips
            residual(X[n], Z[n], A, e)
        if may_open and w * np.dot(e, e) > penalty:
            return n, OPEN
    return X.shape[0], DONE


@inner
def residual(x, z, A, e):
    """e = x - zA."""
    for j in range(e.shape[0]):
        e[j] = x[j]
    for k in range(z.shape[0]):
        if z[k]:
            for j in range(e.shape[0]):
                e[j] -= A[k, j]


@kernel
def best_z(z, w, ee, tol, g, G, M, p):
    """Flip features of one row, the best first, while w‖x - zA₋‖²/(1 + w·zM₋z) falls.

    `g` = A₋(x - zA₋), `G` = A₋A₋ᵀ and `M` speak of the other rows; `z`, `g` and `p` (zM) follow.
    Returns (‖x - zA₋‖², zM₋z, number of flips).
    """
    K = z.shape[0]
    s = 0.0
    for k in range(K):
        p[k] = 0.0
    for k in range(K):
        if z[k]:
            for i in range(K):
                p[i] += M[k, i]
    for k in range(K):
        if z[k]:
            s += p[k]
    flips = 0
    while flips < 4 * K + 4:
        best, value = -1, w * ee / (1.0 + w * s) - tol
        for k in range(K):
            t = -1.0 if z[k] else 1.0
            there = max(0.0, ee - 2.0 * t * g[k] + G[k, k])
            spread = max(0.0, s + 2.0 * t * p[k] + M[k, k])
            there = w * there / (1.0 + w * spread)
            if there < value:
                best, value = k, there
        if best < 0:
            break
        flips += 1
        t = -1.0 if z[best] else 1.0
        ee = max(0.0, ee - 2.0 * t * g[best] + G[best, best])
        s = max(0.0, s + 2.0 * t * p[best] + M[best, best])
        z[best] = 1 - z[best]
        for i in range(K):
            g[i] -= t * G[best, i]
            p[i] += t * M[best, i]
    return ee, s, flips


@kernel
def collapsed_rows(X, weight, Z, A, S, M, G, start, penalty, may_open, may_drop, count):
    """Collapsed BP-means (BKJ 4.1) from row `start` on; A, S, M and G always fit all of Z.

    A row is taken out (a rank-one downdate), finds its best z, and is put back. Returns (row,
    why): DONE, SOLE (without this row the columns of Z depend on each other; the row was left as it
    is) or OPEN (a feature for this row alone pays). `count[0]` grows by the flips.
    """
    K, d = A.shape
    e = np.empty(d)
    u, v, g, p, z = np.empty(K), np.empty(K), np.empty(K), np.empty(K), np.empty(K, dtype=np.uint8)
    G_out, M_out = np.empty((K, K)), np.empty((K, K))
    for n in range(start, X.shape[0]):
        w = weight[n] if weight.shape[0] else 1.0
        if w == 0.0:
            continue
        residual(X[n], Z[n], A, e)
        ee = np.dot(e, e)
        h = 0.0
        for i in range(K):
            u[i] = 0.0
            z[i] = Z[n, i]
        for k in range(K):
            if z[k]:
                for i in range(K):
                    u[i] += M[k, i]
        for k in range(K):
            if z[k]:
                h += u[k]
        q = 1.0 - w * h
        if q < 1e-9:
            if may_drop:
                return n, SOLE
            continue
        # Nothing can be gained where the row, left out, is fitted exactly.
        tol = w * slack(X[n], ee)
        if w * ee / q <= tol:
            continue
        c = w / q
        for k in range(K):
            v[k] = np.dot(A[k], e)
        for k in range(K):
            g[k] = (v[k] - c * u[k] * ee) / q
            for i in range(K):
                M_out[k, i] = M[k, i] + c * u[k] * u[i]
                G_out[k, i] = G[k, i] - c * (u[k] * v[i] + v[k] * u[i]) + c * c * ee * u[k] * u[i]
        there, s, flips = best_z(z, w, ee / (q * q), tol, g, G_out, M_out, p)
        opens = may_open and w * there / (1.0 + w * s) > penalty + tol
        if flips:
            count[0] += flips
            for k in range(K):  # out with the old z …
                for j in range(d):
                    A[k, j] -= c * u[k] * e[j]
                for i in range(K):
                    S[k, i] += w * (float(z[k]) * z[i] - float(Z[n, k]) * Z[n, i])
            for k in range(K):
                Z[n, k] = z[k]
            residual(X[n], z, A, e)  # … and in with the new one
            c = w / (1.0 + w * s)
            for k in range(K):
                for j in range(d):
                    A[k, j] += c * p[k] * e[j]
                for i in range(K):
                    M[k, i] = M_out[k, i] - c * p[k] * p[i]
                    G[k, i] = (
                        G_out[k, i] + c * (p[k] * g[i] + g[k] * p[i]) + c * c * there * p[k] * p[i]
                    )
        if opens:
            return n, OPEN
    return X.shape[0], DONE
