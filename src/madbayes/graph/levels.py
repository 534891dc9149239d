"""A graph on many levels: nodes move, clusters become the nodes of a smaller graph, and so on.

`search.py` (penalized cuts) and `planted.py` (modularity) descend from fine to coarse divisions by
the same steps. They differ in the price of clusters and in the kernel that moves nodes (`Move`).

1. *Gather.* From single nodes: nodes move, the clusters become the nodes of a smaller graph, and so
   on; then back, nodes moving on each level (Blondel et al. 2008, Rotta & Noack 2011).
2. *Descend.* At each lower price the clusters of the price before merge and move first. Then
   *pieces* of clusters move, the larger ones first, and single nodes last: a boundary in the wrong
   place cannot be mended node by node, since each step alone costs more than it gains. Pieces are
   what the clusters were when there were more of them, as far as their nodes are together still.

On the way back those nodes are asked whose clusters merged above, and always the neighbours of
those that moved. A sweep takes nodes in the order in which they lie in memory: any other order is
slow where the graph is larger than the cache (docs/adr/0011).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes.graph.cut_kernels import common_parts, contract, reorder, sort_nodes

# Looks at each node, on average, before going on to the next θ. With 2 a fit is up to a tenth
# faster, and the objective 0.01 to 0.09 % higher.
LOOKS = 4


class Graph(NamedTuple):
    """Symmetric CSR without diagonal, links to others and weight of each node."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    delta: np.ndarray
    w: np.ndarray

    @property
    def n(self) -> int:
        return int(self.w.size)

    def matrix(self) -> sp.csr_array:
        """The links as a matrix; it shares their memory."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=(self.n, self.n))

    def is_brief(self, looks: int) -> bool:
        """Whether so many looks at each node are done before anybody presses Ctrl-C."""
        return self.indices.size * looks < 2**22

    @property
    def unit(self) -> float:
        """Links per weight, 1 for degrees without loops: what θ is compared with."""
        return float(self.delta.sum() / self.w.sum()) or 1.0 if self.n else 1.0


@dataclass(frozen=True)
class Division:
    """Labels 0 … k-1, and what each cluster cuts and weighs.

    Moves that raise the modularity leave the cut as it was: they need only weights.
    """

    labels: np.ndarray
    cut: np.ndarray
    weight: np.ndarray
    settled: bool = False  # no move of a node and no merge lowers the penalized cut

    @property
    def k(self) -> int:
        return int(self.weight.size)

    @property
    def terms(self) -> np.ndarray:
        return self.cut / self.weight

    def objective(self, theta: float) -> float:
        return float(self.terms.sum()) - theta * self.k

    def on(self, nodes: np.ndarray) -> "Division":
        """This division of the `nodes`, which are parts of its own nodes or some of them."""
        return Division(self.labels[nodes], self.cut, self.weight)


# A graph, a division, a price, the nodes that are asked first (None: all) to a division and the
# number of moves.
Move = Callable[[Graph, Division, float, np.ndarray | None], tuple[Division, int]]


def single(graph: Graph) -> Division:
    """Each node a cluster."""
    return Division(np.arange(graph.n, dtype=np.int32), graph.delta, graph.w)


def by_cluster(labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the nodes of each cluster begin in the order of clusters, and that order."""
    start, order = np.zeros(k + 1, np.int64), np.empty(labels.size, np.int32)
    sort_nodes(labels, start, order)
    return start, order


def contracted(graph: Graph, labels: np.ndarray, k: int) -> Graph:
    """The graph whose nodes are the clusters."""
    size = graph.indices.size
    indptr, indices, data = no_links(k, size + 1, graph.data.dtype)  # one more for what is within
    sums, (start, order) = np.empty((2, k)), by_cluster(labels, k)
    room = np.full(k, -1, np.int32), np.empty(graph.n, np.int32)
    filled = contract(*graph[:3], graph.w, labels, start, order, *room, indptr, indices, data, sums)
    return Graph(indptr, indices[:filled], data[:filled], *sums)


