"""GraphCut and its path: against plain loops, brute force and graphs with known communities."""

import csv
import gzip
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import graph_cut as reference
from reference import planted as reference_planted
from reference.partitions import all_partitions
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.neighbors import kneighbors_graph

from madbayes import GraphCut, cli, load, penalties
from madbayes.graph import held_out, levels
from madbayes.graph import input as graph_input
from madbayes.graph import planted as planted_partition
from madbayes.graph import search as graph_search
from madbayes.graph.cut_kernels import count_nodes, settle
from madbayes.graph.fringe import core_of
from madbayes.graph.input import check_graph, connected_part
from madbayes.graph.kernel_cut import kernel_dp_means, least_sigma, objective, to_lambda
from madbayes.graph.levels import Pieces, common, contracted, reordered
from madbayes.graph.planted import descend, polished, raise_modularity
from madbayes.graph.search import combine, lower_cut, measure, one_run

CUTS = pytest.mark.parametrize("cut", ["normalized", "ratio"])


def random_graph(n, p, seed, *, weighted=False, loops=False):
    """A dense adjacency in which every node has an edge."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < p, 1).astype(float)
    for i in range(n - 1):
        if not A[i].any() and not A[:, i].any():
            A[i, n - 1] = 1
    if not A[:, n - 1].any():
        A[0, n - 1] = 1
    if weighted:
        A *= rng.uniform(0.1, 3, A.shape)
    A = A + A.T
    if loops:
        A += np.diag(rng.uniform(0, 2, n) * (rng.random(n) < 0.5))
    return A


def planted(n, k, degree, mixing, seed=0):
    """(CSR, labels): k communities of equal size; the share `mixing` of the edges goes anywhere."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % k)
    members = np.argsort(labels, kind="stable").reshape(k, -1)
    u = rng.integers(0, n, n * degree // 2)
    v = members[labels[u], rng.integers(0, n // k, u.size)]
    anywhere = rng.random(u.size) < mixing
    v[anywhere] = rng.integers(0, n, anywhere.sum())
    A = sp.coo_array((np.ones(u.size), (u, v)), shape=(n, n)).tocsr()
    A = ((A + A.T) > 0).astype(float).tolil()
    A.setdiag(0)
    return sp.csr_array(A), labels


def ring_of_cliques(k, size):
    A = np.kron(np.eye(k), np.ones((size, size)) - np.eye(size))
    ends = np.arange(0, k * size, size)
    A[ends, ends - 1] = A[ends - 1, ends] = 1
    return A, np.repeat(np.arange(k), size)


def units(A, cut):
    """Resolutions are compared with this."""
    return 1.0 if cut == "normalized" else A.sum() / len(A)


def same(a, b):
    return nmi(a, b) > 1 - 1e-9 and len(np.unique(a)) == len(np.unique(b))


# The objective


@CUTS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_fitted_numbers_agree_with_the_formula(cut, weighted, loops):
    A = random_graph(12, 0.3, 3, weighted=weighted, loops=loops)
    theta = 0.6 * units(A, cut)
    model = GraphCut(theta, cut=cut, random_state=0).fit(A)
    expected = reference.objective(A, model.labels_, theta, cut)
    assert model.objective_ == pytest.approx(expected)
    assert objective(A, model.labels_, theta, cut) == pytest.approx(expected)
    assert model.cut_ - theta * model.n_clusters_ == pytest.approx(expected)
    w = reference.node_weights(A, cut)
    for c in range(model.n_clusters_):
        inside = model.labels_ == c
        assert model.conductance_[c] == pytest.approx(
            A[inside][:, ~inside].sum() / w[inside].sum(), abs=1e-12
        )
    sizes = [w[model.labels_ == c].sum() for c in range(model.n_clusters_)]
    assert sizes == sorted(sizes, reverse=True)
    assert model.objective_history_[-1] == model.objective_
    assert (np.diff(model.objective_history_) <= 1e-12).all()


@CUTS
@pytest.mark.parametrize("seed", range(4))
def test_theorem_5_3(cut, seed):
    """J(K, W) + λk is the penalized cut plus a constant, and K is positive semi-definite."""
    A = random_graph(7, 0.4, seed, weighted=seed > 1, loops=seed % 2 == 1)
    sigma = least_sigma(connected_part(check_graph(A), cut)[0], cut)
    K, w = reference.kernel(A, sigma, cut), reference.node_weights(A, cut)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    theta = 0.4
    penalty = to_lambda(theta, sigma, cut)
    model = GraphCut(theta, cut=cut).fit(A)
    assert (model.sigma_, model.lambda_) == (sigma, penalty)
    if cut == "normalized":
        constant = sigma * 7 + (A.diagonal() / w).sum()
    else:
        constant = sigma * 7 - (A.sum(axis=1) - A.diagonal()).sum()
    rng = np.random.default_rng(seed)
    for _ in range(5):
        labels = rng.integers(0, 3, 7)
        k = len(set(labels))
        J = reference.kernel_objective(K, w, labels)
        F = reference.objective(A, labels, theta, cut)
        assert J + penalty * k == pytest.approx(constant + F)


# The printed algorithm


@CUTS
@pytest.mark.parametrize("seed", range(12))
def test_paper_is_the_plain_loop(cut, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    A = random_graph(n, 0.35, seed, weighted=seed % 3 > 0, loops=seed % 2 == 1)
    graph, used = connected_part(check_graph(A), cut)
    assert used.size == n
    sigma = least_sigma(graph, cut)
    K, w = reference.kernel(A, sigma, cut), reference.node_weights(A, cut)
    changed = 0
    for share in (0.3, 0.8, 1.05, 1.3, 1.6):
        theta = share * units(A, cut)
        for start in (np.zeros(n, int), rng.integers(0, 4, n)):
            start = np.unique(start, return_inverse=True)[1]
            found = kernel_dp_means(graph, theta, cut, max_iter=300, start=start)
            expected = reference.dp_means(K, w, to_lambda(theta, sigma, cut), start)
            np.testing.assert_array_equal(found.division.labels, by_appearance(expected))
            assert (np.diff(found.history) <= 1e-9).all()
            assert found.converged
            changed += len(found.history) > 1
    assert changed


def by_appearance(labels):
    """Labels 0, 1, … in the order in which they appear."""
    order = list(dict.fromkeys(labels.tolist()))
    return [order.index(c) for c in labels]


def test_paper_stays_at_one_cluster_and_search_does_not():
    A, labels = ring_of_cliques(6, 5)
    for theta in (0.2, 0.5, 0.95):
        printed = GraphCut(theta, algorithm="paper").fit(A)
        assert printed.n_clusters_ == 1
        found = GraphCut(theta, random_state=0).fit(A)
        assert same(found.labels_, labels)
        assert found.objective_ < printed.objective_
    opens = GraphCut(1.5, algorithm="paper").fit(A)
    assert opens.n_clusters_ > 1
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        GraphCut(1.5, algorithm="paper", max_iter=1).fit(A)


# The search


@CUTS
def test_search_finds_the_lowest_objective_of_small_graphs(cut):
    found_lowest = tried = 0
    for seed in range(30):
        n = 4 + seed % 4
        A = random_graph(n, 0.4, seed, weighted=seed % 3 == 1, loops=seed % 5 == 2)
        for share in (0.15, 0.4, 0.7, 0.9):
            theta = share * units(A, cut)
            model = GraphCut(theta, cut=cut, random_state=seed).fit(A)
            lowest = min(objective(A, labels, theta, cut) for labels in all_partitions(n))
            assert model.objective_ >= lowest - 1e-9
            tried += 1
            found_lowest += model.objective_ <= lowest + 1e-9
    assert found_lowest >= 0.97 * tried, (found_lowest, tried)


@CUTS
@pytest.mark.parametrize("seed", range(6))
def test_search_ends_where_no_move_helps(cut, seed):
    A = random_graph(25, 0.15, seed, weighted=seed % 2 == 1, loops=seed % 3 == 1)
    graph = connected_part(check_graph(A), cut)[0]
    for share in (0.2, 0.5, 0.8, 1.2):
        theta = share * units(A, cut)
        rng = np.random.RandomState(seed)
        one, other = (one_run(graph, theta, rng, 100) for _ in range(2))
        both = combine(graph, one, other, theta, rng, 100)
        assert one.settled and other.settled and both.settled
        fitted = GraphCut(theta, cut=cut, random_state=seed).fit(A).labels_
        for labels in (one.labels, both.labels, fitted):
            here = reference.objective(A, labels, theta, cut)
            assert reference.lowest_neighbour(A, labels, theta, cut) > here - 1e-8
        assert both.objective(theta) <= min(one.objective(theta), other.objective(theta)) + 1e-12


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 20), st.floats(0.05, 1.5))
def test_properties_of_a_fit(seed, n, theta):
    A = random_graph(n, 0.3, seed, weighted=True)
    model = GraphCut(theta, random_state=0).fit(A)
    assert sorted(set(model.labels_)) == list(range(model.n_clusters_))
    assert model.objective_ <= -theta * sp.csgraph.connected_components(A > 0)[0] + 1e-9
    # conductance has no unit, and a power of two does not even round
    np.testing.assert_array_equal(
        GraphCut(theta, random_state=0).fit(A * 1024).labels_, model.labels_
    )
    # an isolated node changes nothing but its own label
    wider = np.zeros((n + 1, n + 1))
    wider[1:, 1:] = A
    labels = GraphCut(theta, random_state=0).fit(wider).labels_
    np.testing.assert_array_equal(labels, np.r_[-1, model.labels_])


def test_planted_communities():
    A, labels = planted(1500, 30, 16, 0.3)
    model = GraphCut(0.6, random_state=0).fit(A)
    assert model.n_clusters_ == 30
    assert nmi(model.labels_, labels) > 0.99
    again = GraphCut(0.6, random_state=0).fit(A)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    low = GraphCut(0.1, random_state=0).fit(A)  # below the conductance of the communities
    assert low.n_clusters_ == 1
    first, second = (GraphCut(random_state=0).fit(A) for _ in range(2))
    assert first.n_clusters_ == pytest.approx(30, abs=1)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    assert first.resolution_ == second.resolution_


def test_a_search_that_is_stopped_says_so(monkeypatch):
    A = np.eye(300, k=1) + np.eye(300, k=-1)
    monkeypatch.setitem(graph_search.search.__kwdefaults__, "looks", 0)
    with pytest.warns(ConvergenceWarning, match="stopped before"):
        assert not GraphCut(0.02, random_state=0).fit(A).converged_


def test_points_through_their_neighbours():
    X, labels = make_blobs(150, random_state=1)
    A = kneighbors_graph(X, 8)
    assert nmi(GraphCut(random_state=0).fit(A.maximum(A.T)).labels_, labels) > 0.9


def test_more_effort_never_hurts():
    A = random_graph(60, 0.1, 3, weighted=True)
    once = GraphCut(0.5, random_state=0).fit(A).objective_history_
    twice = GraphCut(0.5, random_state=0, n_init=2).fit(A).objective_history_
    assert len(twice) == 2 * len(once) > 2
    np.testing.assert_array_equal(twice[: len(once)], once)
    assert (np.diff(twice) <= 0).all() and np.ptp(twice) > 0
    np.testing.assert_array_equal(
        GraphCut(0.5, random_state=0, effort=2.0).fit(A).objective_history_, twice
    )


def test_what_divisions_have_in_common():
    rng = np.random.default_rng(0)
    for k in (1, 3, 40):
        one, other = rng.integers(0, k, (2, 200)).astype(np.int32)
        labels, first = common(one, other)
        expected = np.unique(one * k + other, return_inverse=True)[1]
        assert labels.tolist() == by_appearance(expected)
        np.testing.assert_array_equal(labels[first], np.arange(first.size))
        assert (np.diff(first) > 0).all()
    labels, first = common(np.array([7, 7, 9, 7], np.int32), np.array([0, 5, 5, 0], np.int32))
    assert (labels.tolist(), first.tolist()) == ([0, 1, 2, 0], [0, 1, 2])  # of a few nodes only


def test_pieces_move_where_nodes_cannot():
    """Two clusters, one of which holds a clique of the other: it pays to move as a whole only."""
    A, labels = ring_of_cliques(6, 6)
    graph = connected_part(check_graph(A), "normalized")[0]
    wrong = (labels > 3).astype(np.int32)  # 4 cliques and 2
    now = measure(graph, wrong)
    assert lower_cut(graph, now, 0.05)[1] == 0
    pieces = Pieces(graph.n, 3)
    pieces.before = [labels.astype(np.int32), wrong]
    small = pieces.contracted(graph, now)
    np.testing.assert_allclose(small.delta, now.cut)
    assert raise_modularity(graph, now, 0.3)[1] == 0
    after, moves = pieces.move(now, 0.3, raise_modularity)
    assert moves > 0
    assert planted_partition.modularity(graph, after.labels, 0.3) > planted_partition.modularity(
        graph, wrong, 0.3
    )
    after, moves = pieces.move(now, 0.05, lower_cut)
    assert moves > 0
    again = measure(graph, after.labels)
    np.testing.assert_allclose(sorted(after.cut), sorted(again.cut))
    assert after.objective(0.05) < now.objective(0.05)
    np.testing.assert_allclose(after.weight, [graph.w.sum() / 2] * 2)


def test_threads_change_nothing():
    X = np.random.default_rng(0).random((2500, 2))  # no plateau is clear: several runs
    A = kneighbors_graph(X, 8)
    A = A.maximum(A.T)
    assert A.nnz >= 20_000  # fewer have no threads
    one, two = (GraphCut(random_state=0, n_jobs=n).fit(A) for n in (1, 2))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.objective_history_, two.objective_history_)
    np.testing.assert_array_equal(one.path_.objective, two.path_.objective)


def test_contraction_and_another_order_keep_the_links():
    A = random_graph(60, 0.2, 1, weighted=True)
    graph = connected_part(check_graph(A), "normalized")[0]
    labels = np.random.default_rng(0).permutation(np.arange(60) % 11).astype(np.int32)
    small = contracted(graph, labels, 11)
    other, place = reordered(graph, np.argsort(labels, kind="stable").astype(np.int32))
    dense = sp.csr_array((graph.data, graph.indices, graph.indptr)).toarray()
    member = np.eye(11)[labels]
    links = member.T @ dense @ member
    np.fill_diagonal(links, 0)
    found = sp.csr_array((small.data, small.indices, small.indptr), shape=(11, 11)).toarray()
    np.testing.assert_allclose(found, links)
    np.testing.assert_allclose(small.delta, links.sum(axis=1))
    np.testing.assert_allclose(small.w, member.T @ graph.w)
    found = sp.csr_array((other.data, other.indices, other.indptr), shape=(60, 60)).toarray()
    np.testing.assert_array_equal(found[np.ix_(place, place)], dense)


def test_threads_change_nothing_in_large_graphs(monkeypatch):
    limits = levels.descend.__kwdefaults__
    monkeypatch.setitem(limits, "large", 1000)
    monkeypatch.setitem(limits, "cached", 50)
    A, labels = planted(1500, 30, 16, 0.3)
    assert A.nnz >= 20_000  # fewer have no threads
    one, *others = (GraphCut(random_state=0, n_jobs=n).fit(A) for n in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(one.labels_, other.labels_)
        np.testing.assert_array_equal(one.path_.objective, other.path_.objective)
    assert nmi(one.labels_, labels) > 0.99
    A = random_graph(40, 0.3, 0)
    monkeypatch.setitem(limits, "large", 0)
    fitted = GraphCut(0.6, random_state=0).fit(A)
    lowest = reference.lowest_neighbour(A, fitted.labels_, 0.6, "normalized")
    assert fitted.converged_ and lowest > fitted.objective_ - 1e-8


def test_float32_holds_plain_weights_exactly(monkeypatch):
    A = planted(400, 8, 10, 0.2)[0]
    weights = A.copy()
    weights.data = 1.0 + (weights.indices + np.repeat(np.arange(400), np.diff(A.indptr))) % 5
    one, third = A * 1.0, A / 3.0
    for graph, kind in ((one, "f4"), (weights, "f4"), (weights * 0.37, "f8"), (third, "f8")):
        data = connected_part(check_graph(graph), "normalized")[0].data
        assert data.dtype == kind
        half, full = (GraphCut(r, random_state=0).fit(graph) for r in (0.5, "auto"))
        with monkeypatch.context() as patch:
            patch.setattr(graph_input, "halved", lambda data: False)
            for model, r in ((half, 0.5), (full, "auto")):
                double = GraphCut(r, random_state=0).fit(graph)
                np.testing.assert_array_equal(model.labels_, double.labels_)
                assert model.objective_ == double.objective_
    assert not graph_input.halved(np.ones(2**24 + 2))


def test_moves_end_when_they_are_stopped():
    A = random_graph(25, 0.3, 0)
    graph = connected_part(check_graph(A), "normalized")[0]
    n, z = graph.n, np.arange(graph.n, dtype=np.int32)
    sums, N = np.empty((n, 4)), np.empty(n, np.int32)
    count_nodes(z, n, graph.delta, graph.w, sums, N)
    room = np.empty(n, np.int32), np.empty(n), np.empty(n, np.int32)
    asked, stop = np.ones(n, np.uint8), np.ones(1, np.uint8)
    assert settle(*graph, z, sums, N, n, *room, 0.5, asked, True, 999, stop) == (0, False)
    np.testing.assert_array_equal(z, np.arange(n))


@CUTS
def test_ring_star_clique_path_and_pieces(cut):
    A, labels = ring_of_cliques(8, 6)
    assert same(GraphCut(0.5 * units(A, cut), cut=cut, random_state=0).fit(A).labels_, labels)
    clique = np.ones((9, 9)) - np.eye(9)
    star = np.zeros((9, 9))
    star[0, 1:] = star[1:, 0] = 1
    for graph in (clique, star):
        assert GraphCut(0.3 * units(graph, cut), cut=cut).fit(graph).n_clusters_ == 1
    pieces = np.kron(np.eye(3), clique)  # the components, at any resolution that keeps cliques
    for theta in (1e-3, 0.4):
        model = GraphCut(theta, cut=cut).fit(pieces)
        assert same(model.labels_, np.repeat([0, 1, 2], 9))
        assert model.cut_ == 0
        np.testing.assert_array_equal(model.conductance_, 0)


def test_one_node_two_nodes_and_none():
    assert GraphCut(0.5).fit([[0.0]]).labels_.tolist() == [-1]
    loop = GraphCut(0.5).fit([[2.0]])
    assert (loop.labels_.tolist(), loop.objective_) == ([0], -0.5)
    assert GraphCut(0.5).fit([[0, 1], [1, 0]]).labels_.tolist() == [0, 0]
    for resolution in (0.5, "auto"):
        for algorithm in ("search", "paper"):
            model = GraphCut(resolution, algorithm=algorithm).fit(sp.csr_array((4, 4)))
            assert model.labels_.tolist() == [-1] * 4
            assert (model.n_clusters_, model.objective_, model.cut_) == (0, 0, 0)
            if resolution == "auto":
                assert model.evidence_.describe() == "0 communities: the graph has no edges"
    assert GraphCut().fit([[0, 1], [1, 0]]).labels_.tolist() == [0, 0]


def test_a_loop_counts_once():
    A = np.array([[3.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    model = GraphCut(0.9, random_state=0).fit(A)
    expected = min(objective(A, z, 0.9, "normalized") for z in all_partitions(3))
    assert model.objective_ == pytest.approx(expected)
    assert objective(A, np.array([0, 1, 1]), 1.0, "normalized") == pytest.approx(1 / 4 + 1 / 3 - 2)


# What it reads


class Networkx:
    """The few methods of a networkx graph that are used."""

    adj = None

    def __init__(self, nodes, edges, directed=False):
        self.nodes, self._edges, self._directed = nodes, edges, directed

    def __iter__(self):
        return iter(self.nodes)

    def number_of_nodes(self):
        return len(self.nodes)

    def is_directed(self):
        return self._directed

    def edges(self, data, default):
        assert (data, default) == ("weight", 1)
        return self._edges


class Igraph:
    """The few methods of an igraph graph that are used."""

    class Edges(dict):
        def attributes(self):
            return list(self)

    def __init__(self, n, edges, weights=None, directed=False):
        self.n, self._edges, self._directed = n, edges, directed
        self.es = self.Edges() if weights is None else self.Edges(weight=weights)
        self.vs = self.Edges(name=[f"n{i}" for i in range(n)])

    def vcount(self):
        return self.n

    def ecount(self):
        return len(self._edges)

    def get_edgelist(self):
        return self._edges

    def is_directed(self):
        return self._directed


def test_graph_objects_and_matrices_are_the_same_graph():
    A, _ = ring_of_cliques(4, 5)
    A[0, 0] = 2
    A[3, 4] = A[4, 3] = 0.25
    expected = GraphCut(0.5, random_state=0).fit(A)
    u, v = np.nonzero(np.triu(A))
    names = [f"n{i}" for i in range(20)]
    networkx = Networkx(names, [(names[i], names[j], A[i, j]) for i, j in zip(u, v, strict=True)])
    pairs = list(zip(u.tolist(), v.tolist(), strict=True))
    igraph = Igraph(20, pairs, [float(A[e]) for e in pairs])
    for graph in (networkx, igraph, sp.coo_array(A), sp.csc_matrix(A), A.tolist(), A.astype("f4")):
        model = GraphCut(0.5, random_state=0).fit(graph)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        assert model.objective_ == pytest.approx(expected.objective_)
    plain = GraphCut(0.5, random_state=0).fit(Igraph(20, [e for e in pairs if e != (0, 0)]))
    assert plain.n_clusters_ == 4


def test_directed_graphs_lose_their_directions_with_a_note():
    A, labels = ring_of_cliques(4, 5)
    u, v = np.nonzero(np.triu(A))
    B = np.zeros_like(A)
    B[u, v] = 1.0
    B[0, 1] = B[1, 0] = 0.5  # both ways: they add up
    B[2, 2] = 3.0
    with pytest.warns(UserWarning, match=r"not symmetric.*A \+ A.T is used.*A.maximum"):
        np.testing.assert_array_equal(check_graph(B).toarray(), B + B.T - np.diag(B.diagonal()))
    pairs = list(zip(u.tolist(), v.tolist(), strict=True))
    for graph in (
        Igraph(20, pairs, directed=True),
        Networkx(list(range(20)), [(*e, 1) for e in pairs], directed=True),
    ):
        with pytest.warns(UserWarning, match="directed.*undirected.*its reverse are added"):
            assert same(GraphCut(0.5, random_state=0).fit(graph).labels_, labels)


def test_bipartite_graphs_are_refused_with_advice():
    graph = Igraph(4, [(0, 2), (1, 3)])
    graph.vs["type"] = [False, False, True, True]
    with pytest.raises(ValueError, match=r"bipartite.*Project it.*remove the attribute"):
        GraphCut().fit(graph)
    with pytest.raises(ValueError, match=r"must be square.*bipartite.*B @ B.T"):
        GraphCut().fit(np.ones((3, 2)))


def test_an_anndata_is_read_by_its_connectivities():
    names = [f"cell{i}" for i in range(20)]

    class AnnData:
        def __init__(self, **obsp):
            self.obsp, self.obs_names = obsp, names

    A, labels = ring_of_cliques(4, 5)
    model = GraphCut(0.5, random_state=0).fit(AnnData(connectivities=sp.csr_array(A)))
    assert same(model.labels_, labels) and model.node_names_ == names
    with pytest.raises(ValueError, match=r"connectivities.*scanpy.pp.neighbors"):
        GraphCut().fit(AnnData())


def test_loops_repeated_edges_and_weights_in_auto():
    A, labels = planted(300, 5, 16, 0.1)
    u, v = sp.triu(A).nonzero()
    model = GraphCut().fit(A)
    assert same(model.labels_, labels)
    twice = Igraph(300, [*zip(u.tolist(), v.tolist(), strict=True)] * 2)  # each edge twice
    np.testing.assert_array_equal(GraphCut().fit(twice).labels_, model.labels_)
    loops = A + sp.dia_array((np.full((1, 300), 2.0), [0]), shape=A.shape)
    assert same(GraphCut().fit(sp.csr_array(loops)).labels_, labels)
    r = np.random.default_rng(0)
    anywhere = sp.random(300, 300, density=0.1, random_state=r)  # light links that mean nothing
    weighted = sp.csr_array(10 * A + 0.5 * (anywhere + anywhere.T))
    assert same(GraphCut().fit(weighted).labels_, labels)


def test_edge_lists_keep_their_names():
    A, labels = ring_of_cliques(4, 5)
    names = [f"n{i}" for i in np.random.default_rng(0).permutation(20)]
    pairs = [(names[i], names[j]) for i, j in zip(*np.nonzero(np.triu(A)), strict=True)]
    model = GraphCut(0.5, random_state=0).fit(pairs)
    assert sorted(model.node_names_) == sorted(names) and model.node_names_[:2] == [*pairs[0]]
    assert same(model.labels_, [labels[names.index(name)] for name in model.node_names_])
    weighted = GraphCut(0.5).fit([("a", "b", 1.0), ("b", "c", 9.0), ("c", "d", 1), ("b", "c", 1)])
    twice = GraphCut(0.5).fit([("a", "b"), *[("b", "c")] * 10, ("c", "d")])
    assert weighted.node_names_ == [*"abcd"]
    assert weighted.objective_ == twice.objective_
    loops = GraphCut(0.5).fit([(7, 7), (7, 8)])
    assert (loops.node_names_, loops.n_clusters_) == ([7, 8], 1)
    with pytest.raises(ValueError, match=r"Negative values.*\(0, 1\) has weight -1"):
        GraphCut().fit([("a", "b", -1.0)])


def test_igraph_itself():
    igraph = pytest.importorskip("igraph")
    A, labels = ring_of_cliques(4, 5)
    graph = igraph.Graph(np.c_[np.nonzero(np.triu(A))].tolist())
    assert same(GraphCut(0.5, random_state=0).fit(graph).labels_, labels)
    with pytest.raises(ValueError, match=r"bipartite.*Project it"):
        GraphCut().fit(igraph.Graph.Bipartite([0, 0, 1, 1], [(0, 2), (1, 3)]))
    with pytest.warns(UserWarning, match="directed.*its reverse are added"):
        GraphCut(0.5).fit(igraph.Graph([(0, 1), (1, 2)], directed=True))


def test_networkx_itself():
    A, labels = ring_of_cliques(4, 5)
    u, v = np.nonzero(np.triu(A))
    edges = list(zip(u.tolist(), v.tolist(), strict=True))
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_nodes_from(range(20))
    graph.add_edges_from(edges)
    assert same(GraphCut(0.5, random_state=0).fit(graph).labels_, labels)
    assert same(GraphCut(0.5, random_state=0).fit(nx.MultiGraph(graph)).labels_, labels)
    with pytest.raises(ValueError, match=r"bipartite.*Project it"):
        GraphCut().fit(nx.davis_southern_women_graph())
    with pytest.warns(UserWarning, match="directed.*its reverse are added"):
        GraphCut(0.5).fit(nx.DiGraph([(0, 1), (1, 2)]))


def test_names_of_nodes_are_kept():
    graph = Igraph(4, [(0, 1), (2, 3)])
    assert GraphCut(0.5).fit(graph).node_names_ == ["n0", "n1", "n2", "n3"]
    graph.vs["name"] = ["a", "b", "a", "b"]  # names that occur twice are two nodes
    model = GraphCut(0.5).fit(graph)
    assert (model.n_clusters_, model.node_names_) == (2, ["a", "b", "a", "b"])
    nx = pytest.importorskip("networkx")
    assert GraphCut(0.5).fit(nx.Graph([("b", "a"), ("a", "c")])).node_names_ == ["b", "a", "c"]
    assert GraphCut(0.5).fit(np.ones((3, 3)) - np.eye(3)).node_names_ is None


def test_input_is_left_alone():
    A = ring_of_cliques(4, 5)[0]
    A[0, 0] = 1.0
    A = sp.csr_array(A)
    before = A.copy()
    GraphCut(0.5).fit(A)
    assert (A != before).nnz == 0 and A.nnz == before.nnz
    for array in (A.data, A.indices, A.indptr):
        array.flags.writeable = False
    assert GraphCut(0.5).fit(A).n_clusters_ == 4


def test_rounding_is_symmetric_enough():
    A = random_graph(10, 0.4, 0, weighted=True)
    off = A * (1 + 1e-12 * np.random.default_rng(0).random(A.shape))
    np.testing.assert_array_equal(
        GraphCut(0.5, random_state=0).fit(off).labels_, GraphCut(0.5, random_state=0).fit(A).labels_
    )


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (np.ones((3, 2)), r"shape \(3, 2\) and must be square.*kneighbors_graph"),
        (np.array([[0, -1.5], [-1.5, 0]]), r"Negative values in data.*\(0, 1\) has weight -1.5"),
        (np.array([[0, np.nan], [np.nan, 0]]), "NaN"),
        (np.array([[0, np.inf], [np.inf, 0]]), "infinity"),
        (np.empty((0, 0)), "0 sample|minimum of 1"),
        (np.arange(3.0), "1D|2D"),
        ("graph", "."),
    ],
)
@pytest.mark.parametrize("function", [GraphCut(0.5).fit, penalties.cut_path])
def test_bad_graphs(function, bad, says):
    with pytest.raises(ValueError, match=says):
        function(bad)


@pytest.mark.parametrize("scale", [1e-323, 1e-300, 1e-200, 1e200, 1e300])
def test_tiny_and_huge_weights(scale):
    A = ring_of_cliques(6, 5)[0]
    for resolution, algorithm in ((0.5, "search"), ("auto", "search"), (1.5, "paper")):
        model = GraphCut(resolution, algorithm=algorithm, random_state=0)
        expected = model.fit(A).labels_
        assert model.n_clusters_ > 1
        np.testing.assert_array_equal(model.fit(A * scale).labels_, expected)
    if 1e-270 < scale < 1e270:
        model = GraphCut(0.5 * scale * 4, cut="ratio", random_state=0).fit(A * scale)
        assert model.n_clusters_ == 6
        assert GraphCut(cut="ratio", random_state=0).fit(A * scale).n_clusters_ == 6
    else:
        with pytest.raises(ValueError, match=r"limits of float64\. Divide them"):
            GraphCut(0.5, cut="ratio").fit(A * scale)


def test_tiny_and_huge_resolutions():
    A = ring_of_cliques(6, 5)[0]
    assert GraphCut(1e-300).fit(A).n_clusters_ == 1
    assert GraphCut(1e300).fit(A).n_clusters_ == 30


@pytest.mark.parametrize(
    ("model", "error", "says"),
    [
        (GraphCut(0), ValueError, "resolution=0 must be a number > 0 or 'auto'.*cut_path"),
        (GraphCut(-1.0), ValueError, "resolution=-1.0"),
        (GraphCut(np.nan), ValueError, "resolution=nan"),
        (GraphCut("fine"), TypeError, "resolution='fine'"),
        (GraphCut(True), TypeError, "resolution=True"),
        (GraphCut(cut="min"), ValueError, "cut='min'.*'normalized', 'ratio'"),
        (GraphCut(algorithm="magic"), ValueError, "algorithm='magic'"),
        (GraphCut(n_init=0), ValueError, "n_init=0"),
        (GraphCut(max_iter=2.5), TypeError, "max_iter=2.5"),
    ],
    ids=str,
)
def test_bad_parameters(model, error, says):
    with pytest.raises(error, match=says):
        model.fit(np.ones((2, 2)))


# The path


@CUTS
def test_the_path_is_a_staircase(cut):
    A, labels = ring_of_cliques(12, 5)
    path = penalties.cut_path(A, cut=cut, random_state=0)
    assert path.n_clusters[0] == 1 and (np.diff(path.n_clusters) > 0).all()
    assert (np.diff(path.objective) > 0).all()
    assert path.resolution_low[0] == 0
    np.testing.assert_allclose(path.resolution_low[1:], path.resolution_high[:-1])
    assert (path.resolution_low < path.resolution_high).all()
    for i, k in enumerate(path.n_clusters):
        theta = (path.resolution_low[i] + path.resolution_high[i]) / 2
        assert path.at(theta) == i
        found = path.labels_at(theta)
        assert len(np.unique(found)) == k
        assert objective(A, found, 0, cut) == pytest.approx(path.objective[i])
    best = path.best()
    assert (best.n_clusters, best.strength) == (12, "strong")
    assert "12 communities" in best.describe()
    assert same(path.labels_at(best.resolution), labels)
    model = GraphCut(cut=cut, random_state=0).fit(A)
    assert same(model.labels_, labels)
    assert model.path_.best().resolution == model.resolution_
    assert same(pickle.loads(pickle.dumps(model)).path_.labels_at(best.resolution), labels)


def test_nothing_stands_out_of_random_graphs():
    wrong = 0
    for seed, (n, degree) in enumerate([(40, 4), (60, 8), (100, 4), (150, 10), (400, 20)]):
        A = random_graph(n, degree / n, seed)
        best = penalties.cut_path(A, random_state=0).best()
        assert (best.n_clusters == sp.csgraph.connected_components(A)[0]) == (
            best.strength == "none"
        )
        wrong += best.strength != "none"
    assert wrong <= 1
    for A in (np.ones((12, 12)) - np.eye(12), random_graph(2, 1.0, 0)):
        assert penalties.cut_path(A).best().strength == "none"


def degree_laws():
    r = np.random.default_rng(0)
    for name, law in (("even", np.ones(600)), ("heavy tail", r.pareto(1.5, 600) + 1)):
        for degree in (3, 8):
            u, v = r.choice(np.arange(600, dtype=np.int32), (2, 300 * degree), p=law / law.sum())
            A = sp.coo_array((np.ones(u.size), (u, v)), shape=(600, 600))
            yield pytest.param(sp.csr_array(A + A.T), id=f"{name}, {degree}")
    tree = sp.lil_array((300, 300))
    for i in range(1, 300):
        j = r.integers(0, i)
        tree[i, j] = tree[j, i] = 1
    yield pytest.param(tree.tocsr(), id="tree")


@pytest.mark.parametrize("A", list(degree_laws()))
def test_random_graphs_of_any_degrees_are_their_components(A):
    evidence = GraphCut().fit(A).evidence_
    used = np.asarray(A.sum(axis=1)).ravel() > 0
    assert evidence.number == sp.csgraph.connected_components(A[used][:, used])[0]
    assert evidence.strength == "none" and "connected pieces" in evidence.reason


def test_seeds_and_numbers_of_nodes_do_not_matter():
    A, _ = planted(400, 8, 10, 0.45, seed=3)  # no division is beyond doubt
    A.data[:] = 1 + (A.indices + np.repeat(np.arange(400), np.diff(A.indptr))) % 3
    model = GraphCut(random_state=0).fit(A)
    np.testing.assert_array_equal(GraphCut(random_state=5).fit(A).labels_, model.labels_)
    order = np.random.default_rng(0).permutation(400)
    other = GraphCut().fit(A[order][:, order])
    np.testing.assert_array_equal(other.labels_, model.labels_[order])
    assert other.evidence_.reason == model.evidence_.reason
    assert other.resolution_ == pytest.approx(model.resolution_)


def with_fringe(A, rng, leaves, pieces):
    """Chains of one to three nodes that hang on a node, and components of two to five."""
    u, v = (list(each) for each in sp.coo_array(A).nonzero())
    n = m = A.shape[0]
    for _ in range(leaves):
        at = int(rng.integers(n))
        for _ in range(rng.integers(1, 4)):
            u, v, at, m = [*u, at], [*v, m], m, m + 1
    for _ in range(pieces):
        size = int(rng.integers(2, 6))
        u, v, m = [*u, *range(m, m + size - 1)], [*v, *range(m + 1, m + size)], m + size
    B = sp.coo_array((np.ones(len(u)), (u, v)), shape=(m, m)).tocsr()
    return sp.csr_array(((B + B.T) > 0).astype(float))


def test_small_pieces_far_off_are_counted_apart():
    A, labels = planted(400, 8, 12, 0.2)
    B = with_fringe(A, np.random.default_rng(1), 150, 20)
    model = GraphCut().fit(B)
    assert nmi(model.labels_[:400], labels) > 0.95
    assert (model.n_clusters_, model.evidence_.n_isolated) == (28, 20)
    assert model.evidence_.strength == "strong"
    assert "28 communities (20 of them pieces of up to 5 nodes)" in model.evidence_.describe()
    only = sp.csr_array(np.kron(np.eye(3), np.ones((2, 2)) - np.eye(2)))
    assert GraphCut().fit(only).n_clusters_ == 3


def test_many_pieces_beside_a_small_core():
    """More pieces of a few nodes are left aside than the core has nodes."""
    pairs = sp.block_diag([np.array([[0.0, 1.0], [1.0, 0.0]])] * 40 + [np.ones((6, 6)) - np.eye(6)])
    model = GraphCut().fit(sp.csr_array(pairs))
    assert model.n_clusters_ == 41
    assert np.bincount(model.labels_).max() == 6


def test_leaves_are_folded_into_what_they_hang_on():
    A = np.zeros((16, 16))
    chain = [(i, i + 1) for i in range(6, 14)]
    for i, j in [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (3, 5), *chain]:
        A[i, j] = A[j, i] = 1  # a triangle with a piece of three nodes; a chain of nine
    graph = connected_part(check_graph(A), "normalized")[0]  # node 15 is isolated
    core = core_of(graph)
    home = core.home
    assert home[2] == home[3] == home[4] == home[5]
    assert len({home[0], home[1], home[2]}) == 3 and home.min() >= 0
    assert core.graph.n == 3 + len(set(home[6:]))
    np.testing.assert_array_equal(core.spread(np.arange(core.graph.n)), home)


def test_the_gain_of_edges_held_out_is_the_formula():
    A, labels = planted(60, 3, 6, 0.2)
    graph = connected_part(check_graph(A), "normalized")[0]
    folds = [held_out.without(graph, fold) for fold in range(held_out.FOLDS)]
    assert sorted(e for _, u, v, _ in folds for e in zip(u, v, strict=True)) == sorted(
        zip(*sp.triu(A).nonzero(), strict=True)
    )  # each edge is held out once
    rest, u, v, weight = folds[3]
    B = A.toarray()
    B[u, v] = B[v, u] = 0
    np.testing.assert_array_equal(2 * rest.matrix().toarray(), B)  # weights are below 1
    np.testing.assert_array_equal(2 * rest.delta, B.sum(axis=1))
    np.testing.assert_array_equal(weight, 0.5)
    component = sp.csgraph.connected_components(A)[1]
    inside, anywhere, apart, squares, total = held_out.predicted(
        rest, component, measure(rest, labels), u, v, np.ones(u.size)
    )
    known = (B.sum(axis=1)[u] > 0) & (B.sum(axis=1)[v] > 0)
    p, q = reference_planted.held_out_shares(B, labels, u[known], v[known])
    assert (inside / total, anywhere / total) == pytest.approx((p, q))
    assert component.max() == 0 and apart == pytest.approx(anywhere)
    assert squares == total == known.sum()
    gain = held_out.gains(*(np.array([x]) for x in (inside, anywhere, total)))[0]
    assert gain == pytest.approx(reference_planted.gain(p, q))
    assert held_out.gains(*np.array([[1.0], [2.0], [3.0]]))[0] == 0  # fewer than by chance
    for other in (labels, np.arange(60) % 4, np.zeros(60, int), np.arange(60) + 900):
        assert held_out.adjusted_rand(labels, other) == pytest.approx(
            adjusted_rand_score(labels, other)
        )


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_no_move_of_a_node_raises_the_modularity_of_a_rung(gamma):
    A, _ = planted(120, 6, 8, 0.3)
    graph = connected_part(check_graph(A), "normalized")[0]
    gammas = np.array([4.0, gamma])
    *_, last = descend(graph, gammas)
    labels = polished(graph, gammas, last.labels, 2)
    measured = measure(graph, last.labels)
    order = np.argsort(np.unique(last.labels, return_index=True)[1])
    np.testing.assert_allclose(last.cut[order], measured.cut)
    np.testing.assert_allclose(last.weight[order], measured.weight)
    value = reference_planted.modularity(A.toarray(), labels, gamma)
    assert value == pytest.approx(planted_partition.modularity(graph, labels, gamma))
    for i in range(120):
        for c in np.unique(labels[A[[i]].indices]):
            other = labels.copy()
            other[i] = c
            assert reference_planted.modularity(A.toarray(), other, gamma) <= value + 1e-9


def nested_groups():
    """Twelve groups in four groups of three."""
    r = np.random.default_rng(0)
    fine = np.repeat(np.arange(12), 20)
    near, far = fine[:, None] == fine, fine[:, None] // 3 == fine // 3
    A = np.triu(r.random((240, 240)) < np.where(near, 0.6, np.where(far, 0.12, 0.01)), 1)
    return (A + A.T).astype(float), fine


def test_groups_that_are_not_nested_have_one_layer(tmp_path):
    """Links between communities that go anywhere make no coarser layer, those inside no finer."""
    flat = planted(1500, 30, 16, 0.3)[0], planted(1000, 10, 20, 0.4, seed=2)[0]
    for A in flat:
        model = GraphCut().fit(A)
        assert len(model.cluster_layers_) == 1
        np.testing.assert_array_equal(model.cluster_layers_[0], model.labels_)
    for A in (flat[0], nested_groups()[0]):
        model = GraphCut().fit(A)
        model.save(tmp_path / "model.npz")
        kept = load(tmp_path / "model.npz")
        assert len(kept.cluster_layers_) == len(model.cluster_layers_)
        for one, other in zip(kept.cluster_layers_, model.cluster_layers_, strict=True):
            np.testing.assert_array_equal(one, other)


def test_layers_are_nested():
    A, fine = nested_groups()
    model = GraphCut().fit(A)
    layers = model.cluster_layers_
    assert [len(np.unique(layer)) for layer in layers] == [12, 4]
    assert nmi(layers[0], fine) > 0.97 and same(layers[1], fine // 3)
    assert any(np.array_equal(layer, model.labels_) for layer in layers)
    others = [len(np.unique(layer)) for layer in layers if not np.array_equal(layer, model.labels_)]
    assert model.evidence_.runners_up[0][0] == others[0]
    assert sorted(model.cluster_tree_) == [*((1, c) for c in range(4)), (2, 0)]
    below = sorted(c for children in model.cluster_tree_.values() for i, c in children if i == 0)
    assert below == list(range(12))
    assert not hasattr(model.set_params(resolution=0.5).fit(A), "cluster_layers_")


def test_isolated_nodes_and_pieces_on_the_path():
    A = np.zeros((42, 42))
    A[1:21, 1:21], A[22:, 22:] = ring_of_cliques(4, 5)[0], ring_of_cliques(4, 5)[0]
    path = penalties.cut_path(A, random_state=0)
    assert path.n_clusters[0] == 2
    labels = path.labels_at(path.best().resolution)
    assert labels[0] == labels[21] == -1
    assert path.best().n_clusters == 8
    assert GraphCut(random_state=0).fit(A).n_clusters_ == 8


def test_the_picture():
    figure = pytest.importorskip("matplotlib.figure")
    path = penalties.cut_path(ring_of_cliques(12, 5)[0], random_state=0)
    ax = path.plot()
    assert "12 communities" in ax.get_title(loc="left")
    assert path.plot(mine := figure.Figure().add_subplot()) is mine
    penalties.cut_path(np.ones((3, 3))).plot()
    penalties.cut_path(np.zeros((3, 3))).plot()


def real_graph(name):
    folder = Path(os.environ.get("MADBAYES_DATA") or "-") / "graphs"
    if not (folder / f"{name}.edges.txt.gz").exists():
        pytest.skip(f"needs graphs/{name}.edges.txt.gz in the folder that MADBAYES_DATA names")
    u, v = np.loadtxt(folder / f"{name}.edges.txt.gz", dtype=int).T
    with gzip.open(folder / f"{name}.labels.csv.gz", "rt") as stream:
        labels = [line.strip().split(",")[1] for line in stream][1:]
    A = sp.coo_array((np.ones(u.size), (u, v)), shape=(len(labels), len(labels))).tocsr()
    return A + A.T, np.array(labels)


@pytest.mark.parametrize(
    ("name", "least"),
    [("karate", 0.67), ("dolphins", 0.85), ("polbooks", 0.55), ("football", 0.92)],
)
def test_real_graphs(name, least):
    A, labels = real_graph(name)
    model = GraphCut(random_state=0).fit(A)
    assert nmi(model.labels_, labels) > least
    assert measure(connected_part(check_graph(A), "normalized")[0], model.labels_).objective(
        model.resolution_
    ) == pytest.approx(model.objective_)


# The command


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """Run `madbayes graph` on a text; the exit code, both streams and the labels by node."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(text, *options, name="edges.csv"):
        if text is not None:
            (tmp_path / name).write_text(text)
        out = tmp_path / "out"
        capsys.readouterr()
        code = cli.main(["graph", str(tmp_path / name), "--out", str(out), *options])
        streams = capsys.readouterr()
        labels = {}
        if (out / "labels.csv").exists():
            rows = csv.DictReader((out / "labels.csv").read_text().splitlines())
            labels = {row["node"]: row["cluster"] for row in rows}
        return code, streams.out, " ".join(streams.err.split()), labels

    run.out = tmp_path / "out"
    return run


TRIANGLES = "0 1\n0 2\n1 2\n2 3\n3 4\n3 5\n4 5\n"


def test_the_command_finds_and_writes_communities(command):
    code, out, err, labels = command("# two\n" + TRIANGLES, "--resolution", ".5", name="e.txt")
    assert code == 0, err
    assert "2 clusters in 6 nodes and 7 edges" in out
    assert list(labels) == list("012345")
    assert labels["0"] == labels["1"] == labels["2"] != labels["3"] == labels["4"] == labels["5"]
    assert (
        (command.out / "clusters.csv").read_text().startswith("cluster,size,conductance\n0,3,0.14")
    )
    assert not (command.out / "path.png").exists()
    A, _ = ring_of_cliques(12, 5)
    text = "".join(f"{u},{v}\n" for u, v in zip(*np.nonzero(np.triu(A)), strict=True))
    code, out, err, labels = command(text, "--force", "--plot")  # the folder has results already
    assert code == 0, err
    assert "12 clusters in 60 nodes" in out and "chosen from the data" in out
    assert (command.out / "path.png").stat().st_size > 1000


def test_the_command_knows_names_weights_and_headers(command):
    names = str.maketrans("012345", "abcdef")
    lines = TRIANGLES.translate(names).replace(" ", ",")
    code, out, err, labels = command("from,to\n" + lines, "--resolution", ".5")
    assert code == 0 and set(labels) == set("abcdef")
    code, out, err, labels = command(lines, "--resolution", ".5")
    assert "7 edges" in out and len(set(labels.values())) == 2  # a and b are nodes below, too
    code, out, err, labels = command(lines, "--no-header", "--resolution", ".5")
    assert "7 edges" in out and len(set(labels.values())) == 2
    # the weight joins c and d
    weighted = "to,w,from\nb,1,a\nc,1,b\nd,9,c\ne,1,d\nz,0,d\n"
    code, out, err, labels = command(
        weighted, "--source", "from", "--target", "to", "--weight", "w", "--resolution", ".5"
    )
    assert code == 0, err
    assert labels["c"] == labels["d"] and labels["z"] == ""
    code, out, err, labels = command("u,v,w\n1,2,1\n2,1,3\n", "--cut", "ratio", "--no-plot")
    assert "column w was read as the weight" in err and "1 of 2 edges occur again" in err
    assert "cut per node" in out


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("a\n1\n2\n", [], "only one column"),
        ("u,v,w\n1,2,-1\n", [], "weight in row 2, column w is -1"),
        ("u,v,w\n1,2,x\n", ["--weight", "w"], "column w cannot be the weight"),
        ("u,v\n1,2\n", ["--weight", "size"], "--weight names 'size'"),
        ("u,v\n1,2\n", ["--source", "u", "--target", "u"], "give two columns"),
        ("u,v\na,b\n,b\n", [], "row 3 has no node in column u"),
        ("u,v\n1,2\n,2\n", [], "row 3 has no node in column u"),
        ("u,v\n1,2\n", ["--resolution", "0"], "--resolution 0 should be a number > 0"),
        ("u,v\n1,2\n", ["--cut", "min"], '--cut min should be "normalized" or "ratio"'),
        (None, [], "There is no file"),
    ],
)
def test_the_command_says_what_is_wrong(command, text, options, says):
    code, _, err, labels = command(text, *options)
    assert code == 2 and not labels
    assert re.search(says.lower(), err.lower())


def test_the_command_reads_what_networkx_writes(command):
    nx = pytest.importorskip("networkx")
    G = nx.Graph()
    for u, v in map(str.split, TRIANGLES.splitlines()):
        G.add_edge(f"n{u}", f"n{v}", weight=2.5)
    for data in (True, False):
        text = "\n".join(nx.generate_edgelist(G, data=data)) + "\n"
        code, out, err, _ = command(text, "--resolution", ".5", "--no-report", name="e.txt")
        assert code == 0, err
        assert "2 clusters in 6 nodes and 7 edges" in out
        assert ("column weight was read as the weight" in err) == data


def test_membership_is_the_share_of_links_that_stay():
    A = two_cliques_and_a_bridge()
    model = GraphCut(random_state=0).fit(A)
    dense = A.toarray() if sp.issparse(A) else np.asarray(A)
    same = model.labels_[:, None] == model.labels_
    shares = (dense * same).sum(axis=1) / np.maximum(dense.sum(axis=1), 1)
    np.testing.assert_allclose(model.membership_[model.labels_ >= 0], shares[model.labels_ >= 0])
    np.testing.assert_array_equal(model.probabilities_[model.labels_ < 0], 0)
    assert (model.labels_ < 0).sum() == 1 and shares[model.labels_ >= 0].min() < 1


def two_cliques_and_a_bridge():
    """Twelve nodes in two cliques with one edge between them, and a node without edges."""
    A = np.zeros((13, 13))
    A[:6, :6] = A[6:12, 6:12] = 1
    A[0, 6] = A[6, 0] = 1
    np.fill_diagonal(A, 0)
    return A
