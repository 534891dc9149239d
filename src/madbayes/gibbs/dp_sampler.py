"""Gibbs sampling for the Dirichlet process mixture of spherical Gaussians (KJ 2.2 and 3.1).

Model: z ~ CRP(α), μ_c ~ N(0, ρI), x_i ~ N(μ_{z_i}, σI); where they are not given, σ ~ IG(a, b) and
α ~ Gamma(a, b). Joint density: P(x, z, μ) = Π_i N(x_i | μ_{z_i}, σI) · P(z) · Π_c N(μ_c | 0, ρI)
with P(z) = α^{k-1} Γ(α+1)/Γ(α+n) Π_c (n_c - 1)! (BKJ Eq. 1, Sup. A).

A sweep (Neal 2000, algorithm 2):

1. Row by row: take the row out of its cluster, which goes if nobody is left in it. It joins cluster
   c with probability ∝ n_c N(x | μ_c, σI) and opens one with probability ∝ α N(x | 0, (ρ+σ)I), the
   mean drawn from its posterior given the row.
2. Draw each mean: N(ρS_c/(σ+ρn_c), σρ/(σ+ρn_c) I), S_c the sum of the rows of c.
3. Draw σ ~ IG(a + nd/2, b + ½Σ‖x_i - μ_{z_i}‖²).
4. Draw α by the auxiliary variable of Escobar & West (1995).

With α = (1 + ρ/σ)^{d/2} exp(-λ/2σ) and σ → 0 step 1 is that of DP-means and step 2 gives the mean
of the rows (KJ 3.1). One difference stays: Algorithm 1 keeps a mean during the pass although its
last row has gone, and a lone row compares with itself; here such a cluster is gone.

Departs from the paper: `log_joint_` is P(x, z, σ, α), the means integrated out (BKJ Eq. 7), so that
samples with more clusters are not compared by densities in more dimensions.
"""

from math import exp, log, pi
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from madbayes.gibbs.chains import (
    Sampler,
    draw_inverse_gamma,
    log_gamma,
    log_inverse_gamma,
)
from madbayes.gibbs.dp_kernels import by_first_row, log_likelihood, sweep
from madbayes.gibbs.predictive import posterior

ROOM = 8  # clusters that a sweep may open before it needs more room


def log_joint(
    X: np.ndarray,
    labels: np.ndarray,
    means: np.ndarray,
    sigma: float,
    rho: float,
    log_alpha: float,
) -> float:
    """log P(x, z, μ) of BKJ Sup. A; -2σ times it approaches Eq. 2."""
    n, d = X.shape
    k = len(means)
    error = float(((X - means[labels]) ** 2).sum())
    return (
        -0.5 * n * d * log(2 * pi * sigma)
        - error / (2 * sigma)
        + log_partition(np.bincount(labels, minlength=k), log_alpha)
        - 0.5 * k * d * log(2 * pi * rho)
        - float((means**2).sum()) / (2 * rho)
    )


def log_marginal(
    X: np.ndarray, labels: np.ndarray, sigma: float, rho: float, log_alpha: float
) -> float:
    """log P(x, z), the means integrated out (BKJ Sup. C); -2σ times it approaches Eq. 8."""
    mean, count, within = by_first_row(X, np.array(labels), int(np.max(labels)) + 1)
    return log_likelihood(mean, count, within, sigma, rho) + log_partition(count, log_alpha)


def log_partition(count: np.ndarray, log_alpha: float) -> float:
    """log P(z) (BKJ Eq. 1), for any log α."""
    rising = log_rising(log_alpha, np.log(np.arange(1, count.sum())))
    return (len(count) - 1) * log_alpha - rising + float(gammaln(count).sum())


def log_rising(log_alpha: float, log_numbers: np.ndarray) -> float:
    """log Γ(α+n)/Γ(α+1), given log 1 .. log n-1."""
    return float(np.logaddexp(log_alpha, log_numbers).sum())


class State(NamedTuple):
    """Of a chain: clusters are numbered by their first row."""

    labels: np.ndarray
    means: np.ndarray
    sigma: float
    log_alpha: float


