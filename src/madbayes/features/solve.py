"""Run the starts of a method on a table, and return the best.

1. Of a large table only some rows are searched (a method that goes row by row takes all rows). Wide
   rows are turned into coordinates of the space that they span.
2. Run the starts, each from its own seed; in small data each has a thread. The best start wins. In
   large data a start is polished to the end only if it may come below the starts before it.
3. All rows adopt the features that were found among some rows, and improve them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from madbayes._rows.rows import Rows, on_disk, segments
from madbayes._rows.threads import together
from madbayes.features.allocation import Allocation
from madbayes.features.segment import column_sums, with_columns, z_of
from madbayes.features.table import Table, turn

SEARCHED = 2**18  # rows × columns that are searched


@dataclass(frozen=True)
class Features:
    """Where one start ended."""

    assignments: Any  # Z; of a table that is elsewhere, what each of its shares holds
    components: np.ndarray
    objective: float
    history: list[float]
    n_iter: int
    converged: bool


Start = Callable[[Allocation, np.random.RandomState, float, int, bool], Features]


@dataclass(frozen=True)
class Method:
    """How one start is made: ``start(state, rng, penalty, cap, given)``.

    With `given` the start is the present allocation, and the number of its features stays.
    `settle`, with the same arguments, goes on from features that were found among some of the rows;
    without it a method is always given all of them.
    """

    start: Start
    n_init: int
    settle: Start | None = None
    effort: float = 1.0
    sorts: bool = True  # features that most rows have come first
    printed: bool = False  # nothing but the printed algorithm, which any table can have
    turns: bool = True


class Found(NamedTuple):
    """Features of some rows (None: of all)."""

    rows: np.ndarray | None
    assignments: np.ndarray


def best_start(
    table: Table,
    method: Method,
    penalty: float,
    cap: int,
    rng: np.random.RandomState,
    first: Found | None = None,
) -> Features:
    """Steps 1 to 3. `first` is the first start, and results with as many features as it has win."""
    seeds = rng.randint(2**31 - 1, size=method.n_init + 1)
    rows = first.rows if first else None
    if method.settle is not None and rows is None and table.n * table.d > 2 * SEARCHED:
        rows = table.draw(rng, max(1000, SEARCHED // table.d))  # 1.
        first = None if first is None else Found(rows, first.assignments[rows])
    A = None
    if first is not None and method.settle is None and rows is not None:
        A = fitted(table.sample(rows), first.assignments).A
        rows = None
    part = table if rows is None else table.sample(rows)
    X = part.X if table.n * table.d > 2 * SEARCHED and rows is None else once(part.X)
    source = table.rows
    if not table.remote:
        source = Rows(turn(X) if method.turns and A is None else X, weight=part.weight)
    blocks = table.remote or len(segments(source.n, 16)) > 1

    def one(at: int, beat: float = np.inf) -> Features:
        state = Allocation(source)
        state.beat = beat
        given = first is not None and at == 0
        if A is not None and given:
            adopt(state, A)
        elif first is not None and given:
            state.put(first.assignments, np.zeros((first.assignments.shape[1], state.d)))
            state.refit_all()
            state.measure()
        return method.start(state, np.random.RandomState(seeds[at]), penalty, cap, given)

    starts = range(method.n_init)
    K = None if first is None else first.assignments.shape[1]

    def rank(found: Features) -> tuple[bool, float]:
        return found.components.shape[0] != K and K is not None, found.objective

    results: list[Features] = [] if blocks else together(one, starts)  # 2.
    for at in starts if blocks else ():
        right = [found.objective for found in results if not rank(found)[0]]
        results.append(one(at, min(right, default=np.inf)))
    best = min(results, key=rank)
    if table.remote or (rows is None and source.X is X):
        return best
    state = fitted(part, best.assignments)
    if rows is None:  # the components in the columns of X
        return replace(best, components=state.A)
    A = state.A
    state = Allocation(table.rows)  # 3.
    assert method.settle is not None  # only then rows are left out
    adopt(state, A)
    settled = method.settle(
        *(state, np.random.RandomState(seeds[-1]), penalty, cap, first is not None)
    )
    return replace(settled, n_iter=best.n_iter, converged=best.converged and settled.converged)


def once(X: Any) -> Any:
    """Few rows, converted once to the form that kernels read, so that passes need not convert."""
    return X.astype(np.float64) if isinstance(X, np.ndarray) and not on_disk(X) else X


def fitted(table: Table, Z: np.ndarray) -> Allocation:
    """The rows with these assignments, A by least squares."""
    state = Allocation(table.rows)
    state.put(Z, np.zeros((Z.shape[1], table.d)))
    state.refit_all()
    return state


def adopt(state: Allocation, A: np.ndarray) -> None:
    """Every row takes the best of these features."""
    state.put_features(A)
    state.assign("exact")


def finish(
    state: Allocation, penalty: float, history: list[float], n_iter: int, converged: bool
) -> Features:
    """The result: rows of weight 0 get their best features, and the objective is measured again."""
    if state.weight.shape[0] and not state.weight.all():
        Z = state.Z.copy()
        state.assign("exact")
        state.Z[state.weight > 0] = Z[state.weight > 0]
    state.measure()
    objective = state.rss + penalty * state.K
    fell = [J for i, J in enumerate(history) if J > objective and (i == 0 or J < min(history[:i]))]
    fell.append(objective)  # rounding aside, the objective on the way
    Z = state.states if state.remote else state.Z
    return Features(Z, state.A, objective, fell, n_iter, converged)


def in_order(result: Features, table: Table, sorts: bool) -> Features:
    """The result as a model keeps it; with `sorts` the features that most rows have first."""
    if not table.remote:
        return by_size(result, table.weight) if sorts else result
    executor, states = table.rows.executor, result.assignments
    order = np.arange(len(result.components))
    if sorts:
        counts = np.sum(executor.ask(column_sums, table.rows.shares, states), axis=0)
        order = np.argsort(-counts, kind="stable")
        states = executor.map(with_columns, states, args=(order,))
    Z = table.rows.public(executor.map(z_of, states), np.uint8, len(order))
    return replace(result, assignments=Z, components=result.components[order])


def by_size(result: Features, weight: np.ndarray | None) -> Features:
    """The features that most rows have first; of equals, those of earlier rows.

    So the order does not depend on how the features were found, which rounding may change.
    """
    Z = result.assignments
    count = Z.T @ (np.ones(len(Z)) if weight is None else weight)
    without = np.packbits(Z == 0, axis=0).T
    order = sorted(range(Z.shape[1]), key=lambda k: (-count[k], without[k].tobytes()))
    return replace(
        result,
        assignments=result.assignments[:, order],
        components=result.components[order],
    )
