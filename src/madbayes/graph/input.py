"""Graphs of any kind into CSR: matrices, edge lists, and networkx, igraph and AnnData objects,
which are known by their methods."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from madbayes._rows.checks import check_pattern
from madbayes.graph.levels import Graph


def check_graph(X: Any, estimator: BaseEstimator | None = None) -> sp.csr_array:
    """The adjacency of an undirected graph: square, symmetric, finite, no weight below 0.

    Of a directed graph it is A + A.T, with a warning: a cut does not know directions.
    """
    rules = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_features": 1}
    A = check_pattern(read_graph(X)[0])
    A = check_array(A, **rules) if estimator is None else validate_data(estimator, A, **rules)
    if A.shape[0] != A.shape[1]:
        raise ValueError(
            f"the adjacency has shape {A.shape} and must be square: entry (i, j) is the weight of "
            "the edge between nodes i and j. For rows of features make a graph first, for example "
            "with sklearn.neighbors.kneighbors_graph. For links between two kinds of nodes (a "
            "bipartite graph) pass the graph of one kind: B @ B.T without its diagonal."
        )
    A = sp.csr_array(A)
    if not A.has_canonical_format or not A.data.all():
        A = A.copy()  # the caller's own is not touched
        A.sum_duplicates()
        A.eliminate_zeros()
    if A.nnz and A.data.min() < 0:
        i, j, value = entry(A, int(A.data.argmin()))
        raise ValueError(
            f"Negative values in data: the edge ({i}, {j}) has weight {value:g}. A cut is a sum of "
            "weights, so they must be >= 0; leave such edges out, or shift the weights."
        )
    T = A.T.tocsr()
    if all(np.array_equal(getattr(A, x), getattr(T, x)) for x in ("indptr", "indices", "data")):
        return A
    difference = abs(A - T)
    if difference.nnz:
        i, j, _ = entry(difference, int(difference.data.argmax()))
        if difference.data.max() > 1e-8 * A.data.max():  # more than rounding
            warnings.warn(
                f"the adjacency is not symmetric: ({i}, {j}) is {A[i, j]:g} and ({j}, {i}) is "
                f"{A[j, i]:g}. A cut needs an undirected graph, so A + A.T is used: an edge and "
                "its reverse add up. For the larger of the two pass A.maximum(A.T) (dense: "
                "np.maximum(A, A.T)).",
                UserWarning,
                stacklevel=3,
            )
            loops = sp.dia_array((A.diagonal()[None], [0]), shape=A.shape)
            return sp.csr_array(A + T - loops)  # a loop has no direction: it counts once
        A = sp.csr_array((A + T) / 2)
    return A


def entry(A: sp.csr_array, position: int) -> tuple[int, int, float]:
    """Row, column and value of a stored entry."""
    row = int(np.searchsorted(A.indptr, position, side="right")) - 1
    return row, int(A.indices[position]), float(A.data[position])


def read_graph(X: Any) -> tuple[Any, list[Any] | None]:
    """The adjacency, and what the graph calls its nodes: of an edge list in the order in which they
    first appear, of a graph object in its own order. A matrix is given back as it is, without
    names."""
    sides: set[Any] = set()
    place: dict[Any, int] = {}
    if hasattr(X, "obsp"):  # AnnData
        if "connectivities" not in X.obsp:
            raise ValueError(
                "the AnnData object has no graph: obsp['connectivities'] is missing. "
                "scanpy.pp.neighbors(adata) makes it."
            )
        return X.obsp["connectivities"], list(X.obs_names)
    if isinstance(X, list) and X and all(type(e) is tuple and 1 < len(e) < 4 for e in X):
        names = list(dict.fromkeys(node for edge in X for node in edge[:2]))
        edges = [edge if len(edge) == 3 else (*edge, 1) for edge in X]
    elif hasattr(X, "adj") and hasattr(X, "number_of_nodes"):  # networkx
        names, edges = list(X), list(X.edges(data="weight", default=1))
        sides = {kind for _, kind in X.nodes(data="bipartite")} if callable(X.nodes) else set()
    elif hasattr(X, "get_edgelist") and hasattr(X, "vcount"):  # igraph
        known = X.vs.attributes()
        names = list(X.vs["name"]) if "name" in known else list(range(X.vcount()))
        sides = set(X.vs["type"]) if "type" in known else set()
        weights = X.es["weight"] if "weight" in X.es.attributes() else [1] * X.ecount()
        edges = [(u, v, w) for (u, v), w in zip(X.get_edgelist(), weights, strict=True)]
        place = {i: i for i in range(len(names))}  # several nodes can have one name
    else:
        return X, None
    if sides in ({0, 1}, {False, True}):
        raise ValueError(
            "the graph is bipartite: its nodes are of two kinds (node attribute 'bipartite' in "
            "networkx, vertex attribute 'type' in igraph), and links inside of a kind are missing. "
            "Project it to one kind first, with networkx.bipartite.weighted_projected_graph or "
            "bipartite_projection() of igraph; or remove the attribute to divide both kinds "
            "together."
        )
    if not isinstance(X, list) and X.is_directed():
        warnings.warn(
            "the graph is directed, and a cut needs an undirected one: directions are left out, "
            "and the weights of an edge and its reverse are added.",
            UserWarning,
            stacklevel=3,
        )
    place = place or {node: i for i, node in enumerate(names)}
    u, v = (np.array([place[edge[end]] for edge in edges], np.int64) for end in (0, 1))
    weight = np.array([edge[2] for edge in edges], np.float64)
    return from_edges(u, v, weight, len(names)), names


def is_edge_list(X: Any) -> bool:
    """A list of tuples (node, node) or (node, node, weight); rows of a matrix are no tuples."""
    return isinstance(X, list) and bool(X) and all(type(e) is tuple and 1 < len(e) < 4 for e in X)


def node_names(X: Any) -> list[Any] | None:
    """What a graph calls its nodes: of an edge list as they first appear, of a graph object in its
    own order; None of a matrix."""
    if is_edge_list(X):
        return list(dict.fromkeys(node for edge in X for node in edge[:2]))
    if hasattr(X, "obsp") and hasattr(X, "obs_names"):  # AnnData
        return list(X.obs_names)
    if hasattr(X, "adj") and hasattr(X, "number_of_nodes"):  # networkx
        return list(X)
    if hasattr(X, "get_edgelist") and hasattr(X, "vcount"):  # igraph
        return list(X.vs["name"]) if "name" in X.vs.attributes() else list(range(X.vcount()))
    return None


def from_edges(u: np.ndarray, v: np.ndarray, weight: np.ndarray, n: int) -> sp.csr_array:
    """Each edge in both directions, loops once, repeated edges added up."""
    apart = u != v
    rows, columns = np.r_[u, v[apart]], np.r_[v, u[apart]]
    return sp.coo_array((np.r_[weight, weight[apart]], (rows, columns)), shape=(n, n)).tocsr()


def connected_part(A: sp.csr_array, cut: str) -> tuple[Graph, np.ndarray]:
    """The graph of the nodes that have an edge (a loop counts), and which nodes these are."""
    if cut == "normalized" and A.nnz:  # conductance has no unit; a power of two does not round
        power = int(np.frexp(A.data.max())[1])
        A = sp.csr_array((np.ldexp(A.data, -power), A.indices, A.indptr), shape=A.shape)
    with np.errstate(over="ignore"):
        degree = np.asarray(A.sum(axis=1)).ravel()
        total = degree.sum()
    if A.nnz and not 1e-280 < total < 1e280:
        raise ValueError(
            f"the weights of the edges add up to {total:g}, too near the limits of float64. Divide "
            "them by a number; for cut='ratio' the resolution is in the same unit."
        )
    used = np.flatnonzero(degree > 0)
    if used.size < degree.size:
        A, degree = A[used][:, used], degree[used]
    loops, kind = A.diagonal(), np.float32 if halved(A.data) else np.float64
    if loops.any():
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        apart = rows != A.indices
        A = sp.csr_array((A.data[apart], (rows[apart], A.indices[apart])), shape=A.shape)
    delta = np.asarray(A.sum(axis=1)).ravel().astype(np.float64)
    return Graph(
        np.require(A.indptr, np.int64, ["C", "W"]),
        np.require(A.indices, np.int32, ["C", "W"]),
        np.require(A.data, kind, ["C", "W"]),
        delta,
        delta + loops if cut == "normalized" else np.ones(used.size),
    ), used


def halved(data: np.ndarray) -> bool:
    """Whether float32 holds these weights and all their sums exactly, as those of plain edges."""
    total = data.sum()
    if not 2.0**-60 < total < 2.0**60:
        return False
    parts = 2.0 ** np.floor(24 - np.log2(total))  # of 1: the sum has no more than 2**24 of them
    each = (parts * data[at : at + 2**16] for at in range(0, data.size, 2**16))
    return all((x == np.rint(x)).all() for x in each)


def links_kept(A: sp.csr_array, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weight of all links of each node, and of those that stay in its cluster."""
    degree = np.asarray(A.sum(axis=1)).ravel()
    inside = np.repeat(labels, np.diff(A.indptr)) == labels[A.indices]
    kept = np.add.reduceat(np.r_[A.data * inside, 0.0], np.minimum(A.indptr[:-1], A.nnz))
    kept[np.diff(A.indptr) == 0] = 0.0
    return degree, kept
