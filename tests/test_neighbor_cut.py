"""NeighborCut: neighbours and valleys against plain loops, shapes, noise, new rows."""

import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from data import data_file
from reference import valleys as reference
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score as ari
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import madbayes
from madbayes import NeighborCut
from madbayes.graph import communities, levels, neighbors, planted, stages, valley_test, voting
from madbayes.graph.input import connected_part
from madbayes.graph.knn_graph import adjacency
from madbayes.graph.neighbors import Neighbours, nearest_by_distances
from madbayes.graph.valley_kernels import (
    NO_VALLEY,
    Rule,
    depth,
    merge_lowest,
    smoothing_terms,
    strands,
)
from madbayes.graph.valley_test import (
    MergeTree,
    pieces_of_graph,
    staircase,
    working_room,
)
from madbayes.graph.voting import vote


@parametrize_with_checks([NeighborCut(), NeighborCut(5, metric="cosine", resolution=0.4)])
def test_scikit_learn_conventions(estimator, check):
    """Each check of scikit-learn raises where its convention is broken."""
    check(estimator)


def brute(X, Y, k, themselves):
    D = np.sqrt(((X[:, None].astype(float) - Y[None].astype(float)) ** 2).sum(axis=2))
    if themselves:
        np.fill_diagonal(D, np.inf)
    index = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, index, 1), index


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_exact_for_any_number_of_threads(d, dtype, monkeypatch):
    monkeypatch.setattr(neighbors, "ROWS", 64)
    monkeypatch.setattr(neighbors, "COLUMNS", 100)
    X = (np.random.default_rng(0).normal(size=(300, d)) + 100).astype(dtype)
    distance, index = brute(X, X, 7, True)
    for n_jobs in (1, 2):
        near = Neighbours(X, "euclidean", n_jobs, 0, "auto")
        found = near.of_themselves(7)
        np.testing.assert_array_equal(found[1], index)
        np.testing.assert_allclose(found[0], distance, rtol=1e-5)
        np.testing.assert_array_equal(near.of(X[:10], 3)[1], brute(X[:10], X, 3, False)[1])


def test_neighbours_of_sparse_rows_and_of_directions():
    r = np.random.default_rng(1)
    X = r.poisson(0.3, size=(200, 40)).astype(float)
    X[X.sum(axis=1) == 0, 0] = 1
    dense = Neighbours(X, "euclidean", 1, 0, "auto").of_themselves(5)
    sparse = Neighbours(sp.csr_array(X), "euclidean", 1, 0, "auto").of_themselves(5)
    np.testing.assert_array_equal(dense[1], sparse[1])
    cosine = Neighbours(X, "cosine", 1, 0, "auto").of_themselves(5)[0]
    U = X / np.linalg.norm(X, axis=1)[:, None]
    expected = np.sort(1 - U @ U.T + 9 * np.eye(200), axis=1)[:, :5]
    np.testing.assert_allclose(cosine, expected, atol=1e-9)


@pytest.mark.slow  # pynndescent compiles for long
def test_approximate_neighbours_say_how_many_they_found(monkeypatch):
    pytest.importorskip("pynndescent")
    X = np.random.default_rng(0).normal(size=(600, 12))
    near = Neighbours(X, "euclidean", 1, 0, True)
    index = near.of_themselves(10)[1]
    exact = brute(X, X, 10, True)[1]
    true = np.mean([np.isin(a, b).mean() for a, b in zip(exact, index, strict=True)])
    assert true > 0.8
    monkeypatch.setattr(neighbors, "CHECKED", 600)
    assert near.recall(index) == pytest.approx(true)


def test_links_and_shared_neighbours():
    X = np.random.default_rng(2).normal(size=(60, 2))
    index = brute(X, X, 5, True)[1]
    A = adjacency(index, "jaccard").toarray()
    sets = [{*row, i} for i, row in enumerate(index.tolist())]
    for i in range(60):
        for j in range(60):
            linked = i != j and (j in sets[i] or i in sets[j])
            share = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
            assert A[i, j] == pytest.approx(share * linked)


def valley(graph, clusters, rule, a, b):
    """z between two clusters, measured alone."""
    room = working_room(graph, rule.limit)
    z, none = np.empty(1), np.empty(0, np.int64)
    state = np.array([[a, b]]), z, np.zeros(1, bool), none, none, none, none
    rest = np.empty((0, 2), np.int64), np.empty(0), none, 0, 1, 0, 0, np.zeros(1, np.uint8)
    merge_lowest(graph, clusters, rule, room, *state, *rest)
    assert (room.where == -1).all()
    return z[0]


def join(clusters, a, b):
    """The pieces of cluster b follow those of a."""
    clusters.follows[clusters.last[a]] = b
    clusters.last[a] = clusters.last[b]
    clusters.size[a] += clusters.size[b]
    clusters.cluster[clusters.cluster == b] = a


