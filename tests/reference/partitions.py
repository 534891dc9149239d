"""The DP-means objective, its minimum over all partitions, and all single moves: by trying."""

import itertools

import numpy as np


def mean(X, weight):
    return np.average(X, axis=0, weights=weight)


def direction(X, weight):
    """The centre of unit rows under the cosine metric."""
    total = weight @ X
    return total / (np.linalg.norm(total) or 1.0)


def objective(X, labels, penalty, weight=None, middle=mean):
    """KJ Eq. 1: weighted squared error plus the penalty for each cluster with a row that counts."""
    w = np.ones(len(X)) if weight is None else np.asarray(weight, float)
    used = np.unique(np.asarray(labels)[w > 0])
    total = penalty * len(used)
    for c in used:
        i = labels == c
        total += (w[i] * ((X[i] - middle(X[i], w[i])) ** 2).sum(axis=1)).sum()
    return float(total)


def all_partitions(n):
    """Labels of every partition of n rows; each label is at most one more than those before."""

    def grow(prefix, k):
        if len(prefix) == n:
            yield np.array(prefix)
            return
        for c in range(k + 1):
            yield from grow([*prefix, c], max(k, c + 1))

    return grow([], 0)


def lowest_objective(X, penalty, weight, cap, middle=mean):
    """The minimum over all partitions into at most `cap` clusters, by recursion over subsets."""
    n = len(X)
    cost = np.zeros(1 << n)
    for s in range(1, 1 << n):
        i = [j for j in range(n) if s >> j & 1]
        center = middle(X[i], weight[i])
        cost[s] = (weight[i] * ((X[i] - center) ** 2).sum(axis=1)).sum() + penalty
    best = np.full((cap + 1, 1 << n), np.inf)
    best[:, 0] = 0.0
    for k in range(1, cap + 1):
        for s in range(1, 1 << n):
            low = s & -s
            rest = s ^ low
            t = rest
            while True:  # the rows t join the first row
                best[k, s] = min(best[k, s], cost[t | low] + best[k - 1, rest ^ t])
                if t == 0:
                    break
                t = (t - 1) & rest
    return best[cap, -1]


def lowest_neighbour(X, labels, penalty, weight, cap, middle=mean):
    """The lowest objective after one row move, one opening or one merge, tried one by one."""
    ids, best = list(np.unique(labels)), np.inf
    for i in range(len(X)):
        for c in ids + ([max(ids) + 1] if len(ids) < cap else []):
            moved = labels.copy()
            moved[i] = c
            best = min(best, objective(X, moved, penalty, weight, middle))
    for a, b in itertools.combinations(ids, 2):
        best = min(best, objective(X, np.where(labels == b, a, labels), penalty, weight, middle))
    return best
