"""The best z of one row in {0, 1}^K, and how much worse the second best is (`features.py`)."""

import numpy as np

from madbayes._jit import inner, kernel


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


@inner
def best_of_sums(x, sums, away, want):
    """The best of all 2^K z, as `want`, by comparing `x` with every sum: column c of `sums` has
    the features that are the bits of c. In few columns quicker than a tree that cannot be cut.
    Returns by how much the squared error of the second best is larger."""
    for c in range(away.shape[0]):
        away[c] = 0.0
    for j in range(x.shape[0]):
        for c in range(away.shape[0]):
            miss = x[j] - sums[j, c]
            away[c] += miss * miss
    best, second = 0, np.inf
    for c in range(1, away.shape[0]):
        if away[c] < second:
            if away[c] < away[best]:
                best, second = c, away[best]
            else:
                second = away[c]
    for k in range(want.shape[0]):
        want[k] = (best >> k) & 1
    return second - away[best]


@inner
def best_of_all(z, g, G, L, ease, most, two, want, y, rest, delta, cost, tried):
    """The best of all 2^K z, as `want`, by branch and bound.

    Flips come first. No other z is better when 2|g_k| <= ease·G_kk for all flips k that are left,
    where ease·diag(G) <= G as matrices: then 2δg <= δGδᵀ for every δ. Most rows end here.

    With δ = z' - z and LLᵀ = G, ‖e - δA‖² = Σ_i (y_i - (δL)_i)² + const. Features are decided from
    the last to the first; what the decided ones leave over in their columns of L (`rest` has it for
    the others, line i with all from i on decided) bounds the rest from below (the
    sphere decoder of Fincke & Pohst 1985). After `most` nodes the best z so far counts. `g` is
    used up. Returns the nodes, and with `two` by how much the squared error of the second best z is
    larger, at least (0: not known); branches that could hold it are then gone into, too.
    """
    K = z.shape[0]
    for i in range(K):
        y[i] = g[i]
        want[i] = z[i]
    while flip(want, g, G):
        pass
    gap, flipped = np.inf, np.inf
    for k in range(K):
        gain = 2.0 * (-g[k] if want[k] else g[k])
        gap = min(gap, ease * G[k, k] - gain)
        flipped = min(flipped, G[k, k] - gain)
    if gap >= 0.0:
        return 0, gap
    top = 0  # beyond it all features depend on those before
    for i in range(K):  # Ly = g
        value = y[i]
        for j in range(i):
            value -= L[i, j] * y[j]
        y[i] = value / L[i, i] if L[i, i] > 0 else 0.0
        top = i + 1 if L[i, i] > 0 else top
    least = 0.0
    for i in range(top):
        rest[K, i] = miss = y[i]
        for c in range(i, K):
            miss -= L[c, i] * (float(want[c]) - float(z[c]))
        least += miss * miss
    second = least + flipped
    bound = second if two else least - 1e-12 * least
    i, nodes = K - 1, 0
    tried[i] = 0
    while i < K and nodes < most:
        if tried[i] == 2:
            i += 1
            continue
        miss = rest[i + 1, i] if L[i, i] > 0 else 0.0
        other = -1.0 if z[i] else 1.0  # δ_i is 0 or this
        swap = abs(miss - L[i, i] * other) < abs(miss)
        delta[i] = other if swap == (tried[i] == 0) else 0.0
        tried[i] += 1
        nodes += 1
        miss -= L[i, i] * delta[i]
        cost[i] = cost[i + 1] + miss * miss
        if cost[i] >= bound:
            tried[i] = 2  # the other one is farther off
        elif i > 0:
            for r in range(min(i, top)):
                rest[i, r] = rest[i + 1, r] - L[i, r] * delta[i]
            i -= 1
            tried[i] = 0
        else:
            known = two
            for k in range(K):
                known = known and want[k] == (z[k] if delta[k] == 0 else 1 - z[k])
            if cost[0] < least - 1e-12 * least and not known:
                least, second = cost[0], least
                for k in range(K):
                    want[k] = z[k] if delta[k] == 0 else 1 - z[k]
            elif not known:
                second = min(second, cost[0])
            bound = second if two else least - 1e-12 * least
    return nodes, second - least if nodes < most else 0.0
