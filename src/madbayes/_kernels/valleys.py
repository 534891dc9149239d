"""Is there a valley between two groups of a graph's nodes? `graph/valleys.py` explains the test.

A graph is symmetric CSR: `indptr`, `indices`, `walk` (weights of the edges). `flow` are the weights
that count when an edge crosses a level. Serial: no result depends on threads. Sorting is numpy's:
Numba compiles a sort for longer than all that is left here.
"""

import numpy as np

from madbayes._kernels import kernel


@kernel
def near_border(indptr, indices, group, other, where, found, away):
    """The nodes of `group` in the order of their distance from `other`, as many as `found` holds,
    and how many edges lie between them and the first; returns how many.

    `where` is -1 for all nodes, and is again in the end.
    """
    limit, n, head = found.shape[0], 0, 0
    for t in range(other.shape[0]):
        where[other[t]] = -2
    for t in range(group.shape[0]):
        where[group[t]] = -3
    for t in range(group.shape[0]):
        i = group[t]
        for e in range(indptr[i], indptr[i + 1]):
            if where[indices[e]] == -2 and n < limit:
                found[n], away[n] = i, 0
                n += 1
                where[i] = -4
                break
    while head < n and n < limit:
        i, further = found[head], away[head] + 1
        head += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if where[j] == -3 and n < limit:
                found[n], away[n] = j, further
                n += 1
                where[j] = -4
    for t in range(group.shape[0]):
        where[group[t]] = -1
    for t in range(other.shape[0]):
        where[other[t]] = -1
    return n


@kernel
def levels(ptr, J, W, level, new, degree, steps):
    """Walks average `level` (negative on one side, positive on the other) `steps` times: where a
    node lies between."""
    m, total = level.shape[0], 0.0
    for i in range(m):
        x = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            x += W[e]
        degree[i] = x
        total += x
    for _ in range(steps):
        mean, top = 0.0, 0.0
        for i in range(m):
            x, own, y = 0.0, degree[i], level[i]
            for e in range(ptr[i], ptr[i + 1]):
                x += W[e] * level[J[e]]
            if own > 0:
                y = 0.5 * (y + x / own)
            new[i] = y
            mean += own * y
        mean /= total
        for i in range(m):
            y = new[i] - mean
            new[i] = y
            y = y if y > 0.0 else -y
            top = y if y > top else top
        for i in range(m):
            y = new[i]
            level[i] = y / top if top > 0 else y


@kernel
def take_edges(indptr, indices, walk, flow, node, where, ptr, J, W, V):
    """The graph of some nodes alone. `where`: -1 for all nodes, before and after."""
    at, m = 0, node.shape[0]
    for i in range(m):
        where[node[i]] = i
    for i in range(m):
        for e in range(indptr[node[i]], indptr[node[i] + 1]):
            j = where[indices[e]]
            if j >= 0:
                J[at], W[at], V[at] = j, walk[e], flow[e]
                at += 1
        ptr[i + 1] = at
    for i in range(m):
        where[node[i]] = -1


@kernel
def profile(ptr, J, W, V, order, rank, flows, edges):
    """The weights of the edges that cross each level, where nodes have this `order`; returns the
    level with the deepest valley."""
    m, flow, walk, total = order.shape[0], 0.0, 0.0, 0.0
    for p in range(m):
        rank[order[p]] = p
    for i in range(m):
        low = rank[i]
        for e in range(ptr[i], ptr[i + 1]):
            high, v = rank[J[e]], V[e]
            total += v
            if high > low:
                w = W[e]
                flows[low] += v
                flows[high] -= v
                edges[low] += w
                edges[high] -= w
    for p in range(m):
        flow += flows[p]
        walk += edges[p]
        flows[p] = flow if flow > 0.0 else 0.0
        edges[p] = walk if walk > 0.0 else 0.0
    half, at = 0.5 * total / ptr[m], -1  # what half an edge weighs
    left, right, deepest = rank, m - 2, -np.inf  # where both sides are highest
    best = 0
    for p in range(m - 1):
        if flows[p] > flows[best]:
            best = p
        left[p] = best
    for p in range(m - 2, -1, -1):
        here = flows[p]
        if here > flows[right]:
            right = p
        value = (min(flows[left[p]], flows[right]) + half) / (here + half)
        if value > deepest:
            deepest, at = value, p
    return at


