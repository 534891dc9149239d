"""Layers of clusters, their tree, and how surely a row belongs to its own cluster.

**Layers.** One number of clusters is not always enough: texts have subjects, and subjects have
stories. The layers are nested divisions of the same rows, the finest first, and `labels_` is one of
them. Two numbers of clusters that differ by less than the factor `APART` are one layer.

1. *Coarser layers* are unions of the clusters that were found, so each of their boundaries is one
   of those that the evidence supports. Clusters with a distance are joined in the order of Ward's
   cost, W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖² (Ward 1963); clusters of a graph in the order of the path. A
   number is a layer if no other number within the factor `APART` survives a longer range of
   prices (√number·log(high/low), see `Staircase.widths`), and none at all one that is longer by
   the factor `FAINT`.
2. *Finer layers* need evidence of their own: a number whose score is positive (better than noise),
   exceeds that of some number between it and `n_clusters_`, and is not exceeded within the factor
   `APART`. Its centres divide the rows of each cluster, which keeps the layers nested; a layer
   between the finest one and `labels_` joins these parts by Ward's cost inside of each cluster.

**Membership.** A row with the squared distance d² to its own cluster and d₂² to the nearest other
one has the margin m = d₂² - d². Between two normal clusters of equal variance σ², the probability
of its own is 1/(1 + exp(-m/(2σ²))): the softmax of -d²/(2σ²) over the two. In a cluster with the
mean margin M the variance of the margins is 4Mσ², because only the spread along the line between
the centres changes them. So σ² is the mean of (m - M)²/(4M) over all rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from madbayes._partition.lloyd import nearest
from madbayes._partition.ward import cut_tree, ward_tree
from madbayes._rows.threads import patient
from madbayes.howmany.staircase import Choice, Staircase, plateau

# Numbers of clusters closer than this factor are one layer. A larger factor leaves fewer layers.
APART = 1.5
# Beside a clear layer, chance makes others whose ranges of prices are shorter by at least this
# factor. On 487 planted groups of groups (2 to 7 groups of 3 to 8 clusters, 2 to 20 columns) it
# leaves 0.3 layers beside the planted one in place of 1.2, and loses none that is planted. With 6
# it leaves 0.6.
FAINT = 3.0


class Level(NamedTuple):
    """A number of clusters to which the clusters of the fit can be joined."""

    number: int
    width: float  # of the range of prices in which it is best
    group: np.ndarray  # of each cluster of the fit


class LayersMixin:
    """`cluster_layers_`, `cluster_tree_` and `probabilities_` of clusterings."""

    labels_: np.ndarray
    n_clusters_: int
    path_: Staircase
    evidence_: Choice
    _finer: np.ndarray  # the cluster, in each finer layer, of each cluster of the finest one

    @property
    def cluster_layers_(self) -> list[np.ndarray]:
        """Labels in each layer of clusters, finest first; `labels_` is one of them.

        After a fit that found the number of clusters. Layers are nested: a cluster of one layer
        lies in one cluster of the next. Coarser layers than `labels_` join its clusters (by Ward's
        cost where clusters have distances), finer ones exist where they have evidence of their
        own. Clusters of a layer are numbered from the largest to the smallest, those of `labels_`
        as they are; rows with the label -1 have it in all layers.
        """
        labels, levels = self._layers()
        finest = vars(self).get("_finest")
        finer = [] if finest is None else [mapped(group, finest) for group in self._finer]
        return [*finer, self._as_labels(), *(mapped(level.group, labels) for level in levels)]

    @property
    def cluster_tree_(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """The clusters of `cluster_layers_` as a tree: (layer, cluster): [(layer - 1, cluster), …].

        Layer 0 is the finest. The root, which holds all rows, is (number of layers, 0).
        """
        layers = self.cluster_layers_
        tree: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for i, below in enumerate(layers):
            above = layers[i + 1] if i + 1 < len(layers) else np.where(below < 0, -1, 0)
            for parent, child in np.unique(np.c_[above, below][below >= 0], axis=0).tolist():
                tree.setdefault((i + 1, parent), []).append((i, child))
        return tree

    @property
    def probabilities_(self) -> np.ndarray:
        """How surely each row belongs to its own cluster, from 0 to 1; 0 for the label -1.

        Clusters with distances: 1/(1 + exp(-(d₂² - d²)/(2σ²))), where d is the distance to the own
        cluster, d₂ to the nearest other one and σ the spread of rows along the line between two
        clusters, the same for all of them. Clusters of neighbours: `membership_`, the share of a
        row's links that stay in its cluster.
        """
        if "membership_" in vars(self):
            return np.where(self.labels_ < 0, 0.0, vars(self)["membership_"])
        return self._after_auto("_probabilities", "probabilities_")

    def _name_layers(self) -> None:
        """Let the runners-up of the evidence begin with the numbers of the other layers, the
        nearest first: those are the numbers to try next."""
        path, k = self.path_, self.n_clusters_
        choice = path.best()
        numbers = {level.number for level in self._layers()[1]}
        numbers |= {int(group.max()) + 1 for group in vars(self).get("_finer", ())}
        known = {**path.scores, **dict(choice.runners_up)}
        near = sorted(numbers, key=lambda j: abs(np.log(j / k)))
        layers = tuple((j, known.get(j, 0.0)) for j in near)
        others = tuple(other for other in choice.runners_up if other[0] not in numbers)
        self.evidence_ = replace(choice, runners_up=layers + others)
        self.path_ = replace(path, choice=self.evidence_)

    def _after_auto(self, name: str, asked: str) -> Any:
        if name not in vars(self):
            raise AttributeError(
                f"{type(self).__name__} has {asked} only after a fit of rows in memory that found "
                "the number of clusters."
            )
        return vars(self)[name]

    def _layers(self) -> tuple[np.ndarray, list[Level]]:
        """Labels, and the coarser layers, finest first."""
        path = self._after_auto("path_", "cluster_layers_")
        labels = self._places()
        k = self.n_clusters_
        if (gaps := self._between_clusters()) is not None:
            sizes = np.bincount(labels[labels >= 0], minlength=k)
            levels = list(joins_of_distances(gaps, sizes))
        else:
            levels = list(joins_of_path(path, labels, k))
        found = peaks({level.number: level.width for level in levels}, 2, k / APART)
        chosen = [level for level in levels if level.number in found]
        clear = max((level.width for level in chosen if level.width < np.inf), default=0.0)
        chosen = [level for level in chosen if level.width >= clear / FAINT]
        return labels, sorted(chosen, key=lambda level: -level.number)

    def _as_labels(self) -> np.ndarray:
        return np.asarray(self.labels_)

    def _places(self) -> np.ndarray:
        """The labels as places among the clusters, 0 to n_clusters_ - 1, or -1."""
        return self._as_labels()

    def _between_clusters(self) -> np.ndarray | None:
        """Squared distances between the clusters; None where there are none."""
        if (gaps := vars(self).get("_cluster_gaps")) is not None:
            return gaps
        centers = getattr(self, "cluster_centers_", None)
        return None if centers is None else squared_distances(np.asarray(centers, np.float64))


def mapped(group: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The groups of clusters as labels of rows, from the largest to the smallest; -1 stays -1."""
    found = np.where(labels < 0, -1, group[labels])
    size = np.bincount(found[found >= 0], minlength=int(group.max(initial=-1)) + 1)
    rank = np.empty(size.size + 1, np.int32)
    rank[np.argsort(-size, kind="stable")] = np.arange(size.size)
    rank[-1] = -1
    return rank[found]


