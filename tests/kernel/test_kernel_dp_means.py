"""KernelDPMeans: the printed algorithm row for row, and what the search guarantees."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference.kernel_dp_means import fast_objective, lowest_neighbour, objective
from reference.kernel_dp_means import kernel_dp_means as plain
from reference.partitions import lowest_objective
from sklearn.datasets import make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline

import madbayes.kernel.base as kernel_base
import madbayes.kernel.gram as gram
from madbayes import DPMeans, KernelDPMeans
from madbayes.kernel import space as kernel_space
from madbayes.kernel.kernel_dp_means import objective as written_objective


def blobs(n, d, k, seed):
    r = np.random.default_rng(seed)
    return (r.normal(size=(k, d)) * 4)[r.integers(0, k, n)] + r.normal(size=(n, d))


def printed(penalty, **options):
    return KernelDPMeans(penalty, algorithm="paper", **options)


def features(K):
    """Rows whose products are K."""
    value, vector = np.linalg.eigh(K)
    return vector * np.sqrt(np.maximum(value, 0.0))


def random_problem(seed, n):
    r = np.random.RandomState(seed)
    X = [
        r.randn(n, 2),
        r.randint(0, 4, (n, 2)).astype(float),
        r.randn(n, 3)[r.randint(0, n, n)],
        r.standard_t(2, (n, 2)),
    ][seed % 4]
    name, options = [
        ("rbf", {"gamma": 0.5}),
        ("linear", {}),
        ("poly", {"gamma": 0.3, "degree": 2, "coef0": 1}),
        ("laplacian", {"gamma": 1.0}),
        ("cosine", {}),
    ][r.randint(5)]
    w = [np.ones(n), r.uniform(0.1, 3, n), 10 ** r.uniform(-2, 2, n)][r.choice([0, 0, 1, 2])]
    K = pairwise_kernels(X, metric=name, **options)
    total = fast_objective(K, np.zeros(n, int), 0.0, w)
    penalty = max(total, 1e-9) * 10 ** r.uniform(-2.5, 0)
    return X, name, options, K, w, penalty


# The printed algorithm


@pytest.mark.parametrize("seed", range(12))
def test_paper_is_the_plain_loop(seed):
    X, name, options, K, w, penalty = random_problem(seed, 25)
    cap = None if seed % 3 else 4
    model = printed(penalty, kernel=name, max_clusters=cap, **options).fit(X, sample_weight=w)
    labels, J, n_iter, history = plain(K, penalty, w, cap)
    np.testing.assert_array_equal(model.labels_, labels)
    assert model.objective_ == pytest.approx(J, rel=1e-8)
    assert model.n_iter_ == n_iter
    np.testing.assert_allclose(model.objective_history_[: len(history)], history, rtol=1e-8)
    ready = printed(penalty, kernel="precomputed", max_clusters=cap).fit(K, sample_weight=w)
    np.testing.assert_array_equal(ready.labels_, labels)


@pytest.mark.parametrize("kind", ["plain", "rounded", "float32", "far", "weighted", "shuffled"])
@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("size", [0.5, 8.0])
def test_paper_with_the_linear_kernel_is_dp_means(d, size, kind):
    X = blobs(150, d, 5, seed=d)
    penalty, w, options = size * np.sqrt(d) + 1 / 3, None, {}
    if kind == "rounded":
        X = np.round(X)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "far":
        X = X + 1e6
    elif kind == "weighted":
        w = np.random.default_rng(0).integers(0, 3, 150).astype(float)
    elif kind == "shuffled":
        options = {"order": "random", "random_state": 3}
    model = printed(penalty, kernel="linear", **options).fit(X, sample_weight=w)
    expected = DPMeans(penalty, algorithm="paper", **options).fit(X, sample_weight=w)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=2e-3)


tables = st.tuples(st.integers(1, 20), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-20, 20).map(float))
)


@settings(max_examples=60, deadline=None)
@given(tables, st.integers(1, 600).map(lambda v: v + 1 / 3))
def test_properties(X, penalty):
    """The linear kernel is DP-means. Rows a little off whole numbers: where two means are equally
    far up to rounding, the kernel takes the first and DP-means the nearer one."""
    X = X + 1e-3 * np.sin(3.7 * X + np.arange(X.shape[1]))
    model = printed(penalty, kernel="linear", n_jobs=1).fit(X)
    expected = DPMeans(penalty, algorithm="paper", n_jobs=1).fit(X)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.objective_ == pytest.approx(expected.objective_)
    searched = KernelDPMeans(penalty, kernel="linear", random_state=0, n_jobs=1).fit(X)
    assert searched.objective_ <= model.objective_ * (1 + 1e-9)
    assert (np.diff(searched.objective_history_) <= 0).all()
    assert KernelDPMeans(1e9, kernel="linear").fit(X).n_clusters_ == 1
    distinct = len(np.unique(X, axis=0))
    assert KernelDPMeans(1e-6, kernel="linear").fit(X).n_clusters_ == distinct


def test_paper_stops_where_the_kernel_is_not_positive():
    A = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.warns(ConvergenceWarning, match="not positive semidefinite"):
        model = printed(2.0, kernel="precomputed").fit(A + A.T)
    assert (np.diff(model.objective_history_) <= 0).all()


# The search


def test_global_optimum_of_small_problems():
    hits = 0
    for seed in range(40):
        n = 1 + seed % 8
        X, name, options, K, w, penalty = random_problem(seed, n)
        model = KernelDPMeans(penalty, kernel=name, random_state=0, n_jobs=1, **options)
        model.fit(X, sample_weight=w)
        best = lowest_objective(features(K), penalty, w, n)
        assert model.objective_ >= best * (1 - 1e-8) - 1e-12
        hits += model.objective_ <= best * (1 + 1e-7) + 1e-12
    assert hits >= 39


@pytest.mark.parametrize("seed", range(16))
def test_no_single_move_is_left(seed):
    X, name, options, K, w, penalty = random_problem(seed, 20 + seed)
    cap = len(X) if seed % 3 else 3
    model = KernelDPMeans(penalty, kernel=name, max_clusters=cap, random_state=seed, **options)
    model.fit(X, sample_weight=w)
    assert model.n_clusters_ <= cap
    assert model.objective_ == pytest.approx(fast_objective(K, model.labels_, penalty, w), rel=1e-7)
    assert model.inertia_ == pytest.approx(model.objective_ - penalty * model.n_clusters_)
    lowest = lowest_neighbour(K, model.labels_, penalty, w, cap)
    assert lowest >= model.objective_ * (1 - 1e-8)
    assert (np.diff(model.objective_history_) <= 0).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    for order in range(5):
        other = printed(penalty, order="random", random_state=order, max_clusters=cap, kernel=name)
        other.set_params(**options).fit(X, sample_weight=w)
        assert model.objective_ <= other.objective_ * (1 + 1e-9)


def test_no_single_move_is_left_when_features_are_rough(monkeypatch):
    monkeypatch.setattr(kernel_space, "FULL_RANK", 0)
    monkeypatch.setattr(kernel_space, "RANK", 2)
    X = blobs(60, 4, 4, seed=0)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    for penalty in (0.3, 1.0, 3.0, 10.0):
        model = KernelDPMeans(penalty, gamma=0.1, random_state=0).fit(X)
        lowest = lowest_neighbour(K, model.labels_, penalty, np.ones(60), 60)
        assert lowest >= model.objective_ * (1 - 1e-8)


def test_any_symmetric_kernel():
    r = np.random.default_rng(0)
    A = r.normal(size=(30, 30))
    K = A + A.T  # as many negative eigenvalues as positive ones
    model = KernelDPMeans(2.0, kernel="precomputed", random_state=0).fit(K)
    assert model.objective_ == pytest.approx(objective(K, model.labels_, 2.0))
    assert written_objective(K, model.labels_, 2.0) == pytest.approx(model.objective_)
    lowest = lowest_neighbour(K, model.labels_, 2.0, np.ones(30), 30)
    assert lowest >= model.objective_ - 1e-8
    assert (np.diff(model.objective_history_) <= 0).all()


@pytest.mark.parametrize("penalty", [5.0, 40.0, 400.0])
def test_the_linear_kernel_is_dp_means(penalty):
    X = blobs(300, 4, 6, seed=1)
    found = KernelDPMeans(penalty, kernel="linear", random_state=0).fit(X)
    expected = DPMeans(penalty, random_state=0).fit(X)
    assert found.objective_ == pytest.approx(expected.objective_, rel=3e-3)
    far = KernelDPMeans(penalty, kernel="linear", random_state=0).fit(X + 1e6)
    assert far.objective_ == pytest.approx(found.objective_, rel=2e-3)


# However it is computed


@pytest.mark.parametrize("algorithm", ["search", "paper"])
def test_blocks_threads_and_storage_change_nothing(algorithm, monkeypatch):
    X = blobs(400, 3, 6, seed=2)
    w = np.random.default_rng(0).uniform(0.5, 2, 400)

    def fit(**options):
        penalty = 4.0 if algorithm == "search" else 0.9
        model = KernelDPMeans(penalty, gamma=0.1, algorithm=algorithm, random_state=0, **options)
        return model.fit(X, sample_weight=w)

    held = fit(n_jobs=1)
    assert 3 < held.n_clusters_ < 60
    two = fit(n_jobs=2)
    np.testing.assert_array_equal(two.labels_, held.labels_)
    assert two.objective_ == held.objective_
    monkeypatch.setattr(gram, "BLOCK_ROWS", 64)
    np.testing.assert_array_equal(fit(n_jobs=1).labels_, held.labels_)
    monkeypatch.setattr(gram, "HELD_ROWS", 10)
    monkeypatch.setattr(gram, "BLOCK_VALUES", 400 * 32)
    blocks = fit(n_jobs=1)
    np.testing.assert_array_equal(blocks.labels_, held.labels_)
    assert blocks.objective_ == pytest.approx(held.objective_, rel=1e-10)
    again = fit(n_jobs=3)
    assert again.objective_ == blocks.objective_
    monkeypatch.setattr(kernel_base, "NEW_ROWS", 7)
    np.testing.assert_array_equal(again.predict(X), held.predict(X))


def test_sparse_rows_and_sparse_kernels():
    X = np.round(blobs(90, 5, 4, seed=3))
    dense = KernelDPMeans(3.0, gamma=0.05, random_state=0).fit(X)
    rows = KernelDPMeans(3.0, gamma=0.05, random_state=0).fit(sp.csr_matrix(X))
    assert rows.objective_ == pytest.approx(dense.objective_)
    np.testing.assert_array_equal(rows.predict(X), dense.predict(sp.csr_array(X)))
    K = pairwise_kernels(X, metric="rbf", gamma=0.05)
    K[K < 0.05] = 0
    full = KernelDPMeans(3.0, kernel="precomputed", random_state=0).fit(K)
    thin = KernelDPMeans(3.0, kernel="precomputed", random_state=0).fit(sp.csr_matrix(K))
    assert thin.objective_ == pytest.approx(full.objective_, rel=1e-6)
    np.testing.assert_array_equal(thin.predict(sp.csr_matrix(K)), thin.labels_)


def test_functions_names_and_matrices_are_the_same_kernel():
    X, new = blobs(80, 3, 4, seed=4), blobs(20, 3, 4, seed=4)

    def similarity(x, y, width=1.0):
        return np.exp(-((x - y) ** 2).sum() / width)

    name = KernelDPMeans(2.0, gamma=0.1, random_state=0).fit(X)
    function = KernelDPMeans(
        2.0, kernel=similarity, kernel_params={"width": 10.0}, random_state=0
    ).fit(X)
    K, K_new = (pairwise_kernels(rows, X, metric="rbf", gamma=0.1) for rows in (X, new))
    matrix = KernelDPMeans(2.0, kernel="precomputed", random_state=0).fit(K)
    for model in (function, matrix):
        np.testing.assert_array_equal(model.labels_, name.labels_)
    np.testing.assert_allclose(function.transform(new), name.transform(new), atol=1e-7)
    np.testing.assert_allclose(matrix.transform(K_new), name.transform(new), atol=1e-7)
    np.testing.assert_array_equal(matrix.predict(K_new, novel=True), name.predict(new, novel=True))
    np.testing.assert_allclose(matrix.fit_transform(K), name.transform(X), atol=1e-6)


# Weights, new rows, odd data


def test_weights():
    X = blobs(60, 2, 4, seed=5)
    w = np.random.default_rng(1).integers(0, 4, 60)
    model = KernelDPMeans(3.0, gamma=0.2, random_state=0).fit(X, sample_weight=w)
    again = KernelDPMeans(3.0, gamma=0.2, random_state=0).fit(np.repeat(X, w, axis=0))
    assert model.objective_ == pytest.approx(again.objective_)
    without = KernelDPMeans(3.0, gamma=0.2, random_state=0).fit(X[w > 0], sample_weight=w[w > 0])
    np.testing.assert_array_equal(model.labels_, without.predict(X))
    scaled = KernelDPMeans(random_state=0).fit(X, sample_weight=w)
    repeated = KernelDPMeans(random_state=0).fit(np.repeat(X, w, axis=0))
    assert scaled._kernel.params["gamma"] == pytest.approx(repeated._kernel.params["gamma"])


def test_new_rows():
    X = np.r_[blobs(40, 2, 1, seed=0), blobs(40, 2, 1, seed=0) + 20]
    model = KernelDPMeans(1.5, gamma=0.02, random_state=0).fit(X)
    assert model.n_clusters_ == 2
    rows = np.r_[X[:1], X[-1:], [[500.0, 500.0]]]
    own, other = model.labels_[0], model.labels_[-1]
    assert model.predict(rows).tolist()[:2] == [own, other]
    # The lonely row is at squared distance 1 + ‖μ‖² from each mean.
    assert model.predict(rows, novel="paper").tolist() == [own, other, -1]
    K = pairwise_kernels(rows, X, metric="rbf", gamma=0.02)
    for c in (0, 1):
        i = model.labels_ == c
        within = pairwise_kernels(X[i], metric="rbf", gamma=0.02).mean()
        d2 = 1 - 2 * K[:, i].mean(axis=1) + within
        np.testing.assert_allclose(model.transform(rows)[:, c] ** 2, d2, atol=1e-9)
    assert model.score(X) == pytest.approx(-model.inertia_)


@pytest.mark.parametrize("algorithm", ["search", "paper"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly"])
def test_degenerate(kernel, algorithm):
    for X in (np.zeros((1, 2)), np.full((7, 3), 1e6 + 0.1), np.repeat(np.eye(3), 5, axis=0)):
        for penalty in (1e-6, 1e12):
            model = KernelDPMeans(penalty, kernel=kernel, algorithm=algorithm).fit(X)
            distinct = len(np.unique(X, axis=0)) if penalty < 1 else 1
            assert model.n_clusters_ == distinct
        for name in ("auto", "farthest-first"):
            options = {"n_clusters_hint": 1, "random_state": 0}
            if name == "auto" or distinct > 1:
                KernelDPMeans(name, kernel=kernel, algorithm=algorithm, **options).fit(X)


def test_far_from_the_origin():
    X = blobs(120, 2, 4, seed=6)
    near = KernelDPMeans(2.0, gamma=0.1, random_state=0).fit(X)
    far = KernelDPMeans(2.0, gamma=0.1, random_state=0).fit(X + 1e6)
    np.testing.assert_array_equal(near.labels_, far.labels_)
    np.testing.assert_array_equal(near.predict(X), far.predict(X + 1e6))
    single = KernelDPMeans(2.0, gamma=0.1, random_state=0).fit(X.astype(np.float32))
    assert single.objective_ == pytest.approx(near.objective_, rel=1e-5)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


def test_a_ring_around_a_ring():
    X, truth = make_circles(300, factor=0.2, noise=0.03, random_state=0)
    model = KernelDPMeans(30.0, gamma=3.0, random_state=0).fit(X)
    assert normalized_mutual_info_score(truth, model.labels_) == 1
    straight = DPMeans(10.0, max_clusters=2, random_state=0).fit(X)
    assert normalized_mutual_info_score(truth, straight.labels_) < 0.5


# The penalty


@pytest.mark.parametrize("k", [1, 3, 7])
def test_auto(k):
    r = np.random.default_rng(k)
    places = np.array([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(k) / k]) * 3 * k
    X = np.repeat(places, 60, axis=0) + r.normal(size=(60 * k, 2))
    for options in ({}, {"gamma": 0.1}, {"kernel": "linear"}, {"kernel": "laplacian"}):
        model = KernelDPMeans(random_state=0, **options).fit(X)
        assert model.n_clusters_ == model.evidence_.n_clusters == k
        assert model.penalty_ == model.evidence_.penalty


def test_farthest_first_with_the_linear_kernel():
    X = blobs(80, 3, 4, seed=7)
    found = KernelDPMeans("farthest-first", kernel="linear", n_clusters_hint=5).fit(X)
    expected = DPMeans("farthest-first", n_clusters_hint=5).fit(X)
    assert found.penalty_ == pytest.approx(expected.penalty_)


def test_nystroem_before_dp_means():
    X = blobs(400, 2, 4, seed=8)
    exact = KernelDPMeans(10.0, gamma=0.05, random_state=0).fit(X)
    many = make_pipeline(
        Nystroem(gamma=0.05, n_components=100, random_state=0), DPMeans(10.0, random_state=0)
    )
    assert many.fit(X)[-1].objective_ == pytest.approx(exact.objective_, rel=0.01)
    assert normalized_mutual_info_score(many.predict(X), exact.labels_) > 0.99


@pytest.mark.parametrize(
    ("model", "X", "says"),
    [
        (KernelDPMeans(kernel="rfb"), np.eye(3), "kernel='rfb' must be one of .*'rbf'"),
        (KernelDPMeans(gamma="wide"), np.eye(3), "gamma='wide' must be a number > 0"),
        (KernelDPMeans(gamma=-1.0), np.eye(3), "gamma=-1.0 must be > 0"),
        (KernelDPMeans(kernel="precomputed"), np.ones((3, 2)), r"square.*\(3, 2\)"),
        (KernelDPMeans(kernel="precomputed"), np.triu(np.ones((3, 3))), "symmetric.*differ by 1"),
        (KernelDPMeans("farthest-first"), np.eye(3), "needs n_clusters_hint"),
        (KernelDPMeans(kernel="poly", degree=200, gamma=1e9), np.eye(3) * 9, "not finite"),
        (KernelDPMeans(1.0, algorithm="best"), np.eye(3), "algorithm='best'"),
    ],
)
def test_bad_parameters(model, X, says):
    with pytest.raises(ValueError, match=says):
        model.fit(X)


def test_other_errors(monkeypatch):
    X = blobs(20, 2, 2, seed=0)
    model = KernelDPMeans(1.0, kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match="pass diagonal="):
        model.transform(X[:2] @ X.T)
    with pytest.raises(ValueError, match=r"diagonal has shape \(3,\), but X has 2 rows"):
        model.transform(X[:2] @ X.T, diagonal=np.ones(3))
    own = model.transform(X[:2] @ X.T, diagonal=(X[:2] ** 2).sum(axis=1))
    np.testing.assert_allclose(own, model.fit_transform(X @ X.T)[:2], atol=1e-6)
    with pytest.raises(ValueError, match="for kernel='precomputed' only"):
        KernelDPMeans(1.0).fit(X).predict(X, diagonal=np.ones(20))
    with pytest.raises(ValueError, match=r"sums over all pairs .* would overflow"):
        KernelDPMeans(1.0, kernel="linear").fit(X * 1e149, sample_weight=np.full(20, 1e3))
    monkeypatch.setattr(kernel_base, "MAX_ROWS", 19)
    with pytest.raises(ValueError, match=r"20 rows.*Nystroem"):
        KernelDPMeans(1.0).fit(X)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine"])
def test_a_hint_above_the_number_of_different_rows(kernel):
    r = np.random.default_rng(0)
    for _ in range(5):
        X = r.normal(size=(2, 3))[np.r_[0, 1, r.integers(2, size=20)]]
        weight = r.random(len(X)) * 10 ** r.uniform(-5, 5, len(X))
        model = KernelDPMeans("farthest-first", kernel=kernel, n_clusters_hint=4, random_state=0)
        model.fit(X, sample_weight=weight)
        assert model.n_clusters_ == 2
        assert 0 < model.penalty_ < np.inf
        assert np.isfinite(model.objective_)


def test_noise_of_many_columns_is_one_cluster_where_features_are_not_exact():
    X = np.random.default_rng(0).normal(size=(1100, 300))
    assert KernelDPMeans(effort=0.1, random_state=0).fit(X).n_clusters_ == 1
    X[550:] += 1.0
    assert KernelDPMeans(effort=0.1, random_state=0).fit(X).n_clusters_ == 2
