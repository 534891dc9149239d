"""`KFeatures.fit` and `BPMeans.fit` for Dask tables: the printed algorithms, rows on the workers.

Z and the errors stay with the rows; A goes out, and of every segment ZᵀWZ and ZᵀW(X - ZA) come back
and are added in order, as on one machine. Rows of BP-means that open features are handled as in
`groups`: shares run as if those before them opened nothing, and run again behind one that did.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from sklearn.utils import check_random_state

from madbayes._rows.checks import check_count, check_penalty
from madbayes._rows.frame import NO_WEIGHT
from madbayes._rows.rows import segments
from madbayes._rows.threads import serial, workers
from madbayes.distributed import held as on_share
from madbayes.distributed.input import spread_table
from madbayes.distributed.local import Share
from madbayes.distributed.table import SpreadTable
from madbayes.distributed.tasks import fetch, keep, same, task
from madbayes.features.allocation import Allocation
from madbayes.features.bounds import UNBOUND, Bounds
from madbayes.features.bp_means import BPMeans
from madbayes.features.kfeatures import KFeatures
from madbayes.features.solve import Features, Method
from madbayes.features.table import WIDE_ROWS, check_largest


def fit_k_features(model: KFeatures, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`KFeatures.fit`."""
    k = check_count("n_components", model.n_components)
    with workers(1):
        table = spread_table(model, X, sample_weight)
        given = model._given(table, k)
        method = model._method(table.shape, given)
        if method.settle is not None:
            raise ValueError(
                "KFeatures fits Dask tables as printed: use assignment='coordinate', or "
                "assignment='exact' with effort=0.001, which leaves out the exchanges of features."
            )
        return solve(model, table, method, 0.0, k)


