"""Compiled loops over rows that are sums of features: x ≈ zA with z in {0, 1}^K (BKJ 3 to 5).

All errors are measured from the residual e = x - zA of the present z, never from x itself, so data
far from the origin lose no digits. With g = Ae and G = AAᵀ, turning feature k on changes ‖e‖² by
G_kk - 2g_k, and turning it off changes ‖e‖² by G_kk + 2g_k.

Up to 12 features, the best z of a row is found by comparing all 2^K combinations (`best_of_all`).
For more features it is found by branch and bound (`best_by_tree`).
"""

import numpy as np
from numba import njit

from madbayes._jit import compiled, inner, kernel

MEASURE, COORDINATE, EXACT, SOME = 0, 1, 2, 3  # what `allocate` does with the z of a row
DONE, SOLE, OPEN = 0, 1, 2  # why a kernel that goes row by row came back
MOST_LISTED = 12  # features: up to here all combinations are compared


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
    """L with LLᵀ = G, lower triangular; columns of dependent features are zero."""
    K = G.shape[0]
    L = np.zeros((K, K))
    for i in range(K):
        pivot = G[i, i]
        for j in range(i):
            pivot -= L[i, j] * L[i, j]
        if pivot <= 1e-10 * G[i, i]:
            continue
        L[i, i] = np.sqrt(pivot)
        for c in range(i + 1, K):
            value = G[i, c]
            for j in range(i):
                value -= L[i, j] * L[c, j]
            L[c, i] = value / L[i, i]
    return L


