"""Gibbs sampling for the linear-Gaussian Indian buffet process (BKJ 3).

Model: Z ~ IBP(α), A_k ~ N(0, σ_a² I), x_n ~ N(z_n A, σ_x² I); where they are not given, α ~
Gamma(a, b), σ_x² ~ IG(a, b) and σ_a² ~ IG(a, b). Joint density: P(X, Z, A) = P(X | Z, A) P(Z) P(A)
with P(Z) of BKJ Eq. 4, and with A integrated out P(X, Z) = P(X | Z) P(Z) of Eq. 7.

A sweep (Griffiths & Ghahramani 2006):

1. Row by row, A integrated out: each feature k that m_k > 0 other rows have, z_nk = 1 with
   probability ∝ m_k/N · P(X | Z); then the number of features that this row alone has, ∝
   Poisson(α/N) · P(X | Z), exactly but for terms below e⁻⁴⁰.
2. Draw A from its posterior given Z, where σ_x or σ_a is to be drawn.
3. Draw σ_x² ~ IG(a + ND/2, b + ½‖X - ZA‖²) and σ_a² ~ IG(a + KD/2, b + ½‖A‖²).
4. Draw α ~ Gamma(a + K, b + H_N), H_N = 1 + 1/2 + … + 1/N.

P(X | Z) enters as the density of row n given the others, N(z_n F, σ_x²(1 + z_n V z_nᵀ) I), from the
posterior of A given the other rows. "accelerated" carries F and V along by rank-one changes
(Doshi-Velez & Ghahramani 2009), O(K² + KD) for a row beside the K flips; "collapsed" computes them
anew for each row, O(K³ + K²D). The chain is the same up to rounding.

Departs from Griffiths & Ghahramani, who draw σ_x and σ_a by Metropolis steps: with A drawn, both
are conjugate. `log_joint_` is P(X, Z) and the priors of what was drawn, A integrated out.
"""

from collections import Counter
from functools import lru_cache
from math import exp, lgamma, log, pi
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from madbayes.gibbs.allocation import Posterior
from madbayes.gibbs.chains import (
    Sampler,
    Step,
    draw_inverse_gamma,
    log_gamma,
    log_inverse_gamma,
)
from madbayes.gibbs.ibp_kernels import sweep

COOLING = 100  # sweeps
AFTER_DEATH = 3  # sweeps, before a state with a feature less is judged
# Products that the deaths of a start may cost, about a second: on noise, which gives features to
# single rows, they would cost as much as hundreds of sweeps. Ten features of 100 rows and 36
# columns need a tenth of this.
DEATH_PRODUCTS = 2**25
ROOM = 6  # features that a sweep may open before it needs more room


def log_joint(
    X: np.ndarray, Z: np.ndarray, A: np.ndarray, log_alpha: float, sigma_x: float, sigma_a: float
) -> float:
    """log P(X, Z, A) of BKJ Sup. B; -2σ_x² times it approaches Eq. 6."""
    n, d = X.shape
    return (
        -0.5 * n * d * log(2 * pi * sigma_x**2)
        - float(((X - Z.astype(float) @ A) ** 2).sum()) / (2 * sigma_x**2)
        + log_allocation(Z, log_alpha)
        - 0.5 * Z.shape[1] * d * log(2 * pi * sigma_a**2)
        - float((A**2).sum()) / (2 * sigma_a**2)
    )


def log_marginal(
    X: np.ndarray, Z: np.ndarray, log_alpha: float, sigma_x: float, sigma_a: float
) -> float:
    """log P(X, Z), A integrated out (BKJ Sup. D); -2σ_x² times it approaches Eq. 10."""
    features = Posterior(X, Z, (sigma_x / sigma_a) ** 2)
    return features.log_likelihood(sigma_x**2) + log_allocation(Z, log_alpha)


def log_allocation(Z: np.ndarray, log_alpha: float) -> float:
    """log P(Z) (BKJ Eq. 4): of the features in any order."""
    n, k = Z.shape
    size = Z.sum(axis=0, dtype=np.float64)
    same = Counter(column.tobytes() for column in Z.T)
    return (
        k * log_alpha
        - exp(log_alpha) * harmonic(n)
        - sum(lgamma(count + 1) for count in same.values())
        + float((gammaln(size) + gammaln(n - size + 1)).sum())
        - k * lgamma(n + 1)
    )


@lru_cache
def harmonic(n: int) -> float:
    """H_n = 1 + 1/2 + … + 1/n."""
    return float((1 / np.arange(1, n + 1)).sum())


class State(NamedTuple):
    """Of a chain. `assignments` (n, K) holds 0 and 1; no feature is empty."""

    assignments: np.ndarray
    alpha: float
    variance_x: float
    variance_a: float


class Info(NamedTuple):
    """Of a sweep: log P(X, Z, …), A integrated out."""

    log_joint: float


