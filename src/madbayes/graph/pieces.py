"""Pieces of a graph of neighbours, joined where no valley is; and what other neighbours say."""

import numpy as np

from madbayes._rows.threads import together
from madbayes.graph.input import connected_part
from madbayes.graph.joining import join
from madbayes.graph.levels import LOOKS, reordered
from madbayes.graph.linking import Linked, link, most_neighbours, reach
from madbayes.graph.search import one_run
from madbayes.graph.valleys import PIECES, Joined, links_together, staircase, vote
from madbayes.howmany.staircase import Staircase

Tried = tuple[int, ...]
Wide = tuple[np.ndarray, np.ndarray]
TRIED = (10, 15, 30)  # neighbours that decide, where the number asked for is between them


def tried(n_neighbors: int) -> Tried:
    """Numbers of neighbours whose cuts are compared."""
    if TRIED[0] <= n_neighbors <= TRIED[-1]:
        return TRIED
    return max(2 * n_neighbors // 3, 2), n_neighbors, 2 * n_neighbors


def join_pieces(linked: Linked, effort: float, layers: float = 0.0) -> Joined:
    """Cut the graph at a high resolution and join the pieces; rows without a link are on their own.

    The cut visits dense rows first.
    """
    A = linked.A
    graph, used = connected_part(A, "normalized")
    pieces = np.empty(A.shape[0], np.int32)
    first = 0
    if used.size:
        far = -graph.delta if linked.distance is None else reach(linked.distance)[used]
        graph, place = reordered(graph, np.argsort(far, kind="stable").astype(np.int32))
        rng = np.random.RandomState(0)
        cut = one_run(graph, PIECES, rng, max(1, round(LOOKS * effort)))
        pieces[used] = cut.labels[place]
        first = int(pieces[used].max()) + 1
    alone = np.setdiff1d(np.arange(A.shape[0]), used)
    pieces[alone] = first + np.arange(alone.size)
    k = None if linked.nearest is None else linked.nearest.shape[1]
    unit = links_together(A, k)
    return join(A.indptr, A.indices, A.data, linked.flow, pieces, unit, layers)


def by_majority(
    asked: Linked, wide: Wide, tried: Tried, weights: str, effort: float
) -> tuple[Linked, Joined, Staircase]:
    """What most of the numbers of neighbours tried say: a graph, its pieces joined, and how far.

    `asked`: the graph that was asked for, which may be one of those tried; `wide`: distances and
    places of enough neighbours.
    """
    distance, place = wide
    most = min(most_neighbours(len(place)), place.shape[1])
    numbers = tuple(min(k, most) for k in tried)
    own = 0 if asked.nearest is None else asked.nearest.shape[1]
    linked = {
        k: asked if k == own else link(distance[:, :k], place[:, :k], weights, 1.0)
        for k in set(numbers)
    }
    k, joined, path = majority(linked, numbers, effort)
    return linked[k], joined, path


def majority(
    linked: dict[int, Linked], numbers: Tried, effort: float
) -> tuple[int, Joined, Staircase]:
    """Graphs by their numbers of neighbours, cut and joined: who decides, and what that says.

    Where the first two say one cluster, the last is not asked: it takes as long as they do.
    """
    paths: dict[int, Staircase] = {}
    joined: dict[int, Joined] = {}
    for asked in (numbers[:2], numbers[2:]):
        new = sorted(set(asked) - set(joined))
        joined |= zip(new, together(lambda k: join_pieces(linked[k], effort), new), strict=True)
        paths |= {k: staircase(joined[k], None) for k in new}
        if all(path.best().number == 1 for path in paths.values()):
            break
    k, path = vote(paths, tuple(k for k in numbers if k in paths))
    return k, joined[k], path
