"""Clusters of any shape: pieces of a graph joined where no valley lies between them.

A penalized cut divides every graph, a ring into arcs and noise into cells, because any compact
piece has a low conductance. What tells a boundary from an arbitrary line is a *valley*: fewer links
cross the boundary than cross parallel lines inside the two clusters.

1. *Pieces.* Cut the graph at a high resolution (`search.py`): pieces of a few dozen rows.
2. *Levels.* Of two pieces that are linked: -1 on the nodes of one and 1 on those of the other,
   averaged along the links many times, tends to the second eigenvector of the walk on both, from
   the boundary that is in question. It orders the nodes from one side to the other.
3. *Profile.* For each place in that order the weight of the links that cross it. A link weighs the
   root of the density at its ends (the number of rows within a given distance, from the distances
   to the nearest neighbours): links of nearest neighbours alone hardly feel how dense rows are.
4. *Depth.* log(side/middle), where side is the lower of the two sides' 90 % quantiles, minus
   what chance makes of it: a profile over r rows has a relative error near `SPREAD`/√r, and the
   lowest of several independent places is √(2 log places) errors low.
5. *Join* the two with the shallowest valley; those that touch them are measured again when they
   are next in turn, and so on: the staircase. The clusters are those left when every valley is
   deeper than chance and `LEAST`.

docs/adr/0016 tells what was tried.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from madbayes._engine.progress import Stage
from madbayes._kernels.valleys import valley
from madbayes._search.staircase import Choice, Staircase, in_words

PIECES = 0.5  # the resolution of the pieces
STEPS = 100  # averages along the links
LIMIT = 1000  # nodes of each side that are looked at, those nearest to the boundary
SPREAD = 1.5  # relative error of a profile × √rows
HEIGHT = 0.9  # the quantile that is the height of a side
LEAST = 0.4  # the least depth of a valley, beyond chance
KEPT = 32  # steps of the staircase


class Joined(NamedTuple):
    """Pieces joined one after another: number of clusters, depth of the valley, who joined whom."""

    labels: np.ndarray  # of the nodes, in pieces
    depth: np.ndarray  # of the joins, in their order
    pairs: np.ndarray  # the second piece became part of the first

    def at(self, number: int) -> np.ndarray:
        """Labels with so many clusters."""
        k = len(np.unique(self.labels))
        root = np.arange(int(self.labels.max(initial=0)) + 1)
        for a, b in self.pairs[: max(k - number, 0)][::-1]:
            root[b] = root[a]
        return np.unique(root[self.labels], return_inverse=True)[1].astype(np.int32)


def join(
    indptr: np.ndarray, indices: np.ndarray, walk: np.ndarray, flow: np.ndarray, labels: np.ndarray
) -> Joined:
    """2 to 5, until nothing is linked any more."""
    where = np.full(labels.size, -1, np.int64)

    def measure(one: np.ndarray, other: np.ndarray) -> float:
        few, many = (one, other) if one.size <= other.size else (other, one)
        return float(
            valley(indptr, indices, walk, flow, few, many, where, LIMIT, STEPS, SPREAD, HEIGHT)
        )

    return shallowest_first(indptr, indices, labels, measure)


def shallowest_first(
    indptr: np.ndarray,
    indices: np.ndarray,
    labels: np.ndarray,
    measure: Callable[[np.ndarray, np.ndarray], float],
) -> Joined:
    """5. Each step joins the linked pair of the least depth; ties go to the lowest labels."""
    k = int(labels.max(initial=-1)) + 1
    starts = np.cumsum(np.bincount(labels, minlength=k))[:-1]
    members = dict(enumerate(np.split(np.argsort(labels, kind="stable"), starts)))
    ends = np.repeat(labels.astype(np.int64), np.diff(indptr)), labels[indices].astype(np.int64)
    linked = np.unique((ends[0] * k + ends[1])[ends[0] < ends[1]])
    neighbours: dict[int, set[int]] = {c: set() for c in range(k)}
    known: dict[tuple[int, int], float] = {}
    stage = Stage("valleys between pieces", k)
    for a, b in zip((linked // k).tolist(), (linked % k).tolist(), strict=True):
        neighbours[a].add(b)
        neighbours[b].add(a)
        known[a, b] = measure(members[a], members[b])
    heap = [(value, *pair, 0, 0, True) for pair, value in known.items()]
    heapq.heapify(heap)
    version = dict.fromkeys(range(k), 0)
    depth, pairs = [], []
    while heap:
        value, a, b, va, vb, fresh = heapq.heappop(heap)
        if a not in members or b not in members or (va, vb) != (version[a], version[b]):
            continue
        if not fresh:  # one of the two has grown since: it is measured when its turn comes
            known[a, b] = measure(members[a], members[b])
            heapq.heappush(heap, (known[a, b], a, b, va, vb, True))
            continue
        depth.append(value)
        pairs.append((a, b))
        stage.at(len(pairs))
        members[a] = np.concatenate([members[a], members.pop(b)])
        neighbours[a] = (neighbours[a] | neighbours.pop(b)) - {a, b}
        version[a] += 1
        for c in sorted(neighbours[a]):
            neighbours[c] = (neighbours[c] - {b}) | {a}
            p, q = min(a, c), max(a, c)
            old = known.pop((min(b, c), max(b, c)), np.inf)
            known[p, q] = min(known.get((p, q), np.inf), old)
            heapq.heappush(heap, (known[p, q], p, q, version[p], version[q], False))
    return Joined(labels, np.array(depth), np.array(pairs, dtype=np.int64).reshape(-1, 2))


def staircase(joined: Joined, hint: int | None) -> Staircase:
    """The number of clusters against the depth that a valley must have, and which to take.

    The price is exp(depth). A join that was shallow only after a deeper one counts as deep, so that
    the staircase rises; the error of k clusters is the sum of the valleys inside of them.
    """
    pieces = int(joined.labels.max(initial=-1)) + 1
    least = pieces - len(joined.depth)  # linked by nothing
    deep = np.flatnonzero(joined.depth > LEAST)
    supported = pieces - int(deep[0]) if deep.size else least
    number = supported if hint is None else int(np.clip(hint, least, pieces))
    price = np.exp(np.clip(np.maximum.accumulate(joined.depth), -10.0, 30.0))
    steps = np.arange(least, min(pieces, number + KEPT) + 1)
    inside = np.cumsum(price)[pieces - steps[:-1] - 1]  # of all joins made
    path = Staircase.build(steps, np.r_[inside, 0.0], labels=[joined.at(int(k)) for k in steps])
    weakest = float(joined.depth[pieces - number]) if number > least else np.inf
    support = float(np.clip(weakest - LEAST, 0.01, 1.0)) if number > 1 else 0.0
    reason = "no valley in the rows is deeper than chance makes them"
    if number > 1:
        reason = "every valley between them is deeper than chance makes it"
    if hint is not None:
        reason = f"n_clusters_hint={hint}; the valleys support {supported}"
        support = support if number <= supported else 0.0
    others = [k for k in (number + 1, number - 1, number + 2) if least < k <= steps[-1]]
    choice = Choice(
        number,
        float(np.exp(LEAST)),
        in_words(support),
        support,
        reason,
        tuple((k, float(price[pieces - k])) for k in others),
        float(np.exp(min(weakest, 30.0))),
    )
    return replace(path, choice=choice)
