"""The search for medoids, their number given or open (`kmedoids` and `dp_medoids` say for what).

1. *Grow.* The first medoid is the best single row, each further one the row that saves most
   (Kaufman & Rousseeuw 1990, BUILD), while that is more than the penalty.
2. *Swap.* One row after the other is a candidate: what it would change to put it in the place of
   any of the medoids follows from one look at each row, its nearest and its second nearest medoid.
   The best of these swaps is made at once if it lowers J (Schubert & Rousseeuw 2021, "Fast and
   eager k-medoids clustering"). With a penalty the same look tells what one more medoid would
   bring, and one fewer.
3. *Renew.* A few neighbouring medoids are taken away, rows drawn at random (the more a row pays the
   more likely) take their places, and 2. follows; kept if J is lower. Until this was in vain so
   many times in a row.

What swaps alone miss are mostly exchanges of two medoids at once, which 3. makes: of 300 problems
of 8 to 13 rows, 1. and 2. alone solve nine in ten, the three together nearly all.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from madbayes._model.fitting import Options
from madbayes._rows.threads import patient
from madbayes._search.number import between
from madbayes.medoids import medoid_kernels as kernels
from madbayes.medoids.dissimilarity import paid

WORK = 4e7  # pairs of rows that all of these may look at, roughly; many rows are left as they are


@dataclass(frozen=True)
class Medoids:
    """Medoids (rows of D) and how they were found; J includes the penalty, if there is one."""

    rows: np.ndarray
    objective: float
    history: list[float]
    n_iter: int
    converged: bool


def assign(D: np.ndarray, medoids: np.ndarray) -> tuple[np.ndarray, ...]:
    """Nearest and second nearest medoid of each row, and what they cost."""
    n = len(D)
    near, second, dn, ds = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n)
    kernels.rank(D, medoids, len(medoids), near, second, dn, ds)
    return near, second, dn, ds


def grow(D: np.ndarray, weight: np.ndarray, cap: int, penalty: float = -1.0) -> np.ndarray:
    """1. The best single row, then always the row that saves most, if that is above `penalty`."""
    medoids = np.empty(cap, np.int64)
    medoids[0] = patient(kernels.totals, D, weight).argmin()
    costs = D[medoids[0]].astype(np.float64)
    return medoids[: patient(kernels.grow, D, weight, medoids, 1, cap, penalty, costs)]


def swap(
    D: np.ndarray,
    weight: np.ndarray,
    medoids: np.ndarray,
    *,
    max_iter: int,
    cap: int | None = None,
    penalty: float = 0.0,
) -> Medoids:
    """2. Passes of candidates until none of them helps, from the given medoids.

    With a penalty and room below `cap`, the number of medoids is open too.
    """
    k, n = len(medoids), len(D)
    slots = np.empty(cap or k, np.int64)
    slots[:k] = medoids
    near, second, dn, ds = assign(D, medoids)
    history = [paid(weight, dn) + penalty * k]
    n_iter = idle = 0
    while n_iter < max_iter and idle < n:
        n_iter += 1
        k, total, idle = patient(
            kernels.sweep, D, weight, slots, k, len(slots), penalty, near, second, dn, ds, idle
        )
        history.append(total + penalty * k)
    return Medoids(slots[:k].copy(), history[-1], history, n_iter, idle >= n)


def renew(
    D: np.ndarray,
    weight: np.ndarray,
    found: Medoids,
    *,
    max_iter: int,
    effort: float,
    random_state: np.random.RandomState,
    cap: int | None = None,
    penalty: float = 0.0,
) -> Medoids:
    """3. Other medoids in the place of a few neighbours, as long as that helps now and then."""
    n, vain = len(D), 0
    most = len(found.rows) if cap is None else cap
    if n < 3 or most < 2 or effort * WORK < n**2:
        return found
    order = np.argsort(patient(kernels.totals, D, weight), kind="stable")  # not that of storage
    while found.converged:
        trials = 16 + 2 * len(found.rows)  # renewals in vain before the search ends
        if vain >= effort * min(trials, WORK / n**2):
            break
        start = others(D, weight, found.rows, order, cap, random_state)
        new = swap(D, weight, start, max_iter=max_iter, cap=cap, penalty=penalty)
        vain += 1
        if new.converged and new.objective < found.objective * (1 - kernels.TOL):
            history = [*found.history, new.objective]
            found = replace(new, history=history, n_iter=found.n_iter + new.n_iter)
            vain = 0
    return found


def others(
    D: np.ndarray,
    weight: np.ndarray,
    medoids: np.ndarray,
    order: np.ndarray,
    cap: int | None,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """The medoids with a few neighbours exchanged; with `cap`, also for one more or one fewer."""
    k = len(medoids)
    medoids = order[np.isin(order, medoids)]
    first = medoids[random_state.randint(k)]
    medoids = medoids[np.argsort(D[first, medoids], kind="stable")]
    taken = put = random_state.randint(1, min(3, k) + 1)
    if cap is not None:
        put = int(np.clip(taken + random_state.randint(-1, 2), 1, cap - k + taken))
    start = medoids[taken:]
    free = np.ones(len(D), bool)
    free[start] = False
    costs = D[start].min(axis=0) if start.size else np.ones(len(D))
    for _ in range(put):
        mass = np.cumsum((weight * costs * free)[order])
        if mass[-1] <= 0.0:  # nothing is left to pay: any row will do
            mass = np.cumsum(free[order])
        at = np.searchsorted(mass, random_state.uniform() * mass[-1], side="right")
        row = order[min(int(at), len(D) - 1)]
        costs = np.minimum(costs, D[row]) if start.size else D[row]
        start = np.append(start, row)
        free[row] = False
    return start


def search(
    D: np.ndarray, weight: np.ndarray, penalty: float, options: Options, *, cap: int
) -> Medoids:
    """1. to 3. with an open number of medoids. More starts are random rows."""
    rng = options.random_state
    common: dict[str, Any] = {"cap": cap, "penalty": penalty, "max_iter": options.max_iter}
    first = grow(D, weight, cap, penalty)
    starts = [first, *(rng.permutation(len(D))[: len(first)] for _ in range(options.n_init - 1))]
    found = []
    for start in starts:
        one = swap(D, weight, start, **common)
        found.append(renew(D, weight, one, effort=options.effort, random_state=rng, **common))
    return min(found, key=lambda one: one.objective)


def search_number(
    D: np.ndarray, weight: np.ndarray, number: int, penalty: float, options: Options, *, cap: int
) -> tuple[Medoids, float]:
    """As many medoids as were chosen, and a penalty at which no other number is better nearby.

    At the proposed penalty if the search finds that number there, otherwise with the number fixed
    and a penalty between what one more medoid would save and what one fewer would cost.
    """
    found = search(D, weight, penalty, options, cap=min(cap, 2 * number + 8))
    if len(found.rows) == number:
        return found, penalty
    found = swap(D, weight, grow(D, weight, number), max_iter=options.max_iter)
    found = renew(
        D,
        weight,
        found,
        max_iter=options.max_iter,
        effort=options.effort,
        random_state=options.random_state,
    )
    near, _, costs, other = assign(D, found.rows)
    losses = np.bincount(near, weight * (other - costs), number) if number > 1 else [np.inf]
    more = np.append(found.rows, 0)
    saved = costs.copy()
    if number < len(D):
        patient(kernels.grow, D, weight, more, number, number + 1, -1.0, saved)
    gain = paid(weight, costs - saved)
    penalty = between(gain, float(np.min(losses)), penalty, found.objective)
    history = [value + penalty * number for value in found.history]
    result = Medoids(found.rows, history[-1], history, found.n_iter, found.converged)
    return result, penalty


def by_size(D: np.ndarray, weight: np.ndarray, medoids: np.ndarray) -> np.ndarray:
    """Medoids of the heaviest cluster first; among equals, whatever the order of the rows."""
    near, _, dn, _ = assign(D, medoids)
    size = np.bincount(near, weights=weight, minlength=len(medoids))
    spread = np.array([paid(weight[near == s], dn[near == s]) for s in range(len(medoids))])
    reach = np.array([paid(weight, D[m]) for m in medoids])
    return medoids[np.lexsort((reach, spread, -size))]


def never_rising(history: list[float], last: float) -> np.ndarray:
    """The history with its last value measured afresh; earlier ones must not lie below it.

    They differ by rounding: running sums are not rounded like sums made at once.
    """
    values = np.array([*history[:-1], last])
    return np.maximum.accumulate(values[::-1])[::-1]
