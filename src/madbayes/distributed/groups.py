"""`HardHDP.fit` for Dask tables: KJ Algorithm 2, groups on the workers.

Groups are brought together once (rows that are sorted by group hardly move), and a share is a
number of whole groups. Step 4 is serial as printed: a row sees the clusters that rows before it
opened. Shares run it at the same time as if those before them opened nothing; the first that opened
something was right, and the shares behind it run again with its clusters (optimistic concurrency,
Pan et al. 2013). Step 5 is done here, on the local means. Sums of step 6 pass from share to share,
in the order of the rows, so the result is that of one machine to the bit.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._model.fitting import warn_if_unfinished
from madbayes._rows.checks import check_count
from madbayes._rows.rows import segments
from madbayes._rows.threads import workers
from madbayes.distributed import herd as on_herd
from madbayes.distributed.calibration import calibrate, count_labels
from madbayes.distributed.herd import Herd
from madbayes.distributed.input import spread_table
from madbayes.distributed.local import Share, weights_at
from madbayes.distributed.partition import measure_spread
from madbayes.distributed.table import SpreadTable
from madbayes.distributed.tasks import fetch, keep, same, task
from madbayes.groups.algorithm2 import Allotment, algorithm2
from madbayes.groups.grouped_rows import Groups, check_groups


def fit_hard_hdp(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
) -> Any:
    """`HardHDP.fit`."""
    options = model._check()
    penalties = (model.penalty_local, model.penalty_global)
    if model.algorithm != "paper" or any(isinstance(value, str) for value in penalties):
        raise ValueError(
            "HardHDP fits Dask tables with algorithm='paper' and penalties that are numbers "
            f"(algorithm={model.algorithm!r}, penalty_local={penalties[0]!r}, penalty_global="
            f"{penalties[1]!r} were given). Fit a sample of whole groups first: its penalty_local_ "
            "and penalty_global_ are on the right scale."
        )
    check_count("max_iter", model.max_iter)
    with workers(1):
        table = spread_table(model, X, sample_weight)
        if hasattr(groups, "compute"):
            groups = fetch([groups])[0]
        found = check_groups(groups, table.n)
        frame = measure_spread(table)
        herds, spans = gather_groups(table, found, frame.mean)
        state = SpreadAllotment(herds, spans, table.d)
        local, glob = float(penalties[0]), float(penalties[1])
        sharing = algorithm2(state, local, glob, options.max_iter)
        warn_if_unfinished(model, sharing.converged)
        centers = state.update_means()
        model.groups_ = found.names
        model._rows_of = state.usage((len(found.names), len(centers)))
        model.n_local_clusters_ = np.diff(model._rows_of.indptr)
        model.n_clusters_ = len(centers)
        model.penalty_local_, model.penalty_global_ = local, glob
        model.objective_history_ = np.array(sharing.history)
        model.objective_, model.inertia_ = sharing.history[-1], state.error(centers)
        model.n_iter_, model.converged_ = sharing.n_iter, sharing.converged
        model._store_centers(centers + frame.mean, table.dtype)
        labels = put_back(state.z, spans, found.order, table.spans)
        model.labels_ = table.labels(labels)
        numbered = state.numbered(model._rows_of)
        model.local_labels_ = table.labels(put_back(numbered, spans, found.order, table.spans))
    calibrate(model, table, labels, count_labels(table, labels, len(centers)))
    return model


# Rows to their groups, and labels back


def gather_groups(
    table: SpreadTable, groups: Groups, mean: np.ndarray
) -> tuple[list[Any], list[tuple[int, int]]]:
    """The herds, and the rows (by group) of each."""
    if table.weighted and any(fetch([task(has_zero, share) for share in table.shares])):
        raise ValueError(
            "sample_weight has zeros: leave these rows out of a Dask table for HardHDP."
        )
    ends = np.unique(
        [groups.start[np.searchsorted(groups.start, b)] for _, b in segments(table.n, 1)]
    )
    ends = ends[np.linspace(0, len(ends), len(table.spans) + 1).astype(int)[1:] - 1]
    spans = [(int(a), int(b)) for a, b in pairwise(np.unique([0, *ends]))]
    center, tasks = task(same, mean), []
    for a, b in spans:
        first, last = np.searchsorted(groups.start, [a, b])
        parts = taken(table.shares, table.spans, groups.order[a:b], rows_at)
        tasks.append(
            task(make_herd, center, groups.start[first : last + 1] - a, int(first), *parts)
        )
    return keep(tasks), spans


def taken(pieces: list[Any], spans: list[tuple[int, int]], index: np.ndarray, how: Any) -> list:
    """Tasks for the places `index` of pieces: values and where they belong."""
    at = np.searchsorted([b for _, b in spans], index, side="right")
    out = []
    for s in np.unique(at):
        where = np.flatnonzero(at == s)
        out.append(task(how, pieces[s], shorter(index[where] - spans[s][0]), shorter(where)))
    return out


def shorter(index: np.ndarray) -> Any:
    """A slice instead of an index, where it is one."""
    if index[-1] - index[0] + 1 == len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def rows_at(share: Share, index: Any, where: Any) -> tuple[Any, ...]:
    rows = share.rows[index]
    return rows, share.weight[index] if share.weight.shape[0] else np.ones(len(rows)), where


def make_herd(mean: np.ndarray, start: np.ndarray, first: int, *parts: tuple[Any, ...]) -> Herd:
    n, dtype = int(start[-1]), share_dtype(parts[0][0])
    X, w = np.empty((n, parts[0][0].shape[1]), dtype), np.empty(n)
    for rows, weight, where in parts:
        X[where] = rows.astype(np.float64) - mean
        w[where] = weight
    return Herd(X, w, start, first)


def share_dtype(rows: np.ndarray) -> np.dtype:
    return np.dtype(np.float32 if np.can_cast(rows.dtype, np.float32) else np.float64)


def put_back(
    pieces: list[Any],
    spans: list[tuple[int, int]],
    order: np.ndarray,
    wanted: list[tuple[int, int]],
) -> list[Any]:
    """What is known of rows by group, for the rows of each share."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return keep(
        [task(in_place, b - a, *taken(pieces, spans, back[a:b], values_at)) for a, b in wanted]
    )


