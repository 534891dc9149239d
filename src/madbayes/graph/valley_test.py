"""The valley test: pieces of a graph are merged unless a valley lies between them.

A penalized cut divides every graph, a ring into arcs and noise into cells, because any compact
piece has a low conductance. A true boundary has a *valley*: fewer links cross the boundary than
cross parallel lines inside of the two clusters.

1. *Pieces.* Cut the graph at a high resolution (`voting.py`): pieces of about 20 rows.
2. *Levels.* Take two pieces that are linked. Each node starts with its number of links to the
   boundary, negative on one side, and walks average these numbers along the links
   (`valley_kernels.py`). The result orders the nodes from one side to the other, as the second
   eigenvector of the walk would, but with the boundary in question in the middle.
3. *Profile.* For each place in that order, add up the weights of the links that cross it. A link
   weighs the root of the density at its ends, because links of nearest neighbours alone hardly
   depend on how dense the rows are.
4. *Depth.* The valley is the lowest place (`middle`) between two sides. A side is as high as its
   75 % quantile, and the lower side counts (`side`). Links are pairs of rows, so their number grows
   with the square of the rows near a place, which vary like a Poisson count. There are 4/(k/2) rows
   near the side to each link across it, and √(middle/side) of them are left in the middle:
   z = √2(√side rows - √middle rows) is close to standard normal where there is no valley. Links
   may cross a place in several strands, as those of the two arcs of a ring do. One strand counts,
   else the two lowest places of a ring would be one deep valley. The strands of a side are counted
   at the first place from the middle that is as high, because farther off they meet.
5. *Merge* the pair with the least z. Pairs that have grown are measured again when
   they are next in turn, until nothing is linked.
6. *Chance.* The lowest of many places is low by chance, and each row is a place. The clusters are
   those before the first merge whose z exceeds the normal quantile 1 - `LEVEL`/n, or stands out
   from all merges before: at least `LEAST`, and `APART` times the largest of them.

docs/adr/0016 tells what was tried.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from madbayes._rows.progress import Stage
from madbayes._rows.threads import patient, together
from madbayes.graph.valley_kernels import (
    NO_VALLEY,
    Clusters,
    Pieces,
    Room,
    Rule,
    merge_lowest,
    smoothing_terms,
)
from madbayes.howmany.staircase import Choice, NestedLabels, Staircase, in_words

LEVEL = 0.7  # expected number of valleys of this depth by chance, if all places were independent
LEAST = 2.2  # z, at least, of a valley that stands out from those of the merges before …
APART = 1.7  # … and the least ratio of its z to the largest z before
FEW = 0.05  # this quantile of the rows' numbers of links estimates k, if a graph is given
CURVED = 0.5  # support of clusters that are curves which pass each other
WEAK = 0.3  # support if other numbers of neighbours give other numbers of clusters
KEPT = 32  # steps of the staircase, at most
TERMS = smoothing_terms(
    100
)  # averages along the links; half as many make strong answers that are wrong
LIMIT = 1000  # nodes of each side that are looked at, those nearest to the boundary
HEIGHT = 0.75  # the quantile that is the height of a side
SPARE = 2.0  # links that are added to middle and side: one more or less is chance


class MergeTree(NamedTuple):
    """The merges of pieces, one after another."""

    labels: np.ndarray  # the piece of each node
    z: np.ndarray  # the depth of the valley that each merge closed
    pairs: np.ndarray  # the cluster that stays and the one that becomes part of it

    def labels_at(self, number: int) -> np.ndarray:
        """The labels when `number` clusters are left."""
        there = np.bincount(self.labels) > 0
        root = list(range(there.size))
        for a, b in self.pairs[: max(int(there.sum()) - number, 0)][::-1].tolist():
            root[b] = root[a]
        kept = np.unique(np.array(root, dtype=np.int64)[there])
        return np.searchsorted(kept, root).astype(np.int32)[self.labels]

    def before(self, deep: np.ndarray) -> int:
        """The number of clusters before the first merge that is `deep`."""
        first = np.flatnonzero(deep)
        return int(self.labels.max(initial=-1)) + 1 - int(first[0] if first.size else deep.size)

    def nested(self, numbers: np.ndarray) -> NestedLabels:
        """The labels at each of these numbers of clusters, which ascend by one."""
        rest = self.rest(int(numbers[-1]))
        group = np.arange(int(numbers[-1]))
        groups = [group.astype(np.int32)]
        for a, b in rest.pairs[: len(numbers) - 1].tolist():
            group = np.where(group == group[b], group[a], group)
            groups.append(np.unique(group, return_inverse=True)[1].astype(np.int32))
        return NestedLabels(tuple(groups[::-1]), rest.labels)

    def rest(self, number: int) -> "MergeTree":
        """The merges that are left when there are `number` clusters."""
        whole, pieces = self.labels_at(number), int(self.labels.max(initial=-1)) + 1
        of_piece = np.empty(pieces, np.int64)
        of_piece[self.labels] = whole
        done = pieces - number
        return MergeTree(whole, self.z[done:], of_piece[self.pairs[done:]])

    def excess(self) -> np.ndarray:
        """6. How much each z exceeds the z that step 6 requires."""
        before = np.maximum.accumulate(np.r_[0.0, self.z])[:-1]
        least = np.maximum(LEAST, APART * before)
        return self.z - np.minimum(chance(self.labels.size), least)


def chance(rows: int, level: float = LEVEL) -> float:
    """6. The normal quantile 1 - level/rows: a z that chance hardly reaches."""
    return float(-ndtri(level / max(rows, 1)))


def row_weight(A: sp.csr_array, n_neighbors: int | None) -> float:
    """4. The weight of half a row's neighbours; k of a given graph is estimated (`FEW`)."""
    if not A.nnz:
        return 1.0
    few = np.quantile(np.diff(A.indptr), FEW) if n_neighbors is None else n_neighbors
    return max(float(few), 1.0) / 2 * float(A.data.mean())


