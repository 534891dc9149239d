"""Counting rows between neighbouring centres; the test itself is explained in `cluster.links`."""

import numpy as np

from madbayes._kernels import inner, kernel


@kernel
def weakest_links(D, between, order, weights, limit, window):
    """The k - 1 weakest links that hold the centres together: z of each, ascending.

    D: squared distances of rows and centres, `between`: of the centres, `order[a]`: the centres
    from the nearest to a to the farthest; `limit` neighbours are tested for each centre.
    """
    k = between.shape[0]
    joined = np.zeros((k, k), np.bool_)
    gabriel_pairs(between, order, limit, joined)
    count = 0
    for a in range(k):
        for b in range(k):
            count += joined[a, b]
    pairs = np.empty((count, 2), np.int64)
    count = 0
    for a in range(k):
        for b in range(k):
            if joined[a, b]:
                pairs[count, 0], pairs[count, 1] = a, b
                count += 1
    return spanning_tree(k, pairs, link_tests(D, between, three_nearest(D), pairs, weights, window))


@inner
def spanning_tree(k, pairs, z):
    """The lengths of the minimum spanning tree, ascending (Prim); -inf where nothing connects."""
    length = np.full((k, k), np.inf)
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        length[a, b] = length[b, a] = z[p]
    reach, inside, tree = length[0].copy(), np.zeros(k, np.bool_), np.empty(k - 1)
    inside[0] = True
    for t in range(k - 1):
        best = -1
        for c in range(k):
            if not inside[c] and (best < 0 or reach[c] < reach[best]):
                best = c
        inside[best] = True
        tree[t] = reach[best] if reach[best] < np.inf else -np.inf
        s = t  # by insertion, which compiles quickly
        while s > 0 and tree[s - 1] > tree[s]:
            tree[s - 1], tree[s] = tree[s], tree[s - 1]
            s -= 1
        for c in range(k):
            reach[c] = min(reach[c], length[best, c])
    return tree


@inner
def three_nearest(D):
    """Indices of the three smallest entries of each row, -1 where there are fewer columns."""
    n, k = D.shape
    out = np.empty((n, 3), np.int64)
    for i in range(n):
        out[i, 0] = out[i, 1] = out[i, 2] = -1
        d0 = d1 = d2 = np.inf
        for c in range(k):
            v = D[i, c]
            if v < d2:
                if v < d1:
                    d2 = d1
                    out[i, 2] = out[i, 1]
                    if v < d0:
                        d1 = d0
                        out[i, 1] = out[i, 0]
                        d0 = v
                        out[i, 0] = c
                    else:
                        d1 = v
                        out[i, 1] = c
                else:
                    d2 = v
                    out[i, 2] = c
    return out


@inner
def gabriel_pairs(between, order, limit, joined):
    """Mark pairs whose midpoint has no centre nearer than the two: the `limit` nearest of each.

    `order[a]` are the centres from the nearest to a to the farthest. The Euclidean spanning tree
    (Prim; all its edges are such pairs) keeps the graph connected.
    """
    k = between.shape[0]
    link = np.zeros(k, np.int64)
    reach = np.empty(k)
    for c in range(k):
        reach[c] = between[0, c] if c else -1.0
    for _ in range(k - 1):
        b = -1
        for c in range(k):
            if reach[c] >= 0 and (b < 0 or reach[c] < reach[b]):
                b = c
        joined[min(b, link[b]), max(b, link[b])] = True
        reach[b] = -1.0
        for c in range(k):
            if between[b, c] < reach[c]:
                reach[c] = between[b, c]
                link[c] = b
    for a in range(k):
        found = 0
        for r in range(k):
            b = order[a, r]
            if b == a:
                continue
            free = True
            for s in range(k):
                c = order[a, s]
                if between[a, c] >= between[a, b]:
                    break
                if c != a and between[a, c] + between[b, c] < between[a, b]:
                    free = False
                    break
            if free:
                joined[min(a, b), max(a, b)] = True
                found += 1
                if found == limit:
                    break


@inner
def rows_by_centre(nearest, k):
    """For each centre the rows that have it among their three nearest (CSR: starts, rows)."""
    n, m = nearest.shape
    starts = np.zeros(k + 1, np.int64)
    for i in range(n):
        for s in range(m):
            if nearest[i, s] >= 0:
                starts[nearest[i, s] + 1] += 1
    for c in range(k):
        starts[c + 1] += starts[c]
    filled = np.zeros(k, np.int64)
    rows = np.empty(starts[k], np.int64)
    for i in range(n):
        for s in range(m):
            c = nearest[i, s]
            if c >= 0:
                rows[starts[c] + filled[c]] = i
                filled[c] += 1
    return starts, rows


@inner
def link_tests(D, between, nearest, pairs, weights, window):
    n, k = D.shape
    starts, rows = rows_by_centre(nearest, k)
    z = np.zeros(pairs.shape[0])
    t = np.empty(n)
    w = np.empty(n)
    seen = np.zeros(n, np.int64)
    ignored = np.zeros(k, np.int64)
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        gap2 = between[a, b]
        # centres so near to a or b that their half-space would hide it do not bound the cell
        n_ignored = 0
        for c in range(k):
            ignored[c] = int(between[a, c] < gap2 / 4 or between[b, c] < gap2 / 4)
            n_ignored += ignored[c]
        m = 0
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
                if n_ignored > 2:  # more than a and b themselves
                    for c in range(k):
                        if not ignored[c] and D[i, c] < other:
                            other = D[i, c]
                else:
                    for s in range(nearest.shape[1]):
                        c = nearest[i, s]
                        if c >= 0 and c != a and c != b:
                            other = D[i, c]
                            break
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
        z[p] = valley(t[:m], w, sum_a / w_a, sum_b / w_b, window)
    return z


@inner
def valley(t, w, at_a, at_b, window):
    """z of the rows at places t: those around either side against those half-way."""
    middle = (at_a + at_b) / 2
    half = window * (at_b - at_a) / 2
    n_a = n_b = n_m = 0.0
    for i in range(t.shape[0]):
        if abs(t[i] - at_a) <= half:
            n_a += w[i]
        elif abs(t[i] - at_b) <= half:
            n_b += w[i]
        elif abs(t[i] - middle) <= half:
            n_m += w[i]
    return np.sqrt(2.0) * (np.sqrt(min(n_a, n_b) + 0.375) - np.sqrt(n_m + 0.375))
