"""What a sample of the rows looks like before it is asked for clusters: steps 1 and 2 of `path`."""

from typing import Any

import numpy as np

from madbayes.cluster.links import squared_distances


def lonely_rows(
    X: np.ndarray, rng: np.random.Generator, group: int = 5
) -> tuple[np.ndarray, float]:
    """Rows whose `group`-th nearest row is twice as far as two rows usually are from each other.

    So far off that one such row may repay a penalty meant for whole clusters.
    """
    n = len(X)
    group = min(group, n // 20)
    if group < 1:
        return np.zeros(n, bool), np.inf
    some = rng.choice(n, min(n, 256), replace=False)
    D = squared_distances(X, X[some])
    limit = 4.0 * np.median(D[some][D[some] > 0]) if (D[some] > 0).any() else np.inf
    lonely = np.partition(D, min(1, len(some) - 1), axis=1)[:, min(1, len(some) - 1)] > limit
    for i in np.flatnonzero(lonely):
        near = squared_distances(X[i : i + 1], X)[0] <= limit
        lonely[i] = near.sum() <= group
    return lonely, limit


def spread_grid(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Columns on a regular grid (counts, rounded values): spread each value over its cell.

    Two-valued columns only when there are many: sums of them make a grid, one alone may be a group.
    """
    X = X.copy()
    fewest_steps = 1 if X.shape[1] > 10 else 2
    for j in range(X.shape[1]):
        values = np.unique(X[:2048, j])
        steps = np.diff(values)
        steps = steps[steps > 1e-7 * (values[-1] - values[0])]
        if len(steps) >= fewest_steps and np.median(steps) < 1.5 * steps.min():
            X[:, j] += steps.min() * (rng.random(len(X)) - 0.5)
    return X


def principal(
    X: np.ndarray, rng: np.random.Generator, keep_all: int = 10, at_most: int = 256
) -> np.ndarray:
    """Scores on the components with more variance than those of the data with random signs."""
    if X.shape[1] <= keep_all:
        return X
    if X.shape[1] > 1024:  # distances survive a random projection
        X = X @ rng.standard_normal((X.shape[1], 512)) / np.sqrt(512)
    some = X[: max(8192, X.shape[1])]
    flipped = some * rng.choice(np.array([-1.0, 1.0]), some.shape)
    flipped -= flipped.mean(0)
    wide = some.shape[1] > len(some)

    def gram(A: np.ndarray) -> Any:
        return A @ A.T if wide else A.T @ A

    null = np.linalg.eigvalsh(gram(flipped))[::-1]
    value, vector = np.linalg.eigh(gram(some - some.mean(0)))
    value, vector = value[::-1], vector[:, ::-1]
    r = int(np.argmin(np.r_[value > null, False]))
    ratio, tail = np.sqrt(some.shape[1] / len(some)), value[r : some.shape[1]]
    if ratio < 0.9 and len(tail) and tail[0] > 1.2 * tail[-1] * ((1 + ratio) / (1 - ratio)) ** 2:
        r = max(r, len(X) // 50)  # the rest is wider than noise can be (Marchenko & Pastur 1967)
    r = min(max(r, 2, len(X) // 256), at_most, len(value))
    axes = some.T @ vector[:, :r] / np.sqrt(value[:r]) if wide else vector[:, :r]
    return X @ axes


def clumps(X: np.ndarray, limit: float) -> np.ndarray:
    """Number the groups of isolated rows: a row joins the first earlier one within the limit."""
    label = np.arange(len(X))
    for i in range(len(X)):
        label[i] = label[np.argmax(((X[: i + 1] - X[i]) ** 2).sum(1) <= limit)]
    return np.unique(label, return_inverse=True)[1]
