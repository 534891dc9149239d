"""The hard HDP: equal to plain loops, never above them, and no move lowers the objective."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.hard_hdp import hard_hdp, neighbours, objective
from reference.partitions import all_partitions

from madbayes import DPMeans, HardHDP, KernelHardHDP, SpectralDPMeans, penalties
from madbayes.groups import algorithm2, hdp_kernels
from madbayes.groups import space as grouped_space


def sets(seed, n_sets=12, n_each=5, k=8, uses=3, spread=0.1):
    """Rows, groups and true clusters: each set uses some of k Gaussians in the unit square."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(size=(k, 2))
    truth = np.concatenate(
        [np.repeat(rng.choice(k, uses, replace=False), n_each) for _ in range(n_sets)]
    )
    groups = np.repeat(np.arange(n_sets), uses * n_each)
    return means[truth] + spread * rng.normal(size=(len(truth), 2)), groups, truth


def draw(seed, n, d=2, n_groups=4, ties=False):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, d)).astype(float) if ties else 2 * rng.normal(size=(n, d))
    return X, rng.integers(0, n_groups, n), rng.uniform(0.3, 3, n), rng.uniform(0.2, 4, 2)


def check_consistent(model, X, groups, weight=None):
    """What was stored fits together."""
    local, glob = model.penalty_local_, model.penalty_global_
    w = np.ones(len(X)) if weight is None else weight
    expected = objective(X[w > 0], groups[w > 0], model.labels_[w > 0], local, glob, w[w > 0])
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    charged = local * model.n_local_clusters_.sum() + glob * model.n_clusters_
    assert model.inertia_ + charged == pytest.approx(model.objective_, rel=1e-9)
    assert (np.diff(model.objective_history_) <= 0).all()
    assert model.objective_history_[-1] == model.objective_
    for j, name in enumerate(model.groups_):
        inside = (groups == name) & (w > 0)
        used = np.unique(model.labels_[inside])
        assert len(used) == model.n_local_clusters_[j]
        np.testing.assert_array_equal(used[model.local_labels_[inside]], model.labels_[inside])


# The relaxation


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weighted", [False, True])
def test_no_partition_is_below_the_relaxed_bound(seed, weighted):
    X, groups, weight, (local, glob) = draw(seed, n=7, d=1 + seed % 5, n_groups=1 + seed % 3)
    w = weight if weighted else np.ones(7)
    lowest = min(objective(X, groups, z, local, glob, w) for z in all_partitions(7))
    model = HardHDP(local, glob, random_state=0).fit(X, groups=groups, sample_weight=w)
    assert model.relaxed_bound_ <= lowest * (1 + 1e-9)
    assert model.gap_ == pytest.approx(1 - model.relaxed_bound_ / model.objective_)


def test_bound_is_reached_where_clusters_are_points():
    X = np.repeat(100.0 * np.eye(6), 5, axis=0)  # groups of two clusters each
    groups = np.repeat([0, 1, 2], 10)
    model = HardHDP(2.0, 3.0, random_state=0).fit(X, groups=groups)
    assert (model.n_clusters_, model.objective_) == (6, pytest.approx(30.0))
    assert model.gap_ < 1e-9  # 6 λ_l + 6 λ_g: nothing can be below


def test_one_group_has_the_bound_of_dp_means():
    X = draw(3, n=40, d=6)[0]
    hdp_bound = HardHDP(2.0, 5.0, random_state=0).fit(X).relaxed_bound_
    assert hdp_bound == pytest.approx(SpectralDPMeans(7.0, random_state=0).fit(X).relaxed_bound_)


@pytest.mark.parametrize("seed", range(4))
def test_traces_of_two_projections_are_the_objective(seed):
    """Eq. 2 as the relaxation writes it."""
    X, groups, w, (local, glob) = draw(seed, n=12, d=3)
    labels = np.random.default_rng(seed).integers(0, 3, 12)
    A = np.sqrt(w)[:, None] * (X @ X.T) * np.sqrt(w)
    projections = []
    for key in (labels, 3 * groups + labels):
        Y = np.sqrt(w)[:, None] * (key[:, None] == np.unique(key))
        Y /= np.linalg.norm(Y, axis=0)
        projections.append(Y @ Y.T)
    P, L = projections
    np.testing.assert_allclose(P @ L, P, atol=1e-12)  # P <= L
    F = np.trace(A - A @ P) + glob * np.trace(P) + local * np.trace(L)
    assert pytest.approx(objective(X, groups, labels, local, glob, w)) == F


