"""Where work on shares of rows is done: in the threads of this process, or on workers of Dask.

A table of rows (`rows.Rows`, `dask_table.DaskRows`) consists of shares, and has an executor that
maps functions over them. What is known of the rows of a share is a value, and what happens to it is
a function: (share, state, …) → state. So every algorithm is written once, and runs wherever the
rows are. A list of results is in the order of the shares; nothing depends on who made them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from madbayes._rows.threads import together

MAX_SEGMENTS = 32  # of a table that is not huge, and sums that are added at a time


class Executor(Protocol):
    """Maps functions over lists that have one item for each share."""

    remote: bool  # results of `map` and `change` are elsewhere, and `fetch` brings them

    def map(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        args: tuple = (),
        brief: bool = False,
    ) -> list:
        """`function(*items, *args)` for each share; the results stay where they are made.

        `brief`: it takes no time, and threads would only have to be woken for it.
        """

    def change(
        self, function: Callable[..., Any], shares: Sequence[Any], states: Sequence[Any], *args: Any
    ) -> list:
        """`function(share, state, *args)`, which may write into the state and returns it."""

    def ask(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        args: tuple = (),
        brief: bool = False,
    ) -> list:
        """The same as `map`, and the results come to this process."""

    def once(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`, made once for all shares: an item of `args` of one other call."""

    def fetch(self, results: Sequence[Any]) -> list:
        """Results of `map`, here."""

    def fold(
        self, function: Callable[..., Any], total: Any, *columns: Sequence[Any], every: bool = False
    ) -> list:
        """`total = function(total, *items)`, one share after the other: the last total, here
        (`every`: all of them)."""

    def tree(
        self,
        leaf: Callable[..., Any],
        merge: Callable[..., Any],
        states: Sequence[Any],
        sizes: Sequence[int],
        *args: Any,
    ) -> Any:
        """`leaf(state, *args)` lists a value for each segment (of which a share has so many);
        `merge` makes one of a list of up to MAX_SEGMENTS neighbours, until one is left: here."""


class ThisProcess:
    """The threads of the fit that asks."""

    remote = False

    def map(
        self,
        function: Callable[..., Any],
        *columns: Sequence[Any],
        args: tuple = (),
        brief: bool = False,
    ) -> list:
        items = list(zip(*columns, strict=True))
        if brief or len(items) == 1:
            return [function(*each, *args) for each in items]
        return together(lambda each: function(*each, *args), items)

    ask = map

    def change(
        self, function: Callable[..., Any], shares: Sequence[Any], states: Sequence[Any], *args: Any
    ) -> list:
        return self.map(function, shares, states, args=args)

    def once(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def fetch(self, results: Sequence[Any]) -> list:
        return list(results)

    def fold(
        self, function: Callable[..., Any], total: Any, *columns: Sequence[Any], every: bool = False
    ) -> list:
        totals = [total]
        for each in zip(*columns, strict=True):
            totals.append(function(totals[-1], *each))
        return totals[1:] if every else totals[-1:]

    def tree(
        self,
        leaf: Callable[..., Any],
        merge: Callable[..., Any],
        states: Sequence[Any],
        sizes: Sequence[int],
        *args: Any,
    ) -> Any:
        parts = [part for state in states for part in leaf(state, *args)]
        while len(parts) > 1:
            parts = [merge(parts[i : i + MAX_SEGMENTS]) for i in range(0, len(parts), MAX_SEGMENTS)]
        return parts[0]


HERE = ThisProcess()