def pieces_of_graph(
    A: sp.csr_array, flow: np.ndarray, piece: np.ndarray
) -> tuple[Pieces, Clusters]:
    """The graph with the nodes of a piece next to each other, and each piece as a cluster."""
    k = int(piece.max(initial=-1)) + 1
    first = np.r_[0, np.cumsum(np.bincount(piece, minlength=k))]
    order, place = np.argsort(piece, kind="stable"), np.empty(piece.size, np.uint32)
    place[order] = np.arange(piece.size)
    degree = np.diff(A.indptr)[order]
    indptr = np.r_[0, np.cumsum(degree)]
    # The links of a node stay in their order
    edge = np.arange(A.indices.size) + np.repeat(A.indptr[:-1][order] - indptr[:-1], degree)
    indices = place[A.indices[edge]]
    piece = piece[order].astype(np.uint32)
    ends = np.repeat(piece.astype(np.int64), degree), piece[indices]
    both = np.unique((ends[0] * k + ends[1])[ends[0] != ends[1]])
    links = np.searchsorted(both, k * np.arange(k + 1))
    linked = (both % k).astype(np.uint32)
    graph = Pieces(indptr, indices, A.data[edge], flow[edge], piece, first, links, linked)
    return graph, Clusters(np.arange(k), np.full(k, -1), np.arange(k), np.diff(first))


def working_room(graph: Pieces, limit: int) -> Room:
    """The working memory of the kernels, for one thread."""
    degree = np.diff(graph.indptr)
    nodes = min(2 * limit, degree.size)
    edges = int(np.sort(degree)[degree.size - nodes :].sum())
    return Room(
        np.full(degree.size, -1, np.int32),
        np.empty((6, nodes + 1), np.uint32),
        np.empty((6, nodes + 1)),
        np.empty(edges + 1, np.uint16),
        np.empty(edges + 1),
        np.empty(edges + 1),
    )


