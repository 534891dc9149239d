"""BP-means and collapsed BP-means as plain loops (BKJ 3 and 4.1), with weights."""

import numpy as np


def fit_features(X, Z, weight):
    root = np.sqrt(weight)[:, None]
    return np.linalg.pinv(Z * root) @ (X * root)


def objective(X, Z, A, weight, penalty):
    """BKJ Eq. 6."""
    return weight @ ((X - Z @ A) ** 2).sum(axis=1) + penalty * Z.shape[1]


def independent(Z, weight):
    """The columns that do not depend on those before them, in rows that count."""
    kept = []
    for k in range(Z.shape[1]):
        if np.linalg.matrix_rank(Z[weight > 0][:, [*kept, k]]) > len(kept):
            kept.append(k)
    return Z[:, kept]


def bp_means(X, penalty, weight=None, max_components=None, max_iter=300):
    """From no feature at all: Z, A, objective, passes."""
    X = np.asarray(X, dtype=float)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
    cap = len(X) if max_components is None else max_components
    Z, A = np.zeros((len(X), 0)), np.zeros((0, X.shape[1]))
    for n_iter in range(1, max_iter + 1):
        changed = False
        for n in range(len(X)):  # 1.
            for k in range(len(A)):
                other = Z[n].copy()
                other[k] = 1 - other[k]
                before, after = ((X[n] - Z[n] @ A) ** 2).sum(), ((X[n] - other @ A) ** 2).sum()
                if after < before - 1e-12 * (A[k] ** 2).sum():
                    Z[n] = other
                    changed = True
            residual = X[n] - Z[n] @ A
            if weight[n] * (residual**2).sum() > penalty and len(A) < cap:
                A = np.vstack([A, residual])
                Z = np.column_stack([Z, np.arange(len(X)) == n])
                changed = True
        if not changed and n_iter > 1:
            break
        Z = independent(Z, weight)
        A = fit_features(X, Z, weight)  # 2.
    return Z.astype(bool), A, objective(X, Z, A, weight, penalty), n_iter


def collapsed_objective(X, Z, penalty, weight=None):
    """BKJ Eq. 10, redundant columns not counted."""
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
    Z = independent(np.asarray(Z, dtype=float), weight)
    return objective(X, Z, fit_features(X, Z, weight), weight, penalty)


def neighbours(Z):
    """Every allocation one flip, one birth for a single row, or one death away."""
    Z = np.asarray(Z, dtype=float)
    for n in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            other = Z.copy()
            other[n, k] = 1 - other[n, k]
            yield other
        yield np.column_stack([Z, np.arange(len(Z)) == n])
    for k in range(Z.shape[1]):
        yield np.delete(Z, k, axis=1)