def peaks(score: dict[int, float], low: float, high: float) -> list[int]:
    """The numbers from `low` to `high` whose score no other within the factor `APART` exceeds; of
    equal scores the lower number."""
    return [
        j
        for j in sorted(score)
        if low <= j <= high
        and all((score[j], -j) >= (score[i], -i) for i in score if j / APART <= i <= j * APART)
    ]


# 1. Coarser layers


def joins_of_distances(gaps: np.ndarray, sizes: np.ndarray) -> Iterator[Level]:
    """Ward's joins of clusters with these squared distances, from the last cluster but one on."""
    k = len(sizes)
    if k < 3:
        return
    left, right, height = patient(ward_tree, points_of(gaps), np.maximum(sizes, 1.0), False)
    for j in range(2, k):
        low, high = height[k - j - 1 : k - j + 1]
        yield Level(j, float(plateau(j, low, high)), cut_tree(left, right, j))


def points_of(gaps: np.ndarray) -> np.ndarray:
    """Points with these squared distances (Torgerson 1952)."""
    centred = gaps - gaps.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    values, axes = np.linalg.eigh(-(centred + centred.T) / 4)
    return np.ascontiguousarray(axes * np.sqrt(np.maximum(values, 0.0)))


def joins_of_path(path: Staircase, labels: np.ndarray, k: int) -> Iterator[Level]:
    """The steps with fewer clusters than the fit has. A cluster goes where most of its rows are."""
    group, known, widths = np.arange(k), labels >= 0, path.widths()
    endless = ~np.isfinite(path.price_high) | (path.price_low <= 0)  # parts that nothing links
    for step in np.argsort(-path.number, kind="stable").tolist():
        number = int(path.number[step])
        if path.labels is None or not 1 < number < k:
            continue
        given = path.labels[step]
        both = known & (given >= 0)
        votes = np.zeros((k, int(given.max(initial=0)) + 1))
        np.add.at(votes, (group[labels[both]], given[both]), 1.0)
        group = np.unique(votes.argmax(axis=1)[group], return_inverse=True)[1]
        if group.max() + 1 == number:
            yield Level(number, np.inf if endless[step] else float(widths[step]), group)


# 2. Finer layers


def finer_numbers(path: Staircase, k: int) -> list[int]:
    """Numbers above k with evidence of their own, ascending."""
    choice = path.best()
    if path.centers is None:
        return []
    same_scale = path.scores.get(choice.number) == choice.score
    known = {**(path.scores if same_scale else dict(choice.runners_up)), k: choice.score}
    score = {j: s for j, s in known.items() if j == k or path.step_of(j) is not None}

    def stands_out(j: int) -> bool:
        between = [s for i, s in known.items() if k < i < j]
        return 0 < score[j] and min(between, default=np.inf) < score[j]

    return [j for j in peaks(score, k * APART, np.inf) if stands_out(j)]