@pytest.mark.parametrize("seed", range(5))
def test_depth_is_the_plain_loop(seed):
    r = np.random.default_rng(seed)
    X = np.vstack([r.normal(size=(25, 2)), r.normal(size=(20, 2)) + np.array([seed, 0])])
    A = adjacency(brute(X, X, 6, True)[1], "jaccard")
    uneven = r.uniform(1, 2, size=A.shape)  # no two nodes are linked to the others in the same way
    A = sp.csr_array(A.multiply(uneven + uneven.T))
    A.sort_indices()
    weights = np.exp(r.normal(size=45))
    flow = sp.csr_array(A.multiply(weights[:, None]).multiply(weights[None]))
    flow.sort_indices()
    # The first cluster is two pieces; the kernel keeps the numbers of pieces, not of clusters
    piece = np.repeat([0, 2, 1], [15, 10, 20])
    graph, clusters = pieces_of_graph(A, flow.data, piece)
    join(clusters, 0, 2)
    found = valley(graph, clusters, Rule(smoothing_terms(15), 1000, 0.0, 0.9, 0.5, 0.3), 0, 1)
    # Nodes are taken from the border outwards: only ties of levels could tell
    dense = A.toarray(), flow.toarray()
    expected = reference.depth(*dense, 25, steps=15, height=0.9, spare=0.3, unit=0.5)
    assert found == pytest.approx(expected, rel=1e-6)


def test_terms_add_up_to_the_steps_of_a_lazy_walk():
    walk = np.linspace(-1, 1, 101)  # every eigenvalue that links can have
    terms = smoothing_terms(100)
    assert len(terms) < 30
    summed = np.polynomial.chebyshev.chebval(walk, terms)
    np.testing.assert_allclose(summed, ((1 + walk) / 2) ** 100, atol=1e-4)


