"""`KMeans.fit` and `DPMeans.fit` for Dask tables: the loops of `cluster`, the rows elsewhere.

"paper" runs the printed loop over a `SpreadPartition`, so the result is that of one machine to the
bit. "search" goes through a coreset as for rows on disk (`cluster.solve`), and "auto" asks evenly
spaced rows how many clusters there are; a table that is small enough is brought here for both, and
then the result is that of one machine again.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from madbayes._model.checkpoint import Passes, checkpoint_of
from madbayes._model.fitting import begin, keep_choice, warn_if_unfinished
from madbayes._partition.partition import Partition
from madbayes._partition.seeding import squared_distances
from madbayes._rows.threads import workers
from madbayes._search.number import printed_number
from madbayes.distributed import local
from madbayes.distributed.calibration import calibrate, count_labels
from madbayes.distributed.directions import weight_directions
from madbayes.distributed.input import spread_table
from madbayes.distributed.local import Share
from madbayes.distributed.partition import SpreadPartition, measure_spread
from madbayes.distributed.table import SpreadTable
from madbayes.distributed.tasks import fetch, keep, task
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.coreset import Coreset, edges, places
from madbayes.kmeans.dp_means import dp_means, one_pass
from madbayes.kmeans.farthest import last_gap
from madbayes.kmeans.kmeans import best_start
from madbayes.kmeans.search_rows import Clustering
from madbayes.kmeans.solve import DISK_VALUES, Problem, keep_core, search_fixed, search_table
from madbayes.kmeans.starts import count_starts

PATH_ROWS = 2**16  # rows that are asked how many clusters there are


def fit_kmeans(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`KMeans.fit`."""
    with workers(1) as run:
        table = prepared(model, X, sample_weight)
        k, options = model._check(table.n)
        if model.algorithm == "search":
            rows = SpreadProblem(table, None, measure_spread(table), options, run, table.unit)
            checkpoint_of(model, rows)  # complains if there is one
            if not rows.large:
                return fit_here(model, table)
            best, core = search_fixed(rows, k)
            keep_core(model, core, table.n)
            labels = keep(list(best.labels))
        else:
            arranged = table.arranged()
            best = restart(model, X, arranged, k, options, run)
            labels = keep(arranged.restored(list(best.labels)))
        seen = count_labels(table, labels, k)
        if not seen.any.all():  # clusters without a row
            place = np.cumsum(seen.any, dtype=np.int32) - np.int32(1)
            best = replace(best, centers=best.centers[seen.any])
            labels = keep([task(np.take, place, piece) for piece in labels])
            seen = count_labels(table, labels, best.k)
        model._store(replace(best, labels=table.labels(labels)), k, table.dtype)
    calibrate(model, table, labels, seen)
    return model


def restart(model: Any, X: Any, table: SpreadTable, k: int, options: Any, run: Any) -> Clustering:
    """`KMeans._restart`."""
    frame = measure_spread(table)
    rows = SpreadProblem(table, None, frame, options, run, table.unit)
    file, options = checkpoint_of(model, rows)
    starts = count_starts(model.init, model.n_init)
    if file is not None and starts > 1:
        raise ValueError(
            f"checkpoint={model.checkpoint!r} keeps one start of a Dask table, and n_init asks for "
            f"{starts}. Use n_init=1."
        )
    return best_start(model, X, k, options, file, lambda: SpreadPartition(table, frame))


