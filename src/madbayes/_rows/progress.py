"""How far a fit is, for whoever listens.

A fit tells its stages ("searching": 40 of 100 clusters settled). Without a listener that costs next
to nothing. A listener belongs to the thread that set it, so that fits side by side do not mix.
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
    """Fits of this thread tell `listener` how far they are."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Stage:
    """One stage of a fit; `total` is how much there is to do, as far as one can tell."""

    def __init__(self, name: str, total: int | None = None) -> None:
        self.name, self.total = name, total
        self._done = 0
        self._listener = _listener.get()
        self._lock = threading.Lock()
        self.at(0)

    def at(self, done: int, total: int | None = None) -> None:
        """So much is done."""
        self._done, self.total = done, total or self.total
        if self._listener is not None:
            self._listener(self.name, done, self.total)

    def step(self) -> None:
        """One more is done; from any thread."""
        if self._listener is None:
            return
        with self._lock:
            self.at(self._done + 1)


@functools.cache  # once in a process
def tell_of_compiling() -> None:
    """Say that kernels are being compiled, which is a wait without a visible cause."""
    logging.getLogger("madbayes").info(
        "compiling, once per installation (python -m madbayes.compile does it beforehand)"
    )
    if _listener.get() is not None:
        Stage("compiling, once per installation")


before_compiling.append(tell_of_compiling)
