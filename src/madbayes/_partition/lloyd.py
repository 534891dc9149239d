"""A few Lloyd passes and nearest centres on an array, for algorithms that need them as a step."""

from typing import Any

import numpy as np

from madbayes._partition.assignment import FEW_ROWS, is_small
from madbayes._partition.moves import means
from madbayes._partition.nearest_plain import nearest_by_products
from madbayes._partition.partition import Partition
from madbayes._rows.frame import Frame, frame_of
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import Run, serial


def nearest(
    X: Any,
    centers: np.ndarray,
    run: Run = serial,
    *,
    unit: bool = False,
    frame: Frame | None = None,
) -> np.ndarray:
    """The nearest centre of each row (`unit`: of its direction); `frame` if it is known."""
    source, centers = Rows(X, unit=unit), np.asarray(centers, dtype=np.float64)
    frame = frame or frame_of(centers, source)
    partition = Partition(source, None, run, frame, once=True, errors=False)
    partition.assign(centers)
    return partition.labels


def lloyd_passes(
    X: Any,
    centers: np.ndarray,
    weight: np.ndarray | None,
    passes: int,
    run: Run = serial,
    unit: bool = False,
    frame: Frame | None = None,
    gain: float = 0.0,
    ahead: bool = False,
) -> tuple[np.ndarray, np.ndarray, float]:
    """At most so many passes; clusters without rows are dropped. Labels, centres, squared error.

    It ends too when a pass lowers the error by less than a share `gain` of it.
    `ahead`: see `follow`.
    """
    partition = Partition(Rows(X), weight, run, frame, unit=unit)
    centers = follow(partition, centers, passes, gain, ahead)
    return partition.labels, centers, partition.sse


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


def lloyd_labels(
    X: np.ndarray,
    centers: np.ndarray,
    weight: np.ndarray,
    passes: int,
    run: Run = serial,
    unit: bool = False,
) -> np.ndarray:
    """The labels of `lloyd_passes`, without gaps.

    Few rows in many columns would compile the kernels for large tables: BLAS does it for them.
    """
    if unit or len(X) > FEW_ROWS or is_small(len(X), *centers.shape):
        return lloyd_passes(X, centers, weight, passes, run, unit)[0]
    rows = np.ascontiguousarray(X, dtype=np.float64)
    z, k = nearest_by_products(rows, centers)
    for _ in range(passes):
        before = z
        z, k = nearest_by_products(rows, means(rows, weight, z, k, False)[0])
        if np.array_equal(z, before):
            break
    return z


class Follower:
    """Rows that are asked for their nearest centres again and again, as centres move a little.

    Bounds are kept from one question to the next, as long as the number of centres is the same.
    """

    def __init__(
        self, X: Any, weight: np.ndarray, run: Run, unit: bool, frame: Frame | None = None
    ) -> None:
        self.weight, self.make = weight, lambda: Partition(Rows(X), weight, run, frame, unit=unit)
        self.partition, self.k = self.make(), 0

    def assign(self, centers: np.ndarray) -> int:
        """Find the nearest of these centres; how many rows moved."""
        self._keep(len(centers))
        return self.partition.assign(np.asarray(centers, dtype=np.float64))

    def settle(self, centers: np.ndarray, passes: int) -> np.ndarray:
        """Labels after at most so many passes of Lloyd's."""
        self._keep(len(centers))
        self.k = len(follow(self.partition, centers, passes, ahead=True))
        return self.partition.labels

    def _keep(self, k: int) -> None:
        """Bounds of as many centres are kept."""
        if k != self.k:
            self.partition, self.k = self.make(), k

    def bounds(
        self, labels: np.ndarray, centers: np.ndarray, ratio: float, most: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, and their squared distances to the centres of `labels` (at most this) and to any
        other one (at least this).

        Rows are left out whose weight times square is at most `most` and that are, by squares,
        `ratio` times as far from others (0: none is).
        """
        self._keep(len(centers))
        self.partition.fold()
        self.assign(centers)
        partition, n = self.partition, len(labels)

        def partial(cut: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            here = slice(*cut)
            own, other = partition.squared_bounds(here)
            # another one is nearer: the own one need not be near at all
            moved = partition.labels[here] != labels[here]
            own[moved], other[moved] = np.inf, 0.0
            rows = np.arange(cut[1] - cut[0])
            if ratio > 0:
                sure = (other >= ratio * own) & (self.weight[here] * own <= most)
                rows = np.flatnonzero(~sure)
            return rows + cut[0], own[rows], other[rows]

        found = partition.run(partial, segments(n, 1))
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))  # type: ignore
