"""Counting rows between neighbouring centres; the test itself is explained in `penalties.links`."""

import numpy as np
from numba import njit

from madbayes._kernels import inner


@njit(nogil=True, cache=True)
def three_nearest(D):
    """Indices of the three smallest entries of each row, -1 where there are fewer columns."""
    n, k = D.shape
    out = np.full((n, 3), -1)
    for i in range(n):
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


@njit(nogil=True, cache=True)
def gabriel_pairs(between, limit):
    """Pairs whose midpoint has no centre nearer than the two: the `limit` nearest such of each.

    The Euclidean spanning tree (Prim; all its edges are such pairs) keeps the graph connected.
    """
    k = between.shape[0]
    joined = np.zeros((k, k), np.bool_)
    link = np.zeros(k, np.int64)
    reach = between[0].copy()
    reach[0] = -1.0
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
        order = np.argsort(between[a])
        found = 0
        for b in order:
            if b == a:
                continue
            free = True
            for c in order:
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
    return np.argwhere(joined).copy()


@inner
def rows_by_centre(nearest, k):
    """For each centre the rows that have it among their three nearest (CSR: starts, rows)."""
    starts = np.zeros(k + 1, np.int64)
    for c in nearest.ravel():
        if c >= 0:
            starts[c + 1] += 1
    starts = np.cumsum(starts)
    fill = starts.copy()
    rows = np.empty(starts[k], np.int64)
    for i in range(len(nearest)):
        for c in nearest[i]:
            if c >= 0:
                rows[fill[c]] = i
                fill[c] += 1
    return starts, rows


@njit(nogil=True, cache=True)
def link_tests(D, between, nearest, pairs, weights, window):
    n, k = D.shape
    starts, rows = rows_by_centre(nearest, k)
    z = np.zeros(len(pairs))
    t = np.empty(n)
    w = np.empty(n)
    seen = np.full(n, -1)
    ignored = np.zeros(k, np.bool_)
    for p in range(len(pairs)):
        a, b = pairs[p]
        gap2 = between[a, b]
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
            for i in rows[starts[centre] : starts[centre + 1]]:
                if seen[i] == p:
                    continue
                seen[i] = p
                other = np.inf
                if n_ignored > 2:  # more than a and b themselves
                    for c in range(k):
                        if not ignored[c] and D[i, c] < other:
                            other = D[i, c]
                else:
                    for c in nearest[i]:
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
        at_a = sum_a / w_a
        at_b = sum_b / w_b
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
        z[p] = np.sqrt(2.0) * (np.sqrt(min(n_a, n_b) + 0.375) - np.sqrt(n_m + 0.375))
    return z
