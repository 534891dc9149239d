"""DPMeans(algorithm="search"): as low as the objective goes, and what it guarantees at the end."""

import numpy as np
import pytest
from reference.partitions import (
    all_partitions,
    lowest_neighbour,
    lowest_objective,
    objective,
)
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_digits, load_iris

from madbayes import DPMeans, KMeans
from madbayes._partition.lloyd import LloydRows, follow, lloyd, nearest
from madbayes._partition.lloyd_kernels import lloyd_by_columns
from madbayes._partition.partition import Partition
from madbayes._rows.rows import Rows
from madbayes._search import driver
from madbayes._search.price import fixed
from madbayes.kmeans import dense_space
from madbayes.kmeans.pruning import indivisible, rough_scatter


def random_problem(r, n):
    """Rows, weights and penalty of many kinds: blobs, duplicates, grids, heavy tails, scales."""
    d = r.choice([1, 2, 3, 5])
    X = [
        r.randn(n, d),
        r.randint(0, 4, (n, d)).astype(float),
        r.randn(n, d)[r.randint(0, n, n)],
        r.randn(3, d)[r.randint(0, 3, n)] * 3 + r.randn(n, d) / 2,
        r.standard_t(1.5, (n, d)),
    ][r.randint(5)]
    X = X * 10.0 ** r.randint(-3, 4) + r.choice([0, 10]) * r.randn(d)
    w = [np.ones(n), r.uniform(0.1, 3, n), 10 ** r.uniform(-3, 3, n)][r.choice([0, 0, 1, 2])]
    total = objective(X, np.zeros(n, int), 0.0, w)
    return X, w, max(total, 1e-12) * 10 ** r.uniform(-2.5, 0.2)


def test_the_recursion_over_subsets_is_the_minimum_over_all_partitions():
    r = np.random.RandomState(0)
    X, w = r.randn(6, 2), r.rand(6) + 0.1
    plain = min(objective(X, z, 0.7, w) for z in all_partitions(6) if z.max() < 3)
    assert lowest_objective(X, 0.7, w, 3) == pytest.approx(plain)


def test_global_optimum_of_small_problems():
    r, hits = np.random.RandomState(0), 0
    for _ in range(150):
        X, w, penalty = random_problem(r, r.randint(1, 9))
        cap = len(X) if r.rand() < 0.7 else r.randint(1, len(X) + 1)
        model = DPMeans(penalty, max_clusters=cap, random_state=0, n_jobs=1)
        model.fit(X, sample_weight=w)
        best = lowest_objective(X, penalty, w, cap)
        assert model.objective_ >= best * (1 - 1e-9)
        assert model.n_clusters_ <= cap
        hits += model.objective_ <= best * (1 + 1e-8)
    assert hits >= 0.99 * 150


@pytest.mark.parametrize("seed", range(20))
def test_no_single_move_is_left(seed):
    r = np.random.RandomState(seed)
    X, w, penalty = random_problem(r, r.randint(10, 50))
    cap = len(X) if seed % 3 else r.randint(1, 8)
    model = DPMeans(penalty, max_clusters=cap, random_state=seed).fit(X, sample_weight=w)
    assert model.n_clusters_ <= cap
    assert model.objective_ == pytest.approx(objective(X, model.labels_, penalty, w), rel=1e-9)
    lowest = lowest_neighbour(X, model.labels_, penalty, w, cap)
    assert lowest >= model.objective_ * (1 - 1e-8)
    assert (np.diff(model.objective_history_) <= 1e-12 * model.objective_history_[:-1]).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("factor", [1e-5, 1e-3, 1e-2, 0.1, 10])
@pytest.mark.parametrize("seed", range(4))
def test_never_above_the_printed_algorithm(seed, factor):
    r = np.random.RandomState(seed)
    X, w, _ = random_problem(r, 120)
    penalty = max(objective(X, np.zeros(120, int), 0.0, w), 1e-9) * factor
    found = DPMeans(penalty, random_state=0).fit(X, sample_weight=w).objective_
    for order in range(10):
        printed = DPMeans(penalty, algorithm="paper", order="random", random_state=order)
        assert found <= printed.fit(X, sample_weight=w).objective_ * (1 + 1e-12)


