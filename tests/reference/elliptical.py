"""Elliptical means by plain loops (BKJ Sup. E, with Φ kept); rows Y have unit variance columns."""

import numpy as np


def parameters(Y, z, w, phi, lam):
    """The best means and covariances of a division; clusters are numbered without gaps."""
    means, covariances = [], []
    for c in range(max(z) + 1):
        rows, v = Y[z == c], w[z == c]
        mean = np.average(rows, axis=0, weights=v)
        S = sum(a * np.outer(y - mean, y - mean) for y, a in zip(rows, v, strict=True))
        means.append(mean)
        covariances.append((S + phi * np.eye(Y.shape[1])) / lam)
    return means, covariances


def objective(Y, z, w, phi, lam, penalty, means, covariances):
    """The formula at the head of elliptical/paper.py, term by term."""
    d = Y.shape[1]
    total = penalty * len(means)
    for y, c, a in zip(Y, z, w, strict=True):
        total += a * (y - means[c]) @ np.linalg.inv(covariances[c]) @ (y - means[c])
    for sigma in covariances:
        total += phi * np.trace(np.linalg.inv(sigma))
        total += lam * (np.linalg.slogdet(lam * sigma / phi)[1] - d)
    return total


def of_division(Y, z, w, phi, lam, penalty):
    """The same with the best parameters."""
    z = np.unique(z, return_inverse=True)[1]
    return objective(Y, z, w, phi, lam, penalty, *parameters(Y, z, w, phi, lam))


def squared(y, mean, sigma):
    return (y - mean) @ np.linalg.inv(sigma) @ (y - mean)


def alternate(Y, z, w, phi, lam, penalty=np.inf, max_iter=300):
    """Steps 1 to 3 from labels z, without a minimum size; labels, and J after each pass.

    With a penalty it is KJ Algorithm 1: the first covariance of a new cluster is Φ/λ².
    """
    price = penalty if penalty < np.inf else 0.0
    history = [of_division(Y, z, w, phi, lam, price)]
    for _ in range(max_iter):
        means, covariances = parameters(Y, z, w, phi, lam)
        new = np.zeros_like(z)
        for i, y in enumerate(Y):
            d2 = [squared(y, m, s) for m, s in zip(means, covariances, strict=True)]
            new[i] = np.argmin(d2)
            if w[i] * min(d2) > penalty:
                new[i] = len(means)
                means.append(y)
                covariances.append(phi * np.eye(Y.shape[1]) / lam)
        if np.array_equal(new, z):
            break
        z = np.unique(new, return_inverse=True)[1]
        history.append(of_division(Y, z, w, phi, lam, price))
    return z, history
