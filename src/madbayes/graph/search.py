"""The search for the lowest penalized cut F = Σ_c (cut_c/w_c - θ), by exact moves on many levels.

1. *Anneal.* From single nodes and a high θ, where clusters grow slowly and evenly, down to the
   target. At each θ first whole clusters move and merge (contract each to one node, move those,
   contract again as long as that helps, and back). Then *pieces* of clusters move, the larger ones
   first, and single nodes last: at a low θ a boundary in the wrong place cannot be mended node by
   node, since each step alone costs more than it gains. Pieces are what the clusters were when
   there were more of them, as far as their nodes are together still.
2. *Finish.* Single nodes and whole clusters in turn at the target, until no move of a node and no
   merge of two linked clusters lowers F.
3. *Again.* Another run in another order. What both results agree on becomes one node; the search on
   that small graph starts from the better of the two, so it never gets worse. When two runs ended
   where the best one is, no other is made, unless more effort was asked for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isclose
from typing import NamedTuple

import numpy as np

from madbayes.graph.cut_kernels import cluster_sums, common_parts, renumber
from madbayes.graph.levels import (
    CACHED_CLUSTERS,
    LARGE_GRAPH,
    LOOKS,
    Graph,
    Parts,
    contracted,
    gather,
    reordered,
)

# θ of the descent, in units of links per weight: the first one, the last one before a target below
# it, and the factor from one to the next.
THETA_TOP, THETA_LOWEST, THETA_STEP = 0.95, 1e-4, 0.9
# Looks at each node, on average, at the target. Only long chains and grids need more.
PATIENCE = 300
# Half-edges × runs of a search, and the runs that small graphs have at most.
HALF_EDGES_SEARCHED, MOST_RUNS = 450_000, 14
# Runs that end where the best one is: no other is needed. Objectives as near as SAME_OBJECTIVE are
# those of one division.
AGREEING_RUNS, SAME_OBJECTIVE = 2, 1e-12
# Layers of pieces that are kept, and how many times as many pieces one has as the next. Without
# pieces the objective is higher for 21 of 56 pairs of graph and θ, and lower for 2.
PIECES_LAYERS, PIECES_RATIO = 3, 1.5
# Nodes of a piece, on average: with fewer a layer would be as large as the graph.
PIECE_SIZE = 4
# Times fewer clusters than when nodes were last put in their order: they are put in order again.
REORDER_RATIO = 4


@dataclass(frozen=True)
class Division:
    """Labels 0 … k-1, and what each cluster cuts and weighs."""

    labels: np.ndarray
    cut: np.ndarray
    weight: np.ndarray
    settled: bool = False  # no move of a node and no merge lowers F

    @property
    def k(self) -> int:
        return int(self.weight.size)

    @property
    def terms(self) -> np.ndarray:
        return self.cut / self.weight

    def objective(self, theta: float) -> float:
        return float(self.terms.sum()) - theta * self.k


NOTHING = Division(np.empty(0, np.int32), np.empty(0), np.empty(0))  # of a graph without nodes


def measure(graph: Graph, labels: np.ndarray) -> Division:
    """A division with sums taken afresh."""
    labels = labels.astype(np.int32)  # a copy
    k = renumber(labels, np.full(int(labels.max()) + 1, -1, np.int32))
    W, cut = np.zeros((2, k))
    cluster_sums(*graph, labels, W, cut)
    return Division(labels, np.maximum(cut, 0.0), W)


def better(theta: float, *found: Division) -> Division:
    return min(found, key=lambda division: division.objective(theta))


def ladder(graph: Graph, theta: float) -> list[float]:
    """θ on the way down; the target is the last."""
    top = THETA_TOP * graph.unit
    ratio = max(theta / top, THETA_LOWEST)
    steps = int(np.ceil(np.log(min(ratio, 1.0)) / np.log(THETA_STEP)))
    return [float(top * THETA_STEP**step) for step in range(steps)] + [theta]


def anneal(graph: Graph, thetas: Iterable[float], rng: np.random.RandomState) -> Iterator[Division]:
    """A division for each of falling θ, each from the one before."""
    graph, place = reordered(graph, rng.permutation(graph.n).astype(np.int32))
    parts, pieces = Parts.single(graph), Pieces(graph.n)
    small = graph  # whose nodes are the clusters
    division = Division(place, graph.delta, graph.w)
    merges = np.inf  # θ below which the next two clusters merge, as far as we know
    tidied = graph.n  # clusters when nodes were put in their order
    for theta in thetas:
        if theta < merges:
            # A large graph is merged once at first: the next θ goes on from there, on all levels.
            higher = gather(
                small, theta, levels=small is not graph or graph.indices.size < LARGE_GRAPH
            )
            moves = 0
            if higher.k == parts.k:
                merges = merging(small)
            elif small is graph:
                parts, moves = higher, 1
            else:
                parts.adopt(higher)
                moves = pieces.move(parts, theta) + parts.move(theta, LOOKS)[0]
            if (
                REORDER_RATIO * parts.k < tidied and tidied > CACHED_CLUSTERS
            ):  # it makes contraction faster, too
                tidied = parts.k
                moved = parts.tidy()
                pieces.tidy(moved)
                place = moved[place]
            if moves:
                small = pieces.contracted(parts)
            elif higher.k < small.n:
                small = higher.contracted()
            division = Division(parts.z[place], small.delta, small.w)
            pieces.remember(parts)
        yield division


class Layer(NamedTuple):
    """Pieces of clusters: their graph, the piece of each node, a node of each piece."""

    graph: Graph
    labels: np.ndarray
    first: np.ndarray


class Pieces:
    """Clusters as they were at several θ before, cut where the present ones are."""

    def __init__(self, n: int) -> None:
        self.before: list[np.ndarray] = []  # from fine to coarse
        self.layers: list[Layer] = []  # the same
        self.k = n  # clusters when they were last remembered

    def remember(self, parts: Parts) -> None:
        if PIECES_RATIO * parts.k < self.k and PIECE_SIZE * parts.k < parts.graph.n:
            self.k = parts.k
            self.before = [*self.before[-PIECES_LAYERS:], parts.z.copy()]

    def move(self, parts: Parts, theta: float) -> int:
        """Pieces move while that lowers F; returns how often."""
        moves = 0
        if not self.layers:
            return 0
        now, z = parts, parts.z[self.layers[-1].first]
        for i, layer in reversed(list(enumerate(self.layers))):
            now = Parts(layer.graph, z, *now.cut_and_weight())
            moves += now.move(theta, LOOKS)[0]
            if i:
                z = now.z[layer.labels[self.layers[i - 1].first]]
        if moves:
            parts.z = self.layers[0].labels
            parts.adopt(now)
        return moves

    def contracted(self, parts: Parts) -> Graph:
        """The graph of the clusters, by way of their pieces."""
        z, k = parts.z, parts.k
        cuts = []
        for before in self.before[-2::-1]:
            z, first = common(before, z)
            cuts.append((z, first))
        graph, at = parts.graph, slice(None)
        self.layers = []
        for labels, first in reversed(cuts):
            graph = contracted(graph, labels[at], first.size)
            self.layers.append(Layer(graph, labels, first))
            at = first
        return contracted(graph, parts.z[at], k)

    def tidy(self, place: np.ndarray) -> None:
        """Nodes were put in another order: node i is at `place[i]` now."""
        order = np.empty_like(place)
        order[place] = np.arange(place.size, dtype=place.dtype)
        self.before = [labels[order] for labels in self.before]
        self.layers = [
            Layer(graph, labels[order], place[first]) for graph, labels, first in self.layers
        ]


def common(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What two divisions have in common: labels by first appearance, and a node of each."""
    n = one.size
    labels, first, after = (np.empty(n, np.int32) for _ in range(3))
    k = common_parts(one, other, np.full(n, -1, np.int32), labels, first, after)
    return labels, first[:k].copy()


