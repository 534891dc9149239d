"""How many clusters where it is difficult: directions, weak evidence, hints, few rows, shapes."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from test_path import mixture

from madbayes import DPMeans, KernelDPMeans, penalties
from madbayes._partition.lloyd import follow, lloyd
from madbayes._partition.partition import Partition
from madbayes._rows.rows import Rows


def documents(n=1500, words=2000, topics=6, seed=0):
    """Word counts: half of a text's words are of its topic, the others of any."""
    r = np.random.default_rng(seed)
    topic = r.integers(0, topics, n)
    common = r.dirichlet(np.full(words, 0.1))
    own = r.dirichlet(np.full(words, 0.02), topics)
    rows = [r.multinomial(r.poisson(60) + 5, (common + own[t]) / 2) for t in topic]
    return sp.csr_array(np.array(rows, dtype=float)), topic


def shuffled_columns(X, seed=0):
    """The values of each column on other rows."""
    r = np.random.default_rng(seed)
    X = X.toarray()
    for column in X.T:
        r.shuffle(column)
    return sp.csr_array(X)


def test_topics_and_the_same_words_without_topics():
    X, topic = documents()
    path = penalties.path(X, metric="cosine", random_state=0)
    assert path.best().n_clusters == 6
    assert adjusted_rand_score(topic, path.labels_at(path.best().penalty)) > 0.9
    noise = penalties.path(shuffled_columns(X), metric="cosine", random_state=0).best()
    assert (noise.n_clusters, noise.strength) == (1, "none")


def test_newsgroups():
    file = Path(os.environ.get("MADBAYES_DATA", "")) / "text" / "20news_bow.npz"
    if not file.exists():
        pytest.skip("needs text/20news_bow.npz in the folder that MADBAYES_DATA names")
    text = np.load(file)
    parts = (text["data"].astype(float), text["indices"].astype(np.int32), text["indptr"])
    X, label = sp.csr_array(parts, shape=text["shape"]), text["label"]
    seen = np.bincount(X.indices, minlength=X.shape[1])
    X.data = (1 + np.log(X.data)) * (1 + np.log(X.shape[0] / seen[X.indices]))
    rows = np.random.default_rng(0).permutation(X.shape[0])[:3000]
    path = penalties.path(X[rows], metric="cosine", random_state=0)
    choice = path.best()
    assert choice.strength == "weak"
    assert 10 <= choice.n_clusters <= 60
    labels = path.labels_at(choice.penalty)
    assert normalized_mutual_info_score(label[rows], labels) > 0.45


@pytest.mark.parametrize(("n", "d", "mean"), [(500, 3, 3.0), (1500, 50, 2.0), (1500, 300, 6.0)])
def test_directions_about_one_mean(n, d, mean):
    X = np.random.default_rng(0).standard_normal((n, d))
    X[:, 0] += mean
    assert penalties.path(X, metric="cosine", random_state=0).best().n_clusters == 1


@pytest.mark.parametrize("law", ["gauss", "uniform", "t4"])
def test_noise_of_many_unequal_components(law):
    r = np.random.default_rng(0)
    X = r.standard_normal((1500, 40)) if law != "uniform" else r.random((1500, 40)) - 0.5
    if law == "t4":
        X /= np.sqrt(r.chisquare(4, (1500, 1)) / 4)
    X = X * np.geomspace(5, 0.3, 40) @ np.linalg.qr(r.standard_normal((40, 40)))[0]
    choice = penalties.path(X, random_state=0).best()
    assert (choice.n_clusters, choice.strength) == (1, "none")


def test_weak_evidence_is_of_use():
    X, truth = mixture(20, 50, 1200, seed=3, separation=5.0)
    path = penalties.path(X, random_state=0)
    assert 16 <= path.best().n_clusters <= 22
    assert path.best().strength == "weak"
    assert "other halves" in path.best().reason
    assert adjusted_rand_score(truth, path.labels_at(path.best().penalty)) > 0.8


def test_digits():
    X, digit = load_digits(return_X_y=True)
    path = penalties.path(X)
    assert 9 <= path.best().n_clusters <= 13
    assert path.best().strength == "weak"
    assert adjusted_rand_score(digit, path.labels_at(path.best().penalty)) > 0.65


