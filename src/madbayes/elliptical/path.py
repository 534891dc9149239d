"""How many ellipses: the classification likelihood against what the clusters' parameters cost.

A cluster has d(d + 3)/2 + 1 parameters (mean, covariance, share). With λ = that times log n the
objective is ICL, the integrated classification likelihood (Biernacki, Celeux & Govaert 2000): BIC
with hard assignments. So "auto" needs no more than to minimise J at this λ over all k.

1. Small clusters merged down to one: J(k) for every k, before rows are reassigned.
2. Around the lowest of these, J(k) with rows reassigned and moved; further while it falls.
3. The search (`elliptical_search`) at this λ, from the best of them; the staircase takes in what it
   finds.
4. *Are they groups?* Rows that are not Gaussian (heavy tails, a crescent) repay several ellipses
   too. So pairs of clusters are looked at along the line that tells them best apart (Fisher 1936):
   where there are fewer rows half-way than on each side, as in `links`, they are apart. If no two
   of them are, the evidence is weak, and it says why.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._model.fitting import Options
from madbayes._partition.seeding import draw_order
from madbayes._rows.progress import Stage
from madbayes._rows.rows import Rows
from madbayes._search.driver import by_size
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
from madbayes.howmany.links import WINDOW
from madbayes.howmany.staircase import Choice, Staircase, in_words

LEAST = 12.5  # of few rows in one column, pairs that happen to be close would repay less
AROUND = 2  # numbers on each side of the best that are looked at
VALLEY = 3.0  # standard deviations: the line was chosen on the rows that are counted
DOUBT = 1 / 3  # the most support without a valley
ONE_CLOUD = (
    "No two of these clusters have a valley between them: they may be parts of one cloud that is "
    "not Gaussian. NeighborCut() finds groups of any shape"
)
DECISIVE = 10.0  # a difference of J, 2 log of a Bayes factor, that leaves no doubt (Kass & Raftery)


def information_price(d: int, total: float) -> float:
    """λ of ICL: parameters of a cluster times log n."""
    return max((d * (d + 3) / 2 + 1) * float(np.log(max(total, 1.0))), LEAST)


def find_number(
    space: Space,
    rng: np.random.RandomState,
    *,
    hint: int | None,
    n_init: int,
    max_iter: int,
    effort: float,
) -> tuple[Result, Staircase]:
    """Steps 1 to 3 at λ = `space.price`; with a hint, the number is near it whatever λ says."""
    assert space.price is not None
    low, high = 1, space.most
    if hint is not None:
        low, high = min(-(-2 * hint // 3), high), min(hint + max(1, hint // 2), high)
    some = sample(space, rng)
    found: list[tuple[Result, dict[int, Division]]] = []
    for _ in range(n_init):
        small = cells(some, 0 if hint is None else high, rng)
        divisions = staircase(some, small, min(low, small.k), min(high, small.k))  # 1. and 2.
        k = min(divisions, key=lambda k: some.objective(divisions[k]))
        here = some if hint is None else replace(some, price=None, most=k)
        result = search(here, divisions[k], rng, max_iter=max_iter, effort=effort)  # 3.
        found.append((result, divisions))
    result, divisions = min(found, key=lambda f: some.objective(f[0][0]))
    there, here = (space, some)
    if hint is not None:
        there, here = (replace(s, price=None, most=result[0].k) for s in (space, some))
    result = result if some is space else finish(there, here, result, rng, max_iter=max_iter)
    errors = {k: division.error for k, division in divisions.items()}
    now, history, converged = result
    errors[now.k] = min(now.error, errors.get(now.k, np.inf))
    numbers = sorted(errors)
    path = Staircase.build(numbers, [errors[k] for k in numbers])
    price, step = space.price, path.step_of(now.k)
    if hint is not None and step is not None:  # a penalty at which this is the best number
        price = float(np.clip(price, path.price_low[step], path.price_high[step]))
        history = [value + price * now.k for value in history]
    choice = judge(errors, now.k, price)
    if now.k > 1 and not any_valley(space, now):  # 4.
        support = min(choice.support, DOUBT)
        choice = replace(choice, support=support, strength=in_words(support), remarks=(ONE_CLOUD,))
    path = replace(path, choice=choice)
    return (now, history, converged), path


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

    wanted = {k for k in range(middle - AROUND, middle + AROUND + 1) if low <= k <= high}
    wanted |= {k for k in (1, 2) if low <= k <= high}
    while wanted:
        for k in sorted(wanted):
            look(k)
        best = min(found, key=lambda k: space.objective(found[k]))
        wanted = {k for k in (best - 1, best + 1) if low <= k <= high} - set(found)
    return found


def judge(errors: dict[int, float], k: int, price: float) -> Choice:
    """The evidence for k, against the best of the other numbers."""
    value = {j: errors[j] + price * j for j in errors}
    others = sorted((j for j in value if j != k), key=lambda j: (value[j], j))
    gap = min((value[j] - value[k] for j in others), default=DECISIVE)
    support = float(np.clip(gap / DECISIVE, 0.0, 1.0))
    if k == 1:
        reason = "no division repays the parameters of its clusters"
    else:
        reason = f"classification likelihood, {gap:.3g} ahead of the next number"
    return Choice(
        number=k,
        price=price,
        strength="none" if k == 1 else in_words(support),
        support=support if k > 1 else 0.0,
        reason=reason,
        runners_up=tuple((j, -value[j]) for j in others[:5]),
        score=-value[k],
    )


def any_valley(space: Space, now: Division) -> bool:
    """4. Whether some cluster is apart from its nearest one; those farthest from it come first."""
    pairs = []
    for a in range(now.k):
        gap = now.C - now.C[a]
        scatter = (now.S + now.S[a]) + space.phi * np.eye(gap.shape[1])
        line = np.linalg.solve(scatter, gap[:, :, None])[:, :, 0]
        length = np.einsum("cd,cd->c", gap, line) * (now.W + now.W[a])
        length[a] = np.inf
        b = int(np.argmin(length))
        pairs.append((length[b], a, b, line[b]))
    return any(
        valley(space, now.labels, a, b, line) > VALLEY
        for _, a, b, line in sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
    )


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
