"""EllipticalMeans: its two objectives, by plain loops and by what must hold."""

import numpy as np
import pytest
import scipy.sparse as sp
from data import data_table
from reference import classification as plain
from reference import elliptical as printed
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from madbayes import EllipticalMeans, KMeans
from madbayes.elliptical import path as elliptical_path
from madbayes.elliptical import search as elliptical_search
from madbayes.elliptical.paper import objective


def ellipses(n=60, seed=0, d=2, k=3, apart=6):
    """k clusters of different directions and lengths, and their labels."""
    r = np.random.default_rng(seed)
    z = np.arange(n) % k
    X = np.empty((n, d))
    for c in range(k):
        axes = np.linalg.qr(r.normal(size=(d, d)))[0] * r.uniform(0.4, 2.5, d)
        X[z == c] = r.normal(size=((z == c).sum(), d)) @ axes.T + r.normal(size=d) * apart
    return X, z


def standardized(X, w=None):
    mean = np.average(X, axis=0, weights=w)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    return (X - mean) / np.where(deviation > 0, deviation, 1)


def weights(n, seed=1):
    return np.random.default_rng(seed).integers(1, 4, n).astype(float)


def chosen(**options):
    return EllipticalMeans(random_state=0, **options)


# The search

WAYS = [{"n_clusters": 3}, {"penalty": 20.0}, {}, {"n_clusters_hint": 4}]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_the_objective_is_the_formula(seed, options):
    X, _ = ellipses(seed=seed)
    w = weights(len(X), seed)
    Y = standardized(X, w)
    for nu, share in ((None, 0.1), (4.0, 0.3)):
        model = chosen(**options, covariance_penalty=nu, reg_covar=share).fit(X, sample_weight=w)
        assert model.covariance_penalty_ == (nu or 1.0)
        nu = nu or 1.0
        value = plain.objective(Y, model.labels_, w, share * nu, nu, model.penalty_)
        assert model.objective_ == pytest.approx(value, rel=1e-9, abs=1e-6)
        assert (np.diff(model.objective_history_) <= 0).all()
        means, covariances, shares = plain.parameters(Y, model.labels_, w, share * nu, nu)
        deviation = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, 0, w))
        expected = np.array(covariances) * np.outer(deviation, deviation)
        np.testing.assert_allclose(model.covariances_, expected, rtol=1e-7)
        np.testing.assert_allclose(model.weights_, shares)
        u = Y - np.array(means)[model.labels_]
        A = np.linalg.inv(np.array(covariances))[model.labels_]
        assert model.inertia_ == pytest.approx(float(w @ np.einsum("ij,ijk,ik->i", u, A, u)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [*WAYS[:3], {"n_clusters": 6}], ids=str)
def test_the_search_ends_where_no_change_helps(seed, options):
    X, _ = ellipses(30, seed)
    X = np.round(X, 1) if seed % 2 else X
    w = weights(len(X), seed)
    model = chosen(**options).fit(X, sample_weight=w)
    Y = standardized(X, w)
    around = plain.lowest_neighbour(Y, model.labels_, w, 0.1, 1.0, model.penalty_)
    assert model.objective_ <= around + 1e-6
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(plain.most_likely(Y, model.labels_, w, 0.1, 1.0), model.labels_)


def test_the_search_is_not_above_the_truth_and_patience_helps():
    for seed in range(4):
        X, z = ellipses(120, seed, apart=3)
        truth = plain.objective(standardized(X), z, np.ones(120), 0.1, 1.0, 0.0)
        usual = EllipticalMeans(3, random_state=0).fit(X)
        more = EllipticalMeans(3, random_state=0, n_init=2).fit(X)
        assert more.objective_ <= min(truth, usual.objective_)


def test_ellipses_that_cross_or_lie_side_by_side_are_told_apart():
    r = np.random.default_rng(0)
    z = np.arange(600) % 2
    cross = r.normal(size=(600, 2)) * np.where(z[:, None] == 0, [6, 0.6], [0.6, 6])
    assert adjusted_rand_score(z, chosen().fit_predict(cross)) > 0.7
    stripes = np.c_[r.normal(size=600) * 6, r.normal(size=600) * 0.5 + 4 * z]
    turned = stripes @ np.array([[0.8, -0.6], [0.6, 0.8]])
    assert adjusted_rand_score(z, chosen().fit_predict(turned)) > 0.98


def test_iris_and_other_tables():
    X, y = data_table("uci/iris.csv.gz")
    for seed in range(3):
        model = EllipticalMeans(3, random_state=seed).fit(X)
        assert adjusted_rand_score(y, model.labels_) > 0.88
    X, y = data_table("uci/wine.csv.gz")
    assert adjusted_rand_score(y, EllipticalMeans(3, n_init=5, random_state=0).fit(X).labels_) > 0.7


# How many


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("k", [2, 4, 7])
def test_auto_finds_ellipses_that_are_apart(d, k):
    X, z = ellipses(150 * k, 10 * d + k, d=d, k=k, apart=40)
    model = chosen().fit(X)
    assert model.n_clusters_ == k and model.evidence_.strength == "strong"
    assert adjusted_rand_score(z, model.labels_) > 0.98
    price = (d * (d + 3) / 2 + 1) * np.log(len(X))
    assert model.penalty_ == model.evidence_.penalty == pytest.approx(price)
    assert model.path_.number[model.path_.at(model.penalty_)] == k


@pytest.mark.parametrize("shape", [(40, 2), (300, 1), (300, 6), (60, 20)])
def test_auto_finds_nothing_in_noise(shape):
    for seed in range(4):
        r = np.random.default_rng(seed)
        X = r.normal(size=shape) @ r.normal(size=(shape[1], shape[1]))
        model = chosen().fit(X)
        assert model.n_clusters_ == model.evidence_.n_clusters == 1
        assert model.evidence_.strength == "none"


def test_evidence_says_what_was_done_and_is_forgotten():
    X, _ = ellipses(300, 3)
    for algorithm in ("search", "paper"):
        for options in ({}, {"n_clusters_hint": 6}, {"max_clusters": 2}):
            model = chosen(algorithm=algorithm, **options).fit(X)
            assert model.n_clusters_ == model.evidence_.n_clusters
            assert model.evidence_.penalty == model.penalty_ > 0
            assert model.path_.best() == model.evidence_
    assert 4 <= chosen(n_clusters_hint=6).fit(X).n_clusters_ <= 9
    whole = chosen(n_clusters_hint=1).fit(X)
    assert (whole.n_clusters_, whole.evidence_.reason) == (1, "no other number was allowed")
    model = chosen().fit(X)
    assert model.n_clusters_ == 3
    for options in ({"n_clusters": 3}, {"penalty": 9.0}):
        refit = chosen().fit(X).set_params(**options).fit(X)
        assert not hasattr(refit, "evidence_") and not hasattr(refit, "path_")


def test_the_sample_of_many_rows_counts_as_what_it_is(monkeypatch):
    """A row of the sample that stood for 20 would repay a covariance with few others."""
    monkeypatch.setattr(elliptical_search, "SAMPLE", 400)
    numbers = []
    search = elliptical_path.search

    def noted(space, *given, **how):
        found = search(space, *given, **how)
        numbers.append((len(space.Y), found[0].k))
        return found

    monkeypatch.setattr(elliptical_path, "search", noted)
    rng = np.random.default_rng(0)
    X = 6 * rng.normal(size=(4, 6))[rng.integers(4, size=8000)] + rng.normal(size=(8000, 6))
    model = EllipticalMeans(random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert numbers[0] == (400, 4)


def test_many_rows_are_sampled_and_all_of_them_settled(monkeypatch):
    X, z = ellipses(900, 3, apart=40)
    monkeypatch.setattr(elliptical_search, "SAMPLE", 300)
    for options in ({}, {"n_clusters": 3}, {"penalty": 60.0}):
        model = chosen(**options).fit(X)
        assert adjusted_rand_score(z, model.labels_) > 0.98
        np.testing.assert_array_equal(model.predict(X), model.labels_)


# As printed

OPEN = {"penalty": 2.0, "reg_covar": 0.05}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{"n_clusters": 3}, OPEN], ids=str)
def test_the_printed_objective_is_the_formula(seed, options):
    X, _ = ellipses(seed=seed)
    w = weights(len(X), seed)
    for own in (None, 7.0):
        model = chosen(**options, covariance_penalty=own, algorithm="paper").fit(X, sample_weight=w)
        phi = model.reg_covar * w.sum()
        lam = model.covariance_penalty_
        assert lam == (own or phi)
        Y = standardized(X, w)
        value = printed.of_division(Y, model.labels_, w, phi, lam, model.penalty_)
        assert model.objective_ == pytest.approx(value, rel=1e-9)
        assert objective(Y, model.labels_, w, phi, lam, model.penalty_) == pytest.approx(value)
        assert (np.diff(model.objective_history_) <= 0).all()
        _, covariances = printed.parameters(Y, model.labels_, w, phi, lam)
        deviation = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, 0, w))
        expected = np.array(covariances) * np.outer(deviation, deviation)
        np.testing.assert_allclose(model.covariances_, expected, rtol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_as_printed_with_a_fixed_number(seed):
    X, _ = ellipses(seed=seed, d=3)
    w = weights(len(X), seed)
    first = KMeans(3, random_state=np.random.RandomState(0).randint(2**31 - 1)).fit(
        standardized(X, w), sample_weight=w
    )
    model = chosen(n_clusters=3, algorithm="paper", min_cluster_size=1)
    model.fit(X, sample_weight=w)
    phi = model.reg_covar * w.sum()
    labels, history = printed.alternate(standardized(X, w), first.labels_, w, phi, phi)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.3, 1.0, 4.0, 50.0])
