"""The samplers: that they draw from the posterior, and the limit that connects them to the rest."""

from collections import Counter
from itertools import pairwise
from math import log

import numpy as np
import pytest
from reference.dp_means import dp_means
from reference.dp_mixture import log_posterior, sweep
from reference.ibp import exact_posterior, log_likelihood, log_prior
from reference.ibp import sweep as sweep_buffet
from reference.partitions import all_partitions
from scipy.sparse import csr_array
from scipy.special import logsumexp
from scipy.stats import gamma, invgamma
from sklearn.exceptions import ConvergenceWarning

from madbayes._rows.progress import listening
from madbayes.gibbs import DPMixtureGibbs, IBPGibbs, effective_sample_size, r_hat
from madbayes.gibbs.dp_sampler import State, dp_mixture, log_joint, log_marginal
from madbayes.gibbs.ibp_sampler import State as IBPState
from madbayes.gibbs.ibp_sampler import buffet, harmonic
from madbayes.gibbs.ibp_sampler import log_joint as log_joint_features
from madbayes.gibbs.ibp_sampler import log_marginal as log_marginal_features

RNG = np.random.default_rng(0)
BLOBS = np.repeat([[-4.0, 0], [4, 0], [0, 6]], 30, axis=0) + RNG.normal(size=(90, 2))
FOUR = np.array([[0.0, 0.0], [0.5, 0.2], [1.5, 1.0], [2.0, -1.0]])


def partition_shares(model):
    """How often each partition was drawn."""
    found, count = np.unique(model.label_samples_, axis=0, return_counts=True)
    return {tuple(z): c / count.sum() for z, c in zip(found.tolist(), count, strict=True)}


# Dirichlet process mixture


@pytest.mark.parametrize(("sigma", "alpha"), [(0.5, 0.8), (0.2, 3.0)])
def test_all_partitions_of_four_points_are_drawn_as_often_as_they_should_be(sigma, alpha):
    model = DPMixtureGibbs(sigma, 4.0, alpha, n_iter=30_000, burn_in=100, random_state=0)
    shares = partition_shares(model.fit(FOUR))
    partitions = [tuple(z.tolist()) for z in all_partitions(4)]
    exact = np.array([log_posterior(FOUR, z, sigma, 4.0, alpha) for z in partitions])
    exact = np.exp(exact - logsumexp(exact))
    assert len(partitions) == 15
    np.testing.assert_allclose([shares.get(z, 0.0) for z in partitions], exact, atol=0.01)
    log_alpha = DPMixtureGibbs(sigma, 4.0, None, log(alpha), n_iter=50, random_state=0).fit(FOUR)
    alpha = DPMixtureGibbs(sigma, 4.0, alpha, n_iter=50, random_state=0).fit(FOUR)
    np.testing.assert_array_equal(log_alpha.label_samples_, alpha.label_samples_)


def test_sweeps_are_those_of_a_plain_loop():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 2)) * 2
    for sigma, log_alpha in ((0.1, 1.0), (1.0, -1.0), (0.01, 3.0)):
        sampler = dp_mixture(X, rho=5.0, sigma=sigma, log_alpha=log_alpha)
        state = sampler.init(np.zeros(len(X), int))
        z, means = state.labels, state.means
        ours, plain = np.random.default_rng(2), np.random.default_rng(2)
        for _ in range(15):
            state, info = sampler.step(ours, state)
            z, means = sweep(plain, X, z, means, sigma, 5.0, log_alpha)
            np.testing.assert_array_equal(state.labels, z)
            np.testing.assert_allclose(state.means, means, atol=1e-10)
            here = log_marginal(X, z, sigma, 5.0, log_alpha)
            assert info.log_joint == pytest.approx(here)
            assert here - log_marginal(X, 0 * z, sigma, 5.0, log_alpha) == pytest.approx(
                log_posterior(X, z, sigma, 5.0, np.exp(log_alpha))
                - log_posterior(X, 0 * z, sigma, 5.0, np.exp(log_alpha))
            )


