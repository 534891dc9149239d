"""One descent of θ over a graph: a division for each θ, each from the one before.

From single nodes and a high θ, where clusters grow slowly and evenly. At each θ whole clusters move
and merge first, on the graph that has one node for each of them. Then *pieces* of clusters move,
the larger ones first, and single nodes last: at a low θ a boundary in the wrong place cannot be
mended node by node, since each step alone costs more than it gains. Pieces are what the clusters
were when there were more of them, as far as their nodes are together still.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from madbayes.graph.cut_kernels import common_parts
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
