"""Lloyd's passes and nearest centres on an array, as a step of other algorithms.

`lloyd` picks its kernel by the size of the problem:

- If rows × centres × columns are few: all distances, column by column (`lloyd_kernels.py`).
- Otherwise: a `Partition`, whose bounds save most distances.

`LloydRows` keeps the bounds of its rows, for callers that need the nearest centres many times.
"""

from functools import cached_property
from typing import Any

import numpy as np

from madbayes._partition.lloyd_kernels import PLAIN, lloyd_by_columns
from madbayes._partition.partition import Partition
from madbayes._partition.segment import State
from madbayes._rows.frame import Frame, frame_of, measure
from madbayes._rows.row_kernels import row_errors
from madbayes._rows.rows import Rows, Share
from madbayes._rows.threads import together

Found = tuple[np.ndarray, np.ndarray, float]  # labels, centres, squared error


def nearest(
    X: Any, centers: np.ndarray, *, unit: bool = False, frame: Frame | None = None
) -> np.ndarray:
    """The nearest centre of each row; with `unit`, of the row scaled to length 1.

    `frame`: the mean and scale of the rows, if the caller has measured them.
    """
    source, centers = Rows(X, unit=unit), np.ascontiguousarray(centers, dtype=np.float64)
    if not source.sparse and source.n * len(centers) <= 2**15 and source.n * centers.size <= 2**19:
        return nearest_of_few(source, centers)
    frame = frame or frame_of(centers, source)
    partition = Partition(source, frame, once=True, errors=False)
    partition.assign(centers)
    return partition.labels


def nearest_of_few(source: Rows, centers: np.ndarray) -> np.ndarray:
    """`nearest` by all distances: so few of them are quick, and no other kernel is compiled."""
    labels = np.empty(source.n, np.int32)
    for a, b, block in source.blocks(0, source.n):
        distances = np.empty((len(centers), b - a))
        for c, out in enumerate(distances):
            row_errors(block, np.full(b - a, c), centers, out)
        labels[a:b] = distances.argmin(axis=0)
    return labels


def lloyd(
    X: Any,
    centers: np.ndarray,
    weight: np.ndarray,
    passes: int,
    *,
    unit: bool = False,
    frame: Frame | None = None,
) -> Found:
    """At most `passes` of Lloyd's passes. Clusters without rows are dropped.

    With `unit` rows have length 1.
    """
    rows = LloydRows(X, weight, unit)
    if frame is not None:
        rows.frame = frame  # a frame of more rows than these is valid too
    return rows.lloyd(centers, passes)


def follow(
    partition: Partition, centers: np.ndarray, passes: int, gain: float = 0.0, ahead: bool = False
) -> np.ndarray:
    """Lloyd's passes on a partition, from these centres. Returns the centres of the last pass.

    With `ahead`, a centre moves beyond the mean of its rows, in the direction in which the mean has
    moved. It moves the farther, the more passes in a row have lowered the error (Nesterov 1983). If
    the error rises or no row moves, the next pass starts from the means. On data without clear
    clusters, Lloyd's algorithm makes hundreds of small steps in one direction; `ahead` needs a
    fifth of the passes and ends at a lower error.
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


class LloydRows:
    """Rows and their weights, for callers that need their nearest centres many times.

    The bounds of a `Partition` are kept from one call to the next, as long as the number of centres
    does not change.
    """

    def __init__(self, X: Any, weight: np.ndarray, unit: bool = False) -> None:
        self.X, self.weight, self.unit = X, weight, unit
        self.rows = Rows(X, weight=weight)
        self._partition: Partition | None = None
        self._k = 0

    @cached_property
    def frame(self) -> Frame:
        """The mean and the scale of the rows, measured once."""
        return measure(self.rows)

    @cached_property
    def columns(self) -> np.ndarray:
        """X transposed, for passes that compute all distances."""
        return np.ascontiguousarray(self.X.T, dtype=np.float64)

    def plain(self, k: int) -> bool:
        """Whether passes that compare all rows with all k centres are the quickest."""
        few = self.rows.n * self.rows.d * k <= PLAIN
        return few and not self.unit and not self.rows.sparse

    def lloyd(
        self, centers: np.ndarray, passes: int, gain: float = -np.inf, ahead: bool = False
    ) -> Found:
        """At most `passes` of Lloyd's passes. Clusters without rows are dropped.

        The passes also end when one lowers the error by less than the share `gain` of the error.
        `ahead`: see `follow`.
        """
        k = len(centers)
        if self.plain(k):
            how: Any = {"gain": gain, "ahead": float(ahead)}
            return lloyd_by_columns(self.columns, self.weight, centers, passes, **how)[:3]
        partition = Partition(self.rows, self.frame, unit=self.unit)
        centers = follow(partition, centers, passes, max(gain, 0.0), ahead)
        return partition.labels, centers, partition.sse

    def nearest(self, centers: np.ndarray) -> np.ndarray:
        """The nearest of these centres for each row."""
        if self.plain(len(centers)):
            return self.lloyd(centers, 0)[0]
        self._assign(centers)
        return self._partition.labels  # type: ignore[union-attr]

    def settle(self, centers: np.ndarray, passes: int) -> np.ndarray:
        """Labels after at most `passes` of Lloyd's passes, with `ahead` (see `follow`)."""
        if self.plain(len(centers)):
            return self.lloyd(centers, passes, 0.0, ahead=True)[0]
        partition = self._keep(len(centers))
        self._k = len(follow(partition, centers, passes, ahead=True))
        return partition.labels

    def bounds(
        self, labels: np.ndarray, centers: np.ndarray, ratio: float, most: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of rows, upper bounds on the squared distances to the centres of `labels`, and
        lower bounds on the squared distances to all other centres.

        A row is left out if its upper bound times its weight is at most `most`, and its lower bound
        is at least `ratio` times its upper bound. With a ratio of 0 no row is left out.
        """
        partition = self._assign(centers)

        def partial(each: tuple[Share, State]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            share, state = each
            own, other = partition.squared_bounds(state)
            # Another centre is nearer than that of `labels`, so these bounds say nothing about it.
            moved = state.labels != labels[share.first : share.last]
            own[moved], other[moved] = np.inf, 0.0
            rows = np.arange(share.last - share.first)
            if ratio > 0:
                sure = (other >= ratio * own) & (share.weight * own <= most)
                rows = np.flatnonzero(~sure)
            return rows + share.first, own[rows], other[rows]

        found = together(partial, partition.shares_and_states())
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))  # type: ignore

    def _keep(self, k: int) -> Partition:
        """The partition of the last call, with its bounds, if it had k centres; else a new one."""
        if self._partition is None or k != self._k:
            self._partition = Partition(self.rows, self.frame, unit=self.unit, bounds=True)
            self._k = k
        return self._partition

    def _assign(self, centers: np.ndarray) -> Partition:
        partition = self._keep(len(centers))
        partition.assign(np.asarray(centers, dtype=np.float64))
        return partition
