"""metric="cosine": spherical k-means and DP-means on directions."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.dp_means import dp_means
from reference.partitions import direction, lowest_neighbour, lowest_objective, objective
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

from madbayes import DPMeans, KMeans, penalties


def fans(r, n, d, k, spread=0.15):
    """Rows of any length around k directions, and which."""
    truth = r.randint(0, k, n)
    centers = normalize(r.randn(k, d))
    rows = normalize(centers[truth] + spread * r.randn(n, d) / np.sqrt(d))
    return rows * 10 ** r.uniform(-2, 2, (n, 1)), truth


def random_problem(r, n):
    d = r.choice([2, 3, 6])
    X = [r.randn(n, d), fans(r, n, d, 3)[0], np.abs(r.randn(n, d))][r.randint(3)]
    w = [np.ones(n), r.uniform(0.1, 3, n)][r.randint(2)]
    U = normalize(X)
    total = objective(U, np.zeros(n, int), 0.0, w, direction)
    return X, U, w, max(total, 0.01) * 10 ** r.uniform(-2, 0)


def test_the_squared_error_of_directions_is_two_minus_two_cosines():
    r = np.random.RandomState(0)
    U = normalize(r.randn(50, 4))
    center = direction(U, np.ones(50))
    assert objective(U, np.zeros(50, int), 0.0, None, direction) == pytest.approx(
        (2 - 2 * U @ center).sum()
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [3, 20])
def test_kmeans_takes_the_plain_path(d, sparse):
    r = np.random.RandomState(d)
    X, _ = fans(r, 600, d, 5, spread=0.8)
    U = normalize(X)
    centers = start = U[:5]
    for _ in range(100):
        labels = (U @ centers.T).argmax(axis=1)
        new = np.array([direction(U[labels == c], np.ones((labels == c).sum())) for c in range(5)])
        if np.allclose(new, centers, rtol=0, atol=1e-15):
            break
        centers = new
    model = KMeans(5, init=3.0 * start, tol=0, metric="cosine")
    model.fit(sp.csr_array(X) if sparse else X)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0)
    assert model.inertia_ == pytest.approx(objective(U, labels, 0.0, None, direction))
    assert (np.diff(model.objective_history_) <= 1e-12).all()
    np.testing.assert_array_equal(model.predict(7 * X), labels)
    np.testing.assert_allclose(model.transform(X) ** 2, 2 - 2 * U @ centers.T, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_paper_is_the_plain_loop(seed):
    r = np.random.RandomState(seed)
    X, U, w, _ = random_problem(r, 150)
    penalty = penalties.farthest_first(X, 6, metric="cosine")
    labels, centers, value, _, _ = dp_means(U, penalty, w, mean=direction)
    model = DPMeans(penalty, algorithm="paper", metric="cosine").fit(X, sample_weight=w)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-10)
    assert model.objective_ == pytest.approx(value)
    sparse = DPMeans(penalty, algorithm="paper", metric="cosine")
    np.testing.assert_array_equal(sparse.fit(sp.csr_array(X), sample_weight=w).labels_, labels)


def test_search_finds_the_optimum_of_small_problems():
    r, hits = np.random.RandomState(0), 0
    for _ in range(60):
        X, U, w, penalty = random_problem(r, r.randint(1, 8))
        model = DPMeans(penalty, metric="cosine", random_state=0, n_jobs=1)
        model.fit(X, sample_weight=w)
        best = lowest_objective(U, penalty, w, len(X), direction)
        assert model.objective_ >= best * (1 - 1e-9)
        hits += model.objective_ <= best * (1 + 1e-8)
    assert hits >= 57


@pytest.mark.parametrize("seed", range(12))
def test_no_single_move_is_left(seed):
    r = np.random.RandomState(seed)
    X, U, w, penalty = random_problem(r, r.randint(10, 40))
    cap = len(X) if seed % 3 else r.randint(1, 8)
    model = DPMeans(penalty, max_clusters=cap, metric="cosine", random_state=seed)
    model.fit(X, sample_weight=w)
    found = objective(U, model.labels_, penalty, w, direction)
    assert model.objective_ == pytest.approx(found, rel=1e-9)
    lowest = lowest_neighbour(U, model.labels_, penalty, w, cap, direction)
    assert lowest >= model.objective_ * (1 - 1e-8)
    assert (np.diff(model.objective_history_) <= 1e-12 * model.objective_history_[:-1]).all()
    printed = DPMeans(penalty, algorithm="paper", max_clusters=cap, metric="cosine")
    assert model.objective_ <= printed.fit(X, sample_weight=w).objective_ * (1 + 1e-12)


@pytest.mark.parametrize("d", [3, 40])
def test_auto_counts_directions(d):
    X, truth = fans(np.random.RandomState(1), 1200, d, 6, spread=0.1)
    model = DPMeans(metric="cosine", random_state=0).fit(X)
    assert model.n_clusters_ == 6
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    path = penalties.path(X, metric="cosine", random_state=0)
    assert path.best().n_clusters == 6
    assert np.unique(path.labels_at(model.penalty_)).size == 6


def test_lengths_do_not_matter():
    X, _ = fans(np.random.RandomState(2), 300, 5, 4)
    a = DPMeans(3.0, metric="cosine", random_state=0).fit(X)
    b = DPMeans(3.0, metric="cosine", random_state=0).fit(X * 2.0 ** np.arange(-150, 150)[:, None])
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.objective_ == pytest.approx(b.objective_)


@pytest.mark.parametrize("as_input", [np.asarray, sp.csr_array])
def test_rows_of_zeros_are_left_out(as_input):
    X = np.abs(np.random.RandomState(0).randn(40, 3))
    X[[3, 7]] = 0.0
    kept = np.delete(np.arange(40), [3, 7])
    for model in (KMeans(2, metric="cosine", init=X[:2]), DPMeans(1.0, metric="cosine")):
        with pytest.warns(UserWarning, match="2 rows of X are all zeros \\(the first is row 3"):
            model.fit(as_input(X))
        rest = clone(model).fit(as_input(X[kept]))
        np.testing.assert_array_equal(model.labels_[kept], rest.labels_)
        np.testing.assert_allclose(model.cluster_centers_, rest.cluster_centers_)
        assert model.objective_ == pytest.approx(rest.objective_)
        np.testing.assert_array_equal(model.predict(as_input(X))[[3, 7]], 0)
        np.testing.assert_allclose(model.transform(as_input(X))[3], 1.0)


def test_what_has_no_direction_is_named():
    X = np.ones((5, 3))
    with pytest.raises(ValueError, match="all rows of X are zeros"):
        DPMeans(1.0, metric="cosine").fit(0 * X)
    with pytest.raises(ValueError, match="init has a row of zeros"):
        KMeans(1, metric="cosine", init=np.zeros((1, 3))).fit(X)
    with pytest.raises(ValueError, match="metric='manhattan' must be one of"):
        DPMeans(metric="manhattan").fit(X)
