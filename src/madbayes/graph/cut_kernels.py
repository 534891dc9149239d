"""Cuts of a graph: sums over clusters, other orders of the nodes, contraction, moves of nodes.

A graph is CSR without its diagonal: `indptr`, `indices`, `data`. `delta` is each node's links to
others (δ_i), `w` its weight (its degree, loops included, or 1). A partition is `z`; `sums` and `N`
have weight, cut, their ratio and the number of nodes of each cluster. θ is `theta`:
F = Σ_c (cut_c/W_c - θ). Moves change F by exact amounts, and a gain must exceed TOL of what is
compared. They are serial, so that no result depends on threads.
"""

import numpy as np

from madbayes._jit import inner, kernel

TOL = 1e-10  # of what is compared: differences below it are rounding
NOWHERE, ALONE = -1, -2  # instead of a cluster
WEIGHT, CUT, RATIO, LINKS = range(4)  # of a cluster: columns of `sums`


@kernel
def renumber(z, new):
    """Labels to 0, 1, … in the order of first appearance; returns how many. `new` is full of -1."""
    k = 0
    for i in range(z.size):
        c = z[i]
        if new[c] < 0:
            new[c] = k
            k += 1
        z[i] = new[c]
    return k


@kernel
def common_parts(one, other, head, labels, first, after):
    """Nodes with the same label in `one` and in `other` get one label; returns how many there are.

    Labels are in the order of first appearance, and `first` is where each appears. `head`, full
    of -1, is the last new label within each one of `one`, `after` the one before it.
    """
    k = 0
    for i in range(one.size):
        part = head[one[i]]
        while part >= 0 and other[first[part]] != other[i]:
            part = after[part]
        if part < 0:
            part = k
            first[part], after[part], head[one[i]] = i, head[one[i]], part
            k += 1
        labels[i] = part
    return k


@kernel
def reorder(indptr, indices, data, order, place, new_indptr, new_indices, new_data):
    """The same graph in another order: node i comes to `place[i]`."""
    for r in range(order.size):
        i = order[r]
        filled = new_indptr[r]
        for e in range(indptr[i], indptr[i + 1]):
            new_indices[filled] = place[indices[e]]
            new_data[filled] = data[e]
            filled += 1


@kernel
def sort_nodes(z, start, order):
    """The nodes in the order of their clusters, which begin at `start` (full of 0 at first)."""
    k = start.size - 1
    for i in range(z.size):
        start[z[i] + 1] += 1
    for c in range(k):
        start[c + 1] += start[c]
    for i in range(z.size):
        order[start[z[i]]] = i
        start[z[i]] += 1
    for c in range(k, 0, -1):
        start[c] = start[c - 1]
    start[0] = 0


@kernel
def contract(
    indptr, indices, data, w, z, start, order, slot, there, new_indptr, new_indices, new_data, new
):
    """The graph whose nodes are the clusters, and `new`: their links to others and weights.

    Returns the number of half-edges. `start` and `order`: the nodes of each cluster. `slot`, full
    of -1: where the links of the present cluster to each other one are summed; those within are
    summed in the last place. `there` is room for one number for each node.
    """
    filled, inner = 0, new_data.size - 1
    for c in range(start.size - 1):
        begin = filled
        slot[c] = inner  # one branch less
        weight, outside = 0.0, 0.0
        for m in range(start[c], start[c + 1]):
            i = order[m]
            weight += w[i]
            first, last = indptr[i], indptr[i + 1]
            apart = 0
            for e in range(first, last):
                there[e - first] = z[indices[e]]
                apart |= there[e - first] ^ c
            if apart == 0:
                continue
            for e in range(first, last):
                q = there[e - first]
                at = slot[q]
                if at < begin:
                    slot[q] = filled
                    new_indices[filled] = q
                    new_data[filled] = data[e]
                    filled += 1
                else:
                    new_data[at] += data[e]
        slot[c] = -1
        for e in range(begin, filled):
            outside += new_data[e]
        new[0, c], new[1, c] = outside, weight
        new_indptr[c + 1] = filled
    return filled


@kernel
def kernel_pass(indptr, indices, data, w, loop, z, s, a, sigma, penalty, new):
    """One pass of KJ Algorithm 1 in kernel space, nodes in order; returns the number of clusters.

    K = σW⁻¹ - W⁻¹LW⁻¹, in KJ's σ where `loop` holds what stands on the diagonal of WKW beside σw:
    A_ii for w = d. `z` are the labels before the pass, `s` and `a` weights and inner links of the
    clusters before it; `new` receives the labels. The weighted squared distance of node i to c is
    σ + loop_i/w_i - 2·links(i,c)/s_c + w_i·a_c/s_c² + (σw_i/s_c)(1 - 2[i∈c]).
    """
    n, k = w.size, s.size
    links, touched = np.zeros(k), np.empty(k, np.int64)
    opened = np.full(n, -1, np.int64)  # the cluster that a node opened in this pass
    # Of the clusters a node has no link to, the nearest has the least a/s² + σ/s, whoever asks.
    far, least = 0, 0.0
    for c in range(k):
        value = a[c] / s[c] ** 2 + sigma / s[c]
        if c == 0 or value < least - TOL * least:
            far, least = c, value
    n_clusters = k
    for i in range(n):
        wi = w[i]
        alone = sigma + loop[i] / wi
        best, nearest = far, alone + wi * least
        tol = TOL * (nearest + sigma)
        n_touched = 0
        p = z[i]
        links[p] += loop[i]
        touched[0] = p
        n_touched = 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            c = z[j]
            if links[c] == 0.0 and c != p:
                touched[n_touched] = c
                n_touched += 1
            links[c] += data[e]
            if opened[j] >= 0:
                distance = (
                    alone - 2.0 * data[e] / w[j] + wi * loop[j] / w[j] ** 2 + sigma * wi / w[j]
                )
                if distance < nearest - tol or (distance < nearest + tol and opened[j] < best):
                    best, nearest = opened[j], distance
        for t in range(n_touched):
            c = touched[t]
            inside = -1.0 if c == p else 1.0
            distance = (
                alone - 2.0 * links[c] / s[c] + wi * a[c] / s[c] ** 2 + inside * sigma * wi / s[c]
            )
            if distance < nearest - tol or (distance < nearest + tol and c < best):
                best, nearest = c, distance
            links[c] = 0.0
        if nearest > penalty + tol:
            best = n_clusters
            opened[i] = n_clusters
            n_clusters += 1
            value = loop[i] / wi**2 + sigma / wi
            if value < least - TOL * least:
                far, least = best, value
        new[i] = best
    return n_clusters


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
