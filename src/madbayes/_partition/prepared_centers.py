"""Prepare the centres of a pass and the working memory in the forms that the kernels read."""

import numpy as np

from madbayes._jit.constants import DOWN
from madbayes._jit.vectors import BUNCH, PANEL
from madbayes._partition.bounds import Centers
from madbayes._partition.nearest_direct import DIRECT_TILE, DirectScratch
from madbayes._partition.nearest_products import HARD_ROWS, TILE_ROWS, Scratch

FEW_GROUPS = 8  # one float32 a row for each; more if that is a quarter of what a row takes


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
    past: np.ndarray | None,
    separate: bool,
) -> Centers:
    """Shift, scale, pack and measure the centres `exact`.

    `past` are the centres that the bounds refer to (None: there are no bounds). `separate`:
    compute the distances between the centres.
    """
    exact = np.ascontiguousarray(exact, dtype=np.float64)
    k, d = exact.shape
    shifted = (exact - offset) * scale
    norm2 = np.einsum("ij,ij->i", shifted, shifted)
    drift = np.zeros(k) if past is None else np.linalg.norm((exact - past) * scale, axis=1)
    start, place = places(group, t)
    packed = np.zeros((start[-1] * PANEL, d), dtype=np.float32)
    packed_half = np.full(start[-1] * PANEL, np.inf, dtype=np.float32)
    with np.errstate(over="ignore"):  # centres far beyond the rows overflow; float64 decides then
        packed[place], packed_half[place] = shifted, norm2 / 2
    member = np.full(start[-1] * PANEL, -1, dtype=np.int32)
    member[place] = np.arange(k)
    largest, others = largest_drifts(drift, group, t)
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


def largest_drifts(drift: np.ndarray, group: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest drift in each group; and for each centre the largest drift of the other centres
    in its group."""
    largest, second = np.zeros(t), np.zeros(t)
    order = np.argsort(drift, kind="stable")
    last = np.full(t, -1)
    last[group[order]] = order  # of equal indices, numpy keeps the last value
    largest[group] = drift[last[group]]
    rest = order[last[group[order]] != order]
    second[group[rest]] = drift[rest]
    return largest, np.where(last[group] == np.arange(len(drift)), second[group], largest[group])


def rounded_up(x: np.ndarray) -> np.ndarray:
    return np.nextafter(
        x.astype(np.float32), np.float32(np.inf), where=x > 0, out=np.zeros(x.shape, np.float32)
    )


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
