"""The number of communities of a graph as a function of the resolution, and which one to take.

1. *Anneal* (`descent.py`): one division for each resolution θ, from fine to coarse, until only the
   connected components are left; on small graphs several times, unless the plateau of the first
   time (3.) is beyond doubt. What they found at the ends of the best plateau is combined.
2. *Staircase.* Cut - θk is least on the lower convex hull of all (k, Cut) found: k is best for θ
   from Cut(k) - Cut(k-1) to Cut(k+1) - Cut(k).
3. *Plateau.* A division that stays best over a wide range of θ stands out. Clusters count as many
   as they weigh, K = exp(entropy of their shares of all links), since a graph may shed any number
   of tiny ones; the score is √(K - K_components)·log(θ_high/θ_low). Neighbours on the staircase
   with nearly the same K are one plateau, less the θ that an even staircase takes between them.
   Where the next division has not the next number of clusters, the steps between were not seen:
   one step of the ladder is taken off.
4. *Chance.* The same for random graphs with the same degrees, several when the graph is small;
   none where the score is beyond what any of them reaches, or where only modularity counts and
   that is; no more when it is clear what stands out, and one run of those that are far below. A
   plateau counts when its score is above theirs, and not small. Of several that count, the one is
   taken that is most in *excess* of an even staircase.
5. *No plateau.* Many large graphs have communities within communities and no level stands out.
   Then the division with the highest modularity (Newman & Girvan 2004) is taken, if that is above
   what chance gives; otherwise the connected components.

docs/adr/0011 tells what was measured.
"""

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from madbayes._rows.checks import check_choice
from madbayes._rows.progress import Stage
from madbayes._rows.threads import Run, workers
from madbayes.graph.descent import Division, anneal, effective_number, modularity
from madbayes.graph.input import check_graph, connected_part, from_edges
from madbayes.graph.levels import LOOKS, contracted
from madbayes.graph.search import LOWEST, NOTHING, TOP, Graph, combine, measure, runs
from madbayes.howmany.staircase import Choice, Staircase, in_words, plateau

FINE, COARSE = 0.05, 0.1  # log θ from one step to the next, for small and for large graphs
FINE_EDGES = 100_000  # half-edges of a small graph
RUNS = 3
SAME = 1.05  # K within this factor is one plateau
STANDS_OUT = 0.4  # the least score of a plateau
CLEAR = 1.0  # a score that no random graph reaches
DOUBTLESS = 2.0  # one that no other run would change
SURELY = 1.5  # times the modularity expected by a formula, which is right within a fifth
BEYOND_CHANCE = 1.02  # modularity, against the highest of the random graphs
FAR, NEAR = 0.5, 0.9  # of the graph's score and modularity: random graphs below are no rivals
ABOVE = 1.5  # standard deviations above the mean: what the highest of nine is like
FEW = 3  # random graphs, before their scores rule out a plateau or are too low to matter
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
    with workers(1) as run:
        return find_path(graph, used, A.shape[0], cut, rng, run)[0]


