"""Collapsed DP-means: rows move one by one, and the means move with them (BKJ 4.1; Eq. 8 and 9).

Objective: J = Σ_n w_n ‖x_n - x̄_{z_n}‖² + λk, x̄_c the mean of the rows of cluster c (Eq. 9).

1. Row by row: take the row out of its cluster. It goes to the cluster where it contributes least to
   J if that is at most λ, and opens a cluster of its own otherwise. Joining a cluster of weight W
   contributes W·w/(W+w)·‖x - x̄‖².
2. Repeat 1 until nothing changes.

Departs from the paper: where two places are equally good, a row stays if it is in one of them (so a
lone row stays alone at exactly λ), and otherwise the lowest number wins; contributions that differ
by less than 1e-10 of their size, or by rounding, are equal. The paper does not say how to start:
see `init`. J counts every cluster, Eq. 9 all but one. Rows whose nearest other centre is known to
be too far are passed by without looking; the result is the one of the plain loop.

Guaranteed at the end: no move of a single row, to another cluster or to one of its own, lowers J.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from madbayes._model.centers import CentersMixin
from madbayes._model.fitting import Options, begin, keep_choice, warn_if_unfinished
from madbayes._partition import moves
from madbayes._rows.checks import check_choice, check_rows, check_weight, dense
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.row_kernels import squared_error
from madbayes._rows.rows import Rows
from madbayes._rows.threads import patient, workers
from madbayes._search.number import printed_number, search_number
from madbayes._search.price import fixed, per_cluster
from madbayes.howmany.path import find_path, without_isolated
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.collapsed_kernels import RECENT, pass_over_rows
from madbayes.kmeans.farthest import first_gap, largest_gap
from madbayes.kmeans.search_rows import SearchTable

LOST = 1e-12  # of the size of X: how far a mean may be off by rounding


@dataclass(frozen=True)
class Moved:
    labels: np.ndarray
    history: list[float]
    n_iter: int
    converged: bool


def collapsed_dp_means(
    X: np.ndarray,
    weight: np.ndarray,
    labels: np.ndarray,
    penalty: float,
    *,
    max_clusters: int,
    max_iter: int,
) -> Moved:
    """Steps 1 and 2 from `labels`, on dense centred rows of positive weight, in their order."""
    z = labels.astype(np.int64)
    low, seen = np.zeros(len(X)), np.zeros(len(X), np.int64)
    births, n_births = np.zeros(RECENT, np.int64), 0
    size = float(np.abs(X).max()) * np.sqrt(X.shape[1])
    travelled = 0.0

    def measure() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        C, W, N = moves.means(X, weight, z, int(z.max()) + 18, False)  # afresh: no rounding adds up
        return C, W, N, squared_error(X, weight, z, C) + penalty * np.count_nonzero(N)

    C, W, N, J = measure()
    history = [J]
    for n_iter in range(1, max_iter + 1):
        before = z.copy()
        moved, n_births, way = patient(  # 1.
            pass_over_rows,
            X,
            weight,
            z,
            penalty,
            max_clusters,
            (LOST * size) ** 2,
            C,
            W,
            N,
            low,
            seen,
            births,
            n_births,
            travelled,
        )
        travelled += way + LOST * size
        if moved == 0:
            return Moved(z, history, n_iter, True)  # 2.
        C, W, N, J = measure()
        if not J < history[-1]:  # only rounding is left
            return Moved(before, history, n_iter, True)
        history.append(J)
    return Moved(z, history, max_iter, False)


class CollapsedDPMeans(CentersMixin):
    """DP-means that moves one row at a time (Broderick, Kulis & Jordan 2013, 4.1).

    Minimises the sum of squared distances to the means plus `penalty` for each cluster, as
    `DPMeans` does. A row that looks for its cluster takes into account that the mean will follow
    it, so this ends in fewer false minima than passes that move all rows at once. `DPMeans` (its
    search) makes these moves too, and also merges, splits and redraws clusters: use that for the
    lowest objective, and this one for the algorithm of the paper or as a quick descent.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in squared-distance units (λ² of the paper). "auto" takes the
        number of clusters that the data supports best (`penalties.path`), 1 when no number stands
        out from noise. "farthest-first" derives it from `n_clusters_hint` (KJ 6.1).
    max_clusters : int or None
        Never more clusters than this.
    n_clusters_hint : int or None
        A rough number of clusters, for "auto" (which then looks between two thirds and three halves
        of it) and "farthest-first".
    init : {"ward", "one"}, default="ward"
        The first clusters: many small ones, merged by Ward's cost while that is below the penalty;
        or a single one, from which a cluster is opened only where one row alone repays the penalty.
    order : {"given", "random"}, default="given"
        The order in which rows are visited; the result depends on it.
    max_iter : int, default=300
        Passes at most.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads for the start and for `predict`; None uses all cores. The passes are serial.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features)
        The means, from the largest cluster to the smallest.
    labels_ : array of shape (n_rows,)
        If converged, no other label for one row, nor a cluster of its own, lowers the objective.
    n_clusters_ : int
    penalty_ : float
    evidence_ : penalties.Choice
        With ``penalty="auto"``: the strength of the evidence, and the runners-up.
    path_ : penalties.Staircase
        With ``penalty="auto"``: clusters against the penalty; `path_.plot()` draws it.
    objective_ : float
        BKJ Eq. 9, counting every cluster: `inertia_` plus `penalty_` times `n_clusters_`.
    inertia_ : float
        Sum of (weighted) squared distances to the means.
    objective_history_ : array
        The objective at the start and after each pass; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    Needs the rows in memory, and a copy of them; a CSR matrix is made dense.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import CollapsedDPMeans
    >>> X = np.array([[0.0], [1], [2], [10], [11], [40]])
    >>> model = CollapsedDPMeans(penalty=20.0).fit(X)
    >>> model.labels_.tolist()
    [0, 0, 0, 1, 1, 2]
    >>> model.inertia_, model.objective_
    (2.5, 62.5)
    """

    def __init__(
        self,
        penalty: float | Literal["auto", "farthest-first"] = "auto",
        *,
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        init: Literal["ward", "one"] = "ward",
        order: Literal["given", "random"] = "given",
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.init = init
        self.order = order
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        X = dense(check_rows(self, X), "CollapsedDPMeans")
        weight = check_weight(sample_weight, X.shape[0])
        options = begin(self, "auto", "farthest-first")
        check_choice("init", self.init, "ward", "one")
        path = None
        with workers(self.n_jobs):
            rows = Rows(X, weight=weight)
            frame = measure_to_fit(rows)
            if options.penalty == "auto":
                path = find_path(X, weight, options.cap, options.hint)
                weight = without_isolated(path, X, weight)
            if self.order == "random":
                rows = rows.shuffled(options.random_state)
            table = SearchTable(rows, frame)
            start = self._from_one if self.init == "one" else self._from_ward
            moved, penalty, space = start(table, options, path)
            result = table.result(space.division(moved.labels), moved.history, penalty)
        result = replace(result, n_iter=moved.n_iter, converged=moved.converged)
        warn_if_unfinished(self, result.converged)
        if path is not None:
            keep_choice(self, path, result.k, penalty)
        self._store_result(rows, result, penalty)
        self._calibrate(X, self.labels_, weight)
        return self

    def _from_ward(
        self, table: SearchTable, options: Options, path: Staircase | None
    ) -> tuple[Moved, float, Any]:
        """From merged small clusters, or from the number of clusters that was chosen."""
        penalty, cap, n = options.penalty, options.cap, table.used.size
        space: Any
        if isinstance(penalty, str):
            space = table.space(fixed(cap or n, n))  # at most so many; the price is looked for
            number, first, centers = options.hint or 1, None, []
            if path is not None:
                number, first = path.best().number, path.best().price
                centers = table.shifted([path.centers_at(first)])
            start, _, penalty = search_number(
                space,
                number,
                first,
                max_clusters=cap,
                random_state=options.random_state,
                centers=centers,
            )
        else:
            space = table.space(per_cluster(penalty, cap, n))
            start = space.settle(next(iter(space.first_centers(options.random_state))))
        return self._moved(space, start.labels, penalty, options), penalty, space

    def _from_one(
        self, table: SearchTable, options: Options, path: Staircase | None
    ) -> tuple[Moved, float, Any]:
        """From one cluster: it falls apart only where one row repays the penalty."""
        n = table.used.size
        space: Any = table.space(fixed(options.cap or n, n))
        one, rows, penalty = (
            np.zeros(space.n, np.int64),
            Rows(space.X, weight=space.w),
            options.penalty,
        )
        if path is not None:
            number = path.best().number
            penalty, moved = printed_number(
                lambda penalty: self._moved(space, one, penalty, options),
                lambda found: len(np.unique(found.labels)),
                number,
                first_gap(rows, number),
            )
            return moved, penalty, space
        if penalty == "farthest-first":
            penalty = largest_gap(rows, options.hint or 1)
        return self._moved(space, one, penalty, options), penalty, space

    def _moved(self, space: Any, labels: np.ndarray, penalty: float, options: Options) -> Moved:
        return collapsed_dp_means(
            space.X,
            space.w,
            labels,
            penalty,
            max_clusters=space.price.cap,
            max_iter=options.max_iter,
        )