def crp(rng, n, alpha):
    z = [0]
    for i in range(1, n):
        weight = np.append(np.bincount(z), alpha)
        z.append(int(rng.choice(len(weight), p=weight / (i + alpha))))
    return np.array(z)


def mixture_from_the_prior(rng, n, d, rho, priors):
    alpha = rng.gamma(priors[1][0]) / priors[1][1]
    sigma = priors[0][1] / rng.gamma(priors[0][0])
    z = crp(rng, n, alpha)
    means = np.sqrt(rho) * rng.normal(size=(z.max() + 1, d))
    return State(z, means, sigma, log(alpha))


def mixture_statistics(state, X):
    sizes = np.bincount(state.labels)
    alpha, sigma = np.exp(state.log_alpha), state.sigma
    return [len(sizes), sizes[0], alpha / (1 + alpha), np.log(sigma), np.tanh(X[0, 0]), X.std()]


def test_joint_distribution_of_the_mixture():
    """Geweke (2004): drawing (θ, x) from the prior, or x given θ and θ given x in turns."""
    n, d, rho, priors = 5, 1, 2.0, ((4.0, 3.0), (2.0, 2.0))
    rng = np.random.default_rng(3)

    def rows(state):
        noise = rng.normal(size=(n, d))
        return state.means[state.labels] + np.sqrt(state.sigma) * noise

    direct = []
    for _ in range(6000):
        state = mixture_from_the_prior(rng, n, d, rho, priors)
        direct.append(mixture_statistics(state, rows(state)))
    turns = []
    for _ in range(12_000):
        X = rows(state)
        sampler = dp_mixture(
            X, rho=rho, sigma=None, log_alpha=None, sigma_prior=priors[0], alpha_prior=priors[1]
        )
        state, _ = sampler.step(rng, state)
        turns.append(mixture_statistics(state, X))
    assert_same_means(direct, turns)


def assert_same_means(direct, turns):
    direct, turns = np.array(direct), np.array(turns)
    for independent, chain in zip(direct.T, turns.T, strict=True):
        variance = independent.var() / len(independent)
        variance += chain.var() / effective_sample_size(chain)
        assert abs(independent.mean() - chain.mean()) < 4 * np.sqrt(variance)
        assert np.std(chain) == pytest.approx(np.std(independent), rel=0.15)


def test_priors_are_what_is_documented():
    """One row says next to nothing about α, and σ of a wide prior stays where it was."""
    model = DPMixtureGibbs(alpha_prior=(3.0, 2.0), sigma_prior=(4.0, 5.0), rho=1e8)
    model.set_params(n_iter=20_000, random_state=0).fit([[1.0]])
    assert model.alpha_samples_.mean() == pytest.approx(gamma(3, scale=1 / 2).mean(), rel=0.03)
    assert np.median(model.sigma_samples_) == pytest.approx(invgamma(4, scale=5).median(), rel=0.03)


# Indian buffet process


def buffet_shares(model):
    """How often each left-ordered Z was drawn."""
    drawn = Counter(tuple(map(tuple, Z.T.astype(int).tolist())) for Z in model.assignment_samples_)
    return {Z: count / len(model.assignment_samples_) for Z, count in drawn.items()}


def test_all_allocations_of_three_points_are_drawn_as_often_as_they_should_be():
    X = np.array([[1.0, 0.2], [1.2, -0.9], [-0.3, 0.8]])
    model = IBPGibbs(0.7, 0.6, 1.0, n_iter=15_000, burn_in=50, random_state=0).fit(X)
    shares, exact = buffet_shares(model), exact_posterior(X, 0.7, 0.6, 1.0, most=6)
    for Z, probability in exact.items():
        assert shares.get(Z, 0.0) == pytest.approx(probability, abs=0.015)
    number = np.bincount([len(Z) for Z in exact], weights=list(exact.values()))
    drawn = np.bincount(model.n_components_samples_, minlength=7)[:7] / 15_000
    np.testing.assert_allclose(drawn, number, atol=0.015)


