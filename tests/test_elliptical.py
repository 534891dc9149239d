"""EllipticalMeans: the objective of BKJ Sup. E, by plain loops and by what must hold."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import elliptical as plain
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from madbayes import EllipticalMeans, KMeans
from madbayes.cluster.elliptical import objective


def ellipses(n=60, seed=0, d=2, k=3):
    """k clusters of different directions and lengths, and their labels."""
    r = np.random.default_rng(seed)
    z = np.arange(n) % k
    X = np.empty((n, d))
    for c in range(k):
        axes = np.linalg.qr(r.normal(size=(d, d)))[0] * r.uniform(0.4, 2.5, d)
        X[z == c] = r.normal(size=((z == c).sum(), d)) @ axes.T + r.normal(size=d) * 6
    return X, z


def standardized(X, w=None):
    mean = np.average(X, axis=0, weights=w)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    return (X - mean) / np.where(deviation > 0, deviation, 1)


def weights(n, seed=1):
    return np.random.default_rng(seed).integers(1, 4, n).astype(float)


OPEN = {"penalty": 2.0, "reg_covar": 0.05}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{"n_clusters": 3}, OPEN], ids=str)
def test_the_objective_is_the_formula(seed, options):
    X, _ = ellipses(seed=seed)
    w = weights(len(X), seed)
    for algorithm in ("search", "paper"):
        for own in (None, 7.0):
            model = EllipticalMeans(
                **options, covariance_penalty=own, algorithm=algorithm, random_state=0
            ).fit(X, sample_weight=w)
            phi = model.reg_covar * w.sum()
            lam = model.covariance_penalty_
            assert lam == (own or phi)
            Y = standardized(X, w)
            value = plain.of_division(Y, model.labels_, w, phi, lam, model.penalty_)
            assert model.objective_ == pytest.approx(value, rel=1e-9)
            assert objective(Y, model.labels_, w, phi, lam, model.penalty_) == pytest.approx(value)
            assert (np.diff(model.objective_history_) <= 0).all()
            means, covariances = plain.parameters(Y, model.labels_, w, phi, lam)
            deviation = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, 0, w))
            expected = np.array(covariances) * np.outer(deviation, deviation)
            np.testing.assert_allclose(model.covariances_, expected, rtol=1e-7)
            d2 = [
                w[i] * plain.squared(Y[i], means[c], covariances[c])
                for i, c in enumerate(model.labels_)
            ]
            assert model.inertia_ == pytest.approx(sum(d2), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_as_printed_with_a_fixed_number(seed):
    X, _ = ellipses(seed=seed, d=3)
    w = weights(len(X), seed)
    first = KMeans(3, random_state=np.random.RandomState(0).randint(2**31 - 1)).fit(
        standardized(X, w), sample_weight=w
    )
    model = EllipticalMeans(3, algorithm="paper", random_state=0, min_cluster_size=1)
    model.fit(X, sample_weight=w)
    phi = model.reg_covar * w.sum()
    labels, history = plain.alternate(standardized(X, w), first.labels_, w, phi, phi)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.3, 1.0, 4.0, 50.0])
def test_as_printed_with_a_penalty(penalty):
    X, _ = ellipses(seed=2)
    w = weights(len(X), 3)
    model = EllipticalMeans(penalty=penalty, reg_covar=0.1, algorithm="paper")
    model.fit(X, sample_weight=w)
    phi = 0.1 * w.sum()
    labels, history = plain.alternate(
        standardized(X, w), np.zeros(60, dtype=int), w, phi, phi, penalty
    )
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [{"n_clusters": 3}, {"n_clusters": 6}, OPEN], ids=str)
def test_the_search_ends_where_no_change_helps(seed, options):
    X, _ = ellipses(30, seed)
    X = np.round(X, 1) if seed % 2 else X
    w = weights(len(X), seed)
    model = EllipticalMeans(**options, random_state=0).fit(X, sample_weight=w)
    phi = model.reg_covar * w.sum()
    around = plain.lowest_neighbour(
        standardized(X, w), model.labels_, w, phi, phi, model.penalty_, least=3
    )
    assert model.objective_ <= around + 1e-8
    if model.penalty_:  # clusters that must keep their rows may keep some that are nearer elsewhere
        np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("algorithm", ["search", "paper"])
def test_never_more_clusters_than_allowed(algorithm):
    X, _ = ellipses(80, 5)
    free = EllipticalMeans(penalty=0.1, algorithm=algorithm, random_state=0).fit(X)
    assert free.n_clusters_ > 9
    for most in (1, 4, 9):
        capped = EllipticalMeans(most, penalty=0.1, algorithm=algorithm, random_state=0).fit(X)
        assert capped.n_clusters_ <= most
        assert capped.objective_ >= free.objective_


def test_the_search_is_not_above_the_printed_steps():
    for seed in range(10):
        X, _ = ellipses(200, seed)
        for options in ({"n_clusters": 3}, OPEN):
            found = EllipticalMeans(**options, random_state=0).fit(X)
            printed = EllipticalMeans(**options, algorithm="paper", random_state=0).fit(X)
            assert found.objective_ <= printed.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_ellipses_that_lie_apart_are_found_better_than_by_k_means(seed):
    r = np.random.default_rng(seed)
    z = np.arange(600) % 4
    X = r.normal(size=(600, 2)) * [3, 0.7]
    for c in range(4):
        angle = r.uniform(0, np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        X[z == c] = X[z == c] @ turn + 9 * np.array([c // 2, c % 2])
    round_ = KMeans(4, n_init=5, random_state=0).fit(standardized(X))
    model = EllipticalMeans(4, reg_covar=0.02, random_state=0).fit(X)
    found = adjusted_rand_score(z, model.labels_)
    assert found > adjusted_rand_score(z, round_.labels_) and found > 0.85
    assert EllipticalMeans(penalty=20.0, reg_covar=0.05, random_state=0).fit(X).n_clusters_ == 4


def test_a_large_phi_is_k_means_on_standardized_columns():
    X, _ = ellipses(300, 4, d=3, k=4)
    ours = EllipticalMeans(4, reg_covar=1e7, random_state=0).fit(X)
    Y = standardized(X)
    start = np.array([Y[ours.labels_ == c].mean(axis=0) for c in range(4)])
    theirs = KMeans(4, init=start, tol=0).fit(Y)
    assert ours.objective_ == pytest.approx(theirs.inertia_, rel=1e-5)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.objective_ <= KMeans(4, random_state=0).fit(Y).inertia_ * (1 + 1e-5)


@pytest.mark.parametrize("options", [{"n_clusters": 3}, OPEN], ids=str)
def test_units_weights_threads_and_places(options):
    X, _ = ellipses(150, 7, d=3)
    model = EllipticalMeans(**options, random_state=0, n_jobs=1)
    labels = model.fit(X).labels_
    objective = model.objective_
    for other in (X + 1e6, X * [1e-3, 1, 1e4], np.asfortranarray(X), X.astype(np.float32)):
        np.testing.assert_array_equal(model.fit(other).labels_, labels)
        assert model.objective_ == pytest.approx(objective, rel=1e-5)
    assert model.set_params(n_jobs=2).fit(X).objective_ == objective
    w = np.random.default_rng(0).integers(0, 3, 150)
    weighted = model.fit(X, sample_weight=w)
    value, found = weighted.objective_, weighted.labels_
    repeated = model.fit(np.repeat(X, w, axis=0))
    assert repeated.objective_ == pytest.approx(value, rel=1e-9)
    np.testing.assert_array_equal(repeated.labels_, np.repeat(found, w))
    assert model.fit(X[w > 0], sample_weight=w[w > 0]).objective_ == pytest.approx(value, rel=1e-12)


def test_constant_columns_equal_rows_and_one_row():
    X, _ = ellipses()
    flat = np.c_[X, np.full(len(X), 5.0)]
    np.testing.assert_array_equal(
        EllipticalMeans(3, random_state=0, min_cluster_size=3).fit(flat).labels_,
        EllipticalMeans(3, random_state=0, min_cluster_size=3).fit(X).labels_,
    )
    for model in (EllipticalMeans(1), EllipticalMeans(penalty=1.0)):
        assert model.fit([[3.0]]).labels_.tolist() == [0]
        assert model.fit(np.full((9, 2), 0.1)).objective_ == pytest.approx(model.penalty_)
        assert np.isfinite(model.covariances_).all()
    assert EllipticalMeans(penalty=1e9).fit(X).n_clusters_ == 1


def test_predict_transform_and_novel_rows():
    X, _ = ellipses(150, 7)
    model = EllipticalMeans(penalty=1.0, reg_covar=0.05, random_state=0).fit(X)
    D = model.transform(X)
    for c in range(model.n_clusters_):
        u = X - model.cluster_centers_[c]
        d2 = np.einsum("ij,jk,ik->i", u, np.linalg.inv(model.covariances_[c]), u)
        np.testing.assert_allclose(D[:, c], np.sqrt(d2), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), D.argmin(axis=1))
    far = X.mean(axis=0) + 1e3
    assert model.predict([far], novel="paper")[0] == -1
    assert model.predict([far])[0] >= 0
    np.testing.assert_array_equal(
        model.predict(X, novel="paper") == -1, D.min(axis=1) ** 2 > model.penalty_
    )
    assert model.score(X) == pytest.approx(-(D.min(axis=1) ** 2).sum())
    with pytest.raises(ValueError, match="no penalty"):
        EllipticalMeans(2).fit(X).predict(X, novel="paper")


@pytest.mark.parametrize(
    ("model", "error", "says"),
    [
        (EllipticalMeans(), ValueError, "give a number of clusters, or the cost"),
        (EllipticalMeans(61), ValueError, "n_clusters=61 must be <= n_samples=60"),
        (EllipticalMeans(2.0), TypeError, "n_clusters=2.0"),
        (EllipticalMeans(penalty=-1.0), ValueError, "penalty=-1.0"),
        (EllipticalMeans(2, reg_covar=0), ValueError, "reg_covar=0 must be a number > 0"),
        (EllipticalMeans(2, reg_covar="x"), ValueError, "reg_covar='x'"),
        (EllipticalMeans(2, covariance_penalty=-1), ValueError, "covariance_penalty=-1"),
        (EllipticalMeans(2, min_cluster_size=0), ValueError, "min_cluster_size=0"),
        (EllipticalMeans(2, algorithm="em"), ValueError, "algorithm='em'"),
        (EllipticalMeans(2, max_iter=0), ValueError, "max_iter=0"),
    ],
    ids=str,
)
def test_bad_parameters(model, error, says):
    with pytest.raises(error, match=says):
        model.fit(ellipses()[0])


def test_sparse_rows_and_too_few_passes():
    X, _ = ellipses(200, 1)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        EllipticalMeans(2).fit(sp.csr_array(X))
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        EllipticalMeans(7, max_iter=1, random_state=0).fit(X)
