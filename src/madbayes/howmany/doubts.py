"""Three reasons to doubt clusters that are apart: densities of held-out rows (`densities.py`).

A valley shows that two clusters are apart. It does not show that a cluster is complete, nor that it
is a single cluster. So three questions are asked of rows that were held out:

1. *Other shapes.* A straight line between two pieces of a ring or a crescent crosses a gap, so the
   tests on held-out rows see a valley. Does a density without clusters explain the rows much better
   than one Gaussian for each cluster?
2. *Two clusters in one.* Clusters that overlap have no valley between them (iris: two of the three
   species). Do two Gaussians of the same covariance explain the rows of a cluster better than one
   does, and better than a density without clusters? They have only d + 1 parameters more than one
   Gaussian, so few rows are enough to tell.
3. *A finer division* of the staircase (round clusters only). Does it explain the rows better?

In 2., let the rows x of a cluster have mean 0 and covariance I. Two Gaussians of shares p and q,
whose means differ by δ, have the common covariance I - pq·δδᵀ. So all that EM needs is
t = δᵀx, and the logarithm of the ratio of the two densities depends on t only.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from madbayes._partition.lloyd import nearest
from madbayes._rows.content import content_order
from madbayes.howmany.densities import (
    MAX_COLUMNS,
    MAX_ROWS,
    MIN_ROWS,
    explain,
    kernel_density,
    sketch,
)
from madbayes.howmany.staircase import Choice, Staircase

# Nats per row. Uniform clusters (not Gaussian ones) lose 0.1 to 0.25 against the kernel density;
# rings, arcs and crescents that are cut into round pieces lose 0.4 to 1.3.
SHAPE_LOSS = 0.3
# Nats per row. A finer division gains up to 0.022 on Gaussian and uniform clusters, and 0.05 to 0.7
# on clusters that hold two classes (iris, penguins, vehicle).
FINER_GAIN = 0.03
# Nats per row. Two Gaussians gain up to 0.012 on clusters that are single ones, and 0.05 to 0.08
# on penguins and iris, where two species are one cluster.
PAIR_GAIN = 0.02


def doubt(path: Staircase, X: Any, labels: np.ndarray) -> Choice:
    """The choice of the path; it becomes weak if 1., 2. or 3. speaks against the clusters of X."""
    choice = path.best()
    if choice.strength not in ("moderate", "strong") or len(X) < MIN_ROWS:
        return choice
    rows = content_order(X, None, 0)[:MAX_ROWS]
    X, labels = np.asarray(X[rows], np.float64), labels[rows]
    divisions = {"clusters": labels, **finer_divisions(path, X)}
    if X.shape[1] <= MAX_COLUMNS:
        divisions["any"] = np.zeros(len(X), np.int64)
    found = explain(X, divisions)
    clusters = found.pop("clusters")
    loss = found.pop("any", clusters) - clusters
    if loss > SHAPE_LOSS:
        remark = (
            f"The clusters are not round: without clusters, held-out rows are explained better by "
            f"{loss:.1f} nats each. AutoCluster and NeighborCut find clusters of other shapes"
        )
        return replace(weakened(choice), remarks=(*choice.remarks, remark))
    if max(found.values(), default=clusters) - clusters > FINER_GAIN:
        reason = f"{choice.reason}, but a finer division explains held-out rows better"
        return replace(weakened(choice), reason=reason)
    return doubt_single(choice, X, labels)


def weakened(choice: Choice) -> Choice:
    return replace(choice, strength="weak", support=min(choice.support, 0.2))


def finer_divisions(path: Staircase, X: np.ndarray) -> dict[str, np.ndarray]:
    """3. Labels of the rows X in divisions of the path with up to twice as many clusters."""
    k = path.best().number
    centers = {len(C): C for C in path.centers or () if k < len(C) <= max(2 * k, k + 2)}
    some = sorted(centers)[:: max(1, len(centers) // 3)]
    return {f"finer {j}": nearest(X, centers[j]) for j in some}


def doubt_single(choice: Choice, X: np.ndarray, labels: np.ndarray) -> Choice:
    """The choice, weak if 2. says that a cluster holds two."""
    if choice.strength not in ("moderate", "strong") or gain_of_pairs(X, labels) <= PAIR_GAIN:
        return choice
    reason = f"{choice.reason}, but two clusters in place of one explain held-out rows better"
    return replace(weakened(choice), reason=reason)


def gain_of_pairs(X: np.ndarray, labels: np.ndarray) -> float:
    """2. The gain by two Gaussians in place of one, over all clusters, in nats per row of X."""
    Z, place = sketch(X)
    labels = labels[place]
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    total = 0.0
    for c in np.argsort(-sizes, kind="stable")[:8]:  # the larger clusters are enough to tell
        if sizes[c] < 5 * (Z.shape[1] + 1):
            break
        rows = Z[labels == c]
        little = PAIR_GAIN / 8 * len(Z)  # eight clusters that gain less do not matter
        if gain_of_two(rows, rows)[0] * len(rows) <= little:  # held-out rows would gain less
            continue
        fold = np.arange(len(rows)) % 8
        parts = [(rows[fold != f], rows[fold == f]) for f in range(8)]
        gain, one = np.mean([gain_of_two(*part) for part in parts], axis=0)
        if gain * len(rows) > little:
            kernel = kernel_density(*parts[0])[1]
            smooth = np.mean([kernel_density(*part, [kernel])[0] for part in parts])
            gain -= max(0.0, smooth - one)
        total += max(gain, 0.0) * len(rows)
    return total / len(Z)


def gain_of_two(rows: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """2. How much better two Gaussians made of `rows` explain `others` than one Gaussian, and the
    mean log density of that one; in nats per row."""
    n, d = rows.shape
    mean = rows.mean(axis=0)
    centred = rows - mean
    prior = 1.0 + d  # the variance of the columns counts like this many rows
    S = (centred.T @ centred + prior * np.diag(centred.var(axis=0))) / (n + prior)
    S += (1e-9 * np.trace(S) / d + 1e-300) * np.eye(d)
    L = np.linalg.cholesky(S)
    x, y = (solve_triangular(L, (A - mean).T, lower=True) for A in (rows, others))
    volume = np.log(np.diagonal(L)).sum() + 0.5 * d * np.log(2 * np.pi)
    one = float(-0.5 * np.square(y).sum(axis=0).mean() - volume)
    best, gain = -np.inf, 0.0
    for axis in np.linalg.eigh(S)[1].T[-3:]:  # starts: cuts across the longest axes
        share = (centred @ axis > 0).astype(float)
        for _ in range(20):  # EM; more passes change little
            p = min(max(share.mean(), 1 / n), 1 - 1 / n)
            step = x @ share / (n * p) - x @ (1 - share) / (n * (1 - p))
            square = min(step @ step, 0.999 / (p * (1 - p)))
            ratio, share = log_ratio(step @ x, square, p)
        if ratio.sum() > best:
            best = ratio.sum()
            gain = float(log_ratio(step @ y, square, p)[0].mean())
    return gain, one


def log_ratio(t: np.ndarray, square: float, p: float) -> tuple[np.ndarray, np.ndarray]:
    """2. log f₂(x)/f₁(x) with t = δᵀx and square = |δ|², and the share of the first Gaussian."""
    q = 1 - p
    within = 1 - p * q * square
    c = p * q / within
    first = np.log(p) + q * t - 0.5 * (q * q * square + c * (t - q * square) ** 2)
    other = np.log(q) - p * t - 0.5 * (p * p * square + c * (t + p * square) ** 2)
    both = np.logaddexp(first, other)
    return both - 0.5 * np.log(within), np.exp(first - both)
