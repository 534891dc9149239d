"""One pass over a block of rows that are sums of features: x ≈ zA with z in {0, 1}^K (BKJ 3-5).

Everything is measured from the residual e = x - zA of the present z, never from x itself, so data
far from the origin loses no digits. With g = Ae and G = AAᵀ, turning feature k on changes ‖e‖² by
G_kk - 2g_k, turning it off by G_kk + 2g_k.
"""

import numpy as np
from numba import njit

from madbayes._jit import compiled, inner, kernel
from madbayes.features.tree_kernels import best_of_all, best_of_sums, flip

MEASURE, COORDINATE, EXACT, SOME = 0, 1, 2, 3  # what `allocate` does with the z of a row
NODES = 10_000  # of the search tree of one row: all of them up to 12 features


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
def tally(z, e, w, S, T):
    """Add a row to ZᵀWZ (below the diagonal) and ZᵀW(X - ZA), or take it out."""
    for k in range(z.shape[0]):
        if z[k]:
            for j in range(e.shape[0]):
                T[k, j] += w * e[j]
            for i in range(k + 1):
                if z[i]:
                    S[k, i] += w


@kernel
def allocate(X, weight, Z, A, G, L, sums, met, ease, most, how, reach, moved, error, S, T):
    """Choose each row's z, A fixed, or only measure. Returns (changed, squared error, nodes).

    `error` becomes ‖x - zA‖² of each row; ZᵀWZ is added to `S` and ZᵀW(X - ZA) to `T`. G = AAᵀ,
    L is its `triangle`, `ease` and `most` as in `best_of_all`; with `sums` it is `best_of_sums`.
    `met` (may be empty) says which z is certain without either (`feature_sums`).

    `reach` (may be empty) has for each row bounds on its distances: from its own sum of features,
    above, less `moved`; and from any other, below, plus `moved`: sums have moved so far at most. By
    SOME, rows that their bounds prove to be where they belong are passed by, and what is returned
    and added is the difference that the others make.
    """
    K, d = A.shape
    e, new, g, y, delta = np.empty(d), np.empty(d), np.empty(K), np.empty(K), np.zeros(K)
    rest = np.empty((K + 1, K))
    cost, tried, want = np.zeros(K + 1), np.zeros(K, np.int64), np.empty(K, np.uint8)
    away, two = np.empty(sums.shape[1]), reach.shape[0] > 0
    changed, rss, nodes, gap = 0, 0.0, 0, 0.0
    for n in range(X.shape[0]):
        if how == SOME and reach[n, 0] + moved < reach[n, 1] - moved:
            continue
        x, z, before = X[n], Z[n], changed
        w = weight[n] if weight.shape[0] else 1.0
        sure = met.gap.shape[0] > 0 and met.gap[n] > 0.0
        known = sure and how == SOME  # the residual itself is needed only if the row changes
        if known:
            ee = met.own[n]
        else:
            residual(x, z, A, e)
            ee = dot(e, e)
        if how == SOME and np.sqrt(ee) < reach[n, 1] - moved:
            reach[n, 0] = np.sqrt(ee) - moved
            continue
        if K and how == COORDINATE:
            products(A, e, g)
            changed += flip(z, g, G)
            if changed > before:
                residual(x, z, A, e)
                ee = dot(e, e)
        elif K and how != MEASURE:
            if sure:
                gap = met.gap[n]
                for k in range(K):
                    want[k] = (met.best[n] >> k) & 1
            elif away.shape[0]:
                gap = best_of_sums(x, sums, away, want)
            else:
                products(A, e, g)
                more, gap = best_of_all(
                    z, g, G, L, ease, most, two, want, y, rest, delta, cost, tried
                )
                nodes += more
            same = True
            for k in range(K):
                same = same and want[k] == z[k]
            if not same:
                residual(x, want, A, new)
                there = dot(new, new)
                same = there < ee - slack(x, ee)  # by residuals in full
                if same:
                    changed += 1
                    if known:
                        residual(x, z, A, e)
                    if how == SOME:
                        tally(z, e, -w, S, T)
                        rss -= w * ee
                    ee = there
                    for k in range(K):
                        z[k] = want[k]
                    for j in range(d):
                        e[j] = new[j]
            if two:
                reach[n, 0] = np.sqrt(ee) - moved
                reach[n, 1] = np.sqrt(ee + gap) + moved if same else -np.inf
        error[n] = ee
        if how != SOME or changed > before:
            rss += w * ee
            tally(z, e, w, S, T)
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
