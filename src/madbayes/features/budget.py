"""What a search for features may cost: counted, so that the same seed gives the same result.

The exchanges end after so many tries in vain (`default_patience`, times `harder`), or when they
have cost as much as so many should (`budget`). Until the last polish rows search FEW_NODES at most,
and a round that gains less than `least_gain` is the last of its polish.
"""

import numpy as np

from madbayes.features.allocation import Allocation

TINY = 32  # rows: up to here any allocation is worth a try
SMALL = 2**14  # values in X: up to here a polish is always worth finishing
MOST_PATIENCE = 60  # tries in vain, by default
NO_SEARCH = 0.01  # effort below which features are not exchanged: the algorithm as printed
TRIES = 30  # that are paid for at least
VISITS = 2**14  # of rows, for each try in vain that is allowed: what a search may cost …
PASSES = 20  # … or so many passes over all rows …
PRODUCTS = 2**31  # … but no more than so many products, more only with more effort
LEAST_GAIN = 1e-5  # part of J that a round of a polish gains at least
FEW_NODES = 512  # of the search tree of a row (beyond 12 features) until the last polish
ALL_NODES = 2**24  # of the search trees of all rows together in the last polish


def few(shape: tuple[int, int]) -> int:
    """Starts of a search."""
    return 3 if shape[0] * shape[1] <= SMALL else 1


def default_patience(shape: tuple[int, int], effort: float) -> int:
    """Tries in vain before the search ends: fewer where each takes long, none with hardly any."""
    if effort < NO_SEARCH:
        return 0
    most = MOST_PATIENCE if shape[0] > TINY else 150
    return round(effort * float(np.clip(3e6 / (shape[0] * max(shape[1], 1)), 10, most)))


def harder(state: Allocation) -> float:
    """How many more tries so many features need: about as many as there are pairs of them."""
    K = min(state.K, state.d)
    pairs = max(1.0, (1 + K) * (2 + K) / 24)
    return pairs if state.n > TINY else min(2.0, pairs)


def budget(state: Allocation, patience: float) -> float:
    """2. What the tries may cost together."""
    passes = max(patience * harder(state), TRIES) * max(VISITS / state.n, PASSES)
    return min(passes * state.one_pass(), max(1, patience / MOST_PATIENCE) * PRODUCTS)


def least_gain(state: Allocation) -> float:
    """The part of J that a round of a polish, but the last, should gain at least."""
    return LEAST_GAIN if state.n * state.d > SMALL else 0.0


def last_nodes(state: Allocation) -> int:
    """Nodes of the search tree of each row in the last polish: fewer where rows are many."""
    return int(np.clip(ALL_NODES / state.n, FEW_NODES, Allocation.most_nodes))