def test_number_of_features_before_any_data():
    """E[K] = α·H_n; K is Poisson."""
    model = IBPGibbs(2.0, 1e5, 1.0, n_iter=10_000, burn_in=50, random_state=0)
    K = model.fit(np.zeros((5, 1))).n_components_samples_
    assert K.mean() == pytest.approx(2 * harmonic(5), abs=0.15)
    assert K.var() == pytest.approx(2 * harmonic(5), rel=0.1)


@pytest.mark.parametrize("afresh", [False, True])
def test_sweeps_of_the_buffet_are_those_of_a_plain_loop(afresh):
    rng = np.random.default_rng(4)
    A = np.array([[3.0, 0, 1], [0, 2, -2]])
    X = (rng.random((12, 2)) < 0.5) @ A + 0.5 * rng.normal(size=(12, 3))
    alpha, sigma_x, sigma_a = 1.5, 0.5, 1.2
    sampler = buffet(X, alpha=alpha, sigma_x=sigma_x, sigma_a=sigma_a, afresh=afresh)
    state = sampler.init(np.zeros((12, 0)))
    ours, plain = np.random.default_rng(5), np.random.default_rng(5)
    opened = 0
    for _ in range(12):
        Z = np.hstack([state.assignments, np.zeros((12, 6))])
        before = state.assignments.shape[1]
        uniform = np.hstack([plain.random((12, 1 + before)), plain.random((12, 6))])
        state, info = sampler.step(ours, state)
        expected = sweep_buffet(uniform, X, Z, alpha, sigma_x, sigma_a)
        np.testing.assert_array_equal(state.assignments, expected[:, expected.any(axis=0)])
        opened += state.assignments.shape[1] > before
        here = log_likelihood(X, state.assignments.astype(float), sigma_x, sigma_a)
        here += log_prior(state.assignments, alpha)
        assert info.log_joint == pytest.approx(here)
        assert log_marginal_features(
            X, state.assignments, log(alpha), sigma_x, sigma_a
        ) == pytest.approx(here)
    assert opened > 1


def test_a_row_may_open_more_features_than_there_is_room_for():
    """Many at once: the sweep goes on where it stopped, with the same random numbers."""
    X = np.random.default_rng(0).normal(size=(6, 40))
    sampler = buffet(X, alpha=200.0, sigma_x=1e3, sigma_a=1.0)
    state = sampler.init(np.zeros((6, 0)))
    for _ in range(3):
        state, info = sampler.step(np.random.default_rng(1), state)
        assert state.assignments.any(axis=0).all()
        assert np.isfinite(info.log_joint)
    assert state.assignments.shape[1] > 50


def buffet_from_the_prior(rng, n, priors):
    alpha = rng.gamma(priors[0][0]) / priors[0][1]
    columns = []
    for i in range(n):
        for column in columns:
            column[i] = rng.random() < column.sum() / (i + 1)
        for _ in range(rng.poisson(alpha / (i + 1))):
            columns.append(np.eye(n)[i])
    Z = np.array(columns).reshape(-1, n).T
    return IBPState(
        np.ascontiguousarray(Z, np.uint8), alpha, *(b / rng.gamma(a) for a, b in priors[1:])
    )


def buffet_statistics(state, X):
    Z = state.assignments
    logs = np.log([state.alpha, state.variance_x, state.variance_a])
    return [np.log1p(Z.shape[1]), np.log1p(Z.sum()), *logs, np.tanh(X[0, 0]), np.log(X.std())]


def test_joint_distribution_of_the_buffet():
    """Geweke (2004), as above; the features are drawn anew with the rows."""
    n, d, priors = 4, 2, ((3.0, 3.0), (4.0, 3.0), (4.0, 3.0))
    rng = np.random.default_rng(6)

    def rows(state):
        A = np.sqrt(state.variance_a) * rng.normal(size=(state.assignments.shape[1], d))
        return state.assignments @ A + np.sqrt(state.variance_x) * rng.normal(size=(n, d))

    direct = []
    for _ in range(6000):
        state = buffet_from_the_prior(rng, n, priors)
        direct.append(buffet_statistics(state, rows(state)))
    turns = []
    for _ in range(6000):
        X = rows(state)
        sampler = buffet(
            X,
            alpha=None,
            sigma_x=None,
            sigma_a=None,
            alpha_prior=priors[0],
            sigma_x_prior=priors[1],
            sigma_a_prior=priors[2],
        )
        state, _ = sampler.step(rng, state)
        turns.append(buffet_statistics(state, X))
    assert_same_means(direct, turns)


