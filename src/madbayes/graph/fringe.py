"""What is left aside before communities are looked for, and an order of nodes that follows from the
graph.

*Fringe.* Real graphs have many small pieces that hang on one edge, and small components. Each of
them is well apart from the rest, so that it would be a community of its own at every resolution,
and they may be many more than the communities. So a piece of up to `FRINGE_SIZE` nodes that hangs
on the graph by leaves belongs to the node it hangs on, and a component of up to `FRINGE_SIZE` nodes
is a cluster that is counted apart.

*Order.* Where the order of visits or a draw decides, the answer must not depend on how the nodes
are numbered. So nodes get numbers that follow from the graph: a hash of the degree, refined by the
hashes of the neighbours until no further nodes are told apart (Weisfeiler & Leman 1968). Nodes that
look alike from everywhere keep the given order.
"""

from typing import NamedTuple

import numpy as np

from madbayes.graph.levels import Graph, reordered
from madbayes.graph.modularity_kernels import connect, fold_leaves, surroundings

# Rounds of the hash at most: nodes that differ within so many steps are told apart.
HASH_ROUNDS = 6
# Nodes of a piece that is left aside: a triangle or a short chain says nothing.
FRINGE_SIZE = 5


class Core(NamedTuple):
    """The graph without its fringe, and where each node of the whole graph belongs.

    Attributes
    ----------
    graph : Graph
        Nodes in an order that follows from the graph.
    home : array
        For each node of the whole graph its place in `graph`; below 0 for a node of the component
        ``-1 - home`` that is left aside.
    component : array
        For each node of `graph` its component.
    whole : array
        For each node of the whole graph its component.
    n_aside : int
        Components that are left aside.
    """

    graph: Graph
    home: np.ndarray
    component: np.ndarray
    whole: np.ndarray
    n_aside: int

    def spread(self, labels: np.ndarray) -> np.ndarray:
        """Labels of all nodes, from those of the core; components left aside come last."""
        k = int(labels.max(initial=-1)) + 1
        return np.where(
            self.home >= 0, np.r_[labels, 0][np.maximum(self.home, 0)], k - 1 - self.home
        )


def core_of(graph: Graph) -> Core:
    """The core of a graph. If it has no core, only its small components are left aside."""
    n = graph.n
    component = components(graph)
    small = np.bincount(component, minlength=1)[component] <= FRINGE_SIZE
    root, size = np.arange(n), np.ones(n, np.int64)
    degree = np.diff(graph.indptr)
    room = np.empty(n, np.int64)
    fold_leaves(graph.indptr, graph.indices, FRINGE_SIZE, degree, size, root, room)
    kept = np.flatnonzero((root == np.arange(n)) & ~small)
    order = kept[np.argsort(fingerprint(graph)[kept], kind="stable")]
    place = np.full(n, -1)
    place[order] = np.arange(order.size)
    number = np.cumsum(np.bincount(component[small], minlength=component.max(initial=-1) + 1) > 0)
    home = np.where(small, -number[component], place[root])
    inner = some_nodes(graph, order)
    n_aside = int(number[-1]) if number.size else 0
    return Core(inner, home, component[order], component, n_aside)


def components(graph: Graph) -> np.ndarray:
    """The connected component of each node."""
    component, queue = np.full(graph.n, -1, np.int32), np.empty(graph.n, np.int32)
    connect(graph.indptr, graph.indices, component, queue)
    return component


def some_nodes(graph: Graph, order: np.ndarray) -> Graph:
    """The graph of some nodes alone, in this order."""
    if order.size == graph.n:
        A, loops = reordered(graph, order.astype(np.int32))[0].matrix(), graph.w - graph.delta
    else:
        A, loops = graph.matrix()[order][:, order], graph.w - graph.delta
    A.sort_indices()
    inside = np.asarray(A.sum(axis=1)).ravel().astype(np.float64)
    return Graph(
        A.indptr.astype(np.int64),
        A.indices.astype(np.int32),
        A.data,
        inside,
        inside + loops[order],
    )


def fingerprint(graph: Graph) -> np.ndarray:
    """A number for each node that depends on its surroundings, not on the numbers of nodes."""
    edge = graph.data.astype(np.float64).view(np.uint64)
    h = np.diff(graph.indptr).astype(np.uint64)
    different = 0
    for _ in range(HASH_ROUNDS):
        before, h = h, np.empty_like(h)
        surroundings(graph.indptr, graph.indices, edge, before, h)
        different, seen = 1 + int(np.count_nonzero(np.diff(np.sort(h)))), different
        if different in (seen, h.size):
            break
    return h
