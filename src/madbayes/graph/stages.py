"""The stages of `NeighborCut`: each takes what is known of the rows and returns what it found.

1. `join_across_no_valley` (`pieces.py`, `valleys.py`, `samples.py`): pieces of the graph are joined
   unless a valley lies between them.
2. `settle` (`linking.py`): a row goes to the cluster that holds more of its links than its own.
3. `look_for_communities` (`communities.py`): where valleys say little, links may keep to
   communities by more than they would without clusters.
4. `keep_equal_rows_together` (`linking.py`): equal rows of a rounded table get one label.
5. `follow_curves` (`strands.py`): clusters of thin curves that cross are divided into them.

Rows are put in an order that follows from them before the first stage (`in_own_order`), so that
no stage depends on the order of the table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from madbayes.graph.communities import second_look
from madbayes.graph.fringe import fingerprint
from madbayes.graph.input import connected_part
from madbayes.graph.linking import Linked, alike, narrowed, reach, settle_borders
from madbayes.graph.neighbors import Neighbours
from madbayes.graph.pieces import Tried, Wide, by_majority, join_pieces
from madbayes.graph.samples import MANY, Among, by_samples
from madbayes.graph.strands import untangled
from madbayes.graph.valleys import Joined, staircase, with_curves
from madbayes.howmany.staircase import Staircase


@dataclass(frozen=True)
class Known:
    """What is known of the rows, all in one order, and what the stages have found.

    Attributes
    ----------
    linked : Linked
        The graph of the rows that was asked for.
    rows : Neighbours or None
        The rows, where X is not a graph or distances.
    wide, among : tuple of arrays, function, or None
        Distances and places of as many neighbours as the stages try; and who knows the neighbours
        of some rows among themselves. None where nobody knows them.
    numbers, weights, effort, hint
        Numbers of neighbours that are tried, and parameters of the estimator.
    near : Linked
        The graph that decided.
    joined, path, labels
        The joins of its pieces, the staircase of them, and the clusters.
    """

    linked: Linked
    rows: Neighbours | None
    wide: Wide | None
    among: Among | None
    numbers: Tried
    weights: str
    effort: float
    hint: int | None
    near: Linked | None = None
    joined: Joined | None = None
    path: Staircase | None = None
    labels: np.ndarray | None = None


Stage = Callable[[Known], Known]


def divide(known: Known) -> tuple[np.ndarray, Staircase]:
    """All stages in turn: labels of the rows in their given order, and the staircase."""
    known, place = in_own_order(known)
    for stage in STAGES:
        known = stage(known)
    assert known.labels is not None and known.path is not None
    steps = known.path.labels
    path = replace(known.path, labels=None if steps is None else tuple(x[place] for x in steps))
    return known.labels[place], path


def in_own_order(known: Known) -> tuple[Known, np.ndarray]:
    """Rows in an order that follows from their distances (of a given graph: from its links), and
    where each row went.

    Distances by the cosine become those of straight lines between rows of length 1, so that nothing
    depends on how the metric is called.
    """
    linked, cosine = known.linked, known.rows is not None and known.rows.by_cosine()
    if cosine and linked.distance is not None:
        linked = linked._replace(distance=straight(linked.distance))
    if linked.distance is None:
        graph, used = connected_part(linked.A, "normalized")
        key = np.zeros(linked.A.shape[0], np.uint64)
        key[used] = fingerprint(graph)
        order = np.argsort(key, kind="stable")
    else:
        order = np.lexsort((*linked.distance.T, reach(linked.distance)))
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    wide, among, rows = known.wide, known.among, known.rows
    if wide is not None:
        distance = straight(wide[0]) if cosine else wide[0]
        wide = distance[order], place[wide[1][order]]
    if among is not None:
        among = partial(among_ordered, among, order, cosine)
    if rows is not None:
        rows = rows.in_order(order)
    return replace(
        known, linked=linked.in_order(order, place), wide=wide, among=among, rows=rows
    ), place


def straight(cosine: np.ndarray) -> np.ndarray:
    """Straight distances of rows of length 1, from 1 - cosine."""
    return np.sqrt(2 * np.maximum(cosine, 0.0))


def among_ordered(among: Among, order: np.ndarray, cosine: bool, some: np.ndarray, k: int) -> Wide:
    """The nearest of `some` rows among themselves, which are `order[some]` in the given order."""
    distance, place = among(order[some], k)
    return (straight(distance) if cosine else distance), place


def join_across_no_valley(known: Known) -> Known:
    """1. By majority of several numbers of neighbours; of many rows by samples too. A given graph
    or a number of clusters that is asked for leaves nothing to vote on."""
    if known.wide is None or known.among is None:
        near = narrowed(known.linked, known.weights)
        joined = join_pieces(near, known.effort)
        return replace(known, near=near, joined=joined, path=staircase(joined, known.hint))
    how = known.numbers, known.weights, known.effort
    if len(known.wide[0]) > MANY:
        near, joined, path = by_samples(known.among, known.wide, *how)
    else:
        near, joined, path = by_majority(known.linked, known.wide, *how)
    return replace(known, near=near, joined=joined, path=path)


def settle(known: Known) -> Known:
    """2."""
    assert known.near is not None and known.joined is not None and known.path is not None
    labels = known.joined.at(known.path.best().number)
    return replace(known, labels=settle_borders(known.near.A, labels))


def look_for_communities(known: Known) -> Known:
    """3. Not where a number of clusters is asked for."""
    if known.hint is not None:
        return known
    assert known.near is not None and known.path is not None and known.labels is not None
    found = second_look(known.rows, known.near, known.labels, known.path, known.weights)
    return known if found is None else replace(known, labels=found[0], path=found[1])


def keep_equal_rows_together(known: Known) -> Known:
    """4."""
    if known.linked.cell is None:
        return known
    assert known.labels is not None
    return replace(known, labels=alike(known.labels, known.linked.cell))


def follow_curves(known: Known) -> Known:
    """5. Not where a number of clusters is asked for."""
    rows = None if known.rows is None else known.rows.straight()
    if rows is None or known.hint is not None:
        return known
    assert known.joined is not None and known.path is not None and known.labels is not None
    curves = untangled(rows, known.labels)
    if curves.max() <= known.labels.max():
        return known
    return replace(known, labels=curves, path=with_curves(known.joined, known.path, curves))


STAGES: tuple[Stage, ...] = (
    join_across_no_valley,
    settle,
    look_for_communities,
    keep_equal_rows_together,
    follow_curves,
)
