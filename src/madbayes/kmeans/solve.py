"""The search on checked rows: in memory, or through a coreset.

Many rows on disk (memory maps, `madbayes.blocks`) or on Dask workers are not copied into memory.
Instead:

1. Draw a coreset of the rows (`coreset.py`). If the search finds many clusters, draw a larger one.
2. Search the coreset, at a penalty or for a number of clusters.
3. Measure the squared error of the centres in one pass over all rows. `coreset_error_` is the
   relative difference between the error on the coreset and the error on all rows.
4. At a penalty: make all merges that lower the objective of all rows.
5. Make passes over all rows (of Algorithm 1 at a penalty, of Lloyd's algorithm for a number) until
   a pass lowers the objective by less than a ten-thousandth.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from madbayes._model.fitting import Options
from madbayes._partition.moves import TOL, means
from madbayes._partition.partition import Partition
from madbayes._partition.ward import merge_below
from madbayes._rows.content import content_order
from madbayes._rows.frame import Frame, measure_to_fit
from madbayes._rows.progress import Stage
from madbayes._rows.rows import DISK_VALUES, Rows, count_different
from madbayes._rows.threads import patient
from madbayes._search.driver import by_size, never_rising, search
from madbayes._search.number import search_number
from madbayes._search.price import fixed, per_cluster
from madbayes.divergences.outliers import far_rows
from madbayes.howmany.path import find_path, without_isolated
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.algorithm1 import assign_or_open
from madbayes.kmeans.coreset import Coreset, coreset
from madbayes.kmeans.search_rows import DENSE_VALUES, Clustering, SearchTable, SpanTable

# Rows × columns of the first coreset; and its rows, at least and at most.
CORE_VALUES, CORE_ROWS = 2**22, (2**14, 2**17)
WIDE = 2  # a CSR matrix with more columns than this per row is searched in fewer coordinates
PER_CLUSTER = 64  # rows of a coreset per cluster; with fewer, a larger coreset is drawn
GAIN = 1e-4  # passes over all rows end when a pass gains less than this share of the objective
PASSES = 30  # passes over all rows, at most
PATH_ROWS = 2**16  # rows of a large Dask table from which the number of clusters is chosen

Solve = Callable[["FitInput"], tuple[Clustering, float]]


@dataclass(frozen=True)
class FitInput:
    """Checked rows, where they lie, and checked parameters."""

    rows: Any  # `Rows` or `DaskRows`
    frame: Frame
    options: Options

    @property
    def large(self) -> bool:
        """Whether the rows are too many to copy into this process."""
        return is_large(self.rows)

    def core(self, m: int) -> Coreset:
        """1. A coreset of at most m rows."""
        return coreset(self.rows, self.frame.mean, m, self.options.random_state)

    def path(self) -> Staircase:
        """How many clusters the data supports; for a large Dask table from evenly spaced rows."""
        rows, options = self.rows, self.options
        if not rows.executor.remote or not self.large:
            rows = rows.here()
            X, weight = rows.X, rows.weight if rows.weighted else None
        else:
            index = np.unique(np.linspace(0, rows.n - 1, PATH_ROWS).astype(np.int64))
            X, weight = rows.take_kept(index), rows.take_weights(index)
            weight = weight * (self.frame.total_weight / weight.sum())  # they represent all rows
        return find_path(X, weight, options.cap, options.hint, unit=rows.unit)

    def table(self) -> SearchTable:
        """The rows for the search, in an order that depends on their values only.

        So the search finds the same clusters in a shuffled table. A small CSR matrix becomes dense;
        if it has many more columns than rows, the search works in fewer coordinates (`SpanTable`).
        """
        rows = self.rows.here()
        weight = rows.weight if rows.weighted else None
        order = content_order(rows.X, weight, 0)
        X = rows.X[order] if rows.sparse else rows.X[:][order]
        wide = rows.d > WIDE * rows.n
        if rows.sparse and rows.n * rows.d <= DENSE_VALUES and not wide:
            X = X.toarray()
        ordered = Rows(X, unit=rows.unit, weight=None if weight is None else weight[order])
        near = ordered.arranged()
        near.order = order if near.order is None else order[near.order]
        span = near.sparse and rows.n * rows.d <= DENSE_VALUES
        return SpanTable(near, self.frame) if span else SearchTable(near, self.frame)


def leave_out_far(rows: Any) -> tuple[Any, np.ndarray]:
    """The rows, with weight 0 for those far from all others, and the numbers of the far rows.

    This is needed only where the fit chooses the number of clusters: a far row saves more than any
    penalty that suits whole clusters, so it would become a cluster.
    """
    none = np.zeros(0, np.int64)
    if rows.executor.remote or rows.unit or rows.sparse or not rows.in_memory:
        return rows, none
    counted = np.flatnonzero(rows.weight > 0) if rows.weighted else np.arange(rows.n)
    far = counted[far_rows(rows.X[counted] if rows.weighted else rows.X, np.random.RandomState(0))]
    if far.size == 0:
        return rows, none
    weight = rows.take_weights(np.arange(rows.n)).copy()
    weight[far] = 0.0
    return rows.weighing(weight), far


def with_rows_aside(result: Clustering, given: Any, rows: Any) -> Clustering:
    """The result, with the error of rows that were left out of the means added to its error.

    `given` has the weights of the user, `rows` those of the fit.
    """
    if rows is given or rows.executor.remote:
        return result
    before = given.take_weights(np.arange(given.n))
    aside = np.flatnonzero(before != rows.take_weights(np.arange(rows.n)))
    if aside.size == 0:
        return result
    gaps = ((given.take(aside) - result.centers[result.labels[aside]]) ** 2).sum(axis=1)
    more = float(before[aside] @ gaps)
    history = [value + more for value in result.history]
    return replace(result, objective=history[-1], inertia=result.inertia + more, history=history)


def leave_out_isolated(rows: Any, path: Staircase) -> Any:
    """Give weight 0 to rows that the path calls isolated: they neither open nor move clusters."""
    if rows.executor.remote:
        return rows
    weight = rows.weight if rows.weighted else None
    return rows.weighing(without_isolated(path, rows.X, weight))


def is_large(rows: Any) -> bool:
    """Whether the rows are on disk or on workers, and too many to copy into this process."""
    return rows.n * rows.d > DISK_VALUES and not rows.in_memory


def bring_here(rows: Any) -> Any:
    """Copy the rows into this process for the search if they are on workers and not many."""
    return rows if is_large(rows) else rows.here()


class Core(NamedTuple):
    """The size of a coreset, and its error."""

    size: int
    error: float  # squared error of the centres on the coreset / on all rows - 1


def keep_core(model: Any, core: Core | None, n: int) -> tuple[str, ...]:
    """Store the coreset's size and error in the model; warn if the error is large.

    Returns remarks for the user.
    """
    if core is None:
        return ()
    model.coreset_size_, model.coreset_error_ = core
    if abs(core.error) > 0.1:
        warnings.warn(
            f"the search saw a coreset of {core.size:,} of {n:,} rows, on which the squared error "
            f"is {core.error:+.0%} off: the clusters are so small that hardly any of their rows "
            "are in it. Use a larger penalty or fewer clusters, or load the rows: np.array(X).",
            stacklevel=3,
        )
    return (
        f"Searched on a coreset of {core.size:,} of {n:,} rows, then settled on all of them; the "
        f"squared error on the coreset was off by {core.error:+.1%}",
    )


def search_table(inputs: FitInput, path: Staircase | None) -> tuple[Clustering, float, Core | None]:
    """The search at a penalty, or for the number of clusters that the path chose."""
    if not inputs.large:
        return *search_here(inputs, path), None
    given = path is None and not isinstance(inputs.options.penalty, str)
    return through_coreset(inputs, lambda small: search_here(small, path), opens=given)


def search_here(inputs: FitInput, path: Staircase | None) -> tuple[Clustering, float]:
    """`search_table` for rows in memory."""
    options, table = inputs.options, inputs.table()
    n, common = table.used.size, options.for_search()
    if path is None and options.penalty != "farthest-first":
        penalty = options.penalty
        found, history = search(table.space(per_cluster(penalty, options.cap, n)), **common)
        return table.result(found, history, penalty), penalty
    number, first, centers = options.hint or 1, None, []
    if path is None:
        number = count_different(table.space(fixed(number, n)).X, number)
    else:
        number, first = path.best().number, path.best().price
        centers = table.shifted([path.centers_at(first)])
    cap = options.cap or n
    number = min(number, cap)
    found, history, penalty = search_number(
        table.space(fixed(number, n)), number, first, max_clusters=cap, centers=centers, **common
    )
    return table.result(found, history, penalty), penalty


def search_fixed(inputs: FitInput, k: int) -> tuple[Clustering, Core | None]:
    """The search for exactly k clusters, without a penalty."""

    def solve(inputs: FitInput) -> tuple[Clustering, float]:
        table = inputs.table()
        space = table.space(fixed(k, table.used.size))
        found, history = search(space, **inputs.options.for_search())
        return table.result(found, history, 0.0), 0.0

    if not inputs.large:
        return solve(inputs)[0], None
    result, _, core = through_coreset(inputs, solve)
    return result, core


def through_coreset(
    inputs: FitInput, solve: Solve, *, opens: bool = False
) -> tuple[Clustering, float, Core]:
    """Steps 1 to 5. With `opens`, steps 4 and 5 may change the number of clusters."""
    cap = inputs.options.cap
    found, penalty, size, cost = search_core(inputs, solve)  # 1., 2.

    partition, centers = Partition(inputs.rows, inputs.frame), found.centers
    partition.assign(centers)  # 3.
    error = cost / partition.sse - 1.0 if partition.sse > 0 else 0.0
    if opens:
        centers = merge(partition, centers, penalty, cap)  # 4.
        if len(centers) != found.k:
            partition = Partition(inputs.rows, inputs.frame)
    result = settle(partition, centers, penalty, cap, opens)  # 5.
    return result, penalty, Core(size, float(error))


def search_core(inputs: FitInput, solve: Solve) -> tuple[Clustering, float, int, float]:
    """Steps 1 and 2: the clustering of the coreset, its penalty, its rows and its squared error."""
    d, unit = inputs.rows.d, inputs.rows.unit
    m = int(np.clip(CORE_VALUES // d, *CORE_ROWS))
    most = max(m, DISK_VALUES // d)
    while True:
        core = inputs.core(m)
        frame = measure_to_fit(Rows(core.X, weight=core.weight))
        rows = Rows(core.X, unit=unit, weight=core.weight)
        found, penalty = solve(FitInput(rows, frame, inputs.options))
        if found.k * PER_CLUSTER <= m or m == most:
            break
        m = min(4 * m, most)
    partition = Partition(rows, frame)
    partition.assign(found.centers)
    return found, penalty, rows.n, partition.sse


def merge(partition: Partition, centers: np.ndarray, penalty: float, cap: int | None) -> np.ndarray:
    """4. The centres after all merges that lower the objective; unchanged if no merge does."""
    _, weights, count = partition.totals()
    now, weights = partition.means(centers)[count > 0], weights[count > 0]
    most = min(cap or len(now), len(now))
    group, k = patient(merge_below, now, weights, penalty * (1 - TOL), most, partition.unit)
    return centers if k == len(centers) else means(now, weights, group, k, partition.unit)[0]


def settle(
    partition: Partition, centers: np.ndarray, penalty: float, cap: int | None, opens: bool
) -> Clustering:
    """5. Passes over all rows; then number the clusters from the heaviest to the lightest."""
    history: list[float] = []
    n, stage = partition.rows.n, Stage("passes over all rows", PASSES)
    for n_iter in range(1, PASSES + 1):
        stage.at(n_iter)
        if opens:
            centers, _ = assign_or_open(partition, centers, penalty, cap or n + 1, n)
        else:
            partition.assign(centers)
        centers = partition.filled_means(centers)
        history.append(partition.sse + penalty * len(centers))
        if n_iter > 1 and history[-2] - history[-1] <= GAIN * history[-1]:
            break
    partition.assign(centers)
    rank = by_size(centers, partition.totals()[1])
    partition.relabel(np.argsort(rank))
    centers = centers[rank]
    inertia = partition.measure_sse(centers)
    history = never_rising([*history, inertia + penalty * len(centers)], passes=True)
    return Clustering(partition.labels, centers, history[-1], inertia, history, n_iter, True)
