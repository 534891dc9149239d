"""Cuts of a graph: moves of nodes with exact changes of the objective.

A graph is as in `cut_kernels.py`, a partition is `z`; `sums` and `N` have weight, cut, their ratio
and the number of nodes of each cluster. θ is `theta`: F = Σ_c (cut_c/W_c - θ). Moves are serial,
so that no result depends on threads. A gain must exceed TOL of what is compared.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes.graph.cut_kernels import TOL

NOWHERE, ALONE = -1, -2  # instead of a cluster
WEIGHT, CUT, RATIO, LINKS = range(4)  # of a cluster: columns of `sums`


@inner
def look_around(indices, z, begin, end, p, there):
    """The clusters of a node's neighbours, in `there`; returns 0 if all are in p."""
    apart = 0
    for e in range(begin, end):
        there[e - begin] = z[indices[e]]
        apart |= there[e - begin] ^ p
    return apart


@kernel
def settle(
    indptr,
    indices,
    data,
    delta,
    w,
    z,
    sums,
    N,
    k,
    there,
    changes,
    free,
    theta,
    asked,
    exact,
    limit,
    stop,
):
    """Move nodes while that lowers F; returns how many moves, and whether no other would lower it.

    Nodes that are `asked` are taken in turn; a node that moves has its neighbours asked again. A
    node may go to a cluster it has a link to, or become one of its own. `exact`: all nodes are
    asked again until no move lowers F. Either way stop after `limit` looks at a node, or when
    `stop` says so. `sums` and N have a slot for each node; clusters 0 … k-1 have nodes. `there`,
    `changes` and `free` are room for one number for each node.
    """
    n = w.size
    n_free = n - k
    for c in range(k, n):
        free[n - 1 - c] = c
    moves, moves_before, looks, looks_before = 0, 0, 0, -1
    while True:
        if looks == looks_before:  # nobody was asked
            if not exact or moves == moves_before:
                return moves, exact
            moves_before = moves  # once more over all nodes
            for i in range(n):
                asked[i] = 1
        looks_before = looks
        for i in range(n):
            if asked[i] == 0:
                continue
            if looks >= limit or stop[0]:
                return moves, False
            looks += 1
            asked[i] = 0
            # Without branches that depend on what is read: the processor would guess, and wait.
            begin, end, p = indptr[i], indptr[i + 1], z[i]
            d, wi = delta[i], w[i]
            if look_around(indices, z, begin, end, p, there) == 0 and d >= theta * wi:
                continue  # all neighbours are in p: elsewhere or alone it would cost more
            for e in range(begin, end):
                sums[there[e - begin], LINKS] += data[e]
            own = sums[p, LINKS]
            weight, cut, phi = sums[p, WEIGHT], sums[p, CUT], sums[p, RATIO]
            # What leaving p adds to F, and the least that arriving elsewhere adds.
            best, lowest = NOWHERE, np.inf
            if N[p] == 1:
                leaving = theta - phi
            elif weight - wi > 1e-14 * weight:
                leaving = (cut + 2.0 * own - d) / (weight - wi) - phi
                best, lowest = ALONE, d / wi - theta
            else:
                leaving = np.inf  # the others weigh nothing beside this node
            sums[p, LINKS] = -np.inf  # arriving where it is is no choice
            least = np.inf
            for e in range(begin, end):
                c = there[e - begin]
                change = (sums[c, CUT] + d - 2.0 * sums[c, LINKS]) / (sums[c, WEIGHT] + wi)
                change -= sums[c, RATIO]
                changes[e - begin] = change
                least = min(least, change)
            q, joined = best, 0.0
            if least < lowest:
                lowest = least
                q = n
                for e in range(begin, end):  # of equals the first
                    c = there[e - begin]
                    q = min(q, c if changes[e - begin] == least else n)
                joined = sums[q, LINKS]
            for e in range(begin, end):
                sums[there[e - begin], LINKS] = 0.0
            sums[p, LINKS] = 0.0
            if leaving + lowest < -TOL * (theta + phi + d / wi):
                if q == ALONE:
                    n_free -= 1
                    q = free[n_free]
                N[p] -= 1
                if N[p] == 0:
                    sums[p, WEIGHT], sums[p, CUT], sums[p, RATIO] = 0.0, 0.0, 0.0
                    free[n_free] = p
                    n_free += 1
                else:
                    sums[p, WEIGHT] = weight - wi
                    sums[p, CUT] = max(cut + 2.0 * own - d, 0.0)
                    sums[p, RATIO] = sums[p, CUT] / sums[p, WEIGHT]
                N[q] += 1
                sums[q, WEIGHT] += wi
                sums[q, CUT] = max(sums[q, CUT] + d - 2.0 * joined, 0.0)
                sums[q, RATIO] = sums[q, CUT] / sums[q, WEIGHT]
                z[i] = q
                moves += 1
                for e in range(begin, end):
                    if there[e - begin] != q:
                        asked[indices[e]] = 1


@kernel
def count_nodes(z, k, cut, weight, sums, N):
    """`sums` and N of the clusters 0 … k-1; the other slots are empty."""
    for c in range(k):
        sums[c, WEIGHT], sums[c, CUT], sums[c, RATIO] = weight[c], cut[c], cut[c] / weight[c]
        sums[c, LINKS] = 0.0
    for c in range(k, N.size):
        for x in range(4):
            sums[c, x] = 0.0
    for c in range(N.size):
        N[c] = 0
    for i in range(z.size):
        N[z[i]] += 1


@kernel
def close_gaps(z, sums, N, new):
    """Clusters that have nodes come to be 0 … k-1, in their order; returns k."""
    k = 0
    for c in range(N.size):
        if N[c] > 0:
            new[c] = k
            if k < c:
                N[k], N[c] = N[c], 0
                for x in range(4):
                    sums[k, x], sums[c, x] = sums[c, x], 0.0
            k += 1
    for i in range(z.size):
        z[i] = new[z[i]]
    return k
