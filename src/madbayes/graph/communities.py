"""Communities of rows in many columns that no valley separates.

In many columns few rows lie between two clusters, but few rows lie anywhere. Overlapping kinds of
cells and subjects of texts therefore have no valley between them (`valley_test.py`), and yet links
stay inside of them. Links stay inside of the parts of any cloud, too. The test compares the graph
with graphs of rows that have no clusters.

It is made for all rows where the evidence of valleys is none or weak, else for a cluster that holds
more than half of the rows.

1. *References* are tables without clusters: (a) the scores on each principal axis shuffled, (b) the
   values of each column shuffled, (c) normal scores of the same variances, stretched so that rows
   lie as far from the middle as the given ones, in standard deviations. Normal rows of any
   covariance are like (a) and (c), independent columns of any law are like (b), balls and tails
   that all columns share are like (c), bent curves and sheets are close to (a).
2. *Communities* are the division of highest modularity (Newman & Girvan 2004) of the graph of
   nearest neighbours, for the rows and for each reference.
3. The communities are the clusters if their modularity is more than `MARGIN` times that of every
   reference.

A given graph has no rows: its communities count if they come back without a tenth of the links.

The test needs more than `COLUMNS` columns: in fewer, shapes without valleys stay whole. Of many
rows a sample is tested, and of very many columns the leading principal axes.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from madbayes.graph.input import connected_part
from madbayes.graph.knn_graph import KnnGraph, adjacency, mean_distance, most_neighbours
from madbayes.graph.levels import Graph, contracted
from madbayes.graph.neighbors import Neighbours
from madbayes.graph.path import find_path
from madbayes.graph.planted import gather, modularity
from madbayes.graph.valley_test import WEAK
from madbayes.howmany.staircase import Choice, NestedLabels, Staircase, in_words

COLUMNS = 10  # up to this many columns, clusters without valleys are not divided
MARGIN = 1.25  # times the modularity of the references
FEWEST = 100  # rows of a cluster that is looked at
ROWS = 4_000  # that are tested
WIDE, AXES = 256, 100  # columns from which on only the leading axes are tested; and how many
LEAST = 1e-9  # modularity that a join takes off
SURE = 0.8  # agreement without a tenth of the links: noise of 5 and more columns has up to 0.7
SPREAD = 8.0  # 2³: graphs of clouds of up to 5 columns spread less
STARTS = 500  # nodes from which steps are counted
TINY = 1e-12  # of the largest variance: less is none


def find_communities(
    rows: Neighbours | None,
    linked: KnnGraph,
    labels: np.ndarray,
    path: Staircase,
    weights: str,
) -> tuple[np.ndarray, Staircase] | None:
    """Labels with communities in place of all clusters or of the largest, and their staircase; None
    where nothing stands out. `linked` is the graph of the `rows`, `path` what its valleys say.
    """
    before = path.best()
    order = np.arange(labels.size)
    if linked.distance is not None:
        order = np.argsort(mean_distance(linked.distance), kind="stable")
    if before.strength not in ("none", "weak"):
        order = order[labels[order] == np.bincount(labels).argmax()]
    if order.size < FEWEST or 2 * order.size <= labels.size:
        return None
    if rows is None or linked.distance is None:
        return communities_of_graph(linked.A, order, labels, before)
    if not rows.plain or rows.X.shape[1] <= COLUMNS:
        return None
    rows = rows.on_sphere()
    some = order[np.linspace(0, order.size - 1, min(ROWS, order.size)).astype(np.int64)]
    given = rows.X[some]
    X = leading(given, rows)
    k = min(linked.distance.shape[1], most_neighbours(len(X)))
    parts, chance = None, 0.0
    if X.shape == rows.X.shape:  # its graph is there
        own, parts = communities(linked.A[order][:, order])
    else:
        own = tested(X, rows, k, weights)
    for reference in references(X, np.random.RandomState(0)):
        chance = max(chance, tested(reference, rows, k, weights))
        if own <= MARGIN * chance:
            return None
    if rows.X.shape[1] > WIDE:  # 1b again: the leading axes of independent columns are not
        least = MARGIN * tested(shuffled(given, np.random.RandomState(0)), rows, k, weights)
        if tested(given, rows, k, weights) <= least:
            return None
    if parts is None:
        parts = communities(linked.A[order][:, order])[1]
    reason = (
        "links stay within the clusters more than they would without clusters "
        f"(modularity {own:.2f}, {chance:.2f} at most)"
    )
    new = with_parts(labels, order, parts)
    return new, staircase_of(linked.A, new, before, own, reason)


def communities_of_graph(
    A: sp.csr_array, order: np.ndarray, labels: np.ndarray, before: Choice
) -> tuple[np.ndarray, Staircase] | None:
    """`find_communities` for a given graph, which has no rows to compare with.

    The communities of `GraphCut` count if repetitions without a tenth of the edges find them again
    (`SURE`). Cells of a cloud in few dimensions are found again, too. So the graph must spread like
    one of many dimensions: two steps reach `SPREAD` times as many nodes as one step does.
    """
    graph, used = connected_part(A[order][:, order], "normalized")
    if used.size < FEWEST or growth(graph) < SPREAD:
        return None
    found = find_path(graph, "normalized")
    agreement = found.agreement
    if found.taken.k < 2 or agreement is None or agreement < SURE:
        return None
    parts = np.zeros(order.size, np.int64)
    parts[used] = found.taken.labels
    reason = (
        "links stay within the clusters; without a tenth of the links the same clusters are found "
        f"(adjusted Rand index {agreement:.2f})"
    )
    new = with_parts(labels, order, parts)
    return new, staircase_of(A, new, before, modularity(graph, found.taken.labels), reason)


def growth(graph: Graph) -> float:
    """How many times as many nodes two steps reach as one step does; the median of some nodes."""
    links = graph.matrix()
    links.data = np.ones_like(links.data)
    some = np.linspace(0, graph.n - 1, min(graph.n, STARTS)).astype(np.int64)
    one = links[some]
    two = one @ links
    return float(np.median(np.diff(two.indptr) / np.maximum(np.diff(one.indptr), 1)))


def with_parts(labels: np.ndarray, order: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Labels with `parts` for the rows `order`, without gaps."""
    new = labels.astype(np.int64)
    new[order] = new.max() + 1 + parts
    return np.unique(new, return_inverse=True)[1].astype(np.int32)


