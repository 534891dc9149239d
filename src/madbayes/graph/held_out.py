"""Which of several divisions of a graph to take: edges held out are predicted, the rest repeated.

1. *Hold out.* A tenth of the edges is set aside, and all divisions are made again from the others;
   so up to ten times, each time with another tenth.
2. *Predict.* The share p of the edges held out that lie inside of a community is compared with the
   share q that would without communities: the ends of an edge are anywhere, with probabilities in
   proportion to their degrees (the configuration model, so any law of degrees is allowed for). The
   gain p·log(p/q) + (1-p)·log((1-p)/(1-q)) is the mean logarithm of the likelihood, above chance,
   that the degree-corrected planted partition with these communities gives to an edge held out
   (Kawamoto & Kabashima 2017 choose the number of groups so). Divisions that follow chance in the
   edges lose it: a random graph has p ≤ q at every resolution. Connected components need no
   evidence, so that p must also exceed, beyond chance, what edges within components would have.
3. *Agree.* The adjusted Rand index between the communities of all edges and those without a tenth.
4. *Take* a division of high worth, which is its agreement times the eighth root of its gain, among
   those that predict beyond chance and gain at least `LEAST_GAIN` of the highest gain. The gain
   alone would cut graphs of nearest neighbours into small cells, which predict their edges well but
   lie elsewhere each time; agreement alone would take a few nodes far off. Of divisions whose worth
   is the same, the number of communities counts that stays over the most resolutions.
5. *Layers.* A coarser division adds to the one taken if edges held out between its communities keep
   to the coarser ones beyond chance; a finer one if those inside of its communities keep to the
   finer ones. (Planted communities without a hierarchy have neither.)
"""

from typing import NamedTuple

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes.graph.fringe import FRINGE_SIZE
from madbayes.graph.levels import Division, Graph, common, no_links
from madbayes.graph.modularity_kernels import hold_out
from madbayes.graph.planted import ladder

FOLDS = 10  # parts of the edges, each of which can be held out
BEYOND_CHANCE = 3.0  # standard errors by which p must exceed q; in random graphs it is below q
# Of the highest gain. Below it a division says next to nothing, however well it comes back. 0.1 to
# 0.3 give the same agreement with known labels, 0.4 and more leave out coarse divisions.
LEAST_GAIN = 0.3
# Of the gain, in the worth of a division: twice the gain outweighs 8 % less agreement. From 0.075
# to 0.15 the agreement with known labels is the same, with 0.2 it is less.
GAIN_POWER = 0.125
SAME_WORTH = 0.02  # worths as near as this are the same; so they are with 0.005 and 0.03
SAME_NUMBER = 0.05  # numbers of communities that differ by this share are the same
TINIEST = 1e-300  # in place of a zero that is divided by


class Evidence(NamedTuple):
    """What edges held out say of each division, and of which one."""

    gain: np.ndarray  # 2. for each division
    agreement: np.ndarray  # 3. for each division
    worth: np.ndarray  # 4. for each division; -1 for those that are not to be taken
    best: int | None = None  # None: nothing is predicted beyond chance
    stability: float = 0.0  # the share of halves of the repetitions that say the same number
    layer: np.ndarray | None = None  # 5. for each division whether it adds to the best one


