"""One pass over a block of rows that are sums of features: x ≈ zA with z in {0, 1}^K (BKJ 3-5).

Everything is measured from the residual e = x - zA of the present z, never from x itself, so data
far from the origin loses no digits. With g = Ae and G = AAᵀ, turning feature k on changes ‖e‖² by
G_kk - 2g_k, turning it off by G_kk + 2g_k.
"""

import numpy as np
from numba import njit

from madbayes._kernels import compiled, inner, kernel

MEASURE, COORDINATE, EXACT = 0, 1, 2  # what `allocate` does with the z of a row
NODES = 10_000  # of the search tree of one row: all of them up to 12 features
NO_SUMS = np.empty((0, 0))  # for `allocate`: search trees


@njit(nogil=True, cache=True, fastmath={"reassoc"}, error_model="numpy")
def dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled(fastmath={"reassoc"}, no_cpython_wrapper=True)
def products(A, e, g):
    """g = Ae, without a view for each row of A, which would take as long as the sum."""
    for k in range(A.shape[0]):
        total = 0.0
        for j in range(e.shape[0]):
            total += A[k, j] * e[j]
        g[k] = total


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
def slack(x, ee):
    """What rounding can do to ‖x - zA‖² = ee: differences below this mean nothing."""
    xx = 0.0
    for j in range(x.shape[0]):
        xx += float(x[j]) * float(x[j])
    return 1e-11 * ee + 2e-14 * np.sqrt(xx) * np.sqrt(ee) + 1e-28 * xx


@inner
def flip(z, g, G):
    """The printed step: for k = 1..K choose the better z_k, the others fixed. Counts changes.

    `g` follows; ties change nothing.
    """
    changed = 0
    for k in range(z.shape[0]):
        sign = -1.0 if z[k] else 1.0
        if 2.0 * sign * g[k] > G[k, k] * (1 + 1e-12):
            z[k] = 1 - z[k]
            changed += 1
            for i in range(z.shape[0]):
                g[i] -= sign * G[k, i]
    return changed


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


@inner
def best_of_sums(x, sums, away, want):
    """The best of all 2^K z, as `want`, by comparing `x` with every sum: column c of `sums` has
    the features that are the bits of c. In few columns quicker than a tree that cannot be cut."""
    for c in range(away.shape[0]):
        away[c] = 0.0
    for j in range(x.shape[0]):
        for c in range(away.shape[0]):
            miss = x[j] - sums[j, c]
            away[c] += miss * miss
    best = 0
    for c in range(1, away.shape[0]):
        if away[c] < away[best]:
            best = c
    for k in range(want.shape[0]):
        want[k] = (best >> k) & 1


@inner
def best_of_all(z, g, G, R, ease, most, want, y, delta, cost, tried):
    """The best of all 2^K z, as `want`, by branch and bound.

    Flips come first. No other z is better when 2|g_k| <= ease·G_kk for all flips k that are left,
    where ease·diag(G) <= G as matrices: then 2δg <= δGδᵀ for every δ. Most rows end here.

    With δ = z' - z, ‖e - δA‖² = Σ_i (y_i - (Rδ)_i)² + const. Features are decided from the last to
    the first; what the decided ones leave over in their rows of R bounds the rest from below (the
    sphere decoder of Fincke & Pohst 1985). After `most` nodes the best z so far counts. `g` is
    used up. Returns the nodes.
    """
    K = z.shape[0]
    for i in range(K):
        y[i] = g[i]
        want[i] = z[i]
    while flip(want, g, G):
        pass
    sure = True
    for k in range(K):
        sure = sure and 2.0 * (-g[k] if want[k] else g[k]) <= ease * G[k, k]
    if sure:
        return 0
    for i in range(K):  # Rᵀy = g
        value = y[i]
        for j in range(i):
            value -= R[j, i] * y[j]
        y[i] = value / R[i, i] if R[i, i] > 0 else 0.0
    bound = 0.0
    for i in range(K):
        miss = y[i]
        for c in range(i, K):
            miss -= R[i, c] * (float(want[c]) - float(z[c]))
        bound += miss * miss
    bound -= 1e-12 * bound
    i, nodes = K - 1, 0
    tried[i] = 0
    while i < K and nodes < most:
        if tried[i] == 2:
            i += 1
            continue
        miss = 0.0
        if R[i, i] > 0:
            miss = y[i]
            for c in range(i + 1, K):
                miss -= R[i, c] * delta[c]
        other = -1.0 if z[i] else 1.0  # δ_i is 0 or this
        swap = abs(miss - R[i, i] * other) < abs(miss)
        delta[i] = other if swap == (tried[i] == 0) else 0.0
        tried[i] += 1
        nodes += 1
        miss -= R[i, i] * delta[i]
        cost[i] = cost[i + 1] + miss * miss
        if cost[i] >= bound:
            tried[i] = 2  # the other one is farther off
        elif i > 0:
            i -= 1
            tried[i] = 0
        else:
            bound = cost[0] - 1e-12 * cost[0]
            for k in range(K):
                want[k] = z[k] if delta[k] == 0 else 1 - z[k]
    return nodes