@pytest.mark.parametrize("kind", [HardHDP, partial(KernelHardHDP, kernel="linear")])
def test_rounding_is_polished(kind):
    X, groups, _ = sets(2)
    best = kind(0.05, 0.3, random_state=0).fit(X, groups=groups)
    model = kind(0.05, 0.3, algorithm="spectral", random_state=0).fit(X, groups=groups)
    check_consistent(model, X, groups)
    assert model.relaxed_bound_ == pytest.approx(best.relaxed_bound_)
    assert best.objective_ <= model.objective_ < 1.1 * best.objective_
    neighbour = min(objective(X, groups, z, 0.05, 0.3) for z in neighbours(groups, model.labels_))
    assert model.objective_ <= neighbour * (1 + 1e-9)


# The printed algorithm


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("weighted", [False, True])
def test_paper_is_the_plain_loop(seed, weighted):
    X, groups, weight, (local, glob) = draw(seed, n=10 + 6 * seed, d=1 + seed % 4)
    weight = weight if weighted else None
    labels, centers, history = hard_hdp(X, groups, local, glob, weight)
    model = HardHDP(local, glob, algorithm="paper").fit(X, groups=groups, sample_weight=weight)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-12)
    np.testing.assert_allclose(model.objective_history_, history, rtol=1e-10)
    assert model.n_iter_ == len(history)
    assert (np.diff(history) <= 1e-9).all()
    check_consistent(model, X, groups, weight)


def test_paper_with_ties_and_duplicates():
    for seed in range(10):
        X, groups, _, _ = draw(seed, 40, ties=True)
        labels, _, history = hard_hdp(X, groups, 1.0, 2.0)
        model = HardHDP(1.0, 2.0, algorithm="paper").fit(X, groups=groups)
        assert model.objective_ == pytest.approx(history[-1])
        np.testing.assert_array_equal(model.labels_, labels)


def test_paper_opens_more_clusters_than_there_was_room_for():
    X, groups, _, _ = draw(3, 400, n_groups=7)
    labels, _, _ = hard_hdp(X, groups, 0.001, 0.002)
    model = HardHDP(0.001, 0.002, algorithm="paper").fit(X, groups=groups)
    assert model.n_clusters_ > 3 * algorithm2.ROOM
    np.testing.assert_array_equal(model.labels_, labels)


def test_paper_far_from_the_origin_and_in_float32():
    X, groups, _ = sets(3)
    near = HardHDP(0.05, 0.3, algorithm="paper").fit(X, groups=groups)
    assert near.n_clusters_ > 1
    far = HardHDP(0.05, 0.3, algorithm="paper").fit(X + 1e6, groups=groups)
    np.testing.assert_array_equal(far.labels_, near.labels_)
    single = HardHDP(0.05, 0.3, algorithm="paper").fit(X.astype(np.float32), groups=groups)
    np.testing.assert_array_equal(single.labels_, near.labels_)
    assert single.cluster_centers_.dtype == np.float32


def test_the_formula():
    X, groups, _, (local, glob) = draw(0, 15)
    labels = np.arange(15) % 3
    assert algorithm2.objective(X, groups, labels, local, glob) == pytest.approx(
        objective(X, groups, labels, local, glob)
    )


# The search


@pytest.mark.parametrize("seed", range(20))
def test_search_ends_where_no_move_lowers_the_objective(seed):
    X, groups, weight, (local, glob) = draw(seed, n=24, d=1 + seed % 3, ties=seed % 4 == 0)
    weight = weight if seed % 2 else None
    model = HardHDP(local, glob, random_state=seed).fit(X, groups=groups, sample_weight=weight)
    lowest = min(
        objective(X, groups, labels, local, glob, weight)
        for labels in neighbours(groups, model.labels_)
    )
    assert lowest >= model.objective_ * (1 - 1e-9)
    paper = HardHDP(local, glob, algorithm="paper").fit(X, groups=groups, sample_weight=weight)
    assert model.objective_ <= paper.objective_
    check_consistent(model, X, groups, weight)


