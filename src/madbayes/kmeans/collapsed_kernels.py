"""One pass of collapsed DP-means: every row in turn, and the means move with it.

Letters as in `moves`: X (n, d) rows, w weights, z labels, C centres, W cluster weights, N cluster
row counts. N[c] = 0 is a free number, the last row of C is scratch.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._partition.moves import HEAVY, TOL, copy_row, rest_of_cluster
from madbayes._rows.distance import sqdist

RECENT = 8  # openings that a row can catch up with; after more it looks at all centres again


@kernel
def pass_over_rows(
    X, w, z, penalty, cap, noise, C, W, N, low, seen, births, n_births, travelled, stop
):
    """Each row goes where its contribution to the objective is least; z, low, seen, births change.

    Contributions are equal when they differ by less than TOL of them or by w·`noise`.

    Bounds only save work: `low[i]` - `travelled` is at most the distance of row i to any centre but
    its own when the pass begins. `travelled` is how far centres have come in the passes before, so
    that low need not be lowered row by row; `births` (a ring) are the clusters opened since, of
    which row i knows the first `seen[i]`.

    Returns how many rows moved, how many clusters were ever opened, and how far a centre came.
    """
    n, d = X.shape
    slots = C.shape[0] - 1
    drift, farthest = np.empty(slots), 0.0
    k, lightest = 0, np.inf
    for c in range(slots):
        drift[c] = 0.0
        if N[c] > 0:
            k += 1
            lightest = min(lightest, W[c])
    moved, rest = 0, 0.0
    for i in range(n):
        if stop[0]:
            break
        p, wi = z[i], w[i]
        alone = N[p] == 1
        heavy = not alone and W[p] - wi < HEAVY * W[p]
        if alone:
            stay = penalty
        elif heavy:
            rest = rest_of_cluster(X, w, z, i, C, None)
            stay = wi * rest / (wi + rest) * sqdist(X, i, C, slots)
        else:
            stay = W[p] * wi / (W[p] - wi) * sqdist(X, i, C, p)

        # Nothing else can be better: the nearest other centre is too far.
        if (alone or k == cap or stay <= penalty) and n_births - seen[i] <= RECENT:
            for t in range(seen[i], n_births):
                c = births[t % RECENT]
                if c != p and N[c] > 0:
                    low[i] = min(low[i], np.sqrt(sqdist(X, i, C, c)) + travelled)
            seen[i] = n_births
            reach = low[i] * (1 - 1e-12) - travelled - farthest
            if reach > 0 and wi * lightest / (wi + lightest) * reach * reach >= stay:
                continue

        best, q, nearest = np.inf, -1, np.inf
        for c in range(slots):
            if N[c] > 0 and c != p:
                d2 = sqdist(X, i, C, c)
                nearest = min(nearest, d2)
                cost = W[c] * wi / (W[c] + wi) * d2
                if q < 0 or cost < best * (1 - TOL) - wi * noise:
                    best, q = cost, c
        low[i] = np.sqrt(nearest) + travelled
        seen[i] = n_births
        opens = not alone and k < cap and (q < 0 or penalty < best * (1 - TOL))
        if opens:
            best = penalty
        if not best < stay * (1 - TOL) - wi * noise:
            continue
        moved += 1
        low[i] = 0.0  # of a centre that is now its own, it says nothing of the one it left

        if opens:
            q = 0
            while q < slots and N[q] > 0:
                q += 1
            if q == slots:  # no number is free
                slots = 2 * slots
                C = wider(C, slots + 1)
                W, N, drift = longer(W, slots + 1), longer(N, slots + 1), longer(drift, slots)
                copy_row(C, q, C, slots)
            births[n_births % RECENT] = q
            n_births += 1
        k += int(opens) - int(alone)

        # The mean of p without the row …
        way = 0.0
        if heavy:
            way = np.sqrt(sqdist(C, slots, C, p))
            copy_row(C, slots, C, p)
            W[p] = rest
        elif not alone:
            f = wi / (W[p] - wi)
            W[p] -= wi
            for j in range(d):
                step = f * (C[p, j] - X[i, j])
                C[p, j] += step
                way += step * step
            way = np.sqrt(way)
        N[p] -= 1
        if not alone:
            drift[p] += way
            farthest = max(farthest, drift[p])
            lightest = min(lightest, W[p])

        # … and of q with it.
        if opens:
            copy_row(X, i, C, q)
            W[q] = wi
            lightest = min(lightest, wi)
        else:
            W[q] += wi
            f, way = wi / W[q], 0.0
            for j in range(d):
                step = f * (X[i, j] - C[q, j])
                C[q, j] += step
                way += step * step
            drift[q] += np.sqrt(way)
            farthest = max(farthest, drift[q])
        N[q] += 1
        z[i] = q
    return moved, n_births, farthest


@inner
def wider(A, m):
    out = np.empty((m, A.shape[1]))
    for c in range(m):
        for j in range(A.shape[1]):
            out[c, j] = A[c, j] if c < A.shape[0] else 0.0
    return out


@inner
def longer(a, m):
    out = np.empty(m, a.dtype)
    for c in range(m):
        out[c] = a[c] if c < a.shape[0] else 0
    return out
