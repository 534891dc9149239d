"""Clusters of any shape: pieces of a graph joined where no valley lies between them.

A penalized cut divides every graph, a ring into arcs and noise into cells, because any compact
piece has a low conductance. What tells a boundary from an arbitrary line is a *valley*: fewer links
cross the boundary than cross parallel lines inside the two clusters.

1. *Pieces.* Cut the graph at a high resolution (`search.py`): pieces of a few dozen rows.
2. *Levels.* Of two pieces that are linked: each node's number of links to the boundary, negative on
   one side, averaged along the links many times. It orders the nodes from one side to the other,
   as the second eigenvector of the walk on both would (which the averages tend to), but with the
   boundary that is in question in the middle, and in order also far from it.
3. *Profile.* For each place in that order the weight of the links that cross it. A link weighs the
   root of the density at its ends (the number of rows within a given distance, from the distances
   to the nearest neighbours): links of nearest neighbours alone hardly feel how dense rows are.
4. *Depth.* A valley is the lowest place (`middle`) between two sides. A side is as high as its
   75 % quantile; the lower one counts (`side`). Links are pairs of rows, so that their number goes
   with the square of the rows near a place, which vary as a Poisson count does. Near the side
   there are 4/(k/2) rows to each link across it; in the middle √(middle/side) of them are left:
   z = √2(√side rows - √middle rows) is near to standard normal, where no valley is. Links that
   cross in several strands, as two arcs of a ring do or the arms of a star, are so many places, and
   one of each counts: else the two lowest places of a ring would be one deep valley, and one arm
   a valley beside three. A side's strands are counted at the first place from the middle that is as
   high: the two ends of an arc meet in its middle.
5. *Join* the two with the least z; those that touch them are measured again when they are next in
   turn, and so on, until nothing is linked (`joining.py`).
6. *Chance.* The lowest of many places is low by chance, and each row is a place. The clusters are
   what is there before the first join with a z beyond the quantile 1 - `LEVEL`/n; or, since shapes
   differ in what chance does to them, with a z that stands out from those of all joins before:
   `APART` times the largest of them, and not below `LEAST`.

docs/adr/0016 tells what was tried.
"""

from dataclasses import replace
from math import isfinite, sqrt
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from madbayes.howmany.staircase import Choice, NestedLabels, Staircase, in_words

PIECES = 0.5  # the resolution of the pieces
ROWS = 4.0  # near a side for each unit of links across it
LEVEL = 0.7  # valleys as deep in all places by chance, if places were independent
LEAST = 2.2  # z of a valley that stands out from those before
APART = 1.7  # and its ratio to the largest of them
FEW = 0.05  # a graph of nearest neighbours: so few rows have hardly more than their own k
NONE = -9.0  # z where there is no valley at all
CURVED = 0.5  # support of curves that pass each other
WEAK = 0.3  # support where other numbers of neighbours disagree
KEPT = 32  # steps of the staircase


class Joined(NamedTuple):
    """Pieces joined one after another: the depths of the valleys, and who joined whom."""

    labels: np.ndarray  # of the nodes, in pieces
    z: np.ndarray  # of the joins, in their order
    pairs: np.ndarray  # the second piece became part of the first

    def at(self, number: int) -> np.ndarray:
        """Labels with so many clusters."""
        there = np.bincount(self.labels) > 0
        root = list(range(there.size))
        for a, b in self.pairs[: max(int(there.sum()) - number, 0)][::-1].tolist():
            root[b] = root[a]
        kept = np.unique(np.array(root, dtype=np.int64)[there])
        return np.searchsorted(kept, root).astype(np.int32)[self.labels]

    def before(self, deep: np.ndarray) -> int:
        """How many clusters there are before the first join that is `deep`."""
        first = np.flatnonzero(deep)
        return int(self.labels.max(initial=-1)) + 1 - int(first[0] if first.size else deep.size)

    def nested(self, numbers: np.ndarray) -> NestedLabels:
        """The clusters at each of these numbers, which ascend by one."""
        rest = self.rest(int(numbers[-1]))
        group = np.arange(int(numbers[-1]))
        groups = [group.astype(np.int32)]
        for a, b in rest.pairs[: len(numbers) - 1].tolist():
            group = np.where(group == group[b], group[a], group)
            groups.append(np.unique(group, return_inverse=True)[1].astype(np.int32))
        return NestedLabels(tuple(groups[::-1]), rest.labels)

    def rest(self, number: int) -> "Joined":
        """What is left to be joined when there are so many clusters."""
        whole, pieces = self.at(number), int(self.labels.max(initial=-1)) + 1
        of_piece = np.empty(pieces, np.int64)
        of_piece[self.labels] = whole
        done = pieces - number
        return Joined(whole, self.z[done:], of_piece[self.pairs[done:]])

    def beyond(self) -> np.ndarray:
        """6. By how much each z is beyond what is asked of it."""
        before = np.maximum.accumulate(np.r_[0.0, self.z])[:-1]
        least = np.maximum(LEAST, APART * before)
        return self.z - np.minimum(chance(self.labels.size), least)


