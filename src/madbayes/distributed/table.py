"""A Dask array or data frame as shares of rows on the workers.

The rows are cut into the segments of one machine (`_rows.rows.segments`), whatever the chunks
are, so that every sum is made of the same parts. A share is one or more segments: as many as fit
the number of workers, since every task costs the scheduler some time. Neighbouring chunks are
joined for that once, when a fit begins; shares stay on their workers from then on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from madbayes._rows.frame import NO_WEIGHT
from madbayes._rows.rows import (
    ARRANGE_AT_ONCE,
    restore,
    worth_arranging,
)
from madbayes.distributed import local
from madbayes.distributed.local import Share
from madbayes.distributed.tasks import Lost, fetch, keep, lost, remote, task

Cut = tuple[int, int]
SHARE_BYTES = 2**27  # of rows; a segment can be more


def overlaps(old: list[Cut], new: list[Cut]) -> list[list[tuple[int, int, int]]]:
    """For each new range its parts in old ones: (which, from, to), counted from their begin."""
    starts, ends = np.array(old).T
    out = []
    for a, b in new:
        first = int(np.searchsorted(ends, a, side="right"))
        last = int(np.searchsorted(starts, b, side="left"))
        out.append(
            [
                (s, int(max(a, starts[s]) - starts[s]), int(min(b, ends[s]) - starts[s]))
                for s in range(first, last)
                if starts[s] < ends[s]
            ]
        )
    return out


@dataclass(frozen=True)
class SpreadTable:
    """Rows in shares; `chunks` are the numbers of rows of each chunk of X."""

    shares: list[Any]  # tasks that give a `Share` each
    spans: list[Cut]  # the rows of each share
    cuts: list[Cut]  # the segments
    n: int
    d: int
    dtype: np.dtype  # of the rows as the kernels see them
    chunks: tuple[int, ...]
    weighted: bool = False
    unit: bool = False
    order: list[Any] | None = None  # of rows that `arranged` moved
    sparse = False
    sparsity = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    def numbers(self) -> list[list[int]]:
        """The numbers of the segments of each share."""
        ends = [b for _, b in self.cuts]
        edges = np.searchsorted(ends, [b for _, b in self.spans]) + 1
        return [list(range(a, b)) for a, b in pairwise([0, *edges.tolist()])]

    def local_cuts(self, at: int) -> list[Cut]:
        """The segments of a share, counted from its first row."""
        return local_cuts(self.cuts, self.spans[at])

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`function(share, *args)` of all shares, here."""
        return fetch([task(function, share, *args) for share in self.shares])

    def take(self, index: np.ndarray) -> np.ndarray:
        """Rows as a new float64 array."""
        return self._take(local.taken, index, np.empty((index.size, self.d)))

    def take_kept(self, index: np.ndarray) -> np.ndarray:
        """Rows in the type that they are kept in."""
        return self._take(local.kept, index, np.empty((index.size, self.d), self.dtype))

    def lazy(self, values: np.ndarray) -> Any:
        """What is known here of all rows, in the chunks of X."""
        return da.from_array(values, chunks=(self.chunks, *values.shape[1:]))

    def take_weights(self, index: np.ndarray) -> np.ndarray:
        if not self.weighted:
            return NO_WEIGHT
        return self._take(local.weights_at, index, np.empty(index.size))

    def _take(self, how: Callable[..., Any], index: np.ndarray, out: np.ndarray) -> np.ndarray:
        at = np.searchsorted([b for _, b in self.spans], index, side="right")
        places = {int(s): np.flatnonzero(at == s) for s in np.unique(at)}
        found = fetch(
            [task(how, self.shares[s], index[p] - self.spans[s][0]) for s, p in places.items()]
        )
        for p, values in zip(places.values(), found, strict=True):
            out[p] = values
        return out

    def everything(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows and weights; for tables that are small."""
        rows, weights = zip(*self.each(local.rows_of, 0, self.n), strict=True)
        return np.concatenate(rows), np.concatenate(weights)

    def labels(self, pieces: list[Any], dtype: Any = np.int32) -> Any:
        """A lazy array of what each share says of its rows, in the chunks of X."""
        parts = [
            da.from_delayed(each, (b - a,), dtype)
            for (a, b), each in zip(self.spans, pieces, strict=True)
        ]
        whole = da.concatenate(parts).rechunk((self.chunks,))
        return Labels(whole.dask, whole.name, whole.chunks, whole.dtype)

    def cut_at(self, cuts: list[Cut]) -> "SpreadTable":
        """The same rows in other segments."""
        if cuts == self.cuts:
            return self
        spans = bundle(cuts, len(self.spans))
        parts = overlaps(self.spans, spans)
        shares = [
            task(
                *(local.join_shares, local_cuts(cuts, span), self.unit),
                *(task(local.rows_of, self.shares[s], a, b) for s, a, b in each),
            )
            for span, each in zip(spans, parts, strict=True)
        ]
        return replace(self, shares=keep(shares), spans=spans, cuts=cuts)

    def change(self, function: Callable[..., Share], *args: list[Any], **new: Any) -> "SpreadTable":
        """The table of function(share, arg of the share, …)."""
        whole = zip(self.shares, *args, strict=True)
        shares = [task(function, *each) for each in whole]
        return replace(self, shares=keep(shares) if remote() else shares, **new)

    # Rows near each other put next to each other, as `_rows.rows.arrange` does

    def arranged(self) -> "SpreadTable":
        """In an order in which neighbours are close together, where that pays."""
        if not worth_arranging(self.n, self.d):
            return self
        if self.n > ARRANGE_AT_ONCE:
            order = keep([task(local.order_within, share) for share in self.shares])
            return self.change(local.in_order, order, order=order)
        parts = [task(local.rows_of, share, 0, self.n) for share in self.shares]
        together = task(local.join_shares, self.cuts, self.unit, *parts)  # few columns: it fits
        together, whole = keep([together, task(local.order_of, together)])
        shares = [
            task(local.picked, together, whole, a, b, self.local_cuts(at))
            for at, (a, b) in enumerate(self.spans)
        ]
        return replace(self, shares=keep(shares), order=[whole])

    def restored(self, pieces: list[Any]) -> list[Any]:
        """What each share says of its rows, in the order of X."""
        if self.order is None:
            return pieces
        if self.n > ARRANGE_AT_ONCE:
            return [task(restore, p, o) for p, o in zip(pieces, self.order, strict=True)]
        whole = keep([task(restore, task(join, *pieces), self.order[0])])[0]
        return [task(part, whole, a, b) for a, b in self.spans]


class Labels(da.Array):
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
    """Neighbouring segments together, as few as give so many shares."""
    groups = np.array_split(np.arange(len(cuts)), max(1, min(count, len(cuts))))
    return [(cuts[group[0]][0], cuts[group[-1]][1]) for group in groups]


def local_cuts(cuts: list[Cut], span: Cut) -> list[Cut]:
    a, b = span
    return [(first - a, last - a) for first, last in cuts if a <= first and last <= b]


def join(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts)


def part(whole: np.ndarray, a: int, b: int) -> np.ndarray:
    return whole[a:b]
