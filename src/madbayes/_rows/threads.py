"""A thread pool over blocks of rows, with BLAS held to one thread inside.

Results come back in the order of the items, so nothing that is computed depends on the number of
threads. A pool lives for one fit only: nothing is left over to break after `os.fork`.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from numbers import Integral
from operator import itemgetter
from typing import Any

import joblib
import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  numba's products use this BLAS: load it before limiting it
from threadpoolctl import ThreadpoolController

Run = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
QUICK = 2**14  # values: work on fewer is done before anybody could wait for it
LATEST = 0.5  # seconds that an interrupted fit waits for its threads (they may be compiling)


class _SingleThreadedBlas:
    """Counts the fits in progress: the first one in sets the limit, the last one out lifts it.

    One count for the process, because most BLAS libraries have one number of threads for all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._libraries: list[Any] | None = None
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = [library.num_threads for library in self.libraries()]
                for library in self.libraries():
                    set_threads(library, 1)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._hand_back()

    def libraries(self) -> list[Any]:
        if self._libraries is None:
            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return self._libraries

    def limit_here(self) -> None:
        """In a thread of ours: some libraries (those on OpenMP) count for each thread alone."""
        for library in self.libraries():
            if library.num_threads != 1:
                set_threads(library, 1)

    def _hand_back(self) -> None:
        for library, before in zip(self.libraries(), self._before, strict=True):
            if library.num_threads == 1:  # else somebody set it while we were at work: theirs
                set_threads(library, before)

    def _after_fork(self) -> None:
        # Only the forking thread lives on in the child: fits of other threads will never leave.
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._hand_back()


def set_threads(library: Any, count: int) -> None:
    """From any Python thread: threadpoolctl 3.8 lets only the one that was first change OpenBLAS,
    until it is released, and ignores the others."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    for _ in range(10):  # another thread may come in between
        release(force=True)
        library.set_num_threads(count)
        if library.num_threads == count:
            break
    release(force=True)


_blas = _SingleThreadedBlas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas._after_fork)


def count_jobs(n_jobs: int | None) -> int:
    """The number of threads for `n_jobs`; None and -1 mean all cores that this process may use."""
    if n_jobs is None:
        return int(joblib.cpu_count())
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={n_jobs!r} must be a whole number of threads other than 0, or None. "
            "None and -1 use all cores; the result is the same for any value."
        )
    return max(1, int(n_jobs) if n_jobs > 0 else int(joblib.cpu_count()) + 1 + int(n_jobs))


class Stopped(Exception):
    """Ctrl-C was pressed: nobody waits for this thread any more."""


class _Here(threading.local):
    """What the present thread works for."""

    stop = np.zeros(1, np.uint8)  # not 0: the fit was interrupted
    pool: ThreadPoolExecutor | None = None  # for what the thread does not do itself
    threads = 1  # that it may use
    run: Run | None = None  # the same as `workers` yields
    room: tuple[Any, Any] = (None, None)  # working memory of a kernel, and what it is for


_here = _Here()


def patient(kernel: Callable[..., Any], *args: Any, brief: bool = False) -> Any:
    """`kernel(*args, stop)`, so that Ctrl-C need not wait for its end.

    Only the main thread handles signals, and not inside of a kernel. So it leaves what may take
    long to another thread, waits, and sets `stop` when it is interrupted. `brief`: it will not.
    """
    stop, pool = _here.stop, _here.pool
    brief = brief or sum(a.size for a in args if isinstance(a, np.ndarray)) < QUICK
    if brief or pool is None or threading.current_thread() is not threading.main_thread():
        found = kernel(*args, stop)
    else:
        found = _wait_for([pool.submit(kernel, *args, stop)], stop)[0]
    if stop[0]:
        raise Stopped
    return found


def shares(size: int, enough: int) -> list[tuple[int, int]]:
    """`size` things in a share for each thread of this fit, none of them smaller than `enough`.

    How many there are depends on the machine: for work whose result does not depend on it.
    """
    count = min(_here.threads, size // enough)
    if count < 2:
        return [(0, size)]
    ends = [size * i // count for i in range(count + 1)]
    return list(pairwise(ends))


def together(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """`run(function, items)` of the fit that this thread works for; one by one in its workers."""
    return (_here.run or serial)(function, items)


def working_memory(make: Callable[..., Any], *size: int) -> Any:
    """`make(*size)`, kept by this thread for the next call that asks for the same."""
    key = (make, *size)
    if _here.room[0] != key:
        _here.room = (key, make(*size))
    return _here.room[1]


def _wait_for(futures: list[Any], stop: np.ndarray) -> list[Any]:
    try:
        return [future.result() for future in futures]
    except BaseException as error:
        interrupted = not isinstance(error, Exception)
        stop[0] |= interrupted
        for future in futures:  # do not start what still waits
            future.cancel()
        wait(futures, timeout=LATEST if interrupted else None)
        raise


def serial(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """A `Run` without threads: where there is one only, or for work that is itself one item among
    many."""
    return [function(item) for item in items]


@contextmanager
def workers(n_jobs: int | None, *, enough: bool = True) -> Iterator[Run]:
    """Yield `run(function, items)`, which maps in threads and returns a list in order.

    Unless there is `enough` to do: then handing it out would take longer than doing it.
    """
    threads = count_jobs(1 if n_jobs is None and not enough else n_jobs)  # asking takes .1 ms
    threads = threads if enough else 1
    stop = np.zeros(1, np.uint8)

    def begin() -> None:
        _blas.limit_here()
        _here.stop = stop

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        items = list(items)
        if len(items) < 2:
            return serial(function, items)
        left, found = deque(enumerate(items)), [None] * len(items)
        failed: list[tuple[int, BaseException]] = []
        work = partial(take, function, left, found, failed)
        _wait_for([pool.submit(work) for _ in items[:threads]], stop)
        try:
            if failed:  # in the order of the items, whoever was first
                raise min(failed, key=itemgetter(0))[1]
        finally:
            failed.clear()
        return found

    def take(function: Any, left: deque[Any], found: list[Any], failed: list[Any]) -> None:
        """What is left to do, one item after the other: a thread is woken once for many."""
        while not stop[0]:
            try:
                i, item = left.popleft()
            except IndexError:
                return
            try:
                found[i] = function(item)
            except BaseException as error:
                left.clear()
                failed.append((i, error))

    pool = ThreadPoolExecutor(threads, "madbayes", begin)  # a thread starts when it is needed
    before = _here.stop, _here.pool, _here.threads, _here.run
    _here.room = None, None
    with _blas:
        try:
            how = run if threads > 1 else serial
            _here.stop, _here.pool, _here.threads, _here.run = stop, pool, threads, how
            yield how
        except BaseException as error:
            interrupted = comes_from_interrupt(error)
            stop[0] |= interrupted
            if interrupted and isinstance(error, SystemError):
                raise KeyboardInterrupt from None
            raise
        finally:
            _here.stop, _here.pool, _here.threads, _here.run = before
            _here.room = None, None
            pool.shutdown(wait=not stop[0], cancel_futures=True)


def comes_from_interrupt(error: BaseException | None) -> bool:
    """Numba returns arrays by way of Python code, where a signal may be handled: the exception is
    then found too late, and hidden behind a SystemError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