def chance(rows: int, level: float = LEVEL) -> float:
    """6. The z that chance does not reach."""
    return float(-ndtri(level / max(rows, 1)))


def depth(middle: float, side: float, links: float, unit: float, spare: float) -> float:
    """4. z of a valley; `links` cross the side."""
    if not isfinite(middle) or not side > 0.0:  # nothing crosses the side: no valley beside it
        return NONE
    share = (links * min(middle / side, 1.0) + spare) / (links + spare)
    rows = ROWS * links / unit
    return sqrt(2.0) * (sqrt(rows) - sqrt(rows * sqrt(share)))


def links_together(A: sp.csr_array, n_neighbors: int | None) -> float:
    """4. The weight of half a row's neighbours; of a given graph its rows of few links tell."""
    if not A.nnz:
        return 1.0
    few = np.quantile(np.diff(A.indptr), FEW) if n_neighbors is None else n_neighbors
    return max(float(few), 1.0) / 2 * float(A.data.mean())


def staircase(joined: Joined, hint: int | None) -> Staircase:
    """The number of clusters against the z that a valley must have, and which to take.

    The price is exp(z). A join that was shallow only after a deeper one counts as deep, so that the
    staircase rises; the error of k clusters is the sum of the valleys inside of them.
    """
    pieces = int(joined.labels.max(initial=-1)) + 1
    least = pieces - len(joined.z)  # linked by nothing
    beyond = joined.beyond()
    supported = joined.before(beyond > 0)
    number = supported if hint is None else int(np.clip(hint, least, pieces))
    rising = np.clip(np.maximum.accumulate(joined.z), NONE, 30.0)
    price = np.exp(rising)
    steps = np.arange(least, min(pieces, number + KEPT) + 1)
    inside = np.cumsum(price)[pieces - steps[:-1] - 1]  # of all joins made
    nested = joined.nested(steps)
    path = Staircase.build(steps, np.r_[inside, 0.0], labels=nested.groups)
    path = replace(path, labels=replace(nested, groups=path.labels))
    i = pieces - number  # the next join
    low, high = np.r_[NONE, rising, rising.max(initial=0.0) + 1][i : i + 2]
    support = float(np.clip(beyond[i], 0.01, 1.0)) if number > least else 1.0
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


def with_curves(joined: Joined, path: Staircase, labels: np.ndarray) -> Staircase:
    """The staircase with clusters divided into curves (`strands.py`): `labels`, in which the curves
    of a cluster beyond its first have the highest labels. No valley is between them, so they are
    joined before anything else, and the evidence is moderate at most.
    """
    before = path.best()
    rest = joined.rest(before.number)
    further = np.arange(before.number, int(labels.max()) + 1)
    first = [np.bincount(rest.labels[labels == each]).argmax() for each in further]
    divided = Joined(
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


def vote(paths: dict[int, Staircase], tried: tuple[int, ...]) -> tuple[int, Staircase]:
    """Who decides of those `tried`, neighbours: staircase; and its staircase.

    The one in the middle has the vote if its number is; where numbers differ the evidence is weak.
    """
    number = {k: path.best().number for k, path in paths.items()}
    middle = sorted(number[k] for k in tried)[len(tried) // 2]
    own = tried[len(tried) // 2]
    decides = own if number[own] == middle else next(k for k in tried if number[k] == middle)
    same = float(np.mean([number[k] == middle for k in tried]))
    path = replace(paths[decides], choice=replace(paths[decides].best(), stability=same))
    differ = [k for k in paths if number[k] != middle]
    if not differ:
        return decides, path
    found = " and ".join(f"{number[k]} with {k}" for k in differ)
    remark = f"The number depends on the neighbours that count: it would be {found}"
    return decides, doubted(path, remark)


def doubted(path: Staircase, remark: str) -> Staircase:
    """The same with weak evidence, and why."""
    choice = path.best()
    support = 0.0 if choice.number == 1 else WEAK
    remarks = (*choice.remarks, remark)
    choice = replace(choice, support=support, strength=in_words(support), remarks=remarks)
    return replace(path, choice=choice)
