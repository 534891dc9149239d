"""The search for the lowest penalized cut F = Σ_c (cut_c/w_c - θ), by exact moves on many levels.

1. *Anneal.* From single nodes and a high θ, where clusters grow slowly and evenly, down to the
   target. At each θ first whole clusters move and merge (contract each to one node, move those,
   contract again as long as that helps, and back), then single nodes.
2. *Finish.* Single nodes and whole clusters in turn at the target, until no move of a node and no
   merge of two linked clusters lowers F.
3. *Again.* Another run in another order. What both results agree on becomes one node; the search on
   that small graph starts from the better of the two, so it never gets worse.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from madbayes._engine.threads import patient
from madbayes._kernels.graph import cluster_sums, contract, renumber, settle

TOP = 0.95  # the first θ, in units of links per weight
LOWEST = 1e-4  # the last θ before a target below it, in the same units
STEP = 0.9  # from one θ to the next
LOOKS = 4  # at each node, on average, before going on to the next θ
PATIENCE = 300  # the same when it is the last θ
WORK = 400_000  # half-edges × runs that a search is worth
RUNS = 12  # at most


class Graph(NamedTuple):
    """Symmetric CSR without diagonal, links to others and weight of each node."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    delta: np.ndarray
    w: np.ndarray

    @property
    def n(self) -> int:
        return int(self.w.size)

    @property
    def unit(self) -> float:
        """Links per weight, 1 for degrees without loops: what θ is compared with."""
        return float(self.delta.sum() / self.w.sum()) or 1.0 if self.n else 1.0


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
    k = renumber(labels, int(labels.max()) + 1)
    W, cut, _ = cluster_sums(*graph, labels, k)
    return Division(labels, np.maximum(cut, 0.0), W)


def better(theta: float, *found: Division) -> Division:
    return min(found, key=lambda division: division.objective(theta))


def move_nodes(graph: Graph, labels: np.ndarray, theta: float, rng: np.random.RandomState) -> int:
    """Change `labels` in place while that lowers F; returns the number of clusters."""
    n = graph.n
    W, cut, N = cluster_sums(*graph, labels, n)
    patient(settle, *graph, labels, W, cut, N, theta, rng.permutation(n), False, LOOKS * n)
    return renumber(labels, n)


def contracted(graph: Graph, labels: np.ndarray, k: int) -> Graph:
    return Graph(*contract(graph.indptr, graph.indices, graph.data, graph.w, labels, k))


def move_clusters(
    graph: Graph, labels: np.ndarray, k: int, theta: float, rng: np.random.RandomState
) -> np.ndarray:
    """Labels after moves and merges of whole clusters, on as many levels as it takes."""
    small = contracted(graph, labels, k)
    clusters = np.arange(k, dtype=np.int32)
    fewer = move_nodes(small, clusters, theta, rng)
    if fewer < k:
        clusters = move_clusters(small, clusters, fewer, theta, rng)
        move_nodes(small, clusters, theta, rng)
    return clusters[labels]


def anneal(graph: Graph, thetas: Iterable[float], rng: np.random.RandomState) -> Iterator[Division]:
    """1. A division for each of falling θ, each from the one before."""
    labels = np.arange(graph.n, dtype=np.int32)
    k = graph.n
    for theta in thetas:
        if k == graph.n:
            k = move_nodes(graph, labels, theta, rng)
        labels = move_clusters(graph, labels, k, theta, rng)
        k = move_nodes(graph, labels, theta, rng)
        yield measure(graph, labels)


def ladder(graph: Graph, theta: float) -> list[float]:
    """θ on the way down; the target is the last."""
    top = TOP * graph.unit
    ratio = max(theta / top, LOWEST)
    steps = int(np.ceil(np.log(min(ratio, 1.0)) / np.log(STEP)))
    return [float(top * STEP**step) for step in range(steps)] + [theta]


def finish(
    graph: Graph, labels: np.ndarray, theta: float, rng: np.random.RandomState, looks: int
) -> Division:
    """2. Until neither nodes nor clusters want to move, or nodes have been looked at so often."""
    labels = labels.copy()
    while True:
        W, cut, N = cluster_sums(*graph, labels, graph.n)
        order = rng.permutation(graph.n)
        settled = patient(settle, *graph, labels, W, cut, N, theta, order, True, looks * graph.n)
        k = renumber(labels, graph.n)
        clusters = np.arange(k, dtype=np.int32)
        move_nodes(contracted(graph, labels, k), clusters, theta, rng)
        if np.array_equal(clusters, np.arange(k)):
            return replace(measure(graph, labels), settled=settled)
        labels = clusters[labels]


def one_run(graph: Graph, theta: float, rng: np.random.RandomState, looks: int) -> Division:
    """1 and 2."""
    for division in anneal(graph, ladder(graph, theta), rng):
        labels = division.labels
    return finish(graph, labels, theta, rng, looks)


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
    found = better(
        theta, finish(small, start, theta, rng, looks), one_run(small, theta, rng, looks)
    )
    return better(theta, best, finish(graph, found.labels[pieces], theta, rng, looks))


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
        best = finish(graph, start, theta, rng, PATIENCE)
    history = [best.objective(theta)]
    for _ in range(runs(graph, effort=effort) - 1):
        other = one_run(graph, theta, rng, PATIENCE)
        best = combine(graph, best, other, theta, rng, PATIENCE)
        history.append(best.objective(theta))
    return best, history


def least_resolution(graph: Graph, division: Division) -> float:
    """The lowest θ at which no join of two linked clusters lowers the objective."""
    small = contracted(graph, division.labels, division.k)
    rows = np.repeat(np.arange(small.n), np.diff(small.indptr))
    p, q = rows, small.indices
    both = (division.cut[p] + division.cut[q] - 2 * small.data) / (
        division.weight[p] + division.weight[q]
    )
    gain = division.terms[p] + division.terms[q] - both
    return max(float(gain.max(initial=0.0)), LOWEST)