def draw_assignments(
    rng: np.random.Generator, X: np.ndarray, state: State, afresh: bool
) -> np.ndarray:
    """1. Without columns of zeros."""
    n, d = X.shape
    Z, alpha, variance, variance_a = state
    uniform, at = rng.random((n, 1 + Z.shape[1])), 0
    while at < n:  # once, unless many features open
        Z = np.hstack([Z, np.zeros((n, ROOM), np.uint8)])
        uniform = np.hstack([uniform, rng.random((n, ROOM))])
        m, dense = Z.shape[1], Z.astype(np.float64)
        sums = dense.T @ dense, dense.T @ X
        room = np.empty((m, m)), np.empty((m, d)), np.empty(m), np.empty(m), np.empty(d)
        c, rate = variance / variance_a, alpha / n
        at = sweep(at, X, Z, uniform, *sums, *room, variance, c, rate, afresh)
    return nonempty(Z)


def nonempty(Z: np.ndarray) -> np.ndarray:
    """The features that somebody has."""
    return np.ascontiguousarray(Z[:, Z.any(axis=0)], dtype=np.uint8)


def buffet(
    X: np.ndarray,
    *,
    alpha: float | None,
    sigma_x: float | None,
    sigma_a: float | None,
    alpha_prior: tuple[float, float] = (1.0, 1.0),
    sigma_x_prior: tuple[float, float] = (1.0, 1.0),
    sigma_a_prior: tuple[float, float] = (1.0, 1.0),
    afresh: bool = False,
) -> Sampler:
    """`init(Z)` and `step(rng, state) -> (state, info)`; None is drawn, a number is kept."""
    n, d = X.shape
    H = harmonic(n)

    def init(Z: np.ndarray) -> State:
        return State(
            nonempty(np.asarray(Z)),
            alpha_prior[0] / alpha_prior[1] if alpha is None else alpha,
            sigma_x_prior[1] / sigma_x_prior[0] if sigma_x is None else sigma_x**2,
            sigma_a_prior[1] / sigma_a_prior[0] if sigma_a is None else sigma_a**2,
        )

    def step(rng: np.random.Generator, state: State) -> tuple[State, Info]:
        _, now_alpha, variance_x, variance_a = state
        Z = draw_assignments(rng, X, state, afresh)  # 1.
        k, prior = Z.shape[1], 0.0
        features = Posterior(X, Z, variance_x / variance_a)
        if sigma_x is None or sigma_a is None:
            A = features.draw(rng, variance_x)  # 2.
            if sigma_x is None:  # 3.
                a, b = sigma_x_prior
                error = float(((X - Z @ A) ** 2).sum())
                variance_x = draw_inverse_gamma(rng, a + n * d / 2, b + error / 2)
                prior += log_inverse_gamma(variance_x, a, b)
            if sigma_a is None:
                a, b = sigma_a_prior
                size = float((A**2).sum())
                variance_a = draw_inverse_gamma(rng, a + k * d / 2, b + size / 2)
                prior += log_inverse_gamma(variance_a, a, b)
            features = features.at(variance_x / variance_a)
        if alpha is None:
            a, b = alpha_prior
            tiny = np.finfo(float).tiny
            now_alpha = max(float(rng.standard_gamma(a + k)) / (b + H), tiny)  # 4.
            prior += log_gamma(now_alpha, a, b)
        density = features.log_likelihood(variance_x) + log_allocation(Z, log(now_alpha))
        return State(Z, now_alpha, variance_x, variance_a), Info(density + prior)

    return Sampler(init, step)


def cooled(
    rng: np.random.Generator, X: np.ndarray, state: State, cooling: Step, step: Step
) -> tuple[State, float]:
    """A start, and its density: no feature, and the noise falls from all of X to that of `state`.

    Features that many rows share come first; a chain that starts with little noise gives each row
    features of its own, and merges them hardly ever. Then a feature goes (and the others may be
    turned round in the rows that had it), as long as a few sweeps after that lead to a higher
    density than those with it (and as long as DEATH_PRODUCTS allow).
    """
    end = state.variance_x
    for variance in np.geomspace(max(float((X**2).mean()), end), end, COOLING):
        state, _ = cooling(rng, state._replace(variance_x=float(variance)))
    state, info = step(rng, state._replace(variance_x=end))
    tried, work = 0, 0.0
    for _ in range(6 * state.assignments.shape[1]):
        Z, (k, turned) = state.assignments, divmod(tried, 2)
        work += 2 * AFTER_DEATH * X.shape[0] * Z.shape[1] * (Z.shape[1] + X.shape[1])
        if k >= Z.shape[1] or work > DEATH_PRODUCTS:
            break
        Z = np.where(Z[:, [k]] & turned, 1 - Z, Z)  # a sum of features, and the others negative
        other = state._replace(assignments=nonempty(np.delete(Z, k, axis=1)))
        for _ in range(AFTER_DEATH):
            state, info = step(rng, state)
            other, without = step(rng, other)
        tried += 1
        if without.log_joint > info.log_joint:
            state, info, tried = other, without, 0
    return state, info.log_joint
