"""The cut of a graph into pieces, their merges, and the vote of several numbers of neighbours.

Too few neighbours see gaps that chance made, too many reach over the gaps that are there. So cuts
of the graphs of 10, 15 and 30 neighbours vote on the number of clusters.
"""

from dataclasses import replace

import numpy as np

from madbayes._rows.threads import together
from madbayes.graph.input import connected_part
from madbayes.graph.knn_graph import KnnGraph, Nearest, knn_graph, mean_distance, most_neighbours
from madbayes.graph.levels import LOOKS, reordered
from madbayes.graph.merging import merge
from madbayes.graph.search import one_run
from madbayes.graph.valley_test import MergeTree, row_weight, staircase, with_weak_evidence
from madbayes.howmany.staircase import Staircase

PIECES = 0.5  # resolution of the first cut: pieces of about 20 rows
VOTERS = (10, 15, 30)  # numbers of neighbours that vote, where the user asks for one among them


def voters(n_neighbors: int) -> tuple[int, ...]:
    """The numbers of neighbours that vote, ascending; the one in the middle decides ties."""
    if VOTERS[0] <= n_neighbors <= VOTERS[-1]:
        return VOTERS
    return min(max(2 * n_neighbors // 3, 2), n_neighbors), n_neighbors, 2 * n_neighbors


def merge_pieces(graph: KnnGraph, effort: float, layers: float = 0.0) -> MergeTree:
    """Cut the graph at the resolution `PIECES` and merge the pieces.

    The cut visits dense rows first. Rows without a link are pieces of their own.
    """
    A = graph.A
    connected, used = connected_part(A, "normalized")
    pieces = np.empty(A.shape[0], np.int32)
    first = 0
    if used.size:
        far = -connected.delta if graph.distance is None else mean_distance(graph.distance)[used]
        connected, place = reordered(connected, np.argsort(far, kind="stable").astype(np.int32))
        rng = np.random.RandomState(0)
        cut = one_run(connected, PIECES, rng, max(1, round(LOOKS * effort)))
        pieces[used] = cut.labels[place]
        first = int(pieces[used].max()) + 1
    alone = np.setdiff1d(np.arange(A.shape[0]), used)
    pieces[alone] = first + np.arange(alone.size)
    k = None if graph.nearest is None else graph.nearest.shape[1]
    return merge(A.indptr, A.indices, A.data, graph.flow, pieces, row_weight(A, k), layers)


def majority_of_numbers(
    asked: KnnGraph, nearest: Nearest, numbers: tuple[int, ...], weights: str, effort: float
) -> tuple[KnnGraph, MergeTree, Staircase]:
    """The graph that decides by the vote of `numbers` of neighbours, its merges and staircase.

    `asked` is the graph that the user asked for, which may be one of those that vote.
    """
    distance, place = nearest
    most = min(most_neighbours(len(place)), place.shape[1])
    numbers = tuple(min(k, most) for k in numbers)
    own = 0 if asked.nearest is None else asked.nearest.shape[1]
    graphs = {
        k: asked if k == own else knn_graph(distance[:, :k], place[:, :k], weights, 1.0)
        for k in set(numbers)
    }
    k, tree, path = majority(graphs, numbers, effort)
    return graphs[k], tree, path


def majority(
    graphs: dict[int, KnnGraph], numbers: tuple[int, ...], effort: float
) -> tuple[int, MergeTree, Staircase]:
    """The number of neighbours that decides, the merges of its graph, and their staircase.

    Where the first two find one cluster the last, which takes as long as both, is not asked.
    """
    trees: dict[int, MergeTree] = {}
    paths: dict[int, Staircase] = {}
    for asked in (numbers[:2], numbers[2:]):
        new = sorted(set(asked) - set(trees))
        trees |= zip(new, together(lambda k: merge_pieces(graphs[k], effort), new), strict=True)
        paths |= {k: staircase(trees[k], None) for k in new}
        if all(path.best().number == 1 for path in paths.values()):
            break
    k, path = vote(paths, tuple(k for k in numbers if k in paths))
    return k, trees[k], path


def vote(paths: dict[int, Staircase], numbers: tuple[int, ...]) -> tuple[int, Staircase]:
    """The vote of `numbers` of neighbours, whose staircases are `paths`.

    The median of their numbers of clusters wins. The middle voter decides if it found the median,
    else the first that did. The evidence is weak where voters differ.
    """
    found = {k: path.best().number for k, path in paths.items()}
    median = sorted(found[k] for k in numbers)[len(numbers) // 2]
    middle = numbers[len(numbers) // 2]
    decides = middle if found[middle] == median else next(k for k in numbers if found[k] == median)
    same = float(np.mean([found[k] == median for k in numbers]))
    path = replace(paths[decides], choice=replace(paths[decides].best(), stability=same))
    differ = [k for k in paths if found[k] != median]
    if not differ:
        return decides, path
    others = " and ".join(f"{found[k]} with {k}" for k in differ)
    remark = f"The number depends on the neighbours that count: it would be {others}"
    return decides, with_weak_evidence(path, remark)
