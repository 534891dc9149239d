"""Divisions into clusters with covariances: what they cost, and moves that lower it.

With the best μ, Σ and π a cluster of weight W and scatter S costs, up to constants,
(W + ν)·log|(Φ + S)/(W + ν)| - 2W·log W (`elliptical` has the formula): J is a sum over clusters.

Exact changes: a row that joins a cluster adds a rank-one term to S, so log|Φ + S| grows by
log(1 + W w/(W + w)·uᵀ(Φ + S)⁻¹u) with u = y - μ; a merge adds the scatters and
W_a W_b/(W_a + W_b)·(μ_a - μ_b)(μ_a - μ_b)ᵀ.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from madbayes._rows.threads import patient
from madbayes.elliptical import ellipse_kernels as kernels
from madbayes.howmany.staircase import Staircase

TOL = 1e-9  # a move must lower J by more than this share of the weight
WIDE = 64  # columns above which LAPACK is faster than the compiled loops
LEAST_VALUE = 1e-300  # of an eigenvalue: Φ makes all of them positive but for rounding
FREE = 4  # clusters that one sweep of moves can open


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
    if d > WIDE:
        measure_wide(Y, w, phi, found)
    else:
        kernels.measure(Y, w, z, phi, found.C, found.W, found.N, found.S, found.A, found.L)
    return found


def measure_wide(Y: np.ndarray, w: np.ndarray, phi: float, found: Division) -> None:
    """`kernels.measure` by LAPACK, which is ten times as fast for matrices of many columns."""
    found.W[:] = np.bincount(found.labels, w, found.k)
    found.N[:] = np.bincount(found.labels, minlength=found.k)
    for c, rows in enumerate(np.split(np.argsort(found.labels, kind="stable"), np.cumsum(found.N))):
        if c == found.k:  # behind the last cut there is nothing
            break
        found.C[c] = w[rows] @ Y[rows] / found.W[c]
        U = np.sqrt(w[rows])[:, None] * (Y[rows] - found.C[c])
        found.S[c] = U.T @ U
        factor, found.L[c] = cholesky(found.S[c] + phi * np.eye(Y.shape[1]))
        half = dpotri(factor, lower=True)[0]
        found.A[c] = np.tril(half) + np.tril(half, -1).T


def cholesky(M: np.ndarray) -> tuple[np.ndarray, float]:
    """The lower factor of M, and log|M|; what is not positive by rounding is as in the kernels."""
    factor, info = dpotrf(M, lower=True, clean=True)
    if info:  # M is singular up to rounding
        value, vector = np.linalg.eigh(M)
        upper: Any = np.linalg.qr((vector * np.sqrt(np.maximum(value, LEAST_VALUE))).T, mode="r")
        factor = upper.T
    return factor, 2.0 * float(np.log(np.abs(factor.diagonal())).sum())


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
    free = 0 if space.price is None else max(0, min(FREE, space.most - now.k))
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
    if now.C.shape[1] > WIDE:
        merge_wide(space, now, into, gone, cost)
        return into, gone, cost
    used = (a.copy() for a in (now.C, now.W, now.S, now.L))
    kernels.merge_all(*used, space.phi, space.nu, into, gone, cost)
    return into, gone, cost + space.base


def merge_wide(
    space: Space, now: Division, into: np.ndarray, gone: np.ndarray, cost: np.ndarray
) -> None:
    """`kernels.merge_all` for many columns, where most clusters have fewer rows than columns.

    The scatter of m rows U about their mean is UᵀU, and log|φI + UᵀU| over d columns is
    log|φI + UUᵀ| over m rows plus (d - m) log φ: small clusters need an m×m matrix.
    """
    phi, (k, d) = space.phi, now.C.shape
    C, W, S = now.C.copy(), now.W.copy(), now.S.copy()
    rows = [
        np.sqrt(space.w[now.labels == c])[:, None] * (space.Y[now.labels == c] - C[c])
        for c in range(k)
    ]
    own = space.costs(W, now.L)
    change = np.full((k, k), np.inf)  # for a > b; a cluster that is gone stays at infinity

    def apart(a: int, b: int) -> np.ndarray:
        return np.sqrt(W[a] * W[b] / (W[a] + W[b])) * (C[a] - C[b])

    def together(a: int, b: int) -> float:
        gap = apart(a, b)
        if len(rows[a]) + len(rows[b]) + 1 < d:
            U = np.vstack([rows[a], rows[b], gap])
            log_det = cholesky(U @ U.T + phi * np.eye(len(U)))[1] + (d - len(U)) * np.log(phi)
        else:
            log_det = cholesky(S[a] + S[b] + np.outer(gap, gap) + phi * np.eye(d))[1]
        both = space.costs(np.array([W[a] + W[b]]), np.array([log_det]))
        return float(both[0] - own[a] - own[b])

    for a in range(k):
        for b in range(a):
            change[a, b] = together(a, b)
    for t in range(k - 1):
        a, b = divmod(int(np.argmin(change)), k)
        cost[t], gone[t], into[t] = change[a, b], a, b
        gap = apart(a, b)
        rows[b] = np.vstack([rows[a], rows[b], gap])
        S[b] += S[a] + np.outer(gap, gap)
        C[b] += W[a] / (W[a] + W[b]) * (C[a] - C[b])
        own[b] += own[a] + cost[t]
        W[b] += W[a]
        change[a], change[:, a] = np.inf, np.inf
        for other in range(k):
            if other != b and change[max(other, b), min(other, b)] < np.inf:
                change[max(other, b), min(other, b)] = together(max(other, b), min(other, b))


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
