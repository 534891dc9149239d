"""Medoids by plain loops. D[i, j] is what row i pays to medoid j."""

import itertools

import numpy as np


def nearest(D, i, medoids):
    """(position, cost); ties go to the lowest position."""
    costs = [D[i, m] for m in medoids]
    s = int(np.argmin(costs))
    return s, costs[s]


def objective(D, medoids, weight, penalty=0.0):
    """PRML Eq. 9.6, and a penalty for each medoid."""
    error = sum(w * nearest(D, i, medoids)[1] for i, w in enumerate(weight))
    return error + penalty * len(medoids)


def best_row(D, rows, weight):
    """The row of `rows` to which they are nearest together; ties go to the lowest."""
    totals = [sum(weight[i] * D[i, j] for i in rows) for j in rows]
    return rows[int(np.argmin(totals))]


def kmedoids(D, medoids, weight, max_iter=300):
    """The alternation of PRML 9.1 for Eq. 9.6: labels, medoids, passes, objective after E steps."""
    medoids, labels, history = list(medoids), None, []
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        found = [nearest(D, i, medoids) for i in range(len(D))]
        history.append(sum(w * cost for w, (_, cost) in zip(weight, found, strict=True)))
        new = [s for s, _ in found]
        if new == labels:
            break
        labels = new
        for s in range(len(medoids)):
            rows = [i for i, c in enumerate(labels) if c == s]
            if rows:
                medoids[s] = best_row(D, rows, weight)
    return labels, medoids, n_iter, history


def lowest_objective(D, sizes, weight, penalty=0.0):
    """The minimum over all sets of medoids of these sizes."""
    sets = (s for k in sizes for s in itertools.combinations(range(len(D)), k))
    return min(objective(D, list(s), weight, penalty) for s in sets)


def lowest_neighbour(D, medoids, weight, penalty, cap, fixed):
    """The lowest objective after one swap (not `fixed`: or opening, or closing), all tried."""
    medoids = list(medoids)
    others = [c for c in range(len(D)) if c not in medoids]
    sets = [[*medoids[:s], c, *medoids[s + 1 :]] for s in range(len(medoids)) for c in others]
    if not fixed and len(medoids) < cap:
        sets += [[*medoids, c] for c in others]
    if not fixed and len(medoids) > 1:
        sets += [medoids[:s] + medoids[s + 1 :] for s in range(len(medoids))]
    return min((objective(D, s, weight, penalty) for s in sets), default=np.inf)