# The limit


def kj_log_alpha(penalty, sigma, rho, d):
    """KJ 3.1."""
    return d / 2 * np.log1p(rho / sigma) - penalty / (2 * sigma)


@pytest.mark.parametrize("seed", range(5))
def test_a_sweep_becomes_a_pass_of_algorithm_1(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) + 3 * rng.integers(3, size=(60, 1))
    penalty, sigma = 9.0, 1e-9
    log_alpha = kj_log_alpha(penalty, sigma, 100.0, 3)
    sampler = dp_mixture(X, rho=100.0, sigma=sigma, log_alpha=log_alpha)
    state = sampler.init(np.zeros(60, int))
    state, _ = sampler.step(rng, state)
    centers = dp_means(X, penalty, max_iter=1)[1]
    # The reference labels rows again after its last pass; the pass itself is in the centres.
    np.testing.assert_allclose(state.means, means_by_first_row(X, state.labels), atol=1e-3)
    assert sorted(map(tuple, np.round(centers, 6))) == sorted(
        map(tuple, np.round(means_by_first_row(X, state.labels), 6))
    )


def means_by_first_row(X, labels):
    return np.array([X[labels == c].mean(axis=0) for c in range(labels.max() + 1)])


def test_the_chain_becomes_dp_means():
    penalty, sigma = 30.0, 1e-8
    log_alpha = kj_log_alpha(penalty, sigma, 100.0, 2)
    model = DPMixtureGibbs(sigma, log_alpha=log_alpha, n_iter=1, burn_in=30, random_state=0)
    labels = dp_means(BLOBS, penalty)[0]
    order = list(dict.fromkeys(labels))
    np.testing.assert_array_equal(model.fit(BLOBS).labels_, [order.index(c) for c in labels])
    assert model.alpha_samples_[0] == 0  # no float holds it
    assert np.isfinite(model.log_joint_).all()