@kernel
def allocate(X, weight, Z, A, G, R, sums, ease, most, how, error, S, T):
    """Choose each row's z, A fixed, or only measure. Returns (changed, squared error, nodes).

    `error` becomes ‖x - zA‖² of each row; ZᵀWZ is added to `S` and ZᵀW(X - ZA) to `T`. G = AAᵀ,
    R is its `triangle`, `ease` and `most` as in `best_of_all`; with `sums` it is `best_of_sums`.
    """
    K, d = A.shape
    e, new, g, y, delta = np.empty(d), np.empty(d), np.empty(K), np.empty(K), np.zeros(K)
    cost, tried, want = np.zeros(K + 1), np.zeros(K, np.int64), np.empty(K, np.uint8)
    away = np.empty(sums.shape[1])
    changed, rss, nodes = 0, 0.0, 0
    for n in range(X.shape[0]):
        x, z = X[n], Z[n]
        residual(x, z, A, e)
        ee = dot(e, e)
        if K and how != MEASURE:
            if how == COORDINATE:
                products(A, e, g)
                flips = flip(z, g, G)
                if flips:
                    changed += flips
                    residual(x, z, A, e)
                    ee = dot(e, e)
            else:
                if away.shape[0]:
                    best_of_sums(x, sums, away, want)
                else:
                    products(A, e, g)
                    nodes += best_of_all(z, g, G, R, ease, most, want, y, delta, cost, tried)
                same = True
                for k in range(K):
                    same = same and want[k] == z[k]
                if not same:
                    residual(x, want, A, new)
                    there = dot(new, new)
                    if there < ee - slack(x, ee):  # by residuals in full
                        changed += 1
                        ee = there
                        for k in range(K):
                            z[k] = want[k]
                        for j in range(d):
                            e[j] = new[j]
        error[n] = ee
        w = weight[n] if weight.shape[0] else 1.0
        rss += w * ee
        for k in range(K):
            if z[k]:
                for j in range(d):
                    T[k, j] += w * e[j]
                for i in range(k + 1):
                    if z[i]:
                        S[k, i] += w
    for k in range(K):
        for i in range(k):
            S[i, k] = S[k, i]
    return changed, rss, nodes


@inner
def inverse(S):
    """Of a positive definite matrix, by Gauss and Jordan."""
    K = S.shape[0]
    M = S.copy()
    for k in range(K):
        p = 1.0 / M[k, k]
        M[k, k] = 1.0
        for j in range(K):
            M[k, j] *= p
        for i in range(K):
            if i != k:
                f = M[i, k]
                M[i, k] = 0.0
                for j in range(K):
                    M[i, j] -= f * M[k, j]
    return M


@kernel
def fit_features(A, S, T, costs):
    """A by least squares after a pass, where the columns of Z are independent.

    Returns by how much the squared error falls; `costs` become those of dropping each feature, the
    others refitting.
    """
    K, d = A.shape
    M = inverse(S)
    step = np.empty(d)
    fall = 0.0
    for k in range(K):
        for j in range(d):
            step[j] = 0.0
        for i in range(K):
            for j in range(d):
                step[j] += M[k, i] * T[i, j]
        fall += dot(step, T[k])
        for j in range(d):
            A[k, j] += step[j]
        costs[k] = dot(A[k], A[k]) / M[k, k]
    return max(0.0, fall)