@pytest.mark.parametrize("name", ["iris", "digits", "uniform"])
@pytest.mark.parametrize("k", [4, 20])
def test_not_above_restarted_kmeans(name, k):
    X = {
        "iris": lambda: load_iris().data,
        "digits": lambda: load_digits().data[:400],
        "uniform": lambda: np.random.RandomState(0).rand(800, 2),
    }[name]()
    errors = {j: SklearnKMeans(j, n_init=2, random_state=0).fit(X).inertia_ for j in (k, k + 1)}
    penalty = errors[k] - errors[k + 1]
    assert penalty > 0
    model = DPMeans(penalty, random_state=0).fit(X)
    around = range(max(1, model.n_clusters_ - 2), model.n_clusters_ + 3)
    peers = (
        SklearnKMeans(j, n_init=10, random_state=1).fit(X).inertia_ + penalty * j for j in around
    )
    assert model.objective_ <= min(peers) * 1.0005


def test_a_whole_cluster_repays_what_no_row_does():
    r = np.random.default_rng(0)
    truth = r.integers(0, 8, 500)
    X = (r.normal(size=(8, 30)) * 3)[truth] + r.normal(size=(500, 30))
    printed = DPMeans(400.0, algorithm="paper").fit(X)
    found = DPMeans(400.0, random_state=0).fit(X)
    assert found.n_clusters_ == 8
    assert found.objective_ < 0.5 * printed.objective_


@pytest.mark.parametrize(
    ("n", "penalty", "few", "many"),
    [(24_000, 2000.0, 2, 20), (1_500, 3.0, 60, 200)],  # second: many neighbourhoods at a time
)
def test_same_result_for_any_number_of_threads(n, penalty, few, many):
    X = np.random.RandomState(0).randn(n, 3).astype(np.float32)
    one = DPMeans(penalty, random_state=0, n_jobs=1).fit(X)
    assert few < one.n_clusters_ < many
    two = DPMeans(penalty, random_state=0, n_jobs=3).fit(X)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.cluster_centers_, two.cluster_centers_)
    np.testing.assert_array_equal(one.objective_history_, two.objective_history_)


def test_weight_zero_is_removal():
    X = np.random.RandomState(1).randn(300, 3)
    w = np.r_[np.ones(200), np.zeros(100)]
    with_zeros = DPMeans(8.0, random_state=3).fit(X, sample_weight=w)
    without = DPMeans(8.0, random_state=3).fit(X[:200])
    np.testing.assert_array_equal(with_zeros.labels_[:200], without.labels_)
    np.testing.assert_array_equal(with_zeros.labels_, without.predict(X))


@pytest.mark.parametrize(
    "X", [np.zeros((1, 2)), np.full((7, 3), 1e6 + 0.1), np.repeat(np.eye(3), 5, axis=0)]
)
@pytest.mark.parametrize("penalty", [1e-9, 1e9])
def test_degenerate(X, penalty):
    model = DPMeans(penalty, random_state=0).fit(X)
    assert model.n_clusters_ == (len(np.unique(X, axis=0)) if penalty < 1 else 1)


def test_far_from_the_origin_and_float32():
    r = np.random.RandomState(2)
    X = np.repeat(r.randn(6, 2) * 10, 30, axis=0) + r.randn(180, 2)
    near = DPMeans(60.0, random_state=0).fit(X)
    far = DPMeans(60.0, random_state=0).fit(X + 1e7)
    single = DPMeans(60.0, random_state=0).fit(X.astype(np.float32))
    np.testing.assert_array_equal(near.labels_, far.labels_)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-6)
    assert single.objective_ == pytest.approx(near.objective_, rel=1e-5)
    assert single.cluster_centers_.dtype == np.float32


