"""The graph of nearest neighbours: links, what they weigh, and how dense the rows are."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes.graph.neighbor_kernels import shared_neighbours

REACH, LEAST = 0.7, 8  # neighbours that a cut looks at: so many times the root of the rows, or more


Nearest = tuple[np.ndarray, np.ndarray]  # distances and indices of each row's nearest rows
NearestAmong = Callable[[np.ndarray, int], Nearest]  # the k nearest of some rows among themselves


class KnnGraph(NamedTuple):
    """The graph of the rows and their nearest neighbours."""

    A: sp.csr_array
    flow: np.ndarray  # what each edge counts for where it crosses a boundary
    distance: np.ndarray | None  # to the neighbours; None for a given graph
    nearest: np.ndarray | None  # indices of the neighbours
    recall: float
    cell: np.ndarray | None = None  # of a rounded table: the same for equal rows

    def in_order(self, order: np.ndarray, place: np.ndarray) -> "KnnGraph":
        """The same with its rows in another order; row i comes to `place[i]`."""
        indices, indptr = self.A.indices, self.A.indptr
        edge = sp.csr_array((np.arange(self.A.nnz), indices, indptr), shape=self.A.shape)
        edge = edge[order][:, order]
        edge.sort_indices()
        A = sp.csr_array((self.A.data[edge.data], edge.indices, edge.indptr), shape=edge.shape)
        return KnnGraph(
            A,
            self.flow[edge.data],
            None if self.distance is None else self.distance[order],
            None if self.nearest is None else place[self.nearest[order]],
            self.recall,
            None if self.cell is None else self.cell[order],
        )


def knn_graph(distance: np.ndarray, nearest: np.ndarray, weights: str, recall: float) -> KnnGraph:
    """The graph of rows and their neighbours."""
    A = adjacency(nearest, weights)
    return KnnGraph(A, crossing_weights(A, density(distance)), distance, nearest, recall)


def most_neighbours(n: int) -> int:
    """How many neighbours a cut of n rows looks at."""
    return max(LEAST, round(REACH * np.sqrt(n)))


def narrowed(linked: KnnGraph, weights: str) -> KnnGraph:
    """Only the nearest of the neighbours where rows are few: the others lie beyond gaps."""
    if linked.distance is None or linked.nearest is None:
        return linked
    m = most_neighbours(len(linked.nearest))
    if linked.nearest.shape[1] <= m:
        return linked
    return knn_graph(linked.distance[:, :m], linked.nearest[:, :m], weights, linked.recall)


def adjacency(index: np.ndarray, weights: str) -> sp.csr_array:
    """Rows linked when one is a neighbour of the other.

    Weights: "uniform" is 1 where each is a neighbour of the other, else 1/2; "jaccard" the share of
    neighbours that they have in common.
    """
    n, k = index.shape
    ends = np.sort(index, axis=1).ravel()
    A = sp.csr_array((np.ones(n * k), ends, np.arange(n + 1) * k), (n, n))
    A = sp.csr_array((A + A.T) / 2)
    A.sort_indices()
    if weights == "jaccard":
        A.data = np.empty(A.nnz)
        shared_neighbours(A.indptr, A.indices, index, A.data)
    return A


def density(distance: np.ndarray) -> np.ndarray:
    """log of the rows per volume, up to a constant: k rows in a ball that reaches the k-th.

    The volume goes with the power of the radius that the neighbours' distances show, for all rows
    together (Levina & Bickel 2004).
    """
    positive = distance[distance > 0]
    if not positive.size or distance.shape[1] < 2:
        return np.zeros(len(distance))
    radius = distance[:, -1]
    logs = np.log(np.maximum(distance, positive.min()))
    dimension = 1 / max(float(np.mean(logs[:, -1:] - logs[:, :-1])), 1e-3)
    found = -dimension * np.log(np.maximum(radius, positive.min()))
    return found - np.median(found)


def crossing_weights(A: sp.csr_array, log_density: np.ndarray) -> np.ndarray:
    """What an edge counts for in a profile: the root of the density at its ends."""
    ends = np.repeat(log_density, np.diff(A.indptr)), log_density[A.indices]
    return A.data * np.exp(np.clip((ends[0] + ends[1]) / 4, -30.0, 30.0))


def one_hot(labels: np.ndarray, k: int) -> sp.csr_array:
    """Rows × clusters; rows with the label -1 are in none."""
    rows = np.flatnonzero(labels >= 0)
    return sp.csr_array((np.ones(rows.size), (rows, labels[rows])), (labels.size, k))


def label_equal_rows(labels: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Equal rows get the label of most of them, if every cluster keeps some."""
    cells = one_hot(cell, int(cell.max()) + 1)
    counts = sp.csr_array(cells.T @ one_hot(labels, int(labels.max()) + 1))
    new = np.asarray(counts.argmax(axis=1)).ravel()[cell]
    return new if len(np.unique(new)) == len(np.unique(labels)) else labels


def order_by_density(distance: np.ndarray) -> np.ndarray:
    """Rows from the densest place to the sparsest; of equal rows the one with nearer neighbours."""
    far = mean_distance(distance)
    order = np.argsort(far, kind="stable")
    tied = (np.diff(far[order]) == 0).any()
    return np.lexsort((*distance.T, far)) if tied else order


def mean_distance(distance: np.ndarray) -> np.ndarray:
    """How far a row is from its neighbours, on average."""
    return distance.mean(axis=1) if distance.shape[1] else np.zeros(len(distance))
