"""The farthest-first heuristic as a plain loop (KJ 6.1)."""

import numpy as np


def farthest_first(X, n_clusters):
    """The squared distance found in the last of `n_clusters` rounds."""
    X = np.asarray(X, dtype=np.float64)
    T = [X.mean(axis=0)]
    for _ in range(n_clusters):
        distance = [min(((x - t) ** 2).sum() for t in T) for x in X]
        farthest = int(np.argmax(distance))
        T.append(X[farthest])
    return distance[farthest]
