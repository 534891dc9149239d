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
QUICK = 2**14  # values: work on fewer is so quick that it need not be interruptible


class _SingleThreadedBlas:
    """Counts the fits in progress: the first fit sets the limit, the last one that ends removes it.

    There is one count for the process, because most BLAS libraries have one number of threads for
    the whole process.
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
        """Set the limit in a thread of the pool: libraries on OpenMP have one for each thread."""
        for library in self.libraries():
            if library.num_threads != 1:
                set_threads(library, 1)

    def _hand_back(self) -> None:
        for library, before in zip(self.libraries(), self._before, strict=True):
            if library.num_threads == 1:  # another number was set by somebody else: keep it
                set_threads(library, before)

    def _after_fork(self) -> None:
        # The child has only the thread that forked: fits of other threads will never end in it.
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._hand_back()


def set_threads(library: Any, count: int) -> None:
    """Set the number of threads of a BLAS library, from any Python thread.

    threadpoolctl 3.8 lets only the first thread change OpenBLAS until it is released, and ignores
    the others.
    """
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    for _ in range(10):  # another thread may change it meanwhile
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
    """Raised in a thread after Ctrl-C: the fit does not wait for this thread any more."""


class _Here(threading.local):
    """The state of the present thread: the fit that it works for, and its working memory."""

    stop = np.zeros(1, np.uint8)  # not 0: the fit was interrupted
    pool: ThreadPoolExecutor | None = None  # runs what this thread does not do itself
    threads = 1  # the number of threads that it may use
    run: Run | None = None  # what `workers` yields
    room: tuple[Any, Any] = (None, None)  # working memory of a kernel, and its kernel and size


_here = _Here()


def patient(kernel: Callable[..., Any], *args: Any, brief: bool = False) -> Any:
    """Call `kernel(*args, stop)` so that Ctrl-C need not wait for its end.

    Only the main thread handles signals, and it cannot handle them inside a kernel. So the main
    thread runs the kernel in another thread, waits, and sets `stop` when it is interrupted.
    `brief`: the kernel is so quick that the main thread runs it itself.
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
    """Cut 0..size into one range for each thread of this fit, none shorter than `enough`.

    The number of ranges depends on the machine, so use them only for work whose result does not
    depend on the cuts.
    """
    count = min(_here.threads, size // enough)
    if count < 2:
        return [(0, size)]
    ends = [size * i // count for i in range(count + 1)]
    return list(pairwise(ends))


def together(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Map `function` over `items` in the threads of the present fit.

    In one of these threads, the items are done one by one.
    """
    return (_here.run or serial)(function, items)


def working_memory(make: Callable[..., Any], *size: int) -> Any:
    """`make(*size)`. The thread keeps the result for the next call with the same arguments."""
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
        for future in futures:  # cancel what has not started
            future.cancel()
        wait(futures, timeout=0.5 if interrupted else None)  # seconds: threads may be compiling
        raise


def serial(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """A `Run` without threads, for a fit with one thread and for work inside an item of a `Run`."""
    return [function(item) for item in items]


@contextmanager
def workers(n_jobs: int | None, *, enough: bool = True) -> Iterator[Run]:
    """Yield `run(function, items)`, which maps in threads and returns a list in order.

    Without `enough` work one thread is used, because handing out the work would take longer than
    doing it.
    """
    threads = count_jobs(1 if n_jobs is None and not enough else n_jobs)  # counting takes .1 ms
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
            if failed:  # raise the error of the first item, not the error that came first
                raise min(failed, key=itemgetter(0))[1]
        finally:
            failed.clear()
        return found

    def take(function: Any, left: deque[Any], found: list[Any], failed: list[Any]) -> None:
        """Work on the items that are left, one by one, so that a thread is woken once for many."""
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

    pool = ThreadPoolExecutor(threads, "madbayes", begin)  # threads start when they are needed
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
    """Whether the error was caused by Ctrl-C.

    Numba returns arrays through Python code, which may handle the signal: the KeyboardInterrupt is
    then hidden behind a SystemError.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