def test_responsibilities_become_assignments():
    """KJ 2.1, with scikit-learn's mixture."""
    from sklearn.mixture import GaussianMixture

    centers = np.array([[-3.0, 1], [3, 1], [0, 5.0]])
    nearest = ((BLOBS[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    distance = []
    for sigma in (10.0, 1.0, 0.1, 0.01):
        mixture = GaussianMixture(3, covariance_type="spherical")
        mixture.weights_, mixture.means_ = np.array([0.2, 0.5, 0.3]), centers
        mixture.covariances_ = np.full(3, sigma)
        mixture.precisions_cholesky_ = mixture.covariances_**-0.5
        distance.append(np.abs(mixture.predict_proba(BLOBS) - np.eye(3)[nearest]).max())
    assert all(b < a for a, b in pairwise(distance))
    assert distance[-1] < 1e-6


def test_the_density_becomes_the_objective():
    """BKJ Eq. 2 and 8: θ = exp(-λ²/2σ²), and -2σ² log P approaches error + λ²(K - 1)."""
    z = np.repeat([0, 1, 2], 30)
    means = means_by_first_row(BLOBS, z)
    error, penalty = ((BLOBS - means[z]) ** 2).sum(), 20.0
    for density in (
        lambda s: log_joint(BLOBS, z, means, s, 100.0, -penalty / (2 * s)),
        lambda s: log_marginal(BLOBS, z, s, 100.0, -penalty / (2 * s)),
    ):
        gap = [abs(-2 * s * density(s) - error - 2 * penalty) for s in 10.0 ** -np.arange(1, 9)]
        assert all(b < a for a, b in pairwise(gap))
        assert gap[-1] < 1e-4 * error


def test_the_density_of_features_becomes_the_objective():
    """BKJ Eq. 6 and 10: γ = exp(-λ²/2σ²), and -2σ² log P approaches error + λ²K."""
    rng = np.random.default_rng(7)
    Z = np.ascontiguousarray(rng.random((40, 3)) < 0.5, np.uint8)
    X = Z @ rng.normal(size=(3, 5)) + rng.normal(size=(40, 5))
    A = np.linalg.lstsq(Z.astype(float), X, rcond=None)[0]
    error, penalty = ((X - Z @ A) ** 2).sum(), 20.0
    for density in (
        lambda s: log_joint_features(X, Z, A, -penalty / (2 * s**2), s, 3.0),
        lambda s: log_marginal_features(X, Z, -penalty / (2 * s**2), s, 3.0),
    ):
        sigmas = 10.0 ** -np.arange(1, 7)
        gap = [abs(-2 * s**2 * density(s) - error - 3 * penalty) for s in sigmas]
        assert all(b < a for a, b in pairwise(gap))
        assert gap[-1] < 1e-6 * error


# What both are as estimators


def test_attributes_and_prediction_of_the_mixture():
    model = DPMixtureGibbs(n_iter=300, burn_in=100, thin=3, n_chains=2, random_state=0)
    model.fit(BLOBS)
    assert model.label_samples_.shape == (200, 90)
    assert np.bincount(model.chain_).tolist() == [100, 100]
    for name in ("n_clusters_samples_", "alpha_samples_", "sigma_samples_", "log_joint_"):
        assert getattr(model, name).shape == (200,)
    best = int(np.argmax(model.log_joint_))
    np.testing.assert_array_equal(model.labels_, model.label_samples_[best])
    assert model.n_clusters_ == 3
    assert (model.label_samples_.max(axis=1) + 1 == model.n_clusters_samples_).all()
    assert model.cluster_centers_.shape == (3, 2)
    assert np.median(model.sigma_samples_) == pytest.approx(1.0, rel=0.3)
    proba = model.predict_proba(BLOBS)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(BLOBS), proba.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(BLOBS), model.labels_)
    assert set(model.r_hat_) == {"n_clusters", "log_joint", "alpha", "sigma"}
    assert model.r_hat_["sigma"] < 1.1 < 20 < model.effective_sample_size_["sigma"]
    middle = model.predict_proba([[0.0, 0.0]])[0]
    assert 0.02 < middle[0] < 0.98  # between two clusters


A = np.kron(np.eye(3), [1.0, 1, 1])
HAS = np.random.default_rng(1).random((60, 3)) < 0.5
SUMS = HAS @ (3 * A) + 0.3 * np.random.default_rng(2).normal(size=(60, 9))


@pytest.mark.parametrize("init", ["cooled", HAS])
def test_attributes_and_transform_of_the_buffet(init):
    model = IBPGibbs(n_iter=60, burn_in=60, thin=2, n_chains=2, random_state=0, init=init)
    model.fit(SUMS)
    assert model.n_components_ == 3
    for name in ("n_components", "alpha", "sigma_x", "sigma_a"):
        assert getattr(model, f"{name}_samples_").shape == (60,)
    assert model.log_joint_.shape == (60,) and len(model.assignment_samples_) == 60
    shapes = [(60, k) for k in model.n_components_samples_]
    assert [Z.shape for Z in model.assignment_samples_] == shapes
    assert {tuple(map(int, column)) for column in model.assignments_.T} == set(
        map(tuple, HAS.T.astype(int))
    )
    assert (np.diff(model.assignments_.sum(axis=0)) <= 0).all()
    order = np.argsort(model.components_.argmax(axis=1))
    np.testing.assert_allclose(model.components_[order], 3 * A, atol=0.3)
    assert np.median(model.sigma_x_samples_) == pytest.approx(0.3, rel=0.1)
    Z = model.transform(SUMS)
    assert Z.dtype == bool
    np.testing.assert_array_equal(Z, model.assignments_)
    np.testing.assert_allclose(model.inverse_transform(Z), SUMS, atol=1.5)
    with pytest.raises(ValueError, match="2 columns"):
        model.inverse_transform(Z[:, :2])


def test_both_ways_to_compute_give_the_same_chain():
    fits = [
        IBPGibbs(1.0, 0.4, 1.0, n_iter=20, burn_in=0, random_state=3, algorithm=algorithm).fit(SUMS)
        for algorithm in ("accelerated", "collapsed")
    ]
    np.testing.assert_allclose(fits[0].log_joint_, fits[1].log_joint_)


def test_rows_with_many_features_climb_to_theirs():
    rng = np.random.default_rng(0)
    Z = rng.random((80, 14)) < 0.3
    X = Z @ (4 * np.eye(14, 20)) + 0.1 * rng.normal(size=(80, 20))
    model = IBPGibbs(sigma_x=0.1, n_iter=3, burn_in=3, init=Z, random_state=0).fit(X)
    assert model.n_components_ == 14
    np.testing.assert_array_equal(model.transform(X), model.assignments_)


def test_no_feature_at_all():
    model = IBPGibbs(1e-9, 1.0, 1.0, n_iter=5, burn_in=5, random_state=0).fit(np.zeros((4, 2)))
    assert model.n_components_ == 0 and model.components_.shape == (0, 2)
    assert model.transform(np.ones((3, 2))).shape == (3, 0)
    np.testing.assert_array_equal(model.inverse_transform(np.empty((3, 0))), np.zeros((3, 2)))


def test_density_integrates_to_one():
    model = DPMixtureGibbs(0.5, 4.0, 1.0, n_iter=20, burn_in=5, random_state=0).fit(FOUR[:, :1])
    grid = np.linspace(-20, 20, 4001)
    assert np.exp(model.score_samples(grid[:, None])).sum() * 0.01 == pytest.approx(1, abs=1e-6)
    assert model.score([[0.5]]) > model.score([[9.0]])


def test_runs_repeat_for_any_number_of_threads_and_chains():
    def fit(**more):
        return DPMixtureGibbs(n_iter=40, burn_in=5, random_state=7, **more).fit(BLOBS)

    one, two, more = fit(n_chains=2, n_jobs=1), fit(n_chains=2, n_jobs=2), fit(n_chains=3)
    np.testing.assert_array_equal(one.label_samples_, two.label_samples_)
    np.testing.assert_array_equal(one.log_joint_, two.log_joint_)
    np.testing.assert_array_equal(one.log_joint_, more.log_joint_[:80])
    assert not np.array_equal(one.log_joint_[:40], one.log_joint_[40:])
    started = fit(init=np.repeat(["a", "b", "c"], 30))
    assert (started.n_clusters_samples_ >= 3).all()


@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        ({"sigma": 0}, ValueError, "sigma=0 must be a number > 0"),
        ({"sigma": "wide"}, TypeError, "sigma='wide'"),
        ({"rho": -1.0}, ValueError, "rho=-1.0"),
        ({"rho": None}, TypeError, "rho=None"),
        ({"alpha": np.inf}, ValueError, "alpha=inf"),
        ({"alpha": 1.0, "log_alpha": 0.0}, ValueError, "give one of them"),
        ({"log_alpha": -np.inf}, ValueError, "log_alpha=-inf"),
        ({"n_iter": 0}, ValueError, "n_iter=0"),
        ({"burn_in": -1}, ValueError, "burn_in=-1"),
        ({"thin": 9, "n_iter": 5}, ValueError, "thin=9 must be <= n_iter=5"),
        ({"n_chains": 1.5}, TypeError, "n_chains=1.5"),
        ({"init": "many"}, ValueError, "init='many'"),
        ({"sigma_prior": 3.0}, TypeError, "sigma_prior=3.0"),
        ({"alpha_prior": (1.0, 0.0)}, ValueError, "alpha_prior"),
    ],
)
def test_bad_parameters_of_the_mixture(params, error, says):
    with pytest.raises(error, match=says):
        DPMixtureGibbs(**params).fit(FOUR)


