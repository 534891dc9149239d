"""The centres of a pass, and the working memory, in the forms that the kernels read."""

import numpy as np

from madbayes._kernels.bounds import Centers
from madbayes._kernels.direct import DIRECT_TILE, DirectScratch
from madbayes._kernels.products import HARD_ROWS, TILE_COLUMNS, TILE_ROWS, Scratch

GROUP_SIZE = 20  # fewer centres in a group do not fill a matrix product
MAX_GROUPS = 8  # one float32 a row for each
NOTHING = Centers._make([np.empty(0)] * len(Centers._fields))


def make_groups(shifted: np.ndarray) -> tuple[np.ndarray, int]:
    """Put nearby centres into the same group: a few k-means passes over the centres themselves."""
    k = shifted.shape[0]
    t = max(1, min(MAX_GROUPS, k // GROUP_SIZE))
    group = np.zeros(k, dtype=np.int32)
    if t == 1:
        return group, t
    heads = shifted[np.linspace(0, k - 1, t).astype(np.int64)]
    for _ in range(5):
        group = np.argmin((heads**2).sum(1) - 2.0 * shifted @ heads.T, axis=1).astype(np.int32)
        for g in range(t):
            if np.any(group == g):
                heads[g] = shifted[group == g].mean(axis=0)
    return group, t


def prepare(
    exact: np.ndarray,
    group: np.ndarray,
    t: int,
    offset: np.ndarray,
    scale: float,
    previous: np.ndarray | None,
    separate: bool,
) -> Centers:
    """Shift, scale, pack and measure `exact`; `previous` are the centres that the bounds are for.

    `separate`: find how far the centres are from each other.
    """
    exact = np.ascontiguousarray(exact, dtype=np.float64)
    k = exact.shape[0]
    shifted = (exact - offset) * scale
    norm2 = np.einsum("ij,ij->i", shifted, shifted)
    member = np.argsort(group, kind="stable").astype(np.int32)
    drift = np.zeros(k)
    group_drift = np.zeros((t, 2))
    group_mover = np.full(t, -1, dtype=np.int32)
    if previous is not None:
        drift = np.sqrt((((exact - previous) * scale) ** 2).sum(axis=1))
        for g in range(t):
            centers = np.flatnonzero(group == g)
            if centers.size:
                order = np.argsort(drift[centers], kind="stable")
                group_mover[g] = centers[order[-1]]
                group_drift[g, 0] = drift[centers[order[-1]]]
                group_drift[g, 1] = drift[centers[order[-2]]] if centers.size > 1 else 0.0
    return Centers(
        exact=exact,
        packed=shifted[member].astype(np.float32),
        packed_half=(norm2[member] / 2).astype(np.float32),
        member=member,
        group=group,
        start=np.concatenate([[0], np.cumsum(np.bincount(group, minlength=t))]).astype(np.int64),
        shifted=shifted,
        shifted_half=norm2 / 2,
        longest=float(np.sqrt(norm2.max())),
        offset=offset,
        scale=float(scale),
        drift=drift,
        group_drift=group_drift,
        group_mover=group_mover,
        separation=half_separation(shifted, norm2) if separate and k > 1 else np.zeros(k),
    )


def bare(exact: np.ndarray, scale: float) -> Centers:
    """The centres alone: nothing else is read where each row is compared with each of them."""
    exact = np.ascontiguousarray(exact, dtype=np.float64)
    return NOTHING._replace(exact=exact, scale=float(scale))


def half_separation(shifted: np.ndarray, norm2: np.ndarray) -> np.ndarray:
    """Half the distance from each centre to the nearest other one; never too large."""
    gap2 = norm2[:, None] + norm2[None, :] - 2.0 * shifted @ shifted.T
    np.fill_diagonal(gap2, np.inf)
    error = 1e-15 * (shifted.shape[1] + 8) * norm2.max()
    return 0.5 * np.sqrt(np.maximum(gap2.min(axis=1) - error, 0.0))


def make_scratch(k: int, d: int, start: np.ndarray) -> Scratch:
    """Working memory for one thread; `start` are the edges of the groups of centres."""
    widest = min(k, max(TILE_COLUMNS, int(np.diff(start).max())))
    t = start.shape[0] - 1
    return Scratch(
        active=np.empty(TILE_ROWS, np.int64),
        own=np.empty(TILE_ROWS),
        norm2=np.empty(TILE_ROWS),
        error=np.empty(TILE_ROWS),
        low1=np.empty((t + 1, TILE_ROWS), np.float32),
        low2=np.empty((t + 1, TILE_ROWS), np.float32),
        place=np.empty((t + 1, TILE_ROWS), np.int32),
        need=np.empty(t, np.int64),
        todo=np.empty((t, TILE_ROWS), np.int64),
        rows32=np.empty((TILE_ROWS, d), np.float32),
        gathered=np.empty((TILE_ROWS, d), np.float32),
        products=np.empty(TILE_ROWS * widest, np.float32),
        rows64=np.empty((HARD_ROWS, d)),
        scores64=np.empty((HARD_ROWS, k)),
    )


def make_direct_scratch(k: int, d: int) -> DirectScratch:
    """Working memory for one thread of `assign_direct`."""
    return DirectScratch(
        active=np.empty(DIRECT_TILE, np.int64),
        own=np.empty(DIRECT_TILE),
        columns=np.empty((d, DIRECT_TILE)),
        line=np.empty(DIRECT_TILE),
        best=np.empty(DIRECT_TILE),
        second=np.empty(DIRECT_TILE),
        nearest=np.empty(DIRECT_TILE, np.int64),
        near=np.empty(k, np.int64),
        reach=np.empty(k),
    )