def test_joins_are_those_of_the_plain_loop():
    """5: all pairs looked at in each step, those that have grown measured when they are next."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    A = adjacency(NearestNeighbors(n_neighbors=8).fit(X).kneighbors()[1], "uniform")
    piece = np.unique(np.round(X), axis=0, return_inverse=True)[1].ravel()
    graph, clusters = pieces_of_graph(A, A.data, piece)
    spare = valley_test.SPARE * A.data.mean()
    rule = Rule(valley_test.TERMS, 1000, 0.0, valley_test.HEIGHT, 4.0, spare)
    ends = piece[np.stack(A.nonzero())].T
    linked = {(a, b) for a, b in ends.tolist() if a < b}
    found = {p: (valley(graph, clusters, rule, *p), True) for p in linked}
    z, pairs = [], []
    while found:
        value, (a, b) = min((value, p) for p, (value, _) in found.items())
        if not found[a, b][1]:
            found[a, b] = valley(graph, clusters, rule, a, b), True
            continue
        z.append(value)
        pairs.append([a, b])
        join(clusters, a, b)
        del found[a, b]
        for p in [p for p in found if a in p or b in p]:
            new = tuple(sorted(a if c == b else c for c in p))
            value = found.pop(p)[0]
            found[new] = min(value, found.get(new, (np.inf,))[0]), False
    joined = valley_test.merge(A, A.data, piece, 4.0)
    assert joined.z.tolist() == z and joined.pairs.tolist() == pairs


def test_a_valley_counts_beyond_chance_or_when_it_stands_out():
    def supported(z, n):
        labels = np.arange(n) % (len(z) + 1)
        pairs = np.array([[0, i + 1] for i in range(len(z))])
        return staircase(MergeTree(labels, np.array(z), pairs), None).best().number

    # In 1000 independent places chance makes 0.7 valleys of 3.19, in 10,000 of 3.81
    assert supported([1.0, 1.3, 2.5, 2.6], 1000) == 2 + 1  # 2.5 is more than 1.7 times 1.3
    assert supported([1.0, 1.8, 3.0, 3.05], 1000) == 1
    assert supported([1.0, 2.0, 3.0, 3.6], 1000) == 2
    assert supported([1.0, 2.0, 3.0, 3.6], 10_000) == 1  # more places
    assert supported([0.1, 0.9, 2.1], 1000) == 1  # shallow, whatever came before


def test_numbers_of_neighbours_vote():
    def path(number):
        z = np.r_[np.full(8 - number, 0.5), np.full(number - 1, 5.0)]
        return staircase(
            MergeTree(np.arange(1000) % 8, z, np.array([[0, i + 1] for i in range(7)])), None
        )

    def decide(**found):
        paths = {int(k[1:]): path(number) for k, number in found.items()}
        k, chosen = vote(paths, (10, 20, 30))
        return k, chosen.best().number, chosen.best().strength, chosen.best().remarks

    k, number, strength, remarks = decide(k10=3, k20=3, k30=3)
    assert (k, number, remarks) == (20, 3, ()) and strength != "weak"
    k, number, strength, remarks = decide(k10=3, k20=3, k30=2)
    assert (k, number, strength) == (20, 3, "weak")
    assert remarks == ("The number depends on the neighbours that count: it would be 2 with 30",)
    k, number, strength, remarks = decide(k10=4, k20=2, k30=3)
    assert (k, number, strength) == (30, 3, "weak")
    assert "4 with 10 and 2 with 20" in remarks[0]
    assert decide(k10=2, k20=3, k30=2)[:3] == (10, 2, "weak")
    assert decide(k10=1, k20=3, k30=1)[:3] == (10, 1, "none")
    k, few = vote({10: path(4), 14: path(2)}, (10, 14, 14))  # few rows: 20 and 30 are the same
    assert (k, few.best().number) == (14, 2)


def test_voters_ascend_and_the_number_asked_for_is_in_the_middle():
    assert voting.voters(1) == (1, 1, 2)
    assert [voting.voters(k) for k in (2, 9, 15, 60)] == [
        (2, 2, 4),
        (6, 9, 18),
        (10, 15, 30),
        (40, 60, 120),
    ]


def test_the_last_number_of_neighbours_is_asked_where_the_others_find_clusters(monkeypatch):
    asked, merge_pieces = [], voting.merge_pieces

    def count(linked, *rest):
        asked.append(linked.nearest.shape[1])
        return merge_pieces(linked, *rest)

    monkeypatch.setattr(voting, "merge_pieces", count)
    X = np.random.default_rng(0).normal(size=(2000, 2))
    assert NeighborCut(n_jobs=1).fit(X).n_clusters_ == 1
    assert asked == [10, 15]
    asked.clear()
    X[1000:] += 8
    assert NeighborCut(n_jobs=1).fit(X).n_clusters_ == 2
    assert asked == [10, 15, 30]


def test_asked_neighbours_seeds_and_order_of_the_rows_do_not_matter():
    """Two groups with as many rows between them as leave a doubt: numbers of neighbours differ."""
    r = np.random.default_rng(0)
    turn = np.sqrt(r.uniform(0.05, 1, 300)) * 3 * np.pi
    arm = np.c_[turn * np.cos(turn), turn * np.sin(turn)] + 0.35 * r.normal(size=(300, 2))
    X = np.vstack([arm, -arm + 0.3 * r.normal(size=(300, 2))])
    model = NeighborCut(random_state=0).fit(X)
    assert "neighbours that count" in model.evidence_.remarks[0]
    assert model.evidence_.strength in ("weak", "none")
    assert model.n_clusters_ == model.evidence_.n_clusters
    for k, seed in ((10, 1), (30, 2), (15, 3)):
        other = NeighborCut(k, random_state=seed).fit(X)
        np.testing.assert_array_equal(other.labels_, model.labels_)
    order = r.permutation(600)
    turned = NeighborCut(random_state=4).fit(X[order])
    assert ari(turned.labels_, model.labels_[order]) > 0.99


def test_a_star_is_crossed_in_as_many_strands_as_it_has_arms():
    """Four arms of ten nodes, each linked to the next two: the level between two rounds."""
    arms = [4 * np.arange(10) + arm for arm in range(4)]
    A = np.zeros((40, 40))
    for arm in arms:
        for step in (1, 2):
            A[arm[:-step], arm[step:]] = A[arm[step:], arm[:-step]] = 1.0
    room = np.empty(40, np.int64), np.empty(40)

    def crossing(A):
        G = sp.csr_array(A)
        return strands(G.indptr, G.indices, G.data, np.arange(40), 19, *room)

    assert crossing(A) == pytest.approx(4)
    A[19, 20:23] = A[20:23, 19] = 1.0  # links that cross, from the last arm to the first three
    assert crossing(A) == pytest.approx(1)


@pytest.mark.parametrize("step", [0.25, 1.0])
def test_a_rounded_table_is_not_cut_along_its_grid(step):
    r = np.random.default_rng(0)
    y = r.integers(0, 3, 2000)
    noise = r.normal(size=(2000, 2))
    X = np.round((np.array([[0, 0], [7, 0], [0, 7]])[y] + noise) / step) * step
    model = NeighborCut(random_state=0).fit(X)
    assert ari(y, model.labels_) > 0.98
    _, cell = np.unique(X, axis=0, return_inverse=True)
    pairs = np.unique(np.c_[cell.ravel(), model.labels_], axis=0)
    assert len(pairs) == cell.max() + 1  # equal rows are in one cluster
    assert NeighborCut(random_state=0).fit(np.round(noise / step) * step).n_clusters_ == 1
    kinds = NeighborCut(random_state=0).fit(np.c_[noise[:, 0], 9.0 * (y > 0)])  # not rounded
    assert kinds.n_clusters_ == 2


def test_a_side_that_nothing_crosses_is_no_valley():
    """It was a division by zero, on 30,000 overlapping rows of 30 columns."""
    assert depth(0.0, 0.0, 0.0, unit=7.5, spare=0.5) == NO_VALLEY


def test_few_links_left_of_few_count_as_the_rows_that_are_missing():
    """A filament's side has a few dozen links: none left in the middle is no chance, a fifth is."""
    none, fifth = (depth(middle, 30.0, 30.0, unit=7.5, spare=0.5) for middle in (0.0, 6.0))
    assert none > 3.3 and fifth < 2


def test_few_rows_look_at_few_neighbours():
    """Two crescents of 100 rows: 30 neighbours lie beyond the gap, and the cut leaves them out."""
    X, y = make_moons(200, noise=0.05, random_state=1)
    asked = [NeighborCut(k, random_state=0).fit(X) for k in (10, 15, 30)]
    for model in asked:
        np.testing.assert_array_equal(model.labels_, asked[0].labels_)
    assert ari(y, asked[0].labels_) > 0.99
    assert asked[2].graph_.nnz > 2 * asked[0].graph_.nnz  # the graph is what was asked for


