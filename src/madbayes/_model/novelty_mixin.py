"""`predict(novel=…)` and `novelty_score` of every clustering whose distances new rows have."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from madbayes._model.dispatch import anywhere
from madbayes._model.layers import keep_layers
from madbayes._partition.novelty import (
    EXCEPTION_ROWS,
    EXCEPTIONS,
    by_label,
    calibrate,
    check_novel,
    p_values,
)
from madbayes._rows.rows import segments
from madbayes._rows.threads import workers

MOST_ROWS = 2**17  # rows of the fit that are looked at
FEW_ROWS = 2**14  # up to which one thread is quicker than several
COSTS = 2**21  # costs held at a time


class Closest(NamedTuple):
    """Where new rows belong."""

    labels: np.ndarray
    costs: np.ndarray  # in these clusters
    gaps: Callable[[np.ndarray], np.ndarray]  # costs of some of the rows in all clusters
    paid: np.ndarray | None = None  # what the algorithm pays, if that is more than `costs`


class NoveltyMixin(ABC):
    """Estimators that can tell how far new rows are from the nearest cluster.

    They say how: `_new_rows`, `_gaps` and where needed more. Costs are what their objective adds up
    (squared distances), and distances are a power of them.
    """

    n_clusters_: int
    n_jobs: int | None = None
    _novelty_few: np.ndarray
    _held_out_distances: tuple[np.ndarray, np.ndarray, np.ndarray]  # distance, label, weight
    _distance_power = 0.5

    @anywhere
    def predict(self, X: Any, novel: Any = False) -> np.ndarray:
        """The nearest cluster of each row of X, or -1 for rows that are new.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        novel : bool, float or "paper", default=False
            A rate: rows get -1 where at most this share of rows like those of the fit would be as
            far from their cluster (see `novelty_score`); True is 0.001. "paper": -1 where the row
            alone costs more than `penalty_`, so that the printed algorithm would open a cluster
            for it. That penalty is what a whole group of rows repays and grows with their number:
            only far rows pass it.
        """
        return self._predict(X, novel)

    @anywhere
    def novelty_score(self, X: Any) -> np.ndarray:
        """The share of rows like those of the fit that are as far from their cluster: p-values.

        Small for rows that are new. Among rows like those of the fit, a share α has a score of at
        most α; for few rows this holds on average over fits. It is a matter of the distance to the
        nearest cluster alone, compared with the held-out distances of its own rows; beyond them a
        tail is fitted that errs towards larger scores.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,), between 0 and 1
        """
        return self._score_novelty(self._closest(X))

    def _predict(self, X: Any, novel: Any, **how: Any) -> np.ndarray:
        rate = check_novel(novel)
        if rate is None:
            return self._plain_labels(X, **how)
        found = self._closest(X, **how)
        if rate == "paper":
            new = (found.costs if found.paid is None else found.paid) > self._price_of_opening()
        else:
            new = self._score_novelty(found) <= rate
        found.labels[new] = -1
        return found.labels

    def _price_of_opening(self) -> float:
        """What one row must cost for the printed algorithm to open a cluster."""
        penalty = getattr(self, "penalty_", None)
        if not penalty:
            raise ValueError(
                "novel='paper' asks which rows would open a cluster, and this model has no penalty "
                "for that. Use novel=True or a rate."
            )
        return float(penalty)

    def _score_novelty(self, found: Closest) -> np.ndarray:
        table, few = self._novelty_table()
        labels = found.labels
        p = p_values(found.costs**self._distance_power, labels, table)
        # What is near an exceptional row is new unless a larger cluster reaches as far.
        rows = np.flatnonzero(few[labels])
        step = max(1, COSTS // self.n_clusters_)
        for a in range(0, rows.size, step):
            here = rows[a : a + step]
            near, cost = least(np.where(few, np.inf, found.gaps(here)))
            p[here] = np.maximum(p[here], p_values(cost**self._distance_power, near, table))
        return p

    @cached_property
    def novelty_quantiles_(self) -> np.ndarray:
        """For each cluster the distances that given shares of rows reach, (n_clusters, 37).

        Made from the held-out distances of the fit when it is first asked for: with few rows it
        takes longer than the fit.
        """
        if "_held_out_distances" not in vars(self):
            raise AttributeError("novelty_quantiles_ belongs to a fitted model.")
        r, label, stands_for = self._held_out_distances
        with workers(self.n_jobs, enough=r.size > FEW_ROWS):
            return calibrate(r, label, stands_for, len(self._novelty_few))

    def _finish_novelty(self) -> None:
        """Make `novelty_quantiles_` and drop the distances, before the model goes elsewhere."""
        if hasattr(self, "novelty_quantiles_"):
            vars(self).pop("_held_out_distances", None)

    def _forget_novelty(self) -> None:
        """Drop what is known of the clusters of an earlier fit."""
        for name in ("novelty_quantiles_", "_held_out_distances", "_novelty_few"):
            vars(self).pop(name, None)

    def _novelty_table(self) -> tuple[np.ndarray, np.ndarray]:
        if not hasattr(self, "novelty_quantiles_"):
            raise ValueError(
                "this model was saved before madbayes could tell which rows are new: fit it again."
            )
        return self.novelty_quantiles_, self._novelty_few

    def _calibrate(
        self,
        X: Any,
        labels: np.ndarray,
        weight: np.ndarray | None,
        *,
        total: np.ndarray | None = None,
        most: int = MOST_ROWS,
    ) -> None:
        """Store how far rows are from their cluster, from those of the fit.

        `total`: the weights of the clusters, where X is not all that they are made of.
        """
        k, own_rows = self.n_clusters_, total is None
        counted = None if weight is None else weight > 0
        rows, stands_for = drawn(labels, counted, k, most)
        count = block_sizes(labels, counted, k).sum(axis=0)
        w = np.ones(rows.size) if weight is None else weight[rows]
        if total is None:
            cuts = segments(len(labels), 1)  # where they are cut on several machines, too
            total = count * 1.0
            if weight is not None:
                parts = [np.bincount(labels[a:b], weight[a:b], minlength=k) for a, b in cuts]
                total = np.sum(parts, axis=0)
        self._calibrate_on(X, rows, stands_for, labels[rows], w, count, total)
        if own_rows and hasattr(self, "path_"):
            keep_layers(self, X, labels, weight)

    def _calibrate_on(
        self,
        X: Any,
        rows: np.ndarray,
        stands_for: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray,
        count: np.ndarray,
        total: np.ndarray,
    ) -> None:
        """The same for rows that were drawn; `count` and `total` of each cluster are those of all
        rows."""
        k = self.n_clusters_
        few = (count <= EXCEPTION_ROWS) & (count > 0)
        if not 0 < count[few].sum() <= EXCEPTIONS * count.sum():
            few[:] = False
        few |= count == 0
        label = labels.astype(np.int64)
        costs = self._held_out(X, rows, label, weight, total)
        lost = np.flatnonzero(few[label] | np.isinf(costs))
        costs[lost[max(1, COSTS // k) :]] = np.inf
        lost = lost[: max(1, COSTS // k)]
        if lost.size and k > 1:
            other = np.where(few, np.inf, self._fitted_gaps(X, rows[lost]))
            other[np.arange(lost.size), label[lost]] = np.inf
            label[lost], costs[lost] = least(other)
        known = np.isfinite(costs)
        self._forget_novelty()
        self._held_out_distances = (
            costs[known] ** self._distance_power,
            label[known],
            (weight * stands_for)[known],
        )
        self._novelty_few = few

    # What an estimator brings

    @abstractmethod
    def _new_rows(self, X: Any) -> Any:
        """X, checked, of a fitted model."""

    @abstractmethod
    def _gaps(self, X: Any) -> np.ndarray:
        """Costs of rows (checked) in all clusters, (n_rows, n_clusters)."""

    def _plain_labels(self, X: Any, **how: Any) -> np.ndarray:
        return self._closest(X, **how).labels

    def _closest(self, X: Any) -> Closest:
        X = self._new_rows(X)
        labels, costs = least(self._gaps(X))
        return Closest(labels.astype(np.int32), costs, lambda rows: self._gaps(X[rows]))

    def _fitted_gaps(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """`_gaps` of the rows `rows` of the fit."""
        return self._gaps(X[rows])

    def _relative_gaps(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """`_fitted_gaps` up to a number for each row."""
        return self._fitted_gaps(X, rows)

    def _margins(
        self, X: Any, labels: np.ndarray, need_gaps: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """How much more each row of the fit costs in the best other cluster than in its own; and
        the squared distances between the clusters: by so much more do the rows of a cluster cost
        in another one, on average."""
        k, n = self.n_clusters_, len(labels)
        margin, gaps = np.zeros(n), np.zeros((k, k)) if need_gaps else None
        step = max(1, COSTS // k)
        for a in range(0, n if k > 1 else 0, step):
            rows = np.arange(a, min(a + step, n))
            costs, own = np.asarray(self._relative_gaps(X, rows), np.float64), labels[rows]
            mine = costs[np.arange(rows.size), own]
            if gaps is not None:
                np.add.at(gaps, own[own >= 0], (costs - mine[:, None])[own >= 0])
            costs[np.arange(rows.size), own] = np.inf
            margin[rows] = costs.min(axis=1) - mine
        if gaps is not None:
            gaps /= np.maximum(np.bincount(labels[labels >= 0], minlength=k), 1)[:, None]
            gaps = np.maximum((gaps + gaps.T) / 2, 0.0)
        return margin, gaps

    def _held_out(
        self, X: Any, rows: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray
    ) -> np.ndarray:
        """Costs of rows of the fit in their clusters without them; infinite for a row alone."""
        own = self._fitted_gaps(X, rows)[np.arange(len(rows)), label]
        return without_row(np.maximum(own, 0.0, dtype=np.float64), weight, total[label])


def without_row(d2: np.ndarray, weight: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Squared distances to the mean of the other rows: ‖x - μ₋‖ = W/(W - w)·‖x - μ‖."""
    left = total - weight
    alone = left <= 1e-12 * total
    with np.errstate(over="ignore"):  # farther away than float64 can say: infinitely far
        return np.where(alone, np.inf, d2 * (total / np.where(alone, 1.0, left)) ** 2)