def values_at(values: np.ndarray, index: Any, where: Any) -> tuple[Any, ...]:
    return values[index], where


def in_place(n: int, *parts: tuple[Any, ...]) -> np.ndarray:
    out = np.empty(n, np.int32)
    for values, where in parts:
        out[where] = values
    return out


def has_zero(share: Share) -> bool:
    return bool((weights_at(share, np.arange(len(share.rows))) == 0).any())


# Steps 4 to 6


class SpreadAllotment(Allotment):
    """Herds and their labels, under way."""

    z: Any  # tasks, one for each herd

    def __init__(self, herds: list[Any], spans: list[tuple[int, int]], d: int) -> None:
        self.herds, self.d = herds, d
        self.z = [np.zeros(b - a, np.int64) for a, b in spans]
        self._before: Any = self.z
        self._k, self._opens = 1, True

    def remember(self) -> None:
        self._before = list(self.z)

    def unchanged(self) -> bool:
        whole = zip(self.z, self._before, strict=True)
        return all(fetch([task(np.array_equal, *each) for each in whole]))

    def assign_rows(self, centers: np.ndarray, local: float, glob: float) -> np.ndarray:
        first, window = 0, 1 if self._opens else len(self.herds)
        self._opens = False
        while first < len(self.herds):
            last = min(len(self.herds), first + window)
            shared = task(same, centers)
            tried = keep(
                [
                    task(on_herd.try_rows, self.herds[s], self.z[s], shared, local, glob)
                    for s in range(first, last)
                ]
            )
            opened = fetch([task(on_herd.opened_by, each) for each in tried])
            right = next((s for s, new in enumerate(opened) if len(new)), len(opened) - 1)
            for s in range(right + 1):
                self.z[first + s] = task(on_herd.labels_after, tried[s])
            self.z[first : first + right + 1] = keep(self.z[first : first + right + 1])
            if len(opened[right]):
                centers, window, self._opens = np.vstack([centers, opened[right]]), 1, True
            else:
                window *= 2
            first += right + 1
        self._k = len(centers)
        return centers

    def local_clusters(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        whole = zip(self.herds, self.z, strict=True)
        self._local = keep([task(on_herd.find_local, *each, k) for each in whole])
        parts = fetch([task(on_herd.first_three, each) for each in self._local])
        M, A, label = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._sizes = [len(each[0]) for each in parts]
        return M, A, label

    def follow(self, label: np.ndarray) -> None:
        parts = np.split(label, np.cumsum(self._sizes)[:-1])
        whole = zip(self._local, parts, strict=True)
        self.z = keep([task(on_herd.follow, *each) for each in whole])
        self._k = int(label.max()) + 1

    def update_means(self) -> np.ndarray:
        sums: Any = (np.zeros((self._k, self.d)), np.zeros(self._k), np.zeros(self._k, np.int64))
        for herd, z in zip(self.herds, self.z, strict=True):
            sums = task(on_herd.add_herd, sums, herd, z)
        C, W, N = fetch([sums])[0]
        keep_ = N > 0
        if not keep_.all():
            new = np.cumsum(keep_) - 1
            self.z = keep([task(np.take, new, z) for z in self.z])
            self._k = int(keep_.sum())
        return C[keep_] / W[keep_, None]

    def error(self, centers: np.ndarray) -> float:
        """Σ w d²."""
        total: Any = 0.0
        shared = task(same, centers)
        for herd, z in zip(self.herds, self.z, strict=True):
            total = task(on_herd.add_error, total, herd, z, shared)
        return float(fetch([total])[0])

    def objective(self, centers: np.ndarray, local: float, glob: float) -> float:
        k = len(centers)
        whole = zip(self.herds, self.z, strict=True)
        n_local = sum(fetch([task(on_herd.count_local, *each, k) for each in whole]))
        return self.error(centers) + local * n_local + glob * k

    def usage(self, shape: tuple[int, int]) -> sp.csr_array:
        """How many rows of each group are in each cluster."""
        whole = zip(self.herds, self.z, strict=True)
        return sp.csr_array(
            sp.vstack(fetch([task(on_herd.used, *each, shape[1]) for each in whole]))
        )

    def numbered(self, rows_of: sp.csr_array) -> list[Any]:
        """Labels within groups."""
        whole, shared = zip(self.herds, self.z, strict=True), task(same, rows_of)
        return keep([task(on_herd.number, shared, *each) for each in whole])