class Info(NamedTuple):
    """Of a sweep: means of the rows of each cluster, how many they are, log P(x, z, σ, α)."""

    mean: np.ndarray
    sizes: np.ndarray
    log_joint: float


def draw_means(
    rng: np.random.Generator, mean: np.ndarray, count: np.ndarray, sigma: float, rho: float
) -> np.ndarray:
    """2. From the posterior."""
    center, variance = posterior(mean, count, sigma, rho)
    return center + np.sqrt(variance)[:, None] * rng.standard_normal(mean.shape)


def draw_labels(
    rng: np.random.Generator, X: np.ndarray, state: "State", rho: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """1. Labels; means, sizes and squared error of their clusters."""
    n, d = X.shape
    z, means, sigma, log_alpha = state
    z, uniform, at = z.copy(), rng.random(n), 0
    while at < n:  # once, unless many clusters open
        normal = rng.standard_normal((ROOM, d))
        means = np.concatenate((means, normal))  # any values: the room is what counts
        count = np.bincount(z, minlength=len(means))
        at = sweep(at, X, z, means, count, uniform, normal, sigma, rho, log_alpha)
    return z, *by_first_row(X, z, len(means))


def draw_log_alpha(
    rng: np.random.Generator, log_alpha: float, k: int, n: int, prior: tuple[float, float]
) -> float:
    """4. Escobar & West 1995, Eq. 13 and 14."""
    a, b = prior
    rate = b - log(rng.beta(exp(log_alpha) + 1, n))
    more = rng.random() * (a + k - 1 + n * rate) < a + k - 1
    return log(max(rng.standard_gamma(a + k - 1 + more) / rate, np.finfo(float).tiny))


def dp_mixture(
    X: np.ndarray,
    *,
    rho: float,
    sigma: float | None,
    log_alpha: float | None,
    sigma_prior: tuple[float, float] = (1.0, 1.0),
    alpha_prior: tuple[float, float] = (1.0, 1.0),
) -> Sampler:
    """`init(labels)` and `step(rng, state) -> (state, info)`; None is drawn, a number is kept."""
    n, d = X.shape
    log_numbers = np.log(np.arange(1, n))
    fixed_rising = log_rising(log_alpha, log_numbers) if log_alpha is not None else 0.0

    def init(labels: np.ndarray) -> State:
        z = np.array(labels, dtype=np.int64)
        mean, _, _ = by_first_row(X, z, int(z.max()) + 1)
        # Not what the rows say: a chain that starts with one wide cluster stays there very long.
        first_sigma = sigma_prior[1] / sigma_prior[0] if sigma is None else sigma
        first_alpha = log(alpha_prior[0] / alpha_prior[1]) if log_alpha is None else log_alpha
        return State(z, mean, first_sigma, first_alpha)

    def step(rng: np.random.Generator, state: State) -> tuple[State, Info]:
        _, _, now_sigma, now_alpha = state
        z, mean, count, within = draw_labels(rng, X, state, rho)  # 1.
        means = draw_means(rng, mean, count, now_sigma, rho)  # 2.
        prior = 0.0
        if sigma is None:
            a, b = sigma_prior
            error = within + float(count @ ((mean - means) ** 2).sum(axis=1))
            now_sigma = draw_inverse_gamma(rng, a + n * d / 2, b + error / 2)  # 3.
            prior += log_inverse_gamma(now_sigma, a, b)
        if log_alpha is None:
            now_alpha = draw_log_alpha(rng, now_alpha, len(count), n, alpha_prior)  # 4.
            prior += log_gamma(exp(now_alpha), *alpha_prior)
        density = log_likelihood(mean, count, within, now_sigma, rho)
        rising = fixed_rising if log_alpha is not None else log_rising(now_alpha, log_numbers)
        density += (len(count) - 1) * now_alpha - rising + float(gammaln(count).sum()) + prior
        return State(z, means, now_sigma, now_alpha), Info(mean, count, density)

    return Sampler(init, step)
