"""The relaxation of the hard HDP: a lower bound of KJ Eq. 2, and a rounding for the search.

Objective as traces of two projections: let A = W^½ K W^½ (K the Gram matrix of the rows), P_g the
projection on the indicators of global clusters (times W^½) and P_l that on those of local clusters:

    F = tr(A (I - P_g)) + λ_g tr P_g + λ_l tr P_l.

Every global indicator is a sum of local ones, so P_g <= P_l; P_l has one block for each group.
Relaxed, P_g and P_l are any projections with these two properties. Three facts make the problem
fall apart into eigenvalue problems, for any α and β between 0 and 1:

    tr(A (I - P_g)) >= α tr(A (I - P_g)) + (1 - α) tr(A (I - P_l)),    because P_g <= P_l,
    λ_l tr P_l >= β λ_l tr P_g + (1 - β) λ_l tr P_l,                   for the same reason,
    min_P c tr(A (I - P)) + λ tr P = c tr A - Σ max(c e_i - λ, 0),     e_i the eigenvalues of A
                                                                       (KJ Theorem 5.2).

1. P_g contains W^½1 and block j of P_l contains W^½1 of group j. So A is centred, at the mean of
   all rows and at the means of the groups, and each of these directions costs one cluster.
2. The bound is the sum of both minima. It is concave and piecewise linear in (α, β): a linear
   program finds the best pair.
3. *Rounding.* The rows of a group are clustered in its eigenvectors above λ_l, the local means in
   their eigenvectors above λ_g. The moves and splits of the search polish the result.

With one group the bound is that of DP-means at λ_l + λ_g (α = β = 1). Rows in d columns have d
eigenvalues, so the bound is far off where there are many more clusters than columns.
"""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from madbayes.groups.grouped_rows import Grouped
from madbayes.kernel.spectral import cluster_rows
from madbayes.kernel.spectrum import linear_spectrum


def centred(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """1. W^½ times the rows, shifted to their weighted mean."""
    X = X.astype(np.float64)
    return (X - w @ X / w.sum()) * np.sqrt(w)[:, None]


def eigenvalues(R: np.ndarray) -> np.ndarray:
    """Of R Rᵀ, without those that are 0 for certain."""
    found = np.linalg.eigvalsh(R @ R.T if len(R) < R.shape[1] else R.T @ R)
    return np.maximum(found, 0.0)


def relaxed_minimum(share: float, penalty: float, values: np.ndarray, count: int = 1) -> float:
    """min over projections of `share` · error + `penalty` · rank, with `count` directions given."""
    saved = np.maximum(share * values - penalty, 0.0).sum()
    return float(share * values.sum() + count * penalty - saved)


def relaxed_bound(rows: Grouped, local: float, glob: float) -> float:
    """2. No division of these rows has a lower F."""
    whole = eigenvalues(centred(rows.X, rows.w))
    cuts = list(pairwise(rows.start))
    parts = np.concatenate([eigenvalues(centred(rows.X[a:b], rows.w[a:b])) for a, b in cuts])
    alpha, beta = best_shares(whole, parts, len(cuts), local, glob)
    return relaxed_minimum(alpha, glob + beta * local, whole) + relaxed_minimum(
        1 - alpha, (1 - beta) * local, parts, len(cuts)
    )


def best_shares(
    whole: np.ndarray, parts: np.ndarray, groups: int, local: float, glob: float
) -> tuple[float, float]:
    """2. The pair (α, β) of the highest bound.

    The program has α, β and for each eigenvalue what its direction saves, u >= max(c e - λ, 0).
    """
    m, n = len(whole), len(parts)
    cost = np.r_[parts.sum() - whole.sum(), (groups - 1) * local, np.ones(m + n)]
    above = np.block(
        [[whole[:, None], np.full((m, 1), -local)], [-parts[:, None], np.full((n, 1), local)]]
    )
    limits = np.r_[np.full(m, glob), local - parts]
    found = linprog(
        cost,
        A_ub=sp.hstack([sp.csr_array(above), -sp.eye_array(m + n)], format="csr"),
        b_ub=limits,
        bounds=[(0, 1), (0, 1), *[(0, None)] * (m + n)],
    )
    alpha, beta = np.clip(found.x[:2], 0.0, 1.0) if found.x is not None else (1.0, 1.0)
    return float(alpha), float(beta)


def rounded(
    rows: Grouped, local: float, glob: float, random_state: np.random.RandomState
) -> np.ndarray:
    """3. Global labels of the rows."""
    share, count = np.empty(len(rows.X), np.int64), 0
    for a, b in pairwise(rows.start):
        share[a:b] = count + cluster_spectrum(rows.X[a:b], rows.w[a:b], local, random_state)
        count = int(share[a:b].max()) + 1
    weights = np.bincount(share, rows.w)
    member = sp.csr_array((rows.w, (share, np.arange(len(share)))))
    means = (member @ rows.X.astype(np.float64)) / weights[:, None]
    return cluster_spectrum(means, weights, glob, random_state)[share]


def cluster_spectrum(
    X: np.ndarray, w: np.ndarray, penalty: float, random_state: np.random.RandomState
) -> np.ndarray:
    """Labels of rows by the eigenvectors above the penalty (KJ 5.1), 0, 1, …"""
    vectors = linear_spectrum(centred(X, w), penalty)[1]
    labels = cluster_rows(vectors / np.sqrt(w)[:, None], w, None, random_state)
    return np.unique(labels, return_inverse=True)[1]
