"""How many communities a graph has, and a path of divisions from coarse to fine.

1. *Core* (`fringe.py`). Small pieces that hang on one edge and small components are left aside.
2. *Ladder* (`planted.py`). One division of the core for each resolution γ of the degree-corrected
   planted partition, from fine to coarse.
3. *Evidence* (`held_out.py`). Edges held out say which of them to take. If none predicts them
   better than chance does, the clusters are the connected components.
4. *Path.* The penalized cut Σ_c cut_c/w_c - θk gives each division a price: k clusters are best
   for θ from the slope of (k, cut) before it to the slope after it, on the lower convex hull. The
   division taken is always on the path; coarser and finer ones are if they are on the hull with it.

Nothing here depends on a seed or on the numbers of the nodes. docs/adr/0011 has the figures.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes._model.layers import APART
from madbayes._rows.checks import check_choice
from madbayes._rows.threads import workers
from madbayes.graph.fringe import Core, core_of
from madbayes.graph.held_out import FOLDS, SAME_NUMBER, Evidence, weigh
from madbayes.graph.input import check_graph, connected_part
from madbayes.graph.levels import Division, Graph
from madbayes.graph.planted import polished, resolutions
from madbayes.graph.search import NOTHING, THETA_TOP, measure
from madbayes.howmany.staircase import Choice, Staircase, in_words, lower_hull

# How far agreement must be ahead of that on another number for full support; 0 ahead is half.
CLEAR_LEAD = 0.05
# Agreement of the repetitions (adjusted Rand): no support up to the first, full support at the
# second. Noise in graphs of neighbours reaches 0.8 and more.
AGREEMENT = 0.8, 1.0


def cut_path(A: Any, *, cut: str = "normalized", random_state: Any = None) -> Staircase:
    """How many clusters at which resolution, and which number edges held out support.

    Parameters
    ----------
    A : adjacency, dense or sparse, or a networkx or igraph graph
    cut : {"normalized", "ratio"}, default="normalized"
    random_state : ignored
        The path follows from the graph alone.

    Returns
    -------
    Staircase
        `best()` is the number that is supported.

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
    graph, used = connected_part(A, cut)
    with workers(1):
        return spread(find_path(graph, cut).path, used, A.shape[0])


class Found(NamedTuple):
    """The path of a graph's nodes, the division taken and those that edges held out support."""

    path: Staircase
    taken: Division
    layers: list[np.ndarray]  # labels of the nodes, finest first
    agreement: float | None = None  # how well the division comes back without a tenth of the edges


def find_path(graph: Graph, cut: str, effort: float = 1.0) -> Found:
    """Steps 1 to 4."""
    if not graph.n:
        return Found(price([NOTHING], 0, graph, pieces_only(0, 0)), NOTHING, [])
    by_degree = graph if cut == "normalized" else degrees_for_weights(graph)
    core = core_of(by_degree)
    whole = measure(graph, core.whole)
    if not core.graph.indices.size:
        choice = pieces_only(whole.k, core.n_aside)
        return Found(price([whole], 0, graph, choice), whole, [])
    size = core.graph.indices.size
    small = size <= 200_000
    gammas = resolutions(core.graph, 2.0**0.5 if small else 2.0)
    # Ten repetitions for 30,000 edges, one from 300,000 on. Twice as many take up to twice the
    # time, and the mean NMI rises by less than .004.
    repetitions = int(np.clip(np.ceil(600_000 / size), 1, FOLDS))
    # Two runs for each division take three times as long; with one run LFR graphs of 1,000 nodes at
    # mixing 0.6 are found half as often.
    found, evidence = weigh(
        core.graph, core.component, gammas, repetitions, 2 if size <= 40_000 else 1
    )
    if evidence.best is not None:
        # The division taken is made of three runs. With six it agrees no better with known labels.
        more = round(effort * (3 if small else 1)) - 1
        upto = gammas[: evidence.best + 1]
        labels = polished(core.graph, upto, found[evidence.best].labels, more)
        found[evidence.best] = measure(core.graph, labels)
    unit = graph.delta.sum() / by_degree.delta.sum()
    divisions = [of_all(graph, core, division, unit) for division in found]
    if evidence.best is None:
        choice = pieces_only(whole.k, core.n_aside)
        path = price([*divisions, whole], len(divisions), graph, choice)
        return Found(path, whole, [])
    taken = divisions[evidence.best]
    choice = supported_choice(evidence, divisions, core)
    path = price([*divisions, whole], evidence.best, graph, choice)
    agreement = float(evidence.agreement[evidence.best])
    return Found(path, taken, layers(graph, evidence, divisions, whole.k), agreement)


