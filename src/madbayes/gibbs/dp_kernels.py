"""Neal's algorithm 2 for a Dirichlet process mixture: the rows of one sweep.

X (n, d) rows, z labels, M means, N row counts. N[c] = 0 is a free number. Random numbers are drawn
by the caller, so a sweep is a function of its arguments.
"""

import math

import numpy as np

from madbayes._jit import kernel
from madbayes._rows.distance import sqdist, sqnorm


@kernel
def sweep(first, X, z, M, N, U, E, sigma, rho, log_alpha):
    """Rows from `first` on draw their cluster; z, M and N change.

    U are uniform, one a row; E normal, one row for each cluster that is opened. The sweep ends
    before the row that would need more of them, and returns its number (n: it is complete).
    """
    n, d = X.shape
    slots, opened = N.shape[0], 0
    weight = np.empty(slots)
    # All weights are divided by the normalizing constant of N(x | μ, σI).
    new = log_alpha - 0.5 * d * np.log1p(rho / sigma)
    shrink, spread = rho / (rho + sigma), np.sqrt(sigma * rho / (sigma + rho))
    for i in range(first, n):
        if opened == E.shape[0]:
            return i
        N[z[i]] -= 1
        free = -1
        open_weight = new - sqnorm(X, i) / (2 * (rho + sigma))
        top = open_weight
        for c in range(slots):
            if N[c] > 0:
                weight[c] = -sqdist(X, i, M, c) / (2 * sigma)
                top = max(top, weight[c])
            elif free < 0:
                free = c
        total = np.exp(open_weight - top)
        for c in range(slots):
            if N[c] > 0:
                weight[c] = N[c] * np.exp(weight[c] - top)
                total += weight[c]
        left, chosen = U[i] * total, free
        for c in range(slots):
            if N[c] > 0:
                left -= weight[c]
                if left < 0:
                    chosen = c
                    break
        if chosen == free:
            for j in range(d):
                M[free, j] = shrink * X[i, j] + spread * E[opened, j]
            opened += 1
        N[chosen] += 1
        z[i] = chosen
    return n


@kernel
def by_first_row(X, z, slots):
    """Number clusters by their first row; their means, row counts and squared error."""
    n, d = X.shape
    place = np.full(slots, -1)
    k = 0
    for i in range(n):
        if place[z[i]] < 0:
            place[z[i]] = k
            k += 1
        z[i] = place[z[i]]
    mean, count = np.zeros((k, d)), np.zeros(k)
    for i in range(n):
        count[z[i]] += 1
        for j in range(d):
            mean[z[i], j] += X[i, j]
    for c in range(k):
        for j in range(d):
            mean[c, j] /= count[c]
    within = 0.0
    for i in range(n):
        within += sqdist(X, i, mean, z[i])
    return mean, count, within


@kernel
def log_likelihood(mean, count, within, sigma, rho):
    """log P(x | z) (BKJ Eq. 7) from means, sizes and squared error of the clusters."""
    k, d = mean.shape
    total, n = -within / (2 * sigma), 0.0
    for c in range(k):
        n += count[c]
        total -= 0.5 * d * np.log1p(rho / sigma * count[c])
        total -= 0.5 * count[c] / (sigma + rho * count[c]) * sqnorm(mean, c)
    return total - 0.5 * n * d * math.log(2 * math.pi * sigma)
