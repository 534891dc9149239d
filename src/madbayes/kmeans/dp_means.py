"""DP-means: k-means that opens clusters where they pay (KJ Algorithm 1; BKJ Eq. 3 and 12).

This file is the printed algorithm and the estimator. The default algorithm is the search
(`_search/driver.py`) over `dense_space` or `sparse_space`.

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights).

1. One cluster, its centre the mean of all rows.
2. Row by row: if w·d² to the nearest centre exceeds λ, the row opens a cluster at its own place
   (visible to the rows after it, in the same pass); otherwise it goes to the nearest centre.
3. Each centre becomes the mean of its rows; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

Departs from the paper: nothing in the result. Step 2 is serial as printed, but distances to the
centres known at the start of a stretch of rows do not depend on order: threads find them, and only
the rows that are too far from all of those need the serial rule (docs/adr/0004).
"""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from madbayes._model.centers import CentersMixin
from madbayes._model.checkpoint import NOT_KEPT, Checkpoint, Passes, checkpoint_of
from madbayes._model.dispatch import anywhere
from madbayes._model.fitting import begin, keep_choice, warn_if_unfinished
from madbayes._partition.partition import Partition
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.progress import Stage
from madbayes._rows.rows import Rows, restore
from madbayes._rows.threads import workers
from madbayes._search.driver import never_rising
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.search_rows import Clustering
from madbayes.kmeans.solve import Problem, keep_core, printed_rows, search_table

FIRST_STRETCH = 1024  # rows before the first look at who opens a cluster
FAR_ROWS = 8192  # rows under the serial rule at a time
FEW_VALUES = 2**11  # up to which one thread is quicker than several
GAPS = 2**22  # distances between old and new centres that are kept at a time


