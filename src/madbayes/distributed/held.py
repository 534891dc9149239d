"""What a worker does with its share of the rows for the feature models; `features` says why.

These functions run in tasks and never change their arguments.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from madbayes._rows.threads import serial, workers
from madbayes.distributed.local import Share, weights_at
from madbayes.features.allocation import Allocation


class Held(NamedTuple):
    """What is remembered of the rows of a share."""

    Z: np.ndarray
    error: np.ndarray


def nothing(share: Share, K: int = 0) -> Held:
    m = len(share.rows)
    return Held(np.zeros((m, K), np.uint8), np.zeros(m))


def opened(share: Share, held: Held, A: np.ndarray) -> Allocation:
    """The share as an allocation of its own, in arrays that may be changed."""
    state = Allocation.__new__(Allocation)
    state.source, state.run, state.cuts = share.source, serial, share.cuts
    state.weight = share.weight
    state.n, state.d = share.rows.shape
    state.Z, state.A, state.error = held.Z.copy(), A, held.error.copy()
    return state


def one_pass(share: Share, held: Held, A: np.ndarray, how: int) -> tuple[Held, list[Any]]:
    with workers(1):
        state = opened(share, held, A)
        parts = state._map(how)
    return Held(state.Z, state.error), parts


def try_rows(
    share: Share,
    held: Held,
    A: np.ndarray,
    rows_in_turn: Callable[..., int],
    penalty: float,
    cap: int,
) -> tuple[Held, tuple[np.ndarray, int]]:
    with workers(1):
        state = opened(share, held, A)
        flips = rows_in_turn(state, penalty, cap)
    return Held(state.Z, held.error), (state.A[len(A) :], flips)


def first_of(pair: tuple) -> Any:
    return pair[0]


def second_of(pair: tuple) -> Any:
    return pair[1]


def ones(held: Held) -> np.ndarray:
    return np.ones(len(held.Z), np.uint8)


def nearer_to(share: Share, held: Held, A: np.ndarray, a: np.ndarray) -> np.ndarray:
    return opened(share, held, A).nearer(a)


def with_more(held: Held, z: np.ndarray) -> Held:
    return Held(np.column_stack([held.Z, z.astype(np.uint8)]), held.error)


def with_columns(held: Held, order: np.ndarray) -> Held:
    return Held(np.ascontiguousarray(held.Z[:, order]), held.error)


def padded(held: Held, K: int) -> Held:
    more = np.zeros((len(held.Z), K - held.Z.shape[1]), np.uint8)
    return Held(np.column_stack([held.Z, more]), held.error)


def columns(held: Held, order: np.ndarray, more: int) -> np.ndarray:
    return padded(with_columns(held, order), len(order) + more).Z


def column_sums(share: Share, held: Held) -> np.ndarray:
    return held.Z.T @ weights_at(share, np.arange(len(share.rows)))


def z_of(held: Held, row: int) -> np.ndarray:
    return held.Z[row]


def errors(share: Share, held: Held) -> np.ndarray:
    return held.error * share.weight if share.weight.shape[0] else held.error


def add_errors(total: float, share: Share, held: Held) -> float:
    return float(np.cumsum(np.r_[total, errors(share, held)])[-1])


def place_of(total: float, share: Share, held: Held, at: float) -> int:
    reached = np.cumsum(np.r_[total, errors(share, held)])[1:]
    return min(int(np.searchsorted(reached, at, side="right")), len(reached) - 1)
