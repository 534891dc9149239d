"""Compare clusters of different shapes: how well do they explain rows that were held out?

Each division of the rows is turned into a density. The density is judged by the mean log density of
rows that were not used to make it, in nats per row:

- *round*: one Gaussian for each cluster, with one variance for all directions;
- *long*: one Gaussian for each cluster, with a covariance of its own;
- *any*: a kernel density of all rows, without clusters (Breiman, Meisel & Purcell 1977: the width
  of each row's kernel is proportional to the distance to its k-th neighbour).

Clusters that are really round or long are explained best by their Gaussians. Crescents, rings and
uniform clouds are explained best by the kernel density.

Which rows are held out depends on their values, not on their order, so a shuffled table gives the
same figures.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial import cKDTree
from scipy.special import logsumexp

MAX_ROWS = 1200  # rows that are used, at most: the standard error of the mean is about 0.03 nats
MAX_COLUMNS = 10  # principal components that are kept: kernel densities fail in more dimensions
MIN_ROWS = 40  # fewer rows cannot be divided and compared
# k of the kernel density and widths as a share of the distance to the k-th neighbour: the best of
# them counts.
KERNELS = tuple((k, width) for k in (5, 10, 20) for width in (0.25, 0.35, 0.5, 0.7, 1.0))


def sketch(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are used, in few columns, and their numbers in X.

    Their order depends on their values only.
    """
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    scale = np.sqrt(np.square(X).mean())
    X = X / scale if scale > 0 else X
    order = np.lexsort(X.T)
    place = order[np.random.RandomState(0).permutation(len(X))[:MAX_ROWS]]
    Z = X[place] + dequantize(X[place])
    if X.shape[1] > MAX_COLUMNS:
        axes = np.linalg.svd(Z, full_matrices=False)[2][:MAX_COLUMNS]
        Z = Z @ axes.T
    return Z, place


def dequantize(Z: np.ndarray) -> np.ndarray:
    """Uniform noise, at most half a step each way, for columns of rounded numbers; 0 for others.

    Rounded numbers have no density. With this noise they have one (Uria, Murray & Larochelle 2013).
    """
    noise = np.random.RandomState(0).uniform(-0.5, 0.5, Z.shape)
    for column, out in zip(Z.T, noise.T, strict=True):
        values = np.unique(column)
        rounded = 1 < len(values) < len(column) / 2
        out *= np.median(np.diff(values)) if rounded else 0.0
    return noise


def gaussian_density(
    rows: np.ndarray, labels: np.ndarray, others: np.ndarray, *, long: bool
) -> float:
    """The mean log density of `others` under a mixture of Gaussians, one for each cluster."""
    n, d = rows.shape
    spread = np.maximum(rows.var(axis=0), 1e-12)
    logs = []
    for c in np.unique(labels):
        own = rows[labels == c]
        share, mean = np.log(len(own) / n), own.mean(axis=0)
        apart = own - mean
        if long:
            prior = 1 + d  # rows; a covariance has more free values than a variance
            S = (apart.T @ apart + 0.1 * prior * np.diag(spread)) / (len(own) + prior)
            L = np.linalg.cholesky(S)
            gaps = solve_triangular(L, (others - mean).T, lower=True)
            volume = np.log(np.diagonal(L)).sum()
            logs.append(share - volume - 0.5 * np.square(gaps).sum(axis=0))
        else:
            prior = 0.1  # rows
            v = (np.square(apart).sum() + prior * spread.sum()) / (d * (len(own) + prior))
            gaps = np.square(others - mean).sum(axis=1)
            logs.append(share - 0.5 * d * np.log(v) - 0.5 * gaps / v)
    return float(logsumexp(logs, axis=0).mean() - 0.5 * d * np.log(2 * np.pi))


def kernel_density(
    rows: np.ndarray, others: np.ndarray, kernels: Sequence[tuple[int, float]] = KERNELS
) -> tuple[float, tuple[int, float]]:
    """The mean log density of `others` under kernels around `rows`, and the best of `kernels`.

    For the distance to a neighbour, equal rows count once. Otherwise the kernels of repeated rows
    would have the width 0, and the density would be infinite.
    """
    n, d = rows.shape
    squares = np.square(others).sum(axis=1)[:, None] + np.square(rows).sum(axis=1)
    squares = np.maximum(squares - 2 * others @ rows.T, 0.0).astype(np.float32)
    distinct = np.unique(rows, axis=0)
    last = len(distinct) - 1
    if last == 0:
        return np.inf, kernels[0]
    reach = cKDTree(distinct).query(rows, min(20, last) + 1)[0]
    found = []
    for k, width in kernels:
        h = width * reach[:, min(k, last)]
        logs = squares * (-0.5 / (h * h)).astype(np.float32)
        logs -= (d * np.log(h)).astype(np.float32)
        top = logs.max(axis=1, keepdims=True)
        logs -= top
        sums = np.exp(logs, out=logs).sum(axis=1)
        found.append(float((np.log(sums) + top[:, 0]).mean(dtype=np.float64)))
    best = int(np.argmax(found))
    return found[best] - np.log(n) - 0.5 * d * np.log(2 * np.pi), kernels[best]


def explain(X: np.ndarray, divisions: dict[str, np.ndarray]) -> dict[str, float]:
    """How well each division explains held-out rows, in nats per row, by the name of its shape.

    Each row is held out once. "any" gets the best value of all densities, because its clusters may
    have any shape. The other divisions are judged by both kinds of Gaussians.
    """
    Z, place = sketch(X)
    half = np.arange(len(Z)) % 2
    parts = [(Z[half == h], Z[half != h], place[half == h]) for h in (0, 1)]
    found: dict[str, float] = {}
    for shape, labels in divisions.items():
        options = []
        for long in (False, True):
            means = []
            for rows, others, at in parts:
                used = labels[at] >= 0
                means.append(gaussian_density(rows[used], labels[at][used], others, long=long))
            options.append(float(np.mean(means)))
        if shape == "any":
            rows, others, _ = parts[0]
            _, kernel = kernel_density(rows, others[::4])  # a quarter is enough to choose by
            options.append(
                float(np.mean([kernel_density(*part[:2], [kernel])[0] for part in parts]))
            )
        found[shape] = max(options)
    return found
