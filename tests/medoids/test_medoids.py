"""KMedoids and DPMedoids: the plain loops, ends where nothing helps, any dissimilarity."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import kmedoids as plain
from reference.dp_medoids import dp_medoids as plain_dp_medoids
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import pairwise_distances

import madbayes.medoids.dissimilarity as engine
import madbayes.medoids.path as path
from madbayes import DPMedoids, KMedoids
from madbayes._rows.threads import workers
from madbayes.medoids.search import grow


def table(kind, n=40, seed=0):
    """Rows that are hard in some way."""
    r = np.random.default_rng(seed)
    X = (r.normal(size=(4, 3)) * 4)[r.integers(0, 4, n)] + r.normal(size=(n, 3))
    return {
        "plain": X,
        "ties": np.round(X),
        "twice": np.repeat(X[: n // 2], 2, axis=0),
        "float32": X.astype(np.float32),
        "far": X + 1e6,
        "constant column": np.c_[X, np.full(n, 7.0)],
        "one column": np.round(X[:, :1], 1),
    }[kind]


KINDS = ["plain", "ties", "twice", "float32", "far", "constant column", "one column"]


def weights(n, seed=1):
    return np.random.default_rng(seed).integers(1, 4, n).astype(float)


def exact(X):
    """Euclidean distances by differences."""
    X = X.astype(np.float64)
    D = np.array([[np.sqrt(((x - y) ** 2).sum()) for y in X] for x in X])
    return D


def lopsided(n, seed):
    """Dissimilarities that are not symmetric and obey no triangle inequality; with ties."""
    D = np.random.default_rng(seed).integers(1, 30, (n, n)).astype(float)
    np.fill_diagonal(D, 0)
    return D


# As printed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_alternation_is_the_plain_loop(kind, weighted):
    X = table(kind)
    w = weights(len(X)) if weighted else None
    D = exact(X).astype(X.dtype).astype(float)  # float32 rows: dissimilarities in float32
    for k in (1, 3, 6):
        first = np.random.default_rng(k).choice(len(X), k, replace=False)
        labels, medoids, n_iter, history = plain.kmedoids(D, first, np.ones(40) if w is None else w)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows
            model = KMedoids(k, algorithm="paper", init=first).fit(X, sample_weight=w)
        used = sorted(set(labels))  # medoids without a row are left out
        medoids = [medoids[c] for c in used]
        assert model.medoid_indices_.tolist() == medoids
        assert model.labels_.tolist() == [used.index(label) for label in labels]
        assert model.n_iter_ == n_iter
        np.testing.assert_allclose(model.objective_history_, history, rtol=1e-12)
        np.testing.assert_array_equal(model.cluster_centers_, X[medoids])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [0.7, 3.0, 12.0, 100.0])
def test_algorithm_1_with_medoids_is_the_plain_loop(kind, penalty):
    X = table(kind)
    D = exact(X).astype(X.dtype).astype(float)
    for w in (None, weights(len(X))):
        labels, medoids, n_iter, history = plain_dp_medoids(
            D, penalty, np.ones(40) if w is None else w
        )
        model = DPMedoids(penalty, algorithm="paper").fit(X, sample_weight=w)
        assert model.medoid_indices_.tolist() == medoids
        assert model.labels_.tolist() == labels
        assert model.n_iter_ == n_iter
        np.testing.assert_allclose(model.objective_history_, history, rtol=1e-12)


def test_algorithm_1_with_a_cap_and_without_symmetry():
    D, w = lopsided(30, 0), weights(30)
    for cap in (1, 4, None):
        labels, medoids, n_iter, _ = plain_dp_medoids(D, 9.0, w, max_clusters=cap)
        model = DPMedoids(9.0, metric="precomputed", algorithm="paper", max_clusters=cap)
        model.fit(D, sample_weight=w)
        assert model.medoid_indices_.tolist() == medoids
        assert (model.labels_.tolist(), model.n_iter_) == (labels, n_iter)
        assert cap is None or model.n_clusters_ <= cap


# The search


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    k=st.integers(1, 5),
    penalty=st.floats(0.5, 60),
    seed=st.integers(0, 10**6),
    square=st.booleans(),
)
def test_the_search_ends_where_no_change_helps(n, k, penalty, seed, square):
    k, w = min(k, n), weights(n, seed)
    D = lopsided(n, seed) if square else exact(np.round(table("ties", 12, seed)[:n]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows
        fixed = KMedoids(k, metric="precomputed").fit(D, sample_weight=w)
    here = plain.objective(D, fixed.medoid_indices_, w)
    assert fixed.objective_ == pytest.approx(here)
    assert here <= plain.lowest_neighbour(D, fixed.medoid_indices_, w, 0.0, n, True) * (1 + 1e-9)
    assert here >= plain.lowest_objective(D, [k], w) * (1 - 1e-9)

    for cap in (None, 3):
        most = min(cap or n, n)
        model = DPMedoids(penalty, metric="precomputed", max_clusters=cap).fit(D, sample_weight=w)
        here = plain.objective(D, model.medoid_indices_, w, penalty)
        assert model.objective_ == pytest.approx(here)
        assert model.n_clusters_ == len(set(model.medoid_indices_)) <= most
        around = plain.lowest_neighbour(D, model.medoid_indices_, w, penalty, most, False)
        assert here <= around * (1 + 1e-9)
        assert (np.diff(model.objective_history_) <= 0).all()


def test_the_search_nearly_always_finds_the_minimum_of_few_rows():
    found = {"k": 0, "open": 0}
    for seed in range(45):
        r = np.random.default_rng(seed)
        kind = seed % 3
        D = [exact(table("plain", 9, seed)), exact(r.normal(size=(9, 1))), lopsided(9, seed)][kind]
        w = weights(9, seed)
        least = plain.lowest_objective(D, [3], w)
        model = KMedoids(3, metric="precomputed", random_state=0).fit(D, None, w)
        found["k"] += model.objective_ <= least + 1e-9
        penalty = float(r.uniform(0.05, 0.5) * (w @ D).min())
        least = plain.lowest_objective(D, range(1, 10), w, penalty)
        model = DPMedoids(penalty, metric="precomputed", random_state=0).fit(D, None, w)
        found["open"] += model.objective_ <= least + 1e-9
    assert found["k"] >= 43 and found["open"] >= 43, found


def test_effort_is_patience():
    X = make_blobs(300, 2, centers=20, cluster_std=2.0, random_state=0)[0]
    for make in (lambda e: KMedoids(20, effort=e), lambda e: DPMedoids(20.0, effort=e)):
        none, usual, more = (make(e).set_params(random_state=0).fit(X) for e in (1e-9, 1, 10))
        assert more.objective_ <= usual.objective_ <= none.objective_
        assert more.objective_ < none.objective_
        assert (np.diff(more.objective_history_) <= 0).all()
    with pytest.raises(ValueError, match="effort=0"):
        KMedoids(2, effort=0).fit(X)
    with pytest.raises(TypeError, match="effort='much'"):
        DPMedoids(2.0, effort="much").fit(X)


def test_the_lazy_start_takes_what_saves_most_each_time():
    for seed in range(5):
        D, w = lopsided(50, seed).T.copy(), weights(50, seed)
        medoids = [int((D @ w).argmin())]
        while len(medoids) < 12:
            paid = D[medoids].min(axis=0)
            saves = np.maximum(paid - D, 0) @ w
            saves[medoids] = -1
            medoids.append(int(saves.argmax()))
        assert grow(D, w, 12).tolist() == medoids


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_is_never_above_the_alternation_from_its_end(kind):
    X = table(kind, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        searched = KMedoids(5).fit(X)
        printed = KMedoids(5, algorithm="paper", init=searched.medoid_indices_).fit(X)
    assert printed.objective_ == pytest.approx(searched.objective_, rel=1e-9)
    assert set(printed.medoid_indices_) == set(searched.medoid_indices_) or kind != "plain"
    open_ = DPMedoids(10.0).fit(X)
    assert open_.objective_ <= DPMedoids(10.0, algorithm="paper").fit(X).objective_ * (1 + 1e-12)


def test_more_starts_are_never_worse_and_repeatable():
    X = make_blobs(400, 2, centers=20, random_state=0)[0]
    one = KMedoids(20, init="random", random_state=3).fit(X)
    many = KMedoids(20, init="random", n_init=8, random_state=3).fit(X)
    again = KMedoids(20, init="random", n_init=8, random_state=3).fit(X)
    assert many.objective_ <= one.objective_
    np.testing.assert_array_equal(many.medoid_indices_, again.medoid_indices_)


# Equalities


@pytest.mark.parametrize("model", [KMedoids(4), DPMedoids(60.0), DPMedoids()], ids=str)
def test_threads_shuffles_and_storage(model):
    X = make_blobs(500, 3, centers=4, cluster_std=0.6, random_state=5)[0]
    expected = model.set_params(n_jobs=1).fit(X)
    medoids, objective, labels = expected.medoid_indices_, expected.objective_, expected.labels_
    threaded = model.set_params(n_jobs=3).fit(np.asfortranarray(X))
    assert threaded.objective_ == objective
    np.testing.assert_array_equal(threaded.medoid_indices_, medoids)
    np.testing.assert_array_equal(threaded.labels_, labels)
    np.testing.assert_array_equal(model.predict(X), labels)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = model.fit(X[order])
    np.testing.assert_array_equal(order[shuffled.medoid_indices_], medoids)
    sparse = model.fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.medoid_indices_, medoids)
    np.testing.assert_array_equal(model.predict(sp.csr_array(X)), labels)
    np.testing.assert_array_equal(model.fit(X.astype(np.float32)).labels_, labels)


@pytest.mark.parametrize("model", [KMedoids(3), DPMedoids(9.0), DPMedoids()], ids=str)
def test_weights_count_rows(model):
    X = make_blobs(120, 2, centers=3, cluster_std=0.7, random_state=1)[0]
    w = np.random.default_rng(0).integers(0, 3, 120)
    model.fit(X, sample_weight=w)
    centers, objective, labels = model.cluster_centers_, model.objective_, model.labels_
    assert (w[model.medoid_indices_] > 0).all()
    repeated = model.fit(np.repeat(X, w, axis=0))
    assert repeated.objective_ == pytest.approx(objective)
    np.testing.assert_array_equal(repeated.cluster_centers_, centers)
    without = model.fit(X[w > 0], sample_weight=w[w > 0])
    assert without.objective_ == objective
    np.testing.assert_array_equal(without.labels_, labels[w > 0])


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "manhattan"])
def test_a_dissimilarity_does_not_depend_on_the_rows_around_it(metric):
    X = np.random.default_rng(0).normal(size=(97, 40)) + 5
    X[3] = 0
    with workers(1):
        whole = engine.matrix(X, metric, {})
        for rows in ([0, 3], range(50), [7, 96, 20]):
            at = np.array(rows)
            some = engine.matrix(X[at], metric, {})
            np.testing.assert_array_equal(some, whole[np.ix_(at, at)])
            np.testing.assert_array_equal(engine.to_points(X, X[at], metric, {}), whole[:, at])


def test_cosine_with_rows_of_zeros():
    X = np.array([[1.0, 0], [2, 0.1], [0, 0], [0, 0], [0, 3], [0.1, 2]])
    model = KMedoids(3, metric="cosine", random_state=0).fit(X)
    assert model.labels_[0] == model.labels_[1] and model.labels_[4] == model.labels_[5]
    assert model.labels_[2] == model.labels_[3] and len(set(model.labels_)) == 3
    D = model.transform(X)
    np.testing.assert_array_equal(np.delete(D[2], model.labels_[2]), 1.0)
    with workers(1):
        whole = [engine.matrix(rows, "cosine", {}) for rows in (X, sp.csr_array(X))]
    np.testing.assert_allclose(*whole, atol=1e-15)


def words():
    text = ["ant", "and", "any", "hand", "land", "horse", "house", "mouse", "grouse"]
    return np.array(
        [
            [sum(a != b for a, b in zip(v, w, strict=False)) + abs(len(v) - len(w)) for w in text]
            for v in text
        ]
    )


@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("manhattan", None),
        ("cosine", None),
        ("sqeuclidean", None),
        ("minkowski", {"p": 3}),
        ("seuclidean", None),
        ("mahalanobis", None),
        ("hamming", None),
        (lambda x, y: np.abs(x - y).max(), None),
    ],
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_a_metric_is_its_matrix(metric, params):
    X = np.round(table("plain", 60) + 9)
    D = pairwise_distances(X, metric=metric, **(params or {}))
    for model in (KMedoids(4, random_state=0), DPMedoids(float(D.mean()) * 3, random_state=0)):
        by_matrix = model.set_params(metric="precomputed").fit(D)
        objective, labels, moved = by_matrix.objective_, by_matrix.labels_, by_matrix.transform(D)
        assert not hasattr(by_matrix, "cluster_centers_")
        by_name = model.set_params(metric=metric, metric_params=params).fit(X)
        assert by_name.objective_ == pytest.approx(objective)
        np.testing.assert_allclose(by_name.transform(X), moved, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(by_name.predict(X), by_name.labels_)
        assert by_name.score(X) == pytest.approx(-by_name.inertia_)
        model.set_params(metric="euclidean", metric_params=None)
        assert labels.shape == by_name.labels_.shape


def test_a_matrix_need_not_be_symmetric():
    D = lopsided(40, 3)
    for model in (KMedoids(4, metric="precomputed"), DPMedoids(20.0, metric="precomputed")):
        for given_ in (D, np.asfortranarray(D)):
            model.fit(given_)
            assert model.inertia_ == pytest.approx(D[:, model.medoid_indices_].min(axis=1).sum())
            np.testing.assert_array_equal(model.labels_, D[:, model.medoid_indices_].argmin(axis=1))
    new = np.random.default_rng(0).uniform(0, 40, (7, 40))
    np.testing.assert_array_equal(model.predict(new), new[:, model.medoid_indices_].argmin(axis=1))
    far = new[:, model.medoid_indices_].min(axis=1) > 20.0
    np.testing.assert_array_equal(model.predict(new, novel="paper") == -1, far)


def test_negative_by_rounding_is_zero():
    X = table("plain", 60)
    D = 1 - np.corrcoef(X)
    D[0, 1] = D[1, 0] = -1e-16
    model = KMedoids(3, metric="precomputed").fit(D)
    assert model.inertia_ == pytest.approx(KMedoids(3, metric="correlation").fit(X).inertia_)
    assert D[0, 1] == -1e-16
    assert (model.transform(D) >= 0).all()


def test_rows_of_weight_zero_do_not_scale_the_metric():
    X = table("plain", 60)
    w = np.r_[np.ones(50), np.zeros(10)]
    X[50:] *= 1000
    for metric in ("seuclidean", "mahalanobis"):
        with_ = KMedoids(3, metric=metric).fit(X, sample_weight=w)
        without = KMedoids(3, metric=metric).fit(X[:50])
        assert with_.inertia_ == pytest.approx(without.inertia_)
        np.testing.assert_array_equal(with_.medoid_indices_, without.medoid_indices_)
    assert KMedoids(2, metric="mahalanobis").fit(X[:, :1]).n_clusters_ == 2


def test_the_matrix_of_the_caller_is_left_alone():
    D = words().astype(float)
    D.flags.writeable = False
    model = KMedoids(2, metric="precomputed").fit(D)
    assert model.__sklearn_tags__().input_tags.pairwise
    assert not KMedoids().__sklearn_tags__().input_tags.pairwise
    assert D.sum() == words().sum()
    D = words().astype(float)
    DPMedoids(3.0, metric="precomputed").fit(D)
    D[0, 0] = 1.0  # still writeable


# How many


def test_novel_rows_are_those_that_would_open_a_cluster():
    X = make_blobs(90, 2, centers=[[0, 0], [20, 0], [0, 20]], random_state=0)[0]
    model = DPMedoids(8.0).fit(X)
    assert model.n_clusters_ >= 3
    distance = model.transform([[0.0, 0.0], [300.0, 300.0]]).min(axis=1)
    assert distance[0] < 8.0 < distance[1]
    assert model.predict([[0.0, 0.0], [300.0, 300.0]], novel="paper")[1] == -1
    assert model.predict([[300.0, 300.0]])[0] >= 0


def test_huge_and_tiny_penalties():
    X = table("plain")
    assert DPMedoids(1e9).fit(X).n_clusters_ == 1
    assert DPMedoids(1e-9).fit(X).n_clusters_ == len(X)
    assert DPMedoids(1e-9).fit(table("twice")).n_clusters_ == 20
    assert DPMedoids(1e-9, max_clusters=7).fit(X).n_clusters_ == 7


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "manhattan"])
@pytest.mark.parametrize("k", [2, 3, 7, 12])
def test_auto_finds_clusters_that_are_apart(metric, k):
    for seed in range(3):
        r = np.random.default_rng(seed)
        centers = r.permutation([(a, b) for a in range(4) for b in range(3)])[:k] * 12.0
        X, _ = make_blobs(40 * k, centers=centers, random_state=seed)
        model = DPMedoids(metric=metric).fit(X)
        assert model.n_clusters_ == model.evidence_.n_clusters == k
        step = model.path_.step_of(k)
        assert model.path_.penalty_low[step] < model.penalty_ < model.path_.penalty_high[step]
        assert model.evidence_.strength == "strong"


@pytest.mark.parametrize("shape", [(20, 2), (60, 1), (200, 2), (400, 5), (200, 40)])
def test_auto_finds_nothing_in_noise(shape):
    for seed in range(5):
        r = np.random.default_rng(seed)
        for X in (r.normal(size=shape), r.uniform(size=shape)):  # of 20 rows, other draws: 1 in 150
            assert DPMedoids(random_state=0).fit(X).n_clusters_ == 1


def test_auto_with_a_hint_a_cap_and_a_sample(monkeypatch):
    X, _ = make_blobs(600, centers=np.array([[0, 0], [30, 0], [0, 30], [33, 30]]), random_state=0)
    assert DPMedoids().fit(X).n_clusters_ == 4
    assert 5 <= DPMedoids(n_clusters_hint=7).fit(X).n_clusters_ <= 11
    assert DPMedoids(max_clusters=2).fit(X).n_clusters_ <= 2
    monkeypatch.setattr(path, "SAMPLE", 150)
    first = DPMedoids(random_state=0).fit(X)
    assert first.n_clusters_ == 4
    assert DPMedoids(random_state=0).fit(X).penalty_ == first.penalty_


@pytest.mark.parametrize("algorithm", ["search", "paper"])
def test_auto_is_on_the_scale_of_the_algorithm(algorithm):
    X, _ = make_blobs(150, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    for metric in ("euclidean", "sqeuclidean", "manhattan"):
        model = DPMedoids(algorithm=algorithm, metric=metric, random_state=0).fit(X)
        assert model.n_clusters_ == model.evidence_.n_clusters == 3
        assert model.evidence_.penalty == model.penalty_
        again = DPMedoids(model.penalty_, algorithm=algorithm, metric=metric, random_state=0).fit(X)
        assert again.n_clusters_ == 3
        assert not hasattr(model.set_params(penalty=9.0).fit(X), "evidence_")
        assert not hasattr(model, "path_")


@pytest.mark.parametrize("hint", [1, 2, 4, 9, 20, 50])
def test_the_number_is_what_evidence_says(hint):
    for X in (table("plain"), table("twice"), table("one column"), np.ones((40, 2))):
        for algorithm in ("search", "paper"):
            model = DPMedoids(n_clusters_hint=hint, algorithm=algorithm, random_state=0).fit(X)
            assert model.n_clusters_ == model.evidence_.n_clusters
            if algorithm == "search" and hint <= 9 and np.ptp(X) > 0:
                assert -(-2 * hint // 3) <= model.n_clusters_ <= hint + max(1, hint // 2)


def test_farthest_first():
    X = np.array([[0.0], [1.0], [5.0], [10.0]])
    # the best single row is 1 (or 5, with the same total: the lower index), then 10, then 5
    model = DPMedoids("farthest-first", n_clusters_hint=2, algorithm="paper").fit(X)
    assert model.penalty_ == 4.0
    for hint in (1, 2, 3, 4):
        model = DPMedoids("farthest-first", n_clusters_hint=min(hint, 3)).fit(X)
        assert model.n_clusters_ == min(hint, 3)
    with pytest.raises(ValueError, match="needs n_clusters_hint"):
        DPMedoids("farthest-first").fit(X)
    with pytest.raises(ValueError, match=r"n_clusters_hint=5 is more than X can give"):
        DPMedoids("farthest-first", n_clusters_hint=5).fit(X)


# Odd input


def test_one_row_equal_rows_and_as_many_clusters_as_rows():
    for model in (KMedoids(1), KMedoids(1, algorithm="paper"), DPMedoids(), DPMedoids(1.0)):
        assert model.fit([[3.0]]).labels_.tolist() == [0]
        assert model.fit(np.full((9, 2), 0.1)).inertia_ == 0
        assert model.n_clusters_ == 1
        assert model.fit(np.arange(2.0)[:, None]).n_clusters_ in (1, 2)
    X = table("plain")
    assert KMedoids(40).fit(X).inertia_ == 0
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        twice = KMedoids(30).fit(table("twice"))
    assert sorted(set(twice.labels_)) == list(range(twice.n_clusters_))
    assert twice.n_clusters_ == len(twice.medoid_indices_) == len(np.unique(table("twice"), axis=0))
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        KMedoids(6, init="random", random_state=0, max_iter=1).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        DPMedoids(2.0, algorithm="paper", max_iter=1).fit(X)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (KMedoids(41), "n_clusters=41 must be <= n_samples=40"),
        (KMedoids(2, metric="no such"), "no such"),
        (KMedoids(2, init=[0]), "2 different indices"),
        (KMedoids(2, init=[0, 0]), "2 different indices"),
        (KMedoids(2, init=[0.0, 1.0]), "2 different indices"),
        (KMedoids(2, init=[0, 40]), "init has 40"),
        (KMedoids(2, init="best"), "init='best'"),
        (KMedoids(2, algorithm="pam"), "algorithm='pam'"),
        (KMedoids(2, metric_params={"p": 1}), "takes no options"),
        (KMedoids(2, metric="precomputed"), r"square matrix.*\(40, 3\)"),
        (DPMedoids(3.0, metric="precomputed"), r"square matrix.*\(40, 3\)"),
        (DPMedoids(-1.0), r"penalty=-1.0 must be.*unit of the metric"),
        (DPMedoids(max_clusters=0), "max_clusters=0"),
        (DPMedoids(n_clusters_hint=0), "n_clusters_hint=0"),
        (DPMedoids(1.0, n_clusters_hint=3), "n_clusters_hint=3 would be ignored"),
        (KMedoids(2, metric=lambda x, y: -1.0), "finite and >= 0"),
        (KMedoids(2, metric=lambda x, y: np.nan), "finite and >= 0"),
    ],
)
def test_bad_parameters(model, says):
    with pytest.raises(ValueError, match=says):
        model.fit(table("plain"))


def test_bad_types_weights_and_matrices():
    X = table("plain")
    for penalty in ("cheap", None, True, [1.0]):
        with pytest.raises(TypeError, match="unit of the metric"):
            DPMedoids(penalty).fit(X)
    for weight in (1e300, 1e-300):
        with pytest.raises(ValueError, match="sample_weight reaches"):
            KMedoids(2).fit(X, sample_weight=np.full(len(X), weight))
    for model in (KMedoids(2), DPMedoids(3.0), DPMedoids()):
        model.set_params(metric="precomputed")
        for factor, weight in ((1e280, 1e90), (1e-280, 1e-90)):
            with pytest.raises(
                ValueError, match=r"weights up to .*(over|under)flow.*sample_weight"
            ):
                model.fit(exact(X) * factor, sample_weight=np.full(len(X), weight))
    with pytest.raises(TypeError, match="metric_params"):
        KMedoids(2, metric_params=3).fit(X)
    with pytest.raises(ValueError, match="of positive weight"):
        KMedoids(5).fit(X, sample_weight=np.r_[np.ones(4), np.zeros(36)])
    with pytest.raises(ValueError, match="no index of a row of positive weight"):
        KMedoids(2, init=[0, 1]).fit(X, sample_weight=np.r_[0.0, np.ones(39)])
    model = KMedoids(2, metric="precomputed")
    with pytest.raises(ValueError, match=r"Negative values in data: X\[0, 1\]=-1"):
        model.fit([[0.0, -1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="seems to hold similarities"):
        model.fit(np.exp(-exact(X)))
    with pytest.raises(ValueError, match="NaN"):
        model.fit([[0.0, np.nan], [1.0, 0.0]])
    with pytest.raises((ValueError, TypeError), match=r"[Ss]parse"):
        model.fit(sp.csr_array(words()))
    with pytest.raises(NotFittedError):
        DPMedoids().predict(X, novel=True)
    model.fit(words())
    with pytest.raises(ValueError, match=r"3 features.*9 features"):
        model.predict(words()[:, :3])


def test_a_matrix_that_is_too_large_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(engine, "MATRIX_GIB", 1e-6)
    for metric in ("euclidean", "manhattan"):
        with pytest.raises(ValueError, match=r"limit of .* GiB.*sample.*precomputed"):
            KMedoids(2, metric=metric).fit(table("plain"))
    KMedoids(2, metric="precomputed").fit(exact(table("plain")))