@kernel
def strands(ptr, J, V, rank, level, root, weight):
    """In how many strands edges cross a level: the weight of all over that of the largest strand.

    Nodes at edges that cross are of one strand if an edge links them.
    """
    m, total, most = rank.shape[0], 0.0, 0.0
    for i in range(m):
        root[i], weight[i] = -1, 0.0
    for i in range(m):
        if rank[i] <= level:
            for e in range(ptr[i], ptr[i + 1]):
                if rank[J[e]] > level:
                    root[i], root[J[e]] = i, J[e]
    for i in range(m):
        if root[i] >= 0:
            for e in range(ptr[i], ptr[i + 1]):
                a, b = i, J[e]
                if b < i and root[b] >= 0:
                    while root[a] != a:
                        root[a] = root[root[a]]
                        a = root[a]
                    while root[b] != b:
                        root[b] = root[root[b]]
                        b = root[b]
                    root[a] = b
    for i in range(m):
        if root[i] >= 0 and rank[i] <= level:
            a = i
            while root[a] != a:
                a = root[a]
            for e in range(ptr[i], ptr[i + 1]):
                if rank[J[e]] > level:
                    weight[a] += V[e]
                    total += V[e]
            most = weight[a] if weight[a] > most else most
    return total / most if most > 0.0 else 1.0


def valley(indptr, indices, walk, flow, one, other, where, limit, steps, height):
    """The valley between two groups of nodes: middle and side by `flow`, and the side by `walk`;
    of one strand each, where edges cross in several.

    The first is inf where there is no valley. `where`: -1 for each node of the graph.
    """
    most = min(limit, len(one)), min(limit, len(other))
    node, away = np.empty(sum(most), np.int64), np.empty(sum(most), np.int64)
    a = near_border(indptr, indices, one, other, where, node[: most[0]], away)
    b = near_border(indptr, indices, other, one, where, node[a : a + most[1]], away[a:])
    m, node, level = a + b, node[: a + b], away[: a + b] + 0.5
    np.negative(level[:a], out=level[:a])
    edges = int((indptr[node + 1] - indptr[node]).sum())
    ptr, J, W, V = np.zeros(m + 1, np.int64), np.empty(edges, np.int64), *np.empty((2, edges))
    take_edges(indptr, indices, walk, flow, node, where, ptr, J, W, V)
    levels(ptr, J, W, level, *np.empty((2, m)), steps)
    flows, walks = np.zeros((2, m))
    order = level.argsort(kind="stable")
    at = profile(ptr, J, W, V, order, np.empty(m, np.int64), flows, walks)
    if at < 1 or at > m - 3:
        return np.inf, 1.0, 0.0
    # The heights of the sides: not their highest places, which chance has made high
    lower = at
    for a, b in ((0, at + 1), (at, m - 1)):
        p = a + flows[a:b].argsort(kind="stable")[int(height * (b - a - 1))]
        lower = p if a == 0 or flows[p] < flows[lower] else lower
    rank, room = np.empty(m, np.int64), (np.empty(m, np.int64), np.empty(m))
    rank[order] = np.arange(m)
    # Strands are counted at the first place from the middle that is as high: farther off they meet
    step = 1 if lower > at else -1
    between = np.arange(at, lower + step, step)
    near = between[np.argmax(flows[between] >= flows[lower])]
    many = strands(ptr, J, V, rank, near, *room)
    here = min(many, strands(ptr, J, V, rank, at, *room))
    return flows[at] / here, flows[lower] / many, walks[lower] / many
