"""Gibbs sampling for the DP mixture of round Gaussians as a plain loop, and its exact posterior.

Neal (2000), algorithm 2, as in KJ 2.2 and 3.1. Random numbers come in the order of the package: one
uniform a row, then normals for ROOM openings at a time, then those of the means.
"""

import math

import numpy as np

ROOM = 8


def normal_log_density(x, mean, variance):
    d = len(x)
    return -0.5 * d * math.log(2 * math.pi * variance) - ((x - mean) ** 2).sum() / (2 * variance)


def sweep(rng, X, z, means, sigma, rho, log_alpha):
    """Labels and means after one sweep; means of free numbers are None."""
    n, d = X.shape
    z, means = list(z), list(means)
    uniform, normal = rng.random(n), []
    for i in range(n):
        if not normal:
            normal = list(rng.standard_normal((ROOM, d)))
        own, z[i] = z[i], -1
        if own not in z:
            means[own] = None
        used = [c for c in range(len(means)) if means[c] is not None]
        logs = [math.log(z.count(c)) + normal_log_density(X[i], means[c], sigma) for c in used]
        logs.append(log_alpha + normal_log_density(X[i], 0.0, rho + sigma))
        weight = np.exp(np.array(logs) - max(logs))
        place = int((uniform[i] * weight.sum() >= np.cumsum(weight)).sum())
        if place < len(used):
            z[i] = used[place]
        else:
            z[i] = next((c for c in range(len(means)) if means[c] is None), len(means))
            drawn = rho / (rho + sigma) * X[i]
            drawn = drawn + math.sqrt(sigma * rho / (sigma + rho)) * normal.pop(0)
            means[z[i] : z[i] + 1] = [drawn]
    order = list(dict.fromkeys(z))  # by first row
    z = np.array([order.index(c) for c in z])
    noise = rng.standard_normal((len(order), d))
    means = np.empty((len(order), d))
    for c in range(len(order)):
        rows = X[z == c]
        variance = sigma * rho / (sigma + rho * len(rows))
        means[c] = variance / sigma * rows.sum(axis=0) + math.sqrt(variance) * noise[c]
    return z, means


def log_posterior(X, labels, sigma, rho, alpha):
    """log P(z | x) but for a constant: CRP times Gaussians with covariance σI + ρ11ᵀ."""
    total = 0.0
    for c in set(labels):
        rows = X[np.array(labels) == c]
        size = len(rows)
        covariance = sigma * np.eye(size) + rho * np.ones((size, size))
        sign, log_determinant = np.linalg.slogdet(covariance)
        total += math.log(alpha) + math.lgamma(size)
        for column in rows.T:
            total -= 0.5 * column @ np.linalg.solve(covariance, column)
            total -= 0.5 * (sign * log_determinant + size * math.log(2 * math.pi))
    return total
