"""Executors map functions over shares of rows, in threads of this process or on workers of Dask.

A table of rows (`rows.Rows`, `dask_table.DaskRows`) consists of shares and has an executor. The
labels, bounds and sums of a share are a value, its state. Functions (share, state, …) → state
change it. So every algorithm is written once and runs wherever the rows are. Results are in the
order of the shares, and do not depend on the thread or worker that computed them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from madbayes._rows.threads import together

MAX_SEGMENTS = 32  # segments of a table that is not huge; and sums that are added at a time

Function = Callable[..., Any]
Items = Sequence[Any]  # one for each share


class Executor:
    """Maps functions over lists with one item for each share, in the threads of the fit.

    `dask_executor.Workers` maps them on the workers of Dask.
    """

    remote = False  # True: results of `map` and `change` are on workers, and `fetch` copies them

    def map(
        self, function: Function, *columns: Items, args: tuple = (), brief: bool = False
    ) -> list:
        """`function(*items, *args)` for each share; the results stay where they are computed.

        `brief`: the function is so quick that threads are not used for it.
        """
        items = list(zip(*columns, strict=True))
        if brief or len(items) == 1:
            return [function(*each, *args) for each in items]
        return together(lambda each: function(*each, *args), items)

    def ask(
        self, function: Function, *columns: Items, args: tuple = (), brief: bool = False
    ) -> list:
        """`map`, with the results copied to this process."""
        return self.fetch(self.map(function, *columns, args=args, brief=brief))

    def change(self, function: Function, shares: Items, states: Items, *args: Any) -> list:
        """`function(share, state, *args)`, which may write into the state and returns it."""
        return self.map(function, shares, states, args=args)

    def once(self, function: Function, *args: Any) -> Any:
        """`function(*args)`, computed once for all shares, as an argument of one other call."""
        return function(*args)

    def fetch(self, results: Items) -> list:
        """The results of `map`, copied to this process."""
        return list(results)

    def fold(self, function: Function, total: Any, *columns: Items, every: bool = False) -> list:
        """Compute `total = function(total, *items)` for one share after the other.

        Returns the last total (`every`: all totals), copied to this process.
        """
        totals = [total]
        for each in zip(*columns, strict=True):
            totals.append(self.once(function, totals[-1], *each))
        return self.fetch(totals[1:] if every else totals[-1:])

    def tree(
        self, leaf: Function, merge: Function, states: Items, sizes: Sequence[int], *args: Any
    ) -> Any:
        """Merge the values of all segments into one, in a fixed order.

        `leaf(state, *args)` lists one value for each segment of a share; `sizes` are the numbers of
        segments. `merge` turns up to MAX_SEGMENTS neighbouring values into one, again and again,
        until one value is left. That value is copied to this process.
        """
        parts = [part for state in states for part in leaf(state, *args)]
        while len(parts) > 1:
            parts = [merge(parts[i : i + MAX_SEGMENTS]) for i in range(0, len(parts), MAX_SEGMENTS)]
        return parts[0]


HERE = Executor()
