"""How far from its cluster a row may be: shares of rows that reach a distance, with their tail.

For the held-out distances r of the rows of one cluster (docs/adr/0019):

1. *Body.* The i-th largest of n is reached by i/(n+1) of new rows (conformal prediction: Vovk,
   Gammerman & Shafer 2005).
2. *Tail.* Beyond the largest 5√n of them (at most half) a generalised Pareto law (Pickands 1975) of
   y = -log Φ((m - r^⅔)/s), m and s from the middle of the distances: r² of a Gaussian is nearly a
   gamma variable, for which r^⅔ is nearly normal (Wilson & Hilferty 1931) and so y exponential. Its
   two parameters are averaged over what they may be, which keeps the share right on average for few
   rows too: given θ = ξ/σ, log(1 + θy) is exponential with mean ξ, ξ can be integrated out, and the
   share beyond y is (1 + log(1 + θy)/Λ)^-m with Λ = Σ log(1 + θy_i); θ runs over a grid. Rows that
   are far from any such law count too: the share is never below half of what was seen.
3. *Few rows.* A cluster with n < 100 rows takes n/100 of each such distance from its own rows, and
   the rest from those of all clusters, each divided by the size of its cluster without that row.

Clusters of at most `EXCEPTION_ROWS` rows, if they are exceptions, tell nothing about how far rows
are from their own cluster. To be right for rows like theirs, they count as far rows of the nearest
cluster that is larger.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from madbayes._rows.threads import together

RATE = 0.001  # of novel=True
LEVELS = np.arange(-12, 25) / 4.0  # normal scores of the shares that are kept: .9987 to 1e-9
SHARES = ndtr(-LEVELS)
TAIL_ROWS, TAIL_SHARE = 5.0, 0.5  # the tail has 5√n rows, but not more than half
SHAPE, SPREAD = 0.15, (0.4, 0.22)  # of ξ before the rows are seen: the likeliest, to each side
OWN_ROWS = 10  # fewer rows have no law of their own
ALL_OWN_ROWS = 100.0  # so many have nothing else
SHARED_SCALE = 3.0  # the same for its size
EXCEPTION_ROWS, EXCEPTIONS = (
    3,
    0.1,
)  # clusters of so few rows are exceptions up to this share of all rows
FARTHEST = np.finfo(np.float64).max
MIDDLE = (0.5, 0.2)  # m, and s from here to there
BOUNDED = np.geomspace(1e-4, 0.99, 40) - 1.0  # θ times the largest excess, where there is an end
UNBOUNDED = np.append(1e-8, np.geomspace(1e-3, 1e3, 60))  # θ times their mean, where there is none
EXCESSES, COARSE = np.append(0.0, np.geomspace(1e-3, 1e6, 400)), 20
NORMAL_GAP = 0.8416212335729143  # between these two shares of a normal variable


def check_novel(novel: Any) -> Any:
    """None for False, a rate, or "paper"."""
    if isinstance(novel, bool | np.bool_):
        return RATE if novel else None
    if isinstance(novel, str) and novel == "paper":
        return novel
    if isinstance(novel, Real) and 0 < float(novel) < 1:
        return float(novel)
    kind = ValueError if isinstance(novel, Real | str) else TypeError
    raise kind(
        f"novel={novel!r} must be False, True (the rate {RATE}), a rate between 0 and 1 (the share "
        "of rows like those of the fit that may get -1), or 'paper' (-1 where a row would open a "
        "cluster in the printed algorithm)."
    )


def tail_law(y: np.ndarray, u: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """2. The share of excesses beyond others, from the excesses y > 0 with weights u."""
    if not y.size or y.max() < 1e-9:  # nothing to learn from
        y, u = np.ones(1), np.ones(1)
    m = u.sum()
    mean = (u @ y) / m
    theta = np.concatenate([BOUNDED / y.max(), UNBOUNDED / mean])
    total = np.log1p(np.outer(theta, y)) @ u
    shape = total / m
    prior = (shape - SHAPE) / np.where(shape < SHAPE, *SPREAD)
    log_weight = m * np.log(theta / total) - total - 0.5 * prior**2
    log_weight[(shape < -1.0) | (shape > 2.0)] = -np.inf
    weight = np.exp(log_weight - log_weight.max()) * np.gradient(shape)
    likely = weight > 1e-24 * weight.max()  # the other values of θ do not count
    theta, total, weight = theta[likely], total[likely], weight[likely] / weight.sum()

    def shares(at: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            ratio = np.log(np.maximum(1.0 + np.outer(at, theta), 0.0)) / total
        return np.asarray((1.0 + ratio) ** -m @ weight)

    return shares


def excesses(law: Callable[[np.ndarray], np.ndarray], shares: np.ndarray) -> np.ndarray:
    """What these shares (falling) of excesses are beyond: `law` read backwards, on a grid.

    First on a coarse one, since the shares are those of a small part of it.
    """
    coarse = law(EXCESSES[::COARSE])
    first = max(int(np.argmax(coarse < shares[0])) - 1, 0) * COARSE
    below = coarse < shares[-1]
    last = int(np.argmax(below)) * COARSE if below.any() else len(EXCESSES) - 1
    at = EXCESSES[first : last + 1]
    found = np.maximum(np.minimum.accumulate(law(at)), 1e-300)
    return np.asarray(np.interp(-np.log(shares), -np.log(found), at))


def spread_of(x: np.ndarray, u: np.ndarray, share: np.ndarray) -> tuple[float, float]:
    """m and s of step 2; s = 0 where all x are 0."""
    middle, outer = np.interp(MIDDLE, share, x)
    around = (u @ np.abs(x - middle)) / u.sum()
    for s in ((outer - middle) / NORMAL_GAP, around, 0.3 * middle):
        if s > 1e-6 * middle:
            return float(middle), float(s)
    return float(middle), 0.0


def quantiles(r: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """1. and 2. The distances that `SHARES` of new rows reach, from held-out distances."""
    order = np.argsort(-r, kind="stable")
    r, u = r[order], weight[order] * (weight.sum() / (weight @ weight))
    n = u.sum()
    reached = np.cumsum(u)
    share = reached / (n + 1.0)
    out = np.interp(SHARES, np.append(share, 1.0), np.append(r, 0.0))  # 1.
    x = np.cbrt(r * r)
    middle, s = spread_of(x, u, share)
    if s == 0.0:
        out[SHARES < share[0]] = FARTHEST  # all rows are in one place: nothing more is known
        return out
    first = min(
        int(np.searchsorted(reached, min(TAIL_SHARE * n, TAIL_ROWS * np.sqrt(n)))), len(r) - 1
    )
    y = -log_ndtr((middle - x[: first + 1]) / s)
    tail = SHARES < share[first]
    excess = excesses(tail_law(y[:first] - y[first], u[:first]), SHARES[tail] / share[first])
    fitted = np.maximum(middle - s * ndtri_exp(-(y[first] + excess)), 0.0) ** 1.5
    seen = np.interp(2.0 * SHARES[tail], share, r)  # whatever the law of the tail says
    out[tail] = np.maximum(fitted, seen)
    return np.maximum.accumulate(out)


def calibrate(r: np.ndarray, label: np.ndarray, weight: np.ndarray, k: int) -> np.ndarray:
    """3. For each of k clusters the distances that `SHARES` of its new rows reach, (k, 37).

    r: held-out distances of rows, each of which stands for `weight` of them.
    """
    out = np.full((k, len(SHARES)), FARTHEST)
    if not len(r):
        return out  # nothing is known, so nothing is new
    largest = float(r.max())
    if not 1e-90 < largest < 1e90 and largest > 0:  # r² would leave the range of float64
        unit = 2.0 ** np.floor(np.log2(largest))
        table = calibrate(r / unit, label, weight, k)
        with np.errstate(over="ignore"):
            return np.where(table < FARTHEST, np.minimum(table * unit, FARTHEST), FARTHEST)
    size, without = sizes(r, label, weight, k)
    if size.max() == 0.0:
        out[:] = quantiles(r, weight)
        return out
    shared = quantiles(r / without, weight)
    out[:] = size[:, None] * shared
    drawn = np.bincount(label, minlength=k)
    order, ends = by_label(label, k), np.cumsum(drawn)

    def some(clusters: np.ndarray) -> None:
        for c in clusters:
            rows = order[ends[c] - drawn[c] : ends[c]]
            mine = quantiles(r[rows], weight[rows])
            own = min(1.0, drawn[c] / ALL_OWN_ROWS)
            out[c] = np.where(mine < FARTHEST, own * mine + (1.0 - own) * out[c], out[c])

    large = np.flatnonzero(drawn >= OWN_ROWS)
    together(some, [large[a : a + 8] for a in range(0, large.size, 8)])  # 8: a thread's item
    return np.maximum.accumulate(out, axis=1)


def by_label(label: np.ndarray, k: int) -> np.ndarray:
    """`np.argsort(label, kind="stable")` of labels below k; numpy counts those of two bytes."""
    return np.argsort(label.astype(np.uint16) if k <= 2**16 else label, kind="stable")


def sizes(
    r: np.ndarray, label: np.ndarray, weight: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The size of each cluster, and for each row that of its cluster without the row.

    The root of the mean r²; clusters of few rows are drawn (in logarithms) to the others.
    """
    total = np.bincount(label, weight, minlength=k)
    squares = np.bincount(label, weight * r**2, minlength=k)
    n = total**2 / np.maximum(np.bincount(label, weight**2, minlength=k), 1e-300)  # Kish

    def drawn_to(typical: float, mean: np.ndarray, rows: np.ndarray) -> np.ndarray:
        rows = np.where(mean > 0, np.maximum(rows, 0.0), 0.0)
        logs = np.log(np.where(mean > 0, mean, 1.0))
        return np.asarray(
            np.exp(0.5 * (rows * logs + SHARED_SCALE * typical) / (rows + SHARED_SCALE))
        )

    known = squares > 0
    if not known.any():
        return np.zeros(k), np.zeros(len(r))
    mean = np.divide(squares, total, out=np.zeros(k), where=known)
    typical = float(np.average(np.log(mean[known]), weights=n[known]))
    left = total[label] - weight
    tiny = 1e-12 * total[label]
    rest = np.maximum(squares[label] - weight * r**2, 0.0)
    mean_left = np.divide(rest, left, out=np.zeros(len(r)), where=left > tiny)
    return drawn_to(typical, mean, n - 1.0), drawn_to(typical, mean_left, n[label] - 2.0)


def p_values(r: np.ndarray, label: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The share of rows that are at least as far from their cluster as r, from `calibrate`."""
    out = np.empty(len(r))
    order = np.argsort(label, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        if not len(rows):
            continue
        q = table[label[rows[0]]]
        far = r[rows]
        p = ndtr(-np.interp(-far, -q[::-1], LEVELS[::-1]))  # so equal ones get the largest share
        beyond = far > q[-1]
        if beyond.any():  # as a power of the distance, from the last two
            ratio = np.log(q[-1]) - np.log(q[-2]) if q[-2] > 0 else 0.0
            steep = np.log(SHARES[-2] / SHARES[-1]) / max(ratio, 1e-3)
            p[beyond] = SHARES[-1] * (q[-1] / far[beyond]) ** steep
        out[rows] = p
    return out
