"""Nearest centres for the rows of a CSR matrix.

A row's scores cost nnz·k: each of its entries adds a multiple of one line of the transposed
centres. Bounds and certificate are those of `products`, in float64, with a single group and without
a shift of the origin (it would fill the zeros).
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._jit.constants import DOWN, UP
from madbayes._partition.bounds import loosen, reach_of
from madbayes._partition.nearest_products import EPS64, error_bound
from madbayes._rows.distance import add, sqdist


@inner
def sparse_sqdist(data, indices, lo, hi, exact, c, center_norm2):
    """‖x - c‖² from the entries of x, which are in order, and how far off it can be."""
    d = exact.shape[1]
    total = 0.0
    inside = 0.0
    for e in range(lo, hi):
        v = exact[c, indices[e]]
        total += (data[e] - v) ** 2
        inside += v * v
    rest = center_norm2 - inside
    if rest > 1e-6 * center_norm2:
        return total + rest, EPS64 * (d + 8.0) * (total + 2.0 * center_norm2)
    rest = 0.0  # nearly all of it cancels: add up the columns that x does not have
    e = lo
    for j in range(d):
        if e < hi and indices[e] == j:
            e += 1
        else:
            rest += exact[c, j] * exact[c, j]
    return total + rest, EPS64 * (d + 8.0) * (total + rest)


@kernel
def sparse_distances_to(data, indices, indptr, first, points, out):
    """out[c, i] = squared distance of row first + i to row c of `points`."""
    for c in range(points.shape[0]):
        norm2 = 0.0
        for j in range(points.shape[1]):
            norm2 += points[c, j] * points[c, j]
        for i in range(out.shape[1]):
            lo, hi = indptr[first + i], indptr[first + i + 1]
            out[c, i] = sparse_sqdist(data, indices, lo, hi, points, c, norm2)[0]


@inner
def dense_row(data, indices, lo, hi, out):
    out[0, :] = 0.0
    for e in range(lo, hi):
        out[0, indices[e]] += data[e]


@kernel
def assign_sparse(data, indices, indptr, first, centers, transposed, rows, tally, penalty):
    """Assign rows first, first + 1, … of a CSR matrix, as many as `rows` has.

    `transposed` is (d, k): the centres, in the units of the data.
    """
    labels, uppers, lower, weight, far = rows.labels, rows.upper, rows.lower, rows.weight, rows.far
    exact, scale = centers.exact, centers.scale
    half = centers.shifted_half / (scale * scale)
    longest = centers.longest / scale
    sums, low_sums, count, stats = tally.sums, tally.low, tally.count, tally.stats
    d, k = transposed.shape
    scores = np.empty(k)
    dense = np.empty((1, d))
    for r in range(labels.shape[0]):
        i = first + r
        lo, hi = indptr[i], indptr[i + 1]
        w = weight[r] if weight.shape[0] > 0 else 1.0
        limit = np.inf
        if far.shape[0] > 0:
            far[r] = 0
            limit = reach_of(weight, r, penalty, scale)
        # 1. bounds
        p = labels[r]
        own, slack = 0.0, 0.0
        if p >= 0:
            upper, low = loosen(rows, r, p, centers)
            if not (upper < low and upper < limit):
                own, slack = sparse_sqdist(data, indices, lo, hi, exact, p, 2.0 * half[p])
                upper = np.sqrt(own + slack) * scale * UP
            uppers[r] = upper
            if upper < low and upper < limit:
                continue
        # 2. scores
        for c in range(k):
            scores[c] = half[c]
        norm2 = 0.0
        for e in range(lo, hi):
            x = np.float64(data[e])
            norm2 += x * x
            line = transposed[indices[e]]
            for c in range(k):
                scores[c] -= x * line[c]
        error = error_bound(hi - lo, np.sqrt(norm2), longest, EPS64)
        best = np.inf
        second = np.inf
        q = 0
        for c in range(k):
            if scores[c] < best:
                second = best
                best = scores[c]
                q = c
            elif scores[c] < second:
                second = scores[c]
        # 3. certain, or told apart by the distance that decides
        if second - best <= 2.0 * error:
            stats[3] += 1
            dense_row(data, indices, lo, hi, dense)
            nearest2 = np.inf
            for c in range(k):
                if scores[c] <= best + 2.0 * error:
                    d2 = sqdist(dense, 0, exact, c)
                    if d2 < nearest2:
                        nearest2 = d2
                        q = c
            second = best
        lower[r, 0] = np.sqrt(max(0.0, norm2 + 2.0 * (second - error))) * scale * DOWN
        d2 = own
        if q != p:
            d2, slack = sparse_sqdist(data, indices, lo, hi, exact, q, 2.0 * half[q])
            uppers[r] = np.sqrt(d2 + slack) * scale * UP
            labels[r] = q
            stats[0] += w * (d2 - own)
            stats[1] += 1
            if w > 0.0:
                for e in range(lo, hi):
                    add(sums, low_sums, q, indices[e], w * data[e])
                    if p >= 0:
                        add(sums, low_sums, p, indices[e], -(w * data[e]))
                add(sums, low_sums, q, d, w)
                count[q] += 1
                if p >= 0:
                    add(sums, low_sums, p, d, -w)
                    count[p] -= 1
        if far.shape[0] > 0:
            if abs(w * d2 - penalty) <= 2.0 * w * slack + 1e-12 * penalty:  # too close to call
                dense_row(data, indices, lo, hi, dense)
                d2 = sqdist(dense, 0, exact, q)
            if w * d2 > penalty:
                far[r] = 1
                stats[2] += 1