def test_search_finds_the_minimum_of_few_rows():
    found = 0
    for seed in range(25):
        X, groups, weight, (local, glob) = draw(seed, n=7, d=2, n_groups=3)
        best = min(objective(X, groups, z, local, glob, weight) for z in all_partitions(7))
        model = HardHDP(local, glob, random_state=0).fit(X, groups=groups, sample_weight=weight)
        assert model.objective_ >= best * (1 - 1e-12)
        found += model.objective_ <= best * (1 + 1e-9)
    assert found >= 24


@pytest.mark.parametrize("seed", range(3))
def test_search_is_below_paper_and_the_truth(seed):
    X, groups, truth = sets(seed, n_sets=30, spread=0.05)
    local, glob = 0.03, 0.5
    model = HardHDP(local, glob, random_state=0).fit(X, groups=groups)
    paper = HardHDP(local, glob, algorithm="paper").fit(X, groups=groups)
    assert model.objective_ < paper.objective_
    assert model.objective_ <= objective(X, groups, truth, local, glob)
    check_consistent(model, X, groups)


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_the_objective_never_rises_and_labels_are_consistent(seed):
    X, groups, weight, (local, glob) = draw(seed, n=2 + seed % 29, d=1 + seed % 3, ties=seed % 2)
    weight[seed % len(weight)] = 0.0
    for algorithm in ("paper", "search"):
        model = HardHDP(local, glob, algorithm=algorithm, random_state=0)
        model.fit(X, groups=groups, sample_weight=weight)
        check_consistent(model, X, groups, weight)


def test_weights_count_rows():
    X, groups, _ = sets(0)
    times = np.random.default_rng(0).integers(0, 4, len(X))
    model = HardHDP(0.1, 0.5, random_state=0).fit(X, groups=groups, sample_weight=times)
    again = HardHDP(0.1, 0.5, random_state=0).fit(
        np.repeat(X, times, axis=0), groups=np.repeat(groups, times)
    )
    assert model.objective_ == pytest.approx(again.objective_)
    left = HardHDP(0.1, 0.5, random_state=0).fit(X[times > 0], groups=groups[times > 0])
    none = HardHDP(0.1, 0.5, random_state=0).fit(X, groups=groups, sample_weight=times > 0)
    np.testing.assert_array_equal(none.labels_[times > 0], left.labels_)


def test_very_heavy_rows():
    X, groups, weight, _ = draw(1, 30)
    weight[[3, 17]] = 1e9
    model = HardHDP(0.5, 1.0, random_state=0).fit(X, groups=groups, sample_weight=weight)
    check_consistent(model, X, groups, weight)
    assert model.inertia_ < weight[weight < 10].sum() * 30


def test_extremes():
    X, groups, _ = sets(1)
    one = HardHDP(1e6, 1e6).fit(X, groups=groups)
    assert one.n_clusters_ == 1
    assert (one.n_local_clusters_ == 1).all()
    np.testing.assert_allclose(one.cluster_centers_[0], X.mean(axis=0))
    many = HardHDP(1e-9, 1e-9, random_state=0).fit(X[:40], groups=groups[:40])
    assert many.n_clusters_ == 40
    costly = HardHDP(1e6, 1e-9, random_state=0).fit(X, groups=groups)  # one cluster a group
    assert costly.n_local_clusters_.max() == 1
    assert costly.n_clusters_ == 12


def test_one_group_is_dp_means():
    X, _, _ = sets(2)
    model = HardHDP(0.2, 0.3, random_state=0).fit(X)
    assert model.groups_.tolist() == [0]
    single = DPMeans(0.5, random_state=0).fit(X)
    assert model.objective_ == pytest.approx(single.objective_)
    np.testing.assert_array_equal(model.labels_, single.labels_)
    printed = HardHDP(0.2, 0.3, algorithm="paper").fit(X)
    assert printed.objective_ >= single.objective_


def test_the_same_for_any_number_of_threads():
    X, groups, _ = sets(4, n_sets=40)
    for algorithm in ("search", "paper"):
        models = [
            HardHDP(0.05, 0.3, algorithm=algorithm, random_state=3, n_jobs=jobs).fit(
                X, groups=groups
            )
            for jobs in (1, 2)
        ]
        np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
        np.testing.assert_array_equal(models[0].cluster_centers_, models[1].cluster_centers_)
        assert models[0].objective_ == models[1].objective_


