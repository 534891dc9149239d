"""The search for the lowest penalized cut F = Σ_c (cut_c/w_c - θ), by exact moves on many levels.

1. *Anneal* (`descent.py`). From single nodes and a high θ, where clusters grow slowly and evenly,
   down to the target. At each θ first whole clusters move and merge (contract each to one node,
   move those, contract again as long as that helps, and back), then pieces, then single nodes.
2. *Finish.* Single nodes and whole clusters in turn at the target, until no move of a node and no
   merge of two linked clusters lowers F.
3. *Again.* Another run in another order. What both results agree on becomes one node; the search on
   that small graph starts from the better of the two, so it never gets worse. When two runs ended
   where the best one is, no other is made, unless more effort was asked for.
"""

from math import isclose

import numpy as np

from madbayes.graph.cut_kernels import cluster_sums, renumber
from madbayes.graph.descent import Division, anneal, common, merging
from madbayes.graph.levels import Graph, Parts, contracted, gather

TOP = 0.95  # the first θ, in units of links per weight
LOWEST = 1e-4  # the last θ before a target below it, in the same units
STEP = 0.9  # from one θ to the next
PATIENCE = 300  # looks at each node, on average, when it is the last θ
WORK = 450_000  # half-edges × runs that a search is worth
RUNS = 14  # at most
SURE = 2  # runs that end where the best one is: no other is needed
SAME = 1e-12  # objectives as near as this are of one division


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
    pieces, first = common(one.labels, other.labels)
    if first.size == best.k:
        return best
    small, start = contracted(graph, pieces, first.size), best.labels[first]
    found = better(theta, finish(small, start, theta, looks), one_run(small, theta, rng, looks))
    return better(theta, best, finish(graph, found.labels[pieces], theta, looks))


def runs(graph: Graph, effort: float) -> int:
    """How often to start on a graph of this size."""
    usual = min(max(WORK / max(graph.indices.size, 1), 1.0), RUNS)
    return max(1, round(effort * int(usual)))


def search(
    graph: Graph, theta: float, rng: np.random.RandomState, *, effort: float = 1.0
) -> tuple[Division, list[float]]:
    """The division, and the objective after each run."""
    best = one_run(graph, theta, rng, PATIENCE)
    history = [best.objective(theta)]
    again = 0  # runs that ended where the best one is
    for _ in range(1, runs(graph, effort)):
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
