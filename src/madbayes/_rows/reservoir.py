"""A bounded sample of the rows of a stream, the same however the stream is cut into blocks."""

from dataclasses import dataclass

import numpy as np

ROWS = 2**13  # rows that are kept at most


@dataclass
class Reservoir:
    """The rows with the smallest keys; the key of a row follows from its number in the stream.

    Up to twice `size` rows are held before the larger keys go, so adding a row costs little. With a
    half-life, newer rows have smaller keys: a row is kept with a chance that halves that often
    (Efraimidis & Spirakis 2006).
    """

    rows: np.ndarray
    weight: np.ndarray
    key: np.ndarray
    size: int
    held: int = 0
    limit: float = np.inf  # keys above it are not kept

    @classmethod
    def empty(cls, d: int) -> "Reservoir":
        size = max(64, min(ROWS, 2**20 // max(d, 1)))  # at most 2^20 values, too
        # Zeros: a saved stream should not hold what was in the memory before.
        return cls(np.zeros((16, d)), np.zeros(16), np.zeros(16), size)

    def add(self, X: np.ndarray, weight: np.ndarray, first: int, half_life: float) -> None:
        """The rows of X; those of positive weight have the numbers `first`, `first` + 1, …"""
        chosen = np.flatnonzero(weight > 0)
        key = keys(first + np.arange(chosen.size), half_life)
        at = 0
        while at < chosen.size:
            low = at + np.flatnonzero(key[at:] < self.limit)[: 2 * self.size - self.held]
            if not low.size:
                return
            self._make_room(self.held + low.size)
            here = slice(self.held, self.held + low.size)
            self.rows[here], self.weight[here] = X[chosen[low]], weight[chosen[low]]
            self.key[here] = key[low]
            self.held += low.size
            at = int(low[-1]) + 1
            if self.held == 2 * self.size:
                self._shrink()

    def _shrink(self) -> None:
        keep = np.sort(np.argpartition(self.key[: self.held], self.size)[: self.size])
        self.held, self.limit = self.size, float(self.key[keep].max())
        for part in (self.rows, self.weight, self.key):
            part[: self.size] = part[keep]

    def _make_room(self, held: int) -> None:
        if held > len(self.key):
            room = min(2 * self.size, max(held, 2 * len(self.key)))
            for name in ("rows", "weight", "key"):
                old = getattr(self, name)
                new = np.zeros((room, *old.shape[1:]))
                new[: self.held] = old[: self.held]
                setattr(self, name, new)


def keys(number: np.ndarray, half_life: float) -> np.ndarray:
    """The logarithm of an exponential variable for each number, by splitmix64 (Steele et al. 2014).

    With a half-life its rate doubles that often.
    """
    x = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    uniform = ((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    key = np.log(-np.log(uniform + 2.0**-54))
    return key - number * (np.log(2.0) / half_life) if half_life else key
