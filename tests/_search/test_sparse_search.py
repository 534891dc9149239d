"""The search on CSR rows that are too many to be made dense."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.partitions import direction, lowest_neighbour, mean, objective
from sklearn.preprocessing import normalize

from madbayes import DPMeans
from madbayes.kmeans import solve as module


def documents(r, n, d, k):
    """Counts of words, mostly zeros, about k subjects; every row has a word."""
    subjects = r.dirichlet(np.full(d, 0.05), k)
    truth = r.randint(0, k, n)
    X = np.array([r.multinomial(r.randint(5, 30), subjects[c]) for c in truth], float)
    return sp.csr_array(X), truth


@pytest.fixture
def never_dense(monkeypatch):
    monkeypatch.setattr(module, "DENSE_VALUES", 0)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("seed", range(6))
def test_no_single_move_is_left(seed, metric, never_dense):
    r = np.random.RandomState(seed)
    X, _ = documents(r, 40, 30, 4)
    w = np.ones(40) if seed % 2 else r.uniform(0.2, 3, 40)
    middle = direction if metric == "cosine" else mean
    rows = normalize(X.toarray()) if metric == "cosine" else X.toarray()
    penalty = objective(rows, np.zeros(40, int), 0.0, w, middle) * [0.02, 0.1, 0.3][seed % 3]
    cap = 40 if seed < 4 else 3
    model = DPMeans(penalty, metric=metric, max_clusters=cap, random_state=0)
    model.fit(X, sample_weight=w)
    assert model.n_clusters_ <= cap
    found = objective(rows, model.labels_, penalty, w, middle)
    assert model.objective_ == pytest.approx(found)
    assert lowest_neighbour(rows, model.labels_, penalty, w, cap, middle) >= found * (1 - 1e-8)
    assert (np.diff(model.objective_history_) <= 1e-9 * found).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    paper = DPMeans(penalty, algorithm="paper", metric=metric, max_clusters=cap)
    assert found <= paper.fit(X, sample_weight=w).objective_ * (1 + 1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nearly_as_low_as_the_dense_search(metric, monkeypatch):
    X, _ = documents(np.random.RandomState(0), 600, 100, 8)
    penalty = DPMeans(n_clusters_hint=8, metric=metric, random_state=0).fit(X).penalty_
    dense = DPMeans(penalty, metric=metric, random_state=0).fit(X)
    monkeypatch.setattr(module, "DENSE_VALUES", 0)
    found = DPMeans(penalty, metric=metric, random_state=0).fit(X)
    assert found.objective_ <= dense.objective_ * 1.01
    again = DPMeans(penalty, metric=metric, random_state=0, n_jobs=1).fit(X)
    np.testing.assert_array_equal(found.labels_, again.labels_)
    single = DPMeans(penalty, metric=metric, random_state=0).fit(X.astype(np.float32))
    assert single.objective_ == pytest.approx(found.objective_, rel=1e-3)
    assert single.cluster_centers_.dtype == np.float32


def test_rows_of_weight_zero_and_equal_rows(never_dense):
    X = sp.csr_array(np.repeat(np.eye(3), 4, axis=0))
    weight = np.r_[np.ones(11), 0.0]
    model = DPMeans(0.1, random_state=0).fit(X, sample_weight=weight)
    assert model.n_clusters_ == 3
    assert model.inertia_ == pytest.approx(0.0, abs=1e-12)
    assert model.labels_[11] == model.labels_[10]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_wide_rows_are_searched_in_the_space_that_they_span(metric, monkeypatch):
    X, _ = documents(np.random.RandomState(1), 60, 400, 5)
    X = sp.csr_array(sp.vstack([X, X[:10], sp.csr_array((2, 400))])) if metric != "cosine" else X
    middle = direction if metric == "cosine" else mean
    rows = normalize(X.toarray()) if metric == "cosine" else X.toarray()
    w = np.random.RandomState(2).randint(0, 3, X.shape[0]) * 1.0
    penalty = objective(rows, np.zeros(len(rows), int), 0.0, w, middle) * 0.1
    turned = DPMeans(penalty, metric=metric, random_state=0).fit(X, sample_weight=w)
    used = np.flatnonzero(w)
    found = objective(rows[used], turned.labels_[used], penalty, w[used], middle)
    assert turned.objective_ == pytest.approx(found)
    args = rows[used], turned.labels_[used], penalty, w[used], len(used), middle
    assert lowest_neighbour(*args) >= found * (1 - 1e-8)
    if metric != "cosine":
        np.testing.assert_array_equal(turned.labels_[60:70], turned.labels_[:10])
    monkeypatch.setattr(module, "WIDE", np.inf)  # made dense, as narrower tables are
    dense = DPMeans(penalty, metric=metric, random_state=0).fit(X, sample_weight=w)
    assert turned.objective_ == pytest.approx(dense.objective_, rel=1e-3)


def test_wide_rows_of_zeros():
    assert DPMeans(1.0, random_state=0).fit(sp.csr_array((5, 100))).n_clusters_ == 1