def fit_dp_means(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`DPMeans.fit`."""
    if model.order == "random":
        raise ValueError(
            "order='random' would send every row to another worker. Shuffle the rows where they "
            "are stored, and keep order='given'."
        )
    path = None
    with workers(1) as run:
        table = prepared(model, X, sample_weight)
        options = begin(model, "auto", "farthest-first")
        rows = SpreadProblem(table, None, measure_spread(table), options, run, table.unit)
        file, options = checkpoint_of(model, rows)
        rows = replace(rows, options=options)
        if model.algorithm == "search" and not rows.large:
            return fit_here(model, table)
        if options.penalty == "auto":
            path = rows.path()
        if model.algorithm == "search":
            result, penalty, core = search_table(rows, path, one_pass)
        else:
            result, penalty, core = *printed(rows, path, file), None
        remarks = keep_core(model, core, table.n)
        warn_if_unfinished(model, result.converged)
        if path is not None:
            keep_choice(model, path, result.k, penalty, remarks)
        labels = keep(list(result.labels))
        model._store_result(replace(result, labels=table.labels(labels)), penalty, table.dtype)
    calibrate(model, table, labels, count_labels(table, labels, result.k))
    if file is not None:
        file.remove()
    return model


def prepared(model: Any, X: Any, sample_weight: Any) -> SpreadTable:
    """The table; for metric="cosine" with rows of length 1 and without zeros."""
    table = spread_table(model, X, sample_weight)
    return weight_directions(table) if model._unit else table


def fit_here(model: Any, table: SpreadTable) -> Any:
    """A small table is brought to this process."""
    X, weight = table.everything()
    known = {k: v for k, v in vars(model).items() if k == "feature_names_in_"}
    model.fit(X, sample_weight=weight if table.weighted else None)
    vars(model).update(known)
    model.labels_ = table.lazy(model.labels_)
    return model


@dataclass(frozen=True)
class SpreadProblem(Problem):
    """Rows on the workers and checked parameters."""

    X: SpreadTable

    @property
    def large(self) -> bool:
        return self.X.n * self.X.d > DISK_VALUES

    @property
    def source(self) -> SpreadTable:
        return self.X

    def start(self) -> Partition:
        return SpreadPartition(self.X, self.frame)

    def core(self, m: int) -> Coreset:
        """`cluster.coreset.coreset`: masses of blocks come here, drawn rows follow."""
        table, mean = self.X, self.frame.mean
        masses = table.each(local.masses, mean)
        sizes = [len(each) for each in masses]
        whole = np.vstack(masses)
        ends, drawn = edges(whole), places(m, self.options.random_state)
        first = np.cumsum([0, *sizes])
        spans = [ends[a : a + size + 1] for a, size in zip(first, sizes, strict=False)]
        hit = [s for s, span in enumerate(spans) if ((drawn >= span[0]) & (drawn < span[-1])).any()]
        args = (mean, whole.sum(axis=0))
        parts = fetch(
            [
                task(local.picks, table.shares[s], *args, spans[s], inside(drawn, spans[s]), m)
                for s in hit
            ]
        )
        rows, X, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        starts = np.repeat([table.spans[s][0] for s in hit], [len(part[0]) for part in parts])
        return Coreset(rows + starts, X, weight)

    def path(self) -> Staircase:
        """How many clusters there are, from all rows if they are few."""
        table, options = self.X, self.options
        if not self.large:
            X, weight = table.everything()
        else:
            rows = np.unique(np.linspace(0, table.n - 1, PATH_ROWS).astype(np.int64))
            X, weight = table.take_kept(rows), table.take_weights(rows)
        w: Any = weight if table.weighted else None
        if self.large:  # they stand for all
            w = np.ones(len(X)) if w is None else w
            w = w * (self.frame.total_weight / w.sum())
        limits = (options.cap, options.hint, options.random_state)
        return find_path(X, w, *limits, self.run, unit=self.unit)


def inside(drawn: np.ndarray, span: np.ndarray) -> np.ndarray:
    return drawn[np.searchsorted(drawn, span[0]) : np.searchsorted(drawn, span[-1])]


def printed(rows: SpreadProblem, path: Staircase | None, file: Any) -> tuple[Clustering, float]:
    """`DPMeans._print`."""
    options, table, mean = rows.options, rows.X, rows.frame.mean
    known = {} if file is None or file.past is None else dict(file.past["known"])

    def solve(penalty: float) -> Clustering:
        limits: Any = {"max_clusters": options.cap, "max_iter": options.max_iter}
        return dp_means(rows.start(), penalty, **limits, passes=Passes(file, known=dict(known)))

    penalty = options.penalty
    if path is not None:
        number = path.best().number
        first = first_spread_gap(table, mean, number)
        penalty, result = printed_number(solve, lambda found: found.k, number, first, known)
        return result, penalty
    if penalty == "farthest-first":
        penalty = spread_gap(table, mean, options.hint or 1)
    return solve(penalty), penalty


# KJ 6.1


def spread_gap(table: SpreadTable, mean: np.ndarray, k: int) -> float:
    """`cluster.farthest.largest_gap`."""
    if table.unit and mean.any():
        mean = mean / np.linalg.norm(mean)
    closest: list[Any] = [None] * len(table.shares)

    def farthest_from(member: np.ndarray) -> tuple[int, float]:
        whole = zip(table.shares, closest, strict=True)
        closest[:] = keep([task(nearer, *each, member) for each in whole])
        tops = fetch([task(top, each) for each in closest])
        s = int(np.argmax([value for _, value in tops]))
        return table.spans[s][0] + tops[s][0], tops[s][1]

    return last_gap(mean, k, farthest_from, table.take)


def first_spread_gap(table: SpreadTable, mean: np.ndarray, n_clusters: int) -> float:
    """The same where there may be fewer different rows; never 0."""
    for k in range(n_clusters, 0, -1):
        try:
            return spread_gap(table, mean, k)
        except ValueError:  # fewer different rows
            continue
    return 1.0


def nearer(share: Share, closest: Any, member: np.ndarray) -> np.ndarray:
    """The squared distance of each row to the nearest member."""
    d2 = squared_distances(share.source, 0, len(share.rows), member)[0]
    d2 = d2 if closest is None else np.minimum(d2, closest)
    return np.where(share.weight == 0, 0.0, d2) if share.weight.shape[0] else d2


def top(closest: np.ndarray) -> tuple[int, float]:
    row = int(np.argmax(closest))
    return row, float(closest[row])
