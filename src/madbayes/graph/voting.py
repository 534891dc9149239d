"""The cut of a graph into pieces, their merges, and the vote of several numbers of neighbours.

Too few neighbours see gaps that chance made, too many reach over the gaps that are there. So cuts
of the graphs of 10, 15 and 30 neighbours vote on the number of clusters.

The nearest 15 of very many rows lie so close together that no cut of their graph sees a wide
valley: the rows near a boundary, the only ones that the test looks at, are as dense as those beside
them. In a sample the neighbours lie farther apart. Small and thin clusters show in all rows only.
So many rows are cut in these steps (`cut_with_samples`):

1. *All rows.* Cut the graph and merge its pieces, until a valley is left that is far beyond chance.
2. *Samples.* Take three samples of each cluster of more than `MANY` rows, cut them with 10, 15 and
   30 neighbours, and let them vote. Each piece of the first cut gives its share of a sample, from
   dense and sparse places alike, which leaves less to chance than random rows.
3. *The other rows* get the cluster of their nearest row that has one.
4. *Again* in parts that are still large and hold at most half of the rows that were sampled. In
   larger parts the rows of a sample would lie as far apart as before.
"""

from dataclasses import replace

import numpy as np

from madbayes._rows.threads import together
from madbayes.graph.input import connected_part
from madbayes.graph.knn_graph import (
    KnnGraph,
    Nearest,
    NearestAmong,
    knn_graph,
    mean_distance,
    most_neighbours,
)
from madbayes.graph.levels import LOOKS, reordered
from madbayes.graph.search import one_run
from madbayes.graph.valley_test import (
    MergeTree,
    chance,
    merge,
    row_weight,
    staircase,
    with_weak_evidence,
)
from madbayes.howmany.staircase import Staircase

PIECES = 0.5  # resolution of the first cut: pieces of about 20 rows
VOTERS = (10, 15, 30)  # numbers of neighbours that vote, where the user asks for one among them
MANY = 6_000  # rows: a cluster with more rows is divided by samples
SAMPLE = 4_000  # rows of a sample
LEVEL = 0.05  # valleys of all rows expected by chance; less than elsewhere, since samples follow
LAYERS = 2.0  # rows behind each other on either side of a boundary that a valley needs at least


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
    return merge(A, graph.flow, pieces, row_weight(A, k), layers)


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


def n_neighbors_needed(n_neighbors: int, rows: int) -> int:
    """How many neighbours of each row the stages need."""
    numbers = voters(n_neighbors)
    return max(n_neighbors, numbers[1] if rows > MANY else max(numbers))


def cut_with_samples(
    asked: KnnGraph,
    among: NearestAmong,
    nearest: Nearest,
    numbers: tuple[int, ...],
    weights: str,
    effort: float,
) -> tuple[KnnGraph, MergeTree, Staircase]:
    """The graph of all rows, the merges of their clusters, and the staircase of these.

    `asked` is the graph that the user asked for, `numbers` are the numbers of neighbours that vote.
    """
    distance, place = (each[:, : numbers[1]] for each in nearest)
    same = asked.nearest is not None and asked.nearest.shape[1] == numbers[1]
    graph = asked if same else knn_graph(distance, place, weights, 1.0)
    tree = merge_pieces(graph, effort, layers=LAYERS)
    labels, n = tree.labels, tree.labels.size
    order = np.lexsort((mean_distance(distance), labels))
    tree = tree.rest(tree.before(tree.z > chance(n, LEVEL)))
    labels, trees, sure = tree.labels, [tree], True
    large = np.flatnonzero(np.bincount(labels) > MANY).tolist()
    while large:
        c = large.pop()
        rows = order[labels[order] == c]
        found, agree = cut_samples(rows, among, numbers, weights, effort)
        sure &= agree
        if found is None:
            continue
        sample, part = found
        first = int(labels.max()) + 1
        number = np.r_[c, first : first + part.labels.max()]
        labels[rows] = -1
        labels[sample] = number[part.labels]
        label_the_rest(labels, rows, place, number)
        trees.append(MergeTree(labels, chance(n) + part.z, number[part.pairs]))
        large += [c for c in number.tolist() if MANY < (labels == c).sum() <= rows.size / 2]
    tree = combined(labels, trees)
    path = staircase(tree, None)
    if not sure:
        remark = "Samples of the rows do not agree on the number of clusters"
        path = with_weak_evidence(path, remark)
    return graph, tree, path


def cut_samples(
    rows: np.ndarray, among: NearestAmong, numbers: tuple[int, ...], weights: str, effort: float
) -> tuple[tuple[np.ndarray, MergeTree] | None, bool]:
    """Step 2, for a cluster of these `rows`: the sample that decides with the merges of its
    clusters (None if it is one cluster), and whether the samples agree.

    A sample takes rows at equal steps. The z of its valleys are those beyond chance.
    """
    step = rows.size / SAMPLE
    begin = step * np.arange(len(numbers)) / len(numbers)
    samples = {
        k: rows[(step * np.arange(SAMPLE) + at).astype(np.int64)]
        for k, at in zip(numbers, begin, strict=True)
    }
    graphs = {
        k: knn_graph(*among(sample, min(k, most_neighbours(SAMPLE))), weights, 1.0)
        for k, sample in samples.items()
    }
    k, tree, path = majority(graphs, numbers, effort)
    choice = path.best()
    if choice.number == 1:
        return None, not choice.remarks
    rest = tree.rest(choice.number)
    excess = tree.excess()[len(tree.z) - len(rest.z) :]
    return (samples[k], MergeTree(rest.labels, excess, rest.pairs)), not choice.remarks


def label_the_rest(
    labels: np.ndarray, rows: np.ndarray, nearest: np.ndarray, numbers: np.ndarray
) -> None:
    """Step 3. Each of `rows` without a label gets that of its nearest row with one of `numbers`.

    Rows that no chain of neighbours leads to become part of the largest cluster.
    """
    left = rows[labels[rows] < 0]
    while left.size:
        near = labels[nearest[left]]
        fits = np.isin(near, numbers)
        known = fits.any(axis=1)
        if not known.any():
            of = labels[rows]
            labels[left] = np.bincount(of[of >= 0]).argmax()
            return
        labels[left[known]] = near[known, fits[known].argmax(axis=1)]
        left = left[~known]


def combined(labels: np.ndarray, trees: list[MergeTree]) -> MergeTree:
    """The merges of all trees, the shallowest valleys first. A cluster that was divided further has
    the number of its first part."""
    z = np.concatenate([np.maximum.accumulate(each.z) for each in trees])
    pairs = np.concatenate([each.pairs for each in trees])
    order = np.argsort(z, kind="stable")
    root, made = np.arange(int(labels.max()) + 1), []
    for a, b in pairs[order].tolist():
        made.append((root[a], root[b]))
        root[root == root[b]] = root[a]
    return MergeTree(labels, z[order], np.array(made, dtype=np.int64).reshape(-1, 2))
