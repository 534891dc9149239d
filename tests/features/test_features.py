"""Feature models: against plain loops, all neighbours and all allocations; and as estimators."""

import io
import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reference import bp_means as plain
from reference import kfeatures as plain_k
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from madbayes import expected_failed_checks
from madbayes._rows.rows import Rows
from madbayes.features import (
    BPMeans,
    CollapsedBPMeans,
    KFeatures,
    StepwiseKFeatures,
    row_kernels,
    search,
    segment,
)
from madbayes.features import path as path_module
from madbayes.features.allocation import Allocation
from madbayes.features.segment import Bounds
from madbayes.features.solve import Features, by_size
from madbayes.penalties import feature_path

ALL = [
    KFeatures(4, random_state=0),
    StepwiseKFeatures(30.0, random_state=0),
    BPMeans(30.0, random_state=0),
    BPMeans(30.0, algorithm="paper", random_state=0),
    CollapsedBPMeans(30.0, random_state=0),
]
WITH_PENALTY = ALL[1:]
NAMES = ["kfeatures", "stepwise", "search", "paper", "collapsed"]


def bars(n=100, noise=0.3, seed=0, side=6, p=0.4):
    """Horizontal and vertical bars in a square; rows, Z, A."""
    rng = np.random.default_rng(seed)
    A = np.zeros((4, side, side))
    A[0, 1] = A[1, 3] = A[2, :, 0] = A[3, :, 4] = 1
    Z = rng.random((n, 4)) < p
    A = 2.0 * A.reshape(4, -1)
    return Z @ A + noise * rng.standard_normal((n, side * side)), Z, A


def fitted(model, X, **kwargs):
    return clone(model).fit(X, **kwargs)


def table(name):
    folder = os.environ.get("MADBAYES_DATA")
    if not folder:
        pytest.skip("MADBAYES_DATA names no data folder")
    return np.load(Path(folder) / "tabletop" / name)["X"]


# Published and known numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    "K, known",
    list(enumerate([615.9, 423.2, 295.3, 205.8, 161.2, 150.4, 141.7, 137.5], 1)),
)
def test_tabletop(K, known):
    X = table("tabletop_pca.npz")
    model = KFeatures(K, random_state=0).fit(X)
    assert model.objective_ < known + 0.05
    A = plain_k.fit_features(X, model.assignments_)
    assert model.objective_ == pytest.approx(plain_k.objective(X, model.assignments_, A))


@pytest.mark.slow
@pytest.mark.parametrize("model", [BPMeans(20.0), StepwiseKFeatures(20.0), BPMeans("auto")])
def test_tabletop_has_a_table_and_four_objects(model):
    model = model.set_params(random_state=0).fit(table("tabletop_pca.npz"))
    assert model.n_components_ == 5
    assert model.objective_ - 5 * model.penalty_ == pytest.approx(161.2449, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("K, known", list(enumerate([768.53, 518.11, 252.0, 0.0], 1)))
def test_dice(K, known):
    X = table("dice_simulated.npz") / 255
    assert KFeatures(K, random_state=0).fit(X).objective_ < known + 1e-9


# Against plain loops


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "assignment, choose",
    [("coordinate", plain_k.choose_one_by_one), ("exact", plain_k.choose_of_all)],
)
def test_kfeatures_is_the_plain_loop(seed, assignment, choose):
    X, _, A = bars(40, seed=seed)
    start = A + np.random.default_rng(seed).normal(scale=0.7, size=A.shape)
    Z, A, J, n_iter = plain_k.k_features(X, start, choose)
    model = KFeatures(4, init=start, assignment=assignment, effort=0.001).fit(X)
    np.testing.assert_array_equal(model.assignments_, Z)
    np.testing.assert_allclose(model.components_, A, atol=1e-9)
    assert model.objective_ == pytest.approx(J)
    assert model.n_iter_ == n_iter


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty, cap", [(1.0, None), (6.0, None), (12.0, None), (4.0, 3)])
def test_paper_is_the_plain_loop(seed, weighted, penalty, cap):
    X = bars(30, seed=seed)[0]
    weight = np.random.default_rng(seed).integers(0, 3, 30) if weighted else None
    Z, A, J, n_iter = plain.bp_means(X, penalty, weight, cap)
    model = BPMeans(penalty, algorithm="paper", init="empty", max_components=cap)
    model.fit(X, sample_weight=weight)
    counts = np.ones(30, bool) if weight is None else weight > 0
    np.testing.assert_array_equal(model.assignments_[counts], Z[counts])
    np.testing.assert_allclose(model.components_, A, atol=1e-8)
    assert model.objective_ == pytest.approx(J)
    assert model.n_iter_ == n_iter


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("estimator", [BPMeans, CollapsedBPMeans])
def test_no_flip_birth_or_death_lowers_the_objective(estimator, penalty, weighted, seed):
    rng = np.random.default_rng(seed)
    X = bars(14, noise=0.5, seed=seed, side=5)[0]
    weight = rng.uniform(0.2, 3, 14) if weighted else None
    model = estimator(penalty, random_state=seed).fit(X, sample_weight=weight)
    J = plain.collapsed_objective(X, model.assignments_, penalty, weight)
    assert model.objective_ == pytest.approx(J)
    for other in plain.neighbours(model.assignments_):
        assert plain.collapsed_objective(X, other, penalty, weight) >= J * (1 - 1e-7)


