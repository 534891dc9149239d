"""DP-means: k-means that opens clusters where they pay (KJ Algorithm 1; BKJ Eq. 3 and 12).

`algorithm1.py` is the printed algorithm, this file the estimator. The default algorithm is the
search (`_search/driver.py`) over `dense_space` or `sparse_space`.
"""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from madbayes._model.centers import CentersMixin
from madbayes._model.checkpoint import Checkpoint, Passes, checkpoint_of
from madbayes._model.fitting import begin, keep_choice, warn_if_tiny, warn_if_unfinished
from madbayes._model.open_rows import open_rows
from madbayes._partition.partition import Partition
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.threads import workers
from madbayes._search.discount import check_discount, search_discounted, total_price
from madbayes._search.number import printed_number
from madbayes.divergences.estimating import DivergenceMixin
from madbayes.divergences.fitting import fit_dp_means
from madbayes.divergences.outliers import remark_on_far
from madbayes.howmany.doubts import doubt
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.algorithm1 import dp_means
from madbayes.kmeans.farthest import first_gap, largest_gap
from madbayes.kmeans.search_rows import Clustering
from madbayes.kmeans.solve import (
    FitInput,
    bring_here,
    keep_core,
    leave_out_far,
    leave_out_isolated,
    search_table,
    with_rows_aside,
)


def search_falling(
    inputs: FitInput, path: Staircase | None, discount: float
) -> tuple[Clustering, float, Any]:
    """The search with a price that falls with the number of clusters (`_search/discount.py`)."""
    if path is not None or isinstance(inputs.options.penalty, str):
        result, price, core = search_table(inputs, path)
        penalty = price * result.k**discount  # so that the last cluster costs `price`
    else:

        def solve(price: float) -> tuple[Any, float, int]:
            at = replace(inputs, options=inputs.options._replace(penalty=price))
            found, _, core = search_table(at, None)
            return (found, core), found.inertia, found.k

        penalty, most = inputs.options.penalty, inputs.options.cap or inputs.rows.n
        (result, core), _, price = search_discounted(solve, penalty, discount, most)
    more = total_price(penalty, discount, result.k) - price * result.k
    history = [value + more for value in result.history]
    return replace(result, objective=result.objective + more, history=history), penalty, core