@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        ({"alpha": 0}, ValueError, "alpha=0"),
        ({"sigma_x": -1.0}, ValueError, "sigma_x=-1.0"),
        ({"sigma_a": "big"}, TypeError, "sigma_a='big'"),
        ({"algorithm": "slow"}, ValueError, "algorithm='slow'"),
        ({"init": "full"}, ValueError, "init='full'"),
        ({"init": [[2], [0], [1], [1]]}, ValueError, "zeros and ones"),
        ({"sigma_a_prior": (1.0, -1.0)}, ValueError, "sigma_a_prior"),
        ({"n_iter": 2.5}, TypeError, "n_iter=2.5"),
    ],
)
def test_bad_parameters_of_the_buffet(params, error, says):
    with pytest.raises(error, match=says):
        IBPGibbs(**params).fit(FOUR)


def test_weights_are_refused_with_a_reason():
    with pytest.raises(ValueError, match=r"sample_weight.*use BPMeans"):
        IBPGibbs().fit(FOUR, sample_weight=np.ones(4))
    with pytest.raises(TypeError, match="X is sparse"):
        IBPGibbs().fit(csr_array(FOUR))
    with pytest.raises(ValueError, match=r"sample_weight.*Repeat rows"):
        DPMixtureGibbs().fit(FOUR, sample_weight=np.ones(4))
    with pytest.raises(TypeError, match="weights"):
        DPMixtureGibbs().fit(FOUR, weights=np.ones(4))
    DPMixtureGibbs(n_iter=3, burn_in=0).fit(FOUR, sample_weight=None)


