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
4. *Take* the division on which the repetitions agree best, of those that predict beyond chance and
   gain at least `NEARLY` of the highest gain. The gain alone would cut graphs of nearest neighbours
   into small cells, which predict their edges well but lie elsewhere each time; agreement alone
   would take a few nodes far off.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from madbayes._rows.progress import Stage
from madbayes._rows.threads import Run
from madbayes.graph.fringe import TINY
from madbayes.graph.levels import Graph
from madbayes.graph.planted import ladder

FOLDS = 10  # parts of the edges, each of which can be set aside
REPEATED = 10, 5, 3  # parts that are, in graphs of up to 100,000, 1,000,000 and more half-edges
SIZES = 100_000, 1_000_000
BEYOND_CHANCE = 3.0  # standard errors by which p must exceed q
NEARLY = 0.7  # of the highest gain; 0.6 to 0.85 give the same mean agreement with known labels
SAME = 0.01  # agreements as near as this are equal: then the higher gain decides
TINIEST = 1e-300  # in place of a zero that is divided by
TOLERANCE = 0.05  # numbers of communities that differ by this share are the same


@dataclass(frozen=True)
class Evidence:
    """What edges held out say of each division, and of which one."""

    gain: np.ndarray  # 2. for each division
    z: np.ndarray  # 2. standard errors of p - q
    agreement: np.ndarray  # 3. for each division
    best: int | None  # None: nothing is predicted beyond chance
    stability: float  # the share of halves of the repetitions that say the same number

    def supported(self) -> np.ndarray:
        """4. The divisions among which agreement decides."""
        return supported(self.gain, self.z)


def by_size(graph: Graph, *values: int) -> int:
    """One of three values, for small, medium and large graphs."""
    return values[int(np.searchsorted(SIZES, graph.indices.size))]


