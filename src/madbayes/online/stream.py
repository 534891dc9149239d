"""Clusters of a stream: each row moves the centre it goes to, and is not needed again (PRML 9.1).

For each row x of weight w, in turn:

1. Find the nearest centre μ.
2. `OnlineDPMeans`: if w‖x - μ‖² > λ, the row opens a cluster at its own place (the rule of KJ
   Algorithm 1). `OnlineKMeans`: the first n_clusters distinct rows are the first centres, which is
   the same rule for λ = 0 and at most n_clusters clusters.
3. Otherwise μ moves towards it: μ += η(x - μ) (PRML Eq. 9.5; Robbins & Monro 1951).

η is w/W, W the weight of the rows that came to μ so far with this one, which makes μ their mean
(MacQueen 1967); or constant; or w/W with a W that halves every `half_life` rows, which makes μ a
mean in which old rows count less. There is no objective that falls with each row.

The result is that of this plain loop, to the bit, however the rows are cut into blocks. A block at
a time is only the way to find most distances by a matrix product: where they leave a doubt about
the nearest centre, the plain float64 distance decides (docs/adr/0009).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from madbayes._partition.moves import TOL
from madbayes._partition.ward import merge_below
from madbayes._rows.frame import power_of_two
from madbayes._rows.reservoir import Reservoir
from madbayes._rows.rows import DIRECT_COLUMNS, NO_WEIGHT
from madbayes._rows.threads import patient
from madbayes.online.stream_kernels import follow_rows

MANY_VALUES = 512  # from so many values in all centres on, a matrix product pays
DIFFERENCES_AT_ONCE = 2**26  # differences that one call of the kernel looks at


class Rule(NamedTuple):
    """What a row does, as the kernel reads it."""

    penalty: float
    cap: int
    step: float  # 0: means
    half_life: float  # 0: none
    unit: bool


@dataclass
class Stream:
    """All that is remembered of the rows so far. The arrays have room for more than k clusters."""

    centers: np.ndarray
    exact: np.ndarray  # the centres, or for the cosine the means that give their direction …
    low: np.ndarray  # … and what float64 cuts off
    weights: np.ndarray  # at the time of `last`
    last: np.ndarray  # the row that the cluster got last
    ids: np.ndarray
    sample: Reservoir  # of the rows
    k: int = 0
    seen: int = 0  # rows of positive weight
    opened: int = 0  # clusters ever: the next id
    passed: tuple[np.ndarray, float] | None = None  # rows that the centres come from, their error

    @classmethod
    def empty(cls, room: int, d: int) -> "Stream":
        C, M, low = (np.zeros((room, d)) for _ in range(3))
        last, ids = np.zeros(room, np.int64), np.zeros(room, np.int64)
        return cls(C, M, low, np.zeros(room), last, ids, Reservoir.empty(d))

    def arrange(self, keep: Any, room: int) -> None:
        """Only the clusters `keep`, in that order, in arrays with room for so many."""
        for name in ("centers", "exact", "low", "weights", "last", "ids"):
            old = getattr(self, name)[: self.k][keep]
            new = np.zeros((room, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        self.k = len(old)

    def decayed(self, half_life: float, now: Any) -> np.ndarray:
        """The weights of the clusters at the time `now`."""
        W = self.weights[: self.k]
        return W * 0.5 ** ((now - self.last[: self.k]) / half_life) if half_life else W.copy()


def squared_distances(X: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """By a product in float32: squared distances, how wrong they may be in each row, and the scale.

    Rounding costs at most (d + 6)·2⁻²⁴ of (‖x‖ + ‖c‖)², taken from the middle of the centres.
    """
    origin = C.mean(axis=0)
    X, C = X - origin, C - origin
    scale = power_of_two(max(np.abs(X).max(), np.abs(C).max()))
    X, C = (X * scale).astype(np.float32), (C * scale).astype(np.float32)
    x2, c2 = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", C, C)
    near = X @ (-2 * C.T)
    near += x2[:, None]
    near += c2
    size = np.sqrt(x2, dtype=np.float64) + np.sqrt(float(c2.max()))
    return near, (C.shape[1] + 16) * 2.0**-23 * size**2 + 1e-36, scale


def follow(
    stream: Stream,
    X: np.ndarray,
    weight: np.ndarray,
    rule: Rule,
    *,
    merge_every: int = 0,
    forget_after: int = 0,
) -> tuple[np.ndarray, float]:
    """Steps 1 to 3 for the rows of X: their clusters on arrival, and Σ w d² on arrival.

    Clusters are merged, and forgotten, at the row where that is due, never at the end of a block.
    """
    n, d = X.shape
    labels, error, first = np.empty(n, np.int64), 0.0, 0
    while first < n:
        start, k, before, stop = first, stream.k, stream.seen, n
        if merge_every:
            stop = min(stop, first + merge_every - before % merge_every)
        if forget_after:
            due = (int(stream.last[:k].min()) if k else before) + forget_after
            stop = min(stop, first + max(due - before, 1))
        near, wrong, scale, drift = np.empty((0, 0), np.float32), NO_WEIGHT, 1.0, NO_WEIGHT
        if d > DIRECT_COLUMNS and k * d >= MANY_VALUES and stop - first > 1:
            stop = min(stop, first + max(32, min(512, 2**17 // k)))  # rows of one product
            near, wrong, scale = squared_distances(X[first:stop], stream.centers[:k])
            drift = np.zeros(k)
        while first < stop:
            last = min(
                stop, first + 1 + DIFFERENCES_AT_ONCE // (d * max(k, 1))
            )  # Ctrl-C need not wait long
            done, stream.k, stream.seen, part = follow_rows(
                X[first:last],
                weight[first:last],
                labels[first:last],
                stream.k,
                len(stream.centers),
                stream.seen,
                stream.centers,
                stream.exact,
                stream.low,
                stream.weights,
                stream.last,
                near[first - start :],
                wrong[first - start :],
                scale,
                drift,
                rule,
            )
            error += part
            first += done
            new = stream.k - k
            stream.ids[k : stream.k] = np.arange(stream.opened, stream.opened + new)
            stream.opened += new
            k = stream.k
            if first < last:  # somebody wants to open one more
                stream.arrange(slice(None), min(2 * k, rule.cap))
        if stream.opened > k:  # some are gone: numbers are not places
            here = labels[start:stop]
            here[:] = np.where(here < 0, -1, stream.ids[here])
        if stream.seen > before:
            if forget_after:
                forget_stale(stream, forget_after)
            if merge_every and stream.seen % merge_every == 0:
                merge_close(stream, rule)
    return labels, error


def forget_stale(stream: Stream, after: int) -> None:
    """Drop the clusters that got none of the last `after` rows."""
    fresh = stream.seen - stream.last[: stream.k] < after
    if not fresh.all():
        stream.arrange(fresh, len(stream.centers))


def merge_close(stream: Stream, rule: Rule) -> None:
    """Merge clusters, the cheapest pair first, while this costs less than the penalty saved."""
    k, M = stream.k, stream.exact
    if k < 2:
        return
    W = np.maximum(stream.decayed(rule.half_life, stream.seen), 1e-300)
    centers, most = stream.centers[:k].copy(), rule.penalty * (1 - TOL)
    group, groups = patient(merge_below, centers, W, most, k, False)
    if groups == k:
        return
    oldest = np.unique(group, return_index=True)[1]
    for g in np.flatnonzero(np.bincount(group) > 1):
        members = np.flatnonzero(group == g)
        a = oldest[g]
        now = stream.last[members].max()
        W = np.maximum(stream.decayed(rule.half_life, now)[members], 1e-300)
        origin = M[a].copy()
        M[a] = origin + W @ (M[members] - origin) / W.sum()
        stream.centers[a], stream.low[a] = M[a], 0.0
        stream.weights[a], stream.last[a] = W.sum(), now
    stream.arrange(oldest, len(stream.centers))
