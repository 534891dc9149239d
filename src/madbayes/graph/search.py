"""The search for the lowest penalized cut F = Σ_c (cut_c/w_c - θ), by exact moves on many levels.

1. *Anneal.* From single nodes and a high θ, where clusters grow slowly and evenly, down to the
   target. At each θ first whole clusters move and merge (contract each to one node, move those,
   contract again as long as that helps, and back), then single nodes.
2. *Finish.* Single nodes and whole clusters in turn at the target, until no move of a node and no
   merge of two linked clusters lowers F.
3. *Again.* Another run in another order. What both results agree on becomes one node; the search on
   that small graph starts from the better of the two, so it never gets worse. When two runs ended
   where the best one is, no other is made, unless more effort was asked for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isclose

import numpy as np

from madbayes._kernels.graph import cluster_sums, renumber
from madbayes.graph.levels import LOOKS, Graph, Parts, contracted, gather, reordered

TOP = 0.95  # the first θ, in units of links per weight
LOWEST = 1e-4  # the last θ before a target below it, in the same units
STEP = 0.9  # from one θ to the next
PATIENCE = 300  # looks at each node, on average, when it is the last θ
WORK = 450_000  # half-edges × runs that a search is worth
RUNS = 14  # at most
SURE = 2  # runs that end where the best one is: no other is needed
SAME = 1e-12  # objectives as near as this are of one division
TIDY = 4  # times fewer clusters: nodes are put in their order again
CACHED = 8192  # clusters whose sums the cache holds, whatever the order


@dataclass(frozen=True)
class Division:
    """Labels 0 … k-1, and what each cluster cuts and weighs."""

    labels: np.ndarray
    cut: np.ndarray
    weight: np.ndarray
    settled: bool = False  # no move of a node and no merge lowers F

    @property
    def k(self) -> int:
        return int(self.weight.size)

    @property
    def terms(self) -> np.ndarray:
        return self.cut / self.weight

    def objective(self, theta: float) -> float:
        return float(self.terms.sum()) - theta * self.k


NOTHING = Division(np.empty(0, np.int32), np.empty(0), np.empty(0))  # of a graph without nodes


def measure(graph: Graph, labels: np.ndarray) -> Division:
    """A division with sums taken afresh."""
    labels = labels.astype(np.int32)  # a copy
    k = renumber(labels, np.full(int(labels.max()) + 1, -1, np.int32))
    W, cut = np.zeros((2, k))
    cluster_sums(*graph, labels, W, cut)
    return Division(labels, np.maximum(cut, 0.0), W)


def better(theta: float, *found: Division) -> Division:
    return min(found, key=lambda division: division.objective(theta))


def anneal(graph: Graph, thetas: Iterable[float], rng: np.random.RandomState) -> Iterator[Division]:
    """1. A division for each of falling θ, each from the one before."""
    graph, place = reordered(graph, rng.permutation(graph.n).astype(np.int32))
    parts = Parts.single(graph)
    small = graph  # whose nodes are the clusters
    division = Division(place, graph.delta, graph.w)
    merges = np.inf  # θ below which the next two clusters merge, as far as we know
    tidied = graph.n  # clusters when nodes were put in their order
    for theta in thetas:
        if theta < merges:
            higher = gather(small, theta)
            if higher.k == parts.k:
                merges = merging(small)
            elif small is graph:
                parts = higher
                small = parts.contracted()
            else:
                parts.adopt(higher)
                moves, _ = parts.move(theta, LOOKS)
                small = parts.contracted() if moves else higher.contracted()
            division = Division(parts.z[place], small.delta, small.w)
            if TIDY * parts.k < tidied and tidied > CACHED:
                tidied = parts.k
                place = parts.tidy()[place]
        yield division


def ladder(graph: Graph, theta: float) -> list[float]:
    """θ on the way down; the target is the last."""
    top = TOP * graph.unit
    ratio = max(theta / top, LOWEST)
    steps = int(np.ceil(np.log(min(ratio, 1.0)) / np.log(STEP)))
    return [float(top * STEP**step) for step in range(steps)] + [theta]


def finish(graph: Graph, labels: np.ndarray, theta: float, looks: int) -> Division:
    """2. Until neither nodes nor clusters want to move, or nodes have been looked at so often."""
    now = measure(graph, labels)
    parts = Parts(graph, now.labels, now.cut, now.weight)
    while True:
        _, settled = parts.move(theta, looks, exact=True)
        small = parts.contracted()
        higher = gather(small, theta)
        if higher.k == parts.k:
            return Division(parts.z, small.delta, small.w, settled)
        parts.adopt(higher)


def one_run(graph: Graph, theta: float, rng: np.random.RandomState, looks: int) -> Division:
    """1 and 2."""
    for division in anneal(graph, ladder(graph, theta), rng):
        labels = division.labels
    return finish(graph, labels, theta, looks)


def combine(
    graph: Graph,
    one: Division,
    other: Division,
    theta: float,
    rng: np.random.RandomState,
    looks: int,
) -> Division:
    """3. The best division found whose clusters are made of what both have in common."""
    best = better(theta, one, other)
    pieces = one.labels.astype(np.int64) * other.k + other.labels
    pieces = np.unique(pieces, return_inverse=True)[1].astype(np.int32)
    k = int(pieces.max()) + 1
    if k == best.k:
        return best
    small = contracted(graph, pieces, k)
    start = np.empty(k, np.int32)
    start[pieces] = best.labels
    found = better(theta, finish(small, start, theta, looks), one_run(small, theta, rng, looks))
    return better(theta, best, finish(graph, found.labels[pieces], theta, looks))


def runs(graph: Graph, most: int = RUNS, effort: float = 1.0) -> int:
    """How often to start on a graph of this size, `most` often with an effort of 1."""
    usual = min(max(WORK / max(graph.indices.size, 1), 1.0), most)
    return max(1, round(effort * int(usual)))


def search(
    graph: Graph,
    theta: float,
    rng: np.random.RandomState,
    *,
    effort: float = 1.0,
    start: np.ndarray | None = None,
) -> tuple[Division, list[float]]:
    """The division and the objective after each run; `start` (labels) stands for the first run."""
    if start is None:
        best = one_run(graph, theta, rng, PATIENCE)
    else:
        best = finish(graph, start, theta, PATIENCE)
    history = [best.objective(theta)]
    again = 0  # runs that ended where the best one is
    for _ in range(runs(graph, effort=effort) - 1):
        other = one_run(graph, theta, rng, PATIENCE)
        again += other.k == best.k and isclose(other.objective(theta), history[-1], rel_tol=SAME)
        best = combine(graph, best, other, theta, rng, PATIENCE)
        history.append(best.objective(theta))
        again = again if history[-1] == history[-2] else 0
        if again >= SURE and effort <= 1:  # who asks for more gets it
            break
    return best, history


def least_resolution(graph: Graph, division: Division) -> float:
    """The lowest θ at which no join of two linked clusters lowers the objective."""
    return max(merging(contracted(graph, division.labels, division.k)), LOWEST)


def merging(graph: Graph) -> float:
    """The lowest θ at which no join of two linked nodes, as clusters, lowers the objective."""
    p, q = np.repeat(np.arange(graph.n), np.diff(graph.indptr)), graph.indices
    both = (graph.delta[p] + graph.delta[q] - 2 * graph.data) / (graph.w[p] + graph.w[q])
    terms = graph.delta / graph.w
    return float((terms[p] + terms[q] - both).max(initial=0.0))
