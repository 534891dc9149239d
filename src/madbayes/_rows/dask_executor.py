"""The executor of Dask tables: it maps functions over shares where the rows are.

Everything is built from `dask.delayed`, so any scheduler works: threads of this process, or the
workers of the active client. The results of `keep` stay where they were computed. If a worker dies,
the scheduler computes its results again from their inputs; so a task never changes its arguments.
`in_words` turns errors of Dask into messages with a way out.
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


class Lost(RuntimeError):
    """The cluster has failed, so the computation cannot go on; the data are not the reason."""


def task(function: Function, *args: Any) -> Any:
    """A task that will compute `function(*args)`; arguments may be other tasks."""
    return delayed(function, pure=False)(*args)


def in_one_thread(function: Function, *args: Any) -> Any:
    with workers(1):
        return function(*args)


def on_a_copy(function: Function, share: Any, state: Any, *args: Any) -> Any:
    """Call `function` with a copy of the state, because it may write into it."""
    return in_one_thread(function, share, state.copy(), *args)


def work(function: Function, *args: Any, through: Function = in_one_thread) -> Any:
    """A task for a function of an algorithm. It has the function's name and uses one thread."""
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
        """A task that computes the value once, for all tasks that take it as an argument."""
        return work(function, *args)

    def fetch(self, results: Items) -> list:
        return fetch(results)

    def tree(
        self, leaf: Function, merge: Function, states: Items, sizes: Sequence[int], *args: Any
    ) -> Any:
        """Add up values of segments on the workers, in the order in which one machine adds them."""
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
    """Compute the tasks, and leave the results on the workers."""
    with in_words(), large_graphs():
        return list(dask.persist(*tasks))


def fetch(tasks: Sequence[Any]) -> list[Any]:
    """Compute the tasks, and bring the results to this process; many are first put together."""
    tasks = list(tasks)
    depth = 0
    while len(tasks) > 4 * MAX_SEGMENTS:
        cuts = range(0, len(tasks), MAX_SEGMENTS)
        tasks = [task(list, tasks[i : i + MAX_SEGMENTS]) for i in cuts]
        depth += 1
    with in_words(), large_graphs():
        results = list(dask.compute(*tasks))
    for _ in range(depth):
        results = [part for group in results for part in group]
    return results


def large_graphs() -> Any:
    """Settings under which a client does not warn about centres in the graph.

    Without a client nobody warns, and no setting is changed: `distributed` may be imported for the
    first time meanwhile, and would replace the settings that have to be restored.
    """
    name = "distributed.admin.large-graph-warning-threshold"
    return dask.config.set({name: "1 GB"}) if remote() else nullcontext()


def same(value: Any) -> Any:
    """Return the value. As a task, this sends a value once that many tasks need."""
    return value


def client() -> Any:
    """The active client of Dask, or None if another scheduler runs the tasks."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if type(owner).__module__.startswith("distributed.") else None


def remote() -> bool:
    """Whether the tasks run on the workers of a client."""
    return client() is not None


def shares_wanted() -> int:
    """The number of shares that keeps all threads of the workers busy: two for each thread."""
    active = client()
    threads = count_jobs(None) if active is None else sum(active.nthreads().values())
    return 2 * max(1, threads)


@contextmanager
def in_words() -> Iterator[None]:
    """Turn the errors that Dask raises when a cluster fails into messages with a way out."""
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
    text, name = str(error).lower(), type(error).__name__
    gone = "CommClosedError", "SchedulerNotFound", "TimeoutError"
    return (
        name.endswith("CancelledError") or name in gone or ("client" in text and "closed" in text)
    )