def of_all(graph: Graph, core: Core, division: Division, unit: float) -> Division:
    """A division of the core as one of all nodes: the fringe has no links to other clusters.
    `unit` of the cuts."""
    labels = core.spread(division.labels).astype(np.int32)
    cut = np.r_[unit * division.cut, np.zeros(core.n_aside)]
    return Division(labels, cut, np.bincount(labels, graph.w, cut.size))


def degrees_for_weights(graph: Graph) -> Graph:
    """The same graph with degrees as weights of nodes, edges between 1/2 and 1 at most."""
    if not graph.data.size:
        return graph._replace(w=graph.delta)
    power = -int(np.frexp(graph.data.max())[1])
    delta = np.ldexp(graph.delta, power)
    return graph._replace(data=np.ldexp(graph.data, power), delta=delta, w=delta)


def pieces_only(number: int, n_aside: int) -> Choice:
    """3. The connected components, because nothing else predicts edges."""
    support = 1.0 if number - n_aside > 1 else 0.0
    return Choice(
        number,
        1.0,
        in_words(support),
        support,
        "they are the connected pieces; communities inside of them would not predict edges held out"
        if number
        else "the graph has no edges",
        n_isolated=n_aside,
        of="community",
    )


def supported_choice(evidence: Evidence, divisions: list[Division], core: Core) -> Choice:
    """3. The number that edges held out support, how well, and what else it could be."""
    best = evidence.best
    assert best is not None
    agreement = float(evidence.agreement[best])
    low, high = AGREEMENT
    number, seen, runners = divisions[best].k, {divisions[best].k}, []
    numbers = np.array([division.k for division in divisions])
    rival = abs(numbers - number) > SAME_NUMBER * number
    ahead = evidence.worth[best] - float(evidence.worth[rival].max(initial=0.0))
    support = evidence.stability * float(np.clip((agreement - low) / (high - low), 0.0, 1.0))
    support *= float(np.clip(0.5 + 0.5 * ahead / CLEAR_LEAD, 0.0, 1.0))
    for i in np.argsort(-evidence.gain, kind="stable"):
        if divisions[i].k not in seen and evidence.gain[i] > 0:
            seen.add(divisions[i].k)
            runners.append((divisions[i].k, float(evidence.gain[i])))
    gain = float(evidence.gain[best])
    return Choice(
        number,
        1.0,
        in_words(max(support, 0.01)),
        max(support, 0.01),
        f"the communities predict held-out edges {np.exp(gain):.1f} times as well as chance; "
        f"without a tenth of the edges they are found again (adjusted Rand index {agreement:.2f})",
        tuple(runners[:5]),
        gain,
        n_isolated=core.n_aside,
        of="community",
        stability=evidence.stability,
    )


