"""Shares one after another, several of them at a time (optimistic concurrency, Pan et al. 2013).

A printed algorithm may be serial: a row sees what rows before it opened. Shares are worked on at
the same time as if those before them opened nothing. The first share that opened something was
right, and so were those before it; those behind it begin again with what it opened.
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
    """`function(share, state, known, *args)` leaves the state alone and returns a new one, the
    rows to put behind those of `known`, and a remark.

    Returns the states, all of `known`, and the remarks. `opens`: something will probably be opened.
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
