"""The depth of the valley between two groups of nodes, as plain loops over dense matrices."""

import math
from statistics import NormalDist

import numpy as np


def levels(A, side, steps):
    """Walks average the sides, the mean (by degree) taken out, the largest made 1."""
    degree = A.sum(axis=1)
    level = side.astype(float)
    for _ in range(steps):
        level = (level + A @ level / degree) / 2
        level -= degree @ level / degree.sum()
        level /= np.abs(level).max()
    return level


def profile(level, A, flow):
    """For each place between two nodes: the weight that crosses it, and the rows it comes from."""
    order = np.argsort(level, kind="stable")
    A, flow = A[np.ix_(order, order)], flow[np.ix_(order, order)]
    n = len(A)
    crossing = np.array([flow[: p + 1, p + 1 :].sum() for p in range(n - 1)])
    rows = np.zeros(n - 1)
    for i in range(n):
        reached = [*np.flatnonzero(A[i]), i]
        for p in range(n - 1):
            rows[p] += min(reached) <= p < max(reached)
    return crossing, rows


def lowest(crossing, half, height):
    """The place of the deepest valley and of the lower side's height, or None."""
    m = len(crossing)
    ratio = [
        math.log((min(crossing[: p + 1].max(), crossing[p:].max()) + half) / (crossing[p] + half))
        for p in range(m)
    ]
    at = max(range(m), key=lambda p: (ratio[p], p))  # the last of equals
    if at < 1 or at > m - 2:
        return None
    sides = []
    for places in (range(at + 1), range(at, m)):
        by_height = sorted(places, key=lambda p: crossing[p])
        sides.append(by_height[int(height * (len(by_height) - 1))])
    return at, min(sides, key=lambda p: crossing[p])


def depth(A, flow, n_first, *, steps, height, level, unit):
    """Of the groups 0 … n_first - 1 and the rest."""
    side = np.where(np.arange(len(A)) < n_first, -1.0, 1.0)
    order = levels(A, side, steps)
    flows, rows = profile(order, A, flow)
    edges, _ = profile(order, A, A)
    half = 0.5 * flow[A > 0].mean()
    found = lowest(flows, half, height)
    if found is None:
        return -math.inf
    at, lower = found
    count = edges[lower] / unit
    root = math.sqrt(count + 3 / 8) - math.sqrt(count * flows[at] / flows[lower] + 3 / 8)
    places = max(len(A) / max(rows[lower], 1), 1)
    beyond = math.sqrt(2) * root - NormalDist().inv_cdf(1 - level / places)
    return beyond if beyond > 0 else -(flows[at] + half) / (flows[lower] + half)