def without_direction(
    d2: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray
) -> np.ndarray:
    """The same for directions: d² = 2 - 2 cos, and the centre is the direction of the sum s.

    |s| is the sum of w cos over the cluster; without x it is s - wx.
    """
    cosine = 1.0 - d2 / 2
    seen = np.bincount(label, weight, minlength=len(total))
    along = np.bincount(label, weight * cosine, minlength=len(total))
    length = (along * total / np.maximum(seen, 1e-300))[label]
    left = np.sqrt(np.maximum(length**2 - 2 * weight * length * cosine + weight**2, 0.0))
    alone = (total[label] - weight <= 1e-12 * total[label]) | (left <= 1e-12 * length)
    cosine = (length * cosine - weight) / np.where(alone, 1.0, left)
    return np.where(alone, np.inf, 2.0 - 2.0 * np.clip(cosine, -1.0, 1.0))


def without_ellipse(
    d2: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray, d: int
) -> np.ndarray:
    """The same for squared Mahalanobis distances, whose covariance has the row in it too.

    With v = x - μ and S the scatter of the cluster, that without the row is S - W/(W - w)·w·vvᵀ, so
    d² grows by 1/(1 - W/(W - w)·w·vᵀS⁻¹v) (Sherman & Morrison 1950). The sum of w·vᵀS⁻¹v over a
    cluster is d, which tells what d² is in units of it.
    """
    k = len(total)
    seen = np.bincount(label, weight, minlength=k)
    sums = np.bincount(label, weight * d2, minlength=k) * total / np.maximum(seen, 1e-300)
    rank = np.minimum(d, np.maximum(np.bincount(label, minlength=k) - 1, 1))
    unit = (rank / np.maximum(sums, 1e-300))[label]
    with np.errstate(over="ignore"):  # a row alone: `without_row` makes it infinitely far
        leverage = weight * d2 * unit * total[label] / np.maximum(total[label] - weight, 1e-300)
    return without_row(d2 / np.maximum(1.0 - leverage, 1e-3), weight, total[label])


