"""Is there a valley between two groups of a graph's nodes? `graph/valleys.py` explains the test.

A graph is symmetric CSR: `indptr`, `indices`, `walk` (weights of the edges). `flow` are the weights
that count when an edge crosses a level. Serial: no result depends on threads.
"""

import numpy as np

from madbayes._kernels import inner, kernel


@inner
def near_border(indptr, indices, group, other, where, limit):
    """The nodes of `group` in the order of their distance from `other`, `limit` at most, and how
    many edges lie between them and the first.

    `where` is -1 for all nodes, and is again in the end.
    """
    for i in other:
        where[i] = -2
    for i in group:
        where[i] = -3
    found, n = np.empty(min(limit, group.size), np.int64), 0
    away = np.zeros(found.size, np.int64)
    for i in group:
        for e in range(indptr[i], indptr[i + 1]):
            if where[indices[e]] == -2 and n < found.size:
                found[n] = i
                n += 1
                where[i] = -4
                break
    head = 0
    while head < n and n < found.size:
        i = found[head]
        head += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if where[j] == -3 and n < found.size:
                found[n] = j
                away[n] = away[head - 1] + 1
                n += 1
                where[j] = -4
    for i in group:
        where[i] = -1
    for i in other:
        where[i] = -1
    return found[:n], away[:n]


@inner
def levels(ptr, J, W, side, steps):
    """Walks average `side` (negative on one side, positive on the other) `steps` times: where a
    node lies between."""
    m = side.size
    degree = np.zeros(m)
    for i in range(m):
        for e in range(ptr[i], ptr[i + 1]):
            degree[i] += W[e]
    total = degree.sum()
    level, new = side.copy(), np.empty(m)
    for _ in range(steps):
        mean = 0.0
        for i in range(m):
            x = 0.0
            for e in range(ptr[i], ptr[i + 1]):
                x += W[e] * level[J[e]]
            new[i] = 0.5 * (level[i] + x / degree[i]) if degree[i] > 0 else level[i]
            mean += degree[i] * new[i]
        mean /= total
        top = 0.0
        for i in range(m):
            new[i] -= mean
            top = max(top, abs(new[i]))
        for i in range(m):
            level[i] = new[i] / top if top > 0 else new[i]
    return level


@kernel
def valley(indptr, indices, walk, flow, one, other, where, limit, steps, height):
    """The valley between two groups of nodes: middle and side by `flow`, and the side by `walk`.

    The first is inf where there is no valley. `where`: -1 for each node of the graph.
    """
    a, before = near_border(indptr, indices, one, other, where, limit)
    b, behind = near_border(indptr, indices, other, one, where, limit)
    m = a.size + b.size
    node = np.empty(m, np.int64)
    node[: a.size], node[a.size :] = a, b
    for i in range(m):
        where[node[i]] = i
    ptr = np.zeros(m + 1, np.int64)
    for i in range(m):
        ptr[i + 1] = ptr[i]
        for e in range(indptr[node[i]], indptr[node[i] + 1]):
            ptr[i + 1] += where[indices[e]] >= 0
    J, W, V = np.empty(ptr[m], np.int64), np.empty(ptr[m]), np.empty(ptr[m])
    side = np.empty(m)
    side[: a.size], side[a.size :] = -(before + 0.5), behind + 0.5
    for i in range(m):
        at = ptr[i]
        for e in range(indptr[node[i]], indptr[node[i] + 1]):
            j = where[indices[e]]
            if j >= 0:
                J[at], W[at], V[at] = j, walk[e], flow[e]
                at += 1
    for i in range(m):
        where[node[i]] = -1
    level = levels(ptr, J, W, side, steps)
    order = np.argsort(level, kind="mergesort")
    rank = np.empty(m, np.int64)
    for p in range(m):
        rank[order[p]] = p
    flows, edges = np.zeros(m), np.zeros(m)  # of the edges that cross each level
    for i in range(m):
        for e in range(ptr[i], ptr[i + 1]):
            r = rank[J[e]]
            if r > rank[i]:
                flows[rank[i]] += V[e]
                flows[r] -= V[e]
                edges[rank[i]] += W[e]
                edges[r] -= W[e]
    flows, edges = np.maximum(np.cumsum(flows)[:-1], 0.0), np.maximum(np.cumsum(edges)[:-1], 0.0)
    half = 0.5 * V.sum() / V.size
    at, lower = lowest(flows, half, height)
    if at < 0:
        return np.inf, 1.0, 0.0
    return flows[at], flows[lower], edges[lower]


@inner
def lowest(crossing, half, height):
    """Where the deepest valley of a profile is, and the height of its lower side; -1: no valley.

    `half` is what half an edge weighs.
    """
    m = crossing.size
    left, best = np.empty(m, np.int64), 0
    for p in range(m):
        if crossing[p] > crossing[best]:
            best = p
        left[p] = best
    right, deepest, at = m - 1, -np.inf, -1
    for p in range(m - 1, -1, -1):
        if crossing[p] > crossing[right]:
            right = p
        lower = left[p] if crossing[left[p]] < crossing[right] else right
        value = np.log((crossing[lower] + half) / (crossing[p] + half))
        if value > deepest:
            deepest, at = value, p
    if at < 1 or at > m - 2:
        return -1, -1
    # The heights of the sides: not their highest places, which chance has made high
    least, lower = np.inf, at
    for side in range(2):
        a, b = (0, at + 1) if side == 0 else (at, m)
        by_height = np.argsort(crossing[a:b])
        p = a + by_height[int(height * (b - a - 1))]
        if crossing[p] < least:
            least, lower = crossing[p], p
    return at, lower
