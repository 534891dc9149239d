"""Compiled loops, on buffers that the caller owns. Nothing here knows about threads.

What may take long has `stop` as its last argument: an array of one byte, looked at row by row. Once
it is not 0 the kernel leaves at once, whatever it returns (`_rows.threads.patient` raises then).

`kernel` is for what Python calls; `inner` for what only other kernels call: without an entry from
Python it compiles in half the time. Divisions by zero give inf or nan, as numpy's do. What makes no
array has no reference counts: a fifth less code for LLVM, and a call with ten arrays takes half as
long. So it cannot return an array, and must not call what returns a new one.
"""

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

internals: Any
try:
    if os.environ.get("MADBAYES_PLAIN_KERNELS"):
        raise ImportError("MADBAYES_PLAIN_KERNELS is set")
    from madbayes._jit import numba_internals as internals
except (ImportError, AttributeError):  # another Numba: slower, the results are as good
    internals = None

# Called before a kernel of this package is compiled: a wait of seconds without a visible cause.
before_compiling: list[Callable[[], None]] = [] if internals is None else internals.before_compiling


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`njit` with a cache on the disk, or without one where nothing can be written."""
    options |= {"nogil": True, "error_model": "numpy"}
    if internals is None:
        options.pop("no_cpython_wrapper", None)
    else:
        options |= {"no_cfunc_wrapper": True, "pipeline_class": internals.Lean}

    def decorate(function: Callable[..., Any]) -> Any:
        makers = {"empty", "zeros", "ones", "full", "arange", "copy", "dot"}  # they make arrays
        counts = not makers.isdisjoint(function.__code__.co_names)
        own = options if internals is None else options | {"_nrt": counts}
        made = njit(**own)(function)
        if not isinstance(made, Dispatcher):  # NUMBA_DISABLE_JIT: there is nothing to keep
            return made
        try:
            if internals is None:
                made.enable_caching()
            else:
                made._cache = internals.CheckedCache(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            warn_of_no_cache()
        return made

    return decorate


@functools.cache  # once, whatever the filters
def warn_of_no_cache() -> None:
    warnings.warn(
        "madbayes is compiled afresh in every process (seconds to a minute), because neither its "
        "own folder nor the user's cache folder can be written to. Set NUMBA_CACHE_DIR to a folder "
        "that can be.",
        stacklevel=2,
    )


kernel = compiled()
inner = compiled(no_cpython_wrapper=True)