@kernel
def squares_of_sums(G):
    """‖zA‖² of all 2^K combinations z, as a table; empty for more than MOST_LISTED features.

    The columns are the combinations of the first K // 2 features, in the order of their bits, and
    the lines are those of the other features.
    """
    K = G.shape[0]
    if K > MOST_LISTED:
        return np.empty((0, 0))
    square, common = np.zeros(2**K), np.zeros(2**K)
    for k in range(K):
        subsets(G[k], 0, k, common)
        for c in range(2**k):
            square[2**k + c] = square[c] + 2.0 * common[c] + G[k, k]
    return square.reshape(2 ** (K - K // 2), 2 ** (K // 2))


@inner
def subsets(values, first, last, sums):
    """The sums of all subsets of values[first:last], in the order of their bits."""
    sums[0], size = 0.0, 1
    for k in range(first, last):
        for c in range(size):
            sums[size + c] = sums[c] + values[k]
        size *= 2


@inner
def two_smallest(values):
    """Where the smallest value is, and by how much the second smallest is larger."""
    at, second = 0, np.inf
    for c in range(1, values.shape[0]):
        if values[c] < second:
            if values[c] < values[at]:
                at, second = c, values[at]
            else:
                second = values[c]
    return at, second - values[at]


@inner
def best_of_all(want, g, G, square, tol, b, left, low, right):
    """The best of all 2^K combinations, as `want`: ‖x - zA‖² = ‖x‖² - 2z·Ax + ‖zA‖².

    2z·Ax is a number of the line of `square` (`left`) plus a number of its column (`right`), so
    each combination costs a subtraction and a comparison. Returns by how much the squared error of
    the second best is larger at least; or -1, and `want` stays, where rounding could decide.
    """
    K, half = want.shape[0], want.shape[0] // 2
    largest = 0.0
    for k in range(K):
        b[k] = 2.0 * g[k]
    for i in range(K):
        if want[i]:
            for k in range(K):
                b[k] += 2.0 * G[i, k]
    for k in range(K):
        largest += abs(b[k])
    subsets(b, 0, half, right)
    subsets(b, half, K, left)
    for c in range(low.shape[0]):
        low[c] = np.inf
    for line in range(left.shape[0]):
        shift = left[line]
        for c in range(low.shape[0]):
            low[c] = min(low[c], square[line, c] - shift)
    for c in range(low.shape[0]):
        low[c] -= right[c]
    column, gap = two_smallest(low)
    for line in range(left.shape[0]):
        left[line] = square[line, column] - left[line]
    line, other = two_smallest(left)
    wrong = 1e-15 * (K + 2) * (largest + abs(low[column]))
    gap = max(0.0, min(gap, other) - wrong)
    if gap == 0.0 and wrong > tol:
        return -1.0
    for k in range(K):
        want[k] = (line >> (k - half) if k >= half else column >> k) & 1
    return gap


@inner
def best_by_tree(want, g, L, most, y, rest, delta, cost, tried):
    """The best of all 2^K combinations, as `want`, by branch and bound; returns the nodes visited.

    With δ the change of z and LLᵀ = G, ‖e - δA‖² = Σ_i (y_i - (δL)_i)² + const. Features are
    decided from the last to the first. Line i of `rest` has what the features from i on leave over
    in the columns of L, and its squares bound the error from below (the sphere decoder of Fincke &
    Pohst 1985). After `most` nodes the best z so far counts.
    """
    K = want.shape[0]
    top, least = 0, 0.0  # from `top` on all features depend on those before
    for i in range(K):  # Ly = g
        value = g[i]
        for j in range(i):
            value -= L[i, j] * y[j]
        y[i] = value / L[i, i] if L[i, i] > 0 else 0.0
        top = i + 1 if L[i, i] > 0 else top
        rest[K, i] = y[i]
        least += y[i] * y[i]
        delta[i] = 0.0
    best = delta.copy()
    i, nodes = K - 1, 0
    tried[i] = 0
    while i < K and nodes < most:
        if tried[i] == 2:
            i += 1
            continue
        miss = rest[i + 1, i] if L[i, i] > 0 else 0.0
        other = -1.0 if want[i] else 1.0  # δ_i is 0 or this
        swap = abs(miss - L[i, i] * other) < abs(miss)
        delta[i] = other if swap == (tried[i] == 0) else 0.0
        tried[i] += 1
        nodes += 1
        miss -= L[i, i] * delta[i]
        cost[i] = cost[i + 1] + miss * miss
        if cost[i] >= least * (1 - 1e-12):
            tried[i] = 2  # the other value of δ_i is farther off
        elif i > 0:
            for r in range(min(i, top)):
                rest[i, r] = rest[i + 1, r] - L[i, r] * delta[i]
            i -= 1
            tried[i] = 0
        else:
            least = cost[0]
            for k in range(K):
                best[k] = delta[k]
    for k in range(K):
        if best[k] != 0.0:
            want[k] = 1 - want[k]
    return nodes


@kernel
def allocate(X, weight, Z, A, G, L, square, ease, most, how, reach, moved, error, S, T):
    """Choose each row's z, A fixed, or only measure. Returns (changed, squared error, nodes).

    `error` becomes ‖x - zA‖² of each row; ZᵀWZ is added to `S` and ZᵀW(X - ZA) to `T`. G = AAᵀ,
    L is its `triangle`, `square` its `squares_of_sums`, and ease·diag(G) <= G as matrices.

    An exact choice begins with single flips. No other z is better if 2|g_k| <= ease·G_kk for all
    flips k that are left, because then 2δg <= δGδᵀ for every change δ; most rows end here. For the
    others all combinations are compared, or a tree of at most `most` nodes is searched.

    `reach` (may be empty) has two bounds for each row: an upper bound on the distance from its own
    sum of features, less `moved`; and a lower bound on the distance from any other sum, plus
    `moved`. No sum has moved farther than `moved`. With SOME, rows whose bounds prove that they
    stay are skipped, and what is returned and added is the difference that the others make.
    """
    K, d = A.shape
    e, new, g, y, delta = np.empty(d), np.empty(d), np.empty(K), np.empty(K), np.empty(K)
    rest, cost = np.empty((K + 1, K)), np.zeros(K + 1)
    tried, want = np.zeros(K, np.int64), np.empty(K, np.uint8)
    left, low, right = np.empty(len(square)), np.empty(square.shape[1]), np.empty(square.shape[1])
    changed, rss, nodes = 0, 0.0, 0
    for n in range(X.shape[0]):
        if how == SOME and reach[n, 0] + moved < reach[n, 1] - moved:
            continue
        x, z, before = X[n], Z[n], changed
        w = weight[n] if weight.shape[0] else 1.0
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
            products(A, e, g)
            for k in range(K):
                want[k] = z[k]
            while flip(want, g, G):
                pass
            gap, tol = np.inf, slack(x, ee)  # gap: to the error of the second best z
            for k in range(K):
                gap = min(gap, ease * G[k, k] - 2.0 * (-g[k] if want[k] else g[k]))
            if gap < 0.0 and len(square):
                gap = best_of_all(want, g, G, square, tol, y, left, low, right)
            if gap < 0.0:
                nodes += best_by_tree(want, g, L, most, y, rest, delta, cost, tried)
                gap = 0.0
            same = True
            for k in range(K):
                same = same and want[k] == z[k]
            if not same:
                residual(x, want, A, new)
                there = dot(new, new)
                if there < ee - tol:  # by residuals in full
                    changed += 1
                    if how == SOME:
                        tally(z, e, -w, S, T)
                        rss -= w * ee
                    ee = there
                    for k in range(K):
                        z[k] = want[k]
                    for j in range(d):
                        e[j] = new[j]
                else:
                    gap = 0.0
            if reach.shape[0]:
                reach[n, 0] = np.sqrt(ee) - moved
                reach[n, 1] = np.sqrt(ee + gap) + moved if gap > 0.0 else -np.inf
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


@kernel
def grow_seeds(X, weight, Z, A, seeds, everybody, on, count, total):
    """One round of births: z = [2Ra > aᵀa] for each seed a, and the sums of R over those rows.

    With `everybody` all rows take the first seed.
    """
    c, d = seeds.shape
    e, half = np.empty(d), np.empty(c)
    for s in range(c):
        half[s] = 0.5 * dot(seeds[s], seeds[s])
    for n in range(X.shape[0]):
        residual(X[n], Z[n], A, e)
        w = weight[n] if weight.shape[0] else 1.0
        for s in range(c):
            if (everybody and s == 0) or dot(seeds[s], e) > half[s]:
                on[n, s] = 1
                count[s] += w
                for j in range(d):
                    total[s, j] += w * e[j]
            else:
                on[n, s] = 0


@kernel
def paper_rows(X, weight, Z, A, G, start, penalty, may_open, count):
    """BP-means step 1 (BKJ 3) from row `start` on, until a row opens a feature.

    Returns (row, DONE or OPEN); `count[0]` grows by the flips.
    """
    e, g = np.empty(X.shape[1]), np.empty(Z.shape[1])
    for n in range(start, X.shape[0]):
        w = weight[n] if weight.shape[0] else 1.0
        residual(X[n], Z[n], A, e)
        for k in range(Z.shape[1]):
            g[k] = dot(A[k], e)
        flips = flip(Z[n], g, G)
        if flips:
            count[0] += flips
            residual(X[n], Z[n], A, e)
        if may_open and w * dot(e, e) > penalty:
            return n, OPEN
    return X.shape[0], DONE
