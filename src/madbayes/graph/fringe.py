"""What is left aside before communities are looked for, and an order of nodes that follows from the
graph.

*Fringe.* Real graphs have many small pieces that hang on one edge, and small components. Each of
them is well apart from the rest, so that it would be a community of its own at every resolution,
and they may be many more than the communities. So a piece of up to `TINY` nodes that hangs on the
graph by leaves belongs to the node it hangs on, and a component of up to `TINY` nodes is a cluster
that is counted apart.

*Order.* Where the order of visits or a draw decides, the answer must not depend on how the nodes
are numbered. So nodes get numbers that follow from the graph: a hash of the degree, refined by the
hashes of the neighbours (Weisfeiler & Leman 1968). Nodes that look alike from everywhere keep the
given order.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from madbayes.graph.levels import Graph, reordered
from madbayes.graph.modularity_kernels import fold_leaves

TINY = 5  # nodes of a piece that is left aside; a triangle or a short chain says nothing
ROUNDS = 6  # of the hash: nodes that differ within so many steps are told apart


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
    n_aside : int
        Components that are left aside.
    """

    graph: Graph
    home: np.ndarray
    component: np.ndarray
    n_aside: int

    def spread(self, labels: np.ndarray) -> np.ndarray:
        """Labels of all nodes, from those of the core; components left aside come last."""
        k = int(labels.max(initial=-1)) + 1
        return np.where(self.home >= 0, np.r_[labels, 0][self.home], k - 1 - self.home)


def core_of(graph: Graph) -> Core:
    """The core of a graph. If it has no core, only its small components are left aside."""
    n = graph.n
    component = components(graph)
    small = np.bincount(component, minlength=1)[component] <= TINY
    root, size = np.arange(n), np.ones(n, np.int64)
    degree = np.diff(graph.indptr)
    room = np.empty(n, np.int64)
    fold_leaves(graph.indptr, graph.indices, TINY, degree, size, root, room)
    kept = np.flatnonzero((root == np.arange(n)) & ~small)
    order = kept[np.argsort(fingerprint(graph)[kept], kind="stable")]
    place = np.full(n, -1)
    place[order] = np.arange(order.size)
    number = np.cumsum(np.bincount(component[small], minlength=component.max(initial=-1) + 1) > 0)
    home = np.where(small, -number[component], place[root])
    inner = some_nodes(graph, order)
    return Core(inner, home, component[order], int(number[-1]) if number.size else 0)


def components(graph: Graph) -> np.ndarray:
    """The connected component of each node."""
    ends = graph.indptr.astype(np.int32)  # SciPy 1.11 takes indices of 32 bits only
    narrow = sp.csr_array((graph.data, graph.indices, ends), shape=(graph.n, graph.n))
    return connected_components(narrow, directed=False)[1]


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
    """A number for each node that depends on its surroundings, not on the numbers of nodes.

    Sums of integers modulo 2⁶⁴ are the same in any order.
    """
    with np.errstate(over="ignore"):
        edge = mixed(graph.data.astype(np.float64).view(np.uint64))
        empty = np.diff(graph.indptr) == 0
        starts = np.minimum(graph.indptr[:-1], max(graph.indices.size - 1, 0))
        h = mixed(np.diff(graph.indptr).astype(np.uint64))
        for _ in range(ROUNDS if graph.indices.size else 0):
            around = np.add.reduceat(mixed(h[graph.indices] ^ edge), starts)
            around[empty] = 0
            h = mixed(h + mixed(around))
    return h


def mixed(x: np.ndarray) -> np.ndarray:
    """Bits well mixed: each bit of the result depends on all bits of x."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))
