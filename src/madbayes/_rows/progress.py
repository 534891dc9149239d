"""The progress of a fit, reported to a listener.

A fit reports its stages ("searching": 40 of 100 clusters settled). Without a listener a report
costs next to nothing. A listener belongs to the thread that set it, so that the reports of fits in
several threads do not mix.
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from madbayes._jit import before_compiling

Listener = Callable[[str, int, int | None], None]  # stage, how much is done, of how much

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside this context, fits of this thread report their progress to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Stage:
    """One stage of a fit; `total` is the amount of work, as far as it is known."""

    def __init__(self, name: str, total: int | None = None) -> None:
        self.name, self.total = name, total
        self._done = 0
        self._listener = _listener.get()
        self._lock = threading.Lock()
        self.at(0)

    def at(self, done: int, total: int | None = None) -> None:
        """Report that `done` of `total` is done."""
        self._done, self.total = done, total or self.total
        if self._listener is not None:
            self._listener(self.name, done, self.total)

    def step(self) -> None:
        """Report that one more is done; any thread may call it."""
        if self._listener is None:
            return
        with self._lock:
            self.at(self._done + 1)


@functools.cache  # once in a process
def tell_of_compiling() -> None:
    """Report that kernels are being compiled, because the user sees no other cause of the wait."""
    logging.getLogger("madbayes").info(
        "compiling, once per installation (python -m madbayes.compile does it beforehand)"
    )
    if _listener.get() is not None:
        Stage("compiling, once per installation")


before_compiling.append(tell_of_compiling)
