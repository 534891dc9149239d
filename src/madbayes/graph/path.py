"""The number of communities of a graph as a function of the resolution, and which one to take.

1. *Anneal* (`search.py`): one division for each resolution θ, from fine to coarse,
   until only the connected components are left; on small graphs several times, and what is found
   at the same θ is combined, unless the plateau of the first time (3.) is beyond doubt.
2. *Staircase.* Cut - θk is least on the lower convex hull of the (k, Cut) found: k is best for θ
   from Cut(k) - Cut(k-1) to Cut(k+1) - Cut(k).
3. *Plateau.* A division that stays best over a wide range of θ stands out. Clusters count as many
   as they weigh, K = exp(entropy of their shares of all links), since a graph may shed any number
   of tiny ones; the score is √(K - K_components)·log(θ_high/θ_low). Neighbours on the staircase
   with nearly the same K are one plateau. Where the next division on the staircase has not the
   next number of clusters, the steps between were not seen: there one step of the ladder is
   taken off.
4. *Chance.* The same for random graphs with the same degrees, several when the graph is small;
   none where the score is beyond what any of them reaches, no more when nothing can stand out from
   those seen, and one run of those that are far below. A plateau counts when its score is above all
   of theirs, and not small.
5. *No plateau.* Many large graphs have communities within communities and no level stands out.
   Then the division with the highest modularity (Newman & Girvan 2004) is taken, if that is above
   what chance gives; otherwise the connected components.

docs/adr/0011 tells what was measured.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from madbayes._engine.checks import check_choice
from madbayes._engine.progress import Stage
from madbayes._search.staircase import Choice, Staircase, in_words, plateau
from madbayes.graph.input import check_graph, connected_part, from_edges
from madbayes.graph.levels import contracted
from madbayes.graph.search import (
    LOOKS,
    LOWEST,
    NOTHING,
    TOP,
    Division,
    Graph,
    anneal,
    combine,
    measure,
    runs,
)

FINE, COARSE = 0.05, 0.1  # log θ from one step to the next, for small and for large graphs
FINE_EDGES = 100_000  # half-edges of a small graph
RUNS = 4
SAME = 1.05  # K within this factor is one plateau
STANDS_OUT = 0.4  # the least score of a plateau
CLEAR = 1.0  # a score that no random graph reaches
DOUBTLESS = 2.0  # one that no other run would change
BEYOND_CHANCE = 1.02  # modularity, against the highest of the random graphs
FAR, NEAR = 0.5, 0.9  # of the graph's score and modularity: random graphs below are no rivals
RANDOM_EDGES = 50_000  # half-edges of all random graphs together
RANDOM_GRAPHS = 9  # at most


def cut_path(A: Any, *, cut: str = "normalized", random_state: Any = None) -> Staircase:
    """How many clusters at which resolution, and which of them stand out (see `Staircase`).

    Parameters
    ----------
    A : adjacency, dense or sparse, or a networkx or igraph graph
    cut : {"normalized", "ratio"}, default="normalized"
    random_state : int, RandomState or None

    Returns
    -------
    Staircase
        `best()` is the number that stands out.

    Examples
    --------
    A ring of ten cliques of five nodes:

    >>> import numpy as np
    >>> from madbayes import penalties
    >>> A = np.kron(np.eye(10), np.ones((5, 5)) - np.eye(5))
    >>> ends = np.arange(0, 50, 5)
    >>> A[ends, ends - 1] = A[ends - 1, ends] = 1
    >>> penalties.cut_path(A, random_state=0).best().n_clusters
    10
    """
    A = check_graph(A)
    check_choice("cut", cut, "normalized", "ratio")
    rng = check_random_state(random_state)
    graph, used = connected_part(A, cut)
    return find_path(graph, used, A.shape[0], cut, rng)


def find_path(
    graph: Graph,
    used: np.ndarray,
    n: int,
    cut: str,
    rng: np.random.RandomState,
    effort: float = 1.0,
) -> Staircase:
    """Steps 1 to 5; `used` are the places of the graph's nodes among n."""
    size = max(graph.indices.size, 1)
    step = float(np.clip(FINE * size / FINE_EDGES, FINE, COARSE))
    n_runs = runs(graph, RUNS, effort)
    path = descend(graph, step, n_runs, rng)
    score, Q = 0.0, 0.0
    plateau, best = path.figures["score"].max(), path.figures["modularity"].max()
    if 0 < best and plateau < CLEAR:  # 4.
        for _ in range(int(np.clip(RANDOM_EDGES // size, 1, RANDOM_GRAPHS))):
            random = rewired(graph, cut, rng)
            chance = descend(random, step, n_runs, rng, FAR * plateau, NEAR * best)
            score = max(score, *chance.figures["score"])
            Q = max(Q, *chance.figures["modularity"])
            if plateau <= max(STANDS_OUT, score) and best <= BEYOND_CHANCE * Q:
                break  # nothing stands out, whatever the others are like
    assert path.labels is not None
    labels = tuple(spread(division, used, n) for division in path.labels)
    scores = {int(k): float(s) for k, s in zip(path.number, path.figures["score"], strict=True)}
    return replace(path, labels=labels, choice=choose(path, score, Q), scores=scores)


def descend(
    graph: Graph,
    step: float,
    n_runs: int,
    rng: np.random.RandomState,
    low: float = 0.0,
    low_modularity: float = 0.0,
) -> Staircase:
    """1 to 3. The staircase of several runs; of one where its plateau is beyond doubt, or where
    score and modularity are so low that no other run would matter."""
    found = divisions(graph, step, rng)
    path = staircase(graph, found, step)
    for _ in range(n_runs - 1):
        score, Q = path.figures["score"].max(), path.figures["modularity"].max()
        if score >= DOUBTLESS or (score < low and Q < low_modularity):
            break
        found = divisions(graph, step, rng, found[:-1])
        path = staircase(graph, found, step)
    return path


def spread(labels: np.ndarray, used: np.ndarray, n: int) -> np.ndarray:
    """Labels of the nodes that have an edge, among all; -1 for the others."""
    everywhere = np.full(n, -1, np.int32)
    everywhere[used] = labels
    return everywhere


def choose(path: Staircase, chance: float, chance_modularity: float) -> Choice:
    """4 and 5. What stands out most, against the best of the random graphs."""
    score, Q = path.figures["score"], path.figures["modularity"]
    least = max(STANDS_OUT, chance)
    i, reason = int(np.argmax(score)), "a plateau that random graphs do not have"
    support = float(np.clip((score[i] - least) / max(CLEAR - least, least), 0.0, 1.0))
    if score[i] <= least:
        i, reason, support = int(np.argmax(Q)), "no plateau stands out, modularity decided", 0.1
        if i == 0 or Q[i] <= BEYOND_CHANCE * chance_modularity:
            i, reason = 0, "the connected pieces: nothing stands out from chance"
            support = float(path.figures["effective"][0] > 1.5)  # pieces of some weight
    resolution = float(path.figures["middle"][i])
    k = int(path.number[path.at(resolution)])
    others = [int(j) for j in np.argsort(-score, kind="stable") if path.number[j] != k]
    runners = tuple((int(path.number[j]), float(score[j])) for j in others[:5] if score[j] > 0)
    strength = in_words(support)
    return Choice(
        k, resolution, strength, support, reason, runners, float(score[i]), of="community"
    )


def divisions(
    graph: Graph, step: float, rng: np.random.RandomState, known: Sequence[Division] = ()
) -> list[Division]:
    """1. One division for each θ, combined with those that are known, and the components."""
    if not graph.n:
        return [NOTHING]
    thetas = TOP * graph.unit * np.exp(-step * np.arange(np.log(TOP / LOWEST) / step))
    found: list[Division] = []
    stage = Stage("how many clusters", len(thetas))
    for i, division in enumerate(anneal(graph, thetas, rng)):
        stage.at(i)
        if i < len(known):
            division = combine(graph, known[i], division, thetas[i], rng, LOOKS)
        found.append(division)
        if not division.cut.any():
            break
    return [*found, *known[len(found) :], components(graph, found[-1])]


def components(graph: Graph, division: Division) -> Division:
    """The connected components; each cluster lies in one of them."""
    labels = division.labels
    if division.cut.any():
        small = contracted(graph, labels, division.k)
        links = sp.csr_array((small.data, small.indices, small.indptr), shape=(small.n, small.n))
        labels = connected_components(links, directed=False)[1][labels]
    return measure(graph, labels)


def staircase(graph: Graph, found: list[Division], step: float) -> Staircase:
    """2 and 3; for `find_path` to complete."""
    path = Staircase.build(
        [division.k for division in found],
        [float(division.terms.sum()) for division in found],
        of="community",
        labels=[division.labels for division in found],
        figures={
            "effective": [effective_number(graph, division) for division in found],
            "modularity": [modularity(graph, division) for division in found],
        },
    )
    k, low, effective = path.number, path.price_low, path.figures["effective"]
    top = TOP * graph.unit
    high = np.r_[path.price_high[:-1], max(top, low[-1])]
    gap = np.r_[0, np.diff(k), 2] > 1  # the last one ends where the ladder begins
    score, middle = np.zeros(len(k)), np.empty(len(k))
    for i in range(len(k)):
        near = np.flatnonzero((effective < SAME * effective[i]) & (effective[i] < SAME * effective))
        a, b = near[0], near[-1]
        if a == 0:  # the components, and what differs from them by little
            middle[i] = np.sqrt(low[i]) * np.sqrt(high[i]) if i else high[0] / 2
        else:
            upper = max(min(high[b], top), low[a])
            middle[i] = np.sqrt(low[a]) * np.sqrt(upper)
            narrower = np.exp(step * (int(gap[a]) + int(gap[b + 1])))
            score[i] = plateau(effective[i] - effective[0], narrower * low[a], upper)
    figures = {**path.figures, "score": score, "middle": middle}
    return replace(path, price_high=high, figures=figures)


def effective_number(graph: Graph, division: Division) -> float:
    """exp(entropy) of the clusters' shares of weight."""
    share = division.weight / graph.w.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def modularity(graph: Graph, division: Division) -> float:
    """Links inside minus those expected, loops left out."""
    degree = np.bincount(division.labels, graph.delta, minlength=division.k)
    total = degree.sum() or 1.0
    return float(((degree - division.cut) / total - (degree / total) ** 2).sum())


def rewired(graph: Graph, cut: str, rng: np.random.RandomState) -> Graph:
    """The ends of all edges shuffled: the same degrees, but for loops, and no communities."""
    rows = np.repeat(np.arange(graph.n), np.diff(graph.indptr))
    once = rows < graph.indices
    ends = rng.permutation(np.r_[rows[once], graph.indices[once]])
    u, v = ends[: ends.size // 2], ends[ends.size // 2 :]
    apart = u != v
    return connected_part(from_edges(u[apart], v[apart], graph.data[once][apart], graph.n), cut)[0]