def fit_bp_means(model: BPMeans, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`BPMeans.fit`."""
    penalty = check_penalty(model.penalty, "auto", of="feature")
    if not isinstance(model, BPMeans) or model.algorithm != "paper" or penalty == "auto":
        raise ValueError(
            f"{type(model).__name__} does not fit Dask tables so: use BPMeans with "
            "algorithm='paper' and a penalty that is a number. The penalty_ of a sample is on the "
            "scale of its rows: multiply it by the number of rows that each stands for."
        )
    for name in ("evidence_", "path_"):
        model.__dict__.pop(name, None)
    with workers(1):
        table = spread_table(model, X, sample_weight)
        cap = table.n
        if model.max_components is not None:
            cap = min(cap, check_count("max_components", model.max_components))
        model.penalty_ = float(penalty)
        return solve(model, table, model._method(table.shape), penalty, cap)


def solve(model: Any, table: SpreadTable, method: Method, penalty: float, cap: int) -> Any:
    """`features.solve.best_start` with all rows."""
    rng = check_random_state(model.random_state)
    table, unit = scaled(table)
    seeds = rng.randint(2**31 - 1, size=method.n_init + 1)
    best: Any = None
    for seed in seeds[:-1]:
        state = SpreadAllocation(table)
        start = np.random.RandomState(seed)
        result = method.start(state, start, penalty / unit, cap, False)
        best = result if best is None or result.objective < best.objective else best
    K = best.components.shape[0]
    order = np.arange(K)
    if method.sorts:
        whole = zip(table.shares, best.assignments, strict=True)
        counts = fetch([task(on_share.column_sums, *each) for each in whole])
        order = np.argsort(-np.sum(counts, axis=0), kind="stable")
    more = (cap if isinstance(model, KFeatures) else K) - K
    parts = keep([task(on_share.columns, held, order, more) for held in best.assignments])
    Z = lazy_columns(table, parts, K + more)
    components = np.pad(best.components[order], ((0, more), (0, 0)))
    found = Features(Z, components, best.objective, best.history, best.n_iter, best.converged)
    model._store(found, Kept(np.empty(0, table.dtype), unit))
    return model


class Kept(NamedTuple):
    """What `_store` asks of a table."""

    X: np.ndarray
    unit: float


def scaled(table: SpreadTable) -> tuple[SpreadTable, float]:
    """`features.table.check_table_to_fit`: weights in a unit of their own."""
    if table.d > 2 * table.n and table.n <= WIDE_ROWS:
        raise ValueError(
            f"X.shape={table.shape} is a small table: X.compute() brings it to this process."
        )
    unit = 1.0
    if table.weighted:
        ranges = np.array(table.each(low_and_high))
        if ranges[:, 0].min() == 0:
            raise ValueError(
                "sample_weight has zeros: leave these rows out of a Dask table for features."
            )
        unit = float(2.0 ** np.floor(np.log2(ranges[:, 1].max())))
        table = table.change(in_units, [unit] * len(table.shares))
    check_largest(max(table.each(largest)), float(table.n * table.d), unit)
    return table.cut_at(segments(table.n, 16)), unit


def low_and_high(share: Share) -> tuple[float, float]:
    return float(share.weight.min()), float(share.weight.max())


def in_units(share: Share, unit: float) -> Share:
    return share._replace(weight=share.weight / unit)


def largest(share: Share) -> float:
    blocks = (block for *_, block in share.source.blocks(0, len(share.rows)))
    return max((float(np.abs(block).max(initial=0)) for block in blocks), default=0.0)


def lazy_columns(table: SpreadTable, parts: list[Any], K: int) -> Any:
    arrays = [
        da.from_delayed(part, (b - a, K), np.uint8)
        for (a, b), part in zip(table.spans, parts, strict=True)
    ]
    return da.concatenate(arrays).rechunk((table.chunks, (K,)))


# The steps of an allocation


class SpreadAllocation(Allocation):
    """The rows of a table on the workers, allocated to no feature at first."""

    Z: Any  # tasks that give `Held`, one for each share

    def __init__(self, table: SpreadTable) -> None:
        self.source, self.run, self.cuts = table, serial, table.cuts  # type: ignore[assignment]
        self.weight, self.n, self.d = NO_WEIGHT, table.n, table.d
        self.A = np.zeros((0, table.d))
        self.rss, self.S, self._T = np.inf, np.zeros((0, 0)), np.zeros((0, table.d))
        self.Z = keep([task(on_share.nothing, share) for share in table.shares])
        self._opens = True
        self.measure()

    def save(self) -> tuple:
        return list(self.Z), self.A.copy(), self.S.copy(), None, self.rss

    def restore(self, saved: tuple) -> None:
        self.Z, self.A, self.S, _, self.rss = saved
        self._T = np.zeros_like(self.A)

    def put(self, Z: Any, A: np.ndarray) -> None:
        """Features that no row has yet."""
        self.A = np.array(A, dtype=np.float64, order="C")
        self.Z = keep([task(on_share.nothing, share, len(A)) for share in self.source.shares])  # type: ignore
        self.measure()

    def _map(self, how: int, bounds: Bounds = UNBOUND) -> list[Any]:
        A = task(same, self.A)
        whole = zip(self.source.shares, self.Z, strict=True)  # type: ignore[attr-defined]
        passed = keep([task(on_share.one_pass, *each, A, how) for each in whole])
        self.Z = keep([task(on_share.first_of, each) for each in passed])
        return [
            part
            for parts in fetch([task(on_share.second_of, each) for each in passed])
            for part in parts
        ]

    def _keep_columns(self, keep_: np.ndarray) -> None:
        order = np.flatnonzero(keep_)
        self.Z = keep([task(on_share.with_columns, held, order) for held in self.Z])

    def everybody(self) -> Any:
        return [task(on_share.ones, held) for held in self.Z]

    def nearer(self, a: np.ndarray) -> Any:
        A, seed = task(same, self.A), task(same, a)
        whole = zip(self.source.shares, self.Z, strict=True)  # type: ignore[attr-defined]
        return [task(on_share.nearer_to, *each, A, seed) for each in whole]

    def add(self, z: Any, a: np.ndarray) -> None:
        self.Z = keep([task(on_share.with_more, *each) for each in zip(self.Z, z, strict=True)])
        self.A = np.vstack([self.A, a])

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        spans = self.source.spans  # type: ignore[attr-defined]
        out = []
        for row in rows:
            s = next(s for s, (a, b) in enumerate(spans) if a <= row < b)
            out.append(task(on_share.z_of, self.Z[s], int(row - spans[s][0])))
        return self.source.take(rows) - np.array(fetch(out), dtype=np.float64) @ self.A

    def draw(self, rng: np.random.RandomState, count: int) -> np.ndarray:
        """The sums pass from share to share, in the order of the rows."""
        totals: list[Any] = [0.0]
        for share, held in zip(self.source.shares, self.Z, strict=True):  # type: ignore
            totals.append(task(on_share.add_errors, totals[-1], share, held))
        reached = np.array([0.0, *fetch(totals[1:])])
        if not reached[-1] > 0:
            return np.zeros(0, dtype=np.intp)
        found = []
        for at in rng.random_sample(count) * reached[-1]:
            s = min(int(np.searchsorted(reached[1:], at, side="right")), len(self.Z) - 1)
            share, start = self.source.shares[s], self.source.spans[s][0]  # type: ignore
            found.append(
                start + fetch([task(on_share.place_of, reached[s], share, self.Z[s], at)])[0]
            )
        return np.minimum(found, self.n - 1)

    def in_turn(self, rows_in_turn: Callable[..., int], penalty: float, cap: int) -> int:
        """Shares at the same time, as if those before them opened nothing."""
        shares, first, changed = self.source.shares, 0, 0  # type: ignore[attr-defined]
        window = 1 if self._opens else len(shares)
        self._opens = False
        while first < len(shares):
            last, A = min(len(shares), first + window), task(same, self.A)
            tried = keep(
                [
                    task(on_share.try_rows, shares[s], self.Z[s], A, rows_in_turn, penalty, cap)
                    for s in range(first, last)
                ]
            )
            seen = fetch([task(on_share.second_of, each) for each in tried])
            right = next((s for s, (new, _) in enumerate(seen) if len(new)), len(seen) - 1)
            self.Z[first : first + right + 1] = keep(
                [task(on_share.first_of, each) for each in tried[: right + 1]]
            )
            changed += sum(flips for _, flips in seen[: right + 1])
            first, new = first + right + 1, seen[right][0]
            window = 1 if len(new) else 2 * window
            if len(new):
                self._opens, self.A = True, np.vstack([self.A, new])
                others = [s for s in range(len(shares)) if s != first - 1]
                wider = keep([task(on_share.padded, self.Z[s], len(self.A)) for s in others])
                for s, held in zip(others, wider, strict=True):
                    self.Z[s] = held
        return changed