def test_as_printed_with_a_penalty(penalty):
    X, _ = ellipses(seed=2)
    w = weights(len(X), 3)
    model = EllipticalMeans(penalty=penalty, reg_covar=0.1, algorithm="paper")
    model.fit(X, sample_weight=w)
    phi = 0.1 * w.sum()
    labels, history = printed.alternate(
        standardized(X, w), np.zeros(60, dtype=int), w, phi, phi, penalty
    )
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-9)


# Equalities and odd input


@pytest.mark.parametrize("algorithm", ["search", "paper"])
def test_never_more_clusters_than_allowed(algorithm):
    X, _ = ellipses(80, 5)
    free = chosen(penalty=0.1, algorithm=algorithm).fit(X)
    assert free.n_clusters_ > 5
    for most in (1, 4):
        capped = chosen(penalty=0.1, max_clusters=most, algorithm=algorithm).fit(X)
        assert capped.n_clusters_ <= most
        assert capped.objective_ >= free.objective_
        same = chosen(n_clusters=most, penalty=0.1, algorithm=algorithm).fit(X)
        np.testing.assert_array_equal(same.labels_, capped.labels_)


@pytest.mark.parametrize("options", WAYS[:3], ids=str)
def test_units_weights_threads_and_places(options):
    X, _ = ellipses(150, 7, d=3, apart=20)
    model = chosen(**options, n_jobs=1)
    labels = model.fit(X).labels_
    value = model.objective_
    for other in (X + 1e6, X * [1e-3, 1, 1e4], np.asfortranarray(X), X.astype(np.float32)):
        np.testing.assert_array_equal(model.fit(other).labels_, labels)
        assert model.objective_ == pytest.approx(value, rel=1e-5)
    assert model.set_params(n_jobs=2).fit(X).objective_ == value
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(model.fit(X[order]).labels_, labels[order])
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
        chosen(n_clusters=3).fit(flat).labels_, chosen(n_clusters=3).fit(X).labels_
    )
    for algorithm in ("search", "paper"):
        for options in ({"n_clusters": 1}, {"penalty": 1.0}, {}):
            model = chosen(**options, algorithm=algorithm)
            assert model.fit([[3.0]]).labels_.tolist() == [0]
            assert model.fit(np.full((9, 2), 0.1)).n_clusters_ == 1
            assert np.isfinite(model.covariances_).all()
            assert model.fit([[0.0], [1.0]]).labels_.shape == (2,)
        for penalty in (1e9, 1.7e308):
            model = chosen(penalty=penalty, algorithm=algorithm).fit(X)
            assert model.n_clusters_ == 1 and np.isfinite(model.objective_)
    assert chosen(n_clusters=60).fit(X).n_clusters_ == 60


