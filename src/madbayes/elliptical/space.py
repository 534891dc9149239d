"""Divisions into clusters with covariances: what they cost, and moves that lower it.

With the best μ, Σ and π a cluster of weight W and scatter S costs, up to constants,
(W + ν)·log|(Φ + S)/(W + ν)| - 2W·log W (see `elliptical_means.py`): J is a sum over clusters.

Exact changes: a row that joins a cluster adds a rank-one term to S, so log|Φ + S| grows by
log(1 + W w/(W + w)·uᵀ(Φ + S)⁻¹u) with u = y - μ; a merge adds the scatters and
W_a W_b/(W_a + W_b)·(μ_a - μ_b)(μ_a - μ_b)ᵀ.
"""

from dataclasses import dataclass, replace

import numpy as np

from madbayes._rows.threads import patient
from madbayes.elliptical import ellipse_kernels as kernels
from madbayes.howmany.staircase import Staircase

TOL = 1e-9  # a move must lower J by more than this share of the weight


@dataclass(frozen=True)
class Division:
    """Rows divided into k clusters; letters as in `ellipse_kernels.py`. `error` is J without λk."""

    labels: np.ndarray
    C: np.ndarray
    W: np.ndarray
    N: np.ndarray
    S: np.ndarray
    A: np.ndarray
    L: np.ndarray
    error: float = 0.0

    @property
    def k(self) -> int:
        return len(self.C)


@dataclass(frozen=True)
class Ellipses:
    """What an algorithm found, in standardized columns."""

    division: Division
    history: list[float]
    converged: bool
    penalty: float
    nu: float
    covariances: np.ndarray
    level: np.ndarray  # what a row of a cluster pays beside its distance
    path: Staircase | None


def divide(Y: np.ndarray, w: np.ndarray, labels: np.ndarray, phi: float) -> Division:
    """The division by `labels`, with means and scatters; empty numbers are dropped."""
    filled = np.bincount(labels) > 0
    z = (np.cumsum(filled) - 1)[labels]
    k, d = int(filled.sum()), Y.shape[1]
    found = Division(
        z,
        np.zeros((k, d)),
        np.zeros(k),
        np.zeros(k, np.int64),
        np.zeros((k, d, d)),
        np.empty((k, d, d)),
        np.empty(k),
    )
    kernels.measure(Y, w, z, phi, found.C, found.W, found.N, found.S, found.A, found.L)
    return found


@dataclass(frozen=True)
class Space:
    """Standardized rows, weights and the prior: what divisions cost, and how to lower that.

    Without a `price` the number of clusters stays `most`.
    """

    Y: np.ndarray
    w: np.ndarray
    phi: float
    nu: float
    price: float | None
    most: int
    least: int  # rows that a cluster keeps, for a fixed number

    @property
    def base(self) -> float:
        """What the prior of a cluster without rows costs; it counts for nothing."""
        d = self.Y.shape[1]
        return self.nu * d * float(np.log(self.phi / self.nu))

    def costs(self, W: np.ndarray, L: np.ndarray) -> np.ndarray:
        d = self.Y.shape[1]
        return (W + self.nu) * (L - d * np.log(W + self.nu)) - 2 * W * np.log(W) - self.base

    def division(self, labels: np.ndarray) -> Division:
        found = divide(self.Y, self.w, labels, self.phi)
        total = float(found.W.sum())
        rest = total * self.Y.shape[1] + 2 * total * np.log(total)
        return replace(found, error=float(self.costs(found.W, found.L).sum() + rest))

    def objective(self, now: Division) -> float:
        return now.error + (0.0 if self.price is None else self.price * now.k)

    def lower(self, new: Division, now: Division) -> bool:
        """Whether `new` is better than `now`, by more than rounding."""
        gain = now.error - new.error
        if self.price is not None and new.k != now.k:
            gain += self.price * (now.k - new.k)
        return gain > TOL * (1.0 + float(now.W.sum()))

    def part(self, rows: np.ndarray, k: int) -> "Space":
        """Some of the rows as a problem of their own, with k clusters."""
        return replace(self, Y=self.Y[rows], w=self.w[rows], price=None, most=k)


def terms(space: Space, now: Division) -> tuple[np.ndarray, np.ndarray]:
    """A row pays scale·(y-μ)ᵀA(y-μ) + offset: Mahalanobis distance, log|Σ|, -2 log π."""
    scale = now.W + space.nu
    offset = now.L - space.Y.shape[1] * np.log(scale) - 2 * np.log(now.W / now.W.sum())
    return scale, offset


def assign(space: Space, now: Division) -> Division:
    """Every row to the cluster where it is most likely."""
    labels = now.labels.copy()
    patient(kernels.assign, space.Y, now.C, now.A, *terms(space, now), labels)
    if space.price is None:
        labels = keep_size(labels, now, space.least)
    return now if np.array_equal(labels, now.labels) else space.division(labels)


def keep_size(labels: np.ndarray, now: Division, least: int) -> np.ndarray:
    """Labels with which no cluster falls below `least` rows: one that would keeps its own."""
    while True:
        size = np.bincount(labels, minlength=now.k)
        short = size < np.minimum(now.N, least)
        back = short[now.labels] & (labels != now.labels)
        if not back.any():
            return labels
        labels[back] = now.labels[back]


def move_rows(space: Space, now: Division) -> Division:
    """Exact moves of single rows; one sweep."""
    d = space.Y.shape[1]
    # One sweep opens four clusters at most.
    free = 0 if space.price is None else max(0, min(4, space.most - now.k))
    room = [np.zeros((free, *a.shape[1:]), a.dtype) for a in (now.C, now.W, now.N, now.A, now.L)]
    arrays = zip((now.C, now.W, now.N, now.A, now.L), room, strict=True)
    labels = now.labels.copy()
    moved = patient(
        kernels.move_rows,
        space.Y,
        space.w,
        labels,
        *(np.concatenate(pair) for pair in arrays),
        space.phi,
        space.nu,
        np.inf if space.price is None else space.price - space.base,
        space.least if space.price is None else 0,
        TOL * (1.0 + d),
    )
    return space.division(labels) if moved else now


def merge_tree(space: Space, now: Division) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(into, gone, cost) of merges from k clusters down to one, the cheapest first."""
    into, gone = np.empty(now.k - 1, np.int64), np.empty(now.k - 1, np.int64)
    cost = np.empty(now.k - 1)
    used = (a.copy() for a in (now.C, now.W, now.S, now.L))
    kernels.merge_all(*used, space.phi, space.nu, into, gone, cost)
    return into, gone, cost + space.base


def merged(labels: np.ndarray, into: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Labels after these merges."""
    target = np.arange(int(labels.max()) + 1)
    for a, b in zip(gone, into, strict=True):
        target[target == a] = b
    return target[labels]


def merge(space: Space, now: Division) -> Division:
    """Merge the cheapest two while that pays, or while there are too many."""
    if now.k == 1:
        return now
    into, gone, cost = merge_tree(space, now)
    price = -np.inf if space.price is None else space.price
    pays = cost < price - TOL * (1.0 + float(now.W.sum()))
    stop = max(int(np.argmin(pays)) if not pays.all() else len(pays), now.k - space.most)
    return space.division(merged(now.labels, into[:stop], gone[:stop])) if stop else now