def test_groups_shared_out_to_threads_are_the_groups_one_after_another(monkeypatch):
    X, groups, _ = sets(6, n_sets=30)
    models = []
    for rows, jobs in ((10**9, 1), (20, 1), (20, 2)):
        monkeypatch.setattr(grouped_space, "SHARED_ROWS", rows)
        models.append(HardHDP(0.05, 0.3, random_state=1, n_jobs=jobs).fit(X, groups=groups))
    for model in models[1:]:
        np.testing.assert_array_equal(model.labels_, models[0].labels_)
        assert model.objective_ == models[0].objective_


def test_groups_too_large_for_the_cache_settle_alike(monkeypatch):
    X, groups, _ = sets(7, n_sets=12)
    kept = HardHDP(0.05, 0.3, random_state=1).fit(X, groups=groups)
    monkeypatch.setattr(grouped_space, "KEPT_COSTS", 1)  # distances are computed again and again
    again = HardHDP(0.05, 0.3, random_state=1).fit(X, groups=groups)
    np.testing.assert_array_equal(again.labels_, kept.labels_)


@pytest.mark.parametrize("seed", range(12))
def test_settling_is_the_plain_loop(seed):
    rng = np.random.default_rng(seed)
    X, groups, w, _ = draw(seed, 60, d=1 + seed % 3, ties=seed % 2 == 0)
    X, groups, w = X[np.argsort(groups)], np.sort(groups), np.ceil(w) if seed % 4 > 1 else w**0
    C = X[rng.permutation(60)[: rng.integers(1, 20)]]  # with ties: some are equal
    z, start = rng.integers(0, len(C), 60), np.searchsorted(groups, np.arange(5))
    expected, rounds = z.copy(), 0
    for a, b in itertools.pairwise(start):
        cost = w[a:b, None] * ((X[a:b, None] - C) ** 2).sum(axis=2)
        used = np.bincount(z[a:b], minlength=len(C)) > 0

        def price(used, cost=cost):
            return np.where(used, cost, np.inf).min(axis=1).sum() + 1.5 * used.sum()

        while True:
            other = [np.where(np.arange(len(C)) == p, ~used, used) for p in range(len(C))]
            saved = np.array([price(used) - price(each) for each in other])
            if saved.max() <= 1e-9:
                break
            used, rounds = other[saved.argmax()], rounds + 1
        expected[a:b] = np.where(used, cost, np.inf).argmin(axis=1)
    for room in (20 * 60, len(C) + 8):  # with costs that are kept, and computed anew
        found = z.copy()
        stop = np.zeros(1, np.uint8)
        hdp_kernels.settle_groups(
            X, w, start, found, hdp_kernels.columns(C), 1.5, np.empty(room), stop
        )
        np.testing.assert_array_equal(found, expected)
    assert rounds > 0


def test_more_rows_than_the_sample(monkeypatch):
    from madbayes._search import driver

    monkeypatch.setattr(driver, "SAMPLE_ROWS", 120)
    monkeypatch.setattr(grouped_space, "SAMPLE_ROWS", 120)
    for groups_at_least in (2, 1000):  # a sample of the groups, and of the rows
        monkeypatch.setattr(grouped_space, "SAMPLE_GROUPS", groups_at_least)
        X, groups, truth = sets(5, n_sets=40, spread=0.03)
        model = HardHDP(0.02, 0.4, random_state=0).fit(X, groups=groups)
        check_consistent(model, X, groups)
        assert model.objective_ <= objective(X, groups, truth, 0.02, 0.4) * 1.02
        paper = HardHDP(0.02, 0.4, algorithm="paper").fit(X, groups=groups)
        assert model.objective_ <= paper.objective_


# Input


def test_lists_groups_and_names_are_the_same_thing():
    X, groups, _ = sets(0)
    expected = HardHDP(0.1, 0.4, random_state=0).fit(X, groups=groups)
    parts = [X[groups == j] for j in range(12)]
    shuffled = np.random.default_rng(0).permutation(len(X))
    for rows, names in (
        (parts, None),
        ([pd.DataFrame(part, columns=["a", "b"]) for part in parts], None),
        ([sp.csr_matrix(part) for part in parts], None),
        (X, [f"g{j:02}" for j in groups]),
        (X, pd.Series(groups).astype("category")),
        (pd.DataFrame(X), pd.Series(groups, dtype="Int64")),
    ):
        model = HardHDP(0.1, 0.4, random_state=0).fit(rows, groups=names)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_array_equal(model.local_labels_, expected.local_labels_)
    mixed = HardHDP(0.1, 0.4, random_state=0).fit(X[shuffled], groups=groups[shuffled])
    assert mixed.objective_ == pytest.approx(expected.objective_, rel=0.02)


