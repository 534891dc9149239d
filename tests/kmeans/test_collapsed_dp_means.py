"""CollapsedDPMeans: BKJ's algorithm row for row, and where it ends."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference.collapsed_dp_means import collapsed_dp_means as plain
from reference.partitions import objective
from sklearn.exceptions import ConvergenceWarning

import madbayes._rows.checks as checks
import madbayes.kmeans.collapsed_dp_means as module
from madbayes import CollapsedDPMeans, DPMeans, penalties
from madbayes.kmeans.collapsed_dp_means import collapsed_dp_means
from madbayes.kmeans.collapsed_kernels import pass_over_rows


def blobs(n, d, k, seed):
    r = np.random.default_rng(seed)
    return (r.normal(size=(k, d)) * 4)[r.integers(0, k, n)] + r.normal(size=(n, d))


def fast(X, penalty, labels=None, weight=None, max_clusters=None, max_iter=300):
    n = len(X)
    centred = (X - X.mean(axis=0)).astype(X.dtype)
    return collapsed_dp_means(
        centred,
        np.ones(n) if weight is None else weight,
        np.zeros(n, int) if labels is None else labels,
        penalty,
        max_clusters=n if max_clusters is None else max_clusters,
        max_iter=max_iter,
    )


def lowest_move(X, labels, penalty, weight, cap):
    """The lowest objective after one row went elsewhere, tried one by one."""
    ids, best = list(np.unique(labels)), np.inf
    for i in range(len(X)):
        for c in ids + ([max(ids) + 1] if len(ids) < cap else []):
            moved = labels.copy()
            moved[i] = c
            best = min(best, objective(X, moved, penalty, weight))
    return best


@pytest.mark.parametrize("d", [1, 2, 5, 20])
@pytest.mark.parametrize("size", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("kind", ["plain", "rounded", "float32", "far", "weighted", "capped"])
def test_step_for_step_the_plain_loop(d, size, kind):
    X = blobs(60, d, 5, seed=d)
    r = np.random.default_rng(1)
    weight, cap, start = None, None, None
    if kind == "rounded":
        X = np.round(X)
        start = r.integers(0, 4, 60)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "far":
        X = X + 1e6
    elif kind == "weighted":
        weight = 10 ** r.uniform(-1, 1, 60)
        weight[7] = 1e6  # heavier than all others together
        start = r.integers(0, 6, 60)
    elif kind == "capped":
        cap, start = 4, r.integers(0, 4, 60)
    penalty = size * np.sqrt(d)
    found = fast(X, penalty, start, weight, cap)
    labels, n_iter, history = plain(X, penalty, start, weight, cap)
    np.testing.assert_array_equal(found.labels, labels)
    assert found.converged and found.n_iter == n_iter
    np.testing.assert_allclose(found.history, history, rtol=1e-6)
    if cap:
        assert len(np.unique(found.labels)) <= cap
    for passes in range(1, n_iter):  # and on the way there
        part = fast(X, penalty, start, weight, cap, max_iter=passes)
        assert not part.converged
        np.testing.assert_array_equal(
            part.labels, plain(X, penalty, start, weight, cap, max_iter=passes)[0]
        )


def test_bounds_change_nothing_on_longer_runs(monkeypatch):
    """With the bounds switched off every row looks at every centre."""

    def without_bounds(*arguments):
        arguments[9][:] = 0.0  # low
        return pass_over_rows(*arguments)

    for seed in range(4):
        X = blobs(1500, 3, 12, seed) + 1e6
        X = X - X.mean(axis=0)
        start = np.random.default_rng(seed).integers(0, 30, 1500)
        options = {"max_clusters": 1500, "max_iter": 300}
        bounded = collapsed_dp_means(X, np.ones(1500), start, 9.0, **options)
        with monkeypatch.context() as patch:
            patch.setattr(module, "pass_over_rows", without_bounds)
            unbounded = collapsed_dp_means(X, np.ones(1500), start, 9.0, **options)
        assert bounded.n_iter > 3
        np.testing.assert_array_equal(bounded.labels, unbounded.labels)
        assert bounded.history == unbounded.history


@pytest.mark.parametrize("init", ["ward", "one"])
@pytest.mark.parametrize("seed", range(12))
def test_no_move_of_one_row_is_left(seed, init):
    r = np.random.RandomState(seed)
    n, d = r.randint(2, 45), r.randint(1, 4)
    X = [r.randn(n, d), r.randint(0, 4, (n, d)) * 1.0, r.standard_t(1.5, (n, d))][seed % 3]
    X = X * 10.0 ** r.randint(-3, 4)
    w = [np.ones(n), 10 ** r.uniform(-3, 3, n)][seed % 2]
    penalty = max(objective(X, np.zeros(n, int), 0.0, w), 1e-9) * 10 ** r.uniform(-2.5, 0)
    cap = n if seed % 4 else r.randint(1, 5)
    model = CollapsedDPMeans(penalty, init=init, max_clusters=cap, random_state=0)
    model.fit(X, sample_weight=w)
    assert model.converged_ and model.n_clusters_ <= cap
    assert model.objective_ == pytest.approx(objective(X, model.labels_, penalty, w), rel=1e-9)
    assert lowest_move(X, model.labels_, penalty, w, cap) >= model.objective_ * (1 - 1e-8)
    assert (np.diff(model.objective_history_) < 0).all()
    assert model.objective_history_[-1] == pytest.approx(model.objective_)


values = st.integers(-20, 20).map(float)
tables = st.tuples(st.integers(1, 16), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)


@settings(max_examples=50, deadline=None)
@given(tables, st.integers(1, 600), st.integers(-1000, 1000))
def test_properties(X, penalty, shift):
    model = CollapsedDPMeans(penalty + 1 / 3, init="one", n_jobs=1).fit(X)
    labels = plain(X, penalty + 1 / 3)[0]
    same = labels[:, None] == labels[None, :]
    np.testing.assert_array_equal(model.labels_[:, None] == model.labels_[None, :], same)
    doubled = CollapsedDPMeans(4 * (penalty + 1 / 3), init="one", n_jobs=1).fit(2 * X + 64 * shift)
    assert doubled.objective_ == pytest.approx(4 * model.objective_)
    assert CollapsedDPMeans(1e9, n_jobs=1).fit(X).n_clusters_ == 1
    distinct = len(np.unique(X, axis=0))
    assert CollapsedDPMeans(1e-9, init="one", n_jobs=1).fit(X).n_clusters_ == distinct


def test_millions_of_updates_far_from_the_origin_leave_no_error():
    r = np.random.default_rng(0)
    X = r.normal(size=(4000, 2)) + 1e6
    centred = X - X.mean(axis=0)
    z = r.integers(0, 60, 4000)
    found = collapsed_dp_means(centred, np.ones(4000), z, 60.0, max_clusters=4000, max_iter=1000)
    assert found.converged
    assert found.history[-1] == pytest.approx(objective(centred, found.labels, 60.0), rel=1e-12)
    model = CollapsedDPMeans(60.0, random_state=0).fit(X)
    near = CollapsedDPMeans(60.0, random_state=0).fit(centred)
    np.testing.assert_array_equal(model.labels_, near.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_between_the_printed_algorithm_and_the_search():
    X = blobs(600, 3, 8, seed=0)
    for penalty in (20.0, 60.0):
        search = DPMeans(penalty, random_state=0).fit(X).objective_
        found = CollapsedDPMeans(penalty, random_state=0).fit(X).objective_
        assert search <= found * (1 + 1e-9)
        assert found <= 1.05 * search
        lloyd = DPMeans(penalty, algorithm="paper").fit(X)
        further = fast(X, penalty, lloyd.labels_)  # no false minimum of the one-row moves is left
        assert further.history[-1] <= lloyd.objective_ * (1 + 1e-12)


def test_start_order_weights_threads_and_storage():
    X = blobs(300, 4, 5, seed=3)
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    model = CollapsedDPMeans(40.0, random_state=0).fit(X, sample_weight=weight)
    without = CollapsedDPMeans(40.0, random_state=0).fit(
        X[weight > 0], sample_weight=weight[weight > 0]
    )
    np.testing.assert_array_equal(model.labels_[weight > 0], without.labels_)
    np.testing.assert_array_equal(model.labels_, without.predict(X))
    sizes = np.bincount(without.labels_, weights=weight[weight > 0])
    assert (np.diff(sizes) <= 0).all()

    one = CollapsedDPMeans(40.0, random_state=0, n_jobs=1).fit(X)
    for other in (
        CollapsedDPMeans(40.0, random_state=0, n_jobs=2).fit(X),
        CollapsedDPMeans(40.0, random_state=0).fit(sp.csr_matrix(X)),
        CollapsedDPMeans(40.0, random_state=0).fit(np.asfortranarray(X)),
    ):
        np.testing.assert_array_equal(other.labels_, one.labels_)
        np.testing.assert_array_equal(other.cluster_centers_, one.cluster_centers_)

    permutation = np.random.RandomState(7).permutation(300)
    shuffled = CollapsedDPMeans(5.0, init="one", order="random", random_state=7).fit(X)
    labels = plain(X[permutation], 5.0)[0]
    found = shuffled.labels_[permutation]
    np.testing.assert_array_equal(found[:, None] == found, labels[:, None] == labels)


def test_penalties_by_name_and_novel_rows():
    X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 50, axis=0) + blobs(150, 2, 1, 0) * 0.5
    auto = CollapsedDPMeans(random_state=0).fit(X)
    assert auto.n_clusters_ == 3 and auto.evidence_.strength == "strong"
    assert CollapsedDPMeans("farthest-first", n_clusters_hint=3).fit(X).n_clusters_ == 3
    printed = CollapsedDPMeans("farthest-first", n_clusters_hint=3, init="one").fit(X)
    assert printed.penalty_ == pytest.approx(penalties.farthest_first(X, 3))
    model = CollapsedDPMeans(4.0).fit([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
    rows = [[0.0, 0.5], [9.0, 11.0], [9.0, 11.1], [-50.0, 0.0]]
    assert model.predict(rows, novel="paper").tolist() == [0, 1, -1, -1]
    assert model.predict(rows).tolist() == [0, 1, 1, 0]


def test_errors_and_warnings(monkeypatch):
    X = blobs(200, 2, 5, seed=0)
    for options, says in (
        ({"init": "two"}, "init='two' must be one of 'ward', 'one'"),
        ({"order": "up"}, "order='up'"),
        ({"max_clusters": 0}, "max_clusters=0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"penalty": "farthest-first"}, "needs n_clusters_hint"),
    ):
        with pytest.raises(ValueError, match=says):
            CollapsedDPMeans(**{"penalty": 1.0, **options}).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes"):
        CollapsedDPMeans(1.0, init="one", max_iter=1).fit(X)
    monkeypatch.setattr(checks, "DENSE_VALUES", 100)
    with pytest.raises(ValueError, match=r"Use DPMeans, or .*TruncatedSVD"):
        CollapsedDPMeans(1.0).fit(sp.csr_matrix(X))
