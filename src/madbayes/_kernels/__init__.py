"""Compiled loops, on buffers that the caller owns. Nothing here knows about threads.

`kernel` is for what Python calls; `inner` for what only other kernels call: without an entry from
Python it compiles in half the time. Divisions by zero give inf or nan, as numpy's do.
"""

from numba import njit

kernel = njit(nogil=True, cache=True, error_model="numpy")
inner = njit(
    nogil=True, cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)
