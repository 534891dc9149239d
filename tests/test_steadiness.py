"""Answers that hold: the same for any order of rows and any seed, and honest about the rest."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from test_how_many import documents
from test_path import mixture

from madbayes import CollapsedDPMeans, DPMeans, HardHDP, OnlineDPMeans, SpectralDPMeans, penalties
from madbayes._rows.content import content_order
from madbayes.howmany.recovery import prediction_strength


def rows_in_many_columns():
    return mixture(8, 30, 500, seed=0, separation=5.0)[0]


def rows_on_a_grid():
    return np.round(mixture(4, 3, 400, seed=1)[0])


def weighted_rows():
    return mixture(6, 2, 500, seed=2)[0]


@pytest.mark.parametrize("make", [rows_in_many_columns, rows_on_a_grid, weighted_rows])
def test_dp_means_gives_a_shuffled_table_the_same_division(make):
    X, r = make(), np.random.default_rng(0)
    weight = r.uniform(0.5, 2, len(X)) if make is weighted_rows else None
    model = DPMeans(random_state=0).fit(X, sample_weight=weight)
    for _ in range(2):
        order = r.permutation(len(X))
        mixed = None if weight is None else weight[order]
        again = DPMeans(random_state=0).fit(X[order], sample_weight=mixed)
        np.testing.assert_array_equal(again.labels_, model.labels_[order])
        assert again.evidence_.stability == model.evidence_.stability


def test_directions_of_a_shuffled_sparse_table_have_the_same_division():
    X = documents(n=500)[0]
    order = np.random.default_rng(0).permutation(X.shape[0])
    model = DPMeans(metric="cosine", random_state=0).fit(X)
    again = DPMeans(metric="cosine", random_state=0).fit(X[order])
    np.testing.assert_array_equal(again.labels_, model.labels_[order])


def test_groups_of_a_shuffled_table_have_the_same_division():
    X, r = mixture(5, 2, 400, seed=0)[0], np.random.default_rng(0)
    groups, order = r.integers(0, 3, 400), r.permutation(400)
    model = HardHDP(random_state=0).fit(X, groups=groups)
    again = HardHDP(random_state=0).fit(X[order], groups=groups[order])
    np.testing.assert_array_equal(again.labels_, model.labels_[order])


@pytest.mark.parametrize("Estimator", [CollapsedDPMeans, OnlineDPMeans, SpectralDPMeans])
def test_the_number_is_the_same_for_any_order_and_seed(Estimator):
    X = rows_in_many_columns()
    order = np.random.default_rng(0).permutation(len(X))
    found = [Estimator(random_state=0).fit(X), Estimator(random_state=0).fit(X[order])]
    found.append(Estimator(random_state=7).fit(X))
    assert len({model.n_clusters_ for model in found}) == 1
    assert len({model.evidence_.stability for model in found}) == 1


def test_the_order_of_content():
    r = np.random.default_rng(0)
    X = np.r_[r.standard_normal((300, 4)), np.zeros((50, 4)), np.ones((50, 4))]
    X[r.random(X.shape) < 0.3] = 0.0
    order, w = r.permutation(len(X)), r.uniform(0, 1, len(X))
    np.testing.assert_array_equal(
        X[content_order(X, w, 3)], X[order][content_order(X[order], w[order], 3)]
    )
    for other in (sp.csr_array(X), 1024 * X + 512):
        np.testing.assert_array_equal(content_order(other, None, 3), content_order(X, None, 3))
    assert (content_order(X, None, 3) != content_order(X, None, 4)).mean() > 0.9
    copies = np.repeat(np.arange(4.0)[:, None], 1000, axis=0)  # not one value after the other
    counts = np.bincount(copies[content_order(copies, None, 0)[:1000], 0].astype(int))
    assert counts.min() > 180


def test_digits_hold_for_nine_tenths_of_the_rows():
    X = load_digits().data
    rows = np.random.default_rng(0).permutation(len(X))[: 9 * len(X) // 10]
    choice = penalties.path(X[rows]).best()
    assert 9 <= choice.n_clusters <= 14
    assert choice.strength == "weak"
    assert 0 <= choice.stability < 1  # tops of nearly the same height
    assert choice.agreement > 0.6


def test_strong_evidence_is_the_same_in_all_repetitions():
    choice = penalties.path(mixture(6, 2, 800, seed=0)[0]).best()
    assert (choice.n_clusters, choice.strength, choice.stability) == (6, "strong", 1.0)
    assert choice.agreement > 0.99
    assert "100% of the repetitions say the same" in choice.describe()


def test_codes_for_missing_values_are_isolated_rows():
    r = np.random.default_rng(0)
    label = np.repeat(np.arange(3), 500)
    X = 6 * r.standard_normal((3, 6))[label] + r.standard_normal((1500, 6))
    plain = DPMeans(random_state=0).fit(X)
    cells = r.choice(1500, 6, replace=False), r.integers(0, 6, 6)
    X[cells] = 9999
    model = DPMeans(random_state=0).fit(X)
    assert model.n_clusters_ == plain.n_clusters_ == 3
    assert model.evidence_.n_isolated == 6
    assert "6 rows are far from all others" in model.evidence_.describe()
    assert adjusted_rand_score(model.labels_, plain.labels_) > 0.98
    assert CollapsedDPMeans(random_state=0).fit(X).n_clusters_ == 3


def test_random_groups_are_asked_together():
    X = mixture(4, 3, 300, seed=0)[0]
    for seed in range(3):
        groups = np.random.default_rng(seed).integers(0, 4, len(X))
        model = HardHDP(random_state=seed).fit(X, groups=groups)
        assert model.n_clusters_ == model.evidence_.n_clusters == 4
        assert "groups are alike" in model.evidence_.reason


def test_prediction_strength_by_hand():
    own = np.array([0, 0, 0, 0, 1, 1, 1])
    predicted = np.array([0, 0, 0, 1, 1, 1, 1])
    # of the pairs of the first cluster 3 of 6 stay together, of the second all: their mean
    assert prediction_strength(own, predicted, np.ones(7), 2) == pytest.approx(0.75)


def test_columns_that_hardly_ever_change_do_not_hide_clusters():
    digits = load_digits()
    spread = digits.data.std(axis=0)
    X = (digits.data - digits.data.mean(axis=0)) / np.where(spread > 0, spread, 1)
    path = penalties.path(X)
    assert 9 <= path.best().n_clusters <= 20
    assert adjusted_rand_score(digits.target, path.labels_at(path.best().price)) > 0.5


def test_independent_skewed_columns_have_no_clusters():
    for seed in range(3):
        X = np.exp(np.random.default_rng(seed).standard_normal((700, 12)))
        assert penalties.path(X).best().n_clusters == 1
