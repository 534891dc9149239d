"""Bregman divergences of tables by plain loops, and the lowest objective over all partitions.

Rows are lists of cells; None is a gap. `kinds` names the family of each column.
"""

import math


def xlogy(x, y):
    """x·log(y), with 0·log(0) = 0."""
    if x == 0:
        return 0.0
    return x * math.log(y) if y > 0 else -math.inf


def divergence(kind, x, m):
    """D_φ(x, m) of one cell (Banerjee et al. 2005, Table 1)."""
    if kind == "squared":
        return (x - m) ** 2
    if kind == "poisson":
        return xlogy(x, x) - xlogy(x, m) - x + m
    if kind == "bernoulli":
        own = xlogy(x, x) + xlogy(1 - x, 1 - x)
        return own - xlogy(x, m) - xlogy(1 - x, 1 - m)
    if kind == "gamma":
        return x / m - math.log(x / m) - 1
    if kind == "categorical":  # m: shares of the levels
        return -xlogy(1.0, m.get(x, 0.0))
    raise ValueError(kind)


def mean(kind, cells, weights):
    """The centre of the cells that are there; None where none is."""
    known = [(x, w) for x, w in zip(cells, weights, strict=True) if x is not None]
    total = sum(w for _, w in known)
    if total == 0:
        return None
    if kind == "categorical":
        return {v: sum(w for x, w in known if x == v) / total for v in {x for x, _ in known}}
    return sum(w * x for x, w in known) / total


def row_cost(row, center, kinds):
    """The sum over the cells that are there; a cluster without a value of a column is no help."""
    cells = [(k, x, m) for k, x, m in zip(kinds, row, center, strict=True) if x is not None]
    return sum(divergence(k, x, m) if m is not None else math.inf for k, x, m in cells)


def multinomial_cost(rows, weights):
    """Σ w Σ_j x_j log((x_j/t)/p_j), with p the pooled shares."""
    total = sum(w * sum(row) for row, w in zip(rows, weights, strict=True))
    shares = [
        sum(w * row[j] for row, w in zip(rows, weights, strict=True)) / (total or 1)
        for j in range(len(rows[0]))
    ]
    cost = 0.0
    for row, w in zip(rows, weights, strict=True):
        t = sum(row)
        cost += w * sum(
            xlogy(x, x / t) - xlogy(x, p) for x, p in zip(row, shares, strict=True) if x
        )
    return cost


def cluster_cost(rows, weights, kinds):
    """Of one cluster around its means."""
    if kinds == "multinomial":
        return multinomial_cost(rows, weights)
    center = [mean(k, c, weights) for k, c in zip(kinds, zip(*rows, strict=True), strict=True)]
    return sum(w * row_cost(row, center, kinds) for row, w in zip(rows, weights, strict=True))


def lowest(rows, kinds, penalty, weights=None, outlier=math.inf, cap=None):
    """The least Σ w D + penalty·k + outlier·Σ w(left out), by recursion over subsets."""
    n, cap = len(rows), cap or len(rows)
    weights = weights or [1.0] * n
    inside = [[j for j in range(n) if s >> j & 1] for s in range(1 << n)]
    cost = [0.0] + [
        cluster_cost([rows[j] for j in i], [weights[j] for j in i], kinds) + penalty
        for i in inside[1:]
    ]
    best = [[0.0] + [math.inf] * ((1 << n) - 1) for _ in range(cap + 1)]
    for k in range(cap + 1):
        for s in range(1, 1 << n):
            low = s & -s
            rest = t = s ^ low
            best[k][s] = outlier * weights[low.bit_length() - 1] + best[k][rest]
            while k:
                best[k][s] = min(best[k][s], cost[t | low] + best[k - 1][rest ^ t])
                if t == 0:
                    break
                t = (t - 1) & rest
    return best[cap][-1]
