"""Functions mapped over shares of rows where Dask has them, and its troubles in words.

Everything here is built from `dask.delayed`, so any scheduler will do: threads of this process, or
the workers of the active client. What `keep` returns stays where it was computed; if a worker dies,
the scheduler computes it again from what it was computed from, which is why tasks never change
their arguments.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from typing import Any

import dask
from dask import delayed
from dask.base import get_scheduler

from madbayes._rows.executor import MAX_SEGMENTS, Executor, Function, Items
from madbayes._rows.rows import overlaps
from madbayes._rows.threads import count_jobs, workers

LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"  # centres are part of it


class Lost(RuntimeError):
    """The computation cannot go on, and it is not the data's fault."""


def task(function: Function, *args: Any) -> Any:
    """`function(*args)`, later and elsewhere; arguments may be other tasks."""
    return delayed(function, pure=False)(*args)


def in_one_thread(function: Function, *args: Any) -> Any:
    with workers(1):
        return function(*args)


def on_a_copy(function: Function, share: Any, state: Any, *args: Any) -> Any:
    """`function` may write into the state that it is given."""
    return in_one_thread(function, share, state.copy(), *args)


def work(function: Function, *args: Any, through: Function = in_one_thread) -> Any:
    """The same for the functions of an algorithm, under their name, each in one thread."""
    key = f"{getattr(function, '__name__', 'work')}-{uuid.uuid4().hex}"
    return delayed(through, pure=False)(function, *args, dask_key_name=key)


class Workers(Executor):
    """The executor of Dask tables."""

    remote = True

    def map(
        self, function: Function, *columns: Items, args: tuple = (), brief: bool = False
    ) -> list:
        return keep([work(function, *each, *args) for each in zip(*columns, strict=True)])

    def ask(
        self, function: Function, *columns: Items, args: tuple = (), brief: bool = False
    ) -> list:
        return fetch([work(function, *each, *args) for each in zip(*columns, strict=True)])

    def change(self, function: Function, shares: Items, states: Items, *args: Any) -> list:
        pairs = zip(shares, states, strict=True)
        return keep([work(function, *each, *args, through=on_a_copy) for each in pairs])

    def once(self, function: Function, *args: Any) -> Any:
        """A task of the call that it is an argument of."""
        return work(function, *args)

    def fetch(self, results: Items) -> list:
        return fetch(results)

    def tree(
        self, leaf: Function, merge: Function, states: Items, sizes: Sequence[int], *args: Any
    ) -> Any:
        """Values of segments meet on the workers, in the order in which one machine adds them."""
        level = [work(leaf, state, *args) for state in states]
        ends = list(accumulate(sizes))
        spans = list(zip([0, *ends], ends, strict=False))
        while (n := spans[-1][1]) > 1:
            nodes = [(i, min(n, i + MAX_SEGMENTS)) for i in range(0, n, MAX_SEGMENTS)]
            parts = [[(level[s], a, b) for s, a, b in each] for each in overlaps(spans, nodes)]
            level = [work(merge_parts, merge, each) for each in parts]
            spans = [(i, i + 1) for i in range(len(nodes))]
        return fetch(level)[0][0]


def merge_parts(merge: Function, parts: list[tuple[list[Any], int, int]]) -> list[Any]:
    """One inner node of a tree: `merge` of items a to b of some lists."""
    return [merge([item for items, a, b in parts for item in items[a:b]])]


ON_WORKERS = Workers()


def keep(tasks: Sequence[Any]) -> list[Any]:
    """Compute, and leave the results where they are."""
    with in_words(), large_graphs():
        return list(dask.persist(*tasks))


def fetch(tasks: Sequence[Any]) -> list[Any]:
    """Compute, and bring the results here; of many, by way of fewer."""
    tasks = list(tasks)
    depth = 0
    while len(tasks) > 4 * MAX_SEGMENTS:
        tasks = [
            task(pack, *tasks[i : i + MAX_SEGMENTS]) for i in range(0, len(tasks), MAX_SEGMENTS)
        ]
        depth += 1
    with in_words(), large_graphs():
        results = list(dask.compute(*tasks))
    for _ in range(depth):
        results = [part for group in results for part in group]
    return results


def large_graphs() -> Any:
    """No warning about centres in the graph; without a client nobody would warn.

    Nothing is set then: `distributed` may be imported for the first time in between, which replaces
    the part of Dask's settings that would be restored.
    """
    return dask.config.set({LARGE_GRAPH: "1 GB"}) if remote() else nullcontext()


def pack(*parts: Any) -> tuple:
    return parts


def same(value: Any) -> Any:
    """As a task: a value that many tasks need, sent once."""
    return value


def client() -> Any:
    """The active client of Dask; None: another scheduler does the work."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if type(owner).__module__.startswith("distributed.") else None


def remote() -> bool:
    """Whether the tasks run on the workers of a client."""
    return client() is not None


def shares_wanted() -> int:
    """So many shares keep everybody busy: two for each thread."""
    active = client()
    threads = count_jobs(None) if active is None else sum(active.nthreads().values())
    return 2 * max(1, threads)


@contextmanager
def in_words() -> Iterator[None]:
    """What Dask raises when a cluster falls apart, with a way out."""
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        if name == "KilledWorker":
            raise Lost(
                "workers died again and again while they worked on one block of rows, most often "
                "because it does not fit into their memory. Give each worker more memory, or start "
                f"more of them. Dask says: {error}"
            ) from error
        if lost(error):
            raise Lost(
                "the connection to the Dask scheduler was lost, or the client was closed, before "
                "the work was done. Nothing was changed; connect a new client and repeat it. "
                f"Dask says: {name}: {error}"
            ) from error
        raise


def lost(error: Exception) -> bool:
    """Whether the scheduler or the client is gone."""
    text = str(error).lower()
    return type(error).__name__ in CONNECTION or ("client" in text and "closed" in text)


CONNECTION = (
    "CancelledError",
    "FutureCancelledError",
    "FuturesCancelledError",
    "CommClosedError",
    "SchedulerNotFound",
    "TimeoutError",
)
