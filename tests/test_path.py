"""penalties.path and penalty="auto": how many clusters, and how sure."""

import numpy as np
import pytest
from data import data_file
from reference.links import weakest_links
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from madbayes import DPMeans, penalties
from madbayes._partition.ward import cut_tree, merge_below, ward_tree
from madbayes.howmany.halves import DOUBT, add_up, make_halves, score_levels
from madbayes.howmany.links import link_strengths, score
from madbayes.howmany.staircase import lower_hull


def mixture(k, d, n, seed, separation=7.0):
    """Gaussian clusters of unequal sizes and spreads; the nearest centres so many spreads apart."""
    r = np.random.default_rng(seed)
    centers = r.standard_normal((k, d))
    gaps = np.sqrt(((centers[:, None] - centers) ** 2).sum(axis=2))
    centers *= separation / gaps[~np.eye(k, dtype=bool)].min()
    share = r.uniform(1, 3, k)
    truth = r.permutation(
        np.r_[np.repeat(np.arange(k), 8), r.choice(k, n - 8 * k, p=share / share.sum())]
    )
    spread = r.uniform(0.6, 1.2, k)
    return centers[truth] + spread[truth, None] * r.standard_normal((n, d)), truth


def standardized(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize(
    ("name", "k"), [("a1", 20), ("s1", 15), ("s3", 15), ("d31", 31), ("unbalance", 8)]
)
def test_shapes(name, k):
    model = DPMeans(random_state=0).fit(data_file(f"shapes/{name}.csv.gz")[:, :2])
    assert model.n_clusters_ == model.evidence_.n_clusters == k
    assert model.evidence_.strength == "strong"


@pytest.mark.parametrize("kind", ["gauss", "uniform", "correlated", "exponential", "t4"])
@pytest.mark.parametrize(("n", "d"), [(100, 2), (400, 50)])
def test_noise_is_one_cluster(kind, n, d):
    r = np.random.default_rng(1)
    X = {
        "gauss": lambda: r.standard_normal((n, d)),
        "uniform": lambda: r.random((n, d)),
        "correlated": lambda: r.standard_normal((n, d)) @ r.standard_normal((d, d)),
        "exponential": lambda: r.exponential(size=(n, d)),
        "t4": lambda: r.standard_normal((n, d)) / np.sqrt(r.chisquare(4, (n, 1)) / 4),
    }[kind]()
    model = DPMeans(random_state=0).fit(X)
    assert model.evidence_.n_clusters == 1
    assert model.evidence_.strength == "none"
    assert model.n_clusters_ == 1


@pytest.mark.parametrize(("k", "d", "n"), [(2, 2, 100), (5, 20, 150), (20, 5, 1000), (7, 300, 500)])
def test_mixtures(k, d, n):
    X, truth = mixture(k, d, n, seed=3)
    model = DPMeans(random_state=0).fit(X)
    assert model.n_clusters_ == k
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    labels = penalties.path(X, random_state=0).labels_at(model.penalty_)
    assert adjusted_rand_score(truth, labels) > 0.95


def test_the_staircase_is_consistent():
    path = penalties.path(mixture(6, 2, 800, seed=0)[0], random_state=0)
    assert np.all(np.diff(path.n_clusters) > 0)
    assert np.all(np.diff(path.objective) < 0)
    np.testing.assert_array_equal(path.penalty_low[:-1], path.penalty_high[1:])
    assert np.isinf(path.penalty_high[0])
    assert path.penalty_low[-1] == 0
    for i in range(len(path.n_clusters) - 1):  # best at its own middle, among all steps
        penalty = np.sqrt(path.penalty_low[i] * min(path.penalty_high[i], path.objective[0]))
        assert np.argmin(path.objective + penalty * path.n_clusters) == i
        assert len(np.unique(path.labels_at(penalty))) == path.n_clusters[i]


def test_restarted_kmeans_agrees_at_the_penalty():
    X = mixture(9, 2, 900, seed=1)[0]
    penalty = penalties.path(X, random_state=0).best().penalty
    J = {
        k: SklearnKMeans(k, n_init=5, random_state=0).fit(X).inertia_ + penalty * k
        for k in range(6, 13)
    }
    assert min(J, key=J.get) == 9


def test_far_rows_do_not_hide_the_structure():
    r = np.random.default_rng(0)
    X = np.r_[mixture(8, 2, 1500, seed=0)[0], r.standard_normal((5, 2)) * 1e4]
    model = DPMeans(random_state=0).fit(X)
    assert (model.n_clusters_, model.evidence_.n_clusters, model.evidence_.n_isolated) == (8, 8, 5)
    assert "5 rows are far from all others (the first is row 1500)" in model.evidence_.describe()


def test_weights():
    r = np.random.default_rng(0)
    X = mixture(5, 3, 600, seed=0)[0]
    junk = r.uniform(-100, 100, (300, 3))
    w = np.r_[np.ones(600), np.zeros(300)]
    assert penalties.path(np.r_[X, junk], sample_weight=w, random_state=0).best().n_clusters == 5
    once = penalties.path(X, random_state=0)
    twice = penalties.path(X, sample_weight=np.full(600, 2.0), random_state=0)
    np.testing.assert_allclose(twice.objective, 2 * once.objective)
    assert once.best().n_clusters == twice.best().n_clusters == 5


def test_repeatable_for_any_number_of_threads():
    X = mixture(6, 4, 800, seed=0)[0]
    one, two = (penalties.path(X, random_state=5, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.objective, two.objective)
    assert one.best() == two.best()


def test_hint_and_cap():
    X = mixture(12, 4, 2000, seed=0)[0]
    assert DPMeans(n_clusters_hint=10, random_state=0).fit(X).n_clusters_ == 12
    assert DPMeans(max_clusters=6, random_state=0).fit(X).n_clusters_ <= 6
    assert penalties.path(X, random_state=0, max_clusters=6).n_clusters.max() <= 6
    assert 2 <= penalties.path(X, random_state=0, n_clusters_hint=3).best().n_clusters <= 4


@pytest.mark.parametrize(
    ("X", "k"),
    [
        (np.zeros((1, 1)), 1),
        (np.array([[0.0], [1.0]]), 1),
        (np.array([[0.0, 0], [1, 1], [9, 9]]), 1),
        (np.ones((40, 3)), 1),
        (np.repeat([[0.0, 0], [1, 1], [9, 9]], 30, axis=0), 3),
        (np.random.default_rng(0).integers(0, 6, (500, 2)), 1),
        (np.round(np.random.default_rng(0).normal(40, 9, (800, 1))), 1),
        (np.eye(4)[np.random.default_rng(0).integers(0, 4, 200)], 4),
    ],
)
def test_degenerate(X, k):
    model = DPMeans(random_state=0).fit(X)
    assert model.n_clusters_ == k
    assert model.penalty_ > 0


def test_units_and_origin_do_not_matter():
    X = mixture(6, 3, 500, seed=0)[0]
    plain = penalties.path(X, random_state=0).best()
    moved = penalties.path(X * 1e6 + 1e9, random_state=0).best()
    assert plain.n_clusters == moved.n_clusters
    assert moved.penalty == pytest.approx(1e12 * plain.penalty, rel=1e-3)


def test_iris_has_two_or_three():
    choice = penalties.path(standardized(load_iris().data), random_state=0).best()
    assert choice.n_clusters == 2
    assert 3 in [k for k, _ in choice.runners_up[:3]]


@pytest.mark.parametrize(("name", "k"), [("medoids/ruspini", 4), ("old_faithful", 2)])
def test_real(name, k):
    X = standardized(data_file(f"{name}.csv.gz")[:, :2])
    assert DPMeans(random_state=0).fit(X).n_clusters_ == k


def test_the_model_keeps_the_path_but_not_the_rows():
    X = mixture(4, 2, 400, seed=0)[0]
    model = DPMeans(random_state=0).fit(X)
    with pytest.raises(ValueError, match="labels_at"):
        model.path_.labels_at(model.penalty_)
    with pytest.raises(ValueError, match="X has 1 columns"):
        model.path_.labels_at(model.penalty_, X[:, :1])
    assert adjusted_rand_score(model.path_.labels_at(model.penalty_, X), model.labels_) > 0.99
    assert not hasattr(DPMeans(5.0).fit(X), "evidence_")


def test_errors():
    with pytest.raises(ValueError, match="NaN"):
        penalties.path(np.array([[np.nan], [1.0]]))
    with pytest.raises(ValueError, match="max_clusters=0"):
        penalties.path(np.ones((3, 1)), max_clusters=0)
    with pytest.raises(ValueError, match="penalty=-1"):
        penalties.path(np.ones((3, 1))).labels_at(-1)
    with pytest.raises(ValueError, match="zero"):
        penalties.path(np.ones((3, 1)), sample_weight=[0, 0, 0])


def test_ward_is_that_of_scipy():
    X = np.random.default_rng(0).standard_normal((60, 3))
    left, right, height = ward_tree(X, np.ones(60), False, np.zeros(1, np.uint8))
    np.testing.assert_allclose(height, linkage(X, "ward")[:, 2] ** 2 / 2)
    group, k = merge_below(X, np.ones(60), height[40], 60, False, np.zeros(1, np.uint8))
    assert k == 20
    np.testing.assert_array_equal(group, cut_tree(left, right, 20))


def test_lower_hull():
    assert lower_hull(np.array([1, 2, 3, 4]), np.array([10.0, 8, 2, 1])).tolist() == [0, 2, 3]


def test_links_of_separate_and_of_cut_clusters():
    one = np.random.default_rng(0).standard_normal((1000, 2))
    assert score(link_strengths(one, np.ones(1000), np.array([[-0.8, 0], [0.8, 0.0]]))) < 0
    two = np.r_[one, one + np.array([8, 0])]
    assert score(link_strengths(two, np.ones(2000), np.array([[0.0, 0], [8, 0]]))) == 1


@pytest.mark.parametrize("k", [2, 3, 7, 20])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_links_are_those_of_the_reference(k, d):
    r = np.random.default_rng(k + 100 * d)
    X, w = r.standard_normal((200, d)), r.uniform(0.5, 2, 200)
    C = r.standard_normal((k, d))
    np.testing.assert_allclose(link_strengths(X, w, C), weakest_links(X, w, C), atol=1e-12)


def test_links_of_many_centres_in_few_clusters_are_those_of_the_reference():
    """Between two clusters all centres of both are hidden: who else is near is looked for."""
    r = np.random.RandomState(1)
    middle = r.uniform(0, 25, (6, 3))
    X, w = middle[r.randint(6, size=900)] + r.randn(900, 3), r.uniform(0.5, 2, 900)
    C = middle[np.arange(48) % 6] + r.randn(48, 3)
    np.testing.assert_allclose(link_strengths(X, w, C), weakest_links(X, w, C), atol=1e-12)


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = penalties.path(mixture(4, 2, 400, seed=0)[0], random_state=0).plot()
    assert "4 clusters" in ax.get_title(loc="left")
    assert ax.get_xscale() == "log"


def test_a_first_look_is_near_the_test_of_all_rows_and_never_the_answer():
    r = np.random.RandomState(0)
    centers = r.uniform(0, 40, (60, 8))
    X = centers[r.randint(60, size=20_000)] + r.standard_normal((20_000, 8))
    halves = make_halves(X, np.ones(len(X)), 600, 1, np.random.default_rng(0))
    scores, votes = score_levels(halves, 1, 300)
    assert votes == (60,)
    assert max(scores, key=lambda k: scores[k][0]) == 60
    looked_at = [k for k, (_, confirmed) in scores.items() if confirmed is None]
    assert min(looked_at) < 25 and max(looked_at) > 128
    for k in looked_at:
        full = score(add_up([half.links(k) for half in halves]))
        assert k < 128 or abs(scores[k][0] - full) < DOUBT * k  # the others have too few votes
        assert full < scores[60][0]
