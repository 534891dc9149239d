"""Clusters of many rows: what samples of their rows show.

The nearest 15 of very many rows lie so close that no cut of their graph sees a wide valley: the
rows near a boundary, the only ones that are looked at, are as dense as those beside them, and every
piece of the graph shows what chance does to 15 rows. In a sample neighbours reach farther. What is
small or thin shows in all rows only. So:

1. *All rows.* One cut; its pieces are joined until a valley is left that chance does not explain.
2. *Samples.* Of each cluster of more than `MANY` rows three samples are cut and joined, with 10, 15
   and 30 neighbours, and the number in the middle is taken. Each piece of the first cut gives its
   share, dense and sparse rows alike: a sample has less chance in it than rows drawn at random.
3. *The others* get the cluster of the nearest row that has one, link by link.
4. *Again* in parts that are still large and hold at most half of the rows: in more of them
   neighbours reach as far as before.

docs/adr/0016 has the figures.
"""

from collections.abc import Callable

import numpy as np

from madbayes.graph.linking import Linked, link, most_neighbours, reach, settle_borders
from madbayes.graph.pieces import Tried, Wide, join_pieces, majority, tried
from madbayes.graph.valleys import Joined, chance, doubted, staircase
from madbayes.howmany.staircase import Staircase

MANY = 6_000  # rows of a cluster from which on samples are looked at
SAMPLE = 4_000  # rows of one
LEVEL = 0.05  # valleys as deep in all rows by chance: what is large shows in samples as well
LAYERS = 2.0  # of rows along a boundary that a valley takes at least

Among = Callable[[np.ndarray, int], Wide]


def k_asked(n_neighbors: int, rows: int) -> int:
    """Neighbours that cuts of so many rows need."""
    numbers = tried(n_neighbors)
    return max(n_neighbors, numbers[1] if rows > MANY else max(numbers))


def by_samples(
    among: Among, wide: Wide, numbers: Tried, weights: str, effort: float
) -> tuple[Linked, Joined, Staircase]:
    """The graph of all rows, their clusters and what would join them.

    `wide`: distances and places of enough neighbours; `among` tells those of some rows among
    themselves.
    """
    distance, nearest = (each[:, : numbers[1]] for each in wide)
    linked = link(distance, nearest, weights, 1.0)
    joined = join_pieces(linked, effort, layers=LAYERS)
    labels, n = joined.labels, joined.labels.size
    order = np.lexsort((reach(distance), labels))
    joined = joined.rest(joined.before(joined.z > chance(n, LEVEL)))
    labels, joins, sure = joined.labels, [joined], True
    large = np.flatnonzero(np.bincount(labels) > MANY).tolist()
    while large:
        c = large.pop()
        rows = order[labels[order] == c]
        found, agree = of_samples(rows, among, numbers, weights, effort)
        sure &= agree
        if found is None:
            continue
        sample, part = found
        first = int(labels.max()) + 1
        number = np.r_[c, first : first + part.labels.max()]
        labels[rows] = -1
        labels[sample] = number[part.labels]
        adopt(labels, rows, nearest, number)
        joins.append(Joined(labels, chance(n) + part.z, number[part.pairs]))
        large += [c for c in number.tolist() if MANY < (labels == c).sum() <= rows.size / 2]
    joined = one_tree(labels, joins)
    path = staircase(joined, None)
    if not sure:
        path = doubted(path, "Samples of the rows do not agree on the number of clusters")
    return linked, joined, path


def of_samples(
    rows: np.ndarray, among: Among, numbers: Tried, weights: str, effort: float
) -> tuple[tuple[np.ndarray, Joined] | None, bool]:
    """2. The rows of a sample and their clusters, None where they are one; and if samples agree.

    Of each valley that is left the z beyond chance. Every so many of `rows` are a sample.
    """
    step = rows.size / SAMPLE
    begin = step * np.arange(len(numbers)) / len(numbers)
    samples = [rows[(step * np.arange(SAMPLE) + at).astype(np.int64)] for at in begin]
    linked, of = {}, {}
    for k, sample in zip(numbers, samples, strict=True):
        linked[k] = link(*among(sample, min(k, most_neighbours(SAMPLE))), weights, 1.0)
        of[k] = sample
    k, joined, path = majority(linked, numbers, effort)
    choice = path.best()
    if choice.number == 1:
        return None, not choice.remarks
    rest = joined.rest(choice.number)
    beyond = joined.beyond()[len(joined.z) - len(rest.z) :]
    labels = settle_borders(linked[k].A, rest.labels)
    return (of[k], Joined(labels, beyond, rest.pairs)), not choice.remarks


def adopt(labels: np.ndarray, rows: np.ndarray, nearest: np.ndarray, numbers: np.ndarray) -> None:
    """3. Those of `rows` that have no label yet get that of the nearest that has one of `numbers`;
    those that no link leads to become part of the largest."""
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


def one_tree(labels: np.ndarray, joins: list[Joined]) -> Joined:
    """The joins of all looks, the shallowest valleys first. A cluster that was divided further has
    the number of its first part."""
    z = np.concatenate([np.maximum.accumulate(each.z) for each in joins])
    pairs = np.concatenate([each.pairs for each in joins])
    order = np.argsort(z, kind="stable")
    root, made = np.arange(int(labels.max()) + 1), []
    for a, b in pairs[order].tolist():
        made.append((root[a], root[b]))
        root[root == root[b]] = root[a]
    return Joined(labels, z[order], np.array(made, dtype=np.int64).reshape(-1, 2))
