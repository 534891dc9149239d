"""The number of communities of a graph as a function of the resolution, and which one to take.

1. *Anneal* (`search.py`): one division for each resolution θ, from fine to coarse,
   until only the connected components are left; on small graphs several times, and what is found
   at the same θ is combined.
2. *Staircase.* Cut - θk is least on the lower convex hull of the (k, Cut) found: k is best for θ
   from Cut(k) - Cut(k-1) to Cut(k+1) - Cut(k).
3. *Plateau.* A division that stays best over a wide range of θ stands out. Clusters count as many
   as they weigh, K = exp(entropy of their shares of all links), since a graph may shed any number
   of tiny ones; the score is √(K - K_components)·log(θ_high/θ_low). Neighbours on the staircase
   with nearly the same K are one plateau. Where the next division on the staircase has not the
   next number of clusters, the steps between were not seen: there one step of the ladder is
   taken off.
4. *Chance.* The same for random graphs with the same degrees, several when the graph is small. A
   plateau counts when its score is above all of theirs, and not small.
5. *No plateau.* Many large graphs have communities within communities and no level stands out.
   Then the division with the highest modularity (Newman & Girvan 2004) is taken, if that is above
   what chance gives; otherwise the connected components.

docs/adr/0011 tells what was measured.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from madbayes._engine.checks import check_choice
from madbayes._engine.progress import Stage
from madbayes.graph.input import check_graph, connected_part, from_edges
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
BEYOND_CHANCE = 1.02  # modularity, against the highest of the random graphs
RANDOM_EDGES = 50_000  # half-edges of all random graphs together
RANDOM_GRAPHS = 9  # at most


@dataclass(frozen=True)
class CutChoice:
    """What `CutPath.best` recommends.

    Attributes
    ----------
    resolution : float
    n_clusters : int
    reason : {"plateau", "modularity", "none"}
        A plateau of the path stands out; none does, but the communities are denser than chance; or
        neither, and the clusters are the connected components.
    score : float
        The width of the plateau, as explained in the module's docstring.
    """

    resolution: float
    n_clusters: int
    reason: str
    score: float

    def describe(self) -> str:
        """One sentence for a person."""
        clusters = f"{self.n_clusters} cluster{'' if self.n_clusters == 1 else 's'}"
        return {
            "plateau": f"{clusters}: the plateau that stands out most (score {self.score:.2g})",
            "modularity": f"{clusters}: no plateau stands out, the highest modularity decided",
            "none": f"{clusters}, the connected components: nothing stands out from chance",
        }[self.reason]


@dataclass(frozen=True)
class CutPath:
    """The staircase: how many clusters at which resolution.

    Attributes
    ----------
    n_clusters, resolution_low, resolution_high : arrays
        `n_clusters[i]` is best for ``resolution_low[i] < resolution <= resolution_high[i]``.
    objective : array
        The cut with `n_clusters[i]` clusters; the objective at a resolution in the interval is
        ``objective[i] - resolution * n_clusters[i]``.
    effective : array
        The number of clusters, each counted as much as it weighs.
    modularity : array
    score : array
        How far each step of the staircase stands out.
    """

    n_clusters: np.ndarray
    resolution_low: np.ndarray
    resolution_high: np.ndarray
    objective: np.ndarray
    effective: np.ndarray
    modularity: np.ndarray
    score: np.ndarray
    _middle: np.ndarray = field(repr=False)  # of the plateau each step belongs to
    _chance: tuple[float, float] = field(repr=False)  # score and modularity of random graphs
    _divisions: tuple[Division, ...] = field(repr=False)
    _used: np.ndarray = field(repr=False)
    _n: int = field(repr=False)

    def at(self, resolution: float) -> int:
        """The entry that `resolution` falls into."""
        return int(np.argmin(self.objective - resolution * self.n_clusters))

    def division_at(self, resolution: float) -> Division:
        """The best division at `resolution`, of the nodes that have an edge."""
        return self._divisions[self.at(resolution)]

    def labels_at(self, resolution: float) -> np.ndarray:
        """The label of each node in the best division at `resolution`; -1 without any edge.

        The division is that of the path: `GraphCut(resolution)` goes on until no move lowers the
        objective.
        """
        labels = np.full(self._n, -1, np.int32)
        labels[self._used] = self.division_at(resolution).labels
        return labels

    def best(self) -> CutChoice:
        """The division that stands out most, and a resolution at which it is best."""
        i, reason = int(np.argmax(self.score)), "plateau"
        if self.score[i] <= max(STANDS_OUT, self._chance[0]):
            i, reason = int(np.argmax(self.modularity)), "modularity"
            if i == 0 or self.modularity[i] <= BEYOND_CHANCE * self._chance[1]:
                i, reason = 0, "none"
        theta = float(self._middle[i])
        k = int(self.n_clusters[self.at(theta)])
        return CutChoice(theta, k, reason, float(self.score[i]))

    def plot(self, ax: Any = None) -> Any:
        """Draw the staircase; the chosen resolution is marked. Needs matplotlib."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 4.5), layout="constrained").add_subplot()
        best = self.best()
        bottom = min([best.resolution, *self.resolution_low[1:2]]) / 2
        edges = np.r_[bottom, self.resolution_low[1:], self.resolution_high[-1]]
        ax.stairs(
            np.maximum(self.n_clusters, 1), edges, baseline=None, color="#0072b2", linewidth=2
        )
        ax.axvline(best.resolution, color="#d55e00", ls=":", label=f"chosen: {best.resolution:.3g}")
        ax.set(xscale="log", xlabel="resolution (what a cluster earns)")
        ax.set_ylabel("number of clusters")
        if self.n_clusters.max() > 10:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
        ax.set_title(best.describe(), fontsize="medium", loc="left", wrap=True)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def cut_path(A: Any, *, cut: str = "normalized", random_state: Any = None) -> CutPath:
    """How many clusters at which resolution, and which of them stand out (see `CutPath`).

    Parameters
    ----------
    A : adjacency, dense or sparse, or a networkx or igraph graph
    cut : {"normalized", "ratio"}, default="normalized"
    random_state : int, RandomState or None

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
    graph: Graph, used: np.ndarray, n: int, cut: str, rng: np.random.RandomState
) -> CutPath:
    """Steps 1 to 5; `used` are the places of the graph's nodes among n."""
    size = max(graph.indices.size, 1)
    step = float(np.clip(FINE * size / FINE_EDGES, FINE, COARSE))
    n_runs = min(RUNS, runs(graph))
    path = staircase(graph, divisions(graph, step, n_runs, rng), step)
    score, Q = 0.0, 0.0
    if 0 < path.modularity.max() and path.score.max() < CLEAR:  # 4.
        for _ in range(int(np.clip(RANDOM_EDGES // size, 1, RANDOM_GRAPHS))):
            random = rewired(graph, cut, rng)
            chance = staircase(random, divisions(random, step, n_runs, rng), step)
            score, Q = max(score, *chance.score), max(Q, *chance.modularity)
    return replace(path, _chance=(float(score), float(Q)), _used=used, _n=n)


def divisions(graph: Graph, step: float, n_runs: int, rng: np.random.RandomState) -> list[Division]:
    """1. One division for each θ, and the connected components."""
    if not graph.n:
        return [NOTHING]
    A = sp.csr_array((graph.data, graph.indices, graph.indptr), shape=(graph.n, graph.n))
    components = measure(graph, connected_components(A, directed=False)[1])
    thetas = TOP * graph.unit * np.exp(-step * np.arange(np.log(TOP / LOWEST) / step))
    found: list[Division] = []
    stage = Stage("how many clusters", n_runs * len(thetas))
    for start in range(0, n_runs * len(thetas), len(thetas)):
        for i, division in enumerate(anneal(graph, thetas, rng)):
            stage.at(start + i)
            if i < len(found):
                division = combine(graph, found[i], division, thetas[i], rng, LOOKS)
                found[i] = division
            else:
                found.append(division)
            if division.k == components.k:
                break
    return [*found, components]


def staircase(graph: Graph, found: list[Division], step: float) -> CutPath:
    """2 and 3; for `find_path` to complete."""
    lowest: dict[int, Division] = {}
    for division in sorted(found, key=lambda d: float(d.terms.sum()), reverse=True):
        lowest[division.k] = division
    hull: list[tuple[int, float]] = []
    for number in sorted(lowest):
        new = number, float(lowest[number].terms.sum())
        while hull and hull[-1][1] >= new[1]:  # more clusters and less cut
            hull.pop()
        while len(hull) > 1 and slope(hull[-2], hull[-1]) >= slope(hull[-1], new):
            hull.pop()
        hull.append(new)
    k = np.array([number for number, _ in hull])
    cuts = np.array([cut for _, cut in hull])
    best = tuple(lowest[number] for number, _ in hull)
    top = TOP * graph.unit
    slopes = np.diff(cuts) / np.diff(k)
    low, high = np.r_[0.0, slopes], np.r_[slopes, max(top, *slopes, 0.0)]
    effective = np.array([effective_number(graph, division) for division in best])
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
            width = np.log(upper / low[a]) - step * (int(gap[a]) + int(gap[b + 1]))
            score[i] = np.sqrt(max(effective[i] - effective[0], 0.0)) * max(width, 0.0)
    Q = np.array([modularity(graph, division) for division in best])
    return CutPath(k, low, high, cuts, effective, Q, score, middle, (0.0, 0.0), best, k, 0)


def slope(a: tuple[int, float], b: tuple[int, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


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