def weigh(
    graph: Graph,
    component: np.ndarray,
    gammas: np.ndarray,
    divisions: list[np.ndarray],
    runs: int,
    run: Run,
) -> Evidence:
    """1 to 4. `divisions` of the nodes, one for each of `gammas`; `component` of each node."""
    u = np.repeat(np.arange(graph.n), np.diff(graph.indptr))
    once = np.flatnonzero(u < graph.indices)
    u, v, weight = u[once], graph.indices[once], graph.data[once].astype(np.float64)
    part = np.random.RandomState(0).permutation(u.size) % FOLDS

    repetitions = by_size(graph, *REPEATED)
    stage = Stage("how many clusters", repetitions)

    def repeat(fold: int) -> np.ndarray:
        stage.step()
        held = part == fold
        rest = without(graph, u[held], v[held])
        found = ladder(rest, gammas, runs)
        return np.array(
            [
                [
                    *predicted(rest, component, z, u[held], v[held], weight[held]),
                    *agreed(rest, z, given),
                ]
                for z, given in zip(found, divisions, strict=True)
            ]
        )

    each = np.array(run(repeat, range(repetitions)))  # repetition, division, figure
    gain, z, agreement, _ = summed(each)
    best = chosen(gain, z, agreement)
    if best is None:
        return Evidence(gain, z, agreement, None, 0.0)
    numbers = np.array([1 + labels.max() for labels in divisions])
    half = -(-len(each) // 2)
    says = []
    for first in range(len(each)):
        some = summed(each[(first + np.arange(half)) % len(each)])
        own = chosen(*some[:3])
        says.append(
            own is not None and abs(some[3][own] * numbers[own] / numbers[best] - 1) <= TOLERANCE
        )
    return Evidence(gain, z, agreement, best, float(np.mean(says)))


def summed(each: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """2 and 3 of some repetitions, for each division: gain, z, agreement, and how many times as
    many clusters the repetitions have."""
    inside, anywhere, apart, variance, total, agreement, _ = each.sum(axis=0).T
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(variance > 0, (inside - apart) / np.sqrt(variance), 0.0)
    ratio = np.median(each[:, :, 6], axis=0)
    return gains(inside, anywhere, total), z, agreement / len(each), ratio


def without(graph: Graph, u: np.ndarray, v: np.ndarray) -> Graph:
    """The graph without some of its edges; all nodes stay."""
    A = graph.matrix().copy()
    for a, b in ((u, v), (v, u)):
        A.data[entries(A, a, b)] = 0
    A.eliminate_zeros()
    degree = np.asarray(A.sum(axis=1)).ravel().astype(np.float64)
    indptr, indices = A.indptr.astype(np.int64), A.indices.astype(np.int32)
    return Graph(indptr, indices, A.data, degree, degree + graph.w - graph.delta)


def entries(A: sp.csr_array, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Where these entries of a sorted CSR matrix are stored."""
    n = A.shape[0]
    of = np.repeat(np.arange(n, dtype=np.int64), np.diff(A.indptr)) * n + A.indices
    return np.searchsorted(of, rows.astype(np.int64) * n + columns)


def predicted(
    rest: Graph,
    component: np.ndarray,
    labels: np.ndarray,
    u: np.ndarray,
    v: np.ndarray,
    weight: np.ndarray,
) -> tuple[float, float, float, float, float]:
    """2. Of the edges (u, v) whose ends are known to the rest of the graph: the weight inside of
    communities; the weight expected there, and expected if edges keep to their component; the
    variance of the latter; and the weight of all."""
    known = (rest.delta[u] > 0) & (rest.delta[v] > 0)
    u, v, weight = u[known], v[known], weight[known]
    degree, whole = np.bincount(labels, rest.w), np.bincount(component, rest.w)
    of = np.empty(degree.size, np.int64)
    of[labels] = component
    total = max(float(rest.w.sum()), TINIEST)
    anywhere = float((degree / total) @ (degree / total))
    apart = float((degree / np.maximum(whole[of], TINIEST)) @ (degree / total))
    inside, all_of = float(weight[labels[u] == labels[v]].sum()), float(weight.sum())
    variance = apart * (1 - apart) * float(weight @ weight)
    return inside, anywhere * all_of, apart * all_of, variance, all_of


def agreed(rest: Graph, labels: np.ndarray, given: np.ndarray) -> tuple[float, float]:
    """3. The adjusted Rand index of two divisions of the nodes that the rest still links; and how
    many more clusters the first one has, as a factor."""
    known = rest.delta > 0
    labels, given = labels[known], given[known]
    if not known.any():
        return 0.0, 1.0
    size, there = np.bincount(labels), np.bincount(given)
    least = min(TINY, float(np.median(there[there > 0])) / 2)  # smaller ones are chance
    ratio = (size > least).sum() / max((there > least).sum(), 1)
    return adjusted_rand(labels, given), float(ratio)


def adjusted_rand(one: np.ndarray, other: np.ndarray) -> float:
    """Hubert & Arabie's index of two divisions (scikit-learn's is slow for few nodes)."""

    def pairs(size: np.ndarray) -> float:
        return float((size * (size - 1.0)).sum())

    a, b = pairs(np.bincount(one)), pairs(np.bincount(other))
    code = one.astype(np.int64) * (int(other.max()) + 1) + other
    both, n = pairs(np.unique(code, return_counts=True)[1]), one.size
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


def supported(gain: np.ndarray, z: np.ndarray) -> np.ndarray:
    """4. Divisions that predict beyond chance, and nearly as well as the best one."""
    return (z > BEYOND_CHANCE) & (gain > 0) & (gain >= NEARLY * gain.max(initial=0.0))


def chosen(gain: np.ndarray, z: np.ndarray, agreement: np.ndarray) -> int | None:
    """4. The division to take."""
    usable = supported(gain, z)
    if not usable.any():
        return None
    near = usable & (agreement >= agreement[usable].max() - SAME)
    return int(np.argmax(np.where(near, gain, -1.0)))