def shapes():
    r = np.random.default_rng(0)
    t = r.uniform(0, 2 * np.pi, (2, 400))
    rings = (
        np.c_[np.cos(t[0]), np.sin(t[0]), 0 * t[0]],
        np.c_[1 + np.cos(t[1]), 0 * t[1], np.sin(t[1])],
    )
    yield "linked rings", np.vstack(rings) + 0.1 * r.normal(size=(800, 3)), np.repeat([0, 1], 400)
    yield "crescents", *make_moons(600, noise=0.06, random_state=0)
    yield "few rows", *make_moons(400, noise=0.05, random_state=1)
    yield "more crescents", *make_moons(1000, noise=0.05, random_state=0)
    yield "circles", *make_circles(800, noise=0.04, factor=0.5, random_state=0)
    yield "blobs", *make_blobs(600, centers=6, n_features=10, cluster_std=1.5, random_state=1)


@pytest.mark.parametrize(
    "name, X, y", list(shapes()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_shapes(name, X, y):
    for k in (10, 15, 30):
        model = NeighborCut(k, random_state=0).fit(X)
        assert ari(y, model.labels_) > 0.99, k
        assert model.n_clusters_ == model.evidence_.n_clusters == len(np.unique(y))
        assert model.evidence_.strength != "none"


@pytest.mark.parametrize("d", [2, 3, 10, 50])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_noise_is_one_cluster(kind, d):
    X = getattr(np.random.default_rng(d), kind)(size=(500, d))
    model = NeighborCut(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert model.evidence_.strength == "none"


def test_a_ring_and_a_filament_are_not_cut():
    r = np.random.default_rng(0)
    t = r.uniform(0, 1, 800)
    ring = np.c_[np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)] + 0.05 * r.normal(size=(800, 2))
    line = np.c_[10 * t, np.sin(9 * t)] + 0.05 * r.normal(size=(800, 2))
    for X in (ring, line):
        assert NeighborCut(random_state=0).fit(X).n_clusters_ == 1


def test_what_a_fit_leaves():
    X, _ = make_moons(300, noise=0.05, random_state=0)
    model = NeighborCut(random_state=0).fit(X)
    A, z = model.graph_.toarray(), model.labels_
    for c in (0, 1):
        inside = z == c
        leaves = A[inside][:, ~inside].sum() / A[inside].sum()
        assert model.conductance_[c] == pytest.approx(leaves)
    same = z[:, None] == z[None]
    np.testing.assert_allclose(model.membership_, (A * same).sum(axis=1) / A.sum(axis=1))
    assert model.objective_ == pytest.approx(
        model.conductance_.sum() - model.resolution_ * model.n_clusters_
    )
    far = np.vstack([X, [[3.0, 3.0]]])
    scores = NeighborCut(random_state=0).fit(far).outlier_score_
    assert scores[300] == pytest.approx(scores.max())
    assert scores.min() >= 0 and scores.max() <= 1
    path = model.path_
    assert path.best() == model.evidence_
    assert path.number[0] == 1 and 2 in path.number
    assert ari(path.labels_at(model.evidence_.price), z) > 0.98
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.labels_)


def test_the_path_keeps_one_number_for_each_row(tmp_path):
    group = np.arange(2000) % 25
    X = np.random.default_rng(0).normal(size=(2000, 2)) + 5 * np.c_[group % 5, group // 5]
    model = NeighborCut(n_jobs=1).fit(X)
    assert len(model.path_.labels) > 15
    held = [model.path_.labels.parts, *model.path_.labels.groups]
    assert sum(array.nbytes for array in held) < 8 * 4 * len(X)
    for step, number in enumerate(model.path_.number):
        assert len(np.unique(model.path_.labels[step])) == number
    model.save(tmp_path / "model")
    again = madbayes.load(tmp_path / "model").path_
    np.testing.assert_array_equal(again.labels[3], model.path_.labels[3])
    wrong = dataclasses.replace(model.path_.labels, parts=model.path_.labels.parts + 1000)
    model.path_ = dataclasses.replace(model.path_, labels=wrong)
    with pytest.raises(ValueError, match="parts"):
        model.save(tmp_path / "model")


def test_a_hint_or_a_resolution_decides():
    X, _ = make_moons(300, noise=0.05, random_state=0)
    model = NeighborCut(random_state=0, n_clusters_hint=5).fit(X)
    assert model.n_clusters_ == model.evidence_.n_clusters == 5
    assert "support 2" in model.evidence_.describe()
    model.set_params(n_clusters_hint=None, resolution=0.3).fit(X)
    assert model.n_clusters_ > 5 and not hasattr(model, "evidence_")
    with pytest.raises(ValueError, match=r"n_clusters_hint=2 would be ignored.*0\.3"):
        model.set_params(n_clusters_hint=2).fit(X)


def test_new_rows():
    X, _ = make_moons(600, noise=0.06, random_state=0)
    fresh, y = make_moons(2000, noise=0.06, random_state=1)
    model = NeighborCut(random_state=0).fit(X)
    assert ari(y, model.predict(fresh)) > 0.99
    assert model.predict([[9.0, 9.0], [0.0, 1.0]], novel=True).tolist()[0] == -1
    for rate in (0.01, 0.1):
        assert 0.4 * rate < np.mean(model.predict(fresh, novel=rate) == -1) < 1.7 * rate
    scores = model.novelty_score(fresh)
    np.testing.assert_array_equal(scores <= 0.1, model.predict(fresh, novel=0.1) == -1)
    with pytest.raises(ValueError, match="novel='paper'"):
        model.predict(fresh, novel="paper")


def test_distances_graphs_and_formats_give_the_same():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] + 1e-3 * np.random.default_rng(0).random((600, 64)), y[:600]  # no ties
    labels = NeighborCut(random_state=0).fit(X).labels_
    assert ari(y, labels) > 0.3
    for other in (
        NeighborCut(random_state=0).fit(sp.csr_array(X)),
        NeighborCut(random_state=0, n_jobs=2).fit(X),
        NeighborCut(random_state=0).fit(X.astype(np.float32)),
    ):
        np.testing.assert_array_equal(other.labels_, labels)
    X = X @ np.linalg.svd(X, full_matrices=False)[2][:10].T  # few enough for no second look
    labels = NeighborCut(random_state=0).fit(X).labels_
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    given = NeighborCut(metric="precomputed", random_state=0)
    assert ari(given.fit(D).labels_, labels) > 0.95
    assert ari(given.predict(D), labels) > 0.95
    steps = make_pipeline(KNeighborsTransformer(n_neighbors=15), given).fit(X)
    assert ari(steps.predict(X), labels) > 0.95
    graph = NeighborCut(random_state=0).fit(X).graph_
    model = NeighborCut(metric="connectivities", random_state=0).fit(graph)
    assert model.labels_.shape == (600,)
    with pytest.raises(ValueError, match="knows no distances"):
        model.predict(graph, novel=True)


@pytest.mark.parametrize("X", [np.zeros((1, 2)), np.zeros((30, 2)), np.arange(4.0)[:, None]])
def test_few_and_equal_rows(X):
    model = NeighborCut(random_state=0).fit(X)
    assert model.n_clusters_ == 1 and (model.labels_ == 0).all()


def test_isolated_rows_of_a_graph_are_clusters_of_their_own():
    A = np.kron(np.eye(2), np.ones((5, 5)) - np.eye(5))
    A = np.pad(A, (0, 1))
    model = NeighborCut(metric="connectivities", random_state=0).fit(A)
    assert model.labels_.tolist() == [0] * 5 + [1] * 5 + [2]


@pytest.mark.parametrize(
    "parameters, says",
    [
        ({"n_neighbors": 0}, "n_neighbors=0 must be >= 1"),
        ({"weights": "near"}, "weights='near' must be one of 'uniform', 'jaccard'"),
        ({"resolution": -1}, "resolution=-1 must be"),
        ({"metric": "precomputed"}, "metric='precomputed' needs the distances"),
        ({"approximate": True}, "approximate=True needs pynndescent"),
    ],
)
def test_bad_parameters(parameters, says):
    with pytest.raises(ValueError, match=says):
        NeighborCut(**parameters).fit(np.random.default_rng(0).normal(size=(20, 2)))


def test_a_row_without_neighbours_is_named():
    with pytest.raises(ValueError, match="row 1 of the precomputed distances has no neighbour"):
        nearest_by_distances(
            sp.csr_array(([1.0, 1.0], ([0, 2], [1, 0])), shape=(3, 3)), 2, themselves=True
        )


def test_digits():
    X, y = load_digits(return_X_y=True)
    for k in (10, 15):
        model = NeighborCut(k, random_state=0).fit(X)
        assert ari(y, model.labels_) > 0.7
        assert 9 <= model.n_clusters_ <= 11


@pytest.mark.parametrize("name, number", [("stripes", 2), ("zigzag_noisy", 3), ("ring_noisy", 2)])
def test_long_shapes_are_not_cut_at_gaps_of_the_sample(name, number):
    X = data_file(f"shapes_any/{name}.csv.gz")
    assert NeighborCut(random_state=0).fit(X).n_clusters_ == number


def test_real_shapes():
    model = NeighborCut(random_state=0).fit(data_file("shapes/d31.csv.gz"))
    assert 29 <= model.n_clusters_ <= 33


def overlapping(n=1200, d=40, k=8, gap=0.5):
    """Groups in many columns that run into each other: no valley is between them."""
    r = np.random.default_rng(4)
    y = r.integers(0, k, n)
    return gap * r.normal(size=(k, d))[y] + r.normal(size=(n, d)), y


def test_groups_of_many_columns_need_no_valley():
    X, y = overlapping()
    model = NeighborCut().fit(X)
    assert ari(y, model.labels_) > 0.6
    evidence = model.evidence_
    assert evidence.strength == "weak"
    assert "links stay within the clusters" in evidence.reason
    assert evidence.remarks == ("By valleys alone the number would be 1",)
    assert model.path_.best().n_clusters == model.n_clusters_ == len(np.unique(model.labels_))
    assert model.path_.number[-1] == model.n_clusters_
    for other in (NeighborCut(weights="jaccard").fit(X), NeighborCut(metric="cosine").fit(X)):
        assert ari(y, other.labels_) > 0.5
    assert NeighborCut(n_clusters_hint=1).fit(X).n_clusters_ == 1
    D = np.sqrt(np.maximum(((X[:, None] - X[None]) ** 2).sum(axis=2), 0))
    for given in (
        NeighborCut(metric="precomputed").fit(D),
        NeighborCut(metric="connectivities").fit(model.graph_),
    ):
        assert ari(y, given.labels_) > 0.5
        assert given.evidence_.strength == "weak"
        assert "without a tenth of the links" in given.evidence_.reason


def test_a_second_look_depends_on_no_order_seed_or_format(monkeypatch):
    monkeypatch.setattr(communities, "ROWS", 900)
    X, _ = overlapping()
    labels = NeighborCut(random_state=0, n_jobs=1).fit(X).labels_
    order = np.random.default_rng(5).permutation(len(X))
    other = NeighborCut(20, random_state=7, n_jobs=2).fit(X[order])
    np.testing.assert_array_equal(other.labels_, labels[order])
    np.testing.assert_array_equal(NeighborCut().fit(sp.csr_array(X)).labels_, labels)


def test_rows_of_length_1_are_the_same_by_both_metrics_and_in_any_order():
    X, _ = overlapping(900, 40, 8, 0.45)
    X /= np.linalg.norm(X, axis=1)[:, None]
    model = NeighborCut().fit(X)
    assert model.n_clusters_ > 1 and model.evidence_.strength == "weak"
    order = np.random.default_rng(0).permutation(len(X))
    for other, back in (
        (NeighborCut(metric="cosine").fit(X), slice(None)),
        (NeighborCut(metric="cosine").fit(X[order]), np.argsort(order)),
        (NeighborCut().fit(X[order]), np.argsort(order)),
    ):
        assert ari(other.labels_[back], model.labels_) == 1.0
        assert other.evidence_.reason == model.evidence_.reason
        assert other.evidence_.remarks == model.evidence_.remarks
        assert other.evidence_.stability == model.evidence_.stability
        assert ari(other.path_.labels[-1][back], model.path_.labels[-1]) == 1.0


def test_a_rounded_table_gives_the_same_clusters_in_any_order():
    r = np.random.default_rng(0)
    X = (r.normal(size=(1500, 2)) + 7 * np.c_[r.integers(0, 3, 1500), np.zeros(1500)]).round(0)
    order = r.permutation(len(X))
    labels = NeighborCut().fit(X).labels_
    assert ari(NeighborCut().fit(X[order]).labels_, labels[order]) == 1.0


@pytest.mark.parametrize("columns", [2, 5, 20])
def test_given_graphs_of_noise_are_whole(columns):
    X = np.random.default_rng(2).normal(size=(1200, columns))
    A = adjacency(Neighbours(X, "euclidean", 1, 0, "auto").of_themselves(15)[1], "uniform")
    assert NeighborCut(metric="connectivities").fit(A).n_clusters_ == 1


def test_the_graph_asked_for_is_one_of_those_tried(monkeypatch):
    made = []
    link = voting.knn_graph
    monkeypatch.setattr(
        voting, "knn_graph", lambda *given: made.append(given[0].shape[1]) or link(*given)
    )
    NeighborCut().fit(make_moons(1000, noise=0.05, random_state=0)[0])
    assert sorted(made) == [10, 22]  # 15 is there; 0.7 √1000 is 22


def test_a_few_rows_far_off_do_not_hide_the_groups_of_the_others():
    X, y = overlapping()
    X[:150], y[:150] = X[:150] + 30, 8
    model = NeighborCut().fit(X)
    assert ari(y, model.labels_) > 0.6
    assert len(np.unique(model.labels_[:150])) == 1


def noise_of_many_columns():
    r = np.random.default_rng(6)
    n, d = 1000, 30
    normal, falling = r.normal(size=(n, d)), np.arange(1, d + 1) ** -0.7
    length = np.linalg.norm(normal, axis=1)[:, None]
    yield "covariance", "euclidean", normal @ r.normal(size=(d, d))
    yield "skewed", "euclidean", np.exp(0.8 * r.normal(size=(3000, d)))
    yield "ball", "euclidean", normal / length * r.uniform(size=(n, 1)) ** (1 / d)
    yield "tails", "euclidean", normal * falling / np.sqrt(r.chisquare(4, size=(n, 1)))
    yield "directions", "cosine", normal * falling + np.eye(d)[0]
    yield "very many", "euclidean", r.normal(size=(400, 300))
    t = r.uniform(size=n)
    bent = np.column_stack([10 * np.cos(j * np.pi * t + j) for j in range(1, 5)])
    yield "bent curve", "euclidean", np.c_[bent, np.zeros((n, d - 4))] + 0.5 * normal


@pytest.mark.parametrize("name, metric, X", list(noise_of_many_columns()))
def test_noise_of_many_columns_is_one_cluster(name, metric, X):
    model = NeighborCut(metric=metric).fit(X)
    assert model.n_clusters_ == 1
    assert model.evidence_.strength == "none"


@pytest.mark.parametrize("dense", [False, True])
def test_sparse_noise_of_very_many_columns_is_one_cluster(dense):
    """Its leading axes are not independent, as its columns are."""
    X = sp.random(1500, 300, 0.05, format="csr", random_state=1)
    model = NeighborCut(metric="cosine").fit(X.toarray() if dense else X)
    assert model.n_clusters_ == 1


def test_references_keep_what_is_not_clusters():
    X, _ = overlapping(300, 12)
    X[:, 3] = X[:, 2]  # an axis without any variance
    scores, columns, normal = communities.references(X, np.random.RandomState(0))
    np.testing.assert_allclose(np.sort(columns, axis=0), np.sort(X, axis=0))
    assert abs(np.corrcoef(columns[:, 2], columns[:, 3])[0, 1]) < 0.3
    for other in (scores, normal):
        np.testing.assert_allclose(other[:, 3], other[:, 2], atol=1e-9)
        np.testing.assert_allclose(other.mean(axis=0), X.mean(axis=0), atol=0.3)
    inverse = np.linalg.pinv(np.cov(X.T, bias=True))
    center = X.mean(axis=0)
    one, other = (np.einsum("ij,jk,ik->i", Z - center, inverse, Z - center) for Z in (normal, X))
    np.testing.assert_allclose(one, other, rtol=1e-6)
    equal = np.ones((200, 12))
    assert [Z.tolist() for Z in communities.references(equal, None)] == [equal.tolist()]
    assert NeighborCut().fit(equal).n_clusters_ == 1


def test_no_move_of_a_node_raises_the_modularity():
    X, _ = overlapping(150, 12, 4)
    index = brute(X, X, 8, True)[1]
    A = adjacency(index, "uniform")
    value, labels = communities.communities(A)

    def plain(z):
        degree = A.sum(axis=1)
        same = z[:, None] == z
        return ((A.toarray() - np.outer(degree, degree) / degree.sum()) * same).sum() / A.sum()

    assert value == pytest.approx(plain(labels))
    linked = A.toarray() > 0
    for i in range(150):
        for c in np.unique(labels[linked[i]]):
            other = labels.copy()
            other[i] = c
            assert plain(other) <= value + 1e-9
    graph = connected_part(A, "normalized")[0]
    single = planted.raise_modularity(graph, levels.single(graph), 1.0)[0].labels
    assert plain(single) < value  # clusters move too


@pytest.mark.parametrize("seed", [5, 21])
def test_the_two_ends_of_an_arc_count_as_two_places_of_a_ring(seed):
    r = np.random.default_rng(seed)
    angle, radius = r.uniform(0, 2 * np.pi, 700), 1 + 0.15 * r.normal(size=700)
    X = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
    assert NeighborCut().fit(X).n_clusters_ == 1


@pytest.fixture
def few_are_many(monkeypatch):
    """Clusters of more than 900 rows are looked at by samples of 600."""
    monkeypatch.setattr(voting, "MANY", 900)
    monkeypatch.setattr(stages, "MANY", 900)
    monkeypatch.setattr(voting, "SAMPLE", 600)


def test_a_wide_valley_shows_in_samples_of_many_rows(monkeypatch):
    X, y = make_blobs([6000, 6000], centers=[[0, 0], [4, 0]], random_state=0)
    model = NeighborCut().fit(X)
    assert model.n_clusters_ == 2 and ari(y, model.labels_) > 0.85
    assert model.evidence_.number == 2 and model.evidence_.strength != "none"
    monkeypatch.setattr(voting, "cut_samples", lambda *given: (None, True))
    assert NeighborCut().fit(X).n_clusters_ == 1  # all rows alone do not show it


def test_small_clusters_show_in_all_rows_and_noise_is_whole():
    r = np.random.default_rng(0)
    noise = r.normal(size=(8_000, 2))
    assert NeighborCut().fit(noise).n_clusters_ == 1
    X = np.r_[noise, r.normal([8, 0], 0.1, size=(40, 2))]
    model = NeighborCut().fit(X)
    assert np.bincount(model.labels_).tolist() == [8_000, 40]


def test_order_neighbours_and_format_do_not_matter_for_samples(few_are_many):
    X, y = make_moons(2400, noise=0.12, random_state=3)
    model = NeighborCut().fit(X)
    assert model.n_clusters_ == 2 and ari(y, model.labels_) > 0.9
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(
        NeighborCut(random_state=1).fit(X[order]).labels_, model.labels_[order]
    )
    for k in (10, 30):
        np.testing.assert_array_equal(NeighborCut(k, n_jobs=2).fit(X).labels_, model.labels_)
    D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    np.testing.assert_array_equal(NeighborCut(metric="precomputed").fit(D).labels_, model.labels_)


def test_samples_that_disagree_weaken_the_evidence(few_are_many, monkeypatch):
    X, _ = make_moons(2400, noise=0.12, random_state=3)
    assert not NeighborCut().fit(X).evidence_.remarks
    look = voting.cut_samples
    monkeypatch.setattr(voting, "cut_samples", lambda *given: (look(*given)[0], False))
    choice = NeighborCut().fit(X).evidence_
    assert choice.number == 2 and choice.strength == "weak" and "Samples" in choice.remarks[0]


def test_rows_outside_of_a_sample_follow_their_links():
    labels = np.array([0, -1, -1, 5, -1, 4, -1])
    nearest = np.array([[1], [0], [1], [4], [5], [4], [6]])  # 5 is elsewhere, 6 links to itself
    voting.label_the_rest(labels, np.array([0, 1, 2, 4, 5, 6]), nearest, np.array([0, 4]))
    assert labels.tolist() == [0, 0, 0, 5, 4, 4, 0]


def test_joins_of_several_looks_are_one_tree():
    labels = np.arange(5)
    fine = MergeTree(labels, np.array([4.0, 6.0]), np.array([[0, 1], [1, 2]]))
    look = MergeTree(labels, np.array([5.0, 4.5]), np.array([[1, 3], [3, 4]]))  # 1 was divided
    tree = voting.combined(labels, [fine, look])
    assert tree.z.tolist() == [4.0, 5.0, 5.0, 6.0]  # 4.5 comes after the 5
    for number, expected in ((4, [0, 0, 1, 2, 3]), (2, [0, 0, 1, 0, 0]), (1, [0] * 5)):
        assert tree.labels_at(number).tolist() == expected


def test_a_long_boundary_of_few_layers_has_no_valley():
    X = np.random.default_rng(0).uniform(size=(3_000, 2)) * [30, 1]
    _, place = Neighbours(X, "euclidean", 1, 0, "auto").of_themselves(15)
    A = adjacency(place, "uniform")
    side = (X[:, 1] > 0.5).astype(np.int32)  # along the strip: every row is near the boundary
    given = pieces_of_graph(A, A.data, side)
    for layers, there in ((0.0, True), (50.0, False)):
        rule = Rule(valley_test.TERMS, 1000, layers, valley_test.HEIGHT, 7.5, 1.0)
        assert (valley(*given, rule, 0, 1) > NO_VALLEY) == there


HUGE = {
    "all rows": lambda X: X * 1e160,
    "one cell": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 7, 1e200, X),
}


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("how", HUGE)
def test_rows_too_large_to_square_are_refused(how, kind, columns):
    """Such rows have no neighbours at finite distances; the kernels would leave their arrays."""
    X = np.random.default_rng(0).normal(size=(50, columns))
    huge = kind(HUGE[how](X))
    for options in ({}, {"metric": "manhattan"}, {"resolution": 0.3}, {"n_clusters_hint": 2}):
        with pytest.raises(ValueError, match=r"^X spreads over .* overflow float64"):
            NeighborCut(**options).fit(huge)
    model = NeighborCut(random_state=0).fit(kind(X))
    far = kind(np.full((1, columns), 1e200))
    for ask in (model.predict, model.novelty_score):
        with pytest.raises(ValueError, match="overflow float64"):
            ask(far)
    with pytest.raises(ValueError, match="underflow float64"):
        NeighborCut().fit(kind(X * 1e-160))


