"""Curves that cross or run side by side, in `NeighborCut`."""

import numpy as np
import pytest
from reference import strands as reference
from scipy.spatial import cKDTree
from sklearn.metrics import adjusted_rand_score as ari

from madbayes import NeighborCut
from madbayes.graph import curves
from madbayes.graph.curve_kernels import follow
from madbayes.graph.curves import ACROSS, CONE, NEAR, SHIFTS, TRIES, agreed, strands, thinned


def line(n, angle, r, spread=0.05, start=-3.0, end=3.0):
    t = r.uniform(start, end, n)
    return np.c_[t * np.cos(angle), t * np.sin(angle)] + spread * r.normal(size=(n, 2))


def circle(n, r, x=0.0, spread=0.04):
    t = r.uniform(0, 2 * np.pi, n)
    return np.c_[x + np.cos(t), np.sin(t)] + spread * r.normal(size=(n, 2))


def spiral(n, turn, r):
    t = np.sqrt(r.uniform(0.04, 1, n)) * 4 * np.pi
    return np.c_[t * np.cos(t + turn), t * np.sin(t + turn)] + 0.12 * r.normal(size=(n, 2))


@pytest.mark.parametrize("apart", [0.02, 0.1, 0.5])
def test_thinning_is_the_plain_loop(apart):
    X = np.random.default_rng(0).uniform(size=(200, 2))
    assert thinned(X, apart).tolist() == reference.thinned(X, apart)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("rho", [0.02, 0.3, 1.0])
def test_tangents_are_the_plain_loop(d, rho):
    r = np.random.default_rng(d)
    X = np.vstack([r.normal(size=(40, d)), np.c_[r.uniform(-3, 3, 60), np.zeros((60, d - 1))]])
    point = X[::7].copy()
    member = np.tile(np.arange(len(X)), len(point))
    start = np.arange(len(point) + 1) * len(X)
    tangent, first, second = np.zeros_like(point), np.zeros(len(point)), np.zeros(len(point))
    follow(X, start, member, point, rho, NEAR, CONE, ACROSS, TRIES, SHIFTS, tangent, first, second)
    for p, before in enumerate(X[::7]):
        at, t, one, two = reference.follow(X, before, rho, NEAR, CONE, ACROSS, TRIES, SHIFTS)
        np.testing.assert_allclose(point[p], at, atol=1e-9)
        np.testing.assert_allclose([first[p], second[p]], [one, two], atol=1e-12)
        assert t is None or abs(t @ tangent[p]) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(2))
def test_lines_that_cross(seed):
    r = np.random.default_rng(seed)
    y = np.repeat([0, 1], 500)
    for X in (
        np.vstack([line(500, 0.2, r), line(500, 1.5, r)]),
        np.vstack([line(500, 0.5, r), line(500, 1.7, r, start=-1.0)]),
    ):
        model = NeighborCut(random_state=0).fit(X)
        assert model.n_clusters_ == model.evidence_.n_clusters == 2
        assert ari(y, model.labels_) > 0.85  # rows at the crossing belong to both
        assert model.evidence_.strength == "moderate"
        assert "curves" in model.evidence_.describe()
        assert model.path_.best() == model.evidence_
        at_choice = model.path_.labels_at(model.evidence_.price)
        assert ari(at_choice, model.labels_) == 1.0
        assert model.predict(X[:50]).tolist() == model.labels_[:50].tolist()


@pytest.mark.parametrize("seed", range(2))
def test_rings_that_cross_several_times(seed):
    r = np.random.default_rng(seed)
    X = np.vstack([circle(600, r, x) for x in (0.0, 1.25, 2.5)])
    assert ari(np.repeat([0, 1, 2], 600), strands(X)) > 0.85


def test_lines_side_by_side_that_others_cross():
    r = np.random.default_rng(4)
    lines = [line(300, a, r, 0.03) for a in (0.0, 0.0, np.pi / 2, np.pi / 2)]
    X = np.vstack(lines) + np.repeat([[0, -1], [0, 1], [-1, 0], [1, 0]], 300, axis=0)
    assert ari(np.repeat(np.arange(4), 300), strands(X)) > 0.85


