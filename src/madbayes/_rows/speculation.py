"""Run a serial step on several shares at a time (optimistic concurrency, Pan et al. 2013).

In some printed algorithms a row sees what the rows before it opened. Several shares are computed at
the same time, as if none of them opened anything. The results are right up to and including the
first share that opened something. The shares after it are computed again, with what it opened.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from madbayes._rows.executor import Executor


def in_turn(
    executor: Executor,
    function: Callable[..., tuple[Any, np.ndarray, Any]],
    shares: list[Any],
    states: list[Any],
    known: np.ndarray,
    args: tuple,
    opens: bool,
) -> tuple[list[Any], np.ndarray, list[Any]]:
    """Apply `function` to all shares, as if one share came after the other.

    `function(share, state, known, *args)` does not change the state. It returns a new state, the
    rows to append to `known`, and a remark. `opens`: the first shares will probably open something,
    so begin with one share at a time. Returns the states, `known` with all new rows, the remarks.
    """
    states, remarks = list(states), []
    first, window = 0, 1 if opens else len(shares)
    while first < len(shares):
        some, shared = slice(first, first + window), executor.once(np.array, known)
        tried = executor.map(function, shares[some], states[some], args=(shared, *args))
        seen = executor.ask(opened_by, tried)
        right = next((s for s, (new, _) in enumerate(seen) if len(new)), len(seen) - 1) + 1
        states[first : first + right] = executor.map(state_of, tried[:right])
        remarks += [remark for _, remark in seen[:right]]
        new = seen[right - 1][0]
        known = np.vstack([known, new])
        first, window = first + right, 1 if len(new) else 2 * window
    return states, known, remarks


def state_of(tried: tuple[Any, np.ndarray, Any]) -> Any:
    return tried[0]


def opened_by(tried: tuple[Any, np.ndarray, Any]) -> tuple[np.ndarray, Any]:
    return tried[1:]
