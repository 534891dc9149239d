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
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from madbayes._kernels.gibbs_dp import by_first_row, log_likelihood, sweep
from madbayes.gibbs.base import check_positive, check_prior
from madbayes.gibbs.chains import (
    Sample,
    Sampler,
    draw_inverse_gamma,
    log_gamma,
    log_inverse_gamma,
    run_chains,
)
from madbayes.gibbs.predictive import PredictiveMixin, check_start, posterior

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


class DPMixtureGibbs(PredictiveMixin):
    """Samples from the posterior of a Dirichlet process mixture of round Gaussians.

    What `DPMeans` is the small-variance limit of: not one clustering but many, each as often as it
    is probable, so that it also says how sure the number of clusters is. It takes thousands of
    passes where `DPMeans` takes a few. Means have the prior N(0, ρI): centre X, and scale it so
    that ρ is generous (`sklearn.preprocessing.StandardScaler` does both).

    Parameters
    ----------
    sigma : float or None
        *Variance* of the clusters in every direction. None draws it, with an inverse-gamma prior.
    rho : float, default=100.0
        Variance of the prior of the means, around 0.
    alpha : float or None
        Concentration of the Dirichlet process; the larger, the more clusters. None draws it, with a
        gamma prior, unless `log_alpha` is given.
    log_alpha : float or None
        log α instead, for values that no float holds: of the small-variance limit, say.
    n_iter : int, default=2000
        Sweeps after burn-in.
    burn_in : int, default=1000
        Sweeps before that, not kept.
    thin : int, default=1
        Keep every `thin`-th sweep.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_chains : int, default=1
        Chains; the samples of all are kept, and `r_hat_` tells whether they agree.
    init : "one" or array of labels, default="one"
        Where the chains start: all rows in one cluster (KJ 6.2), or this clustering.
    sigma_prior : (float, float) or None
        Shape and scale of the inverse-gamma prior of σ. None is (2, a tenth of the mean variance of
        the columns of X), whose mean is that scale.
    alpha_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of α.
    n_jobs : int or None
        Threads, for chains side by side; None uses all cores.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        The sample of highest `log_joint_`, clusters numbered by their first row.
    n_clusters_ : int
    cluster_centers_ : array of shape (n_clusters_, n_features)
        Posterior means of the clusters of `labels_`.
    label_samples_ : array of shape (n_samples, n_rows)
        All kept samples, numbered in the same way.
    n_clusters_samples_, alpha_samples_, sigma_samples_, log_joint_ : arrays of shape (n_samples,)
        Of each sample: number of clusters, α, σ, and log P(x, z, σ, α) with the means integrated
        out and priors only of what was drawn.
    center_samples_ : array of shape (sum of n_clusters_samples_, n_features)
        Means of the rows of each cluster, sample after sample.
    chain_ : array of shape (n_samples,)
        Which chain a sample comes from.
    effective_sample_size_, r_hat_ : dict
        Of the traces of "n_clusters", "log_joint", "alpha" and "sigma" (Vehtari et al. 2021).
    sigma_prior_ : (float, float)
    n_features_in_, feature_names_in_

    Notes
    -----
    Ctrl-C ends the sampling early: the samples so far are kept, and a warning says so.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.gibbs import DPMixtureGibbs
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[-4.0, 0], [4, 0], [0, 6]], 30, axis=0) + rng.normal(size=(90, 2))
    >>> model = DPMixtureGibbs(sigma=1.0, alpha=1.0, n_iter=500, random_state=0).fit(X)
    >>> model.n_clusters_
    3
    >>> print(f"{(model.n_clusters_samples_ == 3).mean():.1f}")  # not the only answer
    0.8
    """

    def __init__(
        self,
        sigma: float | None = None,
        rho: float = 100.0,
        alpha: float | None = None,
        log_alpha: float | None = None,
        n_iter: int = 2000,
        burn_in: int = 1000,
        thin: int = 1,
        random_state: Any = None,
        *,
        n_chains: int = 1,
        init: Any = "one",
        sigma_prior: tuple[float, float] | None = None,
        alpha_prior: tuple[float, float] = (1.0, 1.0),
        n_jobs: int | None = None,
    ) -> None:
        self.sigma = sigma
        self.rho = rho
        self.alpha = alpha
        self.log_alpha = log_alpha
        self.n_iter = n_iter
        self.burn_in = burn_in
        self.thin = thin
        self.random_state = random_state
        self.n_chains = n_chains
        self.init = init
        self.sigma_prior = sigma_prior
        self.alpha_prior = alpha_prior
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Draw samples of the clustering of the rows of X."""
        X = self._check_table(X, params)
        plan = self._plan()
        sigma = check_positive("sigma", self.sigma, "It is the variance of the clusters.")
        rho = check_positive("rho", self.rho, "It is the variance of the prior of the means.")
        if rho is None:
            raise TypeError(
                "rho=None must be a number > 0: the variance of the prior of the means."
            )
        scale = 0.1 * float(X.var(axis=0).mean())
        self.sigma_prior_ = check_prior("sigma_prior", self.sigma_prior, (2.0, scale or rho))
        sampler = dp_mixture(
            X,
            rho=rho,
            sigma=sigma,
            log_alpha=self._check_log_alpha(),
            sigma_prior=self.sigma_prior_,
            alpha_prior=check_prior("alpha_prior", self.alpha_prior, (1.0, 1.0)),
        )
        start = sampler.init(check_start(self.init, len(X)))
        samples = run_chains(lambda rng: start, sampler.step, plan, self.random_state, self.n_jobs)
        self._store(samples, rho)
        return self

    def _check_log_alpha(self) -> float | None:
        alpha = check_positive("alpha", self.alpha, "It is the concentration; log_alpha= is log α.")
        if self.log_alpha is None:
            return None if alpha is None else log(alpha)
        if alpha is not None:
            raise ValueError(
                f"alpha={self.alpha!r} and log_alpha={self.log_alpha!r} say the same thing twice: "
                "give one of them."
            )
        if isinstance(self.log_alpha, bool) or not isinstance(self.log_alpha, Real):
            raise TypeError(f"log_alpha={self.log_alpha!r} must be a finite number, or None.")
        if not np.isfinite(self.log_alpha):
            raise ValueError(f"log_alpha={self.log_alpha!r} must be a finite number, or None.")
        return float(self.log_alpha)

    def _store(self, samples: list[Sample], rho: float) -> None:
        states, infos = [s.state for s in samples], [s.info for s in samples]
        self.label_samples_ = np.array([state.labels for state in states], dtype=np.int32)
        self.n_clusters_samples_ = np.array([len(info.sizes) for info in infos])
        self._log_alpha = np.array([state.log_alpha for state in states])
        with np.errstate(over="ignore", under="ignore"):
            self.alpha_samples_ = np.exp(self._log_alpha)
        self.sigma_samples_ = np.array([state.sigma for state in states])
        self.log_joint_ = np.array([info.log_joint for info in infos])
        self.center_samples_ = np.concatenate([info.mean for info in infos])
        best = int(np.argmax(self.log_joint_))
        self.labels_ = self.label_samples_[best].copy()
        self.n_clusters_ = int(self.n_clusters_samples_[best])
        center, _ = posterior(infos[best].mean, infos[best].sizes, states[best].sigma, rho)
        self.cluster_centers_ = center.astype(self._dtype)
        names = ("n_clusters_samples_", "log_joint_", "alpha_samples_", "sigma_samples_")
        self._judge(samples, names)
