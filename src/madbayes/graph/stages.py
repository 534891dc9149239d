"""The stages of `NeighborCut`. Each stage takes a `State` and returns the next one.

1. `merge_across_no_valley` (`voting.py`, `valley_test.py`) cuts the
   graph into small pieces and merges them, unless a valley lies between them.
2. `find_communities_without_valleys` (`communities.py`) looks for communities of the graph, where
   the rows have many columns and valleys say little.
3. `give_equal_rows_one_label` (`knn_graph.py`) gives equal rows of a rounded table one label.
4. `follow_curves` (`curves.py`) divides clusters that are thin curves which cross.

`in_order_of_density` sorts the rows before the first stage, so that no stage depends on the order
of the table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from madbayes.graph.communities import find_communities
from madbayes.graph.curves import divide_into_curves
from madbayes.graph.fringe import fingerprint
from madbayes.graph.input import connected_part
from madbayes.graph.knn_graph import (
    KnnGraph,
    Nearest,
    NearestAmong,
    label_equal_rows,
    narrowed,
    order_by_density,
)
from madbayes.graph.neighbors import Neighbours
from madbayes.graph.valley_test import MergeTree, staircase, staircase_with_curves
from madbayes.graph.voting import MANY, cut_with_samples, majority_of_numbers, merge_pieces
from madbayes.howmany.staircase import Staircase


@dataclass(frozen=True)
class State:
    """The rows, the parameters of the estimator, and what the stages have found so far.

    Attributes
    ----------
    asked : KnnGraph
        The graph with the number of neighbours that the user asked for.
    rows : Neighbours or None
        The rows; None where X is a graph or holds distances.
    nearest : Nearest or None
        Distances and indices of as many neighbours as the stages need; None for a given graph.
    nearest_among : NearestAmong or None
        Finds the nearest rows among some of the rows; None where the rows are not known.
    numbers : tuple of int
        The numbers of neighbours that vote.
    weights, effort, hint
        Parameters of the estimator.
    graph : KnnGraph or None
        The graph that decided the clusters.
    tree, path, labels : MergeTree, Staircase, array, or None
        The merges of its pieces, their staircase, and the clusters.
    """

    asked: KnnGraph
    rows: Neighbours | None
    nearest: Nearest | None
    nearest_among: NearestAmong | None
    numbers: tuple[int, ...]
    weights: str
    effort: float
    hint: int | None
    graph: KnnGraph | None = None
    tree: MergeTree | None = None
    path: Staircase | None = None
    labels: np.ndarray | None = None


def divide(state: State) -> tuple[np.ndarray, Staircase]:
    """Run all stages. Returns the labels and the staircase, rows in their given order."""
    state, place = in_order_of_density(state)
    for stage in STAGES:
        state = stage(state)
    assert state.labels is not None and state.path is not None
    nested = state.path.labels
    nested = replace(nested, parts=nested.parts[place])
    return state.labels[place], replace(state.path, labels=nested)


def in_order_of_density(state: State) -> tuple[State, np.ndarray]:
    """Sort the rows by the distances to their neighbours (of a given graph: by its links).

    Cosine distances become straight distances between rows of length 1, so that nothing depends on
    the name of the metric. Returns the sorted state and the new place of each row.
    """
    asked, cosine = state.asked, state.rows is not None and state.rows.by_cosine()
    if cosine and asked.distance is not None:
        asked = asked._replace(distance=straight(asked.distance))
    if asked.distance is None:
        graph, used = connected_part(asked.A, "normalized")
        key = np.zeros(asked.A.shape[0], np.uint64)
        key[used] = fingerprint(graph)
        order = np.argsort(key, kind="stable")
    else:
        order = order_by_density(asked.distance)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    nearest, among, rows = state.nearest, state.nearest_among, state.rows
    if nearest is not None:
        distance = straight(nearest[0]) if cosine else nearest[0]
        nearest = distance[order], place[nearest[1][order]]
    if among is not None:
        among = partial(nearest_among_sorted, among, order, cosine)
    if rows is not None:
        rows = rows.in_order(order)
    asked = asked.in_order(order, place)
    return replace(state, asked=asked, nearest=nearest, nearest_among=among, rows=rows), place


def straight(cosine: np.ndarray) -> np.ndarray:
    """Straight distances between rows of length 1, from 1 - cosine."""
    return np.sqrt(2 * np.maximum(cosine, 0.0))


def nearest_among_sorted(
    among: NearestAmong, order: np.ndarray, cosine: bool, some: np.ndarray, k: int
) -> Nearest:
    """`among` for rows that are sorted: `some` of them are `order[some]` in the given order."""
    distance, place = among(order[some], k)
    return (straight(distance) if cosine else distance), place


def merge_across_no_valley(state: State) -> State:
    """Stage 1. Several numbers of neighbours vote; samples decide where there are many rows. A
    given graph, or a number of clusters that is asked for, leaves nothing to vote on."""
    if state.nearest is None or state.nearest_among is None:
        graph = narrowed(state.asked, state.weights)
        tree = merge_pieces(graph, state.effort)
        path = staircase(tree, state.hint)
    else:
        how = state.nearest, state.numbers, state.weights, state.effort
        if len(state.nearest[0]) > MANY:
            graph, tree, path = cut_with_samples(state.asked, state.nearest_among, *how)
        else:
            graph, tree, path = majority_of_numbers(state.asked, *how)
    labels = tree.labels_at(path.best().number)
    return replace(state, graph=graph, tree=tree, path=path, labels=labels)


def find_communities_without_valleys(state: State) -> State:
    """Stage 2, unless a number of clusters is asked for."""
    if state.hint is not None:
        return state
    assert state.graph is not None and state.path is not None and state.labels is not None
    found = find_communities(state.rows, state.graph, state.labels, state.path, state.weights)
    return state if found is None else replace(state, labels=found[0], path=found[1])


def give_equal_rows_one_label(state: State) -> State:
    """Stage 3."""
    if state.asked.cell is None:
        return state
    assert state.labels is not None
    return replace(state, labels=label_equal_rows(state.labels, state.asked.cell))


def follow_curves(state: State) -> State:
    """Stage 4, unless a number of clusters is asked for."""
    rows = None if state.rows is None else state.rows.straight()
    if rows is None or state.hint is not None:
        return state
    assert state.tree is not None and state.path is not None and state.labels is not None
    labels = divide_into_curves(rows, state.labels)
    if labels.max() <= state.labels.max():
        return state
    path = staircase_with_curves(state.tree, state.path, labels)
    return replace(state, labels=labels, path=path)


STAGES: tuple[Callable[[State], State], ...] = (
    merge_across_no_valley,
    find_communities_without_valleys,
    give_equal_rows_one_label,
    follow_curves,
)
