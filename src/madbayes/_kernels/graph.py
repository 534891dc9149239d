"""Cuts of a graph: moves of nodes with exact changes of the objective, contraction, kernel passes.

A graph is CSR without its diagonal: `indptr`, `indices`, `data`. `delta` is each node's links to
others (δ_i), `w` its weight (its degree, loops included, or 1). A partition is `z`; `W`, `cut` and
`N` are weight, cut and number of nodes of each cluster. θ is `theta`: F = Σ_c (cut_c/W_c - θ).
Serial, so that no result depends on threads. A gain must exceed TOL of what is compared.
"""

import numpy as np

from madbayes._kernels import kernel

TOL = 1e-10
NOWHERE, ALONE = -1, -2  # instead of a cluster


@kernel
def cluster_sums(indptr, indices, data, delta, w, z, k):
    """W, cut and N of k clusters."""
    W, cut, N = np.zeros(k), np.zeros(k), np.zeros(k, np.int64)
    for i in range(w.size):
        c = z[i]
        outside = delta[i]
        for e in range(indptr[i], indptr[i + 1]):
            if z[indices[e]] == c:
                outside -= data[e]
        W[c] += w[i]
        cut[c] += outside
        N[c] += 1
    return W, cut, N


@kernel
def settle(indptr, indices, data, delta, w, z, W, cut, N, theta, order, exact, limit, stop):
    """Move nodes while that lowers F; returns whether no move of any node is left that does.

    Nodes are taken in `order`, then again those whose neighbours moved. A node may go to a cluster
    it has a link to, or become one of its own. `exact`: go round all nodes again until no move
    lowers F; otherwise stop when no neighbour of a moved node wants to move. Either way stop after
    `limit` looks at a node, or when `stop` says so. Slots of W, cut and N without nodes have N = 0;
    there must be as many slots as nodes.
    """
    n = w.size
    links, touched = np.zeros(n), np.empty(n, np.int64)
    free, n_free = np.empty(n, np.int64), 0
    for c in range(n - 1, -1, -1):
        if N[c] == 0:
            free[n_free] = c
            n_free += 1
    phi = np.zeros(n)
    for c in range(n):
        if N[c] > 0:
            phi[c] = cut[c] / W[c]
    queue, queued = order.copy(), np.ones(n, np.bool_)
    head, waiting = 0, n
    moves, moves_before, looks = 0, 0, 0
    while True:
        if waiting == 0:
            if not exact or moves == moves_before:
                return exact
            moves_before = moves  # once more over all nodes
            queue[:] = order
            queued[:] = True
            head, waiting = 0, n
        if looks >= limit or stop[0]:
            return False
        looks += 1
        i = queue[head]
        head = head + 1 if head + 1 < n else 0
        waiting -= 1
        queued[i] = False
        p = z[i]
        n_touched = 0
        for e in range(indptr[i], indptr[i + 1]):
            c = z[indices[e]]
            if links[c] == 0.0:
                touched[n_touched] = c
                n_touched += 1
            links[c] += data[e]
        d, wi, own = delta[i], w[i], links[p]
        # What leaving p adds to F, and the least that arriving elsewhere adds.
        best, lowest = NOWHERE, np.inf
        if N[p] == 1:
            leaving = theta - phi[p]
        elif W[p] - wi > 1e-14 * W[p]:
            leaving = (cut[p] + 2.0 * own - d) / (W[p] - wi) - phi[p]
            best, lowest = ALONE, d / wi - theta
        else:
            leaving = np.inf  # the others weigh nothing beside this node
        for t in range(n_touched):
            c = touched[t]
            if c != p:
                change = (cut[c] + d - 2.0 * links[c]) / (W[c] + wi) - phi[c]
                if change < lowest or (change == lowest and c < best):
                    lowest = change
                    best = c
        if leaving + lowest < -TOL * (theta + phi[p] + d / wi):
            q = best
            joined = 0.0
            if q == ALONE:
                n_free -= 1
                q = free[n_free]
            else:
                joined = links[q]
            N[p] -= 1
            if N[p] == 0:
                W[p], cut[p], phi[p] = 0.0, 0.0, 0.0
                free[n_free] = p
                n_free += 1
            else:
                W[p] -= wi
                cut[p] = max(cut[p] + 2.0 * own - d, 0.0)
                phi[p] = cut[p] / W[p]
            N[q] += 1
            W[q] += wi
            cut[q] = max(cut[q] + d - 2.0 * joined, 0.0)
            phi[q] = cut[q] / W[q]
            z[i] = q
            moves += 1
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if not queued[j] and z[j] != q:
                    queued[j] = True
                    tail = head + waiting
                    queue[tail if tail < n else tail - n] = j
                    waiting += 1
        for t in range(n_touched):
            links[touched[t]] = 0.0


@kernel
def renumber(z, top):
    """Labels below `top` to 0, 1, … in the order of first appearance; returns how many."""
    new = np.full(top, -1, np.int64)
    k = 0
    for i in range(z.size):
        c = z[i]
        if new[c] < 0:
            new[c] = k
            k += 1
        z[i] = new[c]
    return k


@kernel
def contract(indptr, indices, data, w, z, k):
    """The graph whose nodes are the clusters 0 … k-1: indptr, indices, data, delta, w."""
    n = w.size
    start = np.zeros(k + 1, np.int64)
    for i in range(n):
        start[z[i] + 1] += 1
    for c in range(k):
        start[c + 1] += start[c]
    members, place = np.empty(n, np.int64), start.copy()
    for i in range(n):
        members[place[z[i]]] = i
        place[z[i]] += 1
    new_indptr = np.zeros(k + 1, np.int64)
    new_indices = np.empty(indices.size, indices.dtype)
    new_data = np.empty(indices.size)
    new_delta, new_w = np.zeros(k), np.zeros(k)
    slot = np.full(k, -1, np.int64)  # where the links to a cluster are summed
    filled = 0
    for c in range(k):
        first = filled
        for m in range(start[c], start[c + 1]):
            i = members[m]
            new_w[c] += w[i]
            for e in range(indptr[i], indptr[i + 1]):
                q = z[indices[e]]
                if q == c:
                    continue
                if slot[q] < first:
                    slot[q] = filled
                    new_indices[filled] = q
                    new_data[filled] = 0.0
                    filled += 1
                new_data[slot[q]] += data[e]
        for e in range(first, filled):
            new_delta[c] += new_data[e]
        new_indptr[c + 1] = filled
    return new_indptr, new_indices[:filled].copy(), new_data[:filled].copy(), new_delta, new_w


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