@pytest.mark.parametrize("sparse", [False, True])
def test_the_second_look_does_not_depend_on_threads(sparse):
    X = documents(n=900)[0] if sparse else mixture(20, 50, 1200, seed=3, separation=5.0)[0]
    metric = "cosine" if sparse else "euclidean"
    one, two = (penalties.path(X, metric=metric, random_state=1, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.objective, two.objective)
    assert one.best() == two.best()


TABLES = {
    "3 rows": lambda r: r.standard_normal((3, 2)),
    "12 rows": lambda r: r.standard_normal((12, 2)),
    "40 rows": lambda r: r.standard_normal((40, 30)),
    "heavy tails": lambda r: r.standard_t(2, (200, 3)),
    "4 different rows": lambda r: np.repeat(np.eye(4), 30, axis=0),
    "a grid": lambda r: r.integers(0, 3, (300, 2)),
    "equal rows": lambda r: np.ones((20, 2)),
    "far rows": lambda r: np.r_[r.standard_normal((300, 2)), r.standard_normal((6, 2)) * 1e4],
}


@pytest.mark.parametrize("table", TABLES)
def test_a_hint_is_obeyed(table):
    X = TABLES[table](np.random.default_rng(0))
    different = len(np.unique(X, axis=0))
    for hint in (1, 2, 3, 7, 10, 30):
        for cap in (None, 5):
            choice = penalties.path(X, n_clusters_hint=hint, max_clusters=cap, random_state=0)
            k = choice.best().n_clusters
            fewest = min(np.ceil(2 * hint / 3), different, cap or different)
            assert fewest <= k <= min(max(1, 3 * hint // 2), cap or k), (hint, cap)
            if 3 * k < 2 * hint:
                assert "n_clusters_hint" in choice.best().describe()


@pytest.mark.parametrize("table", ["3 rows", "12 rows", "4 different rows", "equal rows"])
def test_a_hint_is_obeyed_with_kernels(table):
    X = TABLES[table](np.random.default_rng(0))
    different = len(np.unique(X, axis=0))
    for hint in (1, 2, 3, 7):
        model = KernelDPMeans(n_clusters_hint=hint, gamma=0.1, random_state=0).fit(X)
        assert min(np.ceil(2 * hint / 3), different) <= model.n_clusters_ <= max(1, 3 * hint // 2)


@pytest.mark.parametrize("seed", range(4))
def test_fits_obey_hints_on_real_data(seed):
    X = load_digits().data[:600]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    for data, hint in ((X, 3), (load_iris().data, 5)):
        model = DPMeans(n_clusters_hint=hint, random_state=seed).fit(data)
        assert model.n_clusters_ == model.evidence_.n_clusters
        assert 2 * hint / 3 <= model.n_clusters_ <= 1.5 * hint


@pytest.mark.parametrize("n", [12, 15, 40])
def test_little_noise_is_one_cluster(n):
    for seed in range(6):
        r = np.random.default_rng(seed)
        for X in (r.standard_normal((n, 1)), r.standard_t(4, (n, 2))):
            model = DPMeans(random_state=0).fit(X)
            assert model.n_clusters_ == model.evidence_.n_clusters == 1


def rings(r):
    angle = r.uniform(0, 2 * np.pi, 2000)
    ring = np.c_[np.cos(angle), np.sin(angle)] + 0.03 * r.standard_normal((2000, 2))
    return ring + np.repeat([[0.0, 0], [1, 0]], 1000, axis=0)


def ellipses(r):
    X = r.standard_normal((900, 3)) * [1, 1, 5]
    return X + np.repeat([[0.0, 0, 0], [20, 0, 0], [0, 20, 0]], 300, axis=0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (rings, "NeighborCut"),
        (ellipses, "EllipticalMeans"),
        (lambda r: mixture(6, 3, 900, seed=0)[0], ""),
        (lambda r: mixture(5, 20, 600, seed=0)[0], ""),
        (lambda r: r.standard_normal((1000, 2)), ""),
        (lambda r: r.random((300, 2)), ""),
    ],
)
def test_remarks(make, word):
    choice = penalties.path(make(np.random.default_rng(0)), random_state=0).best()
    assert (word in choice.describe()) if word else choice.remarks == ()


def test_small_passes_are_lloyds():
    r = np.random.default_rng(0)
    X, w, start = r.standard_normal((80, 3)), r.uniform(0.5, 2, 80), r.standard_normal((7, 3))
    start[6] = 50.0  # loses all its rows
    labels, centers, sse = lloyd(X, start, w, 4)
    partition = Partition(Rows(X, weight=w))
    np.testing.assert_allclose(centers, follow(partition, start, 4))
    np.testing.assert_array_equal(labels, partition.labels)
    assert sse == pytest.approx(partition.sse)


def test_clusters_of_unequal_width_are_pointed_out():
    rng = np.random.default_rng(0)
    wide, narrow = 3.0 * rng.normal(size=(800, 10)), 0.5 * rng.normal(size=(200, 10))
    remarks = DPMeans(random_state=0).fit(np.r_[wide, narrow + 8.0]).evidence_.remarks
    assert any("times as wide" in text and "EllipticalMeans" in text for text in remarks)
    far_away = DPMeans(random_state=0).fit(np.r_[wide, narrow + 80.0]).evidence_.remarks
    assert not any("times as wide" in text for text in far_away)  # nothing is cut off