def staircase_of(
    A: sp.csr_array, labels: np.ndarray, before: Choice, own: float, reason: str
) -> Staircase:
    """Communities joined one by one, those first whose join takes the least off the modularity;
    that is the price. The evidence is weak, since no valley is there."""
    graph, used = connected_part(A, "normalized")
    k = int(labels.max()) + 1
    small = contracted(graph, labels[used], k)
    share = small.w / small.w.sum()
    links = sp.csr_array((small.data, small.indices, small.indptr), (k, k)).toarray()
    gain = 2 * (links / small.w.sum() - np.outer(share, share))  # of joining two
    np.fill_diagonal(gain, -np.inf)
    place = np.arange(k)
    errors, steps = [0.0], [place]
    for _ in range(k - 1):
        p, q = np.unravel_index(int(gain.argmax()), gain.shape)
        errors.append(errors[-1] + max(-float(gain[p, q]), LEAST))
        gain[p] += gain[q]  # gains add up
        gain[:, p] = gain[p]
        gain[[q, p], [q, p]] = gain[q] = gain[:, q] = -np.inf
        place = np.where(place == q, p, place)
        steps.append(np.unique(place, return_inverse=True)[1])
    path = Staircase.build(np.arange(k, 0, -1), errors, labels=steps)
    others = range(k - 1, max(k - 4, 0), -1)
    choice = Choice(
        k,
        path.middle(len(path.number) - 1),
        in_words(WEAK),
        WEAK,
        reason,
        tuple((number, own - errors[k - number]) for number in others),
        own,
        remarks=(f"By valleys alone the number would be {before.number}",),
    )
    groups = tuple(step.astype(np.int32) for step in path.labels)
    return replace(path, choice=choice, labels=NestedLabels(groups, labels))


def leading(X: Any, like: Neighbours) -> np.ndarray:
    """What is tested: rows, or their leading axes if they have very many columns."""
    if X.shape[1] <= WIDE:
        return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    U, s, _ = randomized_svd(X, min(AXES, *X.shape), random_state=0)
    return like.prepared(U * s)


def tested(X: Any, like: Neighbours, k: int, weights: str) -> float:
    """2. The modularity of the graph of k neighbours."""
    distance, place = Neighbours(X, like.metric, like.n_jobs, 0, False).of_themselves(k)
    order = np.argsort(mean_distance(distance), kind="stable")
    return communities(adjacency(place, weights)[order][:, order])[0]


def references(X: np.ndarray, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """1. Rows without clusters, one table after another; the likeliest to end the test first."""
    middle = X.mean(axis=0)
    values, axes = np.linalg.eigh((X - middle).T @ (X - middle) / len(X))
    used = values > TINY * values[-1]
    if not used.any():  # all rows are equal
        yield X
        return
    axes, spread = axes[:, used], np.sqrt(values[used])
    scores = (X - middle) @ axes
    yield shuffled(scores, rng) @ axes.T + middle
    yield shuffled(X, rng)
    normal = rng.normal(size=scores.shape)
    lengths = np.linalg.norm(scores / spread, axis=1) / np.linalg.norm(normal, axis=1)
    yield (normal * lengths[:, None] * spread) @ axes.T + middle


def shuffled(X: Any, rng: np.random.RandomState) -> Any:
    """The values of each column in another order; of CSR each in a row of its own, about."""
    if sp.issparse(X):
        rows = rng.randint(X.shape[0], size=X.nnz)
        return sp.csr_array((X.data, (rows, X.indices)), X.shape)
    return np.column_stack([rng.permutation(column) for column in X.T])


def communities(A: sp.csr_array) -> tuple[float, np.ndarray]:
    """2. The highest modularity that is found, and its division; nodes without links are in 0."""
    A.sort_indices()
    graph, used = connected_part(A, "normalized")
    labels = np.zeros(A.shape[0], np.int64)
    if not used.size:
        return 0.0, labels
    labels[used] = found = gather(graph)
    return modularity(graph, found), labels