def assign_or_open(
    partition: Partition, centers: np.ndarray, penalty: float, max_clusters: int, stretch: int
) -> tuple[np.ndarray, bool]:
    """2. One pass over the rows; returns all centres, and whether anything changed."""
    n = partition.source.n
    changed = False
    first = 0
    while first < n:
        last = min(n, first + stretch)
        changed |= partition.assign(centers, penalty, rows=(first, last)) > 0
        room = max_clusters - centers.shape[0]
        at_once = min(FAR_ROWS, max(256, GAPS // centers.shape[0])) if room > 0 else 0
        far = partition.far_rows(first, last, at_once + 1)
        opened = far[:0]
        if far.size and room > 0:
            if far.size > at_once:  # the rest comes in the next stretch
                last = int(far[at_once])
                far = far[:at_once]
            opened = partition.open_clusters(centers, far, penalty, room)
            if opened.size:
                centers = partition.offer(centers, opened, last)
                changed = True
        # Few openings: look less often. The result does not depend on it.
        stretch = min(n, 2 * stretch) if opened.size <= 16 else max(256, stretch // 2)
        first = last
    return centers, changed


def update_means(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """3. Means of what is left."""
    return partition.filled_means(centers)


def one_pass(
    partition: Partition, centers: np.ndarray, penalty: float, max_clusters: int | None
) -> np.ndarray:
    """2. and 3. from centres that are good already."""
    n = partition.source.n
    centers, _ = assign_or_open(partition, centers, penalty, max_clusters or n + 1, n)
    return update_means(partition, centers)


def dp_means(
    partition: Partition,
    penalty: float,
    *,
    max_clusters: int | None,
    max_iter: int,
    passes: Passes = NOT_KEPT,
) -> Clustering:
    """KJ Algorithm 1 on the rows of `partition`, in their order; `passes` keeps where it is."""
    n = partition.source.n
    cap = n + 1 if max_clusters is None else max_clusters  # the first one may lose its rows
    history: list[float] = []
    converged = fresh_sums = False
    n_iter, stretch = 0, FIRST_STRETCH
    if (past := passes.resume(partition)) is None:
        centers = partition.middle()  # 1.
        partition.assign(centers)
    else:
        centers, history, fresh_sums, n_iter, stretch = past
    stage = Stage("passes of Algorithm 1")
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        centers, changed = assign_or_open(partition, centers, penalty, cap, stretch)  # 2.
        stretch = n
        if changed or not fresh_sums:
            if not changed:  # see if it holds without the rounding of the running sums
                partition.recount()
                n_iter -= 1
            fresh_sums = not changed
            centers = update_means(partition, centers)  # 3.
            if changed:
                history.append(partition.sse + penalty * centers.shape[0])
            passes.keep(partition, (centers, history, fresh_sums, n_iter, stretch))
        else:
            converged = True  # 4.
    if not converged:
        partition.assign(centers)
    inertia = partition.measure_sse(centers)
    history = never_rising([*history, inertia + penalty * centers.shape[0]], passes=True)
    return Clustering(partition.labels, centers, history[-1], inertia, history, n_iter, converged)


class DPMeans(CentersMixin):
    """K-means that finds the number of clusters (Kulis & Jordan 2012).

    Minimises the sum of squared distances to the centres plus `penalty` for each cluster.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in squared-distance units (λ of the paper). "auto" takes the
        number of clusters that the data supports best (`penalties.path`), 1 when nothing stands out
        from noise; "farthest-first" aims at `n_clusters_hint` clusters. Both give a penalty on the
        scale of the algorithm: what a whole cluster repays for "search", what one row repays for
        "paper" (there "farthest-first" is the heuristic of KJ 6.1). They are very different.
    algorithm : {"search", "paper"}, default="search"
        "search" looks for the lowest objective: at the end no move of one row, no row opened as a
        cluster of its own and no merge of two clusters lowers it, and splits of every cluster have
        been tried in vain. It is a heuristic: the global minimum is found nearly always for few
        rows and is not guaranteed. "paper" is KJ Algorithm 1, step for step: the same result as a
        plain loop over the rows; it opens a cluster only where one row alone repays the penalty.
    max_clusters : int or None
        Never more clusters than this (BKJ Eq. 12).
    n_clusters_hint : int or None
        A rough number of clusters: "auto" then looks between two thirds and three halves of it,
        "farthest-first" takes it as it is.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" compares directions: rows are taken at length 1 (block by block, X is not copied),
        centres have length 1, and the squared distance is 2 - 2 cos. With "paper" this is DP-vMF-
        means (Straub et al. 2015), for a given number of clusters spherical k-means (Dhillon &
        Modha 2001). Rows of zeros are left out, with a warning.
    n_init : int, default=1
        For "search": so many searches from different seeds, of which the best is taken.
    effort : float, default=1
        For "search": so many times the usual patience.
    order : {"given", "random"}
        For "paper": the order in which rows are visited; it matters for which rows open clusters.
    max_iter : int, default=300
        For "paper": passes at most.
    checkpoint : path or None
        For "paper": a file in which the fit writes, after passes, where it is. If it is
        interrupted, the same fit again goes on from there, to the same result to the bit. The file
        goes when the fit is done.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features)
        By "search" from the largest cluster to the smallest.
    labels_ : array of shape (n_rows,)
    n_clusters_ : int
    penalty_ : float
    evidence_ : penalties.Choice
        With ``penalty="auto"``: how many clusters, the strength of the evidence, the runners-up.
    path_ : penalties.Staircase
        With ``penalty="auto"``: clusters against the penalty; `path_.plot()` draws it.
    cluster_layers_, cluster_tree_ : list of arrays, dict
        With ``penalty="auto"``: nested divisions, finest first, of which `labels_` is one, and
        which cluster lies in which. Coarser ones join the clusters by Ward's cost.
    probabilities_ : array of shape (n_rows,)
        With ``penalty="auto"``: how surely each row belongs to its own cluster.
    objective_ : float
        KJ Eq. 1: `inertia_` plus `penalty_` times `n_clusters_`.
    inertia_ : float
        Sum of (weighted) squared distances to the centres.
    objective_history_ : array
        The objective after each pass or improvement; never rises (KJ Theorem 3.1).
    coreset_size_, coreset_error_ : int, float
        Only where a search went through a coreset: its rows, and by which share the squared error
        of the centres found on it was off, measured on all rows.
    n_iter_, converged_, n_features_in_, feature_names_in_

    Notes
    -----
    "search" needs the rows in memory, and a copy of them. Of rows on disk (a memory map,
    `madbayes.blocks`) with more than 2²⁵ values it takes a coreset instead, and then passes over
    all rows. A CSR matrix of up to 2²⁵ values, zeros included, is made dense for it; a larger one
    is searched as it is, with somewhat fewer moves.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 50, axis=0) + rng.normal(size=(150, 2))
    >>> model = DPMeans(random_state=0).fit(X)
    >>> model.n_clusters_, model.evidence_.strength
    (3, 'strong')
    >>> DPMeans(penalty=20.0, algorithm="paper").fit(X).n_clusters_
    4
    """

    _reads_blocks = True

    def __init__(
        self,
        penalty: float | Literal["auto", "farthest-first"] = "auto",
        *,
        algorithm: Literal["search", "paper"] = "search",
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        metric: Literal["euclidean", "cosine"] = "euclidean",
        n_init: int = 1,
        effort: float = 1.0,
        order: Literal["given", "random"] = "given",
        max_iter: int = 300,
        checkpoint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.metric = metric
        self.n_init = n_init
        self.effort = effort
        self.order = order
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs

    @anywhere
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        X, weight = self._rows_to_fit(X, sample_weight)
        options = begin(self, "auto", "farthest-first")
        path = file = None
        with workers(self.n_jobs, enough=X.shape[0] * X.shape[1] > FEW_VALUES) as run:
            frame = measure_to_fit(Rows(X, unit=self._unit), weight, run)
            rows = Problem(X, weight, frame, options, run, self._unit)
            file, options = checkpoint_of(self, rows)
            rows = replace(rows, options=options)
            if options.penalty == "auto":
                limits = options.cap, options.hint, options.random_state
                path = find_path(X, weight, *limits, run, unit=self._unit)
            if self.algorithm == "search":
                result, penalty, core = search_table(rows, path, one_pass)
            else:
                result, penalty, core = *self._print(rows, path, file), None
        remarks = keep_core(self, core, X.shape[0])
        warn_if_unfinished(self, result.converged)
        if path is not None:
            keep_choice(self, path, result.k, penalty, remarks)
        self._store_result(result, penalty, Rows(X).dtype)
        self._calibrate(X, self.labels_, weight)
        if file is not None:
            file.remove()
        return self

    def _print(
        self, rows: Problem, path: Staircase | None, file: Checkpoint | None
    ) -> tuple[Clustering, float]:
        """Algorithm 1, at a penalty or at one that gives the number of clusters that was chosen."""
        options, weight, run = rows.options, rows.weight, rows.run
        permutation = None
        if self.order == "random":
            permutation = options.random_state.permutation(rows.X.shape[0])
            weight = None if weight is None else weight[permutation]
        source = Rows(rows.X, permutation, unit=self._unit)
        known = {} if file is None or file.past is None else dict(file.past["known"])
        limits: Any = {"max_clusters": options.cap, "max_iter": options.max_iter}

        def solve(penalty: float) -> Clustering:
            partition = Partition(source, weight, run, rows.frame, unit=self._unit)
            passes = Passes(file, known=dict(known))
            return dp_means(partition, penalty, **limits, passes=passes)

        result, penalty = printed_rows(rows, path, source, weight, solve, known)
        return replace(result, labels=restore(result.labels, permutation)), penalty
