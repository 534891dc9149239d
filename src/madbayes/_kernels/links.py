"""Counting rows between neighbouring centres; the test itself is explained in `cluster.links`."""

import numpy as np

from madbayes._kernels import inner, kernel


@kernel
def spanning_tree(length):
    """Prim's minimum spanning tree of k points: the point that each is joined to, and how far away.

    Point 0 is the root; inf: nothing connects.
    """
    k = length.shape[0]
    inside, parent, reach = np.zeros(k, np.int64), np.zeros(k, np.int64), np.empty(k)
    for c in range(k):
        reach[c] = length[0, c]
    inside[0] = 1
    for _ in range(k - 1):
        b = -1
        for c in range(k):
            if inside[c] == 0 and (b < 0 or reach[c] < reach[b]):
                b = c
        inside[b] = 1
        for c in range(k):
            if inside[c] == 0 and length[b, c] < reach[c]:
                reach[c] = length[b, c]
                parent[c] = b
    return parent, reach


@kernel
def gabriel_pairs(between, order, limit, joined):
    """Mark pairs a < b whose midpoint has no centre nearer than they are: `limit` for each.

    `order[a]` are the centres from the nearest to a to the farthest.
    """
    k = between.shape[0]
    for a in range(k):
        found = 0
        for r in range(k):
            b = order[a, r]
            free = b != a
            for s in range(r):  # whoever is nearer to the midpoint is nearer to a than b is
                c = order[a, s]
                if c != a and between[a, c] + between[b, c] < between[a, b]:
                    free = False
                    break
            if free:
                joined[min(a, b), max(a, b)] = True
                found += 1
                if found == limit:
                    break


@kernel
def nearest_few(D, nearest):
    """Fill nearest[i] with the columns of the smallest values of D[i], the lower one of equals."""
    m = nearest.shape[1]
    for i in range(D.shape[0]):
        filled, worst = 0, np.inf
        for c in range(D.shape[1]):
            v = D[i, c]
            if filled == m and v >= worst:
                continue
            at = filled if filled < m else m - 1
            filled = at + 1
            while at > 0 and v < D[i, nearest[i, at - 1]]:
                nearest[i, at] = nearest[i, at - 1]
                at -= 1
            nearest[i, at] = c
            if filled == m:
                worst = D[i, nearest[i, m - 1]]


@kernel
def link_tests(D, between, nearest, starts, rows, pairs, weights, window):
    """z of each of `pairs`. Row i has its centres nearest[i] nearest by; those of centre c are
    rows[starts[c]:starts[c + 1]]."""
    n, k = D.shape
    z, t, w = np.zeros(pairs.shape[0]), np.empty(n), np.empty(n)
    seen, ignored = np.zeros(n, np.int64), np.zeros(k, np.int64)
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        gap2 = between[a, b]
        # centres so near to a or b that their half-space would hide it do not bound the cell
        n_ignored = 0
        for c in range(k):
            ignored[c] = between[a, c] < gap2 / 4 or between[b, c] < gap2 / 4
            n_ignored += ignored[c]
        m = np.int64(0)  # a plain 0 has a type of its own: `valley` would be compiled twice
        sum_a = sum_b = w_a = w_b = 0.0
        for centre in range(k):
            if not ignored[centre]:
                continue
            for e in range(starts[centre], starts[centre + 1]):
                i = rows[e]
                if seen[i] == p + 1:
                    continue
                seen[i] = p + 1
                other = np.inf
                for s in range(nearest.shape[1]):
                    if not ignored[nearest[i, s]]:
                        other = D[i, nearest[i, s]]
                        break
                if other == np.inf and n_ignored > nearest.shape[1] - 1:
                    for c in range(k):
                        if not ignored[c] and D[i, c] < other:
                            other = D[i, c]
                if (D[i, a] + D[i, b]) / 2 - gap2 / 4 <= other:
                    t[m] = D[i, a] - D[i, b]
                    w[m] = weights[i]
                    if t[m] <= 0:
                        sum_a += w[m] * t[m]
                        w_a += w[m]
                    else:
                        sum_b += w[m] * t[m]
                        w_b += w[m]
                    m += 1
        if w_a == 0.0 or w_b == 0.0:
            continue
        z[p] = valley(t, w, m, sum_a / w_a, sum_b / w_b, window)
    return z


@inner
def valley(t, w, m, at_a, at_b, window):
    """z of the first m rows at places t: those around either side against those half-way."""
    middle = (at_a + at_b) / 2
    half = window * (at_b - at_a) / 2
    n_a = n_b = n_m = 0.0
    for i in range(m):
        if abs(t[i] - at_a) <= half:
            n_a += w[i]
        elif abs(t[i] - at_b) <= half:
            n_b += w[i]
        elif abs(t[i] - middle) <= half:
            n_m += w[i]
    return np.sqrt(2.0) * (np.sqrt((n_a if n_a < n_b else n_b) + 0.375) - np.sqrt(n_m + 0.375))
