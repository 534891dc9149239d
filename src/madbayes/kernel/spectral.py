"""Spectral DP-means: the relaxation of the DP-means objective, rounded and polished (KJ 5.1).

Objective: J = Σ_n w_n ‖φ(x_n) - μ_{z_n}‖² + λk = tr A - tr(Yᵀ(A - λI)Y) with A = W^½ K W^½ and
Y = W^½ Z (ZᵀWZ)^-½ (KJ Lemma 5.1, with weights). Relaxed to any Y with YᵀY = I, the best Y are all
eigenvectors of A whose eigenvalues exceed λ (KJ Theorem 5.2).

1. Centre the kernel at the (weighted) mean of the rows, so that W^½1 is an eigenvector of value 0.
2. Find the r eigenvalues above λ, and their vectors Y. They leave room for k = r + 1 clusters.
3. Cluster the rows of W^-½ Y by k-means with that k.
4. Polish with exact moves at the original λ, which also revise k (`SpectralDPMeans._solve`).

The lower bound: every Y of a partition contains W^½1, hence J ≥ tr A + λ - Σ_{r} (eigenvalue - λ).

Departs from the paper: the kernel is centred first. Without that the largest eigenvalue is about
where the origin is, it counts as a cluster or not depending on a shift of the data that changes
nothing else, and the bound is weaker. Step 4 is not in the paper: a relaxed solution is no
partition.
"""

import numpy as np

from madbayes._partition.lloyd import lloyd, nearest
from madbayes._partition.seeding import kmeans_plus_plus
from madbayes._rows.rows import Rows
from madbayes.kernel.gram import Gram
from madbayes.kernel.spectrum import DENSE, Spectrum, dense_spectrum, lanczos_spectrum


def relaxed_bound(trace: float, eigenvalues: np.ndarray, penalty: float) -> float:
    """What no partition can be below (KJ Theorem 5.2); `eigenvalues`: those above the penalty."""
    return float(trace + penalty - (eigenvalues - penalty).sum())


def centred_spectrum(
    gram: Gram,
    w: np.ndarray,
    penalty: float,
    random_state: np.random.RandomState,
    most: int | None = None,
) -> tuple[Spectrum, float]:
    """1. and 2. for a kernel matrix (`most`: about so many); second: its trace when centred."""
    root, total = np.sqrt(w), float(w.sum())
    one_cluster = np.zeros(gram.n, np.int64)
    mean = np.concatenate([M[:, 0] for _, _, M in gram.sums(w, one_cluster, 1)]) / total
    middle = float(w @ mean) / total
    trace = float(w @ (gram.diagonal - 2 * mean + middle))
    if gram.n <= DENSE:
        A = gram.rows(np.arange(gram.n)) - mean - mean[:, None] + middle
        return dense_spectrum(A * root * root[:, None], penalty), trace
    unit = root / np.sqrt(total)
    A = gram.sparse if gram.sparse is not None else gram.rows(slice(0, gram.n))

    def multiply(x: np.ndarray) -> np.ndarray:
        y = root * (A @ (root * (x - unit * (unit @ x))))
        return y - unit * (unit @ y)

    return lanczos_spectrum(multiply, gram.n, penalty, random_state, most), trace


def cluster_rows(
    Y: np.ndarray, w: np.ndarray, cap: int | None, random_state: np.random.RandomState
) -> np.ndarray:
    """3. K-means from three starts, with one cluster more than columns. Returns labels.

    K-means looks at 10,000 rows, or 50 for each cluster, if there are more.
    """
    if Y.shape[1] == 0:
        return np.zeros(len(Y), np.int64)
    k = min(Y.shape[1] + 1, len(Y), cap or len(Y))
    size = max(10_000, 50 * k)
    some = np.arange(len(Y))
    if len(Y) > size:
        some = np.sort(random_state.choice(len(Y), size, replace=False))
    X, v = Y[some], w[some]
    starts = [kmeans_plus_plus(Rows(X, weight=v), k, random_state) for _ in range(3)]
    found = [lloyd(X, start, v, 50) for start in starts]
    labels, centers, _ = min(found, key=lambda result: result[2])
    return labels if len(some) == len(Y) else nearest(Y, centers)