@pytest.mark.parametrize("K", [1, 2])
def test_against_all_allocations(K):
    reached = 0
    for seed in range(6):
        X = np.random.default_rng(seed).normal(size=(6, 3)).round(1) + seed % 3
        best = plain_k.least_error(X, K)
        found = KFeatures(K, random_state=0).fit(X).objective_
        assert found >= best - 1e-9
        reached += found <= best + 1e-9
    assert reached >= 5


@pytest.mark.parametrize("estimator", [BPMeans, CollapsedBPMeans])
def test_best_of_up_to_three_features(estimator):
    reached = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5, 2 + seed % 2)) * 2 + seed % 3
        best = plain_k.least_objective(X, 1.0, 3)
        found = estimator(1.0, max_components=3, random_state=0).fit(X).objective_
        assert found >= best - 1e-9
        reached += found <= best + 1e-9
    assert reached == 6


def test_search_reaches_the_planted_objective():
    for seed in range(5):
        X, Z, _ = bars(seed=seed)
        model = BPMeans(30.0, random_state=seed).fit(X)
        assert model.objective_ <= plain.collapsed_objective(X, Z, 30.0) + 1e-8
        assert model.n_components_ == 4


# What holds for all of them


@pytest.mark.parametrize("model", ALL, ids=NAMES)
def test_attributes(model):
    X = bars()[0]
    model = fitted(model, X)
    K = model.n_components_
    assert model.components_.shape == (K, X.shape[1])
    assert model.assignments_.shape == (len(X), K) and model.assignments_.dtype == bool
    assert (np.diff(model.objective_history_) < 0).all()
    assert model.objective_history_[-1] == model.objective_
    penalty = getattr(model, "penalty_", 0.0)
    error = ((X - model.inverse_transform(model.assignments_)) ** 2).sum()
    assert model.objective_ == pytest.approx(error + penalty * K)
    assert -model.score(X) <= error * (1 + 1e-12)
    assert model.transform(X).dtype == bool
    prefix = type(model).__name__.lower()
    assert list(model.get_feature_names_out()) == [f"{prefix}{k}" for k in range(K)]
    again = fitted(model, X)
    np.testing.assert_array_equal(again.components_, model.components_)


@pytest.mark.parametrize("model", ALL, ids=NAMES)
@pytest.mark.parametrize("n", [60, 2500])
def test_any_number_of_threads(model, n):
    X = bars(n)[0]
    model = clone(model)
    if n > 100:
        less = {"n_init": 1, "effort": 0.2, "penalty": 1000.0}
        if getattr(model, "algorithm", "") == "paper":
            del less["effort"]
        model.set_params(**{name: less[name] for name in less if name in model.get_params()})
    one, three = fitted(model.set_params(n_jobs=1), X), fitted(model.set_params(n_jobs=3), X)
    np.testing.assert_array_equal(one.components_, three.components_)
    np.testing.assert_array_equal(one.assignments_, three.assignments_)
    assert one.objective_ == three.objective_
    np.testing.assert_array_equal(one.transform(X), three.transform(X))