def test_huge_and_tiny_values_and_weights():
    X, _ = ellipses(90, 1, apart=12)
    labels = chosen().fit(X).labels_
    for factor in (1e100, 1e-100):
        np.testing.assert_array_equal(chosen().fit(X * factor).labels_, labels)
    for factor, says in ((1e160, "overflow"), (1e-160, "underflow")):
        with pytest.raises(ValueError, match=says):
            chosen().fit(X * factor)
    for weight in (1e300, 1e-300):
        for algorithm in ("search", "paper"):
            with pytest.raises(ValueError, match="sample_weight reaches"):
                chosen(algorithm=algorithm).fit(X, sample_weight=np.full(len(X), weight))


def test_predict_transform_and_score():
    X, _ = ellipses(150, 7)
    for algorithm in ("search", "paper"):
        model = chosen(n_clusters=3, algorithm=algorithm).fit(X)
        D = model.transform(X)
        assert model.fit_transform(X).shape == (150, 3)
        for c in range(model.n_clusters_):
            u = X - model.cluster_centers_[c]
            d2 = np.einsum("ij,jk,ik->i", u, np.linalg.inv(model.covariances_[c]), u)
            np.testing.assert_allclose(D[:, c], np.sqrt(d2), rtol=1e-7, atol=1e-9)
        assert model.score(X) >= model.score(X + 1)
        w = weights(150)
        assert model.score(X, sample_weight=w) != model.score(X)
        assert np.isfinite(model.predict([X.mean(axis=0) + 1e3])).all()


