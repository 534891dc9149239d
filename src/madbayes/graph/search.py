"""The search for the lowest penalized cut F = Σ_c (cut_c/w_c - θ), by exact moves on many levels.

1. *Anneal.* From single nodes and a high θ, where clusters grow slowly and evenly, down to the
   target (`levels.py`).
2. *Finish.* Single nodes and whole clusters in turn at the target, until no move of a node and no
   merge of two linked clusters lowers F.
3. *Again.* Another run in another order. What both results agree on becomes one node; the search on
   that small graph starts from the better of the two, so it never gets worse. When two runs ended
   where the best one is, no other is made, unless more effort was asked for.
"""

from math import isclose

import numpy as np

from madbayes._rows.threads import patient
from madbayes.graph.cut_kernels import (
    CUT,
    WEIGHT,
    close_gaps,
    count_nodes,
    renumber,
    settle,
)
from madbayes.graph.levels import (
    LOOKS,
    Division,
    Graph,
    common,
    contracted,
    descend,
    gather,
    reordered,
)

# θ of the descent, in units of links per weight: the first one, the last one before a target below
# it, and the factor from one to the next.
THETA_TOP, THETA_LOWEST, THETA_STEP = 0.95, 1e-4, 0.9

NOTHING = Division(np.empty(0, np.int32), np.empty(0), np.empty(0))  # of a graph without nodes


def measure(graph: Graph, labels: np.ndarray) -> Division:
    """A division with sums taken afresh."""
    labels = labels.astype(np.int32)  # a copy
    k = renumber(labels, np.full(int(labels.max()) + 1, -1, np.int32))
    small = contracted(graph, labels, k)
    return Division(labels, small.delta, small.w)


def lower_cut(
    graph: Graph,
    division: Division,
    theta: float,
    asked: np.ndarray | None = None,
    *,
    looks: int = LOOKS,
    exact: bool = False,
) -> tuple[Division, int]:
    """Nodes move while that lowers F, first those `asked`: the division, and how many moves."""
    n, z = graph.n, division.labels.copy()
    sums, N = np.empty((n, 4)), np.empty(n, np.int32)  # a slot for each node, so that it can leave
    count_nodes(z, division.k, division.cut, division.weight, sums, N)
    room = np.empty(n, np.int32), np.empty(n), np.empty(n, np.int32)
    asked = np.ones(n, np.uint8) if asked is None else asked.view(np.uint8)
    state = z, sums, N, division.k, *room, theta, asked, exact, looks * n
    moves, settled = patient(settle, *graph, *state, brief=graph.is_brief(looks))
    k = close_gaps(z, sums, N, room[2]) if moves else division.k
    return Division(z, sums[:k, CUT].copy(), sums[:k, WEIGHT].copy(), settled), moves


def better(theta: float, *found: Division) -> Division:
    return min(found, key=lambda division: division.objective(theta))


def anneal(graph: Graph, theta: float, rng: np.random.RandomState) -> np.ndarray:
    """1. Labels at the target, θ falling from the top to it."""
    top = THETA_TOP * graph.unit
    ratio = max(theta / top, THETA_LOWEST)
    steps = int(np.ceil(np.log(min(ratio, 1.0)) / np.log(THETA_STEP)))
    thetas = [float(top * THETA_STEP**step) for step in range(steps)] + [theta]
    graph, place = reordered(graph, rng.permutation(graph.n).astype(np.int32))
    *_, last = descend(graph, thetas, lower_cut, merging=merging)
    return last.labels[place]


def merging(graph: Graph) -> float:
    """The lowest θ at which no join of two linked nodes, as clusters, lowers the objective."""
    p, q = np.repeat(np.arange(graph.n), np.diff(graph.indptr)), graph.indices
    both = (graph.delta[p] + graph.delta[q] - 2 * graph.data) / (graph.w[p] + graph.w[q])
    terms = graph.delta / graph.w
    return float((terms[p] + terms[q] - both).max(initial=0.0))


def finish(graph: Graph, labels: np.ndarray, theta: float, looks: int) -> Division:
    """2. Until neither nodes nor clusters want to move, or nodes have been looked at so often."""
    now = measure(graph, labels)
    while True:
        now, _ = lower_cut(graph, now, theta, looks=looks, exact=True)
        small = contracted(graph, now.labels, now.k)
        higher = gather(small, theta, lower_cut)
        if higher.k == now.k:
            return Division(now.labels, small.delta, small.w, now.settled)
        now = higher.on(now.labels)


def one_run(graph: Graph, theta: float, rng: np.random.RandomState, looks: int) -> Division:
    """1 and 2."""
    return finish(graph, anneal(graph, theta, rng), theta, looks)


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


def search(
    graph: Graph,
    theta: float,
    rng: np.random.RandomState,
    *,
    effort: float = 1.0,
    looks: int = 300,
) -> tuple[Division, list[float]]:
    """The division, and the objective after each run.

    Up to 14 runs, fewer from 450,000/14 half-edges on. Only long chains and grids need more `looks`
    at each node at the target.
    """
    usual = min(max(450_000 / max(graph.indices.size, 1), 1.0), 14)
    best = one_run(graph, theta, rng, looks)
    history = [best.objective(theta)]
    again = 0  # runs that ended where the best one is
    for _ in range(1, max(1, round(effort * int(usual)))):
        other = one_run(graph, theta, rng, looks)
        again += other.k == best.k and isclose(other.objective(theta), history[-1], rel_tol=1e-12)
        best = combine(graph, best, other, theta, rng, looks)
        history.append(best.objective(theta))
        again = again if history[-1] == history[-2] else 0
        if again >= 2 and effort <= 1:  # who asks for more gets it
            break
    return best, history


def least_resolution(graph: Graph, division: Division) -> float:
    """The lowest θ at which no join of two linked clusters lowers the objective."""
    return max(merging(contracted(graph, division.labels, division.k)), THETA_LOWEST)
