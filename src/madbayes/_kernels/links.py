"""Counting rows between neighbouring centres; the test itself is explained in `cluster.links`.

Few rows are tested hundreds of times, so all of it is one kernel: a step in numpy would take longer
than the counting.
"""

import numpy as np

from madbayes._kernels import inner, kernel

FEW = 3  # centres that are known of each row: two that a pair may be, and one beside them


@kernel
def link_tests(D, between, order, weights, limit, window, reach):
    """reach[1:] = z of the k - 1 weakest links that hold the centres together, in any order.

    Row i is D[i, c] from centre c (squared), the centres are `between` from each other; `order[a]`
    are the centres from the nearest to a to the farthest, `limit` of them its neighbours at most.
    """
    n, k = D.shape
    length, parent = np.empty((k, k)), np.empty(k, np.int64)
    spanning_tree(between, parent, reach)  # such pairs too: they connect all
    for a in range(k):
        for b in range(k):
            length[a, b] = 0.0 if parent[a] == b or parent[b] == a else np.inf
    gabriel_pairs(between, order, limit, length)
    nearest, starts = np.empty((n, k if k < FEW else FEW), np.int64), np.empty(k + 2, np.int64)
    rows, t, w = np.empty(nearest.size, np.int64), np.empty(n), np.empty(n)
    nearest_few(D, nearest)
    group_rows(nearest, starts, rows)
    seen, ignored = np.empty(n, np.int64), np.empty(k, np.int64)
    for i in range(n):
        seen[i] = -1
    for a in range(k):
        for b in range(a + 1, k):
            if length[a, b] == 0.0 or length[b, a] == 0.0:
                z = link_test(
                    D, between, nearest, starts, rows, a, b, weights, window, t, w, seen, ignored
                )
                length[a, b] = length[b, a] = z
    spanning_tree(length, parent, reach)
    for c in range(k):
        reach[c] = reach[c] if reach[c] < np.inf else -np.inf


@inner
def spanning_tree(length, parent, reach):
    """Prim's minimum spanning tree: the point that each is joined to, and how far away.

    Point 0 is the root; inf: nothing connects. Points inside have a parent >= 0.
    """
    k = length.shape[0]
    for c in range(k):
        parent[c], reach[c] = -1, length[0, c]  # -1 - p: outside, next to p
    parent[0] = 0
    for _ in range(k - 1):
        b = -1
        for c in range(k):
            if parent[c] < 0 and (b < 0 or reach[c] < reach[b]):
                b = c
        parent[b] = -1 - parent[b]
        for c in range(k):
            if parent[c] < 0 and length[b, c] < reach[c]:
                parent[c], reach[c] = -1 - b, length[b, c]


@inner
def gabriel_pairs(between, order, limit, length):
    """length[a, b] = 0 where no centre is nearer to the midpoint than a and b: `limit` for each a.

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
                length[a, b] = 0.0
                found += 1
                if found == limit:
                    break


@inner
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


@inner
def group_rows(nearest, starts, rows):
    """The rows that have centre c among their nearest go to rows[starts[c]:starts[c + 1]]."""
    for c in range(starts.shape[0]):
        starts[c] = 0
    for i in range(nearest.shape[0]):
        for s in range(nearest.shape[1]):
            starts[nearest[i, s] + 2] += 1
    for c in range(2, starts.shape[0]):
        starts[c] += starts[c - 1]
    for i in range(nearest.shape[0]):
        for s in range(nearest.shape[1]):
            at = nearest[i, s] + 1
            rows[starts[at]] = i
            starts[at] += 1  # in the end where the next centre begins


@inner
def link_test(D, between, nearest, starts, rows, a, b, weights, window, t, w, seen, ignored):
    """z of the pair a, b; the rows of centre c are rows[starts[c]:starts[c + 1]]."""
    k, gap2, pair = between.shape[0], between[a, b], a * between.shape[0] + b
    # centres so near to a or b that their half-space would hide it do not bound the cell
    n_ignored = 0
    for c in range(k):
        ignored[c] = between[a, c] < gap2 / 4 or between[b, c] < gap2 / 4
        n_ignored += ignored[c]
    m = 0
    sum_a = sum_b = w_a = w_b = 0.0
    for centre in range(k):
        if not ignored[centre]:
            continue
        for e in range(starts[centre], starts[centre + 1]):
            i = rows[e]
            if seen[i] == pair:
                continue
            seen[i] = pair
            other = np.inf
            for s in range(nearest.shape[1]):
                if not ignored[nearest[i, s]]:
                    other = D[i, nearest[i, s]]
                    break
            if other == np.inf and n_ignored >= nearest.shape[1]:
                for c in range(k):
                    if not ignored[c] and D[i, c] < other:
                        other = D[i, c]
            if (D[i, a] + D[i, b]) / 2 - gap2 / 4 <= other:
                t[m], w[m] = D[i, a] - D[i, b], weights[i]
                if t[m] <= 0:
                    sum_a += w[m] * t[m]
                    w_a += w[m]
                else:
                    sum_b += w[m] * t[m]
                    w_b += w[m]
                m += 1
    if w_a == 0.0 or w_b == 0.0:
        return 0.0
    at_a, at_b = sum_a / w_a, sum_b / w_b
    middle, half = (at_a + at_b) / 2, window * (at_b - at_a) / 2
    n_a = n_b = n_m = 0.0
    for i in range(m):
        if abs(t[i] - at_a) <= half:
            n_a += w[i]
        elif abs(t[i] - at_b) <= half:
            n_b += w[i]
        elif abs(t[i] - middle) <= half:
            n_m += w[i]
    return np.sqrt(2.0) * (np.sqrt((n_a if n_a < n_b else n_b) + 0.375) - np.sqrt(n_m + 0.375))