@pytest.mark.parametrize(
    ("model", "error", "says"),
    [
        (EllipticalMeans(61), ValueError, "n_clusters=61 must be <= n_samples=60"),
        (EllipticalMeans(2.0), TypeError, "n_clusters=2.0"),
        (EllipticalMeans(2, max_clusters=3), ValueError, "max_clusters=3 would be ignored"),
        (EllipticalMeans(penalty=-1.0), ValueError, "penalty=-1.0"),
        (EllipticalMeans(penalty=None), TypeError, "penalty=None"),
        (EllipticalMeans(penalty=2.0, n_clusters_hint=3), ValueError, "n_clusters_hint=3"),
        (EllipticalMeans(2, reg_covar=0), ValueError, "reg_covar=0 must be a number > 0"),
        (EllipticalMeans(2, reg_covar="x"), ValueError, "reg_covar='x'"),
        (EllipticalMeans(2, covariance_penalty=-1), ValueError, "covariance_penalty=-1"),
        (EllipticalMeans(2, min_cluster_size=0), ValueError, "min_cluster_size=0"),
        (EllipticalMeans(2, algorithm="em"), ValueError, "algorithm='em'"),
        (EllipticalMeans(2, max_iter=0), ValueError, "max_iter=0"),
        (EllipticalMeans(2, effort=0), ValueError, "effort=0"),
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


def test_parts_of_one_cloud_are_not_called_strong():
    rng = np.random.default_rng(1)
    heavy = EllipticalMeans(random_state=0).fit(rng.standard_t(4, (600, 2)))
    assert heavy.n_clusters_ > 1  # Gaussians of different widths do fit it better
    assert heavy.evidence_.strength == "weak"
    assert "no two of these clusters have a valley" in heavy.evidence_.describe().lower()
    apart = np.r_[rng.normal(size=(200, 2)) * [5, 1], rng.normal(size=(200, 2)) * [5, 1] + [0, 8]]
    evidence = EllipticalMeans(random_state=0).fit(apart).evidence_
    assert (evidence.n_clusters, evidence.strength, evidence.remarks) == (2, "strong", ())


def test_pieces_of_a_ring_around_a_core_are_not_called_strong():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 7, 400)
    ring = 2 * np.c_[np.cos(angle), np.sin(angle)] + rng.normal(0, 0.1, (400, 2))
    model = EllipticalMeans(random_state=0).fit(np.r_[rng.normal(0, 0.25, (400, 2)), ring])
    assert model.n_clusters_ > 2
    assert model.evidence_.strength == "weak"  # only the core has a valley around it


def test_a_number_that_halves_do_not_find_again_is_not_called_strong():
    rng = np.random.default_rng(0)
    centers = rng.normal(0, 1.5, (7, 20))
    X = np.vstack([rng.normal(c, 1.0, (150, 20)) for c in centers])
    evidence = EllipticalMeans(random_state=0).fit(X).evidence_
    assert evidence.n_clusters < 7  # too few rows for covariances of 20 columns
    assert evidence.strength == "weak" and "few rows" in evidence.describe()
    assert evidence.stability is not None and evidence.agreement < 0.8