class DPMeans(DivergenceMixin, CentersMixin):
    """K-means that finds the number of clusters (Kulis & Jordan 2012).

    Minimises the sum of squared distances to the centres plus `penalty` for each cluster.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in squared-distance units (λ of the paper). "auto" takes the
        number of clusters that the data supports best (`penalties.path`), 1 when no number stands
        out from noise; "farthest-first" aims at `n_clusters_hint` clusters. The two algorithms need
        penalties of very different size: "search" opens a cluster where a whole group of rows saves
        more than the penalty, "paper" where one row does. Both words give a penalty of the right
        size (with "paper", "farthest-first" is the heuristic of KJ 6.1).
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
    divergence : {"squared", "poisson", "multinomial", "bernoulli", "gamma", "mixed"}
        What a row costs at a centre (Jiang, Kulis & Jordan 2012): "squared" distance of numbers,
        "poisson" counts, "multinomial" rows of counts whose shares matter and not their totals,
        "bernoulli" yes/no (0, 1 or probabilities), "gamma" positive numbers whose ratios matter.
        "mixed": every column has a kind of its own (`columns`), and a row costs the sum over its
        columns. Numbers are divided by their spread within clusters, which is found together with
        the clusters (`scales_`). The penalty is in nats for everything but "squared".
    columns : dict or None
        With ``divergence="mixed"``: the kind of each column by name (or number), "squared",
        "poisson", "bernoulli", "categorical" or "gamma". Other columns are guessed: text is
        categorical, 0 and 1 (and bool) bernoulli, whole numbers from 0 with a mean below 20
        poisson, other numbers squared. `columns_` says what was taken.
    missing : {"error", "observed"}, default="error"
        "observed": cells may be missing (NaN, None). The objective adds up the cells that are
        there (k-POD: Chi, Chi & Baraniuk 2016); no value is made up. A row without any cell is in
        no cluster: its label is -1.
    outlier_penalty : float, "auto" or None
        For "search": a row may be left out of all clusters at this cost, in the units of the
        divergence. Its label is -1; `predict` gives -1 to rows that cost more. "auto" takes the
        cost from the tail of the divergences, where hardly any ordinary row is expected. None:
        every row is in a cluster; with ``penalty="auto"`` rows far from all others still play no
        part in finding the clusters, and get the nearest one.
    discount : float, default=0
        For "search": cluster number j costs penalty / j**discount, the small-variance limit of a
        Pitman-Yor process (0: of the Dirichlet process). For clusters whose sizes follow a power
        law: small clusters are found at a penalty that leaves large ones whole.
    n_init : int, default=1
        For "search": how many searches, from different seeds; the best is kept.
    effort : float, default=1
        For "search": its patience, as a multiple of the usual one.
    order : {"given", "random"}
        For "paper": the order in which rows are visited; it matters for which rows open clusters.
    max_iter : int, default=300
        For "paper": passes at most.
    checkpoint : path or None
        For "paper": a file that records the state of the fit after passes. An interrupted fit that
        is called again continues from this file, and gives the same result to the bit. A finished
        fit removes the file.
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
    n_outliers_, outlier_penalty_ : int, float
        Rows left out, and the cost of one (only with `outlier_penalty`).
    columns_, scales_ : dict
        With a divergence: the kind of each column; with "mixed" the spread of each number within
        clusters (of "gamma" the shape). `cluster_centers_` has one column for each number, count
        and yes/no, and one for each level of a category: its share.
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
        Only where a search used a coreset: its number of rows, and the share by which it misjudged
        the squared error of its centres, measured on all rows.
    n_iter_, converged_, n_features_in_, feature_names_in_

    Notes
    -----
    "search" needs the rows in memory, and a copy of them. Of rows on disk (a memory map,
    `madbayes.blocks`) with more than 2²⁵ values it takes a coreset instead, and then passes over
    all rows. A CSR matrix of up to 2²⁵ values, zeros included, is made dense for it, or, with
    more than two columns for each row, turned into coordinates of the space that its rows span; a
    larger one is searched as it is, with somewhat fewer moves.

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
        divergence: str = "squared",
        columns: dict[Any, str] | None = None,
        missing: Literal["error", "observed"] = "error",
        outlier_penalty: float | Literal["auto"] | None = None,
        discount: float = 0.0,
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
        self.divergence = divergence
        self.columns = columns
        self.missing = missing
        self.outlier_penalty = outlier_penalty
        self.discount = discount
        self.n_init = n_init
        self.effort = effort
        self.order = order
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X."""
        if self._by_divergence:
            fit_dp_means(self, X, sample_weight)
            return self
        given = open_rows(self, X, sample_weight, unit=self._unit)
        options = begin(self, "auto", "farthest-first")
        discount = check_discount(self.discount, self.algorithm)
        rows = bring_here(given) if self.algorithm == "search" else given
        path = None
        everything, far = rows, np.zeros(0, np.int64)
        with workers(self.n_jobs, enough=rows.n * rows.d > 2**11):
            if options.penalty == "auto" and self.algorithm == "search":
                rows, far = leave_out_far(rows)
            frame = measure_to_fit(rows)
            file, options = checkpoint_of(self, rows, frame, options)
            inputs = FitInput(rows, frame, options)
            if options.penalty == "auto":
                path = inputs.path()
                rows = leave_out_isolated(rows, path)
                inputs = replace(inputs, rows=rows)
            if discount > 0:
                result, penalty, core = search_falling(inputs, path, discount)
            elif self.algorithm == "search":
                result, penalty, core = search_table(inputs, path)
            else:
                result, penalty, core = *self._fit_paper(inputs, path, file), None
            result = with_rows_aside(result, everything, rows)
            remarks = keep_core(self, core, rows.n)
            if far.size:
                remarks = (*remarks, remark_on_far(far))
            warn_if_unfinished(self, result.converged)
            if self.algorithm == "search" and not isinstance(options.penalty, str):
                warn_if_tiny(penalty, rows.n, result.k)
            if path is not None:
                isolated = path.best().n_isolated + far.size
                path = replace(path, choice=replace(path.best(), n_isolated=isolated))
                keep_choice(self, path, result.k, penalty, remarks)
                if not (rows.executor.remote or rows.sparse or rows.unit) and rows.in_memory:
                    counted = rows.weight > 0 if rows.weighted else slice(None)
                    self.evidence_ = doubt(self.path_, rows.X[counted], result.labels[counted])
                    self.path_ = replace(self.path_, choice=self.evidence_)
            self._store_result(given, result, penalty)
            self.n_outliers_ = 0
            self._calibrate_rows(rows, result.labels)
        if file is not None:
            file.remove()
        return self

    def _fit_paper(
        self, inputs: FitInput, path: Staircase | None, file: Checkpoint | None
    ) -> tuple[Clustering, float]:
        """Algorithm 1, at the given penalty or at a penalty that gives the chosen number."""
        options, rows, frame = inputs.options, inputs.rows, inputs.frame
        if self.order == "random":
            rows = rows.shuffled(options.random_state)
        known = {} if file is None or file.past is None else dict(file.past["known"])

        def solve(penalty: float) -> Clustering:
            limits: Any = {"max_clusters": options.cap, "max_iter": options.max_iter}
            passes = Passes(file, known=dict(known))
            return dp_means(Partition(rows, frame), penalty, **limits, passes=passes)

        penalty = options.penalty
        if path is not None:
            number = path.best().number
            first = first_gap(rows, number, frame)
            penalty, result = printed_number(solve, lambda found: found.k, number, first, known)
        else:
            if penalty == "farthest-first":
                penalty = largest_gap(rows, options.hint or 1, frame)
            result = solve(penalty)
        return replace(result, labels=rows.restored(result.labels)), penalty