@pytest.mark.parametrize("model", ALL, ids=NAMES)
def test_kinds_of_input(model):
    X = bars()[0].round(1)
    dense = fitted(model, X)
    for same in (sp.csr_array(X), np.asfortranarray(X), pd.DataFrame(X)):
        other = fitted(model, same)
        np.testing.assert_array_equal(other.assignments_, dense.assignments_)
        assert other.objective_ == pytest.approx(dense.objective_)
    single = fitted(model, X.astype(np.float32))
    assert single.components_.dtype == np.float32
    assert single.objective_ == pytest.approx(dense.objective_, rel=1e-4)


@pytest.mark.parametrize(
    "model", [ALL[0], ALL[2], ALL[4]], ids=["kfeatures", "search", "collapsed"]
)
def test_weights(model):
    X = bars()[0]
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, len(X))
    J = fitted(model, X, sample_weight=weight).objective_
    repeated = fitted(model, np.repeat(X, weight, axis=0)).objective_
    assert repeated == pytest.approx(J)
    kept = fitted(model, X, sample_weight=weight)
    assert kept.assignments_.shape[0] == len(X)
    error = ((X - kept.inverse_transform(kept.assignments_)) ** 2).sum(axis=1) @ weight
    penalty = getattr(kept, "penalty_", 0.0)
    assert kept.objective_ == pytest.approx(error + penalty * kept.n_components_)


@pytest.mark.parametrize("model", ALL, ids=NAMES)
def test_degenerate_rows(model):
    zeros = fitted(model, np.zeros((7, 3)))
    assert zeros.objective_ == 0 and not zeros.components_.any()
    assert fitted(model, np.array([[3.0, 4.0]])).objective_ <= 25
    same = fitted(model, np.tile([[9.0, 0.0, 2.0]], (20, 1)))
    assert same.assignments_.any(axis=1).all()
    np.testing.assert_allclose(same.inverse_transform(same.assignments_)[0], [9, 0, 2])


def test_more_features_than_the_rows_need():
    X = np.array([[0.0, 0], [5, 0], [0, 3], [5, 3], [5, 3]])
    model = KFeatures(6, random_state=0).fit(X)
    assert model.components_.shape == (6, 2)
    assert model.objective_ == pytest.approx(0, abs=1e-20)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-9)


@pytest.mark.parametrize("assignment", ["exact", "coordinate"])
def test_dependent_columns_of_z(assignment):
    A = np.array([[4.0, 0, 0], [0, 4, 0], [4, 4, 0]])  # the third is the sum of the others
    X = np.array([[4.0, 0, 0], [0, 4, 0], [4, 4, 0], [0, 0, 0]] * 3)
    model = KFeatures(3, init=A, assignment=assignment, effort=0.001).fit(X)
    assert np.isfinite(model.components_).all()
    assert model.objective_ == pytest.approx(0, abs=1e-18)


def test_redundant_features_are_not_paid_for():
    X = np.kron(np.array([[1, 0, 1], [0, 1, 1], [1, 1, 2]]), np.ones((4, 1))) * 5.0
    model = BPMeans(1.0, algorithm="paper", init="empty").fit(X)
    assert model.n_components_ == np.linalg.matrix_rank(model.assignments_.astype(float))


def test_far_from_the_origin():
    X = bars()[0]
    here = BPMeans(30.0, random_state=0, max_components=6).fit(X + 10)
    there = BPMeans(30.0, random_state=0, max_components=6).fit(X + 1e6)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-6)


def test_wide_rows():
    X, Z, _ = bars(30, noise=0.05)
    wide = np.kron(X, np.ones((1, 5)))
    model = BPMeans(20.0, random_state=0).fit(wide)
    assert model.components_.shape == (model.n_components_, wide.shape[1])
    assert model.objective_ <= plain.collapsed_objective(wide, Z, 20.0) * (1 + 1e-9)
    error = ((wide - model.inverse_transform(model.assignments_)) ** 2).sum()
    assert model.objective_ == pytest.approx(error + 20.0 * model.n_components_)


