"""A price that falls with the number of clusters: the small-variance limit of Pitman-Yor mixtures.

Objective: J = error + λ Σ_{j ≤ k} j^(-d), with a discount 0 <= d < 1; d = 0 is the price λk of
DP-means. docs/families.md derives it. The sum is concave in k, so at k clusters it lies below its
tangents: for a price t between λ(k+1)^(-d) and λ k^(-d), what lowers error + tk lowers J too.

1. Search at the price that one more cluster has.
2. Repeat at the price that belongs to the number found, while J falls.
3. The same from the price of a larger number, because a concave price has several valleys.

Where even the last clusters cost less than what noise saves, the lowest J has a cluster for each
row: a discount needs a penalty far above the noise of a cluster.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


def total_price(penalty: float, discount: float, k: int) -> float:
    """λ Σ_{j ≤ k} j^(-d)."""
    return penalty * float((np.arange(1, k + 1, dtype=np.float64) ** -discount).sum())


def check_discount(discount: Any, algorithm: str) -> float:
    """A number from 0 up to, but not, 1."""
    known = isinstance(discount, int | float | np.integer | np.floating)
    if isinstance(discount, bool) or not known or not 0 <= float(discount) < 1:
        raise ValueError(
            f"discount={discount!r} must be a number >= 0 and < 1: cluster number j costs "
            "penalty / j**discount, and 0 is the price of DP-means."
        )
    if discount and algorithm == "paper":
        raise ValueError(f"discount={discount!r} is for algorithm='search'.")
    return float(discount)


def search_discounted(
    solve: Callable[[float], tuple[Any, float, int]], penalty: float, discount: float, most: int
) -> tuple[Any, float, float]:
    """1. to 3. What was found, J, and the constant price at which it was found.

    `solve(price)` searches at a constant price: what it found, the error and the number.
    """
    best: tuple[Any, float, float] | None = None
    known: dict[float, tuple[Any, float, int]] = {}
    for start in (1, 8):  # numbers of clusters whose price is tried first
        if start > most:
            break
        price, lowest = penalty * (start + 1) ** -discount, np.inf
        while True:
            if price not in known:
                known[price] = solve(price)
            found, error, k = known[price]
            J = error + total_price(penalty, discount, k)
            if not J < lowest:
                break
            lowest = J
            if best is None or J < best[1] * (1 - 1e-12):
                best = found, J, price
            price = penalty * (k + 1) ** -discount
        if k == most:
            break
    assert best is not None
    return best
