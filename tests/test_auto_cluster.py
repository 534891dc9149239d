"""AutoCluster: the shape of the clusters follows from rows that were held out."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import madbayes
from madbayes import AutoCluster, DPMeans, EllipticalMeans, NeighborCut
from madbayes.howmany.densities import explain, gaussian_density, kernel_density
from madbayes.howmany.doubts import PAIR_GAIN, gain_of_pairs


def long_clusters(seed=0):
    """Three long clusters that overlap: no valley lies between them."""
    r = np.random.default_rng(seed)
    turns = [np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in (0.5, 1.2, 0.0)]
    sizes = ([3, 0.5], [2, 0.6], [0.8, 0.8])
    places = ([0, 0], [3, -2], [6, 4])
    parts = [
        r.normal(size=(300, 2)) * size @ turn + place
        for size, turn, place in zip(sizes, turns, places, strict=True)
    ]
    return np.vstack(parts), np.repeat([0, 1, 2], 300)


def kinds():
    moons = make_moons(600, noise=0.05, random_state=0)
    blobs = make_blobs(900, 3, centers=6, cluster_std=1.0, random_state=3)
    r = np.random.default_rng(0)
    noise = r.normal(size=(500, 3)), np.zeros(500, int)
    return {"any": moons, "round": blobs, "long": long_clusters(), "noise": noise}


@pytest.mark.parametrize("kind", ["any", "round", "long", "noise"])
def test_the_shape_that_fits_is_chosen(kind):
    X, y = kinds()[kind]
    model = AutoCluster(random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.85
    assert model.n_clusters_ == len(np.unique(y)) == model.evidence_.n_clusters
    if kind in ("any", "long"):
        assert model.shape_ == kind
    assert model.path_.best() == model.evidence_
    assert {c.shape for c in model.candidates_} == {"round", "long", "any"}


@pytest.mark.parametrize("kind", ["any", "long"])
def test_the_order_of_rows_does_not_matter(kind):
    X, _ = kinds()[kind]
    order = np.random.default_rng(1).permutation(len(X))
    one, other = AutoCluster(random_state=0).fit(X), AutoCluster(random_state=0).fit(X[order])
    assert one.shape_ == other.shape_
    assert adjusted_rand_score(one.labels_[order], other.labels_) > 0.98


def test_a_hint_of_one_gives_one_cluster():
    for centers in ([[0, 0], [8, 8]], [[0, 0], [8, 8], [0, 9], [9, 0]]):
        X, _ = make_blobs(300, centers=centers, random_state=0)
        assert NeighborCut(n_clusters_hint=1).fit(X).n_clusters_ > 1  # its graph is in pieces
        assert AutoCluster(n_clusters_hint=1, random_state=0).fit(X).n_clusters_ == 1


def test_a_given_shape_is_that_estimator():
    X, _ = kinds()["round"]
    for shape, estimator in (("round", DPMeans), ("any", NeighborCut)):
        model = AutoCluster(shape, random_state=0).fit(X)
        np.testing.assert_array_equal(model.labels_, estimator(random_state=0).fit(X).labels_)
        assert model.shape_ == shape and len(model.candidates_) == 1
    with pytest.raises(ValueError, match="shape='square'"):
        AutoCluster("square").fit(X)


def test_predict_novelty_and_files(tmp_path):
    for kind in ("any", "round"):
        X, _ = kinds()[kind]
        model = AutoCluster(random_state=0).fit(X)
        np.testing.assert_array_equal(model.predict(X), model.model_.predict(X))
        assert model.predict(X[:1] + 1e3, novel=True).tolist() == [-1]
        assert model.novelty_score(X[:5]).shape == (5,)
        model.save(tmp_path / f"{kind}.npz")
        again = madbayes.load(tmp_path / f"{kind}.npz")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.shape_ == model.shape_ and again.candidates_ == model.candidates_


def test_distances_to_centres_are_a_table_with_named_columns():
    pytest.importorskip("pandas")
    X, _ = kinds()["round"]
    model = AutoCluster(random_state=0).set_output(transform="pandas")
    table = make_pipeline(model, "passthrough").fit_transform(X)
    assert table.columns.tolist() == [f"autocluster{c}" for c in range(6)]
    np.testing.assert_array_equal(model.labels_, table.to_numpy().argmin(axis=1))


def test_clusters_without_centres_have_no_distances_to_them():
    X, _ = kinds()["any"]
    assert not hasattr(AutoCluster("any"), "transform")
    assert not hasattr(AutoCluster(random_state=0).fit(X), "transform")


def test_few_rows_and_sparse_rows():
    import scipy.sparse as sp

    assert AutoCluster().fit(np.arange(12.0)[:, None]).shape_ == "round"
    X = sp.random(200, 50, 0.2, random_state=0, format="csr")
    assert AutoCluster(random_state=0).fit(X).n_clusters_ >= 1


def arc(seed):
    r = np.random.default_rng(seed)
    angle = r.uniform(0, 3.5, 600)
    return 2 * np.c_[np.cos(angle), np.sin(angle)] + r.normal(0, 0.12, (600, 2))


def sphere(seed):
    ball = np.random.default_rng(seed).normal(size=(702, 3))
    return ball / np.linalg.norm(ball, axis=1)[:, None]


@pytest.mark.parametrize("cloud", [arc, sphere])
def test_a_curved_cloud_is_not_cut_into_ellipses(cloud):
    for seed in range(3):
        assert AutoCluster(random_state=0).fit(cloud(seed)).n_clusters_ == 1


def test_a_small_cluster_inside_the_tail_of_a_large_one_is_found():
    r = np.random.default_rng(0)
    X = np.r_[r.normal([0, 0], 0.15, (150, 2)), r.normal([1.8, 0], 0.8, (50, 2))]
    model = AutoCluster(random_state=0).fit(X)
    assert model.n_clusters_ == 2
    assert adjusted_rand_score(np.repeat([0, 1], [150, 50]), model.labels_) > 0.9


def test_long_clusters_that_touch_at_their_ends_are_found():
    r = np.random.default_rng(0)
    parts = []
    for place, angle in (((0, 0), 0.8), ((0.5, 6), -0.8), ((7, 3), 0.1)):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        parts.append(r.normal(size=(500, 2)) * [2.5, 0.25] @ turn + place)
    model = AutoCluster(random_state=0).fit(np.vstack(parts))
    assert (model.n_clusters_, model.shape_) == (3, "long")


def test_round_clusters_are_not_fitted_where_they_cannot_win():
    X, _ = kinds()["any"]
    first = AutoCluster(random_state=0).fit(X).candidates_[0]
    assert (first.shape, first.n_clusters) == ("round", 0) and "not fitted" in first.reason
    X, _ = kinds()["round"]
    assert AutoCluster(random_state=0).fit(X).candidates_[0].n_clusters == 6


def test_rounded_rows_have_no_endless_density():
    r = np.random.default_rng(0)
    X = np.round(r.normal(size=(800, 3)) + 8 * np.repeat(np.eye(3)[[0, 1]], 400, axis=0))
    found = explain(X, {"round": np.repeat([0, 1], 400), "any": np.zeros(800, int)})
    assert abs(found["any"] - found["round"]) < 0.3
    assert DPMeans(random_state=0).fit(X).evidence_.strength == "strong"


def test_densities_are_those_of_plain_formulas():
    r = np.random.default_rng(0)
    X, T = r.normal(size=(400, 2)), r.normal(size=(300, 2))
    true = -np.log(2 * np.pi) - 0.5 * (T**2).sum(axis=1).mean()
    for long in (False, True):
        found = gaussian_density(X, np.zeros(400, int), T, long=long)
        assert found == pytest.approx(true, abs=0.02)
    assert true - 0.2 < kernel_density(X, T)[0] < true + 0.01


def test_gaussians_beat_kernels_only_where_clusters_are_gaussian():
    for kind, better in (("long", True), ("any", False)):
        X, y = kinds()[kind]
        found = explain(X, {"long": y, "any": np.zeros(len(X), int)})
        assert (found["long"] > found["any"]) == better


@pytest.mark.parametrize("seed", [0, 1])
def test_two_clusters_of_three_are_not_called_strong(seed):
    """Two of three clusters overlap: both that are found are real, but one of them holds two."""
    r = np.random.default_rng(seed)
    centers = np.repeat([[0, 0, 0, 0], [2.8, 0, 0.9, 0], [0, 7, 0, 3]], [150, 70, 120], axis=0)
    model = AutoCluster(random_state=0).fit(centers + r.normal(size=centers.shape))
    assert (model.n_clusters_, model.evidence_.strength) in [(2, "moderate"), (3, "moderate")]
    assert any("doubts them" in remark for remark in model.evidence_.remarks)


def test_two_clusters_of_iris_are_not_called_strong():
    """Two of the three species overlap, so no valley lies between them."""
    X = StandardScaler().fit_transform(load_iris().data)
    long = EllipticalMeans(random_state=0).fit(X).evidence_
    assert (long.number, long.strength) == (2, "weak") and "in place of one" in long.reason
    model = AutoCluster(random_state=0).fit(X)
    assert (model.n_clusters_, model.evidence_.strength) == (2, "weak")


def test_doubts_find_two_clusters_in_one():
    """Two Gaussians of one covariance explain two overlapping clusters better than one does, but
    neither a single cluster nor a skewed or heavy-tailed one."""
    r = np.random.default_rng(0)
    labels = np.repeat([0, 1], [200, 150])
    apart = 12.0 * labels[:, None]
    pair = r.normal(size=(350, 3)) + apart
    pair[:100, 0] += 4
    assert gain_of_pairs(pair, labels) > 2 * PAIR_GAIN
    for rows in (r.normal(size=(350, 3)), r.gamma(3, size=(350, 3)), r.standard_t(3, (350, 3))):
        assert gain_of_pairs(rows + apart, labels) < PAIR_GAIN