def divide_further(
    rows: Any, labels: np.ndarray, centers: np.ndarray, fine: np.ndarray, unit: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts of each cluster by the nearest of those `fine` centres that lie in it.

    Returns the labels of the parts, their centres and the cluster of each.
    """
    owner = nearest(fine, centers)
    out = np.full(len(labels), -1, np.int32)
    points, parents, count = [], [], 0
    for c in range(len(centers)):
        here, own = np.flatnonzero(labels == c), fine[owner == c]
        own = own if len(own) else centers[c : c + 1]
        part = np.zeros(here.size, np.int64)
        if len(own) > 1 and here.size:
            filled, part = np.unique(nearest(rows[here], own, unit=unit), return_inverse=True)
            own = own[filled]
        out[here] = count + part
        points.append(own)
        parents.append(np.full(len(own), c))
        count += len(own)
    return out, np.concatenate(points), np.concatenate(parents)


def finer_groups(
    points: np.ndarray, parents: np.ndarray, sizes: np.ndarray, numbers: list[int]
) -> np.ndarray:
    """The group of each part in the layers of these numbers, finest first: Ward's joins inside of
    each cluster, the cheapest of all clusters first."""
    m = len(parents)
    joins: list[tuple[float, int, int]] = []
    for c in np.unique(parents):
        own = np.flatnonzero(parents == c)
        if own.size > 1:
            left, right, height = patient(
                ward_tree, np.ascontiguousarray(points[own]), np.maximum(sizes[own], 1.0), False
            )
            joins += zip(height.tolist(), own[left].tolist(), own[right].tolist(), strict=True)
    joins.sort(key=lambda join: join[0])  # stable: inside of a cluster in the order of its tree
    a = np.array([join[1] for join in joins], np.int64)
    b = np.array([join[2] for join in joins], np.int64)
    layers = [np.arange(m)]
    for number in sorted(numbers, reverse=True)[1:]:
        done = np.arange(m)
        taken = max(0, m - number)
        for p, q in zip(a[:taken], b[:taken], strict=True):
            done[done == done[q]] = done[p]
        layers.append(np.unique(done, return_inverse=True)[1])
    return np.array(layers)


# What a fit keeps


def keep_layers(model: Any, X: Any, labels: np.ndarray, weight: np.ndarray | None) -> None:
    """Store what `LayersMixin` needs and only the rows of the fit can tell."""
    labels, k = np.asarray(labels), model.n_clusters_
    for name in ("_cluster_gaps", "_finest", "_finer"):  # of rows that passed by before
        vars(model).pop(name, None)
    margin, gaps = model._margins(X, labels, getattr(model, "cluster_centers_", None) is None)
    model._probabilities = membership(margin, labels, weight)
    if gaps is not None:
        model._cluster_gaps = gaps
    numbers = finer_numbers(model.path_, k)
    if numbers and len(centers := np.asarray(model.cluster_centers_, np.float64)) == k:
        path = model.path_
        fine = path.centers[path.step_of(numbers[-1])]
        parts, points, parents = divide_further(X, labels, centers, fine, path.unit)
        numbers = [j for j in numbers if k < j < len(parents)]
        if len(parents) >= k * APART:
            sizes = np.bincount(parts[parts >= 0], minlength=len(parents))
            model._finest = parts
            model._finer = finer_groups(points, parents, sizes, [*numbers, len(parents)])
    model._name_layers()


# Membership


def membership(margin: np.ndarray, labels: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Probabilities of the own cluster from the margins of squared distances; 0 for label -1."""
    known = labels >= 0
    if not known.any() or labels.max() == 0:
        return known.astype(np.float32)
    label, m = labels[known], margin[known]
    m = m / max(float(np.abs(m).max()), np.finfo(float).tiny)  # squares of large rows overflow
    w = np.ones(m.size) if weight is None else weight[known]
    total = np.bincount(label, w)
    mean = np.bincount(label, w * m) / np.maximum(total, np.finfo(float).tiny)
    apart = mean[label]
    counted = apart > 0
    spread = (w * (m - apart) ** 2)[counted] / (4 * apart[counted])
    variance = spread.sum() / max(w[counted].sum(), np.finfo(float).tiny)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        odds = np.where(m == 0, 0.0, m / (2 * variance))
        p = 1 / (1 + np.exp(-odds))
    out = np.zeros(labels.size, np.float32)
    out[known] = p
    return out


def squared_distances(points: np.ndarray) -> np.ndarray:
    """Between all points, through their products."""
    shifted = points - points.mean(axis=0)
    square = (shifted**2).sum(axis=1)
    gaps = np.maximum(square[:, None] + square - 2 * shifted @ shifted.T, 0.0)
    np.fill_diagonal(gaps, 0.0)
    return gaps
