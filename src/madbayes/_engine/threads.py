"""A thread pool over blocks of rows, with BLAS held to one thread inside.

Results come back in the order of the items, so nothing that is computed depends on the number of
threads. A pool lives for one fit only: nothing is left over to break after `os.fork`.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import joblib
import scipy.linalg.cython_blas  # noqa: F401  numba's products use this BLAS: load it before limiting it
from threadpoolctl import ThreadpoolController

Run = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


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


@contextmanager
def workers(n_jobs: int | None) -> Iterator[Run]:
    """Yield `run(function, items)`, which maps in threads and returns a list in order."""
    threads = count_jobs(n_jobs)
    with _blas:
        if threads == 1:
            yield lambda function, items: [function(item) for item in items]
            return
        with ThreadPoolExecutor(threads, "madbayes", _blas.limit_here) as pool:

            def run(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
                items = list(items)
                if len(items) < 2:
                    return [function(item) for item in items]
                return list(pool.map(function, items))

            try:
                yield run
            except BaseException:  # KeyboardInterrupt too: do not start what still waits
                pool.shutdown(wait=True, cancel_futures=True)
                raise
