"""DPMeans(algorithm="paper"): KJ Algorithm 1 row for row, however it is computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference.dp_means import dp_means as plain_dp_means
from reference.farthest_first import farthest_first as plain_farthest_first

import madbayes.kmeans.algorithm1 as module
from madbayes import DPMeans, penalties
from madbayes._partition import partition as partition_module
from madbayes._rows import blocks as engine_blocks


@pytest.fixture(autouse=True, scope="module")
def as_if_large():
    """Bounds and matrix products, although the tables are small."""
    usual, partition_module.BOUNDS_PAY = partition_module.BOUNDS_PAY, 0
    yield
    partition_module.BOUNDS_PAY = usual


def printed(penalty, **options):
    return DPMeans(penalty, algorithm="paper", **options)


def blobs(n, d, k, seed):
    r = np.random.default_rng(seed)
    return (r.normal(size=(k, d)) * 4)[r.integers(0, k, n)] + r.normal(size=(n, d))


@pytest.mark.parametrize("d", [1, 2, 3, 6, 7, 20, 64])
@pytest.mark.parametrize("size", [0.3, 2.0, 10.0])
@pytest.mark.parametrize("kind", ["plain", "rounded", "float32", "far"])
def test_row_for_row_the_plain_loop(d, size, kind):
    X = blobs(150, d, 5, seed=d)
    if kind == "rounded":
        X = np.round(X)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "far":
        X = X + 1e6
    penalty = size * np.sqrt(d)
    model = printed(penalty).fit(X)
    labels, centers, objective, n_iter, history = plain_dp_means(X, penalty)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.cluster_centers_, centers, rtol=1e-6, atol=1e-12)
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    assert model.n_iter_ == n_iter
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("d", [2, 20])
def test_weights_cap_and_order(d):
    X = blobs(200, d, 6, seed=1)
    penalty = 3.0 * d
    weight = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    model = printed(penalty).fit(X, sample_weight=weight)
    labels, *_ = plain_dp_means(X, penalty, weight=weight)
    np.testing.assert_array_equal(model.labels_[weight > 0], labels[weight > 0])
    without = printed(penalty).fit(X[weight > 0], sample_weight=weight[weight > 0])
    np.testing.assert_array_equal(model.labels_[weight > 0], without.labels_)

    capped = printed(penalty, max_clusters=3).fit(X)
    np.testing.assert_array_equal(capped.labels_, plain_dp_means(X, penalty, max_clusters=3)[0])
    assert capped.n_clusters_ <= 3

    permutation = np.random.RandomState(7).permutation(200)
    shuffled = printed(penalty, order="random", random_state=7).fit(X)
    np.testing.assert_array_equal(
        shuffled.labels_[permutation], plain_dp_means(X[permutation], penalty)[0]
    )


@pytest.mark.parametrize("d", [3, 30])
def test_stretches_blocks_threads_and_storage_change_nothing(d, monkeypatch):
    X = blobs(9000, d, 12, seed=2).astype(np.float32)
    penalty = 2.5 * d
    expected = printed(penalty, n_jobs=1).fit(X)
    assert 5 < expected.n_clusters_ < 2000
    sparse = printed(penalty).fit(sp.csr_matrix(X))
    np.testing.assert_array_equal(sparse.labels_, expected.labels_)
    for n_jobs, first, far, copied in ((2, 64, 8192, 2**19), (8, 9000, 50, 2**12)):
        monkeypatch.setattr(module, "FIRST_STRETCH", first)
        monkeypatch.setattr(module, "FAR_ROWS", far)
        monkeypatch.setattr(engine_blocks, "BLOCK_VALUES", copied)
        for source in (X, np.asfortranarray(X)):
            found = printed(penalty, n_jobs=n_jobs).fit(source)
            np.testing.assert_array_equal(found.labels_, expected.labels_)
            np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-6)


def test_novel_rows():
    model = printed(4.0).fit([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
    rows = [[0.0, 0.5], [9.0, 11.0], [9.0, 11.1], [-50.0, 0.0]]
    assert model.predict(rows, novel="paper").tolist() == [0, 1, -1, -1]
    assert model.predict(rows).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 9])
def test_farthest_first_is_the_plain_loop(n_clusters):
    X = blobs(80, 3, 4, seed=3)
    expected = plain_farthest_first(X, n_clusters)
    assert penalties.farthest_first(X, n_clusters) == pytest.approx(expected)
    assert penalties.farthest_first(sp.csr_matrix(X), n_clusters) == pytest.approx(expected)
    model = printed("farthest-first", n_clusters_hint=n_clusters).fit(X)
    assert model.penalty_ == pytest.approx(expected)
    with pytest.raises(ValueError, match="n_clusters=4 is more than X can give"):
        penalties.farthest_first([[0.0], [1.0], [3.0]], 4)


values = st.integers(-20, 20).map(float)
tables = st.tuples(st.integers(1, 25), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)
# Thirds, so that no squared distance of whole numbers is equal to a penalty.
some_penalties = st.integers(1, 600).map(lambda v: v + 1 / 3)


@settings(max_examples=60, deadline=None)
@given(tables, some_penalties, st.integers(-1000, 1000))
def test_properties(X, penalty, shift):
    model = printed(penalty, n_jobs=1).fit(X)
    labels, _, objective, _, _ = plain_dp_means(X, penalty)
    np.testing.assert_array_equal(model.labels_, labels)
    assert model.objective_ == pytest.approx(objective)
    history = model.objective_history_  # KJ Theorem 3.1
    assert (np.diff(history) <= 1e-9 * history[0]).all()
    doubled = printed(4 * penalty, n_jobs=1).fit(2 * X + 64 * shift)
    assert doubled.objective_ == pytest.approx(4 * model.objective_)
    assert printed(1e9).fit(X).n_clusters_ == 1
    assert printed(1e-9).fit(X).n_clusters_ == len(np.unique(X, axis=0))
    searched = DPMeans(penalty, random_state=0, n_jobs=1).fit(X)
    assert searched.objective_ <= model.objective_ * (1 + 1e-9)