def layers(
    graph: Graph, evidence: Evidence, divisions: list[Division], pieces: int
) -> list[np.ndarray]:
    """Nested divisions, finest first: the one taken, and those that say more of edges held out and
    on which repetitions agree better than on those next to them. Connected `pieces` are none."""
    best = evidence.best
    assert best is not None and evidence.layer is not None
    divided_at_all = np.array([division.k > pieces for division in divisions])
    agreement = np.where(divided_at_all, evidence.agreement, -1.0)
    around = np.r_[-1.0, agreement, -1.0]
    peak = (agreement >= around[:-2]) & (agreement >= around[2:])
    peak &= evidence.layer & (agreement >= AGREEMENT[0])
    found = [divisions[best].labels]
    for i in np.flatnonzero(peak[best + 1 :]) + best + 1:
        fine = found[-1]
        nested = without_gaps(most_common(fine, divisions[i].labels)[fine])
        if APART * (nested.max() + 1) <= fine.max() + 1:
            found.append(nested)
    for i in np.flatnonzero(peak[:best])[::-1]:
        fine = divided(graph, found[0], divisions[i].labels)
        if fine.max() + 1 >= APART * (found[0].max() + 1):
            found.insert(0, fine)
    return found


def most_common(of: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """For each cluster of the first division the cluster of the second that it shares most with."""
    shared = sp.coo_array((np.ones(of.size), (of, labels))).tocsr()
    return np.asarray(shared.argmax(axis=1)).ravel()


def divided(graph: Graph, coarse: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """The clusters of `coarse`, each divided into those of `fine` that lie mostly in it. Nodes of
    other clusters of `fine` go to the part of their own cluster that they have most links to."""
    home = most_common(fine, coarse)
    astray = np.flatnonzero(home[fine] != coarse)
    settled = np.setdiff1d(np.arange(fine.size), astray)
    member = sp.csr_array((np.ones(settled.size), (settled, fine[settled])), (fine.size, home.size))
    links = sp.coo_array(graph.matrix()[astray] @ member)
    row, part, weight = links.row, links.col, links.data
    own = home[part] == coarse[astray[row]]
    votes = sp.coo_array((weight[own], (row[own], part[own])), (astray.size, home.size)).tocsr()
    new = fine.astype(np.int64)
    linked = np.asarray(votes.sum(axis=1)).ravel() > 0
    new[astray] = np.where(
        linked, np.asarray(votes.argmax(axis=1)).ravel(), home.size + coarse[astray]
    )
    return without_gaps(new)


def without_gaps(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def price(found: list[Division], taken: int, graph: Graph, choice: Choice) -> Staircase:
    """4. The staircase through the division `taken`, and its resolution."""
    k = np.array([division.k for division in found])
    cut = np.array([float(division.terms.sum()) for division in found])
    here = k[taken], cut[taken]
    coarser = np.flatnonzero(((k < here[0]) & (cut < here[1])) | (np.arange(k.size) == taken))
    coarser = coarser[np.lexsort((cut[coarser], k[coarser]))]
    coarser = coarser[lower_hull(k[coarser], cut[coarser], rising=True)]
    steepest = 0.0
    if coarser.size > 1:
        a, b = coarser[-2:]
        steepest = (cut[b] - cut[a]) / (k[b] - k[a])
    finer = np.flatnonzero(k > here[0])
    finer = finer[(cut[finer] - here[1]) / (k[finer] - here[0]) > steepest * (1 + 1e-9)]
    kept = np.r_[coarser, finer]
    path = Staircase.build(
        k[kept], cut[kept], of="community", labels=[found[i].labels for i in kept]
    )
    top = max(THETA_TOP * graph.unit, float(path.price_low[-1]))
    path = replace(path, price_high=np.r_[path.price_high[:-1], top])
    step = path.step_of(int(here[0]))
    assert step is not None
    resolution = path.middle(step)
    scores = {choice.number: choice.score, **dict(choice.runners_up)}
    return replace(path, choice=replace(choice, price=resolution), scores=scores)


def spread(path: Staircase, used: np.ndarray, n: int) -> Staircase:
    """The path of the nodes `used`, among all n; the others have the label -1."""
    assert path.labels is not None
    everywhere = np.full((len(path.labels), n), -1, np.int32)
    everywhere[:, used] = path.labels
    return replace(path, labels=tuple(everywhere))
