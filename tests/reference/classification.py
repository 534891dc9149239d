"""The classification likelihood with a prior (elliptical/elliptical_means.py), by plain loops."""

import numpy as np


def parameters(Y, z, w, phi, nu):
    """The best means, covariances and shares of a division; clusters are numbered without gaps."""
    means, covariances, shares = [], [], []
    for c in range(max(z) + 1):
        rows, v = Y[z == c], w[z == c]
        mean = np.average(rows, axis=0, weights=v)
        S = sum(a * np.outer(y - mean, y - mean) for y, a in zip(rows, v, strict=True))
        means.append(mean)
        covariances.append((S + phi * np.eye(Y.shape[1])) / (v.sum() + nu))
        shares.append(v.sum() / w.sum())
    return means, covariances, shares


def pays(y, mean, sigma, share):
    """What a row pays in a cluster: distance, volume, share."""
    distance = (y - mean) @ np.linalg.inv(sigma) @ (y - mean)
    return distance + np.linalg.slogdet(sigma)[1] - 2 * np.log(share)


def objective(Y, z, w, phi, nu, penalty):
    """The formula, term by term, with the best parameters."""
    z = np.unique(z, return_inverse=True)[1]
    d = Y.shape[1]
    means, covariances, shares = parameters(Y, z, w, phi, nu)
    total = penalty * len(means)
    for y, c, a in zip(Y, z, w, strict=True):
        total += a * pays(y, means[c], covariances[c], shares[c])
    for sigma in covariances:
        total += phi * np.trace(np.linalg.inv(sigma)) + nu * np.linalg.slogdet(sigma)[1]
        total -= nu * (d + d * np.log(phi / nu))
    return total


def most_likely(Y, z, w, phi, nu):
    """The cluster in which each row pays least."""
    fitted = list(zip(*parameters(Y, z, w, phi, nu), strict=True))
    return np.array([np.argmin([pays(y, *one) for one in fitted]) for y in Y])


def lowest_neighbour(Y, z, w, phi, nu, penalty):
    """After one row move, opening or merge, all tried; without a penalty k stays."""
    best, k = np.inf, max(z) + 1
    for i in range(len(Y)):
        if penalty == 0 and np.sum(z == z[i]) == 1:
            continue
        for c in range(k + (penalty > 0)):
            moved = z.copy()
            moved[i] = c
            best = min(best, objective(Y, moved, w, phi, nu, penalty))
    for a in range(k if penalty > 0 else 0):
        for b in range(a):
            best = min(best, objective(Y, np.where(z == a, b, z), w, phi, nu, penalty))
    return best
