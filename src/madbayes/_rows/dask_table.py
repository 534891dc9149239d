"""A Dask array or data frame as a table of shares that stay on the workers.

The rows are cut into the same segments as on one machine (`_rows.rows.segments`), whatever the
chunks are, so that every sum has the same parts. A share is one or more segments. The number of
shares depends on the number of workers, because every task costs the scheduler some time. When a
fit begins, neighbouring chunks are joined into shares; from then on the shares stay on the workers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np

from madbayes._rows.dask_executor import ON_WORKERS, Lost, fetch, keep, lost, remote, task
from madbayes._rows.rows import (
    ARRANGE_AT_ONCE,
    Cut,
    Rows,
    Share,
    overlaps,
    restore,
    spatial_order,
    worth_arranging,
)


@dataclass(frozen=True)
class DaskRows:
    """Rows in shares on the workers; `chunks` are the numbers of rows of the chunks of X."""

    shares: list[Any]  # tasks that give a `Share` each
    spans: list[Cut]  # the rows of each share
    cuts: list[Cut]  # the segments
    n: int
    d: int
    dtype: np.dtype  # of the rows as the kernels see them
    chunks: tuple[int, ...]
    weighted: bool = False
    unit: bool = False
    order: list[Any] | None = None  # the places in X of rows that `arranged` moved

    executor = ON_WORKERS
    in_memory = False
    sparse = False
    sparsity = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    def sizes(self) -> list[int]:
        """How many segments each share has."""
        ends = np.searchsorted([b for _, b in self.cuts], [b for _, b in self.spans]) + 1
        return np.diff(ends, prepend=0).tolist()

    def take(self, index: np.ndarray) -> np.ndarray:
        """Rows as a new float64 array."""
        return self._take(Share.take, index, np.empty((index.size, self.d)))

    def take_kept(self, index: np.ndarray) -> np.ndarray:
        """Rows in the type of the table, not scaled to length 1."""
        return self._take(kept, index, np.empty((index.size, self.d), self.dtype))

    def take_weights(self, index: np.ndarray) -> np.ndarray:
        if not self.weighted:
            return np.ones(index.size)
        return self._take(weights_at, index, np.empty(index.size))

    def _take(self, how: Callable[..., Any], index: np.ndarray, out: np.ndarray) -> np.ndarray:
        at = np.searchsorted([b for _, b in self.spans], index, side="right")
        places = {int(s): np.flatnonzero(at == s) for s in np.unique(at)}
        found = fetch(
            [task(how, self.shares[s], index[p] - self.spans[s][0]) for s, p in places.items()]
        )
        for p, values in zip(places.values(), found, strict=True):
            out[p] = values
        return out

    def here(self) -> Rows:
        """All rows, copied into this process; for small tables."""
        parts = fetch([task(rows_of, share, 0, self.n) for share in self.shares])
        X, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Rows(X, unit=self.unit, weight=weight if self.weighted else None)

    def some(self, index: np.ndarray) -> Rows:
        """The rows `index`, in this process."""
        weight = self.take_weights(index) if self.weighted else None
        return Rows(self.take(index), weight=weight)

    # Values of rows (labels, for example)

    def join(self, parts: list[Any]) -> list[Any]:
        """The values of each share, unchanged: they stay on the workers."""
        return parts

    def public(self, values: Any, dtype: Any = np.int32, *columns: int) -> Any:
        """The values of all rows as a lazy array, in the chunks of X."""
        if isinstance(values, np.ndarray):
            return da.from_array(values, chunks=(self.chunks, *values.shape[1:]))
        parts = [
            da.from_delayed(each, (b - a, *columns), dtype)
            for (a, b), each in zip(self.spans, values, strict=True)
        ]
        whole = da.concatenate(parts).rechunk((self.chunks, *((each,) for each in columns)))
        return OnWorkers(whole.dask, whole.name, whole.chunks, whole.dtype)

    # The same rows in other segments, or in another order

    def cut_at(self, cuts: list[Cut]) -> "DaskRows":
        """The same rows in other segments."""
        if cuts == self.cuts:
            return self
        spans = bundle(cuts, len(self.spans))
        shares = [
            task(
                *(join_shares, local_cuts(cuts, span), span[0], self.unit),
                *(task(rows_of, self.shares[s], a, b) for s, a, b in each),
            )
            for span, each in zip(spans, overlaps(self.spans, spans), strict=True)
        ]
        return replace(self, shares=keep(shares), spans=spans, cuts=cuts)

    def change(self, function: Callable[..., Share], *args: list[Any], **new: Any) -> "DaskRows":
        """The table whose shares are function(share, argument of this share, …)."""
        whole = zip(self.shares, *args, strict=True)
        shares = [task(function, *each) for each in whole]
        return replace(self, shares=keep(shares) if remote() else shares, **new)

    def shuffled(self, rng: np.random.RandomState) -> "DaskRows":
        raise ValueError(
            "order='random' would send every row to another worker. Shuffle the rows where they "
            "are stored, and keep order='given'."
        )

    def arranged(self, k: int = 2**31) -> "DaskRows":
        """In an order in which neighbours are close together, where that pays (`rows.arrange`)."""
        if not worth_arranging(self.n, self.d, k):
            return self
        if self.n > ARRANGE_AT_ONCE:
            order = keep([task(order_within, share) for share in self.shares])
            return self.change(in_order, order, order=order)
        parts = [task(rows_of, share, 0, self.n) for share in self.shares]
        together = task(join_shares, self.cuts, 0, self.unit, *parts)  # few columns: it fits
        together, whole = keep([together, task(order_within, task(as_one, together))])
        shares = [
            task(in_order, together, whole, a, b, local_cuts(self.cuts, (a, b)))
            for a, b in self.spans
        ]
        return replace(self, shares=keep(shares), order=[whole])

    def restored(self, values: list[Any]) -> list[Any]:
        """The values of the shares, in the order of the rows of X."""
        if self.order is None:
            return values
        if self.n > ARRANGE_AT_ONCE:
            pairs = zip(values, self.order, strict=True)
            return keep([task(restore, *each) for each in pairs])
        whole = keep([task(restore, task(np.concatenate, values), self.order[0])])[0]
        return keep([task(getitem, whole, slice(a, b)) for a, b in self.spans])


class OnWorkers(da.Array):
    """Labels that stay on the workers; without them, an error that says what to do."""

    __slots__ = ()

    def compute(self, **options: Any) -> Any:
        try:
            return super().compute(**options)
        except Exception as error:
            if not lost(error) and "missing dependency" not in str(error).lower():
                raise
            raise Lost(
                "the labels were on the workers of a Dask client that is closed or has lost them. "
                "Take them while that client is open, labels = model.labels_.compute(), or ask "
                "for them again: model.predict(X). "
                f"Dask says: {type(error).__name__}: {error}"
            ) from error


def bundle(cuts: list[Cut], count: int) -> list[Cut]:
    """Put neighbouring segments together, so that there are about `count` shares."""
    groups = np.array_split(np.arange(len(cuts)), max(1, min(count, len(cuts))))
    return [(cuts[group[0]][0], cuts[group[-1]][1]) for group in groups]


def local_cuts(cuts: list[Cut], span: Cut) -> list[Cut]:
    """The segments of a share, counted from its first row."""
    a, b = span
    return [(first - a, last - a) for first, last in cuts if a <= first and last <= b]


# What tasks do


def make_share(X: np.ndarray, weight: np.ndarray, cuts: list[Cut], start: int, unit: bool) -> Share:
    rows = Rows(np.ascontiguousarray(X), unit=unit, weight=weight if len(weight) else None)
    return Share(rows, cuts, start)


def kept(share: Share, at: np.ndarray) -> np.ndarray:
    """Some rows, not scaled to length 1."""
    return share.rows.X[at]


def weights_at(share: Share, at: np.ndarray) -> np.ndarray:
    return share.rows.take_weights(at)


def rows_of(share: Share, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
    return share.rows.X[a:b], share.rows.weight[a:b]


def join_shares(
    cuts: list[Cut], start: int, unit: bool, *parts: tuple[np.ndarray, np.ndarray]
) -> Share:
    whole = zip(*parts, strict=True)
    X, weights = (each[0] if len(each) == 1 else np.concatenate(each) for each in whole)
    return make_share(X, weights, cuts, start, unit)


def as_one(share: Share) -> Share:
    """The share as one segment."""
    return share._replace(cuts=[(share.first, share.last)])


def order_within(share: Share) -> np.ndarray:
    """The order of the rows when each segment is sorted on its own."""
    return np.concatenate([a + spatial_order(share.rows.X[a:b]) for a, b in share.cuts])


def in_order(
    share: Share,
    order: np.ndarray,
    a: int = 0,
    b: int | None = None,
    cuts: list[Cut] | None = None,
) -> Share:
    """A share of rows a to b, after the rows were sorted by `order`."""
    rows, some = share.rows, order[a:b]
    weight = rows.weight[some] if rows.weighted else rows.weight
    return make_share(rows.X[some], weight, cuts or share.cuts, share.start + a, rows.unit)
