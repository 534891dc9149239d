"""Pieces of a graph are merged one pair at a time, the pair with the shallowest valley first.

These are steps 2 to 5 of `valley_test.py`. Pieces never change; a cluster is a chain of pieces.
"""

import heapq
from itertools import chain
from typing import NamedTuple

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes.graph.smoothing_kernels import smoothing_terms
from madbayes.graph.valley_kernels import valleys
from madbayes.graph.valley_test import MergeTree, depth

TERMS = smoothing_terms(100)  # averages along the links
LIMIT = 1000  # nodes of each side that are looked at, those nearest to the boundary
HEIGHT = 0.75  # the quantile that is the height of a side
SPARE = 2.0  # links that are added to middle and side: one more or less is chance
TOGETHER, PARTS = 64, 16  # valleys that a thread measures in one go at least; goes at most


class Room(NamedTuple):
    """The working memory of the kernels, for one thread."""

    where: np.ndarray
    whole: np.ndarray
    real: np.ndarray
    J: np.ndarray
    W: np.ndarray
    V: np.ndarray


class Clusters:
    """The pieces of each cluster. A cluster has the number of its first piece."""

    def __init__(
        self, indptr: np.ndarray, indices: np.ndarray, walk: np.ndarray, flow: np.ndarray,
        piece: np.ndarray, unit: float, layers: float = 0.0,
    ) -> None:  # fmt: skip
        k = int(piece.max(initial=-1)) + 1
        self.layers, self.unit = layers, unit
        self.spare = SPARE * float(walk.mean()) if walk.size else 1.0
        first = np.r_[0, np.cumsum(np.bincount(piece, minlength=k))]
        # Nodes of a piece next to each other; the links of a node stay in their order
        order, place = np.argsort(piece, kind="stable"), np.empty(piece.size, np.uint32)
        place[order] = np.arange(piece.size)
        degree = np.diff(indptr)[order]
        moved = np.r_[0, np.cumsum(degree)]
        edge = np.arange(indices.size) + np.repeat(indptr[:-1][order] - moved[:-1], degree)
        indptr, indices, walk, flow = moved, place[indices[edge]], walk[edge], flow[edge]
        piece = piece[order].astype(np.uint32)
        ends = np.repeat(piece.astype(np.int64), degree), piece[indices]
        both = np.unique((ends[0] * k + ends[1])[ends[0] != ends[1]])
        links = np.searchsorted(both, k * np.arange(k + 1))
        self.linked = both // k, both % k
        linked = self.linked[1].astype(np.uint32)
        self.cluster, self.follows = np.arange(k), np.full(k, -1)
        self.size, self.last = np.diff(first), np.arange(k)
        nodes = min(2 * LIMIT, degree.size)
        self.most = nodes, int(np.sort(degree)[degree.size - nodes :].sum())  # that a kernel takes
        self.given = (
            indptr, indices, walk, flow, piece, first, links, linked,
            self.cluster, self.follows, self.size,
        )  # fmt: skip

    def room(self) -> Room:
        nodes, edges = self.most
        return Room(
            np.full(self.given[0].size - 1, -1, np.int32),
            np.empty((6, nodes + 1), np.uint32),
            np.empty((6, nodes + 1)),
            np.empty(edges + 1, np.uint16),
            np.empty(edges + 1),
            np.empty(edges + 1),
        )

    def depths(self, ones: np.ndarray, others: np.ndarray, room: Room) -> list[float]:
        """2 to 4. z of the valleys between clusters."""
        found = np.empty((3, len(ones)))
        valleys(*self.given, ones, others, LIMIT, self.layers, TERMS, HEIGHT, *room, *found)
        return [depth(a, b, c, self.unit, self.spare) for a, b, c in found.T.tolist()]

    def join(self, a: int, b: int) -> None:
        """Merge cluster b into cluster a: the pieces of b follow those of a."""
        self.follows[self.last[a]] = b
        self.last[a] = self.last[b]
        self.size[a] += self.size[b]
        self.cluster[self.cluster == b] = a


def merge(
    indptr: np.ndarray,
    indices: np.ndarray,
    walk: np.ndarray,
    flow: np.ndarray,
    labels: np.ndarray,
    unit: float,
    layers: float = 0.0,
) -> MergeTree:
    """2 to 5, until nothing is linked any more; `unit` links come and go together.

    `layers`: a boundary so long that the nodes that are looked at are fewer layers has no valley.
    """
    clusters = Clusters(indptr, indices, walk, flow, labels, unit, layers)
    k = clusters.size.size
    once = clusters.linked[0] < clusters.linked[1]
    ones, others = (each[once] for each in clusters.linked)
    stage = Stage("valleys between pieces", k)
    go = max(TOGETHER, -(-ones.size // PARTS))
    parts = [slice(i, i + go) for i in range(0, ones.size, go)]
    found = together(lambda part: clusters.depths(ones[part], others[part], clusters.room()), parts)
    pairs = list(zip(ones.tolist(), others.tolist(), strict=True))
    known = dict(zip(pairs, chain.from_iterable(found), strict=True))
    fresh: list[set[int]] = [set() for _ in range(k)]  # measured since both are what they are
    for a, b in pairs:
        fresh[a].add(b)
        fresh[b].add(a)
    neighbours = [each.copy() for each in fresh]
    heap = [(value, *pair, True) for pair, value in known.items()]
    heapq.heapify(heap)
    room = clusters.room()
    joined, order = [], []
    while heap:
        value, a, b, measured = heapq.heappop(heap)
        if known.get((a, b)) != value or (b in fresh[a]) != measured:
            continue
        if not measured:  # one of the two has grown since: it is measured when its turn comes
            value = known[a, b] = clusters.depths(np.array([a]), np.array([b]), room)[0]
            fresh[a].add(b)
            fresh[b].add(a)
            heapq.heappush(heap, (value, a, b, True))
            continue
        joined.append(value)
        order.append((a, b))
        stage.at(len(order))
        clusters.join(a, b)
        del known[a, b]
        fresh[a].discard(b)
        for c in fresh[a]:
            fresh[c].discard(a)
            heapq.heappush(heap, (known[min(a, c), max(a, c)], min(a, c), max(a, c), False))
        fresh[a].clear()
        neighbours[a] |= neighbours[b]
        neighbours[a] -= {a, b}
        for c in neighbours[b] - {a}:
            neighbours[c].discard(b)
            neighbours[c].add(a)
            fresh[c].discard(b)
            pair = min(a, c), max(a, c)
            old = known.pop((min(b, c), max(b, c)))
            if old < known.get(pair, np.inf):
                known[pair] = old
                heapq.heappush(heap, (old, *pair, False))
    return MergeTree(labels, np.array(joined), np.array(order, dtype=np.int64).reshape(-1, 2))
