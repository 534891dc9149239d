"""Layers of clusters, their tree and memberships: nested, supported, kept in files."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from test_contract import AUTO, FEATURES, data, make

import madbayes
from madbayes._model.layers import (
    divide_further,
    finer_groups,
    finer_numbers,
    joins_of_distances,
    keep_layers,
    membership,
    peaks,
    squared_distances,
)
from madbayes.penalties import Choice, Staircase

CLUSTERINGS = [*(n for n in AUTO if n not in FEATURES), "AutoCluster"]


def groups_of_groups(seed=0, n=30, columns=5):
    """Four groups of five clusters: rows, clusters, groups."""
    r = np.random.default_rng(seed)
    far = r.normal(size=(4, columns)) * 60
    centers = (far[:, None] + r.normal(size=(4, 5, columns)) * 8).reshape(20, columns)
    y = np.repeat(np.arange(20), n)
    return centers[y] + r.normal(size=(len(y), columns)), y, y // 5


def assert_nested(model):
    layers = model.cluster_layers_
    numbers = [len(np.unique(layer[layer >= 0])) for layer in layers]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers)
    assert any(np.array_equal(layer, model.labels_) for layer in layers)
    for below, above in pairwise(layers):
        known = below >= 0
        np.testing.assert_array_equal(known, above >= 0)
        pairs = np.unique(np.c_[below, above][known], axis=0)
        assert len(pairs) == len(np.unique(below[known]))  # one parent each
    tree = model.cluster_tree_
    root = (len(layers), 0)
    seen, front = [], [root]
    while front:
        node = front.pop()
        seen.append(node)
        front += tree.get(node, [])
    names = {(i, c) for i, layer in enumerate(layers) for c in np.unique(layer[layer >= 0])}
    assert set(seen) == names | {root}
    assert len(seen) == len(set(seen))
    for (i, parent), children in tree.items():
        for j, child in children:
            assert j == i - 1
            if (i, parent) != root:
                assert set(layers[i][layers[j] == child]) == {parent}


@pytest.mark.parametrize("name", CLUSTERINGS)
def test_every_clustering_with_a_path_has_layers(name):
    model = make(name).fit(data(name))
    assert_nested(model)
    if name != "GraphCut":  # keeps no edges
        p = model.probabilities_
        assert p.shape == model.labels_.shape
        assert p.min() > 0.9
        assert p.max() <= 1
    if name == "AutoCluster":
        return
    prices = ("penalty", "resolution", "penalty_local", "penalty_global")
    given = {p: getattr(model, f"{p}_") for p in prices if p in model.get_params()}
    model.set_params(**given).fit(data(name))
    for attribute in ("cluster_layers_", "cluster_tree_"):
        with pytest.raises(AttributeError, match=attribute.split("_")[0]):
            getattr(model, attribute)
        assert not hasattr(model, attribute)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "name", ["DPMeans", "DPMedoids", "KernelDPMeans", "OnlineDPMeans", "HardHDP", "EllipticalMeans"]
)
def test_groups_of_clusters_are_a_layer(name, seed):
    X, y, coarse = groups_of_groups(seed)
    model = make(name).fit(X)
    assert_nested(model)
    assert max(adjusted_rand_score(coarse, layer) for layer in model.cluster_layers_) == 1.0
    if name != "EllipticalMeans":
        assert adjusted_rand_score(y, model.cluster_layers_[0]) > 0.99


def test_one_cluster_is_one_layer():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = madbayes.DPMeans(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert [layer.max() for layer in model.cluster_layers_] == [0]
    assert model.cluster_tree_ == {(1, 0): [(0, 0)]}
    assert (model.probabilities_ == 1).all()


def test_a_finer_layer_needs_a_score_of_its_own():
    def path(scores, number=3):
        k = np.arange(1, 12)
        choice = Choice(number, 1.0, "weak", 0.2, "", score=scores.get(number, 0.5))
        return Staircase.build(
            k, 100.0 / k, scores=scores, choice=choice, centers=[np.zeros((j, 1)) for j in k]
        )

    assert finer_numbers(path({2: 1.0, 3: 2.0, 7: 0.3, 8: 1.9, 9: 1.6}), 3) == [8]
    assert finer_numbers(path({3: 2.0, 4: 1.9, 8: -0.1}), 3) == []
    assert finer_numbers(path({3: 2.0, 4: 1.9}), 3) == []  # too near to be another layer
    assert finer_numbers(path({3: 2.0, 5: 1.9, 8: 1.5, 9: 1.2}), 3) == []  # no rise before it


def test_finer_layers_divide_the_clusters():
    """Twenty centres divide four clusters."""
    X, y, coarse = groups_of_groups(0)
    model = madbayes.DPMeans(random_state=0).fit(X)
    centers = np.array([X[coarse == c].mean(axis=0) for c in range(4)])
    parts, points, parents = divide_further(X, coarse, centers, model.cluster_centers_, False)
    assert adjusted_rand_score(y, parts) == 1.0
    assert np.bincount(parents).tolist() == [5, 5, 5, 5]
    groups = finer_groups(points, parents, np.bincount(parts), [8, 20])
    assert [g.max() + 1 for g in groups] == [20, 8]
    assert len(np.unique(np.c_[groups[1], parents], axis=0)) == 8  # inside of the clusters


def test_a_model_with_finer_layers(tmp_path):
    """Four clusters were chosen, and 20 have a score of their own, nearly as good."""
    X, y, coarse = groups_of_groups(0)
    path = madbayes.DPMeans(random_state=0).fit(X).path_
    model = madbayes.KMeans(4, n_init=10, random_state=0).fit(X)
    choice = replace(path.best(), number=4, score=1.0, runners_up=((20, 0.9),))
    model.path_ = replace(path, choice=choice, scores={4: 1.0, 9: 0.2, 20: 0.9})
    model.evidence_ = choice
    keep_layers(model, X, model.labels_, None)
    assert_nested(model)
    assert adjusted_rand_score(y, model.cluster_layers_[0]) == 1.0
    assert adjusted_rand_score(coarse, model.cluster_layers_[1]) == 1.0
    model.save(tmp_path / "model.npz")
    again = madbayes.load(tmp_path / "model.npz")
    for one, other in zip(model.cluster_layers_, again.cluster_layers_, strict=True):
        np.testing.assert_array_equal(one, other)
    model.fit(X)
    assert "_finest" not in vars(model)


@pytest.mark.parametrize("name", ["DPMeans", "KernelDPMeans", "NeighborCut", "OnlineDPMeans"])
def test_layers_are_kept_in_files(name, tmp_path):
    X = groups_of_groups(0)[0]
    model = make(name).fit(X)
    model.save(tmp_path / "model.npz")
    again = madbayes.load(tmp_path / "model.npz")
    assert again.cluster_tree_ == model.cluster_tree_
    np.testing.assert_array_equal(again.probabilities_, model.probabilities_)


def test_layers_of_a_graph_follow_its_path():
    """Four groups of four cliques, more links inside of the groups than between them."""
    r = np.random.default_rng(0)
    label = np.repeat(np.arange(16), 12)
    share = np.where(label[:, None] // 4 == label // 4, 0.06, 0.002)
    share[label[:, None] == label] = 0.95
    A = np.triu(r.random(share.shape) < share, 1)
    model = madbayes.GraphCut(random_state=0).fit(sp.csr_array((A | A.T).astype(float)))
    assert_nested(model)
    assert model.n_clusters_ == 16
    assert max(adjusted_rand_score(label // 4, layer) for layer in model.cluster_layers_) == 1.0


def test_ward_joins_are_those_of_scipy():
    from scipy.cluster.hierarchy import cut_tree, linkage

    points = np.random.default_rng(0).normal(size=(25, 4))
    want = linkage(points, "ward")
    levels = {x.number: x.group for x in joins_of_distances(squared_distances(points), np.ones(25))}
    assert sorted(levels) == list(range(2, 25))
    for j, group in levels.items():
        assert adjusted_rand_score(cut_tree(want, j).ravel(), group) == 1.0


def test_peaks_are_the_best_of_their_neighbourhood():
    assert peaks({2: 1.0, 3: 2.0, 4: 3.0, 5: 1.0, 8: 0.5, 9: 0.5}, 2, 9) == [4, 8]
    assert peaks({2: 1.0, 3: 2.0, 4: 3.0, 5: 1.0}, 2, 3) == []


def test_membership_is_the_posterior_of_two_normal_clusters():
    """Two clusters four standard deviations apart, in twenty columns of which one tells them."""
    r = np.random.default_rng(0)
    y = np.repeat([0, 1], 20_000)
    X = r.normal(size=(len(y), 20)) * np.r_[1.0, r.uniform(0.2, 3, 19)]
    X[:, 0] += 4 * y
    centers = np.zeros((2, 20))
    centers[1, 0] = 4
    d2 = ((X[:, None] - centers) ** 2).sum(axis=2)
    label = d2.argmin(axis=1)
    margin = np.sort(d2, axis=1) @ [-1.0, 1.0]
    p = membership(margin, label, None)
    truth = np.maximum(norm.pdf(X[:, 0]), norm.pdf(X[:, 0] - 4))
    truth /= norm.pdf(X[:, 0]) + norm.pdf(X[:, 0] - 4)
    assert np.abs(p - truth).max() < 0.06
    assert np.mean(label == y) == pytest.approx(p.mean(), abs=0.01)


def test_membership_of_single_rows_ties_and_rows_left_out():
    margin, labels = np.array([4.0, 4.0, 0.0, 9.0]), np.array([0, 0, 1, -1])
    assert membership(margin, labels, None).tolist() == [1.0, 1.0, 0.5, 0.0]
    assert membership(margin, np.array([0, 0, 0, -1]), None).tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_margins_by_products_are_those_of_distances(metric, convert):
    X, _ = make_blobs(400, 6, centers=4, center_box=(2, 12), random_state=0)
    model = madbayes.DPMeans(metric=metric, random_state=0).fit(convert(X))
    margin = model._margins(convert(X), model.labels_, False)[0]
    d2 = model.transform(X) ** 2
    own = d2[np.arange(400), model.labels_].copy()
    d2[np.arange(400), model.labels_] = np.inf
    np.testing.assert_allclose(margin, d2.min(axis=1) - own, atol=1e-8)
    p = membership(margin, model.labels_, None)
    np.testing.assert_allclose(model.probabilities_, p, atol=1e-6)


def test_rows_of_weight_zero_change_no_probability():
    X, _ = make_blobs(200, 2, centers=3, random_state=2)
    weight = np.r_[np.ones(200), np.zeros(50)]
    far = np.random.default_rng(0).uniform(-30, 30, size=(50, 2))
    some = madbayes.DPMeans(random_state=0).fit(X)
    all_ = madbayes.DPMeans(random_state=0).fit(np.r_[X, far], sample_weight=weight)
    np.testing.assert_allclose(all_.probabilities_[:200], some.probabilities_, atol=1e-5)


def test_layers_of_a_stream_are_those_of_its_last_rows(tmp_path):
    X, _, _ = groups_of_groups(0)
    X = X[np.random.default_rng(0).permutation(len(X))]
    model = madbayes.OnlineDPMeans(random_state=0).partial_fit(X[:400])
    model._finest, model._finer = (
        np.zeros(400, np.int32),
        np.zeros((1, 1), int),
    )  # an earlier finding
    model.partial_fit(X[400:])
    assert_nested(model)
    assert [len(layer) for layer in model.cluster_layers_] == [200] * len(model.cluster_layers_)
    assert model.probabilities_.shape == (200,)
    model.save(tmp_path / "model.npz")
