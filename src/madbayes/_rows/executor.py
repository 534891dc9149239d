"""Where work on shares of rows is done: in the threads of this process, or on workers of Dask.

A table of rows (`rows.Rows`, `dask_table.DaskRows`) consists of shares, and has an executor that
maps functions over them. What is known of the rows of a share is a value, and what happens to it is
a function: (share, state, …) → state. So every algorithm is written once, and runs wherever the
rows are. A list of results is in the order of the shares; nothing depends on who made them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from madbayes._rows.threads import together

MAX_SEGMENTS = 32  # of a table that is not huge, and sums that are added at a time

Function = Callable[..., Any]
Items = Sequence[Any]  # one for each share


class Executor:
    """Maps functions over lists that have one item for each share: in the threads of the fit.

    `dask_executor.Workers` does the same where Dask has the rows.
    """

    remote = False  # whether results of `map` and `change` are elsewhere, and `fetch` brings them

    def map(
        self, function: Function, *columns: Items, args: tuple = (), brief: bool = False
    ) -> list:
        """`function(*items, *args)` for each share; the results stay where they are made.

        `brief`: it takes no time, and threads would only have to be woken for it.
        """
        items = list(zip(*columns, strict=True))
        if brief or len(items) == 1:
            return [function(*each, *args) for each in items]
        return together(lambda each: function(*each, *args), items)

    def ask(
        self, function: Function, *columns: Items, args: tuple = (), brief: bool = False
    ) -> list:
        """The same as `map`, and the results come to this process."""
        return self.fetch(self.map(function, *columns, args=args, brief=brief))

    def change(self, function: Function, shares: Items, states: Items, *args: Any) -> list:
        """`function(share, state, *args)`, which may write into the state and returns it."""
        return self.map(function, shares, states, args=args)

    def once(self, function: Function, *args: Any) -> Any:
        """`function(*args)`, made once for all shares: an item of `args` of one other call."""
        return function(*args)

    def fetch(self, results: Items) -> list:
        """Results of `map`, here."""
        return list(results)

    def fold(self, function: Function, total: Any, *columns: Items, every: bool = False) -> list:
        """`total = function(total, *items)`, one share after the other: the last total, here
        (`every`: all of them)."""
        totals = [total]
        for each in zip(*columns, strict=True):
            totals.append(self.once(function, totals[-1], *each))
        return self.fetch(totals[1:] if every else totals[-1:])

    def tree(
        self, leaf: Function, merge: Function, states: Items, sizes: Sequence[int], *args: Any
    ) -> Any:
        """`leaf(state, *args)` lists a value for each segment (of which a share has so many);
        `merge` makes one of a list of up to MAX_SEGMENTS neighbours, until one is left: here."""
        parts = [part for state in states for part in leaf(state, *args)]
        while len(parts) > 1:
            parts = [merge(parts[i : i + MAX_SEGMENTS]) for i in range(0, len(parts), MAX_SEGMENTS)]
        return parts[0]


HERE = Executor()