def no_links(n: int, size: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for a graph of n nodes."""
    return np.zeros(n + 1, np.int64), np.empty(size, np.int32), np.empty(size, dtype)


def reordered(graph: Graph, order: np.ndarray) -> tuple[Graph, np.ndarray]:
    """The graph with its nodes in this order, and where each of them is."""
    place = np.empty_like(order)
    place[order] = np.arange(graph.n, dtype=np.int32)
    links = no_links(graph.n, graph.indices.size, graph.data.dtype)
    np.cumsum(np.diff(graph.indptr)[order], out=links[0][1:])
    reorder(*graph[:3], order, place, *links)
    return Graph(*links, graph.delta[order], graph.w[order]), place


def common(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What two divisions have in common: labels by first appearance, and a node of each."""
    labels, first, after = (np.empty(one.size, np.int32) for _ in range(3))
    head = np.full(one.max(initial=-1) + 1, -1, np.int32)
    k = common_parts(one, other, head, labels, first, after)
    return labels, first[:k].copy()


def gather(graph: Graph, price: float, move: Move, *, levels: bool = True) -> Division:
    """1. From single nodes, moves and merges on as many levels as it takes, or on one."""
    found, _ = move(graph, single(graph), price, None)
    if levels and graph.n - found.k > 0.05 * graph.n:  # fewer merges do not repay a contraction
        higher = gather(contracted(graph, found.labels, found.k), price, move)
        if higher.k < found.k:
            merged = np.bincount(higher.labels) > 1
            found = higher.on(found.labels)
            found, _ = move(graph, found, price, merged[found.labels])
    return found


def descend(
    graph: Graph,
    prices: Iterable[float],
    move: Move,
    *,
    merging: Callable[[Graph], float] = lambda graph: np.inf,
    ask_all: bool = True,
    large: int = 2**18,
    cached: int = 8192,
) -> Iterator[Division]:
    """2. A division for each of falling prices, each from the one before.

    `merging` says below which price the next two nodes of a graph merge; it saves time where most
    prices have no merge. Unless `ask_all`, only nodes of clusters that merged are asked at the next
    price, if no piece moved; and once fewer than 1 % of the nodes move at a price, the smallest
    pieces are the nodes from then on.

    In graphs of `large` half-edges the first merge is on one level, since the next price goes on
    from there; with all levels a fit of a million edges takes a fifth longer. More than `cached`
    clusters have sums that the cache does not hold. Then nodes are put in the order of their
    clusters now and then, so that neighbours are near in memory.
    """
    place = np.arange(graph.n, dtype=np.int32)  # nodes are reordered now and then
    pieces = Pieces(graph.n, 3 if ask_all else 1)
    now, small = single(graph), graph  # nodes of `small` are the clusters
    merges, sorted_by = np.inf, graph.n
    for price in prices:
        if price < merges:
            levels = small is not graph or graph.indices.size < large
            higher = gather(small, price, move, levels=levels)
            moves, few = 0, False
            if higher.k == now.k:
                merges = merging(small)
            elif small is graph:
                now, moves = higher, 1
            else:
                merged = np.bincount(higher.labels) > 1
                now = higher.on(now.labels)
                now, moves = pieces.move(now, price, move)
                asked = None if ask_all or moves else merged[now.labels]
                now, more = move(graph, now, price, asked)
                moves, few = moves + more, more < 0.01 * graph.n and not ask_all
            if 4 * now.k < sorted_by and sorted_by > cached:
                sorted_by = now.k
                order = by_cluster(now.labels, now.k)[1]
                graph, moved_to = reordered(graph, order)
                now = Division(now.labels[order], now.cut, now.weight)
                pieces.reorder(order, moved_to)
                place = moved_to[place]
            if moves:
                small = pieces.contracted(graph, now)
            elif higher.k < small.n:
                small = contracted(small, higher.labels, higher.k)
            now = Division(now.labels, small.delta, small.w)
            pieces.remember(now)
            if few and pieces.layers:
                graph, labels, first = pieces.take_smallest()
                now, place = now.on(first), labels[place]
        yield now.on(place)


class Layer(NamedTuple):
    """Pieces of clusters: their graph, the piece of each node, a node of each piece."""

    graph: Graph
    labels: np.ndarray
    first: np.ndarray


class Pieces:
    """Clusters as they were at several prices before, cut where the present ones are.

    Without pieces the penalized cut is higher for 21 of 56 pairs of graph and θ, and lower for 2.
    """

    def __init__(self, n: int, depth: int) -> None:
        self.depth = depth  # layers
        self.before: list[np.ndarray] = []  # from fine to coarse
        self.layers: list[Layer] = []  # the same
        self.k = n  # clusters when they were last remembered

    def remember(self, now: Division) -> None:
        """Keep one division more than layers, each with 1.5 times as many clusters as the next.

        Pieces of fewer than four nodes on average would make a layer as large as the graph.
        """
        if 1.5 * now.k < self.k and 4 * now.k < now.labels.size:
            self.k = now.k
            self.before = [*self.before[-self.depth :], now.labels]

    def move(self, now: Division, price: float, move: Move) -> tuple[Division, int]:
        """Pieces move, the larger ones first: the division, and how many moves."""
        if not self.layers:
            return now, 0
        moves, moved = 0, now.on(self.layers[-1].first)
        for i, layer in reversed(list(enumerate(self.layers))):
            moved, more = move(layer.graph, moved, price, None)
            moves += more
            if i:
                moved = moved.on(layer.labels[self.layers[i - 1].first])
        return (moved.on(self.layers[0].labels), moves) if moves else (now, 0)

    def contracted(self, graph: Graph, now: Division) -> Graph:
        """The graph of the clusters, by way of their pieces."""
        z, cuts = now.labels, []
        for before in self.before[-2::-1]:
            z, first = common(before, z)
            cuts.append((z, first))
        at: slice | np.ndarray = slice(None)
        self.layers = []
        for labels, first in reversed(cuts):
            graph = contracted(graph, labels[at], first.size)
            self.layers.append(Layer(graph, labels, first))
            at = first
        return contracted(graph, now.labels[at], now.k)

    def take_smallest(self) -> Layer:
        """The smallest pieces, which are nodes from now on."""
        smallest, *layers = self.layers
        _, labels, first = smallest
        self.before = [before[first] for before in self.before[1:]]
        self.layers = [Layer(each.graph, each.labels[first], labels[each.first]) for each in layers]
        return smallest

    def reorder(self, order: np.ndarray, place: np.ndarray) -> None:
        """Nodes were put in another order: node i is at `place[i]` now."""
        self.before = [labels[order] for labels in self.before]
        self.layers = [
            Layer(graph, labels[order], place[first]) for graph, labels, first in self.layers
        ]
