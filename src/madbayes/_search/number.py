"""A division with a given number of clusters, and the penalty that belongs to it.

A path chooses a number and proposes a penalty, from a sample. What the search finds at that penalty
may be another number: the search is better than the path, and the sample is not the data. The
number is what the user was told, so it is kept:

1. Search at the proposed penalty. If it finds the number, this is all.
2. Otherwise search at exactly that number (`price.fixed`).
3. The penalty moves to where neither a split of that division nor a merge of it pays.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._search.driver import search
from madbayes._search.price import fixed, per_cluster

ROUNDS = 24  # runs of a printed algorithm in search of a penalty

Found = tuple[Any, list[float], float]  # division, history, penalty


def search_number(
    space: Any,
    number: int,
    penalty: float | None,
    *,
    max_clusters: int | None,
    random_state: np.random.RandomState,
    effort: float = 1.0,
    n_init: int = 1,
    centers: Sequence[np.ndarray] = (),
    solve: Callable[..., tuple[Any, list[float]]] = search,
) -> Found:
    """The lowest division into `number` clusters that is found (fewer where rows are equal).

    `solve` searches a space; `penalty`: the one to try first.
    """
    options: dict[str, Any] = {
        "random_state": random_state,
        "effort": effort,
        "n_init": n_init,
    }
    if penalty is not None:  # 1.; never far beyond the number
        cap = min(max_clusters or space.n, 2 * number + 8)
        priced = replace(space, price=per_cluster(penalty, cap, space.n))
        now, history = solve(priced, **options, centers=centers)
        if now.k == number:
            return now, history, penalty
    exactly = replace(space, price=fixed(number, space.n))
    fitting = [C for C in centers if len(C) == number]
    now, history = solve(exactly, **options, centers=fitting)  # 2.
    low, high = exactly.stable_penalties(now, random_state)  # 3.
    penalty = between(low, high, penalty, now.objective)
    return now, [value + penalty * now.k for value in history], penalty


def between(low: float, high: float, wanted: float | None, error: float) -> float:
    """A penalty above `low` and below `high`, near the wanted one; rounding may make them < 0."""
    low, high, error = max(low, 0.0), max(high, 0.0), max(error, 0.0)
    high = min(high, max(4 * low, 4 * error) or 1.0)  # one cluster: anything above
    if low < high:
        middle = float(np.sqrt(low) * np.sqrt(high)) if low > 0 else high / 2
        margin = 1.01 if high > 1.05 * low else (high / low) ** 0.25
        return middle if wanted is None else float(np.clip(wanted, low * margin, high / margin))
    return float(np.sqrt(low) * np.sqrt(high)) or 1.0


def printed_number(
    solve: Callable[[float], Any],
    count: Callable[[Any], int],
    number: int,
    first: float,
    known: dict[float, int] | None = None,
) -> tuple[float, Any]:
    """A penalty at which a printed algorithm finds `number` clusters, and what it finds.

    The printed algorithms open a cluster when one row repays the penalty, so theirs are of another
    scale than those of the search. The number falls with the penalty, nearly: doublings, then
    halvings of the interval; the nearest number where the right one is passed over. `known`: what
    was found at which penalty, before it was interrupted; it is added to.
    """
    known = {} if known is None else known
    low, high = 0.0, np.inf
    penalty, best = first, None
    for _ in range(ROUNDS):
        found = None if penalty in known else solve(penalty)
        k = known.setdefault(penalty, -1 if found is None else count(found))
        if best is None or (abs(k - number), k) < (abs(best[2] - number), best[2]):
            best = (penalty, found, k)
        if k == number:
            break
        if k > number:
            low = penalty
        else:
            high = penalty
        if high <= low * (1 + 1e-9):
            break
        inside = 0 < low and np.isfinite(high)
        penalty = float(np.sqrt(low * high)) if inside else 2 * low if low > 0 else high / 2
        if not np.isfinite(penalty) or penalty <= 0:
            break
    assert best is not None
    return best[0], solve(best[0]) if best[1] is None else best[1]