def find_path(
    graph: Graph,
    used: np.ndarray,
    n: int,
    cut: str,
    rng: np.random.RandomState,
    run: Run,
    effort: float = 1.0,
) -> tuple[Staircase, list[np.ndarray]]:
    """Steps 1 to 5, and what was found near the resolution chosen, for a search to begin with.

    `used` are the places of the graph's nodes among n.
    """
    size = max(graph.indices.size, 1)
    step = float(np.clip(FINE * size / FINE_EDGES, FINE, COARSE))
    thetas = TOP * graph.unit * np.exp(-step * np.arange(np.log(TOP / LOWEST) / step))
    n_runs = runs(graph, RUNS, effort)
    path, each = descend(graph, thetas, n_runs, rng, run)
    chance, chance_modularity = 0.0, expected_modularity(graph)
    score, Q = path.figures["score"].max(), path.figures["modularity"].max()
    decided = score >= CLEAR or (score <= STANDS_OUT and Q > SURELY * chance_modularity)
    if Q > 0 and not decided:  # 4.
        seen = []
        for _ in range(int(np.clip(RANDOM_EDGES // size, 1, RANDOM_GRAPHS))):
            random = rewired(graph, cut, rng)
            other, _ = descend(random, thetas, n_runs, rng, run, FAR * score, NEAR * Q)
            seen.append([other.figures[name].max() for name in ("score", "modularity")])
            chance, chance_modularity = np.mean(seen, axis=0) + ABOVE * np.std(seen, axis=0)
            no_plateau = score <= STANDS_OUT or (score <= chance and len(seen) >= FEW)
            if no_plateau and Q <= BEYOND_CHANCE * chance_modularity:
                break  # nothing stands out, whatever the others are like
            highest = np.max(seen, axis=0)
            clear = highest[1] < NEAR * Q if no_plateau else highest[0] < FAR * STANDS_OUT
            if clear and len(seen) >= FEW:
                break  # it does
    choice = choose(path, chance, chance_modularity)
    at = int(np.searchsorted(-thetas, -choice.resolution))
    starts = [path.labels_at(choice.resolution)]
    if len(each) > 1:
        starts += [found[min(at, len(found) - 1)].labels for found in each]
    assert path.labels is not None
    labels = tuple(spread(division, used, n) for division in path.labels)
    scores = {int(k): float(s) for k, s in zip(path.number, path.figures["score"], strict=True)}
    return replace(path, labels=labels, choice=choice, scores=scores), starts


def descend(
    graph: Graph,
    thetas: np.ndarray,
    n_runs: int,
    rng: np.random.RandomState,
    run: Run,
    low: float = 0.0,
    low_modularity: float = 0.0,
) -> tuple[Staircase, list[list[Division]]]:
    """1 to 3. The staircase of several runs, and what each found; one run where its plateau is
    beyond doubt, or where score and modularity are so low that no other would matter."""
    step = float(np.log(thetas[0] / thetas[1]))
    seeds = rng.randint(2**31 - 1, size=n_runs + 2)
    each = [divisions(graph, thetas, seeds[0])]
    path = staircase(graph, each[0], step)
    score, Q = path.figures["score"].max(), path.figures["modularity"].max()
    if n_runs == 1 or score >= DOUBTLESS or (score < low and Q < low_modularity):
        return path, each
    each += run(lambda seed: divisions(graph, thetas, seed), seeds[1:n_runs])
    found = [division for one in each for division in one]
    path = staircase(graph, found, step)

    def combined(end: tuple[int, int]) -> Division:
        i, seed = end
        there = [one[i] for one in each if i < len(one)]
        again = np.random.RandomState(seed)
        return reduce(lambda a, b: combine(graph, a, b, thetas[i], again, LOOKS), there)

    ends = contested(path, thetas)
    found += run(combined, zip(ends, seeds[n_runs:], strict=False))
    return staircase(graph, found, step) if ends else path, each


def contested(path: Staircase, thetas: np.ndarray) -> list[int]:
    """The first and the last of `thetas` within the plateau that would be taken."""
    figures = path.figures
    best = int(np.argmax(np.where(figures["score"] > STANDS_OUT, figures["excess"], 0.0)))
    within = (figures["low"][best] <= thetas) & (thetas <= figures["high"][best])
    ends = np.flatnonzero(within & (best > 0))
    return [int(ends[0]), int(ends[-1])] if ends.size else []


def spread(labels: np.ndarray, used: np.ndarray, n: int) -> np.ndarray:
    """Labels of the nodes that have an edge, among all; -1 for the others."""
    everywhere = np.full(n, -1, np.int32)
    everywhere[used] = labels
    return everywhere


def choose(path: Staircase, chance: float, chance_modularity: float) -> Choice:
    """4 and 5. What stands out most, against the random graphs."""
    score, Q = path.figures["score"], path.figures["modularity"]
    least = min(max(STANDS_OUT, chance), CLEAR)
    stands_out = score > least
    i = int(np.argmax(np.where(stands_out, path.figures["excess"], -1.0)))
    reason = "a plateau that random graphs do not have"
    support = float(np.clip((score[i] - least) / max(CLEAR - least, least), 0.0, 1.0))
    if not stands_out.any():
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


def divisions(graph: Graph, thetas: np.ndarray, seed: int) -> list[Division]:
    """1. One division for each θ, and the components."""
    if not graph.n:
        return [NOTHING]
    found: list[Division] = []
    stage = Stage("how many clusters", len(thetas))
    for i, division in enumerate(anneal(graph, thetas, np.random.RandomState(seed))):
        stage.at(i)
        found.append(division)
        if not division.cut.any():
            break
    return [*found, components(graph, found[-1])]


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
        figures={"found": range(len(found))},
    )
    steps = [found[i] for i in path.figures["found"]]
    k, low, K = path.number, path.price_low, np.array([effective_number(graph, x) for x in steps])
    last, top = len(k) - 1, TOP * graph.unit
    high = np.r_[path.price_high[:-1], max(top, low[-1])]
    gap = np.r_[0, np.diff(k), 2] > 1  # the last one ends where the ladder begins
    first, end = low.copy(), high.copy()
    first[0] = high[0] / 4
    score, excess = np.zeros((2, len(k)))
    for i in range(len(k)):
        near = np.flatnonzero((K < SAME * K[i]) & (K[i] < SAME * K))
        a, b, least, most = near[0], near[-1], K[near].min(), K[near].max()
        if a == 0:  # the components, and what differs from them by little
            continue
        first[i], end[i] = low[a], max(min(high[b], top), low[a])
        begin = first[i] * np.exp(step * (int(gap[a]) + int(gap[b + 1])))
        # log θ for each log K, from half to twice as many clusters
        below = int(np.flatnonzero(least / 2 >= K).max(initial=0))
        above = int(np.flatnonzero(2 * most <= K).min(initial=last))
        pace = np.log(min(high[above], top) / (low[below] or high[0])) / np.log(K[above] / K[below])
        lower, upper = least - K[a - 1], K[min(b + 1, last)] - most
        half = [min(abs(x) / 2, 0.5) for x in (lower, upper)]
        score[i] = plateau(K[i] - K[0], begin * (most / least) ** pace, end[i])
        even = (most + half[1]) / (least - half[0])
        excess[i] = plateau(K[i] - K[0], begin * even**pace, end[i])
    figures = {
        "effective": K,
        "modularity": np.array([modularity(graph, division) for division in steps]),
        "score": score,
        "excess": excess,
        "low": first,
        "high": end,
        "middle": np.sqrt(first) * np.sqrt(end),
    }
    return replace(path, price_high=high, figures=figures)


def expected_modularity(graph: Graph) -> float:
    """About what random graphs with these degrees have (Reichardt & Bornholdt 2007); 1 of weights,
    for which there is no such formula."""
    degree = np.diff(graph.indptr)
    if not degree.any() or graph.data.min() < graph.data.max():
        return 1.0
    return float(0.97 * np.sqrt(degree).mean() / degree.mean())


def rewired(graph: Graph, cut: str, rng: np.random.RandomState) -> Graph:
    """The ends of all edges shuffled: the same degrees, but for loops, and no communities."""
    rows = np.repeat(np.arange(graph.n), np.diff(graph.indptr))
    once = rows < graph.indices
    ends = rng.permutation(np.r_[rows[once], graph.indices[once]])
    u, v = ends[: ends.size // 2], ends[ends.size // 2 :]
    apart = u != v
    weight = graph.data[once][apart].astype(np.float64)
    return connected_part(from_edges(u[apart], v[apart], weight, graph.n), cut)[0]
