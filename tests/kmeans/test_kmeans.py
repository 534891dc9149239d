"""KMeans: the path of the plain loop and of scikit-learn, from any source and with any threads."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.kmeans import kmeans as plain_kmeans
from sklearn.base import clone
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.exceptions import ConvergenceWarning

from madbayes import KMeans
from madbayes._partition import partition as partition_module
from madbayes._partition import small_lloyd
from madbayes._partition.partition import Partition
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.kmeans import kmeans as kmeans_module


@pytest.fixture(autouse=True, scope="module")
def as_if_large():
    """A `Partition` with bounds and matrix products, although the tables are small."""
    usual, partition_module.BOUNDS_PAY = partition_module.BOUNDS_PAY, 0
    few, small_lloyd.FEW_PRODUCTS = small_lloyd.FEW_PRODUCTS, 0
    yield
    partition_module.BOUNDS_PAY, small_lloyd.FEW_PRODUCTS = usual, few


def blobs(n, d, k, seed, spread=4.0):
    r = np.random.default_rng(seed)
    return (r.normal(size=(k, d)) * spread)[r.integers(0, k, n)] + r.normal(size=(n, d))


def rows_of(X, k, seed):
    return X[np.random.default_rng(seed).choice(len(X), k, replace=False)].astype(float)


@pytest.mark.parametrize("d", [1, 2, 6, 7, 20, 130])
@pytest.mark.parametrize("seed", range(3))
def test_the_path_of_scikit_learn_and_of_the_plain_loop(d, seed):
    k = 3 + 2 * seed
    X = blobs(300, d, k, seed)
    start = rows_of(X, k, seed)
    ours = KMeans(k, init=start, tol=0).fit(X)
    theirs = SklearnKMeans(k, init=start, n_init=1, tol=0).fit(X)
    labels, centers, objective, n_iter, history = plain_kmeans(X, start)
    np.testing.assert_array_equal(ours.labels_, labels)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.cluster_centers_, centers, rtol=1e-10, atol=1e-12)
    assert ours.n_iter_ == n_iter == theirs.n_iter_
    assert ours.inertia_ == pytest.approx(objective, rel=1e-10)
    np.testing.assert_allclose(ours.objective_history_, history, rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), ours.labels_)


def test_exact_ties_go_to_the_lowest_index():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    model = KMeans(2, init=[[0.0], [4.0]], tol=0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    assert model.predict([[2.0]])[0] == plain_kmeans(X, [[0.0], [4.0]], max_iter=1)[0][2]
    grid = np.array([[i, j] for i in range(8) for j in range(8)], dtype=float)
    start = grid[[0, 7, 56, 63]]
    np.testing.assert_array_equal(
        KMeans(4, init=start, tol=0).fit(grid).labels_, plain_kmeans(grid, start)[0]
    )


@pytest.mark.parametrize("d", [2, 30])
def test_empty_clusters_take_the_farthest_rows(d):
    X = blobs(200, d, 3, seed=0)
    start = np.r_[X[:2], np.full((2, d), 1e3), np.full((1, d), -1e3)]
    ours = KMeans(5, init=start, tol=0).fit(X)
    labels, _, objective, n_iter, _ = plain_kmeans(X, start)
    np.testing.assert_array_equal(ours.labels_, labels)
    assert ours.n_iter_ == n_iter
    assert ours.inertia_ == pytest.approx(objective, rel=1e-10)
    assert np.bincount(ours.labels_).min() > 0


@pytest.mark.parametrize("d", [3, 40])
def test_any_source_gives_the_same_bits(d, tmp_path):
    X = np.round(blobs(5000, d, 6, seed=1) * 5 + 100).clip(0, 255)
    start = rows_of(X, 6, 0)
    expected = KMeans(6, init=start, tol=0).fit(X)
    wide = np.zeros((10_000, 2 * d))
    wide[::2, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    np.save(tmp_path / "rows.npy", X)
    for source in (
        np.asfortranarray(X),
        wide[::2, ::2],
        X[::-1][::-1],
        read_only,
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        X.astype(np.uint8),
        X.astype(np.int16),
        X.astype(np.int64),
        X.astype(np.float32),
    ):
        found = KMeans(6, init=start, tol=0).fit(source)
        np.testing.assert_array_equal(found.labels_, expected.labels_)
        assert found.inertia_ == expected.inertia_
        np.testing.assert_array_equal(found.predict(source), expected.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_is_dense(dtype):
    X = np.where(np.random.default_rng(0).random((600, 50)) < 0.2, blobs(600, 50, 4, 0), 0.0)
    X = X.astype(dtype)
    start = rows_of(X, 4, 1)
    dense, sparse = (KMeans(4, init=start, tol=0).fit(A) for A in (X, sp.csr_matrix(X)))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    assert dense.inertia_ == pytest.approx(sparse.inertia_, rel=1e-9)
    np.testing.assert_allclose(dense.transform(X), sparse.transform(sp.csr_array(X)), rtol=1e-6)


@pytest.mark.parametrize("d", [2, 25])
def test_weights_are_repetitions_and_zero_is_removal(d):
    X = blobs(300, d, 4, seed=2)
    weight = np.random.default_rng(0).integers(0, 4, 300)
    start = rows_of(X, 4, 3)
    weighted = KMeans(4, init=start, tol=0).fit(X, sample_weight=weight)
    repeated = KMeans(4, init=start, tol=0).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)
    drawn = [KMeans(4, random_state=5).fit(X, sample_weight=weight)]
    drawn.append(KMeans(4, random_state=5).fit(np.repeat(X, weight, axis=0)))
    np.testing.assert_array_equal(drawn[0].predict(X), drawn[1].predict(X))


@pytest.mark.parametrize(("d", "k"), [(2, 20), (6, 20), (24, 50)])
def test_the_number_of_threads_changes_nothing(d, k):
    X = blobs(40_000, d, k, seed=3).astype(np.float32)
    one, two, eight = (
        KMeans(k, random_state=0, max_iter=15, tol=1e-3, n_jobs=n).fit(X) for n in (1, 2, 8)
    )
    for other in (two, eight):
        np.testing.assert_array_equal(one.labels_, other.labels_)
        np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(one.objective_history_, other.objective_history_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize(
    ("n", "d", "k", "far"),
    [(60, 1, 4, 0), (3000, 2, 30, 9), (9000, 3, 5, 0), (1500, 20, 40, 30), (5000, 7, 1, 0)],
)
def test_all_passes_at_once_have_the_bits_of_a_partition(monkeypatch, n, d, k, far, tol):
    """Also with weights, and where `far` of the first centres get no row."""
    X = blobs(n, d, k, seed=7).astype(np.float32)
    start, rng = rows_of(X, k, 3).astype(np.float64), np.random.default_rng(1)
    start[k - far :] += 50.0
    weight = np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.5, 2.0, n))
    monkeypatch.setattr(small_lloyd, "FEW_PRODUCTS", 2**24)
    seen = []

    def spy(*args):
        seen.append(small_lloyd.lloyd_at_once(*args))
        return seen[-1]

    for how in ({}, {"sample_weight": weight}):
        for max_iter in (2, 300):
            model = KMeans(k, init=start, tol=tol, max_iter=max_iter)
            monkeypatch.setattr(kmeans_module, "lloyd_at_once", spy)
            one = clone(model).fit(X, **how)
            monkeypatch.setattr(kmeans_module, "lloyd_at_once", lambda *_: None)
            other = clone(model).fit(X, **how)
            for name in ("labels_", "_centers", "objective_history_", "inertia_"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            assert (one.n_iter_, one.converged_) == (other.n_iter_, other.converged_)
    assert all(found is not None for found in seen)


def test_the_order_of_the_rows_changes_nothing_but_the_order():
    X = blobs(2000, 8, 5, seed=4)
    shuffle = np.random.default_rng(0).permutation(2000)
    a, b = KMeans(5, random_state=0).fit(X), KMeans(5, random_state=0).fit(X[shuffle])
    np.testing.assert_array_equal(a.labels_[shuffle], b.labels_)


def test_far_from_the_origin_and_tight_clusters():
    r = np.random.default_rng(0)
    for d in (2, 40):
        for X in (
            blobs(500, d, 5, seed=5) + 1e6,
            (blobs(500, d, 5, seed=5) + 1e4).astype(np.float32),
            # float32 products cannot tell these centres apart
            1e3 * r.integers(0, 3, (500, 1)) + 1e-3 * r.normal(size=(500, d)),
        ):
            start = rows_of(X, 5, 0)
            ours = KMeans(5, init=start, tol=0).fit(X)
            np.testing.assert_array_equal(ours.labels_, plain_kmeans(X, start)[0])
            np.testing.assert_array_equal(ours.predict(X), ours.labels_)


def test_history_never_rises_and_ends_at_the_objective():
    model = KMeans(10, random_state=0, tol=0).fit(blobs(3000, 12, 10, seed=6, spread=1.0))
    history = model.objective_history_
    assert (np.diff(history) <= 1e-12 * history[:-1]).all()
    assert (
        history[-1]
        == model.inertia_
        == model.objective_
        == -model.score(blobs(3000, 12, 10, seed=6, spread=1.0))
    )


def test_starts():
    X = blobs(400, 3, 4, seed=7)
    by_callable = KMeans(4, init=lambda X, k, random_state: X[:k], n_init=1).fit(X)
    by_array = KMeans(4, init=X[:4]).fit(X)
    np.testing.assert_array_equal(by_callable.labels_, by_array.labels_)
    many = KMeans(4, init="random", n_init=5, random_state=0).fit(X)
    few = KMeans(4, init="random", n_init=1, random_state=0).fit(X)
    assert many.inertia_ <= few.inertia_
    assert KMeans(4, random_state=0).fit(X).inertia_ == KMeans(4, random_state=0).fit(X).inertia_


def test_fewer_different_rows_than_clusters():
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        model = KMeans(3, random_state=0).fit(np.repeat([[0.0], [1.0]], 5, axis=0))
    assert model.inertia_ == 0
    assert model.n_clusters_ == len(model.cluster_centers_) == 2
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        KMeans(5, random_state=0, max_iter=1, tol=0).fit(blobs(500, 2, 5, seed=0, spread=1.0))


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("seed", range(8))
def test_equal_rows_are_in_one_cluster(seed):
    """The means of equal rows are rounded, so that these rows seem to be apart."""
    r = np.random.default_rng(seed)
    different = 10.0 ** r.integers(-3, 4) * r.normal(size=(r.integers(1, 5), r.integers(1, 6)))
    X = different[r.integers(len(different), size=80)]
    _, expected = np.unique(X, axis=0, return_inverse=True)
    weight = np.ones(80)
    weight[:5] = 0
    for algorithm in ("search", "paper"):
        for rows, w in ((X, None), (sp.csr_array(X), None), (X.astype(np.float32), weight)):
            model = KMeans(5, algorithm=algorithm, random_state=0).fit(rows, sample_weight=w)
            assert sorted(set(model.labels_)) == list(range(model.n_clusters_))
            if algorithm == "search":
                pairs = np.unique(np.c_[model.labels_, expected.ravel()], axis=0)
                assert len(pairs) == model.n_clusters_ == len(np.unique(X, axis=0))
                assert model.inertia_ == 0
            np.testing.assert_array_equal(model.predict(rows), model.labels_)


def test_memory_stays_far_below_rows_times_clusters():
    resource = pytest.importorskip("resource")
    X = np.random.default_rng(0).normal(size=(400_000, 16)).astype(np.float32)
    KMeans(200, init=X[:200], max_iter=1, tol=1e9).fit(X[:5000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KMeans(200, init=X[:200], max_iter=2, tol=0).fit(X)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 400_000 * 200 * 4 / 2


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_the_history_is_measured_and_never_rises(metric, dtype):
    # Lengths of float32 rows are 1 only nearly, and rows are the first centres.
    X = np.round(np.random.default_rng(7).normal(size=(400, 8)) * 2).astype(dtype)
    X = X[np.abs(X).sum(axis=1) > 0]
    history = KMeans(150, metric=metric, random_state=0, tol=0).fit(X).objective_history_
    assert (np.diff(history) <= 0).all()
    unit = metric == "cosine"
    with workers(1):
        partition = Partition(Rows(X, unit=unit))
        centers = partition.rows.take(np.arange(150))
        for _ in range(3):
            partition.assign(centers)
            centers = partition.means(centers)
            assert partition.sse == pytest.approx(partition.measure_sse(centers), rel=1e-12)