def merge(
    A: sp.csr_array, flow: np.ndarray, piece: np.ndarray, unit: float, layers: float = 0.0
) -> MergeTree:
    """2 to 5, until nothing is linked any more; see `Rule` for `unit` and `layers`."""
    graph, clusters = pieces_of_graph(A, flow, piece)
    spare = SPARE * float(A.data.mean()) if A.nnz else 1.0
    rule = Rule(TERMS, LIMIT, layers, HEIGHT, unit, spare)
    k = clusters.size.size
    ends = np.c_[np.repeat(np.arange(k), np.diff(graph.links)), graph.linked].astype(np.int64)
    ends = ends[ends[:, 0] < ends[:, 1]]
    n_pairs = len(ends)
    tournament = np.full(2 ** (max(n_pairs - 1, 1).bit_length() + 1), -1)
    tournament[tournament.size // 2 :][:n_pairs] = np.arange(n_pairs)
    # The list of each cluster's ends of pairs
    order = np.argsort(ends.ravel(), kind="stable")
    owner = ends.ravel()[order]
    same = owner[1:] == owner[:-1]
    head, after = np.full(k, -1), np.full(2 * n_pairs, -1)
    head[owner[::-1]] = order[::-1]
    after[order[:-1][same]] = order[1:][same]
    pairs = ends, np.full(n_pairs, np.inf), np.zeros(n_pairs, bool)
    merged, depths = np.empty((max(k - 1, 0), 2), np.int64), np.empty(max(k - 1, 0))
    state = *pairs, tournament, head, after, np.full(k, -1), merged, depths, np.empty_like(after)

    def measure_pairs(begin: int) -> None:
        room = working_room(graph, LIMIT)
        last = min(begin + step, n_pairs)
        patient(merge_lowest, graph, clusters, rule, room, *state, begin, last, 0, 0)

    stage, done, end = Stage("valleys between pieces", k), 0, 0
    step = max(64, -(-n_pairs // 16))  # pairs of a task: at most 16 tasks, none too short
    together(measure_pairs, range(0, n_pairs, step))
    room = working_room(graph, LIMIT)
    while n_pairs and done == end < len(merged):
        end = min(done + 1000, len(merged))  # merges from one report of progress to the next
        done = patient(merge_lowest, graph, clusters, rule, room, *state, 0, 0, done, end)
        stage.at(done)
    return MergeTree(piece, depths[:done], merged[:done])


def staircase(tree: MergeTree, hint: int | None) -> Staircase:
    """The number of clusters against the z that a valley must have, and which to take.

    The price is exp(z). A join that was shallow only after a deeper one counts as deep, so that the
    staircase rises; the error of k clusters is the sum of the valleys inside of them.
    """
    pieces = int(tree.labels.max(initial=-1)) + 1
    least = pieces - len(tree.z)  # linked by nothing
    excess = tree.excess()
    supported = tree.before(excess > 0)
    number = supported if hint is None else int(np.clip(hint, least, pieces))
    rising = np.clip(np.maximum.accumulate(tree.z), NO_VALLEY, 30.0)
    price = np.exp(rising)
    steps = np.arange(least, min(pieces, number + KEPT) + 1)
    inside = np.cumsum(price)[pieces - steps[:-1] - 1]  # of all joins made
    nested = tree.nested(steps)
    path = Staircase.build(steps, np.r_[inside, 0.0], labels=nested.groups)
    path = replace(path, labels=replace(nested, groups=path.labels))
    i = pieces - number  # the next join
    low, high = np.r_[NO_VALLEY, rising, rising.max(initial=0.0) + 1][i : i + 2]
    support = float(np.clip(excess[i], 0.01, 1.0)) if number > least else 1.0
    reason = "no valley in the rows is deeper than chance makes them"
    if number > 1:
        reason = "every valley between them is deeper than chance makes it"
    if hint is not None:
        reason = f"n_clusters_hint={hint}; the valleys support {supported}"
    if number == 1 or number > supported:
        support = 0.0
    others = [k for k in (number + 1, number - 1, number + 2) if least < k <= steps[-1]]
    choice = Choice(
        number,
        float(np.exp((low + high) / 2)),
        in_words(support),
        support,
        reason,
        tuple((k, float(price[pieces - k])) for k in others),
        float(np.exp(high)),
    )
    return replace(path, choice=choice)


def staircase_with_curves(tree: MergeTree, path: Staircase, labels: np.ndarray) -> Staircase:
    """The staircase with clusters divided into curves (`curves.py`): `labels`, in which the curves
    of a cluster beyond its first have the highest labels. No valley is between them, so they are
    joined before anything else, and the evidence is moderate at most.
    """
    before = path.best()
    rest = tree.rest(before.number)
    further = np.arange(before.number, int(labels.max()) + 1)
    first = [np.bincount(rest.labels[labels == each]).argmax() for each in further]
    divided = MergeTree(
        labels,
        np.r_[np.full(further.size, chance(labels.size) + CURVED), rest.z],
        np.vstack([np.c_[first, further], rest.pairs]),
    )
    path = staircase(divided, None)
    support = CURVED if before.number == 1 else min(before.support, CURVED)
    choice = replace(
        path.best(),
        reason="every valley between them is deep, or they are curves that pass each other",
        support=support,
        strength=in_words(support),
        remarks=before.remarks,
        stability=before.stability,
    )
    return replace(path, choice=choice)


def with_weak_evidence(path: Staircase, remark: str) -> Staircase:
    """The staircase with weak evidence, and the remark that says why."""
    choice = path.best()
    support = 0.0 if choice.number == 1 else WEAK
    remarks = (*choice.remarks, remark)
    choice = replace(choice, support=support, strength=in_words(support), remarks=remarks)
    return replace(path, choice=choice)
