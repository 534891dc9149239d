"""Communities by the degree-corrected planted partition, one division for each resolution.

The model: an edge joins nodes i and j with a rate proportional to d_i·d_j, times ω_in if both are
in one community and ω_out if not. For given rates the likelihood is highest where the modularity

    Q_γ = (share of links inside) - γ·Σ_c (degree of c / all degrees)²

is highest, with γ = (ω_in - ω_out)/(log ω_in - log ω_out) (Newman 2016). So γ is the resolution,
and each γ belongs to one strength of communities.

1. *Fine.* From single nodes at the highest γ: nodes move, clusters become the nodes of a smaller
   graph, and so on; then back, nodes moving on each level (Blondel et al. 2008, Rotta & Noack
   2011).
2. *Coarse.* At each lower γ the clusters of the γ before merge and move first, then the nodes.
3. *Again.* Other runs visit nodes in another order. What two runs agree on becomes one node, and
   the search on that small graph joins the best of both (Ovelgönne & Geyer-Schulz 2012).
"""

from collections.abc import Iterator

import numpy as np

from madbayes._rows.threads import patient
from madbayes.graph.cut_kernels import renumber
from madbayes.graph.descent import common
from madbayes.graph.levels import BRIEF, LOOKS, Graph, contracted, reordered
from madbayes.graph.modularity_kernels import rise

COARSEST = 2.0**-2.5  # γ: far below 1, where modularity itself is, only what is far apart is left
FINEST = 2.0**4  # γ of the first level, at least
MEMBERS = 16  # nodes of a community on average: with γ = n/MEMBERS there are about n/MEMBERS
MANY = 100_000  # half-edges from which on not all nodes are asked at each γ
STEP, LARGE_STEP = 2.0**0.5, 2.0  # from one γ to the next; of large graphs


def resolutions(graph: Graph, large: bool) -> np.ndarray:
    """γ of the levels, from fine to coarse."""
    step, top = LARGE_STEP if large else STEP, max(FINEST, graph.n / MEMBERS)
    return COARSEST * step ** np.arange(int(np.log(top / COARSEST) / np.log(step)), -1, -1)


def ladder(graph: Graph, gammas: np.ndarray, runs: int = 1) -> list[np.ndarray]:
    """1 to 3. The best division found for each γ."""
    rng = np.random.RandomState(0)
    each = [list(descend(graph, gammas))]
    for _ in range(1, runs):
        shuffled, place = reordered(graph, rng.permutation(graph.n).astype(np.int32))
        each.append([labels[place] for labels in descend(shuffled, gammas)])
    best = []
    for gamma, found in zip(gammas, zip(*each, strict=True), strict=True):
        best.append(found[0])
        for other in found[1:]:
            best[-1] = combined(graph, gamma, best[-1], other)
    return best


def descend(graph: Graph, gammas: np.ndarray) -> Iterator[np.ndarray]:
    """1 and 2. A division for each of falling γ, each from the one before.

    Of many edges only the nodes of clusters that have merged are asked whether they move, and
    nodes are put in the order of the first clusters, so that neighbours are near in memory.
    """
    labels, small = np.arange(graph.n, dtype=np.int32), graph  # whose nodes are the clusters
    many, place = graph.indices.size > MANY, np.arange(graph.n)
    for i, gamma in enumerate(gammas):
        higher, before = gather(small, gamma), labels
        labels = higher[labels]
        merged = np.bincount(higher, minlength=1) > 1
        if i == 0 and many:
            order = np.argsort(labels, kind="stable").astype(np.int32)
            graph, place = reordered(graph, order)
            labels = labels[order]
        elif i > 0 and (merged.any() or not many):
            labels = moved(graph, labels, gamma, merged[labels] if many else None)
        if merged.any() or not np.array_equal(labels, before):
            small = contracted(graph, labels, int(labels.max(initial=-1)) + 1)
        yield labels[place]


def gather(graph: Graph, gamma: float = 1.0) -> np.ndarray:
    """1. From single nodes, moves and merges on as many levels as it takes."""
    labels = moved(graph, np.arange(graph.n), gamma)
    k = int(labels.max(initial=-1)) + 1
    if k < graph.n:
        higher = gather(contracted(graph, labels, k), gamma)
        if higher.max() + 1 < k:
            labels = moved(graph, higher[labels], gamma)
    return labels


def moved(
    graph: Graph, labels: np.ndarray, gamma: float = 1.0, asked: np.ndarray | None = None
) -> np.ndarray:
    """Nodes move while that raises the modularity, first those `asked`; labels without gaps."""
    z = labels.astype(np.int32)
    W = np.bincount(z, graph.w, minlength=graph.n)
    asked = np.ones(graph.n, np.uint8) if asked is None else asked.astype(np.uint8)
    brief = LOOKS * graph.indices.size < BRIEF
    patient(rise, *graph[:3], graph.w, z, W, np.zeros(graph.n), gamma, asked, brief=brief)
    renumber(z, np.full(graph.n, -1, np.int32))
    return z


def combined(graph: Graph, gamma: float, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """3. The best division found whose clusters are made of what both have in common."""
    pieces, first = common(one, other)
    both = moved(graph, gather(contracted(graph, pieces, first.size), gamma)[pieces], gamma)
    return max((one, other, both), key=lambda labels: modularity(graph, labels, gamma))


def modularity(graph: Graph, labels: np.ndarray, gamma: float = 1.0) -> float:
    """Q_γ, the weights of nodes taken for their degrees."""
    if not graph.n:
        return 0.0
    ends = np.repeat(labels, np.diff(graph.indptr))
    inside = graph.data[ends == labels[graph.indices]].sum() + (graph.w - graph.delta).sum()
    share = np.bincount(labels, graph.w) / graph.w.sum()
    return float(inside / graph.w.sum() - gamma * (share**2).sum())
