"""Lloyd's passes and nearest centres on an array, as a step of other algorithms.

`lloyd` picks its kernel by the size of the problem:

- few products of rows, centres and columns: all distances, column by column (`lloyd_kernels.py`);
- few rows of many columns: matrix products of BLAS, with certainty (`nearest_plain.py`);
- anything else: a `Partition`, whose bounds save most distances.

`LloydRows` is for rows that are asked again and again: what is found out about them is kept.
"""

from functools import cached_property
from typing import Any

import numpy as np

from madbayes._partition.lloyd_kernels import PLAIN, lloyd_by_columns
from madbayes._partition.moves import means
from madbayes._partition.nearest_plain import close_gaps, nearest_by_products
from madbayes._partition.partition import FEW_ROWS, Partition
from madbayes._partition.segment import State
from madbayes._rows.frame import Frame, frame_of, measure
from madbayes._rows.row_kernels import squared_error
from madbayes._rows.rows import Rows, Share
from madbayes._rows.threads import together

Found = tuple[np.ndarray, np.ndarray, float]  # labels, centres, squared error


def nearest(
    X: Any, centers: np.ndarray, *, unit: bool = False, frame: Frame | None = None
) -> np.ndarray:
    """The nearest centre of each row (`unit`: of its direction); `frame` if it is known."""
    source, centers = Rows(X, unit=unit), np.asarray(centers, dtype=np.float64)
    frame = frame or frame_of(centers, source)
    partition = Partition(source, frame, once=True, errors=False)
    partition.assign(centers)
    return partition.labels


def lloyd(
    X: Any,
    centers: np.ndarray,
    weight: np.ndarray,
    passes: int,
    *,
    unit: bool = False,
    frame: Frame | None = None,
) -> Found:
    """At most so many passes; clusters without rows are dropped. With `unit` rows have length 1."""
    rows = LloydRows(X, weight, unit)
    if frame is not None:
        rows.frame = frame  # of these rows, or of more
    return rows.lloyd(centers, passes)


def follow(
    partition: Partition, centers: np.ndarray, passes: int, gain: float = 0.0, ahead: bool = False
) -> np.ndarray:
    """Lloyd's passes on a partition, from these centres; those of the last pass.

    With `ahead` a centre does not stop at the mean of its rows but goes on the way it came, the
    farther the longer that has gone well (Nesterov 1983); where the error rises, or no row moves,
    it goes on from the means. On data without clear clusters Lloyd's passes are hundreds of small
    steps the same way: it takes a fifth of them, and ends lower.
    """
    before, old, age, pull = np.inf, centers, 1.0, 0.0
    for turn in range(passes + 1):
        moved = partition.assign(centers)
        gained = before - partition.sse
        far = pull > 0.0 and (moved == 0 or gained < 0.0)
        done = (moved == 0 and turn > 0) or gained < gain * partition.sse
        if turn == passes or (done and not far):
            break
        before = partition.sse
        mean = partition.filled_means(centers)
        older = 1.0 if far or len(mean) < len(old) else age
        age = 0.5 + (0.25 + older * older) ** 0.5
        pull = (older - 1.0) / age if ahead else 0.0
        centers = partition.put(mean, mean + pull * (mean - old)) if pull > 0.0 else mean
        old = mean
    return centers


def lloyd_by_products(X: np.ndarray, weight: np.ndarray, centers: np.ndarray, passes: int) -> Found:
    """For few rows of many columns: kernels of a partition would take longer to compile."""
    X, before = np.ascontiguousarray(X, dtype=np.float64), None
    for turn in range(passes + 1):
        z = nearest_by_products(X, centers)
        count = np.bincount(z, minlength=len(centers))
        centers = centers[count > 0]
        k = close_gaps(z, count)
        if turn == passes or (before is not None and np.array_equal(z, before)):
            break
        before, centers = z, means(X, weight, z, k, False)[0]
    return z, centers, squared_error(X, weight, z, centers)


