"""Kernel DP-means as plain loops: KJ Algorithm 1 with the distances of KJ 5.2, and weights."""

import numpy as np


def squared_distance(K, i, rows, weight):
    """Of row i to the weighted mean of `rows` (KJ 5.2)."""
    w = weight[rows]
    total = w.sum()
    return (K[i, i] - 2 * sum(v * K[i, j] for v, j in zip(w, rows, strict=True)) / total) + sum(
        v * u * K[j, e] for v, j in zip(w, rows, strict=True) for u, e in zip(w, rows, strict=True)
    ) / total**2


def objective(K, labels, penalty, weight=None):
    """Weighted squared error plus the penalty for each cluster."""
    w = np.ones(len(K)) if weight is None else np.asarray(weight, float)
    total = 0.0
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        total += penalty + sum(w[i] * squared_distance(K, i, rows, w) for i in rows)
    return total


def kernel_dp_means(K, penalty, weight=None, max_clusters=None, max_iter=300):
    """Labels, objective, passes and the objective after each pass, rows in this order."""
    n = len(K)
    weight = np.ones(n) if weight is None else np.asarray(weight, float)
    cap = np.inf if max_clusters is None else max_clusters
    labels = np.zeros(n, int)
    history = []
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        means = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]  # as rows of each
        new = np.empty(n, int)
        for i in range(n):
            d2 = [squared_distance(K, i, rows, weight) for rows in means]
            c = int(np.argmin(d2))
            if weight[i] * d2[c] > penalty and len(means) < cap:
                c = len(means)
                means.append(np.array([i]))
            new[i] = c
        if np.array_equal(new, labels):
            break
        labels = np.unique(new, return_inverse=True)[1]
        history.append(objective(K, labels, penalty, weight))
    return labels, objective(K, labels, penalty, weight), n_iter, history


def lowest_neighbour(K, labels, penalty, weight, cap):
    """The lowest objective after one row move, one opening or one merge, tried one by one."""
    ids, best = list(np.unique(labels)), np.inf
    for i in range(len(K)):
        for c in ids + ([max(ids) + 1] if len(ids) < cap else []):
            moved = labels.copy()
            moved[i] = c
            best = min(best, fast_objective(K, moved, penalty, weight))
    for a in ids:
        for b in ids:
            if a < b:
                merged = np.where(labels == b, a, labels)
                best = min(best, fast_objective(K, merged, penalty, weight))
    return best


def fast_objective(K, labels, penalty, weight):
    """The same as `objective`, by Σ w K_ii - Σ_c S_c / W_c + λk."""
    Z = (labels[:, None] == np.unique(labels)) * weight[:, None]
    own = np.einsum("ic,ij,jc->c", Z, K, Z, optimize=True)
    return float(weight @ np.diagonal(K) - (own / Z.sum(axis=0)).sum() + penalty * Z.shape[1])
