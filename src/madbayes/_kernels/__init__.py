"""Compiled loops: njit only, on buffers that the caller owns. Nothing here knows about threads."""

from numba import njit

# For what only other kernels call: without an entry from Python it compiles in half the time.
inner = njit(nogil=True, cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