@pytest.mark.parametrize("model", [HardHDP(1.0, 1.0), KernelHardHDP(1.0, 1.0)], ids=str)
@pytest.mark.parametrize(
    ("groups", "error", "says"),
    [
        (np.zeros(39), ValueError, r"groups has shape \(39,\), but X has 40 rows"),
        (np.zeros((40, 1)), ValueError, "one group label for each row"),
        ("abc", ValueError, "groups has shape"),
        (np.r_[np.nan, np.zeros(39)], ValueError, "no label for 1 of 40 rows .*row 0"),
        ([None, "a"] * 20, ValueError, "no label for 20 of 40 rows"),
        ([pd.NA, "a"] * 20, ValueError, "no label for 20 of 40 rows"),
        ([1, "a"] * 20, None, ""),
        ([(1, 2), "a"] * 20, (TypeError, ValueError), "groups"),
    ],
)
def test_bad_groups(model, groups, error, says):
    X = np.random.default_rng(0).normal(size=(40, 3))
    if error is None:  # numpy makes text of both
        assert model.fit(X, groups=groups).groups_.tolist() == ["1", "a"]
        return
    with pytest.raises(error, match=says):
        model.fit(X, groups=groups)


def test_bad_lists():
    A = np.zeros((3, 2))
    for rows, says in (
        ([A, np.zeros((3, 3))], "table 0 has 2 and table 1 has 3"),
        ([A, np.zeros((0, 2))], "table 1 of X has no rows"),
        (
            [pd.DataFrame(A, columns=["a", "b"]), pd.DataFrame(A, columns=["b", "a"])],
            "same columns",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            HardHDP(1.0, 1.0).fit(rows)
    with pytest.raises(ValueError, match="leave groups out"):
        HardHDP(1.0, 1.0).fit([A, A], groups=np.zeros(6))


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"penalty_local": 0}, ValueError, "penalty_local=0 must be a number > 0"),
        ({"penalty_global": -1.0}, ValueError, "penalty_global=-1.0 must be"),
        ({"penalty_global": np.inf}, ValueError, "penalty_global=inf"),
        ({"penalty_local": "cheap"}, TypeError, "penalty_local='cheap'.*squared-distance units"),
        ({"penalty_local": None}, TypeError, "penalty_local=None"),
        ({"penalty_local": True}, TypeError, "penalty_local=True"),
        ({"penalty_local": "farthest-first"}, ValueError, "needs n_local_hint"),
        ({"n_local_hint": 3}, ValueError, "n_local_hint=3 would be ignored"),
        ({"penalty_global": "auto", "n_global_hint": 0}, ValueError, "n_global_hint=0"),
        ({"algorithm": "magic"}, ValueError, "algorithm='magic'"),
        ({"n_init": 0}, ValueError, "n_init=0"),
        ({"max_iter": 0}, ValueError, "max_iter=0"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0"),
    ],
    ids=str,
)
def test_bad_parameters(options, error, says):
    X, groups, _ = sets(0)
    with pytest.raises(error, match=says):
        HardHDP(**{"penalty_local": 1.0, "penalty_global": 1.0, **options}).fit(X, groups=groups)


def test_groups_of_one_row_and_of_no_weight():
    X, _, _ = sets(0, n_sets=4)
    alone = HardHDP(0.1, 0.4, random_state=0).fit(X, groups=np.arange(len(X)))
    assert (alone.n_local_clusters_ == 1).all()
    assert (alone.local_labels_ == 0).all()
    groups = np.repeat([0, 1, 2], 20)
    weight = np.where(groups == 1, 0.0, 1.0)
    weight[0] = 0.0
    model = HardHDP(0.1, 0.4, random_state=0).fit(X, groups=groups, sample_weight=weight)
    assert model.n_local_clusters_[1] == 0
    assert (model.local_labels_[groups == 1] == -1).all()
    assert model.labels_[0] in model.labels_[1:20]  # one that its group uses
    assert model.labels_.min() >= 0


# Prediction