def least(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest cluster of each row, and what it costs."""
    label = costs.argmin(axis=1)
    return label, np.maximum(costs[np.arange(len(label)), label], 0.0, dtype=np.float64)


def in_blocks(n: int, counted: np.ndarray | None) -> Iterator[np.ndarray]:
    """The rows that count (None: all), 2^18 at a time: they may be very many."""
    for a in range(0, n, 2**18):
        here = np.arange(a, min(a + 2**18, n))
        yield here if counted is None else here[counted[here]]


def block_sizes(labels: np.ndarray, counted: np.ndarray | None, k: int) -> np.ndarray:
    """How many rows that count each cluster has, for each block of rows."""
    blocks = in_blocks(len(labels), counted)
    return np.array([np.bincount(labels[rows], minlength=k) for rows in blocks])


def drawn(
    labels: np.ndarray, counted: np.ndarray | None, k: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """At most about so many rows, all of small clusters; and how many rows each stands for."""
    each = block_sizes(labels, counted, k)
    count, before = each.sum(axis=0), np.cumsum(each, axis=0) - each
    take = how_many(count, most)
    blocks = zip(in_blocks(len(labels), counted), before, strict=True)
    found = [rows[evenly(labels[rows], seen, take, count)] for rows, seen in blocks]
    rows = np.concatenate(found)
    if count.sum() > most:
        rows = rows[by_label(labels[rows], k)]
    return rows, (count / np.maximum(take, 1))[labels[rows]]


def how_many(count: np.ndarray, most: int) -> np.ndarray:
    """How many rows of each cluster to take: at most `most` in all, and all of small clusters."""
    low, high = 1, int(count.max())
    while low < high and count.sum() > most:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(count, middle).sum() <= most else (low, middle - 1)
    return np.minimum(count, high)


def evenly(
    label: np.ndarray, before: np.ndarray, take: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Which rows to take, evenly among those of each cluster; `before` of them came earlier."""
    order = by_label(label, len(before))
    size = np.bincount(label, minlength=len(before))
    place = np.empty(label.size, np.int64)
    place[order] = np.arange(label.size) - (np.cumsum(size) - size - before)[label[order]]
    return (place + 1) * take[label] // count[label] > place * take[label] // count[label]