def weigh(
    graph: Graph, component: np.ndarray, gammas: np.ndarray, repetitions: int, runs: int
) -> tuple[list[Division], Evidence]:
    """1 to 5. A division for each γ, and the evidence. `component` of each node; `runs` that are
    combined for each division."""
    stage = Stage("how many clusters", repetitions + 1)

    def divide(fold: int) -> tuple[Graph, list[Division], np.ndarray]:
        stage.step()
        if fold < 0:
            return graph, ladder(graph, gammas, runs), np.empty(0)
        rest, *held = without(graph, fold)
        found = ladder(rest, gammas, runs)
        return rest, found, np.array([predicted(rest, component, each, *held) for each in found])

    (_, divisions, _), *repeated = together(divide, range(-1, repetitions))
    each = np.array(
        [
            np.c_[figures, [agreed(rest, *two) for two in zip(found, divisions, strict=True)]]
            for rest, found, figures in repeated
        ]
    )  # repetition, division, figure
    gain, agreement, worth, _ = summed(each)
    if worth.max() < 0:
        return divisions, Evidence(gain, agreement, worth)
    numbers = np.array([division.k for division in divisions])
    best = chosen(worth, gain, numbers)
    half = -(-len(each) // 2)
    says = []
    for first in range(len(each)):
        gained, _, some, ratio = summed(each[(first + np.arange(half)) % len(each)])
        own = chosen(some, gained, numbers)
        same = abs(ratio[own] * numbers[own] / numbers[best] - 1) <= SAME_NUMBER
        says.append(some.max() >= 0 and same)
    stability, layer = float(np.mean(says)), adds_to(best, each)
    return divisions, Evidence(gain, agreement, worth, best, stability, layer)


def adds_to(best: int, each: np.ndarray) -> np.ndarray:
    """5. Which divisions say something of edges held out that the best one does not."""
    inside, _, apart, squares, total, _, _ = each.sum(axis=0).T
    finer = np.arange(len(inside)) < best
    of = np.where(finer, inside[best], total - inside[best])  # edges inside of, between communities
    also = np.where(finer, inside, inside - inside[best])
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(
            finer, apart / apart[best], (apart - apart[best]) / (total - apart[best])
        ).clip(0.0, 1.0)
        z = (also - q * of) / np.sqrt(q * (1 - q) * squares * of / total)
        return np.isfinite(z) & (z > BEYOND_CHANCE)


def summed(each: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """2 to 4 of some repetitions, for each division: gain, agreement, worth, and how many times as
    many clusters the repetitions have."""
    inside, anywhere, apart, squares, total, agreement, _ = each.sum(axis=0).T
    gain, agreement = gains(inside, anywhere, total), agreement / len(each)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (inside - apart) / np.sqrt(apart / total * (1 - apart / total) * squares)
    taken = (z > BEYOND_CHANCE) & np.isfinite(z) & (gain > LEAST_GAIN * gain.max())
    share = gain / max(gain.max(), TINIEST)
    worth = np.where(taken, agreement * share**GAIN_POWER, -1.0)
    return gain, agreement, worth, np.median(each[:, :, 6], axis=0)


def chosen(worth: np.ndarray, gain: np.ndarray, numbers: np.ndarray) -> int:
    """4. The division to take, if any has a worth."""
    stays = np.array([(numbers == number).sum() for number in numbers])
    near = worth >= worth.max() - SAME_WORTH
    return int(np.lexsort((gain, np.where(near, stays, -1)))[-1])


def without(graph: Graph, fold: int) -> tuple[Graph, np.ndarray, np.ndarray, np.ndarray]:
    """The graph without the edges of a fold, all nodes stay; and these edges (u, v) and weights."""
    size = graph.indices.size
    links = no_links(graph.n, size, graph.data.dtype)
    u, v, weight = *np.empty((2, size // 2), np.int32), np.empty(size // 2)
    kept, held = hold_out(*graph[:3], fold, FOLDS, *links, u, v, weight)
    gone = np.bincount(u[:held], weight[:held], graph.n)
    gone += np.bincount(v[:held], weight[:held], graph.n)
    delta = np.where(np.diff(links[0]) > 0, np.maximum(graph.delta - gone, 0.0), 0.0)
    rest = Graph(links[0], links[1][:kept], links[2][:kept], delta, delta + graph.w - graph.delta)
    return rest, u[:held], v[:held], weight[:held]


def predicted(
    rest: Graph,
    component: np.ndarray,
    division: Division,
    u: np.ndarray,
    v: np.ndarray,
    weight: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """2. Of the edges (u, v) whose ends are known to the rest of the graph: the weight inside of
    communities; the weight expected there, and expected if edges keep to their component; the
    squares of the weights; and the weight of all."""
    known = (rest.delta[u] > 0) & (rest.delta[v] > 0)
    u, v, weight = u[known], v[known], weight[known]
    labels, degree, whole = division.labels, division.weight, np.bincount(component, rest.w)
    of = np.empty(degree.size, np.int64)
    of[labels] = component
    total = max(float(rest.w.sum()), TINIEST)
    anywhere = float((degree / total) @ (degree / total))
    apart = float((degree / np.maximum(whole[of], TINIEST)) @ (degree / total))
    inside, all_of = float(weight[labels[u] == labels[v]].sum()), float(weight.sum())
    return inside, anywhere * all_of, apart * all_of, float(weight @ weight), all_of


def agreed(rest: Graph, found: Division, full: Division) -> tuple[float, float]:
    """3. The adjusted Rand index of two divisions of the nodes that the rest still links; and how
    many more clusters the first one has, as a factor."""
    known = rest.delta > 0
    labels, given = found.labels[known], full.labels[known]
    if not known.any():
        return 0.0, 1.0
    size, there = np.bincount(labels), np.bincount(given)
    least = min(FRINGE_SIZE, float(np.median(there[there > 0])) / 2)  # smaller ones are chance
    ratio = (size > least).sum() / max((there > least).sum(), 1)
    return adjusted_rand(labels, given), float(ratio)


def adjusted_rand(one: np.ndarray, other: np.ndarray) -> float:
    """Hubert & Arabie's index of two divisions (scikit-learn's is slow for few nodes)."""

    def pairs(labels: np.ndarray) -> float:
        size = np.bincount(labels)
        return float((size * (size - 1.0)).sum())

    a, b, both = pairs(one), pairs(other), pairs(common(one, other)[0])
    n = one.size
    expected = a * b / max(n * (n - 1.0), 1.0)
    highest = (a + b) / 2
    return 1.0 if highest == expected else (both - expected) / (highest - expected)


def gains(inside: np.ndarray, expected: np.ndarray, total: np.ndarray) -> np.ndarray:
    """2. The gain for each edge; 0 where communities predict less than chance."""
    scale = np.where(total > 0, total, 1.0)
    p, q = np.clip(inside / scale, 0, 1), np.clip(expected / scale, TINIEST, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
        gain = np.where(p > 0, p * np.log(p / q), 0.0) + outside
    return np.where((p > q) & np.isfinite(gain), gain, 0.0)
