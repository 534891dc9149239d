"""Rows divided into clusters, and clusters exchanged a few at a time."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Division:
    """Rows divided into k clusters, with their exact means (where means exist) and objective."""

    labels: np.ndarray
    centers: np.ndarray
    weights: np.ndarray
    objective: float

    @property
    def k(self) -> int:
        return len(self.weights)

    def rows(self) -> list[np.ndarray]:
        """The rows of each cluster, in order."""
        labels = self.labels.astype(np.uint16) if self.k <= 2**16 else self.labels
        order = np.argsort(labels, kind="stable")  # numpy counts those of two bytes
        return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def without_gaps(labels: np.ndarray) -> tuple[np.ndarray, int]:
    """Labels 0, 1, … in the order of the old numbers, and how many."""
    top = int(labels.max()) + 1
    if top > 4 * len(labels) + 1024:  # numbers far apart
        labels = np.unique(labels, return_inverse=True)[1]
        top = int(labels.max()) + 1
    used = np.bincount(labels, minlength=top) > 0
    new = np.cumsum(used) - 1
    return new[labels], int(new[-1]) + 1


def same_division(labels: np.ndarray, known: np.ndarray) -> bool:
    """Whether two divisions agree in 99 % of the rows, whatever the numbers of their clusters."""
    k = int(known.max()) + 1
    both = np.bincount(labels * k + known, minlength=(int(labels.max()) + 1) * k)
    return bool(both.reshape(-1, k).max(axis=1).sum() >= 0.99 * len(labels))


class Slots:
    """The clusters of a division in numbered slots, so that some of them can be exchanged."""

    def __init__(self, division: Division) -> None:
        self.rows: list[np.ndarray | None] = list(division.rows())
        self.centers = division.centers.copy()  # infinite where a slot is empty
        self.n = len(division.labels)

    def inside(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All rows of these clusters, ascending, and for each of them which of `slots` it is in."""
        parts = [part for e in slots if (part := self.rows[e]) is not None]
        at = np.repeat(np.arange(len(slots)), [len(part) for part in parts])
        rows = np.concatenate(parts)
        order = np.argsort(rows)
        return rows[order], at[order]

    def exchange(self, old: np.ndarray, inside: np.ndarray, new: Division) -> list[int]:
        """Put the clusters of `new`, a division of the rows `inside`, in the place of those in the
        slots `old`; returns their slots."""
        more = range(len(self.rows), len(self.rows) + new.k - len(old))
        slots = [*old[: new.k], *more]
        self.rows += [None] * (max(slots) + 1 - len(self.rows))
        room = np.empty((len(self.rows) - len(self.centers), self.centers.shape[1]))
        self.centers = np.vstack([self.centers, room])
        self.centers[old] = np.inf
        for e, part in zip(slots, new.rows(), strict=True):
            self.rows[e] = inside[part]
        self.centers[slots] = new.centers
        return slots

    def labels(self) -> np.ndarray:
        """The slot of each row."""
        z = np.empty(self.n, np.int64)
        for e in np.flatnonzero(np.isfinite(self.centers[:, 0])):
            z[self.rows[e]] = e
        return z
