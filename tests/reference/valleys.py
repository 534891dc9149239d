"""The depth of the valley between two groups of nodes, as plain loops over dense matrices."""

import math

import numpy as np


def levels(A, side, steps):
    """Walks average the distances, the mean (by degree) taken out, the largest made 1."""
    degree = A.sum(axis=1)
    level = side.astype(float)
    for _ in range(steps):
        level = (level + A @ level / degree) / 2
        level -= degree @ level / degree.sum()
        level /= np.abs(level).max()
    return level


def profile(level, flow):
    """For each place between two nodes: the weight that crosses it."""
    order = np.argsort(level, kind="stable")
    flow = flow[np.ix_(order, order)]
    return np.array([flow[: p + 1, p + 1 :].sum() for p in range(len(flow) - 1)])


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


def steps_away(A, group):
    """How many edges lie between each node of a group and those with an edge out of it."""
    away = {i: 0 for i in group if np.delete(A[i], group).any()}
    for i in (queue := list(away)):
        for j in group:
            if A[i, j] and j not in away:
                away[j] = away[i] + 1
                queue.append(j)
    return away


def strands(level, flow, place):
    """The weight of all edges across a place over that of the heaviest part; nodes at such edges
    are of one part if an edge links them."""
    order = np.argsort(level, kind="stable")
    below = np.arange(len(flow)) <= place
    flow = flow[np.ix_(order, order)]
    across, weights = flow * (below[:, None] != below), []
    left = set(np.flatnonzero(across.any(axis=1)))
    while left:
        for i in (part := [left.pop()]):
            part += [j for j in left if flow[i, j] > 0]
            left -= set(part)
        weights.append(across[part].sum())
    return sum(weights) / max(weights)


def depth(A, flow, n_first, *, steps, height, spare, unit):
    """z of the groups 0 … n_first - 1 and the rest."""
    n = len(A)
    before, behind = (steps_away(A, list(r)) for r in (range(n_first), range(n_first, n)))
    side = {i: -away - 0.5 for i, away in before.items()}
    side |= {i: away + 0.5 for i, away in behind.items()}
    reached = sorted(side)
    A, flow = A[np.ix_(reached, reached)], flow[np.ix_(reached, reached)]
    order = levels(A, np.array([side[i] for i in reached]), steps)
    flows, edges = profile(order, flow), profile(order, A)
    found = lowest(flows, 0.5 * flow[A > 0].mean(), height)
    if found is None:
        return -9.0
    at, lower = found
    between = range(at, lower + 1) if lower > at else range(at, lower - 1, -1)
    near = next(p for p in between if flows[p] >= flows[lower])
    if not flows[lower] > 0:
        return -9.0
    many = strands(order, flow, near)
    here = min(many, strands(order, flow, at))
    links, ratio = edges[lower] / many, flows[at] / here / (flows[lower] / many)
    left = (links * min(ratio, 1) + spare) / (links + spare)
    return math.sqrt(8 * links / unit) * (1 - left**0.25)
