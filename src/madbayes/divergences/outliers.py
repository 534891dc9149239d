"""Rows that belong nowhere: rows left out for a price, and rows far from all others.

Objective with a price p: J = Σ_in w D(x, μ_z) + p Σ_out w + λk, so a row counts min(D, p). For a
given number of clusters this is the penalized form of k-means-- (Chawla & Gionis 2013).

1. Search among the rows that are not left out.
2. Exact moves of all rows: between clusters, out of all of them, and back in.
3. Repeat while the objective falls.

"auto" takes the price from the tail of the divergences of rows to their clusters without them:
between the 75th and the 95th percentile the tail falls like exp(-D/β); p is where less than CHANCE
of one ordinary row is expected. The largest 5 % of the divergences play no part in it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._search.division import Division, without_gaps
from madbayes.divergences.families import EncodedRows
from madbayes.divergences.kernels import SQUARED
from madbayes.divergences.space import DivergenceSpace
from madbayes.howmany.links import squared_distances

CHANCE = 0.05  # ordinary rows that are expected to be left out
CLUMP = 5  # far rows near each other that are no cluster yet …
SHARE = 0.01  # … or so many of all rows, where they are very far
FAR, VERY_FAR = 2.0, 20.0  # times the distance that two rows usually have
WIDE = 20.0  # a number so many interquartile ranges from the middle is very far

Solve = Callable[[DivergenceSpace, np.ndarray | None], Division]


def objective(space: DivergenceSpace, z: np.ndarray, price: float) -> float:
    """J of labels, -1 for rows left out."""
    inside = np.flatnonzero(z >= 0)
    out = float(space.rows.w.sum() - space.rows.w[inside].sum())
    if len(inside) == 0:
        return price * out
    return part(space, inside).division(z[inside]).objective + price * out


def part(space: DivergenceSpace, rows: np.ndarray) -> DivergenceSpace:
    return replace(space, rows=space.rows.take(rows))


def leave_out(
    space: DivergenceSpace, price: float, solve: Solve, out: np.ndarray
) -> tuple[np.ndarray, list[float]]:
    """1. to 3. from a first guess `out`; labels (-1: left out) and the objective on the way.

    `solve(space, labels)` searches a space; labels are where it may start from.
    """
    best, lowest, history = np.full(space.n, -1), np.inf, []
    labels = None
    for _ in range(6):  # most searches are steady after two
        inside = np.flatnonzero(~out)
        if len(inside) == 0:
            break
        some = part(space, inside)
        now = solve(some, None if labels is None else labels[inside])  # 1.
        z = np.full(space.n, -1)
        z[inside] = now.labels
        space.move(z, now, np.inf, price)  # 2.
        J = objective(space, z, price)
        if not lowest - J > 1e-9 * abs(J):  # 3.
            break
        best, lowest, labels = z, J, z
        history.append(J)
        if np.array_equal(out, z < 0):
            break
        out = z < 0
    nobody = price * float(space.rows.w.sum())
    if nobody < lowest:
        return np.full(space.n, -1), [nobody]
    z = best.copy()
    if (z >= 0).any():
        z[z >= 0] = without_gaps(z[z >= 0])[0]
    return z, history


def tail_price(divergences: np.ndarray) -> float:
    """A price that hardly any ordinary row reaches."""
    known = divergences[np.isfinite(divergences)]
    if len(known) == 0:
        return 1.0
    middle, high = np.quantile(known, [0.75, 0.95])
    decay = (high - middle) / np.log(5.0)
    price = middle + decay * np.log(0.25 * len(known) / CHANCE)
    return float(price) or float(known.max()) or 1.0


def far_rows(X: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Rows with at most CLUMP others nearer than twice the distance of two rows, or with at most
    SHARE of all rows around them where the rest is VERY_FAR."""
    n = len(X)
    lonely = np.zeros(n, bool)
    group = min(CLUMP, n // 20)
    if group < 1:
        return lonely
    some = X[np.sort(rng.choice(n, min(n, 256), replace=False))].astype(np.float64)
    apart = squared_distances(some, some)[np.triu_indices(len(some), 1)]
    usual = float(np.median(apart[apart > 0])) if (apart > 0).any() else 0.0
    if not 0 < usual < np.inf:
        return lonely
    limit = FAR**2 * usual
    middle = np.median(some, axis=0)
    near_middle = ((some - middle) ** 2).sum(axis=1) <= limit / 4
    for a in range(0, n, 4096):
        rows = X[a : a + 4096].astype(np.float64) - middle
        away = np.einsum("ij,ij->i", rows, rows)
        # A row this near the middle is within the limit of the sample's rows there.
        check = np.flatnonzero(away > limit / 4) if near_middle.sum() > 2 else np.arange(len(rows))
        if check.size:
            D = np.partition(squared_distances(rows[check] + middle, some), 1, axis=1)[:, 1]
            # A clump may be in the sample itself: very far from the middle is enough to be asked.
            very = away[check] > VERY_FAR**2 * usual
            lonely[a + check[(limit < D) | very]] = True
    alone = np.zeros(n, bool)
    if lonely.sum() > max(SHARE * n, CLUMP * 100):  # so many are no exception
        return alone
    for i in np.flatnonzero(lonely):
        d2 = ((X - X[i].astype(np.float64)) ** 2).sum(axis=1)
        around = int((d2 <= limit).sum())
        rest = np.partition(d2, min(int(SHARE * n), n - 1))[min(int(SHARE * n), n - 1)]
        alone[i] = around <= group or (around <= SHARE * n and rest > VERY_FAR**2 * usual)
    return alone


def gross_rows(rows: EncodedRows) -> np.ndarray:
    """Rows with a number WIDE interquartile ranges from the middle of its column, if at most SHARE
    of the column (or CLUMP rows) are so far off."""
    found = np.zeros(rows.n, bool)
    for j in np.flatnonzero(rows.layout.family == SQUARED):
        there = rows.P[:, rows.layout.block[j]] > 0
        low, middle, high = np.quantile(rows.T[there, j], [0.25, 0.5, 0.75])
        wide = there & (np.abs(rows.T[:, j] - middle) > WIDE * (high - low)) & (high > low)
        if wide.sum() <= max(SHARE * there.sum(), min(CLUMP, there.sum() // 20)):
            found |= wide
    return found


def remark_on_far(far: np.ndarray) -> str:
    """What a user should know about rows that were set aside."""
    rows = "1 row is" if len(far) == 1 else f"{len(far)} rows are"
    return (
        f"{rows} far from all others (the first is row {int(far[0])}) and played no part in "
        "finding the clusters; the label is that of the nearest one, and -1 with "
        "outlier_penalty='auto'"
    )


def check_outlier_penalty(value: Any) -> Any:
    """None, "auto" or a number > 0."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return value
    says = (
        f"outlier_penalty={value!r} must be a number > 0, 'auto' or None. It is what one row costs "
        "that is in no cluster, in the units of the distance (squared distance, or nats)."
    )
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(says)
    if not 0 < float(value) < np.inf:
        raise ValueError(says)
    return float(value)