def interrupted(model, X, after):
    """Fit, and Ctrl-C when it has told so many times how far it is."""
    calls = []

    def listen(*call):
        calls.append(call)
        if len(calls) > after:
            raise KeyboardInterrupt

    with listening(listen):
        return model.fit(X)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_the_samples_so_far(n_jobs):
    model = DPMixtureGibbs(n_iter=500, burn_in=20, n_chains=2, n_jobs=n_jobs, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"interrupted; \d+ of 1000 samples are kept"):
        interrupted(model, BLOBS, 200)
    assert 100 < len(model.label_samples_) < 1000
    assert model.predict(BLOBS).shape == (90,)
    whole = model.set_params(n_chains=1).fit(BLOBS).label_samples_
    kept = model.label_samples_[: len(whole)]
    np.testing.assert_array_equal(kept, whole[: len(kept)])
    with pytest.warns(ConvergenceWarning, match="during burn-in"):
        interrupted(model, BLOBS, 10)
    assert len(model.label_samples_) == 1
    with pytest.raises(KeyboardInterrupt):
        interrupted(model, BLOBS, 0)


def test_progress_tells_how_far_it_is():
    calls = []
    with listening(lambda *call: calls.append(call)):
        DPMixtureGibbs(n_iter=2400, burn_in=100, n_chains=2, n_jobs=1).fit(FOUR)
    assert {name for name, _, _ in calls} == {"sampling"}
    assert calls[-1][1] == calls[-1][2] and 500 < len(calls) < 2000


# Diagnostics


def test_effective_sample_size_of_a_known_chain():
    rng = np.random.default_rng(0)
    for phi in (0.0, 0.5, 0.9, -0.3):
        noise, chains = rng.normal(size=(4, 20_000)), np.zeros((4, 20_000))
        for t in range(1, 20_000):
            chains[:, t] = phi * chains[:, t - 1] + noise[:, t]
        expected = 80_000 * (1 - phi) / (1 + phi)
        assert effective_sample_size(chains) == pytest.approx(expected, rel=0.1)
        assert r_hat(chains) == pytest.approx(1, abs=0.01)


def test_r_hat_sees_chains_that_differ_or_drift():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 500))
    assert r_hat(draws + np.array([[0], [0], [0], [2]])) > 1.2
    assert r_hat(draws[0] + np.linspace(0, 3, 500)) > 1.2
    assert r_hat(np.exp(9 * draws)) == pytest.approx(r_hat(draws))  # ranks only
    assert r_hat(np.repeat([[0.0], [1.0]], 50, axis=1)) == np.inf
    assert r_hat(np.ones((2, 50))) == 1.0
    assert effective_sample_size(np.ones((2, 50))) == 100
    assert np.isnan(r_hat([1.0, 2.0])) and np.isnan(effective_sample_size([1.0, 2.0, 3.0]))
