"""Pieces of a graph of neighbours, joined where no valley is; and the same for other neighbours."""

import numpy as np

from madbayes.graph.input import connected_part
from madbayes.graph.levels import LOOKS
from madbayes.graph.linking import Linked, link, narrowed
from madbayes.graph.search import Graph, one_run
from madbayes.graph.valleys import PIECES, Joined, join, links_together, staircase


def join_pieces(
    linked: Linked,
    rng: np.random.RandomState,
    effort: float,
    given: tuple[Graph, np.ndarray] | None = None,
) -> Joined:
    """Cut the graph at a high resolution and join the pieces; rows without a link are on their own.

    `given`: the nodes that have links, and their graph, where these are known.
    """
    A = linked.A
    graph, used = given or connected_part(A, "normalized")
    pieces = np.empty(A.shape[0], np.int32)
    first = 0
    if used.size:
        pieces[used] = one_run(graph, PIECES, rng, max(1, round(LOOKS * effort))).labels
        first = int(pieces[used].max()) + 1
    alone = np.setdiff1d(np.arange(A.shape[0]), used)
    pieces[alone] = first + np.arange(alone.size)
    k = None if linked.nearest is None else linked.nearest.shape[1]
    return join(A.indptr, A.indices, A.data, linked.flow, pieces, links_together(A, k))


def other_numbers(
    near: Linked,
    wide: tuple[np.ndarray, np.ndarray],
    n_neighbors: int,
    weights: str,
    rng: np.random.RandomState,
    effort: float,
) -> dict[int, int]:
    """Clusters that two thirds and twice as many neighbours give, where their graph is another one.

    `wide`: distances and places of enough neighbours.
    """
    found, seen = {}, {near.A.nnz}
    for k in (2 * n_neighbors // 3, 2 * n_neighbors):
        distance, place = (each[:, :k] for each in wide)
        if k > 1:
            other = narrowed(link(distance, place, weights, 1.0), weights)
            if other.A.nnz not in seen:
                seen.add(other.A.nnz)
                found[k] = staircase(join_pieces(other, rng, effort), None).best().number
    return found