class LloydRows:
    """Rows and their weights, asked for their nearest centres again and again.

    Bounds of a `Partition` are kept from one question to the next, as long as the number of centres
    is the same.
    """

    def __init__(self, X: Any, weight: np.ndarray, unit: bool = False) -> None:
        self.X, self.weight, self.unit = X, weight, unit
        self.rows = Rows(X, weight=weight)
        self._partition: Partition | None = None
        self._k = 0

    @cached_property
    def frame(self) -> Frame:
        """Where the rows lie: measured once."""
        return measure(self.rows)

    @cached_property
    def columns(self) -> np.ndarray:
        """The columns of X, for plain passes."""
        return np.ascontiguousarray(self.X.T, dtype=np.float64)

    def plain(self, k: int) -> bool:
        """Whether passes that compare all rows with k centres are soonest."""
        few = self.rows.n * self.rows.d * k <= PLAIN
        return few and not self.unit and not self.rows.sparse

    def lloyd(
        self, centers: np.ndarray, passes: int, gain: float = -np.inf, ahead: bool = False
    ) -> Found:
        """At most so many passes; clusters without rows are dropped.

        It ends too when a pass lowers the error by less than a share `gain` of it.
        `ahead`: see `follow`.
        """
        k = len(centers)
        if self.plain(k):
            how: Any = {"gain": gain, "ahead": float(ahead)}
            return lloyd_by_columns(self.columns, self.weight, centers, passes, **how)[:3]
        printed = not (ahead or self.unit or self.rows.sparse)
        if printed and self.rows.n <= FEW_ROWS:
            return lloyd_by_products(self.X, self.weight, centers, passes)
        partition = self._make()
        centers = follow(partition, centers, passes, max(gain, 0.0), ahead)
        return partition.labels, centers, partition.sse

    def nearest(self, centers: np.ndarray) -> np.ndarray:
        """The nearest of these centres for each row."""
        if self.plain(len(centers)):
            return self.lloyd(centers, 0)[0]
        self._assign(centers)
        return self._partition.labels  # type: ignore[union-attr]

    def settle(self, centers: np.ndarray, passes: int) -> np.ndarray:
        """Labels after at most so many passes, centres going ahead."""
        if self.plain(len(centers)):
            return self.lloyd(centers, passes, 0.0, ahead=True)[0]
        partition = self._keep(len(centers))
        self._k = len(follow(partition, centers, passes, ahead=True))
        return partition.labels

    def bounds(
        self, labels: np.ndarray, centers: np.ndarray, ratio: float, most: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, and their squared distances to the centres of `labels` (at most this) and to any
        other one (at least this).

        Rows are left out whose weight times square is at most `most` and that are, by squares,
        `ratio` times as far from others (0: none is).
        """
        self._keep(len(centers)).fold()
        partition = self._assign(centers)

        def partial(each: tuple[Share, State]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            share, state = each
            own, other = partition.squared_bounds(state)
            # another one is nearer: the own one need not be near at all
            moved = state.labels != labels[share.first : share.last]
            own[moved], other[moved] = np.inf, 0.0
            rows = np.arange(share.last - share.first)
            if ratio > 0:
                sure = (other >= ratio * own) & (share.weight * own <= most)
                rows = np.flatnonzero(~sure)
            return rows + share.first, own[rows], other[rows]

        found = together(partial, partition.shares_and_states())
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))  # type: ignore

    def _make(self) -> Partition:
        return Partition(self.rows, self.frame, unit=self.unit)

    def _keep(self, k: int) -> Partition:
        """The partition, whose bounds are kept if they are of as many centres."""
        if self._partition is None or k != self._k:
            self._partition, self._k = self._make(), k
        return self._partition

    def _assign(self, centers: np.ndarray) -> Partition:
        partition = self._keep(len(centers))
        partition.assign(np.asarray(centers, dtype=np.float64))
        return partition
