"""From checked rows to clusters: by the search, in memory or through a coreset, or as printed.

Rows that stay on disk (memory maps, `madbayes.blocks`) are not copied when they are many:

1. A coreset of the rows (`coreset.py`), larger where there are many clusters.
2. The search on it, for a penalty or a number of clusters.
3. One pass over all rows: what the same centres cost there. The difference is `coreset_error_`.
4. At a penalty: clusters whose merge saves more than it costs, by the sums of all rows.
5. Passes over all rows (of Algorithm 1 at a penalty, of Lloyd for a number), until they gain less
   than a ten-thousandth.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes._model.fitting import Options
from madbayes._partition.moves import TOL, means
from madbayes._partition.partition import Partition
from madbayes._partition.ward import merge_below
from madbayes._rows.frame import Frame, measure_to_fit
from madbayes._rows.progress import Stage
from madbayes._rows.rows import DISK_VALUES, Rows, count_different, on_disk
from madbayes._rows.threads import Run, patient
from madbayes._search.driver import by_size, never_rising, search
from madbayes._search.number import printed_number, search_number
from madbayes._search.price import fixed, per_cluster
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.coreset import Coreset, coreset
from madbayes.kmeans.farthest import first_gap, largest_gap
from madbayes.kmeans.search_rows import DENSE_VALUES, Clustering, SpanTable, Table

CORE_VALUES, CORE_ROWS = 2**22, (2**14, 2**17)  # of a coreset, at first
WIDE = 2  # columns for each row of a CSR matrix from which fewer coordinates are worth their time
PER_CLUSTER = 64  # rows of it for each cluster, or it is drawn again, larger
MUCH = 0.1  # an error of a coreset that is worth a warning
GAIN = 1e-4  # a pass that gains less is the last …
PASSES = 30  # … and so is this one

Solve = Callable[["Problem"], tuple[Clustering, float]]
Pass = Callable[[Partition, np.ndarray, float, int | None], np.ndarray]


@dataclass(frozen=True)
class Problem:
    """Checked rows and parameters."""

    X: Any
    weight: np.ndarray | None
    frame: Frame
    options: Options
    run: Run
    unit: bool = False

    @property
    def large(self) -> bool:
        """Too large for a copy."""
        n, d = self.X.shape
        return n * d > DISK_VALUES and on_disk(self.X)

    @property
    def source(self) -> Any:
        """The rows in blocks."""
        return Rows(self.X, unit=self.unit)

    def core(self, m: int) -> Coreset:
        """1. A coreset of at most m rows."""
        rng, run = self.options.random_state, self.run
        return coreset(self.source, self.weight, self.frame.mean, m, rng, run)

    def start(self) -> Partition:
        """All rows, not assigned yet."""
        return Partition(self.source, self.weight, self.run, self.frame, unit=self.unit)

    def table(self) -> Table:
        """The rows for the search; a small CSR matrix is made dense, or turned if it is wide."""
        X, table = self.X, Table
        if sp.issparse(X) and X.shape[0] * X.shape[1] <= DENSE_VALUES:
            if X.shape[1] > WIDE * X.shape[0]:
                table = SpanTable
            else:
                X = X.toarray()
        return table.arranged(X, self.weight, self.run, self.frame, unit=self.unit)


class Core(NamedTuple):
    """How far a coreset was from all rows."""

    size: int
    error: float  # relative, of the squared error of the centres that were found on it


def keep_core(model: Any, core: Core | None, n: int) -> tuple[str, ...]:
    """What a model says about the coreset that it went through."""
    if core is None:
        return ()
    model.coreset_size_, model.coreset_error_ = core
    if abs(core.error) > MUCH:
        warnings.warn(
            f"the search saw a coreset of {core.size:,} of {n:,} rows, on which the squared error "
            f"is {core.error:+.0%} off: the clusters are so small that hardly any of their rows "
            "are in it. Use a larger penalty or fewer clusters, or load the rows: np.array(X).",
            stacklevel=4,
        )
    return (
        f"Searched on a coreset of {core.size:,} of {n:,} rows, then settled on all of them; the "
        f"squared error on the coreset was off by {core.error:+.1%}",
    )


def search_table(
    rows: Problem, path: Staircase | None, one_pass: Pass
) -> tuple[Clustering, float, Core | None]:
    """The search, at a penalty or for the number of clusters that was chosen."""
    if not rows.large:
        return *search_rows(rows, path), None
    given = path is None and not isinstance(rows.options.penalty, str)
    return through_coreset(
        rows, lambda small: search_rows(small, path), one_pass if given else None
    )


def search_rows(rows: Problem, path: Staircase | None) -> tuple[Clustering, float]:
    """The same in memory."""
    options, table = rows.options, rows.table()
    common = options.for_search(rows.run)
    space = table.space(per_cluster(1.0, options.cap, table.used.size))
    if path is not None or options.penalty == "farthest-first":
        number, first, centers = count_different(space.X, options.hint or 1), None, []
        if path is not None:
            number, first = path.best().number, path.best().price
            centers = table.shifted([path.centers_at(first)])
        cap = options.cap or table.used.size
        found, history, penalty = search_number(
            space, min(number, cap), first, max_clusters=cap, centers=centers, **common
        )
    else:
        penalty = options.penalty
        space = replace(space, price=replace(space.price, penalty=penalty))
        found, history = search(space, **common)
    return table.result(found, history, penalty), penalty


def search_fixed(rows: Problem, k: int) -> tuple[Clustering, Core | None]:
    """The search for exactly k clusters, which cost nothing."""

    def solve(rows: Problem) -> tuple[Clustering, float]:
        table = rows.table()
        space = table.space(fixed(k, table.used.size))
        found, history = search(space, **rows.options.for_search(rows.run))
        return table.result(found, history, 0.0), 0.0

    if not rows.large:
        return solve(rows)[0], None
    result, _, core = through_coreset(rows, solve)
    return result, core


def printed_rows(
    rows: Problem,
    path: Staircase | None,
    source: Rows,
    weight: np.ndarray | None,
    solve: Callable[[float], Clustering],
    known: dict[float, int],
) -> tuple[Clustering, float]:
    """A printed algorithm, at a penalty or at one that gives the number that was chosen.

    `source` and `weight`: the rows in the order in which they are visited. `known`: how many
    clusters were found at which penalty, before a fit was interrupted.
    """
    penalty, args = rows.options.penalty, (source, weight)
    if path is not None:
        number = path.best().number
        first = first_gap(*args, number, rows.run, unit=rows.unit)
        penalty, result = printed_number(solve, lambda found: found.k, number, first, known)
        return result, penalty
    if penalty == "farthest-first":
        penalty = largest_gap(*args, rows.options.hint or 1, rows.run, unit=rows.unit)
    return solve(penalty), penalty


def through_coreset(
    rows: Problem, solve: Solve, one_pass: Pass | None = None
) -> tuple[Clustering, float, Core]:
    """1. to 5.; `one_pass` is that of the algorithm at a penalty (None: the number stays)."""
    options = rows.options
    found, penalty, size, cost = search_core(rows, solve)  # 1., 2.

    partition, centers = rows.start(), found.centers
    partition.assign(centers)  # 3.
    error = cost / partition.sse - 1.0 if partition.sse > 0 else 0.0
    if one_pass is not None:
        centers = merge(partition, centers, penalty, options.cap)  # 4.
        partition = partition if len(centers) == found.k else rows.start()
    result = settle(partition, centers, penalty, options.cap, one_pass or lloyd_pass)  # 5.
    return result, penalty, Core(size, float(error))


def search_core(rows: Problem, solve: Solve) -> tuple[Clustering, float, int, float]:
    """1. and 2.: what was found and its penalty; how many rows it had, and its squared error."""
    d = rows.X.shape[1]
    m = int(np.clip(CORE_VALUES // d, *CORE_ROWS))
    most = max(m, DISK_VALUES // d)
    while True:
        core = rows.core(m)
        frame = measure_to_fit(Rows(core.X), core.weight, rows.run)
        small = Problem(core.X, core.weight, frame, rows.options, rows.run, rows.unit)
        found, penalty = solve(small)
        if found.k * PER_CLUSTER <= m or m == most:
            break
        m = min(4 * m, most)
    partition = small.start()
    partition.assign(found.centers)
    return found, penalty, len(core.rows), partition.sse


def merge(partition: Partition, centers: np.ndarray, penalty: float, cap: int | None) -> np.ndarray:
    """4. The centres of what is left after all merges that pay; as they are if none does."""
    _, weights, count = partition.totals()
    now, weights = partition.means(centers)[count > 0], weights[count > 0]
    most = min(cap or len(now), len(now))
    group, k = patient(merge_below, now, weights, penalty * (1 - TOL), most, partition.unit)
    return centers if k == len(centers) else means(now, weights, group, k, partition.unit)[0]


def lloyd_pass(
    partition: Partition, centers: np.ndarray, penalty: float, cap: int | None
) -> np.ndarray:
    """5. For a number: nearest centres, then means; a cluster without rows goes."""
    partition.assign(centers)
    return partition.filled_means(centers)


def settle(
    partition: Partition, centers: np.ndarray, penalty: float, cap: int | None, one_pass: Pass
) -> Clustering:
    """5. Passes while they gain something; clusters from the heaviest to the lightest."""
    history: list[float] = []
    stage = Stage("passes over all rows", PASSES)
    for n_iter in range(1, PASSES + 1):
        stage.at(n_iter)
        centers = one_pass(partition, centers, penalty, cap)
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
