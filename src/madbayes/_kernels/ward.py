"""Ward's tree of weighted points (Ward 1963): what it costs to merge, pair by pair.

Merging clusters a and b raises the squared error by W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖², so the heights of
the tree are the penalties at which one cluster fewer begins to pay.
"""

import numpy as np
from numba import njit

from madbayes._kernels.distance import sqdist


@njit(nogil=True, cache=True)
def ward_tree(C, W):
    """The m - 1 merges in order of their cost: a point of either side, and the cost.

    Nearest-neighbour chains (Murtagh 1983): O(m²d) time, O(md) memory.
    """
    m = C.shape[0]
    C, W = C.copy(), W.copy()
    left, right = np.empty(m - 1, np.int64), np.empty(m - 1, np.int64)
    height = np.empty(m - 1)
    alive, place, chain = np.arange(m), np.arange(m), np.empty(m, np.int64)
    n_alive, top = m, 0
    for t in range(m - 1):
        if top == 0:
            chain[0] = alive[0]
            top = 1
        while True:
            a = chain[top - 1]
            before = chain[top - 2] if top > 1 else -1
            b = before  # the previous link wins ties, so chains end
            best = np.inf
            if b >= 0:
                best = W[a] * W[b] / (W[a] + W[b]) * sqdist(C, a, C, b)
            for r in range(n_alive):
                e = alive[r]
                if e != a and e != before:
                    cost = W[a] * W[e] / (W[a] + W[e]) * sqdist(C, a, C, e)
                    if cost < best or b < 0:
                        best, b = cost, e
            if b == before:
                break
            chain[top] = b
            top += 1
        top -= 2
        left[t], right[t], height[t] = a, b, best
        share = W[b] / (W[a] + W[b])
        for j in range(C.shape[1]):
            C[a, j] += share * (C[b, j] - C[a, j])
        W[a] += W[b]
        n_alive -= 1
        alive[place[b]] = alive[n_alive]
        place[alive[n_alive]] = place[b]
    order = np.argsort(height, kind="mergesort")
    return left[order], right[order], height[order]


@njit(nogil=True, cache=True)
def cut_tree(left, right, k):
    """The group, 0..k-1 in order of first appearance, of each point when k groups are left."""
    m = left.shape[0] + 1
    parent = np.arange(m)
    for t in range(m - k):
        a, b = left[t], right[t]
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    group = np.empty(m, np.int64)
    count = 0
    for c in range(m):  # a parent has the lower index
        if parent[c] == c:
            group[c] = count
            count += 1
        else:
            group[c] = group[parent[c]]
    return group


@njit(nogil=True, cache=True)
def merge_below(C, W, penalty, cap):
    """Groups of the points after all merges that cost less than the penalty, and more while there
    are more than `cap`; returns (group, number of groups)."""
    m = C.shape[0]
    left, right, height = ward_tree(C, W)
    k = m
    while k > 1 and (k > cap or height[m - k] < penalty):
        k -= 1
    return cut_tree(left, right, k), k
