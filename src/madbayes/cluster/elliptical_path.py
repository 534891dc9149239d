"""How many ellipses: the classification likelihood against what the clusters' parameters cost.

A cluster has d(d + 3)/2 + 1 parameters (mean, covariance, share). With λ = that times log n the
objective is ICL, the integrated classification likelihood (Biernacki, Celeux & Govaert 2000): BIC
with hard assignments. So "auto" needs no more than to minimise J at this λ over all k.

1. Small clusters merged down to one: J(k) for every k, before rows are reassigned.
2. Around the lowest of these, J(k) with rows reassigned and moved; further while it falls.
3. The search (`elliptical_search`) at this λ, from the best of them; the staircase takes in what it
   finds.
"""

from dataclasses import dataclass, replace

import numpy as np

from madbayes._engine.progress import Stage
from madbayes._engine.threads import Run
from madbayes._search.staircase import Choice, Staircase, in_words
from madbayes.cluster.elliptical_search import cells, finish, sample, search, settle
from madbayes.cluster.elliptical_space import Division, Space, merge_tree, merged

AROUND = 2  # numbers on each side of the best that are looked at
DECISIVE = 10.0  # a difference of J, 2 log of a Bayes factor, that leaves no doubt (Kass & Raftery)


def information_price(d: int, total: float) -> float:
    """λ of ICL: parameters of a cluster times log n."""
    return (d * (d + 3) / 2 + 1) * float(np.log(max(total, 2.0)))


@dataclass(frozen=True)
class Found:
    division: Division
    history: list[float]
    converged: bool
    path: Staircase
    choice: Choice


def find_number(
    space: Space,
    rng: np.random.RandomState,
    run: Run,
    *,
    between: tuple[int, int],
    max_iter: int,
    effort: float,
) -> Found:
    """Steps 1 to 3; `space.price` is λ, `between` the numbers allowed."""
    assert space.price is not None
    low, high = between
    some = sample(space, rng)
    small = cells(some, min(high, 3 * low), rng, run)
    divisions = staircase(some, small, low, min(high, small.k))
    best = min(divisions, key=lambda k: some.objective(divisions[k]))
    if low == 1:
        result = search(some, divisions[best], rng, max_iter=max_iter, effort=effort)
    else:  # as many as were asked for, at whatever price
        fixed = replace(some, price=None, most=best)
        result = search(fixed, divisions[best], rng, max_iter=max_iter, effort=effort)
    now = result[0]
    if now.k not in divisions or now.error < divisions[now.k].error:
        divisions[now.k] = now
    best = now.k
    errors = {k: division.error for k, division in divisions.items()}
    path = Staircase.build(sorted(errors), [errors[k] for k in sorted(errors)])
    price = space.price
    step = path.step_of(best)
    if low > 1 and step is not None:
        price = float(np.clip(price, path.price_low[step] * (1 + 1e-9), path.price_high[step]))
    there = space if low == 1 else replace(space, price=None, most=best)
    here = some if low == 1 else replace(some, price=None, most=best)
    if some is space:
        division, history, converged = result
    else:
        division, history, converged = finish(there, here, result, rng, max_iter=max_iter)
    choice = judge(errors, division.k, price)
    return Found(division, history, converged, replace(path, choice=choice), choice)


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
        found[k] = settle(replace(space, price=None, most=k), start, 8)

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