def test_a_sample_for_the_search_keeps_the_guarantee(monkeypatch):
    X = np.random.RandomState(3).randn(600, 2)
    whole = DPMeans(25.0, random_state=0).fit(X)
    monkeypatch.setattr(driver, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(dense_space, "SMALL", 100)
    sampled = DPMeans(25.0, random_state=0).fit(X)
    lowest = lowest_neighbour(X, sampled.labels_, 25.0, np.ones(600), 600)
    assert lowest >= sampled.objective_ * (1 - 1e-8)
    assert sampled.objective_ <= whole.objective_ * 1.02


def test_clusters_come_from_large_to_small():
    r = np.random.RandomState(0)
    X = np.r_[r.randn(20, 2), r.randn(90, 2) + 20, r.randn(50, 2) - 20]
    sizes = np.bincount(DPMeans(100.0, random_state=0).fit(X).labels_)
    assert sizes.tolist() == [90, 50, 20]


def test_a_penalty_for_hardly_any_cluster_warns_and_still_answers():
    X = np.random.default_rng(0).normal(size=(4200, 1)).round(4)
    with pytest.warns(UserWarning, match="penalty=1e-09 is so small that the 4200 rows"):
        model = DPMeans(1e-9, random_state=0).fit(X)
    assert model.n_clusters_ == len(np.unique(X))
    assert model.inertia_ == pytest.approx(0.0, abs=1e-12)


def test_little_effort_ends_in_a_local_minimum_and_much_is_not_above_it():
    X = np.random.RandomState(4).randn(600, 4)
    objectives = []
    for effort in (0.1, 1.0, 10.0):
        model = DPMeans(60.0, effort=effort, random_state=0, n_jobs=1).fit(X)
        lowest = lowest_neighbour(X, model.labels_, 60.0, np.ones(600), 600)
        assert lowest >= model.objective_ * (1 - 1e-8)
        objectives.append(model.objective_)
    assert objectives[2] <= objectives[0]


@pytest.mark.parametrize("sample", [20_000, 500])
@pytest.mark.parametrize("n_init", [1, 2])
def test_more_effort_never_ends_higher(sample, n_init, monkeypatch):
    monkeypatch.setattr(driver, "SAMPLE_ROWS", sample)
    X = np.random.RandomState(8).randn(900, 4)
    for model in (KMeans(15, algorithm="search"), DPMeans(40.0)):
        model.set_params(n_init=n_init, random_state=0, n_jobs=1)
        found = [model.set_params(effort=e).fit(X).objective_ for e in (0.1, 0.3, 1, 2, 3, 6)]
        assert (np.diff(found) <= 0).all()
        assert found[-1] < found[0]


def test_crossings_are_below_both_parents_on_noise():
    X = np.random.RandomState(5).randn(2000, 4)
    rng = np.random.RandomState(0)
    space = dense_space.DenseSpace(X, np.ones(2000), fixed(30, 2000))
    lower = 0
    for _ in range(6):
        one, other = (space.lloyd_until(space.new_start(30, rng), 1e-5) for _ in range(2))
        child = space.lloyd_until(space.cross(one, other, 30), 1e-5)
        assert child.k == 30
        lower += child.objective < min(one.objective, other.objective)
    assert lower >= 5


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_many_mid_size_clusters_are_not_above_ten_restarts(metric):
    X = np.random.RandomState(6).randn(1500, 6)
    X /= np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else 1.0
    found = KMeans(25, algorithm="search", metric=metric, random_state=0, n_jobs=1).fit(X)
    if metric == "euclidean":
        peer = SklearnKMeans(25, n_init=10, random_state=0).fit(X).inertia_
    else:
        peer = KMeans(25, metric=metric, n_init=10, random_state=0, n_jobs=1).fit(X).inertia_
    assert found.inertia_ < peer


def test_rows_that_centres_cover_cost_nothing():
    X = np.repeat(np.random.RandomState(7).randn(20, 12), 50, axis=0)
    assert KMeans(20, algorithm="search", random_state=0, n_jobs=1).fit(X).inertia_ < 1e-20


def test_rows_that_no_split_can_improve_are_told_for_certain():
    r, sure = np.random.RandomState(3), 0
    for _ in range(200):
        X, w, penalty = random_problem(r, r.randint(5, 9))
        if indivisible(X, w, np.arange(len(X)), np.average(X, axis=0, weights=w), penalty):
            one = objective(X, np.zeros(len(X), int), penalty, w)
            assert lowest_objective(X, penalty, w, len(X)) >= one * (1 - 1e-9)
            sure += 1
    assert 20 < sure < 180


@pytest.mark.parametrize("weighted", [False, True])
def test_products_in_float32_prove_nothing_that_is_not_so(weighted):
    """Rows far from 0 and penalties next to the largest eigenvalue, on either side."""
    r = np.random.RandomState(4)
    X = (r.randn(3000, 20) * np.linspace(0.1, 2, 20) + 500).astype(np.float32)
    w = r.uniform(0.2, 3, 3000) if weighted else np.full(3000, 2.0)
    center = np.average(X.astype(np.float64), axis=0, weights=w)
    largest = np.linalg.eigvalsh((w[:, None] * (X - center)).T @ (X - center))[-1]
    far = r.randn(4000, 20).astype(np.float32) * 1e4  # between the rows, and not asked about
    rows = np.sort(r.choice(7000, 3000, replace=False))
    all_rows, weights = np.empty((7000, 20), np.float32), np.ones(7000)
    all_rows[rows], all_rows[np.setdiff1d(np.arange(7000), rows)] = X, far
    weights[rows] = w
    here = all_rows, weights, rows, center
    answers = [indivisible(*here, largest * share) for share in (0.5, 0.9999, 1.0001, 2.0)]
    assert answers == [False, False, True, True]
    rough, wrong = rough_scatter(*here)
    assert 0 < wrong < 0.1 * largest  # else nothing is saved
    assert abs(np.linalg.eigvalsh(rough)[-1] - largest) < wrong


def test_equal_starts_are_descended_from_once():
    space = dense_space.DenseSpace(np.arange(6.0)[:, None], np.ones(6), fixed(6, 6))
    half, three = space.division(np.arange(6) // 3), space.division(np.arange(6) // 2)
    same = space.division(np.arange(6) // 3)
    assert driver.different([half, three, same]) == [three, half]


@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_products_leave_nothing_to_rounding(shift):
    r = np.random.RandomState(0)
    X = np.vstack([r.randint(0, 3, (200, 20)), r.randn(200, 20)]) + shift
    C = np.vstack([X[r.choice(400, 60)], X[:5], r.randn(5, 20) * 1e3])  # ties among them
    plain = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest(X, C), plain)


def test_passes_by_products_are_those_of_the_partition():
    r = np.random.RandomState(0)
    X = r.randn(1500, 200) + 3 * r.randn(20, 200)[r.randint(0, 20, 1500)]
    w, seeds = r.uniform(0.5, 2, 1500), X[r.choice(1500, 100, replace=False)]
    assert seeds.size * len(X) > 2**24
    partition = Partition(Rows(X, weight=w))
    expected = follow(partition, seeds, 3)
    labels, centers, error = lloyd(X, seeds, w, 3)
    np.testing.assert_array_equal(labels, np.unique(partition.labels, return_inverse=True)[1])
    np.testing.assert_allclose(centers, expected[partition.counts() > 0])
    assert error == pytest.approx(partition.sse)


@pytest.mark.parametrize("columns", [3, 40])
def test_passes_ahead_of_the_means_are_the_same_for_few_rows_and_for_many(columns):
    r = np.random.RandomState(1)
    X, w = r.randn(6000, columns), r.uniform(0.5, 2, 6000)
    seeds = np.vstack([X[r.choice(6000, 12)], r.randn(2, columns) + 50])  # two that get no rows
    partition = Partition(Rows(X, weight=w))
    centers = follow(partition, seeds, 25, ahead=True)
    labels, error = partition.labels, partition.sse
    plain = lloyd_by_columns(np.ascontiguousarray(X.T), w, seeds, 25, 0.0, ahead=1.0)
    np.testing.assert_array_equal(labels, plain[0])
    np.testing.assert_allclose(centers, plain[1])
    assert len(centers) == 12
    assert error == pytest.approx(plain[2], rel=1e-9)
    assert error == pytest.approx((w * ((X - centers[labels]) ** 2).sum(axis=1)).sum(), rel=1e-9)


def test_directions_ahead_of_the_means_keep_their_error():
    r = np.random.RandomState(2)
    X = r.randn(5000, 6)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rows = LloydRows(X, np.ones(5000), unit=True)
    labels, centers, error = rows.lloyd(X[:9], 7, 0.0, ahead=True)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0)
    assert error == pytest.approx(((X - centers[labels]) ** 2).sum(), rel=1e-6)


def test_twenty_passes_ahead_of_the_means_are_below_forty_on_noise():
    r = np.random.RandomState(3)
    X, w = r.randn(4000, 8), np.ones(4000)
    columns, lower = np.ascontiguousarray(X.T), []
    for _ in range(6):
        seeds = X[r.choice(4000, 20, replace=False)]
        for ahead, plain in ((20, 40), (300, 300)):
            found = lloyd_by_columns(columns, w, seeds, ahead, ahead=1.0)[2]
            lower.append(found < lloyd_by_columns(columns, w, seeds, plain)[2])
    assert sum(lower) >= 10


def test_many_clusters_with_a_price_are_crossed_before_the_first_descent(monkeypatch):
    """A descent from a start with the wrong number of clusters takes long."""
    calls = []
    for name in ("combine", "descend"):
        step = getattr(driver, name)
        monkeypatch.setattr(
            driver, name, lambda *a, n=name, f=step, **k: calls.append(n) or f(*a, **k)
        )
    X = np.random.RandomState(9).randn(1500, 3)
    many = DPMeans(15.0, effort=0.1, random_state=0, n_jobs=1).fit(X)
    assert many.n_clusters_ > 20
    assert calls[:2] == ["combine", "descend"]
    calls.clear()
    DPMeans(800.0, random_state=0, n_jobs=1).fit(X)
    assert calls[:2] == ["descend", "combine"]