@pytest.mark.parametrize("d", [2, 3])
def test_an_end_goes_on_as_its_circle(d):
    radius, t = 12.0, np.arange(12) / 12.0
    point, tangent = np.zeros((12, d)), np.zeros((12, d))
    point[:, :2] = radius * np.c_[np.cos(t), np.sin(t)]
    tangent[:, :2] = np.c_[-np.sin(t), np.cos(t)] * (-1.0) ** np.arange(12)[:, None]  # either way
    pairs = curves.near_pairs(point, tangent)
    arc = curves.linked(pairs, tangent)
    assert (arc == 0).all()
    ends = curves.open_ends(arc, pairs)
    assert sorted(ends.anchor) == [0, 11]
    out, bent = curves.outlook(ends, point, tangent, arc, pairs, 8.0)
    for anchor, leaves, curvature in zip(ends.anchor, out, bent, strict=True):
        away = np.zeros(d)
        away[:2] = np.c_[-np.sin(t), np.cos(t)][anchor] * (1 if anchor else -1)
        assert leaves @ away > 0.9995
        np.testing.assert_allclose(curvature, -point[anchor] / radius**2, atol=0.01)
        ahead = point[anchor] + 6 * curves.chord(leaves[None], curvature[None], 6.0)[0]
        assert np.sqrt((ahead**2).sum()) == pytest.approx(radius, abs=0.3)


def test_arcs_continue_straight_on_over_a_crossing():
    along = np.r_[-8.0:-2.5:1, 3.0:8.5:1]
    none = np.zeros_like(along)
    point = np.vstack([np.c_[along, none], np.c_[none, along]])
    tangent = np.repeat([[1.0, 0.0], [0.0, 1.0]], along.size, axis=0)
    found = curves.join_arcs(point, tangent, cKDTree(point), bare=8.0)
    assert found is not None
    on_first = np.abs(found.point[:, 1]) < 0.01
    centre = np.abs(found.point).max(axis=1) < 0.5
    assert len(np.unique(found.label[on_first & ~centre])) == 1
    assert len(np.unique(found.label[~on_first & ~centre])) == 1
    assert len(found.point) > len(point)  # more on the bridges
    assert found.ends.size == 4
    assert found.free.all()


def test_arms_of_spirals_that_neighbours_do_not_keep_apart():
    r = np.random.default_rng(1)
    X = np.vstack([spiral(400, 0, r), spiral(400, np.pi, r)])
    assert ari(np.repeat([0, 1], 400), NeighborCut(random_state=0).fit(X).labels_) > 0.98


def test_clusters_that_are_no_curves_stay_beside_those_that_are():
    r = np.random.default_rng(2)
    cloud = [9, 0] + 0.5 * r.normal(size=(400, 2))
    X = np.vstack([line(400, 0.2, r), cloud, line(400, 1.5, r)])
    labels = NeighborCut(random_state=0).fit(X).labels_
    assert len(np.unique(labels)) == 3
    assert len(np.unique(labels[400:800])) == 1
    assert ari(np.repeat([0, 1], 400), np.r_[labels[:400], labels[800:]]) > 0.85


def zigzag(r):
    t = r.uniform(0, 4, 800)
    return np.c_[t, 2 * np.abs(t % 2 - 1)] + 0.04 * r.normal(size=(800, 2))


def fork(r):
    return np.vstack([line(500, 0.0, r), line(250, 1.2, r, start=0.0)])


@pytest.mark.parametrize("shape", [zigzag, fork, lambda r: circle(700, r, 0.0)])
@pytest.mark.parametrize("seed", range(3))
def test_corners_forks_rings_and_gaps_do_not_divide_a_curve(shape, seed):
    r = np.random.default_rng(seed)
    X = shape(r)
    assert strands(X) is None
    assert strands(X[np.abs(X[:, 0] - 0.7) > 0.1]) is None


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("n", [100, 1000])
def test_clouds_are_no_curves(d, n):
    r = np.random.default_rng(d)
    for X in (r.normal(size=(n, d)), r.uniform(size=(n, d)), r.standard_t(3, size=(n, d))):
        assert strands(X) is None
    assert strands(np.round(r.normal(size=(n, d)), 1)) is None


@pytest.mark.parametrize("X", [np.zeros((100, 2)), np.arange(100.0)[:, None], np.eye(12)])
def test_equal_rows_one_column_and_many(X):
    assert strands(X) is None


def test_place_and_unit_do_not_matter():
    r = np.random.default_rng(3)
    X = np.vstack([line(300, 0.3, r), line(300, 1.7, r)])
    labels = strands(X)
    assert labels is not None
    np.testing.assert_array_equal(strands(X * 1024 + 2.0**12), labels)
    assert ari(strands(X.astype(np.float32)), labels) > 0.95


def test_a_hint_joins_only():
    r = np.random.default_rng(0)
    X = np.vstack([line(300, 0.2, r), line(300, 1.5, r)])
    assert NeighborCut(n_clusters_hint=1, random_state=0).fit(X).n_clusters_ == 1


def test_divisions_count_when_others_confirm_them():
    two, three = np.repeat([0, 1], 6), np.repeat([0, 1, 2], 4)
    assert agreed([], 3) is None
    assert agreed([two, two, three], 3) is None
    assert agreed([two, two, two, three], 3) == 0
    assert agreed([two, two, two, three, three, three], 3) == 3
    assert agreed([two, two, two, two, three, three, three], 3) == 0
