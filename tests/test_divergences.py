"""Counts, categories, gaps, outliers: `divergence`, `columns`, `missing`, `outlier_penalty`."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from reference.divergences import cluster_cost, divergence, lowest, mean
from reference.divergent_hdp import hard_hdp as divergent_hdp
from reference.partitions import all_partitions
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

import madbayes
from madbayes import DPMeans, HardHDP, KMeans
from madbayes._search.driver import search
from madbayes._search.number import search_number
from madbayes._search.price import per_cluster
from madbayes.divergences import fitting
from madbayes.divergences.families import centers_of
from madbayes.divergences.kernels import SQUARED
from madbayes.divergences.null_tables import correlated, one_peak, permuted
from madbayes.divergences.space import DivergenceSpace
from madbayes.divergences.table import fit_table, guess_kind, plain, read_columns

MIXED = ["squared", "poisson", "bernoulli", "gamma", "categorical"]
ONE = ["squared", "poisson", "bernoulli", "gamma", "multinomial"]


def cells(kinds, n, seed, gaps=False):
    """Rows of cells as a list, None for a gap."""
    r = np.random.default_rng(seed)
    draw = {
        "squared": lambda: r.normal(size=n),
        "poisson": lambda: r.poisson(3, n) * 1.0,
        "bernoulli": lambda: (r.random(n) < 0.5) * 1.0,
        "gamma": lambda: r.gamma(2, size=n) + 0.1,
        "categorical": lambda: r.choice(list("abc"), n),
    }
    columns = [draw[kind]().tolist() for kind in kinds]
    if gaps:
        for j, column in enumerate(columns):
            for i in range(n):
                if r.random() < 0.2 and i != j % n and j != i % len(kinds):
                    column[i] = None
    return [list(row) for row in zip(*columns, strict=True)]


def table(rows):
    X = np.empty((len(rows), len(rows[0])), dtype=object)
    X[:] = rows
    return X


def space_of(rows, kinds, penalty=1.0, weight=None):
    model = DPMeans(divergence="mixed", columns=dict(enumerate(kinds)), missing="observed")
    columns = read_columns(model, table(rows), reset=True)
    encoded = fit_table(model, columns).encode(columns, weight)
    return DivergenceSpace(encoded, per_cluster(penalty, None, len(rows)))


def clusters(k, n, seed, noise=1.0):
    """A table of numbers, counts, yes/no and categories with k groups."""
    r = np.random.default_rng(seed)
    z = np.arange(n) % k
    rates, yes = np.exp(r.normal(size=k) + 1), np.tile([0.1, 0.9], k)[:k]
    shares = r.dirichlet(np.full(4, 0.4), size=k)
    return pd.DataFrame(
        {
            "height": (4 * r.normal(size=k))[z] + noise * r.normal(size=n),
            "income": 1000 * ((4 * r.normal(size=k))[z] + noise * r.normal(size=n)),
            "visits": r.poisson(rates[z]),
            "member": r.random(n) < yes[z],
            "plan": [["basic", "plus", "pro", "none"][r.choice(4, p=shares[c])] for c in z],
        }
    ), z


def noise_table(n, seed):
    """The same kinds of columns, and nothing between them but a correlation of two numbers."""
    r = np.random.default_rng(seed)
    height = r.normal(size=n)
    return pd.DataFrame(
        {
            "height": height,
            "weight": height + 0.7 * r.normal(size=n),
            "income": np.exp(r.normal(size=n)),
            "visits": r.negative_binomial(2, 0.3, n),
            "member": r.random(n) < 0.3,
            "plan": r.choice(["basic", "plus", "pro"], n, p=[0.6, 0.3, 0.1]),
        }
    )


# The objective and its exact changes


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kinds", [["squared"] * 2, ["poisson"] * 3, ["bernoulli"] * 4, MIXED])
def test_search_finds_the_lowest_of_all_partitions(kinds, gaps):
    for seed in range(3):
        rows = cells(kinds, 7, seed, gaps)
        found, history = search(space_of(rows, kinds, 0.7), random_state=np.random.RandomState(0))
        assert found.objective == pytest.approx(lowest(rows, kinds, 0.7), abs=1e-9)
        assert np.all(np.diff(history) <= 0)


@pytest.mark.parametrize("gaps", [False, True])
def test_objective_is_that_of_plain_loops(gaps):
    rows, r = cells(MIXED, 12, 3, gaps), np.random.default_rng(0)
    w = r.integers(1, 4, 12) * 0.5
    z = r.integers(0, 3, 12)
    expected = sum(
        cluster_cost([rows[i] for i in np.flatnonzero(z == c)], w[z == c].tolist(), MIXED) + 2.0
        for c in range(3)
    )
    assert space_of(rows, MIXED, 2.0, w).division(z).objective == pytest.approx(expected)


def test_divergences_to_centres_are_those_of_plain_loops():
    rows = cells(MIXED, 8, 1, gaps=True)
    space = space_of(rows, MIXED)
    means = space.rows.overall
    cost = space.rows.cost(centers_of(means[None, :], space.rows.layout), 0, 8)[:, 0] + space.phi
    center = [mean(k, c, [1.0] * 8) for k, c in zip(MIXED, zip(*rows, strict=True), strict=True)]
    for row, found in zip(rows, cost, strict=True):
        there = [(k, x, m) for k, x, m in zip(MIXED, row, center, strict=True) if x is not None]
        assert found == pytest.approx(sum(divergence(*cell) for cell in there))


@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_no_move_opening_or_merge_is_left_and_merges_cost_what_they_say(weight):
    rows = cells(MIXED, 24, 5, gaps=True)
    space = space_of(rows, MIXED, 1.5, np.full(24, weight))
    z = np.arange(24) % 5
    now = space.move_rows(space.division(z))
    assert now.objective < space.division(z).objective
    for i in range(24):
        for q in range(now.k + 1):
            moved = now.labels.copy()
            moved[i] = q
            assert space.division(moved).objective > now.objective - 1e-9
    pairs = [(a, b) for a in range(now.k) for b in range(a + 1, now.k)]
    cost = {
        (a, b): space.division(np.where(now.labels == b, a, now.labels)).objective - now.objective
        for a, b in pairs
    }
    _, tree, heights = space.merge_tree(now, 0.0, now.k - 1)
    assert heights[0] - 1.5 == pytest.approx(min(cost.values()))
    assert cost[tuple(tree[0])] == pytest.approx(min(cost.values()))


def test_squared_is_dp_means():
    r = np.random.default_rng(0)
    X = np.repeat(r.normal(size=(4, 3)) * 5, 30, axis=0) + r.normal(size=(120, 3))
    plain = DPMeans(penalty=60.0, random_state=0).fit(X)
    other = DPMeans(penalty=60.0, missing="observed", random_state=0).fit(X)
    assert other.objective_ == pytest.approx(plain.objective_)
    assert adjusted_rand_score(plain.labels_, other.labels_) == 1
    np.testing.assert_allclose(other.transform(X).min(axis=1), plain.transform(X).min(axis=1))
    kmeans = KMeans(4, missing="observed", algorithm="search", random_state=0).fit(X)
    assert kmeans.objective_ == pytest.approx(plain.inertia_)


def test_multinomial_is_the_entropy_of_pooled_shares():
    r = np.random.default_rng(1)
    X = np.vstack([r.multinomial(20, p, 4) for p in r.dirichlet(np.ones(3), 2)]).astype(float)
    model = DPMeans(penalty=2.0, divergence="multinomial", random_state=0).fit(X)
    assert model.objective_ == pytest.approx(lowest(X.tolist(), "multinomial", 2.0))


def test_printed_algorithm_is_the_plain_loop():
    kinds = ["poisson"] * 3
    X = np.array(cells(kinds, 40, 0)) * 3

    def distances(x, centers):
        return [
            sum(divergence("poisson", a, b) for a, b in zip(x, c, strict=True)) for c in centers
        ]

    for penalty in (2.0, 8.0):
        labels, centers = np.zeros(40, int), [X.mean(axis=0)]
        while True:
            before = labels.copy()
            for i, x in enumerate(X):
                d = distances(x, centers)
                labels[i] = int(np.argmin(d))
                if d[labels[i]] > penalty:
                    labels[i] = len(centers)
                    centers.append(x)
            if np.array_equal(labels, before):
                break
            labels = np.unique(labels, return_inverse=True)[1]
            centers = [X[labels == c].mean(axis=0) for c in range(labels.max() + 1)]
        model = DPMeans(penalty=penalty, divergence="poisson", algorithm="paper").fit(X)
        np.testing.assert_array_equal(model.labels_, labels)
        assert np.all(np.diff(model.objective_history_) <= 0)


@pytest.mark.parametrize("kind", ONE)
def test_objective_never_rises_and_is_its_parts(kind):
    r = np.random.default_rng(0)
    means = r.gamma(1, 5, size=(3, 6)) + 0.5
    X = r.poisson(means[np.arange(90) % 3]) + (kind == "gamma")
    X = (X > 3) if kind == "bernoulli" else X
    for model in (
        DPMeans(penalty=5.0, divergence=kind, random_state=0),
        DPMeans(penalty=5.0, divergence=kind, algorithm="paper"),
        KMeans(3, divergence=kind, random_state=0),
        KMeans(3, divergence=kind, algorithm="search", random_state=0),
    ):
        model.fit(X)
        assert np.all(np.diff(model.objective_history_) <= 1e-9)
        assert model.objective_ == pytest.approx(model.objective_history_[-1])
        price = model.n_clusters_ * getattr(model, "penalty_", 0.0)
        assert model.inertia_ + price == pytest.approx(model.objective_)
        if model.algorithm == "paper":  # a value that a cluster never had is infinitely far
            continue
        assert -model.score(X) == pytest.approx(model.inertia_, abs=1e-9)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        np.testing.assert_array_equal(model.transform(X).argmin(axis=1), model.labels_)


# Numbers of clusters


def test_correlated_numbers_with_several_peaks_are_clusters():
    X = load_iris(as_frame=True).data
    assert 2 <= DPMeans(divergence="mixed", random_state=0).fit(X).n_clusters_ <= 4
    order = np.random.default_rng(0)
    permuted = X.apply(lambda column: order.permutation(column.to_numpy()))
    assert DPMeans(divergence="mixed", random_state=0).fit(permuted).n_clusters_ == 1


def test_a_column_of_few_values_does_not_hide_clusters():
    X, z = clusters(3, 300, seed=3)
    X["year"] = 2007 + np.random.default_rng(0).integers(0, 3, len(X))
    model = DPMeans(divergence="mixed", random_state=0).fit(X)
    assert adjusted_rand_score(z, model.labels_) > 0.8
    assert model.scales_["year"] > 0.25  # a year is known to half a year


@pytest.mark.parametrize("k", [2, 3, 5])
def test_number_of_clusters_of_a_mixed_table(k):
    X, z = clusters(k, 400, seed=k)
    model = DPMeans(divergence="mixed", random_state=0).fit(X)
    assert (model.n_clusters_, model.evidence_.n_clusters) == (k, k)
    assert model.evidence_.strength in ("moderate", "strong")
    assert adjusted_rand_score(z, model.labels_) > 0.9
    assert list(model.path_.n_clusters[:2]) == [1, 2]
    assert model.columns_ == {
        "height": "squared",
        "income": "squared",
        "visits": "poisson",
        "member": "bernoulli",
        "plan": "categorical",
    }


def test_many_rows_descend_from_the_clusters_of_a_sample(monkeypatch):
    searched = []

    def recorded(space, *args, **options):
        searched.append(space.n)
        return search_number(space, *args, **options)

    monkeypatch.setattr(fitting, "search_number", recorded)
    X, z = clusters(3, 12_000, seed=3)
    model = DPMeans(divergence="mixed", random_state=0).fit(X)
    assert max(searched) < len(X)
    assert model.n_clusters_ == 3 and adjusted_rand_score(z, model.labels_) > 0.9
    assert np.all(np.diff(model.objective_history_) <= 0)
    assert model.inertia_ + 3 * model.penalty_ == pytest.approx(model.objective_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_units_do_not_matter():
    X, _ = clusters(3, 300, seed=0)
    one = DPMeans(divergence="mixed", random_state=0).fit(X)
    other = DPMeans(divergence="mixed", random_state=0).fit(X.assign(height=X.height * 1e6 + 3))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.scales_["height"] == pytest.approx(1.0, rel=0.15)
    assert other.scales_["height"] == pytest.approx(1e6 * one.scales_["height"])
    assert one.penalty_ == pytest.approx(other.penalty_)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_whole(seed):
    model = DPMeans(divergence="mixed", random_state=0).fit(noise_table(300, seed))
    assert (model.n_clusters_, model.evidence_.strength) == (1, "none")


def test_noise_keeps_columns_gaps_and_correlations_of_numbers():
    X = noise_table(500, 0)
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    model = DPMeans(divergence="mixed", missing="observed")
    columns = read_columns(model, X, reset=True)
    encoder = fit_table(model, columns)
    rows = encoder.encode(columns, None).centred()
    mixed_up = permuted(rows, encoder)(np.random.RandomState(0))
    noise = correlated(rows, encoder)(np.random.RandomState(0))
    number = rows.layout.family == SQUARED
    for table, same in ((mixed_up, slice(None)), (noise, ~number)):
        np.testing.assert_array_equal(table.P, rows.P)
        fresh = replace(table, T=table.T.copy(), rest=None)
        np.testing.assert_allclose(table.phi, fresh.phi)
        np.testing.assert_allclose(
            np.sort(table.T[:, same], axis=0), np.sort(rows.T[:, same], axis=0)
        )
    both = (rows.P[:, :2] > 0).all(axis=1)
    assert np.corrcoef(noise.T[both, :2].T)[0, 1] == pytest.approx(
        np.corrcoef(rows.T[both, :2].T)[0, 1], abs=0.15
    )


def test_values_with_two_peaks_get_one():
    r = np.random.default_rng(0)
    two = np.sort(np.r_[r.normal(-3, 1, 300), r.normal(3, 1, 300)])
    assert ((one_peak(two) > -1) & (one_peak(two) < 1)).sum() > 2 * ((two > -1) & (two < 1)).sum()
    skewed = np.sort(r.exponential(size=600))
    assert np.abs(one_peak(skewed) - skewed)[:570].max() < 0.2  # one peak already
    grid = np.sort(r.integers(0, 9, 200)) / 2
    assert np.all(one_peak(grid) * 2 == np.round(one_peak(grid) * 2))


def test_hint_cap_and_same_result_for_any_number_of_threads():
    X, _ = clusters(5, 300, seed=1)
    make = lambda **more: DPMeans(divergence="mixed", random_state=0, **more).fit(X)  # noqa: E731
    assert make(max_clusters=3).n_clusters_ <= 3
    assert 6 <= make(n_clusters_hint=8).n_clusters_ <= 12
    one, two = make(n_jobs=1), make(n_jobs=2)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    assert (one.evidence_, one.objective_) == (two.evidence_, two.objective_)


# Tables


def test_any_table_and_text_gives_the_same():
    X, _ = clusters(3, 200, seed=0)
    first = KMeans(3, divergence="mixed", random_state=0).fit(X)
    for other in (pl.from_pandas(X), pa.Table.from_pandas(X), X.astype({"plan": "category"})):
        model = KMeans(3, divergence="mixed", random_state=0).fit(other)
        np.testing.assert_array_equal(model.labels_, first.labels_)
        assert list(model.feature_names_in_) == list(X.columns)
    rows = X.to_numpy(dtype=object).tolist()
    model = KMeans(3, divergence="mixed", random_state=0).fit(rows)
    np.testing.assert_array_equal(model.labels_, first.labels_)


def test_save_and_load(tmp_path):
    X, _ = clusters(3, 200, seed=0)
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    model = DPMeans(divergence="mixed", missing="observed", random_state=0).fit(X)
    model.save(tmp_path / "model.npz")
    back = madbayes.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.novelty_score(X), model.novelty_score(X))


def test_category_that_the_fit_has_not_seen_counts_as_missing():
    X, _ = clusters(3, 200, seed=0)
    model = DPMeans(divergence="mixed", random_state=0).fit(X)
    new = X.head(4).copy()
    new.loc[2, "plan"] = "gold"
    with pytest.warns(UserWarning, match=r"column 'plan' has 1 values .* \(row 2: 'gold'\)"):
        labels = model.predict(new)
    np.testing.assert_array_equal(labels, model.labels_[:4])


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("visits", -1, "column 'visits', row 7: -1 is not a count >= 0"),
        ("income", np.inf, "column 'income', row 7: inf is not a finite number"),
        ("income", np.nan, "column 'income', row 7: the cell is missing.*missing='observed'"),
        ("income", "much", "column 'income', row 7: 'much' is not a number"),
        ("share", 1.5, "column 'share', row 7: 1.5 is not 0, 1 or a probability"),
        ("size", 0.0, "column 'size', row 7: 0 is not a number > 0"),
    ],
)
def test_bad_cells_are_named_in_fit_and_predict(column, value, says):
    X, _ = clusters(2, 40, seed=0)
    X = X.assign(share=0.5, size=2.0)
    kinds = {"visits": "poisson", "income": "squared", "share": "bernoulli", "size": "gamma"}
    bad = X.astype({column: object})
    bad.loc[7, column] = value
    model = KMeans(2, divergence="mixed", columns=kinds, random_state=0)
    with pytest.raises(ValueError, match=says):
        model.fit(bad)
    model.fit(X)
    with pytest.raises(ValueError, match=says):
        model.predict(bad)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"divergence": "manhattan"}, "divergence='manhattan' must be one of"),
        ({"missing": "drop"}, "missing='drop' must be one of"),
        ({"columns": {"a": "squared"}}, "is for divergence='mixed'"),
        ({"divergence": "mixed", "columns": {"q": "squared"}}, "'q', which is not a column of X"),
        ({"divergence": "mixed", "columns": {0: "text"}}, "the kind must be one of"),
        ({"divergence": "poisson", "metric": "cosine"}, "metric='cosine'"),
        ({"outlier_penalty": -1.0}, "outlier_penalty=-1.0 must be"),
        ({"discount": 1.0}, "discount=1.0 must be"),
        ({"outlier_penalty": 1.0, "algorithm": "paper"}, "is for algorithm='search'"),
    ],
)
def test_bad_parameters(parameters, says):
    with pytest.raises(ValueError, match=says):
        DPMeans(**parameters).fit(np.ones((30, 2)) * np.arange(30)[:, None])


def test_columns_without_a_value_or_with_names_of_rows():
    X, _ = clusters(2, 40, seed=0)
    model = DPMeans(divergence="mixed", missing="observed")
    with pytest.raises(ValueError, match="column 'empty' has no value at all"):
        model.fit(X.assign(empty=np.nan))
    with pytest.raises(ValueError, match="column 'name' has 40 different values"):
        model.fit(X.assign(name=[f"row {i}" for i in range(40)]))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.1, 2.5, -3.0], "squared"),
        ([0, 1, 1], "bernoulli"),
        ([True, False], "bernoulli"),
        (["a", "b"], "categorical"),
        ([0, 3, 7, 1, 0, 2], "poisson"),
        ([34, 51, 18, 67], "squared"),
        ([1990, 2001, 2024], "squared"),
    ],
)
def test_kinds_are_guessed(values, kind):
    assert guess_kind(plain(np.array(values))) == kind


# Gaps, weights, outliers, discount


@pytest.mark.parametrize("kind", ["squared", "poisson"])
def test_gaps(kind):
    r = np.random.default_rng(0)
    z = np.arange(300) % 3
    X = r.poisson(r.gamma(1, 8, size=(3, 8))[z]).astype(float)
    X[r.random(X.shape) < 0.2] = np.nan
    X[4] = np.nan
    with pytest.warns(UserWarning, match=r"1 rows have no cell at all \(the first is row 4\)"):
        model = DPMeans(divergence=kind, missing="observed", random_state=0).fit(X)
    assert (model.n_clusters_, model.labels_[4], model.n_outliers_) == (3, -1, 0)
    assert adjusted_rand_score(z, model.labels_) > 0.95
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(model.predict(X), model.labels_)
    with pytest.raises(ValueError, match="NaN"):
        DPMeans(divergence=kind).fit(X)


def test_weights_count_rows():
    rows = cells(MIXED, 30, 0)
    X, w = table(rows), np.random.default_rng(0).integers(0, 3, 30)
    how = {"divergence": "mixed", "columns": dict(enumerate(MIXED)), "random_state": 0}
    weighted = KMeans(3, algorithm="search", **how).fit(X, sample_weight=w)
    repeated = KMeans(3, algorithm="search", **how).fit(np.repeat(X, w, axis=0))
    assert weighted.scales_ == pytest.approx(repeated.scales_, rel=0.2)
    one = DPMeans(penalty=3.0, divergence="poisson", random_state=0)
    Y = X[:, 1:2].astype(float)
    heavy = one.fit(Y, sample_weight=w).objective_
    assert heavy == pytest.approx(one.fit(np.repeat(Y, w, axis=0)).objective_)


@pytest.mark.parametrize("same_column", [False, True])
def test_six_cells_of_9999_do_not_change_the_answer(same_column):
    r = np.random.default_rng(2)
    z = np.repeat(np.arange(3), 500)
    X = (6 * r.normal(size=(3, 4)))[z] + r.normal(size=(1500, 4))
    rows = r.choice(1500, 6, replace=False)
    X[rows, 1 if same_column else r.integers(0, 4, 6)] = 9999
    inside = ~np.isin(np.arange(1500), rows)
    plain = DPMeans(random_state=0).fit(X)
    assert (plain.n_clusters_, plain.evidence_.strength, plain.n_outliers_) == (3, "strong", 0)
    assert "6 rows are far from all others" in plain.evidence_.describe()
    assert plain.objective_ == pytest.approx(
        (plain.transform(X).min(axis=1) ** 2).sum() + 3 * plain.penalty_
    )
    left = DPMeans(outlier_penalty="auto", random_state=0).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(left.labels_ < 0), np.sort(rows))
    assert (left.n_clusters_, left.n_outliers_) == (3, 6)
    np.testing.assert_array_equal(left.predict(X), left.labels_)
    for model in (plain, left):
        assert adjusted_rand_score(z[inside], model.labels_[inside]) > 0.98


@pytest.mark.parametrize("seed", range(6))
def test_outliers_are_those_of_the_lowest_objective(seed):
    r = np.random.default_rng(seed)
    X = np.round(r.normal(size=(7, 2)) * 2, 2)
    X[:2] += 30 * r.normal(size=(2, 2))
    best = lowest(X.tolist(), ["squared"] * 2, 8.0, outlier=5.0)
    try:
        found = DPMeans(penalty=8.0, outlier_penalty=5.0, random_state=0).fit(X).objective_
    except ValueError:  # all rows left out
        found = 5.0 * 7
    assert found == pytest.approx(best, rel=0.02)


def test_discount_pays_for_many_small_clusters():
    r = np.random.default_rng(0)
    sizes = (600 / np.arange(1, 31)).astype(int)
    z = np.repeat(np.arange(30), sizes)
    X = 8 * r.normal(size=(30, 5))[z] + r.normal(size=(len(z), 5))
    plain = DPMeans(penalty=3000.0, random_state=0).fit(X)
    falling = DPMeans(penalty=3000.0, discount=0.3, random_state=0).fit(X)
    assert plain.n_clusters_ < falling.n_clusters_ <= 31
    assert adjusted_rand_score(z, falling.labels_) > adjusted_rand_score(z, plain.labels_)
    k = np.arange(1, falling.n_clusters_ + 1)
    price = 3000.0 * (k**-0.3).sum()
    assert falling.objective_ == pytest.approx(falling.inertia_ + price)
    at_plain = plain.inertia_ + 3000.0 * (k[: plain.n_clusters_] ** -0.3).sum()
    assert falling.objective_ < at_plain


def test_a_plain_fit_forgets_the_divergence():
    X = np.random.default_rng(0).poisson(5, (60, 3))
    model = DPMeans(penalty=9.0, divergence="poisson", random_state=0).fit(X)
    assert model.columns_ == {"x0": "poisson", "x1": "poisson", "x2": "poisson"}
    model.set_params(divergence="squared").fit(X)
    assert not hasattr(model, "columns_")
    assert model.transform(X).shape == (60, model.n_clusters_)
    assert math.isfinite(model.objective_)


def test_hard_hdp_of_counts():
    r = np.random.default_rng(0)
    rates = r.gamma(1, 8, size=(4, 6)) + 0.3
    groups = np.repeat(np.arange(12), 30)
    pairs = np.array([r.choice(4, 2, replace=False) for _ in range(12)])
    z = pairs[groups, r.integers(0, 2, 360)]
    X = r.poisson(rates[z])
    model = HardHDP(divergence="poisson", random_state=0).fit(X, groups=groups)
    assert (model.n_clusters_, model.evidence_.n_clusters) == (4, 4)
    assert adjusted_rand_score(z, model.labels_) > 0.95
    assert 2 <= model.n_local_clusters_.mean() < 2.5
    price = model.penalty_local_ * model.n_local_clusters_.sum() + model.penalty_global_ * 4
    assert model.objective_ == pytest.approx(model.inertia_ + price)
    assert np.mean(model.predict(X, groups=groups) == model.labels_) > 0.99
    np.testing.assert_array_equal(model.local_labels_ >= 0, True)
    with pytest.raises(ValueError, match="algorithm='spectral'"):
        HardHDP(divergence="poisson", algorithm="spectral").fit(X, groups=groups)
    printed = HardHDP(divergence="poisson", algorithm="paper", random_state=0).fit(X, groups=groups)
    assert printed.n_clusters_ == printed.evidence_.n_clusters
    assert abs(printed.n_clusters_ - 4) <= 1


@pytest.mark.parametrize("divergence", ["poisson", "gamma", "mixed"])
def test_gaps_and_infinite_cells_are_named(divergence):
    X = np.random.default_rng(0).integers(1, 9, (30, 3)).astype(float)
    model = DPMeans(divergence=divergence)
    for cell, says in ((np.nan, "missing"), (np.inf, "inf is not")):
        bad = X.copy()
        bad[7, 1] = cell
        with pytest.raises(ValueError, match=f"column 'x1', row 7: .*{says}"):
            model.fit(bad)
    X[:, 2] = np.inf
    with pytest.raises(ValueError, match="column 'x2', row 0: inf is not"):
        model.fit(X)


@pytest.mark.parametrize("kind", ["poisson", "bernoulli", "gamma"])
@pytest.mark.parametrize("weighted", [False, True])
def test_algorithm_2_is_the_plain_loop(kind, weighted):
    r = np.random.default_rng(3)
    means = np.array([[2.0, 9, 4], [9, 2, 3], [5, 5, 12]])
    groups = r.integers(0, 4, 40)
    X = r.poisson(means[r.integers(0, 3, 40)]) + 1.0
    X = (X - 0.5) / 30 if kind == "bernoulli" else X
    weight = r.uniform(0.5, 2, 40) if weighted else np.ones(40)
    local, glob = (
        (0.05, 0.1) if kind == "bernoulli" else (1.0, 3.0) if kind == "poisson" else (0.3, 0.5)
    )
    labels, history = divergent_hdp(
        X.tolist(), [kind] * 3, groups.tolist(), local, glob, weight.tolist()
    )
    model = HardHDP(local, glob, divergence=kind, algorithm="paper")
    model.fit(X, groups=groups, sample_weight=weight)
    np.testing.assert_array_equal(model.labels_, labels)
    assert 1 < model.n_clusters_ < 40
    assert np.all(np.diff(model.objective_history_) <= 0)
    assert model.objective_ == pytest.approx(history[-1])


@pytest.mark.parametrize("seed", range(4))
def test_hard_hdp_is_the_lowest_of_all_partitions(seed):
    r = np.random.default_rng(seed)
    X, groups = r.poisson(4, (6, 2)).astype(float), np.array([0, 0, 0, 1, 1, 1])
    best = math.inf
    for labels in all_partitions(6):
        rows = [X[labels == c].tolist() for c in np.unique(labels)]
        cost = sum(cluster_cost(part, [1.0] * len(part), ["poisson"] * 2) + 1.0 for part in rows)
        best = min(best, cost + 0.5 * len(np.unique(groups * 6 + labels)))
    model = HardHDP(0.5, 1.0, divergence="poisson", random_state=0).fit(X, groups=groups)
    assert model.objective_ == pytest.approx(best)


def test_one_cluster_for_want_of_evidence_names_no_share_of_repetitions():
    """Four groups of ten rows that no test tells from noise: "0% say the same" would be odd."""
    i, rng = np.arange(40), np.random.default_rng(0)
    X = np.c_[rng.normal(5 * (i % 2)), rng.normal(5 * (i // 2 % 2))]
    evidence = DPMeans(divergence="mixed", random_state=0).fit(X).evidence_
    assert evidence.number == 1 and evidence.stability is None


def test_a_grid_of_clusters_beside_a_category_that_says_nothing():
    """The columns of a grid are independent of each other; the valleys show the clusters."""
    r = np.random.default_rng(0)
    z = r.integers(9, size=300)
    table = pd.DataFrame(
        {"x": 6 * (z // 3) + r.normal(size=300), "y": 6 * (z % 3) + r.normal(size=300)}
    )
    table["operator"] = r.choice(["Ann", "Bob", "Cy"], 300)
    model = DPMeans(divergence="mixed", random_state=0).fit(table)
    assert model.n_clusters_ == 9 and adjusted_rand_score(z, model.labels_) > 0.95
    assert model.evidence_.strength == "moderate" and "Only x, y show" in model.evidence_.describe()


def test_clusters_that_repeat_a_category_are_weak():
    """Each of two sexes is one cluster, and without the column the heights overlap."""
    r = np.random.default_rng(0)
    sex = r.integers(2, size=400)
    table = pd.DataFrame({f"size{j}": 5.0 * sex + r.normal(size=400) for j in range(3)})
    table["sex"] = np.where(sex, "m", "f")
    sure = DPMeans(divergence="mixed", random_state=0).fit(table)
    assert sure.n_clusters_ == 2 and sure.evidence_.strength != "weak"  # the sizes say so, too
    table = pd.DataFrame({f"size{j}": 1.2 * sex + r.normal(size=400) for j in range(3)})
    table["sex"] = np.where(sex, "m", "f")
    model = DPMeans(divergence="mixed", random_state=0).fit(table)
    assert model.n_clusters_ == 2 and model.evidence_.strength == "weak"
    assert "without sex there would be" in model.evidence_.describe()


def test_columns_name_those_of_an_array():
    X = np.c_[np.arange(6.0), [0, 1, 0, 1, 0, 1]]
    X[2, 1] = -1
    with pytest.raises(ValueError, match="column 'visits', row 2: -1 is not a count"):
        DPMeans(divergence="mixed", columns={"age": "squared", "visits": "poisson"}).fit(X)


@pytest.mark.parametrize("divergence", ["poisson", "gamma"])
def test_two_columns_show_their_clusters_by_valleys(divergence):
    """Permuted columns of two are described nearly as well as the rows, so valleys decide."""
    rng = np.random.default_rng(0)
    means = np.array([[2.0, 10], [10, 2], [6, 30]])[np.repeat(np.arange(3), 60)]
    X = rng.poisson(means).astype(float) if divergence == "poisson" else rng.gamma(8, means / 8)
    model = DPMeans(divergence=divergence, random_state=0).fit(X)
    assert model.n_clusters_ == 3 and model.evidence_.strength == "moderate"
    order = rng.permutation(len(X))
    again = DPMeans(divergence=divergence, random_state=0).fit(X[order])
    assert adjusted_rand_score(again.labels_, model.labels_[order]) > 0.9
    noise = rng.poisson(5, (200, 2)) if divergence == "poisson" else rng.gamma(2, 3, (200, 2))
    assert DPMeans(divergence=divergence, random_state=0).fit(noise.astype(float)).n_clusters_ == 1
