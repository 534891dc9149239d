"""Hard HDP: clusters shared by many data sets (KJ section 4), the estimator.

Objective: F = Σ_n w_n ‖x_n - μ_{z_n}‖² + λ_l Σ_j k_j + λ_g g (KJ Eq. 2, with weights).
`algorithm2` holds the printed algorithm, `space` what the search needs, `path` how penalties are
found, `relaxation` a lower bound, `base` what this estimator shares with `KernelHardHDP`.
"""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._model.centers import CentersMixin
from madbayes._model.dispatch import anywhere
from madbayes._model.fitting import warn_if_unfinished
from madbayes._model.novelty_mixin import Closest
from madbayes._model.open_rows import open_rows
from madbayes._partition.seeding import squared_distances
from madbayes._rows.checks import check_rows, check_weight, is_spread
from madbayes._rows.frame import check_reach, measure, measure_to_fit
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.divergences.estimating import DivergenceMixin
from madbayes.groups.algorithm2 import hard_hdp
from madbayes.groups.base import SharedClusters
from madbayes.groups.divergent import fit_divergent
from madbayes.groups.grouped_rows import check_groups, gather, usage
from madbayes.groups.path import Plan


class HardHDP(DivergenceMixin, SharedClusters, CentersMixin):
    """Clusters shared by many data sets, their number found (Kulis & Jordan 2012, section 4).

    Rows come in groups (patients, shops, documents). Minimises the sum of squared distances to the
    shared centres, plus `penalty_local` for every cluster that a group uses and `penalty_global`
    for every cluster that exists: groups borrow clusters from each other, and each uses few.

    Use it when single groups are too small to be clustered alone, or when clusters of different
    groups have to be the same ones. With one group it is `DPMeans`, with the sum of both penalties.
    When groups do not matter, `DPMeans` on all rows is simpler.

    Parameters
    ----------
    penalty_local : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster in a group, in squared-distance units (λ_l of the paper).
    penalty_global : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster altogether, in squared-distance units (λ_g). "auto" compares
        three divisions by the likelihood of rows that did not set their centres (`groups.path`):
        clusters that groups share, `DPMeans` of all rows together, and `DPMeans` of each group
        alone with clusters joined where they coincide. `evidence_.reason` says which one was taken.
        With hints, "auto" takes penalties that give about as many clusters as the hints say.
        "farthest-first" aims at the hints: with "paper" by the heuristic of KJ 6.1, which is on the
        scale of one row, with "search" like "auto".
    algorithm : {"search", "paper", "spectral"}, default="search"
        "search" looks for the lowest objective: at the end no move of one row or of one group's
        share of a cluster, to another cluster or to a new one, and no merge of two clusters lowers
        it, and splits of every cluster have been tried in vain. The result is never above that of
        "paper". The search is a heuristic; the global minimum is not guaranteed. "paper" is KJ
        Algorithm 2. "spectral" rounds the eigenvectors of the relaxed objective and polishes the
        result by the moves of "search": it takes less time and often ends a little higher.
    n_local_hint, n_global_hint : int or None
        Rough numbers of clusters, in a group on average and in all.
    n_init : int, default=1
        For "search": how many searches, from different seeds; the best is kept.
    effort : float, default=1
        For "search": its patience, as a multiple of the usual one.
    max_iter : int, default=300
        Passes of Algorithm 2 at most.
    divergence : {"squared", "poisson", "multinomial", "bernoulli", "gamma", "mixed"}
        What a row costs at a centre, as in `DPMeans`. The penalties are then in nats.
    columns : dict or None
        With ``divergence="mixed"``: the kind of each column, as in `DPMeans`.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        The (global) cluster of each row.
    local_labels_ : array of shape (n_rows,)
        The cluster of each row, numbered within its group: 0 to ``n_local_clusters_[group] - 1``,
        in the order of the global labels.
    cluster_centers_ : array of shape (n_clusters_, n_features)
        By "search" from the largest cluster to the smallest.
    n_clusters_ : int
        The number of global clusters, g.
    n_local_clusters_ : array of shape (n_groups,)
        How many of them each group uses, k_j, in the order of `groups_`.
    groups_ : array of shape (n_groups,)
        The labels of the groups, sorted.
    penalty_local_, penalty_global_ : float
    objective_ : float
        KJ Eq. 2: `inertia_` + `penalty_local_` · Σ `n_local_clusters_` + `penalty_global_` ·
        `n_clusters_`.
    inertia_ : float
        Sum of (weighted) squared distances to the centres.
    objective_history_ : array
        The objective after each pass or improvement; never rises.
    relaxed_bound_ : float
        No division of these rows has a lower objective at these penalties. It is far off where
        there are many more clusters than columns. Only with ``divergence="squared"`` and rows in
        memory.
    gap_ : float
        (`objective_` - `relaxed_bound_`) / `objective_`: at most this share could still be saved.
    evidence_, path_ : penalties.Choice, penalties.Staircase
        With "auto" penalties: how many clusters and how sure; clusters against `penalty_global`.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    Rows of weight 0 get the nearest cluster that their group uses; a group of such rows only uses
    none, and their local label is -1. The rows are copied once; a CSR matrix is made dense.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import HardHDP
    >>> rng = np.random.default_rng(0)
    >>> places = np.array([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    >>> X = [np.repeat(places[pair], 4, axis=0) + rng.normal(size=(8, 2))
    ...      for pair in ([0, 1], [1, 2], [2, 3], [0, 3], [0, 2])]
    >>> model = HardHDP(penalty_local=10.0, penalty_global=20.0, random_state=0).fit(X)
    >>> model.n_clusters_, model.n_local_clusters_
    (4, array([2, 2, 2, 2, 2]))
    >>> new = [[4.4, 0.0]]  # between two clusters, of which group 3 uses the first
    >>> model.predict(new, groups=[3]) == model.predict([[0.0, 0.0]])
    array([ True])
    """

    _reads_blocks = True

    def __init__(
        self,
        penalty_local: float | str = "auto",
        penalty_global: float | str = "auto",
        *,
        algorithm: str = "search",
        n_local_hint: int | None = None,
        n_global_hint: int | None = None,
        n_init: int = 1,
        effort: float = 1.0,
        max_iter: int = 300,
        divergence: str = "squared",
        columns: dict[Any, str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty_local = penalty_local
        self.penalty_global = penalty_global
        self.algorithm = algorithm
        self.n_local_hint = n_local_hint
        self.n_global_hint = n_global_hint
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.divergence = divergence
        self.columns = columns
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array, table or CSR matrix, or a list of them, one for each group
        y : ignored
        sample_weight : array of shape (n_rows,), optional
        groups : array of shape (n_rows,), optional
            The group of each row: numbers or text. One group when left out.
        """
        if is_spread(X):
            return self._fit_dask(X, sample_weight, groups)
        X, groups = gather(X, groups)
        if self._by_divergence:
            return self._fit_divergent(X, sample_weight, groups)
        X = check_rows(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        found = check_groups(groups, X.shape[0])
        options = self._check()
        with workers(self.n_jobs):
            rows, division, labels = self._solve(X, weight, found, options)
            self._store_centers(division.centers + rows.offset, Rows(X).dtype)
            left_out = np.flatnonzero(labels < 0)
            if left_out.size:
                gaps = self._distances(X[left_out])(0, left_out.size).T
                labels[left_out] = self._nearest_of_group(gaps, found.code[left_out])
        self._store_labels(labels, found)
        self._calibrate(X, self.labels_, weight)
        return self

    def _fit_dask(self, X: Any, sample_weight: Any, groups: Any) -> Self:
        """Fit a Dask table: Algorithm 2, with whole groups on the workers."""
        options, penalties = self._check(), (self.penalty_local, self.penalty_global)
        if self.algorithm != "paper" or any(isinstance(value, str) for value in penalties):
            raise ValueError(
                "HardHDP fits Dask tables with algorithm='paper' and penalties that are numbers "
                f"(algorithm={self.algorithm!r}, penalty_local={penalties[0]!r}, penalty_global="
                f"{penalties[1]!r} were given). Fit a sample of whole groups first: its "
                "penalty_local_ and penalty_global_ are on the right scale."
            )
        from madbayes.groups.dask_groups import DaskGroups  # Dask is imported only for its tables

        plan = Plan(float(penalties[0]), float(penalties[1]))
        with workers(self.n_jobs):
            rows = open_rows(self, X, sample_weight)
            mean = measure_to_fit(rows).mean
            grouped = DaskGroups(rows, groups, mean)
            state = grouped.labels
            found = hard_hdp(state, plan.local, plan.glob, options.max_iter)
            warn_if_unfinished(self, found.converged)
            centers = state.update_means()
            used, inertia = grouped.usage(len(centers)), state.error(centers)
            self._store_found(grouped.groups.names, found, used, inertia, plan)
            self._store_centers(centers + mean, rows.dtype)
            labels = grouped.restored(state.z)
            self.labels_ = rows.public(labels)
            self.local_labels_ = rows.public(grouped.local_labels(used))
            self._calibrate_rows(rows, labels)
        return self

    def _fit_divergent(self, X: Any, sample_weight: Any, groups: Any) -> Self:
        """Fit by a divergence (`groups.divergent`), and store which clusters each group uses."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        found = check_groups(groups, n)
        group = fit_divergent(self, X, sample_weight, found)
        labels, inside = self.labels_.astype(np.int64), np.flatnonzero(group >= 0)
        shape = (len(found.names), self.n_clusters_)
        self._rows_of = usage(group[inside], labels[inside], shape)
        self.groups_ = found.names
        self.n_local_clusters_ = np.diff(self._rows_of.indptr)
        self._store_labels(labels, found)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit and return the distances of the rows of X to the centres."""
        return self.fit(X, sample_weight=sample_weight, groups=groups).transform(X)

    @anywhere
    def transform(self, X: Any) -> np.ndarray:
        """Euclidean distances, (n_rows, n_clusters)."""
        return super().transform(gather(X, None)[0])

    @anywhere
    def predict(self, X: Any, novel: Any = False, groups: Any = None) -> np.ndarray:
        """The cluster of each row of X: the least squared distance, `penalty_local_` added for
        clusters that the group of the row does not use.

        Rows of groups that were not there in `fit` (or all rows, without `groups`) get the nearest
        cluster. With `novel`, a rate, -1 for rows that are new, as in `DPMeans.predict`; with
        ``novel="paper"`` where even the cheapest cluster costs more than `penalty_local_` +
        `penalty_global_`. Rows do not influence each other.
        """
        return self._predict(X, novel, groups=groups)

    @anywhere
    def novelty_score(self, X: Any, groups: Any = None) -> np.ndarray:
        """As in `DPMeans.novelty_score`, for the cluster that `predict` gives."""
        return self._score_novelty(self._closest(X, groups))

    def _plain_labels(self, X: Any, **how: Any) -> np.ndarray:
        return self._closest(X, **how).labels

    def _closest(self, X: Any, groups: Any = None) -> Closest:
        check_is_fitted(self)
        X, groups = gather(X, groups)
        if self._divergent:
            rows = self._new_rows(X)
            gaps = self._gaps(rows)
            labels, costs, paid = self._cheapest(lambda a, b: gaps[a:b].T, rows.n, groups)
            return Closest(labels, costs, lambda some: gaps[some], paid)
        X = check_rows(self, X, reset=False)
        labels, d2, paid = self._cheapest(self._distances(X), X.shape[0], groups)
        return Closest(labels, d2, lambda rows: self._gaps(X[rows]), paid)

    def _distances(self, X: Any) -> Any:
        source, centers = Rows(X), np.ascontiguousarray(self._exact_centers())
        with workers(1):
            check_reach(centers, measure(source), source.d)
        return lambda a, b: squared_distances(source, a, b, centers)
