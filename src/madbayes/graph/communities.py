"""Clusters of many columns without valleys: communities beyond those of rows without clusters.

**The question.** In many columns rows are far from each other and few lie between any two clusters,
but as few lie anywhere: overlapping groups of cells and subjects of texts have no valley between
them (`valleys.py`). Yet links keep to them. Links keep to the parts of any cloud too, the more the
fewer directions it has. How much would they, if there were no clusters?

**The answer.** Where valleys say little, all rows are looked at once more; where they are clear,
only a cluster of more than half of the rows: a few rows far off say nothing of the rest.
1. *References.* Rows like these, without their clusters: (a) the scores on each principal axis
   shuffled, (b) the values of each column shuffled, (c) normal scores of the same variances,
   stretched so that rows lie as far from the middle, in standard deviations, as these do.
   Normal rows of any covariance are like (a) and (c), independent columns of any law like (b),
   balls and tails that all columns share like (c); bent curves and sheets are not far from (a).
2. *Communities.* In the graphs of nearest neighbours of the rows and of each reference: the
   division of highest modularity (Newman & Girvan 2004), the share of links inside of the
   communities beyond that of links at random.
3. *Chance.* The rows are divided into their communities if the modularity is more than `MARGIN`
   times that of every reference (docs/adr/0016).

In more than `COLUMNS` columns: in fewer, shapes without valleys are whole. Of many rows and of very
many columns a sample and the leading principal axes are tested, (b) on the columns as well.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from madbayes._rows.threads import patient
from madbayes.graph.descent import modularity
from madbayes.graph.input import connected_part
from madbayes.graph.levels import Graph, contracted
from madbayes.graph.linking import Linked, most_neighbours, neighbour_graph, reach
from madbayes.graph.modularity_kernels import rise
from madbayes.graph.neighbors import Neighbours
from madbayes.graph.search import measure
from madbayes.graph.valleys import WEAK
from madbayes.howmany.staircase import Choice, Staircase, in_words

COLUMNS = 10  # up to so many, clusters without valleys are whole
MARGIN = 1.25  # times the modularity of the references
FEWEST = 100  # rows of a cluster that is looked at
ROWS = 4_000  # that are tested
WIDE, AXES = 256, 100  # columns from which on only the leading axes are tested; and how many
LEAST = 1e-9  # modularity that a join takes off
TINY = 1e-12  # of the largest variance: less is none


def second_look(
    rows: Neighbours | None, linked: Linked, labels: np.ndarray, path: Staircase, weights: str
) -> tuple[np.ndarray, Staircase] | None:
    """Labels with communities in place of all clusters or of the largest, and their staircase; None
    where nothing stands out. `linked` is the graph of the `rows`, `path` what its valleys say.
    """
    if rows is None or not rows.plain or rows.X.shape[1] <= COLUMNS or linked.distance is None:
        return None
    before = path.best()
    order = np.argsort(reach(linked.distance), kind="stable")  # whatever order the rows have
    if before.strength not in ("none", "weak"):
        order = order[labels[order] == np.bincount(labels).argmax()]
    if order.size < FEWEST or 2 * order.size <= labels.size:
        return None
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
    new = labels.astype(np.int64)
    new[order] = new.max() + 1 + parts
    new = np.unique(new, return_inverse=True)[1].astype(np.int32)
    return new, staircase_of(linked.A, new, before, own, chance)


def staircase_of(
    A: sp.csr_array, labels: np.ndarray, before: Choice, own: float, chance: float
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
    assert path.labels is not None
    others = range(k - 1, max(k - 4, 0), -1)
    choice = Choice(
        k,
        path.middle(len(path.number) - 1),
        in_words(WEAK),
        WEAK,
        "links keep to them more than they would without clusters "
        f"(modularity {own:.2f}, {chance:.2f} at most)",
        tuple((number, own - errors[k - number]) for number in others),
        own,
        remarks=(f"By valleys alone the number would be {before.number}",),
    )
    labels_of = tuple(step[labels].astype(np.int32) for step in path.labels)
    return replace(path, choice=choice, labels=labels_of)


def leading(X: Any, like: Neighbours) -> np.ndarray:
    """What is tested: rows, or their leading axes if they have very many columns."""
    if X.shape[1] <= WIDE:
        return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    U, s, _ = randomized_svd(X, min(AXES, *X.shape), random_state=0)
    return like.prepared(U * s)


def tested(X: Any, like: Neighbours, k: int, weights: str) -> float:
    """2. The modularity of the graph of k neighbours."""
    distance, place = Neighbours(X, like.metric, like.n_jobs, 0, False).of_themselves(k)
    order = np.argsort(reach(distance), kind="stable")
    return communities(neighbour_graph(place, weights)[order][:, order])[0]


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
    A.sort_indices()  # so that the order of the rows does not matter
    graph, used = connected_part(A, "normalized")
    labels = np.zeros(A.shape[0], np.int64)
    if not used.size:
        return 0.0, labels
    labels[used] = found = gather(graph)
    return modularity(graph, measure(graph, found)), labels


def gather(graph: Graph) -> np.ndarray:
    """From single nodes, moves and merges on as many levels as it takes."""
    labels = moved(graph, np.arange(graph.n))
    k = int(labels.max()) + 1
    if k < graph.n:
        higher = gather(contracted(graph, labels, k))
        if higher.max() + 1 < k:
            labels = moved(graph, higher[labels])
    return labels


def moved(graph: Graph, labels: np.ndarray) -> np.ndarray:
    """Nodes move while that raises the modularity."""
    z = labels.astype(np.int32)
    W = np.bincount(z, graph.w, minlength=graph.n)
    patient(rise, *graph[:3], graph.w, z, W, np.zeros(graph.n))
    return np.unique(z, return_inverse=True)[1].astype(np.int32)