def test_predict_charges_for_clusters_that_the_group_does_not_use():
    centers = np.array([[0.0, 0], [10, 0], [0, 10]])
    X = np.repeat(centers, 8, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(24, 2))
    groups = np.r_[np.tile([0, 1], 8), np.full(8, 1)]  # group 0 does not use the third
    model = HardHDP(20.0, 30.0, random_state=0).fit(X, groups=groups)
    assert model.n_clusters_ == 3
    a, _, c = model.predict(centers)
    between = [[0.0, 5.2]]  # a little nearer to the third: 27.0 against 23.0
    assert model.predict(between) == c
    assert model.predict(between, groups=[1]) == c
    assert model.predict(between, groups=[0]) == a
    assert model.predict(between, groups=[7]) == c  # a new group
    assert model.predict(between, groups=["x"]) == c
    far = [[0.0, 5.2], [100, 100], [0, 16.5]]
    np.testing.assert_array_equal(model.predict(far, groups=[0, 0, 0], novel="paper"), [a, -1, -1])
    np.testing.assert_array_equal(model.predict(far, groups=[1, 1, 1], novel="paper"), [c, -1, c])
    with pytest.raises(ValueError, match="groups has shape"):
        model.predict(far, groups=[0])


def test_rows_of_fit_are_predicted_where_they_are():
    X, groups, _ = sets(6)
    model = HardHDP(0.05, 0.3, random_state=0).fit(X, groups=groups)
    np.testing.assert_array_equal(model.predict(X, groups=groups), model.labels_)
    np.testing.assert_array_equal(model.predict([X[groups == j] for j in range(12)]), model.labels_)
    assert model.transform(X).shape == (len(X), model.n_clusters_)
    assert model.score(X) >= -model.inertia_


# Penalties


def plain_farthest_first(X, groups, n_local, n_global):
    def gap(rows):
        T = [rows.mean(axis=0)]
        for _ in range(n_local):
            far = [min(((x - t) ** 2).sum() for t in T) for x in rows]
            T.append(rows[int(np.argmax(far))])
        return max(far)

    local = np.mean([gap(X[groups == j]) for j in np.unique(groups)])
    T = [X.mean(axis=0)]
    for _ in range(n_global):
        far = np.array([min(((x - t) ** 2).sum() for t in T) for x in X])
        sums = {j: far[groups == j].sum() for j in np.unique(groups)}
        worst = max(sums, key=sums.get)
        T.append(X[groups == worst][int(np.argmax(far[groups == worst]))])
    return local, sums[worst]


@pytest.mark.parametrize("seed", range(3))
def test_farthest_first_is_the_plain_loop(seed):
    X, groups, _ = sets(seed)
    found = penalties.hdp_farthest_first(X, groups, 3, 8)
    assert found == pytest.approx(plain_farthest_first(X, groups, 3, 8))
    hints = {"n_local_hint": 3, "n_global_hint": 8}
    model = HardHDP("farthest-first", "farthest-first", algorithm="paper", **hints)
    model.fit(X, groups=groups)
    assert (model.penalty_local_, model.penalty_global_) == pytest.approx(found)


def test_farthest_first_says_when_it_is_asked_for_too_much():
    X, groups, _ = sets(0)
    with pytest.raises(ValueError, match="n_local=16 is more than any group can give"):
        penalties.hdp_farthest_first(X, groups, 16, 2)
    with pytest.raises(ValueError, match="n_global=3 is more than X can give"):
        penalties.hdp_farthest_first([[0.0], [1], [0], [1]], [0, 0, 1, 1], 1, 3)
    with pytest.raises(TypeError, match=r"n_local=1\.5"):
        penalties.hdp_farthest_first(X, groups, 1.5, 2)


@pytest.mark.parametrize("seed", range(3))
def test_auto_finds_shared_clusters(seed):
    X, groups, truth = sets(seed, n_sets=25, spread=0.03)
    model = HardHDP(random_state=0).fit(X, groups=groups)
    found = [
        len(set(zip(truth[groups == j], model.labels_[groups == j], strict=True)))
        for j in range(25)
    ]
    assert np.mean(found) < 3.3  # 3 in each group, no more and no less
    assert np.mean(model.n_local_clusters_) > 2.6
    assert 6 <= model.n_clusters_ <= 10
    check_consistent(model, X, groups)


