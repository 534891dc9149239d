"""Bounds of several passes: the centres that they were found with, and what they are worth now."""

import numpy as np

from madbayes._jit.constants import DOWN32, UP32, ZERO32
from madbayes._partition.bounds import Marks
from madbayes._partition.prepared_centers import distances_between, largest_drifts, rounded_up

MOST_PASSES, PASS_ROWS = 64, 16  # passes are kept if there are so many rows for each centre of them
ROWS_AT_ONCE = 2**14  # rows


class History:
    """The centres (scaled) of the passes that bounds are from, and `path` (see `Centers`)."""

    def __init__(self, single: bool = False) -> None:
        self._single = single  # one pass: centres of more would have to travel to the rows
        self._passes = np.empty((0, 0, 0))
        self._count = 0
        self.path = np.empty(0, np.float32)

    @property
    def full(self) -> bool:
        return self._count == len(self._passes)

    def known(self) -> np.ndarray:
        return self._passes[: self._count]

    def restart(self, n: int, centers: np.ndarray) -> None:
        """From here on; n rows."""
        most = 1 if self._single else max(1, min(MOST_PASSES, n // (PASS_ROWS * len(centers))))
        self._passes, self._count = np.empty((most, *centers.shape)), 0
        self.add(centers)

    def close(self) -> None:
        """The next pass makes all bounds those of then."""
        self._passes = self.known()

    def add(self, centers: np.ndarray) -> None:
        self._passes[self._count] = centers
        self._count += 1

    def keep(self, clusters: np.ndarray) -> None:
        """Forget those that are not in the mask."""
        if self._count:
            self._passes, self.path = self._passes[:, clusters], self.path[clusters]


def make_marks(n: int, t: int) -> Marks:
    return Marks(np.zeros(n, np.uint8), np.zeros((n, t), np.uint8), np.zeros(n, np.float32))


def bounds_now(
    upper: np.ndarray,
    lower: np.ndarray,
    marks: Marks,
    labels: np.ndarray,
    group: np.ndarray,
    past: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of all rows with the last centres of the `past`, as the kernel loosens them."""
    t = lower.shape[1]
    drift = distances_between(past, past[-1])
    drifts, others = map(rounded_up, largest_drifts(drift, group, t))
    upper = (upper + rounded_up(drift)[marks.upper, labels]) * UP32
    lower = lower.copy()
    for a in range(0, len(labels), ROWS_AT_ONCE):
        low, since, label = (x[a : a + ROWS_AT_ONCE] for x in (lower, marks.lower, labels))
        own, row = group[label], np.arange(len(label))
        mine = low[row, own] - others[since[row, own], label]
        low -= drifts[since, np.arange(t)]
        low[row, own] = mine
        low[:] = np.maximum(low, ZERO32) * DOWN32
    return upper, lower
