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

from madbayes._rows.threads import patient, together
from madbayes.graph.cut_kernels import renumber
from madbayes.graph.levels import (
    CACHED_CLUSTERS,
    FEW_MERGED,
    LOOKS,
    Graph,
    by_cluster,
    contracted,
    reordered,
)
from madbayes.graph.modularity_kernels import rise
from madbayes.graph.search import REORDER_RATIO, Division, common, measure

# The lowest γ. Modularity has γ = 1; far below it only what is far apart is left.
GAMMA_COARSEST = 2.0**-2.5
# The highest γ is n/NODES_PER_GAMMA, and at least GAMMA_FINEST. Communities of s nodes have the
# highest likelihood at γ = (n/s)/log(ω_in/ω_out), and the logarithm is 5 to 7 where they are
# clear: so communities of about ten nodes are found. With 16 a fit takes a third longer for the
# same NMI.
NODES_PER_GAMMA = 64
GAMMA_FINEST = 2.0**4
# Half-edges from which on only the nodes of clusters that have merged are asked at the next γ.
MANY_HALF_EDGES = 100_000


def resolutions(graph: Graph, step: float) -> np.ndarray:
    """γ of the levels, from fine to coarse, each `step` times the next."""
    top = max(GAMMA_FINEST, graph.n / NODES_PER_GAMMA)
    return GAMMA_COARSEST * step ** np.arange(
        int(np.log(top / GAMMA_COARSEST) / np.log(step)), -1, -1
    )


def ladder(graph: Graph, gammas: np.ndarray, runs: int) -> list[Division]:
    """1 to 3. A division for each γ."""
    found = list(descend(graph, gammas))
    for seed in range(1, runs):
        for i, labels in enumerate(another_run(graph, gammas, seed)):
            found[i] = measure(graph, combined(graph, gammas[i], found[i].labels, labels))
    return found


def polished(graph: Graph, gammas: np.ndarray, labels: np.ndarray, runs: int) -> np.ndarray:
    """3. A division at the last γ, combined with so many runs."""

    def last(seed: int) -> np.ndarray:
        *_, found = another_run(graph, gammas, seed)
        return found

    for found in together(last, range(2, runs + 2)):
        labels = combined(graph, gammas[-1], labels, found)
    return labels


def another_run(graph: Graph, gammas: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """1 and 2, nodes in another order: labels for each γ."""
    order = np.random.RandomState(seed).permutation(graph.n).astype(np.int32)
    shuffled, place = reordered(graph, order)
    return (division.labels[place] for division in descend(shuffled, gammas))


def descend(graph: Graph, gammas: np.ndarray) -> Iterator[Division]:
    """1 and 2. A division for each of falling γ, each from the one before.

    Of many edges only the nodes of clusters that have merged are asked whether they move. Nodes are
    put in the order of their clusters now and then, so that neighbours are near in memory.
    """
    labels, small = np.arange(graph.n, dtype=np.int32), graph  # whose nodes are the clusters
    many, place, sorted_by = graph.indices.size > MANY_HALF_EDGES, np.arange(graph.n), graph.n
    for gamma in gammas:
        higher = gather(small, gamma)
        k = int(higher.max(initial=-1)) + 1
        merged, single = np.bincount(higher, minlength=1) > 1, small is graph
        labels = higher[labels]
        if many and REORDER_RATIO * k < sorted_by and sorted_by > CACHED_CLUSTERS:
            order = by_cluster(labels, k)[1]
            graph, moved_to = reordered(graph, order)
            labels, place, sorted_by = labels[order], moved_to[place], k
        moves = 0
        if not single and (merged.any() or not many):
            labels, moves = moved(graph, labels, gamma, merged[labels] if many else None)
        if moves or single:
            small = contracted(graph, labels, int(labels.max(initial=-1)) + 1)
        elif k < small.n:
            small = contracted(small, higher, k)
        yield Division(labels[place], small.delta, small.w)


def gather(graph: Graph, gamma: float = 1.0) -> np.ndarray:
    """1. From single nodes, moves and merges on as many levels as it takes."""
    labels = moved(graph, np.arange(graph.n), gamma)[0]
    k = int(labels.max(initial=-1)) + 1
    if graph.n - k > FEW_MERGED * graph.n:
        higher = gather(contracted(graph, labels, k), gamma)
        if higher.max() + 1 < k:
            labels = moved(graph, higher[labels], gamma)[0]
    return labels


def moved(
    graph: Graph, labels: np.ndarray, gamma: float = 1.0, asked: np.ndarray | None = None
) -> tuple[np.ndarray, int]:
    """Nodes move while that raises the modularity, first those `asked`: labels without gaps, and
    how many moves."""
    z = labels.astype(np.int32)
    sums = np.zeros((graph.n, 2))
    sums[:, 0] = np.bincount(z, graph.w, minlength=graph.n)
    asked = np.ones(graph.n, np.uint8) if asked is None else asked.astype(np.uint8)
    there, brief = np.empty(graph.n, np.int32), graph.is_brief(LOOKS)
    moves = patient(rise, *graph[:3], graph.w, z, sums, there, gamma, asked, brief=brief)
    renumber(z, np.full(graph.n, -1, np.int32))
    return z, moves


def combined(graph: Graph, gamma: float, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """3. The best division found whose clusters are made of what both have in common."""
    pieces, first = common(one, other)
    both = moved(graph, gather(contracted(graph, pieces, first.size), gamma)[pieces], gamma)[0]
    return max((one, other, both), key=lambda labels: modularity(graph, labels, gamma))


def modularity(graph: Graph, labels: np.ndarray, gamma: float = 1.0) -> float:
    """Q_γ, the weights of nodes taken for their degrees."""
    if not graph.n:
        return 0.0
    ends = np.repeat(labels, np.diff(graph.indptr))
    inside = graph.data[ends == labels[graph.indices]].sum() + (graph.w - graph.delta).sum()
    share = np.bincount(labels, graph.w) / graph.w.sum()
    return float(inside / graph.w.sum() - gamma * (share**2).sum())
