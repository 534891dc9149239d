"""Compiled loops: njit only, on buffers that the caller owns. Nothing here knows about threads."""
