"""Collapsed Gibbs sampling for the linear-Gaussian Indian buffet process, as plain loops.

Griffiths & Ghahramani (2006); P(X | Z) by the covariance of the rows, σ_x²I + σ_a²ZZᵀ. Uniform
numbers come in the order of the package: for a row, one for the number of its own features, then
one for each column.
"""

import itertools
import math
from collections import Counter

import numpy as np


def log_likelihood(X, Z, sigma_x, sigma_a):
    n, d = X.shape
    covariance = sigma_x**2 * np.eye(n) + sigma_a**2 * Z @ Z.T
    error = (X * np.linalg.solve(covariance, X)).sum()
    return -0.5 * (d * np.linalg.slogdet(2 * np.pi * covariance)[1] + error)


def log_prior(Z, alpha):
    """BKJ Eq. 4."""
    n, k = Z.shape
    total = k * math.log(alpha) - alpha * sum(1 / i for i in range(1, n + 1))
    for column in Z.T:
        size = int(column.sum())
        total += math.lgamma(size) + math.lgamma(n - size + 1) - math.lgamma(n + 1)
    same = Counter(tuple(column) for column in Z.T)
    return total - sum(math.lgamma(count + 1) for count in same.values())


def sweep(uniform, X, Z, alpha, sigma_x, sigma_a, most=12):
    """Z (with room for new features: columns of zeros) after one sweep over the rows."""
    n, Z = len(X), Z.astype(float).copy()
    for i in range(n):
        shared = np.flatnonzero(np.delete(Z, i, axis=0).any(axis=0))
        for k in shared:
            others = Z[:, k].sum() - Z[i, k]
            logs = []
            for value in (0, 1):
                Z[i, k] = value
                logs.append(log_likelihood(X, Z, sigma_x, sigma_a))
            odds = logs[1] - logs[0] + math.log(others / (n - others))
            Z[i, k] = uniform[i, 1 + k] < 1 / (1 + math.exp(-odds))
        free = [k for k in range(Z.shape[1]) if k not in shared]
        Z[i, free] = 0
        logs = []
        for own in range(most):
            more = np.zeros((n, own))
            more[i] = 1
            poisson = own * math.log(alpha / n) - math.lgamma(own + 1)
            logs.append(poisson + log_likelihood(X, np.hstack([Z, more]), sigma_x, sigma_a))
        weight = np.exp(np.array(logs) - max(logs))
        own = int((uniform[i, 0] * weight.sum() >= np.cumsum(weight)).sum())
        Z[i, free[:own]] = 1
    return Z


def exact_posterior(X, alpha, sigma_x, sigma_a, most):
    """{left-ordered Z as a tuple of columns: probability}, up to `most` features."""
    columns = [c for c in itertools.product((1, 0), repeat=len(X)) if any(c)]
    logs = {}
    for k in range(most + 1):
        for chosen in itertools.combinations_with_replacement(columns, k):
            Z = np.array(chosen, dtype=float).reshape(k, len(X)).T
            logs[chosen] = log_prior(Z, alpha) + log_likelihood(X, Z, sigma_x, sigma_a)
    top = max(logs.values())
    total = sum(math.exp(value - top) for value in logs.values())
    return {Z: math.exp(value - top) / total for Z, value in logs.items()}
