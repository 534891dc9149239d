"""`DPMixtureGibbs`: samples of clusterings, by the chains of `dp_sampler`."""

from math import log
from numbers import Real
from typing import Any, Self

import numpy as np

from madbayes.gibbs.base import check_positive, check_prior
from madbayes.gibbs.chains import Sample, run_chains
from madbayes.gibbs.dp_sampler import dp_mixture
from madbayes.gibbs.predictive import PredictiveMixin, check_start, posterior


class DPMixtureGibbs(PredictiveMixin):
    """Samples from the posterior of a Dirichlet process mixture of round Gaussians.

    `DPMeans` is the limit of this model for small variances. The sampler gives many clusterings,
    each as often as it is probable, and so also says how sure the number of clusters is. It takes
    thousands of passes where `DPMeans` takes a few. Means have the prior N(0, ρI): centre X, and
    scale it so that ρ is generous (`sklearn.preprocessing.StandardScaler` does both).

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