def test_auto_is_one_cluster_in_noise():
    rng = np.random.default_rng(0)
    for scale in ([1, 1], [5, 1]):
        X = rng.normal(size=(300, 2)) * scale
        assert HardHDP(random_state=0).fit(X, groups=np.arange(300) % 12).n_clusters_ == 1


def test_auto_when_all_groups_are_alike():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 60, axis=0) + rng.normal(size=(180, 2))
    model = HardHDP(random_state=0).fit(X, groups=np.arange(180) % 6)
    assert model.n_clusters_ == 3
    assert (model.n_local_clusters_ == 3).all()
    assert HardHDP(random_state=0).fit(X).n_clusters_ == 3  # one group


def test_one_penalty_given_and_the_other_found():
    X, groups, _ = sets(0, n_sets=25, spread=0.03)
    model = HardHDP(penalty_local=0.02, random_state=0).fit(X, groups=groups)
    assert model.penalty_local_ == 0.02
    assert 6 <= model.n_clusters_ <= 10
    model = HardHDP(penalty_global=0.2, random_state=0).fit(X, groups=groups)
    assert model.penalty_global_ == 0.2
    assert 2.5 < model.n_local_clusters_.mean() < 3.3
    single = HardHDP(penalty_local=0.02, random_state=0).fit(X)
    assert single.penalty_local_ == 0.02
    assert single.penalty_global_ > 0


def test_hints():
    X, groups, _ = sets(0, n_sets=30)
    for n_local, n_global in ((2, 4), (3, 8), (4, 12)):
        model = HardHDP(n_local_hint=n_local, n_global_hint=n_global, random_state=0)
        model.fit(X, groups=groups)
        assert abs(model.n_clusters_ - n_global) <= max(1, n_global / 5)
        assert abs(model.n_local_clusters_.mean() - n_local) <= 0.5


def test_auto_does_not_depend_on_units_or_threads():
    X, groups, _ = sets(1, n_sets=20, spread=0.05)
    model = HardHDP(random_state=0, n_jobs=1).fit(X, groups=groups)
    again = HardHDP(random_state=0, n_jobs=2).fit(1024 * X + 512, groups=groups)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.penalty_global_ == pytest.approx(1024**2 * model.penalty_global_)


def test_auto_does_not_depend_on_the_scale_of_weights():
    X, groups, _ = sets(1, n_sets=20, spread=0.05)
    model = HardHDP(random_state=0).fit(X, groups=groups)
    light = HardHDP(random_state=0).fit(X, groups=groups, sample_weight=np.full(len(X), 2.0**-9))
    np.testing.assert_array_equal(light.labels_, model.labels_)
    assert light.penalty_local_ == pytest.approx(model.penalty_local_ / 512)


# Kernels


