"""Rows that are new: rates that hold, far rows that are found, and what must not matter."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from madbayes import (
    CollapsedDPMeans,
    DPMeans,
    DPMedoids,
    EllipticalMeans,
    HardHDP,
    KernelDPMeans,
    KernelHardHDP,
    KMeans,
    KMedoids,
    OnlineDPMeans,
    OnlineKMeans,
    SpectralDPMeans,
    load,
)
from madbayes._model.novelty_mixin import drawn
from madbayes._partition.novelty import (
    EXCESSES,
    LEVELS,
    SHARES,
    calibrate,
    excesses,
    p_values,
    quantiles,
    tail_law,
)
from madbayes._rows.reservoir import Reservoir

RATES = np.array([0.1, 0.01, 0.001])
LAWS = {  # of the distance to a centre: the name, and the shares beyond r are known exactly
    "gauss 1": stats.chi(1),
    "gauss 2": stats.chi(2),
    "gauss 50": stats.chi(50),
    "uniform 2": stats.powerlaw(2),
    "uniform 10": stats.powerlaw(10),
    "t4 2": stats.burr12(2, 2, scale=2),  # r² / 2 is F(2, 4), so P(> r) = (1 + r²/4)^-2
}


def three(n, d=2, seed=0, apart=14.0):
    """n rows in three Gaussian clusters, the first with half of them."""
    r = np.random.default_rng(seed)
    X, c = r.normal(size=(n, d)), r.choice(3, n, p=[0.5, 0.3, 0.2])
    X[:, 0] += apart * (c == 1)
    X[:, 1] += apart * (c == 2)
    return X


def alarms(law, n, fits, seed=0):
    """The share of new rows that are flagged at `RATES`, on average over fits of n distances."""
    r = np.random.default_rng(seed)
    found = []
    for _ in range(fits):
        table = quantiles(law.rvs(size=n, random_state=r), np.ones(n))
        found.append(law.sf(np.interp(-stats.norm.ppf(RATES), LEVELS, table)))
    return np.mean(found, axis=0) / RATES


@pytest.mark.parametrize("name", LAWS)
def test_rates_hold_on_average_for_few_rows(name):
    found = alarms(LAWS[name], 100, 300)
    assert 0.85 < found[0] < 1.15
    assert 0.05 < found[1] < 1.7
    assert found[2] < 2.5
    if name.startswith("gauss"):
        assert found[1] > 0.7
        assert found[2] > 0.25


@pytest.mark.parametrize("name", LAWS)
def test_rates_hold_for_many_rows(name):
    found = alarms(LAWS[name], 20_000, 20)
    assert np.all(np.abs(found - 1) < [0.03, 0.1, 0.3])


def test_rates_hold_in_each_of_very_unequal_clusters():
    r = np.random.default_rng(0)
    sizes, scales = [40_000, 2_000, 400], [1.0, 30.0, 0.1]
    laws = [LAWS["gauss 2"], LAWS["t4 2"], LAWS["uniform 2"]]
    label = np.repeat([0, 1, 2], sizes)
    found = []
    for _ in range(12):
        distance = [
            s * a.rvs(size=n, random_state=r) for a, n, s in zip(laws, sizes, scales, strict=True)
        ]
        table = calibrate(np.concatenate(distance), label, np.ones(label.size), 3)
        limit = [np.interp(-stats.norm.ppf(RATES), LEVELS, line) for line in table]
        found.append([a.sf(q / s) for a, q, s in zip(laws, limit, scales, strict=True)])
    found = np.mean(found, axis=0) / RATES
    assert np.all((found > [0.9, 0.5, 0.05]) & (found < [1.1, 1.5, 2.5]))


def test_small_clusters_borrow_the_tail_of_the_others():
    r = np.random.default_rng(0)
    label = np.repeat(np.arange(40), 8)
    found = []
    for _ in range(20):
        scale = np.exp(r.normal(size=40))
        table = calibrate(
            scale[label] * stats.chi(5).rvs(320, random_state=r), label, np.ones(320), 40
        )
        limit = [np.interp(-stats.norm.ppf(RATES), LEVELS, line) for line in table]
        found.append(stats.chi(5).sf(np.array(limit) / scale[:, None]).mean(axis=0))
    found = np.mean(found, axis=0) / RATES
    assert np.all((found > [0.8, 0.5, 0.2]) & (found < [1.2, 1.8, 3.0]))


ESTIMATORS = [
    KMeans(3, random_state=0),
    DPMeans(2000.0, random_state=0),
    DPMeans(100.0, algorithm="paper"),
    CollapsedDPMeans(2000.0, random_state=0),
    OnlineKMeans(3, init="k-means++", random_state=0),
    OnlineDPMeans(60.0),
    KMedoids(3),
    DPMedoids(200.0),
    EllipticalMeans(3, random_state=0),
    KernelDPMeans(40.0, random_state=0),
    SpectralDPMeans(2000.0, random_state=0),
    SpectralDPMeans(40.0, kernel="rbf", random_state=0),
    HardHDP(500.0, 500.0, random_state=0),
    KernelHardHDP(20.0, 20.0, random_state=0),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_every_estimator_keeps_its_rate_and_finds_far_rows(model):
    X, new = three(600), three(4000, seed=1)
    model.fit(X)
    assert model.n_clusters_ == 3
    score = model.novelty_score(new)
    assert stats.kstest(score, "uniform").statistic < 0.07
    assert 0.06 < (score <= 0.1).mean() < 0.14
    assert 0.002 < (score <= 0.01).mean() < 0.025
    far = [[0.0, -6.0], [7.0, 7.0], [14.0, -6.0], [1e3, 1e3]]
    assert model.predict(far, novel=True).tolist() == [-1] * 4
    plain = model.predict(new)
    flagged = model.predict(new, novel=0.1)
    np.testing.assert_array_equal(flagged, np.where(score <= 0.1, -1, plain))
    assert flagged.dtype == plain.dtype
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.novelty_score(new), score)
    assert model.novelty_quantiles_.shape == (3, len(SHARES))


@pytest.mark.parametrize("d", [2, 10, 50])
@pytest.mark.parametrize("n", [100, 1_000_000])
def test_six_deviations_are_found_whatever_the_number_of_rows(n, d):
    if n * d > 2e6:
        n = 200_000 if d == 10 else 40_000
    found = []
    for seed in range(20 if n == 100 else 1):
        X = np.random.default_rng(seed).normal(size=(n, d))
        model = KMeans(1, random_state=0).fit(X)
        distance = model.transform(X[:10_000]).ravel()
        r = 6.0 if d == 2 else distance.mean() + 6 * distance.std()
        found.append(model.predict(model.cluster_centers_ + r * np.eye(1, d), novel=True)[0] == -1)
    assert np.mean(found) >= 0.9


def test_directions_can_be_new():
    r = np.random.default_rng(0)
    mean = np.repeat(np.eye(3), 200, axis=0)
    X = (mean + 0.05 * r.normal(size=mean.shape)) * r.uniform(1, 9, (600, 1))
    new = mean + 0.05 * r.normal(size=mean.shape)
    for model in (KMeans(3, metric="cosine", random_state=0), DPMeans(20.0, metric="cosine")):
        for rows in (X, sp.csr_array(X)):
            model.fit(rows)
            assert model.n_clusters_ == 3
            assert 0.05 < (model.novelty_score(new) <= 0.1).mean() < 0.16
            assert model.predict([[1.0, 0.5, 0], [-1, -1, -1]], novel=True).tolist() == [-1, -1]
            assert model.predict(9 * np.eye(3), novel=True).min() >= 0


def test_distances_are_those_without_the_row():
    r = np.random.default_rng(0)
    X, w = r.normal(size=(9, 3)) + 1.0, r.uniform(0.5, 2, 9)
    rows, label, total = np.arange(9), np.zeros(9, np.int64), np.array([w.sum()])
    for metric in ("euclidean", "cosine"):
        model = KMeans(1, metric=metric, tol=0).fit(X, sample_weight=w)
        found = model._held_out(X, rows, label, w, total)
        for i in range(9):
            other = np.delete(rows, i)
            alone = KMeans(1, metric=metric, tol=0).fit(X[other], sample_weight=w[other])
            assert found[i] == pytest.approx(alone.transform(X[[i]])[0, 0] ** 2)


def test_weights():
    X = three(300)
    w = np.random.default_rng(1).integers(0, 3, 300).astype(float)
    model = KMeans(3, random_state=0).fit(X, sample_weight=w)
    start = model.cluster_centers_
    options = {"init": start, "random_state": 0}
    one = KMeans(3, **options).fit(X, sample_weight=w)
    kept = KMeans(3, **options).fit(X[w > 0], sample_weight=w[w > 0])
    large = KMeans(3, **options).fit(X, sample_weight=1000 * w)
    np.testing.assert_allclose(kept.novelty_score(X), one.novelty_score(X), rtol=1e-6)
    np.testing.assert_allclose(large.novelty_score(X), one.novelty_score(X), rtol=1e-6)


def test_the_same_for_any_number_of_threads():
    X = three(3000)
    one, two = (KMeans(3, random_state=0, n_jobs=j).fit(X) for j in (1, 2))
    np.testing.assert_array_equal(one.novelty_quantiles_, two.novelty_quantiles_)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_few_rows_and_equal_rows(k):
    X = np.array([[0.0, 0], [0, 0], [0, 0], [5, 5], [5, 5], [9, 0], [9, 1]])[:, :]
    line = np.c_[np.linspace(0, 1e6, 200), np.zeros(200)]
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        model = KMeans(k, random_state=0)
        if k == 7:
            with pytest.warns(UserWarning):
                model.fit(X)
        else:
            model.fit(X)
        score = model.novelty_score(np.vstack([X, line]))
    assert np.all((score >= 0) & (score <= 1))
    far = score[len(X) :][line[:, 0] > 100]
    assert np.all(np.diff(far) <= 0)
    assert model.novelty_score([[0.0, 0]]) > 0.3


def test_nothing_is_new_to_one_row_and_much_is_to_equal_rows():
    one = KMeans(1).fit([[1.0, 2.0]])
    assert one.novelty_score([[1.0, 2.0], [50.0, 0.0]]).min() > 0.99
    equal = KMeans(1).fit(np.ones((4000, 2)))
    assert equal.novelty_score([[1.0, 1.0]]) > 0.99
    assert equal.predict([[1.0, 1.1]], novel=True) == -1


def test_a_row_alone_counts_as_far_from_the_others():
    """Otherwise rows like it would be flagged more often than they come."""
    X = np.vstack([three(300), [[60.0, 60.0]], [[-70.0, 0.0]]])
    model = KMeans(5, random_state=0, n_init=5).fit(X)
    assert np.bincount(model.labels_).tolist().count(1) == 2
    assert model.novelty_score([[60.0, 60.0]]) > 0.1  # known, if alone
    assert 0.001 < model.novelty_score([[0.0, -60.0]]) < 0.02  # as far has been seen
    assert model.predict([[1e4, 1e4]], novel=True) == -1


def test_streams_keep_it_current_and_blocks_do_not_matter():
    X = three(20_000)
    X = X[np.random.default_rng(0).permutation(len(X))]
    whole = OnlineDPMeans(60.0).partial_fit(X)
    parts = OnlineDPMeans(60.0)
    for a in range(0, len(X), 777):
        parts.partial_fit(X[a : a + 777])
    new = three(20_000, seed=1)
    np.testing.assert_array_equal(parts.novelty_score(new), whole.novelty_score(new))
    share = [(whole.novelty_score(new) <= a).mean() / a for a in RATES]
    assert np.all(np.abs(np.array(share) - 1) < [0.1, 0.3, 0.7])
    place = np.array([[0.0, 40.0]])
    assert whole.predict(place, novel=True) == -1
    whole.partial_fit(place + np.random.default_rng(2).normal(size=(500, 2)))
    assert whole.predict(place, novel=True) == 3


def test_a_reservoir_is_a_fair_sample():
    X = np.arange(200_000.0)[:, None]
    all_rows, recent = Reservoir.empty(2**8), Reservoir.empty(2**8)
    all_rows.rows = recent.rows = np.empty((16, 1))
    recent.rows = recent.rows.copy()
    all_rows.add(X, np.ones(len(X)), 0, 0.0)
    recent.add(X, np.ones(len(X)), 0, 10_000.0)
    for sample in (all_rows, recent):
        assert sample.size <= sample.held <= 2 * sample.size
    kept = all_rows.rows[: all_rows.held, 0] / len(X)
    assert stats.kstest(kept, "uniform").pvalue > 0.001
    age = (len(X) - recent.rows[: recent.held, 0]) / 10_000
    assert 0.8 < np.median(age) < 1.4


def test_a_large_cluster_is_sampled_and_a_small_one_is_not():
    label = np.repeat([0, 1, 2], [90_000, 9_000, 100])
    rows, stands_for = drawn(label, np.ones(label.size, bool), 3, 10_000)
    count = np.bincount(label[rows])
    assert 9_900 <= rows.size <= 10_000
    assert count[2] == 100
    assert abs(count[0] - count[1]) <= 1
    np.testing.assert_allclose(np.bincount(label[rows], stands_for), [90_000, 9_000, 100])


def test_scores_beyond_the_table_fall_on():
    table = quantiles(stats.chi(2).rvs(500, random_state=0), np.ones(500))[None]
    far = table[0, -1] * np.array([0.99, 1.0, 1.01, 2.0, 1e3, 1e100])
    score = p_values(far, np.zeros(6, np.int64), table)
    assert np.all(np.diff(score) < 0) or score[-1] == score[-2] == 0


def test_the_rule_of_the_paper_by_its_name():
    X = three(300)
    model = DPMeans(30.0, algorithm="paper").fit(X)
    new = 5 * np.random.default_rng(1).normal(size=(300, 2))
    opens = model.transform(new).min(axis=1) ** 2 > 30.0
    assert opens.any() and not opens.all()
    np.testing.assert_array_equal(model.predict(new, novel="paper") == -1, opens)
    with pytest.raises(ValueError, match="no penalty"):
        KMeans(3).fit(X).predict(X, novel="paper")


@pytest.mark.parametrize("novel", [0, 1, 1.5, -0.1, np.nan, "auto", "True"])
def test_wrong_rates(novel):
    with pytest.raises(ValueError, match=r"between 0 and 1.*'paper'"):
        KMeans(1).fit([[0.0], [1.0]]).predict([[0.0]], novel=novel)


def test_wrong_types():
    with pytest.raises(TypeError, match="novel=None must be False, True"):
        KMeans(1).fit([[0.0], [1.0]]).predict([[0.0]], novel=None)
    with pytest.raises(AttributeError, match="fit_predict"):
        SpectralDPMeans(0.5, kernel="nearest_neighbors").fit(three(60)).novelty_score(three(2))


@pytest.mark.parametrize("rows", [5, 60])
def test_the_tail_is_read_where_it_is(rows):
    y = np.random.default_rng(rows).exponential(size=rows)
    law, shares = tail_law(y, np.ones(rows)), np.geomspace(0.9, 1e-8, 30)
    everywhere = np.log(np.maximum(np.minimum.accumulate(law(EXCESSES)), 1e-300))
    expected = np.interp(-np.log(shares), -everywhere, EXCESSES)
    np.testing.assert_allclose(excesses(law, shares), expected, rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e120, 1e145])
@pytest.mark.parametrize("make", [KMeans, KMedoids, DPMeans, OnlineKMeans, CollapsedDPMeans])
def test_scores_of_very_large_and_very_small_rows(make, scale):
    X = np.random.default_rng(0).normal(size=(60, 2)) + 9 * (np.arange(60) % 2)[:, None]
    number = {} if "DP" in make.__name__ else {"n_clusters": 2}
    plain = make(**number).fit(X).novelty_score(X)
    scaled = make(**number).fit(X * scale).novelty_score(X * scale)
    np.testing.assert_allclose(scaled, plain, rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_scores_by_dissimilarities_that_cannot_be_squared():
    X = np.random.default_rng(0).normal(size=(60, 2))
    plain = KMedoids(2, metric="manhattan").fit(X).novelty_score(X)
    huge = KMedoids(2, metric="manhattan").fit(X * 1e160).novelty_score(X * 1e160)
    np.testing.assert_allclose(huge, plain, rtol=1e-6)


def test_the_table_is_made_when_it_is_asked_for(tmp_path):
    """The same scores whether the model asks first, is saved first or is refitted in between."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 40, axis=0) + rng.normal(size=(120, 2))
    model, saved = KMeans(3, random_state=0).fit(X), KMeans(3, random_state=0).fit(X)
    assert "novelty_quantiles_" not in vars(model)
    saved.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        load(tmp_path / "model.npz").novelty_score(X), model.novelty_score(X)
    )
    np.testing.assert_array_equal(saved.novelty_quantiles_, model.novelty_quantiles_)
    before = model.novelty_quantiles_
    again = model.fit(2 * X).novelty_quantiles_
    assert again.shape == before.shape and not np.array_equal(again, before)
    with pytest.raises(AttributeError):
        _ = KMeans(3).novelty_quantiles_
