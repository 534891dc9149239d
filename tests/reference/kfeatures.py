"""K-features as plain loops (BKJ 4.2 and 5)."""

import itertools

import numpy as np


def objective(X, Z, A):
    """BKJ Eq. 14."""
    return sum(((x - z @ A) ** 2).sum() for x, z in zip(X, Z, strict=True))


def choose_one_by_one(x, z, A):
    """For k = 1..K the better z_k, the others fixed; ties change nothing."""
    z = z.copy()
    for k in range(len(z)):
        other = z.copy()
        other[k] = 1 - other[k]
        before, after = ((x - z @ A) ** 2).sum(), ((x - other @ A) ** 2).sum()
        if after < before - 1e-12 * (A[k] ** 2).sum():
            z = other
    return z


def choose_of_all(x, z, A):
    """The best of all combinations; `z` stays where nothing is better."""
    best, least = z, ((x - z @ A) ** 2).sum()
    for other in itertools.product([0.0, 1.0], repeat=len(z)):
        error = ((x - np.array(other) @ A) ** 2).sum()
        if error < least - 1e-11 * least - 1e-13:
            best, least = np.array(other), error
    return best


def fit_features(X, Z):
    """(ZᵀZ)⁻¹ZᵀX; the smallest such A where columns depend on each other."""
    return np.linalg.pinv(Z) @ X


def k_features(X, A, choose, max_iter=300):
    """Z, A, objective and passes, from the given features and no allocation."""
    X, A = np.asarray(X, dtype=float), np.array(A, dtype=float)
    Z = np.zeros((len(X), len(A)))
    for n_iter in range(1, max_iter + 1):
        new = np.array([choose(x, z, A) for x, z in zip(X, Z, strict=True)])  # 1.
        if n_iter > 1 and np.array_equal(new, Z):
            break
        Z = new
        A = fit_features(X, Z)  # 2.
    return Z.astype(bool), A, objective(X, Z, A), n_iter


def least_error(X, K):
    """Over all Z with K columns, by trying all of them: for a few rows only."""
    X = np.asarray(X, dtype=float)
    columns = [np.array(c) for c in itertools.product([0.0, 1.0], repeat=len(X)) if any(c)]
    best = (X**2).sum()
    for chosen in itertools.combinations(columns, K):
        Z = np.column_stack(chosen)
        best = min(best, objective(X, Z, fit_features(X, Z)))
    return best


def least_objective(X, penalty, most):
    """The least error + penalty × number of features, with up to `most` of them."""
    errors = [(np.asarray(X) ** 2).sum(), *(least_error(X, K) for K in range(1, most + 1))]
    return min(error + penalty * K for K, error in enumerate(errors))
