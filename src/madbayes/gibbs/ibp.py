"""`IBPGibbs`: samples of features, by the chains of `ibp_sampler`."""

from functools import partial
from typing import Any, Self

import numpy as np

from madbayes._rows.checks import check_choice
from madbayes.gibbs.allocation import AllocationMixin, Posterior, check_start, left_ordered
from madbayes.gibbs.base import check_positive, check_prior
from madbayes.gibbs.chains import Sample, run_chains
from madbayes.gibbs.ibp_sampler import State, buffet, cooled

STARTS = 4  # of which the one of highest density is taken


class IBPGibbs(AllocationMixin):
    """Samples from the posterior of an Indian buffet process: rows as sums of features.

    `BPMeans` is the limit of this model for small variances. The sampler gives many sets of
    features, each as often as it is probable, and so also says how sure the number of features is.
    A chain changes one row's features at a time and can stay in a poor place for very long, mostly
    with too many features: compare the `log_joint_` of several `n_chains`, or start from the
    features of `BPMeans` (`init`).

    Parameters
    ----------
    alpha : float or None
        Mass of the process: α·(1 + 1/2 + … + 1/n) features are expected before any data. None draws
        it, with a gamma prior.
    sigma_x : float or None
        Standard deviation of the noise. None draws its square, with an inverse-gamma prior.
    sigma_a : float or None
        Standard deviation of the values of the features, around 0. None draws its square, with an
        inverse-gamma prior.
    n_iter : int, default=1000
        Sweeps after burn-in.
    burn_in : int, default=500
        Sweeps before that, not kept.
    thin : int, default=1
        Keep every `thin`-th sweep.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    algorithm : {"accelerated", "collapsed"}, default="accelerated"
        How the rows are weighed: what is known of the features is carried along from row to row, or
        computed anew for each (slower). The chain is the same up to rounding.
    n_chains : int, default=1
        Chains; the samples of all are kept, and `r_hat_` tells whether they agree.
    init : {"cooled", "empty"} or array of shape (n_rows, number of features), default="cooled"
        Where the chains start: "cooled" is no feature and 100 sweeps while the noise falls from all
        of X to `sigma_x` (or what its prior expects), then tries without each feature, and the
        best of four such starts; "empty" is no feature; an array says which
        rows have which feature (`assignments_` of a `BPMeans`, say).
    alpha_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of α.
    sigma_x_prior, sigma_a_prior : (float, float) or None
        Shape and scale of the inverse-gamma priors of the *squares* of σ_x and σ_a. None is
        (2, s/10) and (2, s), where s is the mean square of the values of X.
    n_jobs : int or None
        Threads, for chains side by side; None uses all cores.

    Attributes
    ----------
    assignments_ : bool array of shape (n_rows, n_components_)
        Which features each row has in the sample of highest `log_joint_`; the features that most
        rows have first.
    components_ : array of shape (n_components_, n_features)
        Posterior means of those features.
    n_components_ : int
        May be 0.
    assignment_samples_ : list of bool arrays of shape (n_rows, number of features)
        All kept samples, in left-ordered form.
    n_components_samples_, alpha_samples_, sigma_x_samples_, sigma_a_samples_, log_joint_ : arrays
        Of each sample: number of features, α, σ_x, σ_a, and log P(X, Z) with the features
        integrated out, with the priors of what was drawn.
    chain_ : array of shape (n_samples,)
        Which chain a sample comes from.
    effective_sample_size_, r_hat_ : dict
        Of the traces of "n_components", "log_joint", "alpha", "sigma_x" and "sigma_a".
    sigma_x_prior_, sigma_a_prior_ : (float, float)
    n_features_in_, feature_names_in_

    Notes
    -----
    Ctrl-C ends the sampling early: the samples so far are kept, and a warning says so.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.gibbs import IBPGibbs
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.random((60, 2)) < 0.5
    >>> X = Z @ [[5.0, 0, 5], [0, 4, -4]] + 0.3 * rng.normal(size=(60, 3))
    >>> model = IBPGibbs(n_iter=200, random_state=0).fit(X)
    >>> model.n_components_
    2
    """

    def __init__(
        self,
        alpha: float | None = None,
        sigma_x: float | None = None,
        sigma_a: float | None = None,
        n_iter: int = 1000,
        burn_in: int = 500,
        thin: int = 1,
        random_state: Any = None,
        *,
        algorithm: str = "accelerated",
        n_chains: int = 1,
        init: Any = "cooled",
        alpha_prior: tuple[float, float] = (1.0, 1.0),
        sigma_x_prior: tuple[float, float] | None = None,
        sigma_a_prior: tuple[float, float] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.sigma_x = sigma_x
        self.sigma_a = sigma_a
        self.n_iter = n_iter
        self.burn_in = burn_in
        self.thin = thin
        self.random_state = random_state
        self.algorithm = algorithm
        self.n_chains = n_chains
        self.init = init
        self.alpha_prior = alpha_prior
        self.sigma_x_prior = sigma_x_prior
        self.sigma_a_prior = sigma_a_prior
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Draw samples of the features of the rows of X."""
        X = self._check_table(X, params)
        plan = self._plan()
        algorithm = check_choice("algorithm", self.algorithm, "accelerated", "collapsed")
        scale = float((X**2).mean()) or 1.0
        self.sigma_x_prior_ = check_prior("sigma_x_prior", self.sigma_x_prior, (2.0, scale / 10))
        self.sigma_a_prior_ = check_prior("sigma_a_prior", self.sigma_a_prior, (2.0, scale))
        alpha = check_positive("alpha", self.alpha, "It is the mass of the process.")
        sigma_x = check_positive("sigma_x", self.sigma_x, "It is the noise, not squared.")
        make = partial(
            buffet,
            X,
            sigma_a=check_positive("sigma_a", self.sigma_a, "It is the size of features."),
            alpha_prior=check_prior("alpha_prior", self.alpha_prior, (1.0, 1.0)),
            sigma_x_prior=self.sigma_x_prior_,
            sigma_a_prior=self.sigma_a_prior_,
            afresh=algorithm == "collapsed",
        )
        sampler = make(alpha=alpha, sigma_x=sigma_x)
        first = sampler.init(check_start(self.init, len(X)))

        def start(rng: np.random.Generator) -> State:
            if not isinstance(self.init, str) or self.init != "cooled":
                return first
            # Any sigma_x: that of the state counts, and it is not drawn.
            cooling = make(alpha=alpha or 1.0, sigma_x=1.0).step
            starts = [cooled(rng, X, first, cooling, sampler.step) for _ in range(STARTS)]
            return max(starts, key=lambda start: start[1])[0]

        samples = run_chains(start, sampler.step, plan, self.random_state, self.n_jobs)
        self._store(samples, X)
        return self

    def _store(self, samples: list[Sample], X: np.ndarray) -> None:
        states = [s.state for s in samples]
        self.assignment_samples_ = [left_ordered(state.assignments) for state in states]
        self.n_components_samples_ = np.array([state.assignments.shape[1] for state in states])
        self.alpha_samples_ = np.array([state.alpha for state in states])
        self.sigma_x_samples_ = np.sqrt([state.variance_x for state in states])
        self.sigma_a_samples_ = np.sqrt([state.variance_a for state in states])
        self.log_joint_ = np.array([s.info.log_joint for s in samples])
        best = states[int(np.argmax(self.log_joint_))]
        order = np.argsort(-best.assignments.sum(axis=0, dtype=int), kind="stable")
        Z = best.assignments[:, order]
        features = Posterior(X, Z, best.variance_x / best.variance_a)
        self._precision, self._variance = best.variance_x / best.variance_a, best.variance_x
        self.assignments_ = Z.astype(bool)
        self.n_components_ = Z.shape[1]
        self.components_ = features.mean.astype(self._dtype)
        names = ("n_components_samples_", "log_joint_", "alpha_samples_")
        self._judge(samples, (*names, "sigma_x_samples_", "sigma_a_samples_"))
