"""How many ellipses: the classification likelihood against what the clusters' parameters cost.

A cluster has d(d + 3)/2 + 1 parameters (mean, covariance, share). With λ = that times log n the
objective is ICL, the integrated classification likelihood (Biernacki, Celeux & Govaert 2000): BIC
with hard assignments. So "auto" needs no more than to minimise J at this λ over all k.

1. Small clusters merged down to one: J(k) for every k, before rows are reassigned.
2. Around the lowest of these, J(k) with rows reassigned and moved; further while it falls.
3. The search (`search.py`) at this λ, from the best of them; the staircase takes in what it finds.

ICL assumes that clusters are Gaussian. A ring, a crescent or a heavy tail repays several ellipses
too, and the more rows there are, the surer ICL is of them. So the strength of the evidence does not
come from ICL but from three questions:

4. *Are they apart?* Each cluster and the one nearest to it are looked at along the line that tells
   them best apart (Fisher 1936). They are apart if there are fewer rows half-way than on each side.
5. *Are they found again?* Each half of the rows is searched alone; its clusters divide all rows.
   The agreement is the mean adjusted Rand index with the division that was found.
6. *Is each a single one?* Two classes that overlap have no valley. So the division into one more
   is compared on held-out rows, and two Gaussians with one in each cluster (`howmany/doubts.py`).

Strong evidence needs 4. and 5. for every cluster, moderate evidence for three of five. It is
weak if a cluster holds two. It is weak, too, where clusters have few rows for their parameters: two
groups in many columns then stay one ellipse in the whole and in its halves, because no division
repays a further covariance.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from madbayes._model.fitting import Options
from madbayes._partition.seeding import draw_order
from madbayes._rows.progress import Stage
from madbayes._rows.rows import Rows
from madbayes._rows.threads import patient
from madbayes._search.driver import by_size
from madbayes.elliptical import ellipse_kernels as kernels
from madbayes.elliptical.search import Result, cells, find, finish, sample, search, settle
from madbayes.elliptical.space import (
    Division,
    Ellipses,
    Space,
    assign,
    divide,
    merge_tree,
    merged,
    move_rows,
    terms,
)
from madbayes.howmany.densities import MIN_ROWS, explain
from madbayes.howmany.doubts import FINER_GAIN, doubt_single
from madbayes.howmany.links import WINDOW
from madbayes.howmany.staircase import Staircase, Strength

VALLEY = 3.0  # standard deviations: the line was chosen on the rows that are counted
MOST = 0.6  # share of clusters that are apart, for moderate evidence; all of them for strong
AGAIN, PARTLY = 0.8, 0.5  # adjusted Rand index with what the halves find, for the same
ROWS_PER_PARAMETER = 2.0  # of a cluster; with fewer the number that ICL finds is too small
ONE_CLOUD = (
    "No two of these clusters have a valley between them: they may be parts of one cloud that is "
    "not Gaussian. NeighborCut() finds groups of any shape"
)
FEW_ROWS = (
    "There are few rows for a covariance of so many columns, so the number may be too small. "
    "DPMeans() needs fewer"
)


def parameters(d: int) -> float:
    """Of a cluster: mean, covariance and share."""
    return d * (d + 3) / 2 + 1


def information_price(d: int, total: float) -> float:
    """λ of ICL: parameters of a cluster times log n."""
    # Of few rows in one column, pairs that happen to be close would repay less than 12.5.
    return max(parameters(d) * float(np.log(max(total, 1.0))), 12.5)


def bounds(hint: int | None, most: int) -> tuple[int, int]:
    """The least and the largest number that are considered: all, or two thirds to three halves of
    a hint."""
    if hint is None:
        return 1, most
    return min(-(-2 * hint // 3), most), min(3 * hint // 2, most)


def find_once(
    space: Space, hint: int | None, rng: np.random.RandomState, *, max_iter: int, effort: float
) -> tuple[Result, dict[int, Division]]:
    """Steps 1 to 3 from one start: what the search found, and the divisions it began with."""
    low, high = bounds(hint, space.most)
    small = cells(space, 0 if hint is None else high, rng)
    divisions = staircase(space, small, min(low, small.k), min(high, small.k))  # 1. and 2.
    best = min(divisions.values(), key=space.objective)
    here = space if hint is None else replace(space, price=None, most=best.k)
    return search(here, best, rng, max_iter=max_iter, effort=effort), divisions  # 3.


def find_number(
    space: Space,
    rng: np.random.RandomState,
    *,
    hint: int | None,
    n_init: int,
    max_iter: int,
    effort: float,
) -> tuple[Result, Staircase]:
    """All steps at λ = `space.price`; with a hint, the number is near it whatever λ says."""
    assert space.price is not None
    some = sample(space, rng)
    if some is not space:  # scaled up, 16 rows would count as a hundred, and repay a covariance
        total = float(some.w.sum())
        some = replace(some, price=information_price(space.Y.shape[1], total))
    how: dict[str, Any] = {"max_iter": max_iter, "effort": effort}
    found = [find_once(some, hint, rng, **how) for _ in range(n_init)]
    result, divisions = min(found, key=lambda f: some.objective(f[0][0]))
    one_more = gain_of_one_more(some, result[0], divisions)  # 6.
    if some is not space:
        there, here = space, some
        if hint is not None:
            there, here = (replace(s, price=None, most=result[0].k) for s in (space, some))
        result = finish(there, here, result, rng, max_iter=max_iter)
    now, history, converged = result
    share = float(space.w.sum() / some.w.sum())  # J of the sample in units of that of all rows
    errors = {k: division.error * share for k, division in divisions.items()}
    errors[now.k] = min(now.error, errors.get(now.k, np.inf))
    path = Staircase.build(sorted(errors), [errors[k] for k in sorted(errors)])
    price, step = space.price, path.step_of(now.k)
    if hint is not None and step is not None:  # a penalty at which this is the best number
        price = float(np.clip(price, path.price_low[step], path.price_high[step]))
        history = [value + price * now.k for value in history]
    halves = find_again(some, hint, rng, **how) if now.k > 1 else []  # 5.
    return (now, history, converged), judge(path, space, now, price, errors, halves, one_more)


def staircase(space: Space, small: Division, low: int, high: int) -> dict[int, Division]:
    """1. and 2. The divisions for some numbers, among them the best."""
    assert space.price is not None
    into, gone, cost = merge_tree(space, small) if small.k > 1 else (np.empty(0, int),) * 3
    rough = np.r_[np.cumsum(cost)[::-1], 0.0] + space.price * np.arange(1, small.k + 1)  # k = 1, …
    middle = low + int(np.argmin(rough[low - 1 : high]))
    found: dict[int, Division] = {}
    stage = Stage("how many clusters")

    def look(k: int) -> None:
        stage.step()
        stop = small.k - k
        start = space.division(merged(small.labels, into[:stop], gone[:stop]))
        fixed = replace(space, price=None, most=k)
        found[k] = settle(fixed, settle(fixed, start, assign, 8), move_rows, 2)

    wanted = {k for k in range(middle - 2, middle + 3) if low <= k <= high}
    wanted |= {k for k in (1, 2) if low <= k <= high}
    while wanted:
        for k in sorted(wanted):
            look(k)
        best = min(found, key=lambda k: space.objective(found[k]))
        wanted = {k for k in (best - 1, best + 1) if low <= k <= high} - set(found)
    return found


def find_again(
    space: Space, hint: int | None, rng: np.random.RandomState, *, max_iter: int, effort: float
) -> list[tuple[Space, Division]]:
    """5. What each half of the rows finds alone, by steps 1 to 3."""
    side = rng.permutation(len(space.Y)) % 2
    found = []
    for rows in (np.flatnonzero(side == s) for s in (0, 1)):
        w = space.w[rows]
        price = information_price(space.Y.shape[1], float(w.sum()))
        half = replace(space, Y=space.Y[rows], w=w, price=price, most=min(space.most, len(rows)))
        result, _ = find_once(half, hint, rng, max_iter=max_iter, effort=0.3 * effort)
        found.append((half, result[0]))
    return found


def gain_of_one_more(space: Space, now: Division, divisions: dict[int, Division]) -> float:
    """6. How much better one more cluster explains held-out rows, in nats per row."""
    finer = divisions.get(now.k + 1)
    if now.k == 1 or finer is None or len(space.Y) < MIN_ROWS:
        return 0.0
    found = explain(space.Y, {"now": now.labels, "finer": finer.labels})
    return found["finer"] - found["now"]


def judge(
    path: Staircase,
    space: Space,
    now: Division,
    price: float,
    errors: dict[int, float],
    halves: list[tuple[Space, Division]],
    one_more: float,
) -> Staircase:
    """4. to 6. The evidence for this division; other numbers are ranked by ICL."""
    scores = {j: -(error + price * j) for j, error in errors.items()}
    if now.k == 1:
        reason = "no division repays the parameters of its clusters"
        if len(errors) == 1:
            reason = "no other number was allowed"
        return path.decide(1, reason, scores=scores, support=0.0, price=price)
    apart = share_apart(space, now)
    agreement = max(0.0, float(np.mean([agree(space, now, half, d) for half, d in halves])))
    enough = float(now.W.mean()) >= ROWS_PER_PARAMETER * parameters(space.Y.shape[1])
    strength: Strength = "weak"
    reason = f"{apart:.0%} of the clusters have a valley towards the next one"
    if one_more > FINER_GAIN:
        reason += ", but two clusters in place of one explain held-out rows better"
    elif enough and apart >= MOST and agreement >= PARTLY:
        strength = "strong" if apart == 1.0 and agreement >= AGAIN else "moderate"
    path = path.decide(
        now.k,
        reason,
        scores=scores,
        support=apart * agreement,
        price=price,
        strength=strength,
        stability=float(np.mean([d.k == now.k for _, d in halves])),
        agreement=agreement,
        remarks=(() if enough else (FEW_ROWS,)) + (() if apart > 0 else (ONE_CLOUD,)),
    )
    return replace(path, choice=doubt_single(path.best(), space.Y, now.labels))  # 6.


def agree(space: Space, now: Division, half: Space, found: Division) -> float:
    """5. The adjusted Rand index between a division and the one by the clusters of a half."""
    labels = np.zeros(len(space.Y), np.int64)
    patient(kernels.assign, space.Y, found.C, found.A, *terms(half, found), labels)
    return float(adjusted_rand_score(now.labels, labels))


def share_apart(space: Space, now: Division) -> float:
    """4. The share of clusters that have a valley between them and the nearest other one."""
    apart = 0
    for a in range(now.k):
        gap = now.C - now.C[a]
        scatter = (now.S + now.S[a]) + space.phi * np.eye(gap.shape[1])
        line = np.linalg.solve(scatter, gap[:, :, None])[:, :, 0]
        length = np.einsum("cd,cd->c", gap, line) * (now.W + now.W[a])
        length[a] = np.inf
        b = int(np.argmin(length))
        apart += valley(space, now.labels, a, b, line[b]) > VALLEY
    return apart / now.k


def valley(space: Space, labels: np.ndarray, a: int, b: int, line: np.ndarray) -> float:
    """4. How much fewer rows are half-way than on the emptier side, in standard deviations."""
    t = [space.Y[labels == c] @ line for c in (a, b)]
    w = [space.w[labels == c] for c in (a, b)]
    low, high = (float(np.average(x, weights=v)) for x, v in zip(t, w, strict=True))
    if not high > low:
        return 0.0
    t_all, w_all = np.concatenate(t), np.concatenate(w)
    places = np.array([low, (low + high) / 2, high])[:, None]
    count = (np.abs(t_all - places) < WINDOW / 2 * (high - low)) @ w_all
    left, middle, right = np.sqrt(count + 0.375)
    return float(np.sqrt(2.0) * (min(left, right) - middle))


def find_ellipses(
    Y: np.ndarray,
    w: np.ndarray,
    options: Options,
    *,
    n_clusters: int | None,
    reg_covar: float,
    covariance_penalty: float | None,
    min_cluster_size: int | None,
) -> Ellipses:
    """The search on standardized rows: a given number, at a penalty, or as many as pay."""
    n, d = Y.shape
    columns = np.flatnonzero(np.ptp(Y, axis=0) > 0)  # a constant one says nothing
    rows = Y[:, columns if columns.size else [0]]
    # So that the order of the rows does not matter, nor whether a row is repeated or has a weight.
    order = draw_order(Rows(rows))
    rows = rows[order]
    new = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))
    which = np.empty(n, np.int64)
    which[order] = np.cumsum(new) - 1
    nu = 1.0 if covariance_penalty is None else float(covariance_penalty)
    most = min(n, options.cap or n) if n_clusters is None else n_clusters
    rows = np.ascontiguousarray(rows[new])
    weight = np.bincount(which, w)
    space = Space(rows, weight, reg_covar * nu, nu, None, most, min_cluster_size or 1)
    rng, path, penalty = options.random_state, None, 0.0
    common: dict[str, Any] = {
        "max_iter": options.max_iter,
        "effort": options.effort,
        "n_init": options.n_init,
    }
    if n_clusters is None and options.penalty == "auto":
        space = replace(space, price=information_price(rows.shape[1], float(w.sum())))
        found, path = find_number(space, rng, hint=options.hint, **common)
        penalty = path.best().price
    else:
        if n_clusters is None:
            penalty = options.penalty
            space = replace(space, price=penalty)
        found = find(space, rng, **common)
    now, history, converged = found
    now = space.division(np.argsort(by_size(now.C, now.W))[now.labels])
    scale, level = terms(space, now)
    now = divide(Y, w, now.labels[which], space.phi)  # with all columns
    Sigma = (now.S + space.phi * np.eye(d)) / scale[:, None, None]
    return Ellipses(now, history, converged, penalty, nu, Sigma, level, path)
