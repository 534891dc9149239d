"""K-means as a plain loop (PRML 9.1), with scikit-learn's rule for clusters without rows."""

import numpy as np


def squared_distances(x, centers):
    """To each centre, one column after the other."""
    total = np.zeros(len(centers))
    for j in range(len(x)):
        total += (x[j] - centers[:, j]) ** 2
    return total


def nearest(x, centers):
    """(index, squared distance); ties go to the lowest index."""
    d2 = squared_distances(x, centers)
    c = int(np.argmin(d2))
    return c, d2[c]


def assign(X, centers):
    """PRML Eq. 9.2 for all rows."""
    found = [nearest(x, centers) for x in X]
    return np.array([c for c, _ in found]), np.array([d2 for _, d2 in found])


def relocate(labels, d2, weight, k):
    """Clusters without weight take the rows farthest from their centres, farthest first."""
    owner = labels.copy()
    empty = [c for c in range(k) if not np.any(weight[labels == c] > 0)]
    farthest = sorted(np.flatnonzero((weight > 0) & (d2 > 0)), key=lambda i: (-d2[i], i))
    for c, i in zip(empty, farthest, strict=False):
        owner[i] = c
    return owner


def objective(X, labels, centers, weight):
    """PRML Eq. 9.1."""
    return sum(w * ((x - centers[c]) ** 2).sum() for x, c, w in zip(X, labels, weight, strict=True))


def kmeans(X, centers, weight=None, max_iter=300):
    """Labels, centres, objective, passes and the objective after each pass; no tolerance."""
    X = np.asarray(X, dtype=np.float64)
    centers = np.array(centers, dtype=np.float64)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    k = len(centers)
    labels = np.full(len(X), -1)
    history = []
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        before = labels
        labels, d2 = assign(X, centers)  # the E step
        if np.array_equal(labels, before):
            break
        owner = relocate(labels, d2, weight, k)
        old = centers.copy()
        for c in range(k):  # the M step
            rows = (owner == c) & (weight > 0)
            if rows.any():
                centers[c] = weight[rows] @ X[rows] / weight[rows].sum()
        history.append(objective(X, owner, centers, weight))
        if np.array_equal(centers, old):
            break
    if not np.array_equal(labels, before):
        labels, _ = assign(X, centers)
    history.append(objective(X, labels, centers, weight))
    return labels, centers, history[-1], n_iter, history
