"""DP-means as a plain loop: KJ Algorithm 1, with weights and a cap on the number of clusters."""

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


def mean(X, weight):
    return weight @ X / weight.sum()


def objective(X, labels, centers, weight, penalty):
    """KJ Eq. 1, with weights."""
    error = sum(
        w * ((x - centers[c]) ** 2).sum() for x, c, w in zip(X, labels, weight, strict=True)
    )
    return error + penalty * len(centers)


def dp_means(X, penalty, weight=None, max_clusters=None, max_iter=300, mean=mean):
    """Labels, centres, objective, passes and the objective after each pass, rows in this order."""
    X = np.asarray(X, dtype=np.float64)
    n = len(X)
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    cap = np.inf if max_clusters is None else max_clusters
    centers = mean(X, weight)[None, :]  # 1. one cluster, the global mean
    labels = np.zeros(n, dtype=int)  # 2. everybody in it
    history = []
    n_iter = 0
    while n_iter < max_iter:  # 3. until nothing changes
        n_iter += 1
        before = labels.copy()
        for i in range(n):
            c, d2 = nearest(X[i], centers)
            if weight[i] * d2 > penalty and len(centers) < cap:
                c = len(centers)
                centers = np.vstack([centers, X[i]])
            labels[i] = c
        if np.array_equal(labels, before):
            break
        kept = [c for c in range(len(centers)) if np.any(weight[labels == c] > 0)]
        centers = np.array([mean(X[labels == c], weight[labels == c]) for c in kept])
        # Rows of weight 0 may be left without a cluster: they find one in the next pass.
        place = {c: at for at, c in enumerate(kept)}
        labels = np.array([place.get(c, -1) for c in labels])
        counted = labels >= 0
        history.append(objective(X[counted], labels[counted], centers, weight[counted], penalty))
    else:
        labels = np.array([nearest(x, centers)[0] for x in X])
    history.append(objective(X, labels, centers, weight, penalty))
    return labels, centers, history[-1], n_iter, history