def merging(graph: Graph) -> float:
    """The lowest θ at which no join of two linked nodes, as clusters, lowers the objective."""
    p, q = np.repeat(np.arange(graph.n), np.diff(graph.indptr)), graph.indices
    both = (graph.delta[p] + graph.delta[q] - 2 * graph.data) / (graph.w[p] + graph.w[q])
    terms = graph.delta / graph.w
    return float((terms[p] + terms[q] - both).max(initial=0.0))


def finish(graph: Graph, labels: np.ndarray, theta: float, looks: int) -> Division:
    """2. Until neither nodes nor clusters want to move, or nodes have been looked at so often."""
    now = measure(graph, labels)
    parts = Parts(graph, now.labels, now.cut, now.weight)
    while True:
        _, settled = parts.move(theta, looks, exact=True)
        small = parts.contracted()
        higher = gather(small, theta)
        if higher.k == parts.k:
            return Division(parts.z, small.delta, small.w, settled)
        parts.adopt(higher)


def one_run(graph: Graph, theta: float, rng: np.random.RandomState, looks: int) -> Division:
    """1 and 2."""
    for division in anneal(graph, ladder(graph, theta), rng):
        labels = division.labels
    return finish(graph, labels, theta, looks)


def combine(
    graph: Graph,
    one: Division,
    other: Division,
    theta: float,
    rng: np.random.RandomState,
    looks: int,
) -> Division:
    """3. The best division found whose clusters are made of what both have in common."""
    best = better(theta, one, other)
    pieces, first = common(one.labels, other.labels)
    if first.size == best.k:
        return best
    small, start = contracted(graph, pieces, first.size), best.labels[first]
    found = better(theta, finish(small, start, theta, looks), one_run(small, theta, rng, looks))
    return better(theta, best, finish(graph, found.labels[pieces], theta, looks))


def runs(graph: Graph, effort: float) -> int:
    """How often to start on a graph of this size."""
    usual = min(max(HALF_EDGES_SEARCHED / max(graph.indices.size, 1), 1.0), MOST_RUNS)
    return max(1, round(effort * int(usual)))


def search(
    graph: Graph, theta: float, rng: np.random.RandomState, *, effort: float = 1.0
) -> tuple[Division, list[float]]:
    """The division, and the objective after each run."""
    best = one_run(graph, theta, rng, PATIENCE)
    history = [best.objective(theta)]
    again = 0  # runs that ended where the best one is
    for _ in range(1, runs(graph, effort)):
        other = one_run(graph, theta, rng, PATIENCE)
        again += other.k == best.k and isclose(
            other.objective(theta), history[-1], rel_tol=SAME_OBJECTIVE
        )
        best = combine(graph, best, other, theta, rng, PATIENCE)
        history.append(best.objective(theta))
        again = again if history[-1] == history[-2] else 0
        if again >= AGREEING_RUNS and effort <= 1:  # who asks for more gets it
            break
    return best, history


def least_resolution(graph: Graph, division: Division) -> float:
    """The lowest θ at which no join of two linked clusters lowers the objective."""
    return max(merging(contracted(graph, division.labels, division.k)), THETA_LOWEST)
