"""Prepare the centres of a pass and the working memory in the forms that the kernels read."""

import numpy as np

from madbayes._jit.constants import DOWN
from madbayes._jit.vectors import BUNCH, PANEL
from madbayes._partition.bounds import Centers
from madbayes._partition.nearest_direct import DIRECT_TILE, DirectScratch
from madbayes._partition.nearest_products import HARD_ROWS, TILE_ROWS, Scratch
from madbayes._rows.row_kernels import SMALL_ARRAY, read_only, row_errors

FEW_GROUPS = 8  # one float32 a row for each; more if that is a quarter of what a row takes
NOTHING = Centers._make([np.empty(0)] * len(Centers._fields))


def make_groups(shifted: np.ndarray) -> tuple[np.ndarray, int]:
    """Put nearby centres into the same group: cut them in two along their longest direction, again
    and again, into full panels."""
    k, d = shifted.shape
    panels = -(-k // PANEL)
    size = PANEL * -(-panels // max(FEW_GROUPS, d // 4))
    group = np.empty(k, dtype=np.int32)
    parts, done = [np.arange(k)], 0
    while parts:
        part = parts.pop()
        if part.size <= size:
            group[part] = done
            done += 1
            continue
        line = shifted[part] - shifted[part].mean(axis=0)
        direction = line[np.argmax((line**2).sum(axis=1))]
        for _ in range(4):  # power iteration towards the eigenvector of the largest eigenvalue
            direction = (line @ direction) @ line
            direction /= max(np.abs(direction).max(), 1e-300)
        part = part[np.argsort(line @ direction, kind="stable")]
        middle = size * -(-part.size // (2 * size))
        parts += [part[middle:], part[:middle]]
    return group, done


def prepare(
    exact: np.ndarray,
    group: np.ndarray,
    t: int,
    offset: np.ndarray,
    scale: float,
    past: np.ndarray,
    separate: bool,
    path: np.ndarray | None = None,
) -> Centers:
    """Shift, scale, pack and measure the centres `exact`.

    `past` (e, k, d) are the scaled centres of the passes in which bounds were computed. `separate`:
    compute the distances between the centres. `path`: see `Centers`; without it the pass replaces
    all bounds by bounds for its own centres.
    """
    exact = np.ascontiguousarray(exact, dtype=np.float64)
    k, d = exact.shape
    shifted = (exact - offset) * scale
    norm2 = np.einsum("ij,ij->i", shifted, shifted)
    drift = distances_between(past, exact * scale) if len(past) else np.zeros((1, k))
    start, place = places(group, t)
    packed = np.zeros((start[-1] * PANEL, d), dtype=np.float32)
    packed_half = np.full(start[-1] * PANEL, np.inf, dtype=np.float32)
    with np.errstate(over="ignore"):  # centres far beyond the rows overflow; float64 decides then
        packed[place], packed_half[place] = shifted, norm2 / 2
    member = np.full(start[-1] * PANEL, -1, dtype=np.int32)
    member[place] = np.arange(k)
    largest, others = largest_drifts(drift, group, t)
    gone = np.zeros(k)
    if path is not None:
        gone = path + drift[-1] + largest_drifts(drift[-1:], np.zeros(k, np.int32), 1)[1][0]
    return Centers(
        exact=exact,
        packed=np.ascontiguousarray(packed.reshape(-1, PANEL, d).transpose(0, 2, 1)),
        packed_half=packed_half.reshape(-1, PANEL),
        member=member,
        group=group,
        start=start,
        shifted=shifted,
        rounded=packed[place],
        shifted_half=norm2 / 2,
        longest=float(np.sqrt(norm2.max())),
        offset=offset,
        scale=float(scale),
        drift=rounded_up(drift),
        others=rounded_up(others),
        drifts=rounded_up(largest),
        path=rounded_up(gone),
        fold=path is None,
        separation=(half_separation(shifted, norm2) if separate and k > 1 else np.zeros(k)).astype(
            np.float32
        ),
    )


def places(group: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The panel where each group begins, and the place of each centre in panels."""
    size = np.bincount(group, minlength=t)
    start = np.concatenate([[0], np.cumsum(-(-size // PANEL))]).astype(np.int64)
    place = np.empty(group.size, dtype=np.int64)
    order = np.argsort(group, kind="stable")
    before = np.cumsum(size) - size
    place[order] = np.arange(group.size) + (start[:-1] * PANEL - before)[group[order]]
    return start, place


def distances_between(past: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The distance of each centre from its place in each earlier pass, of shape (e, k)."""
    if past.size <= SMALL_ARRAY:
        return np.asarray(np.sqrt(((past - exact) ** 2).sum(axis=2)))
    e, k, d = past.shape
    found = np.empty(e * k)
    row_errors(read_only(past.reshape(-1, d)), np.tile(np.arange(k), e), exact, found)
    return np.sqrt(found, out=found).reshape(e, k)


def largest_drifts(drift: np.ndarray, group: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest drift in each group, of shape (e, t); and for each centre the largest drift of
    the other centres in its group, of shape (e, k)."""
    size = np.bincount(group, minlength=t)
    order = np.argsort(group, kind="stable")
    place = np.empty(group.size, dtype=np.int64)
    place[order] = np.arange(group.size) - (np.cumsum(size) - size)[group[order]]
    drifts = np.zeros((len(drift), t, max(2, size.max())))
    drifts[:, group, place] = drift
    drifts.partition(-2, axis=2)
    second, largest = drifts[:, :, -2], drifts[:, :, -1]
    mine = largest[:, group]
    return largest, np.where(drift == mine, second[:, group], mine)


def rounded_up(x: np.ndarray) -> np.ndarray:
    return np.nextafter(
        x.astype(np.float32), np.float32(np.inf), where=x > 0, out=np.zeros(x.shape, np.float32)
    )


def bare(exact: np.ndarray, scale: float) -> Centers:
    """`Centers` with `exact` and `scale` only, for kernels that compute all distances."""
    exact = np.ascontiguousarray(exact, dtype=np.float64)
    return NOTHING._replace(exact=exact, scale=float(scale))


def half_separation(shifted: np.ndarray, norm2: np.ndarray) -> np.ndarray:
    """A lower bound on half the distance from each centre to the nearest other centre."""
    gap2 = norm2[:, None] + norm2[None, :] - 2.0 * shifted @ shifted.T
    np.fill_diagonal(gap2, np.inf)
    error = 1e-15 * (shifted.shape[1] + 8) * norm2.max()
    return 0.5 * DOWN * np.sqrt(np.maximum(gap2.min(axis=1) - error, 0.0))


def make_scratch(k: int, d: int, t: int) -> Scratch:
    """Working memory for one thread, for k centres in t groups."""
    tile, room = TILE_ROWS, TILE_ROWS + BUNCH
    return Scratch(
        active=np.empty(tile, np.int64),
        nearest=np.empty(tile, np.int64),
        floor=np.empty(tile),
        error=np.empty(tile),
        best=np.empty(tile),
        second=np.empty(tile),
        home=np.empty(tile, np.int64),
        home_next=np.empty(tile),
        lines=np.empty((tile, t), np.float32),
        limit=np.empty(tile, np.float32),
        gap=np.empty(tile, np.float32),
        need=np.empty(t, np.int64),
        todo=np.empty((t, room), np.int64),
        rows32=np.empty((tile, d), np.float32),
        low1=np.empty(room, np.float32),
        low2=np.empty(room, np.float32),
        place=np.empty(room, np.int32),
        hard=np.empty(tile, np.int64),
        rows64=np.empty((HARD_ROWS, d)),
        scores64=np.empty((HARD_ROWS, k)),
    )


def make_direct_scratch(k: int, d: int) -> DirectScratch:
    """Working memory for one thread of `assign_direct`."""
    return DirectScratch(
        active=np.empty(DIRECT_TILE, np.int64),
        columns=np.empty((d, DIRECT_TILE)),
        line=np.empty(DIRECT_TILE),
        best=np.empty(DIRECT_TILE),
        second=np.empty(DIRECT_TILE),
        nearest=np.empty(DIRECT_TILE, np.int64),
        near=np.empty(k, np.int64),
        reach=np.empty(k),
    )
