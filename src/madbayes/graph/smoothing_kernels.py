"""Levels of nodes between two sides: averages along the links, many times; `valleys.py` needs them.

Serial: no result depends on threads. `level` has to become the same to the last bit in both ways.
"""

import numpy as np

from madbayes._jit import inner

LANES = 4  # rows that are averaged together
BITS = 16  # of the place of a node; `plain_levels` takes less than 2**15 nodes


@inner
def levels(ptr, J, W, level, new, degree, steps):
    """Walks average `level` (negative on one side, positive on the other) `steps` times: where a
    node lies between."""
    m, total = ptr.shape[0] - 1, 0.0
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


@inner
def pack(ptr, J, W, padded, lanes, start):
    """The links of four rows side by side, four places in one number: those of links that weigh 1/2
    are `padded` higher, where half of each level is, and those of no link twice that, where 0 is.
    Rows beyond the last are the last once more.
    """
    m, at = ptr.shape[0] - 1, 0
    for g in range(padded // LANES):
        start[g], most = at, 0
        for r in range(LANES):
            i = min(LANES * g + r, m - 1)
            most = max(most, np.int64(ptr[i + 1]) - np.int64(ptr[i]))
        for e in range(most):
            places = np.uint64(0)
            for r in range(LANES):
                i = min(LANES * g + r, m - 1)
                a, place = np.int64(ptr[i]) + e, 2 * padded
                if a < ptr[i + 1]:
                    place = J[a] + (padded if W[a] < 1.0 else 0)
                places |= np.uint64(place) << np.uint64(BITS * r)
            lanes[at + e] = places
        at += most
    start[padded // LANES] = at


@inner
def plain_levels(ptr, J, W, level, new, degree, weight, lanes, start, steps):
    """`levels` where all links weigh 1 or 1/2, in less than half the time: four rows at once, whose
    sums do not wait for each other, and levels and their halves in one table in place of weights.
    """
    m, total = ptr.shape[0] - 1, 0.0
    padded = (m + 7) // 8 * 8
    pack(ptr, J, W, padded, lanes, start)
    for i in range(padded):
        x, last = 0.0, min(i, m - 1)
        for e in range(ptr[last], ptr[last + 1]):
            x += W[e]
        degree[i], weight[i] = x, 0.0  # rows beyond the last count for nothing
        level[i] = level[last]
        if i < m:
            weight[i] = x
            total += x
    for i in range(padded):
        level[padded + i] = 0.5 * level[i]
    level[2 * padded] = 0.0
    one, two, three = np.uint64(BITS), np.uint64(2 * BITS), np.uint64(3 * BITS)
    mask = np.uint64(2**BITS - 1)
    for _ in range(steps):
        mean, high, low = 0.0, -np.inf, np.inf
        for g in range(padded // LANES):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for e in range(start[g], start[g + 1]):
                places = lanes[e]
                a += level[places & mask]
                b += level[(places >> one) & mask]
                c += level[(places >> two) & mask]
                d += level[places >> three]
            i = LANES * g
            a = 0.5 * (level[i] + a / degree[i]) if degree[i] > 0.0 else level[i]
            b = 0.5 * (level[i + 1] + b / degree[i + 1]) if degree[i + 1] > 0.0 else level[i + 1]
            c = 0.5 * (level[i + 2] + c / degree[i + 2]) if degree[i + 2] > 0.0 else level[i + 2]
            d = 0.5 * (level[i + 3] + d / degree[i + 3]) if degree[i + 3] > 0.0 else level[i + 3]
            new[i], new[i + 1], new[i + 2], new[i + 3] = a, b, c, d
            mean += weight[i] * a
            mean += weight[i + 1] * b
            mean += weight[i + 2] * c
            mean += weight[i + 3] * d
            x, y = a if a > b else b, c if c > d else d
            x = x if x > y else y
            high = x if x > high else high
            x, y = a if a < b else b, c if c < d else d
            x = x if x < y else y
            low = x if x < low else low
        mean /= total
        # Rounding keeps the order: the largest distance from the mean is that of an extreme
        top = max(high - mean, mean - low)
        top = top if top > 0.0 else 1.0
        for i in range(padded):
            x = (new[i] - mean) / top
            level[i], level[padded + i] = x, 0.5 * x
