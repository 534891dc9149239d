"""A division with a given number of clusters, and the penalty that belongs to it.

A path chooses a number of clusters from a sample of the rows, and proposes a penalty. At that
penalty the search may find another number, because it finds lower divisions than the path does, and
because it sees all rows. The user was told the number of the path, so the fit keeps this number:

1. Search at the proposed penalty. If the result has the right number of clusters, return it.
2. Otherwise search for exactly that number (`price.fixed`).
3. Choose a penalty at which neither a split nor a merge of the division found in step 2 pays.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._search.driver import search
from madbayes._search.price import fixed, per_cluster

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
    """The lowest division into `number` clusters that the search finds.

    It has fewer clusters if fewer rows are different. `solve` searches a space; `penalty` is the
    one to try first.
    """
    options: dict[str, Any] = {
        "random_state": random_state,
        "effort": effort,
        "n_init": n_init,
    }
    if penalty is not None:  # 1.; the cap keeps the search near the number
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
    """A penalty above `low` and below `high`, as near to `wanted` as possible.

    `low`, `high` and `error` may be slightly negative by rounding.
    """
    low, high, error = max(low, 0.0), max(high, 0.0), max(error, 0.0)
    high = min(high, max(4 * low, 4 * error) or 1.0)  # for one cluster, `high` is infinite
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
    """A penalty at which a printed algorithm finds `number` clusters, and the result of that run.

    The printed algorithms open a cluster when one row saves more than the penalty, so their
    penalties are on another scale than those of the search. A larger penalty nearly always gives
    fewer clusters: double or halve the penalty until `number` lies in an interval, then halve the
    interval (of the logarithms), 24 penalties at most. If no penalty gives `number`, the run with
    the nearest number is returned. `known` maps the penalties of an interrupted fit to the numbers
    found; new ones are added to it.
    """
    known = {} if known is None else known
    low, high = 0.0, np.inf
    penalty, best = first, None
    for _ in range(24):
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