@pytest.mark.parametrize("algorithm", ["search", "paper"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_linear_kernel_is_hard_hdp(algorithm, offset):
    X, groups, _ = sets(7)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    options = {"algorithm": algorithm, "random_state": 0}
    plain = HardHDP(0.05, 0.3, **options).fit(X, groups=groups, sample_weight=weight)
    kernel = KernelHardHDP(0.05, 0.3, kernel="linear", **options)
    kernel.fit(X + offset, groups=groups, sample_weight=weight)
    assert kernel.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    pairs = set(zip(plain.labels_, kernel.labels_, strict=True))
    assert len(pairs) == plain.n_clusters_ == kernel.n_clusters_
    new = np.random.default_rng(1).uniform(size=(50, 2))
    match = dict(pairs)
    for novel in (False, "paper"):
        expected = [
            match.get(p, -1) for p in plain.predict(new, groups=np.arange(50) % 13, novel=novel)
        ]
        found = kernel.predict(new + offset, groups=np.arange(50) % 13, novel=novel)
        np.testing.assert_array_equal(found, expected)


def kernel_distance(K, i, inside, w):
    """KJ 5.2."""
    total = w[inside].sum()
    return (
        K[i, i]
        - 2 * (w[inside] * K[i, inside]).sum() / total
        + w[inside] @ K[np.ix_(inside, inside)] @ w[inside] / total**2
    )


def kernel_distances(K, model, w):
    inside = [np.flatnonzero(model.labels_ == p) for p in range(model.n_clusters_)]
    return np.array([[kernel_distance(K, i, rows, w) for rows in inside] for i in range(len(K))])


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_kernel_sums_of_the_paper(kernel):
    from sklearn.metrics.pairwise import pairwise_kernels

    X, groups, _ = sets(8)
    w = np.random.default_rng(0).uniform(0.5, 2, len(X))
    model = KernelHardHDP(0.05, 0.3, kernel=kernel, gamma=2.0, random_state=0)
    model.fit(X, groups=groups, sample_weight=w)
    options = {"degree": 3, "coef0": 1} if kernel == "poly" else {}
    K = pairwise_kernels(X, metric=kernel, gamma=2.0, **options)
    gaps = kernel_distances(K, model, w)
    error = (w * gaps[np.arange(len(X)), model.labels_]).sum()
    assert model.inertia_ == pytest.approx(error, rel=1e-6)
    assert model.n_clusters_ > 1
    np.testing.assert_array_equal(model.predict(X), gaps.argmin(axis=1))
    given = KernelHardHDP(0.05, 0.3, kernel="precomputed", random_state=0)
    given.fit(K, groups=groups, sample_weight=w)
    gaps = kernel_distances(K, given, w)
    error = (w * gaps[np.arange(len(X)), given.labels_]).sum()
    assert given.inertia_ == pytest.approx(error, rel=1e-6)
    # The two kernels differ in their last digits, so that the two searches may part.
    assert given.objective_ == pytest.approx(model.objective_, rel=1e-3)
    np.testing.assert_array_equal(given.predict(K[:7]), given.predict(K)[:7])


def test_kernels_that_are_none():
    for K in (np.array([[0.0, 1], [1, 0]]), np.array([[1.0, 0.5], [0.2, 1]])):
        with pytest.raises(ValueError, match=r"positive semidefinite|symmetric"):
            KernelHardHDP(1.0, 1.0, kernel="precomputed").fit(K)
    with pytest.raises(ValueError, match="square"):
        KernelHardHDP(1.0, 1.0, kernel="precomputed").fit(np.ones((3, 2)))
    model = KernelHardHDP(1.0, 1.0, kernel="precomputed").fit(np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="need their kernel values with themselves"):
        model.predict(np.eye(3), novel=True)
    with pytest.raises(ValueError, match="nosuch"):
        KernelHardHDP(1.0, 1.0, kernel="nosuch").fit(np.eye(3))


def test_equal_rows():
    X = np.full((9, 2), 0.1)
    for model in (
        HardHDP(1.0, 1.0),
        KernelHardHDP(1.0, 1.0),
        KernelHardHDP(1.0, 1.0, kernel="linear"),
    ):
        model.fit(X, groups=np.arange(9) % 3)
        assert set(model.labels_) == {0}
        assert model.objective_ == pytest.approx(4.0)
    assert list(itertools.chain(model.n_local_clusters_)) == [1, 1, 1]


def test_auto_says_when_each_group_has_clusters_of_its_own():
    """Clusters that touch when all rows are pooled are apart within their groups."""
    from sklearn.datasets import load_iris

    X, kinds = load_iris(return_X_y=True)
    model = HardHDP(random_state=0).fit(X, groups=kinds)
    assert "each group has clusters of its own" in model.evidence_.reason
    assert model.evidence_.strength == "weak"  # no group is divided
    np.testing.assert_array_equal(model.n_local_clusters_, [1, 1, 1])
    assert model.n_clusters_ == model.evidence_.n_clusters == 3


def test_clusters_of_groups_alone_are_joined_where_they_coincide():
    """Three groups use three of four clusters each; the tests of a group alone see them best."""
    r = np.random.default_rng(3)
    centers = 2.5 * r.normal(size=(5, 8))
    picks = [[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 3, 4]]
    truth = np.concatenate([np.repeat(pick, 25) for pick in picks])
    X = centers[truth] + r.normal(size=(len(truth), 8))
    models = [HardHDP(random_state=s).fit(X, groups=np.repeat(range(4), 75)) for s in range(3)]
    assert {model.n_clusters_ for model in models} == {5}
    assert len(set(zip(truth, models[0].labels_, strict=True))) <= 6


def test_heavy_tails_in_groups_at_random_are_one_cluster():
    r = np.random.default_rng(5)
    for seed in range(3):
        X = r.standard_t(3, size=(300, 3))
        model = HardHDP(random_state=seed).fit(X, groups=r.integers(0, 4, 300))
        assert model.n_clusters_ == 1
