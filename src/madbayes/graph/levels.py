"""A graph on many levels: nodes move, clusters become the nodes of a smaller graph, and so on.

On the way up all nodes of a level are asked, on the way back those whose clusters merged above, and
always the neighbours of those that moved. A sweep takes nodes in the order in which they lie
in memory: any other order is slow where the graph is larger than the cache (docs/adr/0011).
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes._rows.threads import patient
from madbayes.graph.cut_kernels import (
    CUT,
    WEIGHT,
    close_gaps,
    contract,
    count_nodes,
    reorder,
    settle,
    sort_nodes,
)

# Looks at each node, on average, before going on to the next θ. With 2 a fit is up to a tenth
# faster, and the objective 0.01 to 0.09 % higher.
LOOKS = 4
# Share of the nodes: if fewer merged, another level is not worth its contraction.
FEW_MERGED = 0.05
# Half-edges of a graph whose first merge is on one level, since the next θ goes on from there. With
# all levels a fit of a million edges takes a fifth longer.
LARGE_GRAPH = 2**18
# Clusters whose sums the cache holds, whatever the order of the nodes.
CACHED_CLUSTERS = 8192


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


class Parts:
    """A division on the move: labels 0 … k-1; what clusters cut and weigh, their number of nodes.

    `sums` and `N` have a slot for each node of the graph, so that nodes can leave.
    """

    def __init__(
        self, graph: Graph, labels: np.ndarray, cut: np.ndarray, weight: np.ndarray
    ) -> None:
        self.graph, self.z = graph, labels
        whole = np.int32
        self.sums, self.N = np.empty((graph.n, 4)), np.empty(graph.n, whole)
        self.room = np.empty(graph.n, whole), np.empty(graph.n), np.empty(graph.n, whole)
        self._count(cut, weight)

    @classmethod
    def single(cls, graph: Graph) -> "Parts":
        """Each node a cluster."""
        return cls(graph, np.arange(graph.n, dtype=np.int32), graph.delta, graph.w)

    def _count(self, cut: np.ndarray, weight: np.ndarray) -> None:
        self.k = weight.size
        count_nodes(self.z, self.k, cut, weight, self.sums, self.N)

    def move(
        self, theta: float, looks: int, asked: np.ndarray | None = None, *, exact: bool = False
    ) -> tuple[int, bool]:
        """Nodes move while that lowers F, first those `asked`: how often, and if no other would."""
        graph = self.graph
        if asked is None:
            asked = np.ones(graph.n, np.uint8)
        state = self.z, self.sums, self.N, self.k, *self.room
        limit = looks * graph.n
        moves, settled = patient(
            settle, *graph, *state, theta, asked, exact, limit, brief=graph.is_brief(looks)
        )
        if moves:
            self.k = close_gaps(self.z, self.sums, self.N, self.room[2])
        return moves, settled

    def adopt(self, higher: "Parts") -> None:
        """Merge clusters as `higher` has them."""
        self.z = higher.z[self.z]
        self._count(*higher.cut_and_weight())

    def cut_and_weight(self) -> tuple[np.ndarray, np.ndarray]:
        return self.sums[: self.k, CUT].copy(), self.sums[: self.k, WEIGHT].copy()

    def contracted(self) -> Graph:
        return contracted(self.graph, self.z, self.k)

    def tidy(self) -> np.ndarray:
        """Nodes in the order of their clusters, for the cache's sake; returns where each went."""
        _, order = by_cluster(self.z, self.k)
        self.graph, place = reordered(self.graph, order)
        self.z = self.z[order]
        return place


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


def gather(graph: Graph, theta: float, *, levels: bool = True) -> Parts:
    """From single nodes, moves and merges on as many levels as it takes, or on one."""
    parts = Parts.single(graph)
    parts.move(theta, LOOKS)
    if levels and graph.n - parts.k > FEW_MERGED * graph.n:
        higher = gather(parts.contracted(), theta)
        if higher.k < parts.k:
            parts.adopt(higher)
            merged = (higher.N[: higher.k] > 1).view(np.uint8)
            parts.move(theta, LOOKS, merged[parts.z])
    return parts
