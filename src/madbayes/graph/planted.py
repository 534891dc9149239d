"""Communities by the degree-corrected planted partition, one division for each resolution.

The model: an edge joins nodes i and j with a rate proportional to d_i·d_j, times ω_in if both are
in one community and ω_out if not. For given rates the likelihood is highest where the modularity

    Q_γ = (share of links inside) - γ·Σ_c (degree of c / all degrees)²

is highest, with γ = (ω_in - ω_out)/(log ω_in - log ω_out) (Newman 2016). So γ is the resolution,
and each γ belongs to one strength of communities.

1. *Descend* from single nodes at the highest γ to the lowest (`levels.py`).
2. *Again.* Other runs visit nodes in another order. What two runs agree on becomes one node, and
   the search on that small graph joins the best of both (Ovelgönne & Geyer-Schulz 2012).
"""

from collections.abc import Iterator

import numpy as np

from madbayes._rows.threads import patient, together
from madbayes.graph import levels
from madbayes.graph.cut_kernels import renumber
from madbayes.graph.levels import LOOKS, Division, Graph, common, contracted, reordered
from madbayes.graph.modularity_kernels import rise
from madbayes.graph.search import measure

# The lowest γ. Modularity has γ = 1; communities of very unequal sizes need less.
GAMMA_COARSEST = 2.0**-4.5
# The highest γ is n/NODES_PER_GAMMA, and at least GAMMA_FINEST. Communities of s nodes have the
# highest likelihood at γ = (n/s)/log(ω_in/ω_out), and the logarithm is 5 to 7 where they are
# clear: so communities of about ten nodes are found. With 16 a fit takes a third longer for the
# same NMI.
NODES_PER_GAMMA = 64
GAMMA_FINEST = 2.0**4


def resolutions(graph: Graph, step: float) -> np.ndarray:
    """γ of the levels, from fine to coarse, each `step` times the next."""
    top = max(GAMMA_FINEST, graph.n / NODES_PER_GAMMA)
    return GAMMA_COARSEST * step ** np.arange(
        int(np.log(top / GAMMA_COARSEST) / np.log(step)), -1, -1
    )


def ladder(graph: Graph, gammas: np.ndarray, runs: int) -> list[Division]:
    """1 and 2. A division for each γ."""
    found = list(descend(graph, gammas))
    for seed in range(1, runs):
        for i, labels in enumerate(another_run(graph, gammas, seed)):
            found[i] = measure(graph, combined(graph, gammas[i], found[i].labels, labels))
    return found


def polished(graph: Graph, gammas: np.ndarray, labels: np.ndarray, runs: int) -> np.ndarray:
    """2. A division at the last γ, combined with so many runs; no move of a node raises Q_γ."""

    def last(seed: int) -> np.ndarray:
        *_, found = another_run(graph, gammas, seed)
        return found

    for found in together(last, range(2, runs + 2)):
        labels = combined(graph, gammas[-1], labels, found)
    return raise_modularity(graph, measure(graph, labels), gammas[-1])[0].labels


def another_run(graph: Graph, gammas: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """1, nodes in another order: labels for each γ."""
    order = np.random.RandomState(seed).permutation(graph.n).astype(np.int32)
    shuffled, place = reordered(graph, order)
    return (division.labels[place] for division in descend(shuffled, gammas))


def descend(graph: Graph, gammas: np.ndarray) -> Iterator[Division]:
    """1. A division for each of falling γ."""
    few = graph.indices.size <= 100_000  # of many edges not all nodes are asked at each γ
    return levels.descend(graph, gammas, raise_modularity, ask_all=few)


def raise_modularity(
    graph: Graph, division: Division, gamma: float, asked: np.ndarray | None = None
) -> tuple[Division, int]:
    """Nodes move while that raises the modularity, first those `asked`: the division, its clusters
    by first appearance, and how many moves."""
    n, z = graph.n, division.labels.astype(np.int32)
    sums = np.zeros((n, 2), graph.data.dtype)
    sums[: division.k, 0] = division.weight
    asked = np.ones(n, np.uint8) if asked is None else asked.view(np.uint8)
    there, brief = np.empty(n, np.int32), graph.is_brief(LOOKS)
    moves = patient(rise, *graph[:3], graph.w, z, sums, there, gamma, asked, brief=brief)
    renumber(z, np.full(n, -1, np.int32))
    return Division(z, division.cut, np.bincount(z, graph.w)), moves


def gather(graph: Graph, gamma: float = 1.0) -> np.ndarray:
    """Labels at one γ, from single nodes; no move of a node raises Q_γ."""
    found = levels.gather(graph, gamma, raise_modularity)
    return raise_modularity(graph, found, gamma)[0].labels


def combined(graph: Graph, gamma: float, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """2. The best division found whose clusters are made of what both have in common."""
    pieces, first = common(one, other)
    if first.size == one.max() + 1 == other.max() + 1:
        return one  # both are the same division
    joined = levels.gather(contracted(graph, pieces, first.size), gamma, raise_modularity)
    both = raise_modularity(graph, joined.on(pieces), gamma)[0].labels
    return max((one, other, both), key=lambda labels: modularity(graph, labels, gamma))


def modularity(graph: Graph, labels: np.ndarray, gamma: float = 1.0) -> float:
    """Q_γ, the weights of nodes taken for their degrees."""
    if not graph.n:
        return 0.0
    ends = np.repeat(labels, np.diff(graph.indptr))
    inside = graph.data[ends == labels[graph.indices]].sum() + (graph.w - graph.delta).sum()
    share = np.bincount(labels, graph.w) / graph.w.sum()
    return float(inside / graph.w.sum() - gamma * (share**2).sum())
