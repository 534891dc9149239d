"""Collapsed DP-means as a plain loop (BKJ 4.1, Eq. 9), with weights and a cap."""

import numpy as np

TIE = 1e-10  # contributions that differ by less count as equal
LOST = 1e-12  # the same for distances, as a part of the size of X


def lower(a, b, X, w):
    return a < b * (1 - TIE) - w * (LOST * np.abs(X).max()) ** 2 * X.shape[1]


def contribution(X, weight, i, others):
    """What row i adds to the squared error of a cluster of the rows `others`."""
    W, w = weight[others].sum(), weight[i]
    mean = weight[others] @ X[others] / W
    return W * w / (W + w) * ((X[i] - mean) ** 2).sum()


def objective(X, labels, weight, penalty):
    """Eq. 9, counting every cluster."""
    total = 0.0
    for c in np.unique(labels):
        x, w = X[labels == c], weight[labels == c]
        total += (w * ((x - w @ x / w.sum()) ** 2).sum(axis=1)).sum() + penalty
    return total


def visit(X, weight, labels, i, penalty, cap):
    """The cluster that row i goes to."""
    out = np.arange(len(X)) != i
    own = labels[i]
    alone = not np.any(out & (labels == own))
    stay = penalty if alone else contribution(X, weight, i, out & (labels == own))
    best, to = np.inf, -1
    for c in np.unique(labels):
        if c != own:
            cost = contribution(X, weight, i, out & (labels == c))
            if to < 0 or lower(cost, best, X, weight[i]):
                best, to = cost, c
    may_open = not alone and len(np.unique(labels)) < cap
    if may_open and (to < 0 or penalty < best * (1 - TIE)):
        best, to = penalty, min(set(range(len(X))) - set(labels))
    return to if lower(best, stay, X, weight[i]) else own


def collapsed_dp_means(X, penalty, labels=None, weight=None, max_clusters=None, max_iter=300):
    """Labels, passes, and the objective at the start and after each pass."""
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    labels = np.zeros(len(X), dtype=int) if labels is None else np.array(labels)
    cap = len(X) if max_clusters is None else max_clusters
    history = [objective(X, labels, weight, penalty)]
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        before = labels.copy()
        for i in range(len(X)):
            labels[i] = visit(X, weight, labels, i, penalty, cap)
        J = objective(X, labels, weight, penalty)
        if np.array_equal(labels, before):
            break
        if not J < history[-1]:  # only rounding is left
            labels = before
            break
        history.append(J)
    return labels, n_iter, history