@pytest.mark.parametrize("columns", [3, 20])
def test_directions_have_no_size(columns):
    X = np.random.default_rng(0).normal(size=(60, columns)) + 3 * np.eye(columns)[np.arange(60) % 2]
    plain = NeighborCut(metric="cosine").fit(X)
    for scale in (2.0**500, 2.0**-500):
        scaled = NeighborCut(metric="cosine").fit(X * scale)
        np.testing.assert_array_equal(scaled.labels_, plain.labels_)
        np.testing.assert_array_equal(scaled.predict(X * scale), plain.predict(X))


@pytest.mark.parametrize("scale", [1e-20, 1e20, 1e30])
def test_float32_products_that_overflow(scale):
    X = np.random.default_rng(0).normal(size=(200, 20)) + 9 * (np.arange(200) % 2)[:, None]
    plain = NeighborCut().fit(X)
    single = NeighborCut().fit((X * scale).astype(np.float32))
    np.testing.assert_array_equal(single.labels_, plain.labels_)
    new = (X[:20] * scale).astype(np.float32)
    np.testing.assert_array_equal(single.predict(new), plain.labels_[:20])
    near = NeighborCut().fit(X.astype(np.float32))
    assert np.isfinite(near.novelty_score(new)).all()


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_new_rows_may_be_sparse_where_those_of_the_fit_are_dense_and_the_other_way(metric, columns):
    X = np.random.default_rng(0).normal(size=(90, columns))
    given = NeighborCut(metric=metric).fit(X)
    np.testing.assert_array_equal(given.predict(sp.csr_array(X)), given.predict(X))
    sparse = NeighborCut(metric=metric).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.predict(X), sparse.predict(sp.csr_array(X)))


@pytest.mark.parametrize("options", [{}, {"resolution": 0.3}, {"n_clusters_hint": 1}])
def test_one_row_is_one_cluster(options):
    assert NeighborCut(**options).fit(sp.csr_array([[1.0, 2.0]])).labels_.tolist() == [0]
    model = NeighborCut(**options).fit([[1.0, 2.0]])
    assert model.labels_.tolist() == [0]
    assert model.n_clusters_ == 1
    assert model.objective_ == model.conductance_.sum() - model.resolution_
    assert model.predict([[1.0, 2.0]]).tolist() == [0]
    assert np.isfinite(model.novelty_score([[1.0, 2.0], [5.0, 5.0]])).all()
