"""Where the nodes of a graph are drawn: every community a disc, linked ones near each other."""

import numpy as np
import scipy.sparse as sp

MOST_EDGES = 6000  # that are drawn
ROUNDS = 150  # of the spring layout
MOST_DISCS = 300  # communities that springs arrange; their time grows with the square
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))  # points at this angle, √i from the middle, fill a disc


def network(
    graph: sp.csr_array, labels: np.ndarray, drawn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the `drawn` nodes, and the edges between them as pairs of positions in `drawn`.

    Of many edges an even selection is drawn. Nodes without a community form a disc of their own.
    """
    own = np.where(labels < 0, labels.max() + 1, labels)
    k = int(own.max()) + 1
    member = sp.csr_array((np.ones(len(own)), (np.arange(len(own)), own)))
    sizes = np.bincount(own, minlength=k)
    by_size = np.argsort(-sizes, kind="stable")
    large, small = np.sort(by_size[:MOST_DISCS]), by_size[MOST_DISCS:]
    member = member[:, large]
    centers = np.empty((k, 2))
    centers[large] = spring_layout((member.T @ graph @ member).toarray(), np.sqrt(sizes[large]))
    centers[small] = around(centers[large], np.sqrt(sizes[large]), np.sqrt(sizes[small]))
    degree = np.asarray(graph.sum(axis=1)).ravel()
    order = np.lexsort([-degree, own])  # within a community the best connected are in the middle
    rank = np.empty(len(own))
    rank[order] = np.arange(len(own)) - np.r_[0, np.cumsum(sizes)][own[order]]
    angle, radius = GOLDEN_ANGLE * rank, np.sqrt(rank + 0.5)
    points = centers[own] + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    place = np.full(len(own), -1)
    place[drawn] = np.arange(len(drawn))
    upper = sp.triu(graph, 1).tocoo()
    ends = np.column_stack([place[upper.row], place[upper.col]])
    ends = ends[(ends >= 0).all(axis=1)]
    keep = np.linspace(0, len(ends) - 1, min(len(ends), MOST_EDGES)).astype(np.int64)
    return points[drawn], ends[keep]


def around(centers: np.ndarray, radius: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Where further discs of the radii `others` lie: in a spiral around the given discs."""
    middle = centers.mean(axis=0)
    inner = float((np.linalg.norm(centers - middle, axis=1) + radius).max())
    width = 1.5 * (1 + others.max(initial=0.0))  # of the spiral, so that its discs do not touch
    turn = np.arange(len(others))
    far = np.sqrt((inner + width) ** 2 + width**2 * turn)
    angle = GOLDEN_ANGLE * turn
    return middle + far[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def spring_layout(weight: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Discs of these radii: linked ones attract, all repel (Fruchterman & Reingold 1991).

    A disc counts as far away as its rim is, so that discs do not overlap.
    """
    k = len(radius)
    angle = 2 * np.pi * np.arange(k) / max(k, 1)
    unit = 2.5 * float(radius.mean()) + 1.0
    at = unit * np.sqrt(k) * np.column_stack([np.cos(angle), np.sin(angle)])
    linked = weight / np.sqrt(np.outer(weight.sum(axis=1), weight.sum(axis=1)) + 1e-300)
    np.fill_diagonal(linked, 0.0)
    touch = radius[:, None] + radius
    for step in np.linspace(unit, 0.02 * unit, ROUNDS):
        apart = at[:, None] - at
        far = np.sqrt((apart**2).sum(axis=2)) + 1e-9
        gap = np.maximum(far - touch, 0.05 * unit)
        force = unit**2 / gap - linked * gap**2 / unit * k - 0.02 * gap
        np.fill_diagonal(force, 0.0)
        move = (force / far)[:, :, None] * apart
        push = move.sum(axis=1)
        size = np.sqrt((push**2).sum(axis=1, keepdims=True)) + 1e-9
        at = at + push / size * np.minimum(size, step)
    return at