def test_many_features_by_branch_and_bound():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(15, 40))
    Z = rng.random((50, 15)) < 0.5
    X = Z @ A + 0.1 * rng.standard_normal((50, 40))
    model = KFeatures(15, init=A, effort=0.001).fit(X)
    np.testing.assert_array_equal(model.assignments_, Z)
    np.testing.assert_array_equal(model.transform(X), Z)


@pytest.mark.parametrize("shared", [0.0, 0.5, 3.0])
def test_rows_take_the_best_of_all_sums(shared):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(6, 4)) * [[1], [1], [1], [5], [0.2], [1]] + shared
    X = (rng.random((80, 6)) < 0.5) @ A + rng.standard_normal((80, 4)) * rng.random((80, 1))
    sums = np.array(list(np.ndindex(*[2] * 6)), dtype=float)
    best = ((X[:, None] - sums @ A) ** 2).sum(axis=2).min(axis=1)
    model = KFeatures(6, init=A, effort=0.001, max_iter=1).fit(X[:8])
    model.components_ = A
    found = ((X - model.inverse_transform(model.transform(X))) ** 2).sum(axis=1)
    np.testing.assert_allclose(found, best, rtol=1e-9)


@pytest.mark.parametrize("shape", [(6, 4), (8, 3), (12, 2), (1, 3), (5, 9), (3, 20)])
@pytest.mark.parametrize("kind", ["any", "far", "ties", "dependent", "zero"])
def test_trees_and_lists_of_all_combinations_find_the_same(shape, kind, monkeypatch):
    rng = np.random.default_rng(2)
    A, X = rng.normal(size=shape), rng.normal(size=(700, shape[1])) * 2
    if kind == "far":
        X, A[0] = X + 1e8, 1e8 + rng.normal(size=shape[1])
    elif kind == "ties":
        A, X = np.round(A), np.round(X)
    elif kind == "dependent":
        A[-1] = 2 * A[0]
    elif kind == "zero":
        A[:] = 0.0

    def found():
        state = Allocation(Rows(X))
        state.put(rng.random((700, shape[0])) < 0.5, A)
        state.assign("exact")
        return state.error

    listed = found()
    monkeypatch.setattr(row_kernels, "squares_of_sums", lambda G: np.empty((0, 0)))
    trees = found()
    size = (X**2).sum(axis=1)  # what rounding leaves of it, `slack` does not count
    np.testing.assert_array_less(abs(listed - trees), 1e-9 * trees + 1e-13 * size + 1e-12)
    if kind != "far":
        sums = np.array(list(np.ndindex(*[2] * len(A)))) @ A
        best = np.min([((X - total) ** 2).sum(axis=1) for total in sums], axis=0)
        np.testing.assert_allclose(listed, best, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["noise", "features", "weights", "dependent", "ties", "far"])
def test_bounds_pass_by_rows_that_stay(kind):
    """A pass with bounds changes the rows that a pass over all rows changes."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(3000, 4)), None
    if kind == "features":
        X = (rng.random((3000, 5)) < 0.3) @ (3 * rng.normal(size=(5, 4))) + 0.7 * X
    elif kind == "ties":
        X = np.round(X)
    elif kind == "weights":
        weight = rng.uniform(0.1, 3, 3000)
    A = X[:5] * rng.uniform(0.2, 0.8, (5, 1))
    if kind == "dependent":
        A[4] = A[0] + A[1]
    elif kind == "far":  # and one feature that goes there
        X, A[0] = X + 1e6, 1e6
    plain, bound = (Allocation(Rows(X, weight=weight)) for _ in range(2))
    for state in (plain, bound):
        state.put(np.zeros((3000, 5)), A)
    bounds, passed_by = Bounds(), 0
    for _ in range(60):
        error = bound.error.copy()
        changed = bound.assign_some(bounds)
        passed_by += int((bound.error == error).sum())
        assert changed == plain.assign("exact")
        np.testing.assert_array_equal(bound.Z, plain.Z)
        for state in (plain, bound):
            state.refit()
        assert bound.rss == pytest.approx(plain.rss, rel=1e-9)
        np.testing.assert_allclose(bound.A, plain.A, rtol=1e-7, atol=1e-9 * abs(X).max())
    assert passed_by > 30 * 3000
    bound.catch_up(bounds)
    plain.measure()
    np.testing.assert_allclose(bound.error, plain.error, rtol=1e-6, atol=1e-9 * plain.error.max())


@pytest.mark.parametrize("model", [KFeatures(6, n_init=1), BPMeans(300.0)])
def test_bounds_change_no_result(model, monkeypatch):
    X = np.random.default_rng(4).normal(size=(4200, 4))
    with_bounds = clone(model).set_params(random_state=0, n_jobs=1).fit(X)
    monkeypatch.setattr(segment, "FEW_CHANGES", -1)  # they never begin
    without = clone(model).set_params(random_state=0, n_jobs=1).fit(X)
    np.testing.assert_array_equal(with_bounds.assignments_, without.assignments_)
    assert with_bounds.objective_ == pytest.approx(without.objective_, rel=1e-12)


@pytest.mark.parametrize("effort", [0.1, 0.5])
@pytest.mark.parametrize("shape, K", [((600, 8), 8), ((1500, 3), 8), ((200, 6), 14)])
def test_noise_is_not_searched_for_ever(shape, K, effort):
    X = np.random.default_rng(0).standard_normal(shape)
    state = Allocation(Rows(X))
    patience = search.default_patience(shape, effort)
    rng = np.random.RandomState(0)
    search.grow(state, rng, 0.0, K, 3)
    begun, dearest = state.work, 0.0

    def descend(*args):
        nonlocal dearest
        before = state.work
        ended = search.polish(*args)
        dearest = max(dearest, state.work - before)
        return ended

    search.exchange(state, rng, 0.0, K, patience, lambda J: None, descend)
    assert state.K == K
    # The try that was under way may end: its births and, here, its polish.
    births = 24 * (K + search.SEEDS) * state.n * state.d
    assert state.work - begun <= search.budget(state, patience) + dearest + births


def test_max_components():
    X = bars()[0]
    for model in WITH_PENALTY:
        assert fitted(clone(model).set_params(max_components=2), X).n_components_ <= 2


# The penalty


def test_path_finds_the_planted_number():
    X, Z, _ = bars()
    path = feature_path(X, random_state=0)
    best = path.best()
    assert best.n_components == 4
    assert path.at(best.penalty) == list(path.n_components).index(4)
    assert (path.penalty_low < path.penalty_high).all()
    np.testing.assert_array_equal(path.penalty_high[1:], path.penalty_low[:-1])
    assert path.labels_at(best.penalty).shape == Z.shape
    model = BPMeans(random_state=0).fit(X)
    assert model.n_components_ == 4
    assert model.penalty_ == pytest.approx(best.penalty, rel=0.5)


@pytest.mark.parametrize("model", [BPMeans(), StepwiseKFeatures(), CollapsedBPMeans()], ids=str)
def test_auto_leaves_its_evidence(model):
    noise = np.random.default_rng(0).standard_normal((40, 5))
    for X, K in ((bars()[0], 4), (noise, 0), (noise + 9, 1)):
        model = clone(model).set_params(random_state=0).fit(X)
        assert model.n_components_ == model.evidence_.n_components == K
        assert model.path_.best() == model.evidence_
        assert model.penalty_ == model.evidence_.penalty
        assert model.evidence_.describe().startswith(f"{K} feature")
        low, high = model.path_.penalty_low, model.path_.penalty_high
        step = model.path_.step_of(K)
        assert low[step] <= model.penalty_ < high[step]
    model.set_params(penalty=30.0).fit(bars()[0])
    assert not hasattr(model, "evidence_") and not hasattr(model, "path_")


@pytest.mark.parametrize("offset", [0, 30])
def test_groups_that_do_not_add_up_are_called_so(offset):
    X = np.repeat([[0, 0], [8, 0], [0, 8]], 20, axis=0)
    X = X + np.random.default_rng(0).normal(size=(60, 2)) + offset
    model = BPMeans(random_state=0).fit(X)
    assert model.n_components_ == (3 if offset else 2)
    assert "a clustering" in model.evidence_.reason
    assert "a clustering" not in BPMeans(random_state=0).fit(bars()[0]).evidence_.reason


def test_auto_on_many_rows_looks_at_some():
    X, Z, _ = bars(6000)
    model = BPMeans(random_state=0).fit(X)
    assert model.n_components_ == model.evidence_.n_components == 4
    error = plain.collapsed_objective(X, Z, model.penalty_)
    assert model.objective_ <= error * (1 + 1e-9)
    assert len(model.path_.labels[0]) < len(X)


def test_search_of_some_rows_is_settled_on_all():
    X, Z, _ = bars(20_000)
    rare = np.arange(0, 20_000, 2000)  # too few for a selection of rows to be sure to hold
    X[rare] += 100.0
    Z = np.column_stack([Z, np.isin(np.arange(20_000), rare)])
    model = BPMeans(20_000.0, random_state=0).fit(X)
    assert model.objective_ <= plain.collapsed_objective(X, Z, 20_000.0) * (1 + 1e-9)


def test_noise_has_no_features():
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((150, 12))
        assert feature_path(X, random_state=0).best().n_components == 0
        assert BPMeans(random_state=0).fit(X).n_components_ == 0
        assert BPMeans(random_state=0).fit(X + 8).n_components_ == 1


@pytest.mark.parametrize("offset", [0, 10])
def test_noise_in_few_columns_has_no_features(offset):
    for d in range(1, 5):
        for seed in range(3):
            X = np.random.default_rng(seed).standard_normal((40, d)) + offset
            assert feature_path(X, random_state=0).best().n_components == bool(offset)


def test_path_is_drawn():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    for X in (bars()[0], np.zeros((5, 2)), np.random.default_rng(0).normal(size=(50, 3))):
        assert feature_path(X, random_state=0).plot(ax) is ax


def test_path_of_a_selection_speaks_of_all_rows():
    X = bars(1200)[0]
    few, all_rows = (feature_path(X, max_rows=m, random_state=0).best() for m in (300, 1200))
    assert few.n_components == all_rows.n_components == 4
    assert few.penalty == pytest.approx(all_rows.penalty, rel=0.5)


# Pictures


@pytest.mark.parametrize("X", [None, "given"])
@pytest.mark.parametrize("model", ALL, ids=NAMES)
def test_features_are_drawn(model, X):
    from madbayes.plots._features import features

    rows = bars(30)[0]
    model = fitted(model, rows)
    figure = features(model, (6, 6), X=None if X is None else rows, title="bars")
    figure.savefig(io.BytesIO())
    shown = [ax.get_title() for ax in figure.axes if ax.images]
    assert len(shown) >= model.n_components_ + 4
    assert features(model, (4, 3, 3)) is not None
    for bad in ({"shape": (5, 5)}, {"shape": (36,)}, {"shape": (6, 6), "rows": [30]}):
        with pytest.raises(ValueError, match=r"shape|components|rows="):
            features(model, **bad)


def test_no_feature_is_drawn_too():
    from madbayes.plots._features import features

    model = BPMeans(1e9).fit(bars(30)[0])
    assert model.n_components_ == 0
    picture = io.BytesIO()
    features(model, (6, 6)).savefig(picture)
    assert picture.tell() > 0


# Bad input


@pytest.mark.parametrize(
    "model, message",
    [
        (BPMeans(-3.0), "penalty=-3.0 must be"),
        (BPMeans(np.nan), "penalty=nan"),
        (BPMeans("often"), "penalty='often'"),
        (BPMeans(1.0, algorithm="magic"), "algorithm='magic' must be one of"),
        (BPMeans(1.0, init="full"), "init='full'"),
        (BPMeans(1.0, max_components=0), "max_components=0"),
        (StepwiseKFeatures(1.0, effort=-1), "effort=-1"),
        (CollapsedBPMeans(0.0), "penalty=0.0"),
        (CollapsedBPMeans(1.0, n_init=0), "n_init=0"),
        (KFeatures(0), "n_components=0"),
        (KFeatures(2.5), "n_components=2.5"),
        (KFeatures(2, assignment="nearest"), "assignment='nearest'"),
        (KFeatures(2, init=np.ones((3, 3))), "init has shape"),
        (KFeatures(2, assignment="coordinate", effort=5), "effort=5 is the patience"),
        (KFeatures(2, n_jobs=0), "n_jobs=0"),
        (KFeatures(2, effort="much"), "effort='much' must be"),
        (BPMeans(1.0, algorithm="paper", effort=3), "effort=3 is the patience"),
    ],
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(np.eye(6, 36))


def test_bad_rows_and_weights():
    with pytest.raises(ValueError, match="NaN"):
        KFeatures(1).fit([[np.nan]])
    with pytest.raises(ValueError, match="negative"):
        KFeatures(1).fit([[1.0], [2.0]], sample_weight=[1, -1])
    model = KFeatures(2, random_state=0).fit(np.eye(4))
    with pytest.raises(ValueError, match="Z has 3 columns"):
        model.inverse_transform(np.ones((1, 3)))


def test_features_of_equal_size_have_one_order():
    Z = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]], np.uint8)
    found = Features(Z, np.arange(8.0).reshape(4, 2), 0.0, [0.0], 1, True)
    expected = by_size(found, None)
    assert expected.components[:, 0].tolist() == [6.0, 0.0, 2.0, 4.0]
    for order in itertools.permutations(range(4)):
        order = list(order)
        there = by_size(Features(Z[:, order], found.components[order], 0.0, [0.0], 1, True), None)
        np.testing.assert_array_equal(there.components, expected.components)
        np.testing.assert_array_equal(there.assignments, expected.assignments)


@pytest.mark.parametrize("model", ALL, ids=NAMES)
def test_scales(model):
    X = bars(30)[0]
    names = model.get_params()
    here = fitted(model, X)
    for scale in (1e-140, 1e140):
        if "penalty" in names:
            model = clone(model).set_params(penalty=30.0 * scale**2)
        there = fitted(model, X * scale)
        np.testing.assert_array_equal(there.assignments_, here.assignments_)
    for bad, says in ((1e160, "overflow"), (1e-160, "underflow")):
        with pytest.raises(ValueError, match=says):
            fitted(model, X * bad)
    with pytest.raises(ValueError, match="overflow"):
        here.transform(X * 1e160)
    for unit in (2.0**300, 2.0**-300):
        model = clone(model)
        if "penalty" in names:
            model.set_params(penalty=30.0 * unit)
        there = fitted(model, X, sample_weight=np.full(len(X), unit))
        np.testing.assert_array_equal(there.assignments_, here.assignments_)
        assert there.objective_ == pytest.approx(here.objective_ * unit)
    with pytest.raises(ValueError, match="sample_weight reaches"):
        fitted(model, X, sample_weight=np.full(len(X), 1e306))


@pytest.mark.parametrize("model", ALL, ids=NAMES)
def test_history_never_rises_in_single_precision(model):
    X = (bars(60, noise=0.5)[0] + 1000).astype(np.float32)
    model = fitted(model, X)
    assert (np.diff(model.objective_history_) <= 0).all()
    assert model.objective_history_[-1] == model.objective_


@parametrize_with_checks(
    [
        KFeatures(2),
        StepwiseKFeatures(),
        BPMeans(),
        CollapsedBPMeans(),
        BPMeans(5.0),
        BPMeans(5.0, algorithm="paper"),
    ],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_transform_of_the_rows_of_the_fit_is_their_assignment():
    # On a grid of whole numbers different combinations of features often give the same sum.
    for seed in (2, 3, 8, 12, 24, 29):
        r = np.random.default_rng(seed)
        X = r.integers(0, 3, size=(r.integers(4, 12), r.integers(1, 4))).astype(float)
        fitted = KFeatures(3, n_init=1, effort=0.1, random_state=0).fit(X)
        np.testing.assert_array_equal(fitted.transform(X), fitted.assignments_)


def test_the_path_of_a_code_ends_with_its_budget(monkeypatch):
    # One column is far larger than the others: each further feature is a bit of its numbers.
    monkeypatch.setattr(path_module, "WORK", 0)
    r = np.random.default_rng(0)
    code = r.normal(size=(80, 6)) * [1e6, 1, 1, 1, 1, 1]
    assert feature_path(code, random_state=0).number.max() <= 3
    Z = r.random((120, 5)) < 0.5
    sums = Z @ (4 * np.eye(5, 10)) + 0.3 * r.normal(size=(120, 10))
    assert feature_path(sums, random_state=0).best().n_components == 5
