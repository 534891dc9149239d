"""All passes of Lloyd's algorithm over a small table in one compiled call.

A pass of a `Partition` costs a tenth of a millisecond in Python, and more for each segment. Where
the distances of a pass cost less, the same steps run here without Python. Sums are kept and added
in the same order, so the result is that of a `Partition` to the bit. What happens rarely (a cluster
without a positive weight, distances that float32 cannot tell apart) is left to `Partition`.
"""

from typing import Any, NamedTuple

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._jit.constants import PANEL
from madbayes._partition.nearest_direct import centers_around, two_nearest
from madbayes._partition.nearest_products import compare_all, nearest_of_all
from madbayes._partition.prepared_centers import make_direct_scratch, make_scratch
from madbayes._rows.blocks import rows_at_once
from madbayes._rows.distance import add_row, sqdist
from madbayes._rows.frame import Frame, check_reach, shift_for
from madbayes._rows.row_kernels import read_only
from madbayes._rows.rows import DIRECT_COLUMNS, Rows, segments
from madbayes._rows.threads import patient

FEW_PRODUCTS = 2**24  # rows × columns × centres, up to which one thread is quicker than several
Found = tuple[np.ndarray, np.ndarray, float, list[float], int, bool]


class Packed(NamedTuple):
    """Centres in the forms that kernels without bounds read: see `bounds.Centers`."""

    exact: np.ndarray
    packed: np.ndarray
    packed_half: np.ndarray
    member: np.ndarray
    rounded: np.ndarray  # (1, d): read, but not used
    offset: np.ndarray
    scale: float
    longest: float


def lloyd_at_once(
    rows: Rows, frame: Frame, centers: np.ndarray, max_iter: int, tol: float
) -> Found | None:
    """Lloyd's passes until no row moves or the centres move less than `tol` (squared, in all).

    Returns labels, centres, the error, the error after each pass, the number of passes, and whether
    they have converged. None: the table is not small, or `Partition` has to do it.
    """
    work, cuts = rows.n * rows.d * len(centers), np.array(segments(rows.n, len(centers)))
    most = FEW_PRODUCTS if len(cuts) > 1 else 4 * FEW_PRODUCTS  # one segment has one thread anyway
    if work > most or rows.executor.remote or not rows.ready or max_iter > 10**6:
        return None
    check_reach(centers, frame, rows.d)
    (k, d), few = centers.shape, rows.d <= DIRECT_COLUMNS
    labels, history = np.full(rows.n, -1, np.int32), np.empty(max_iter)
    exact = np.array(centers, np.float64, order="C")
    shape, panels = (len(cuts), k, d + 1), -(-k // PANEL)
    view = Packed(
        exact=exact,
        packed=np.zeros((panels, d, PANEL), np.float32),
        packed_half=np.full((panels, PANEL), np.inf, np.float32),
        member=np.arange(panels * PANEL, dtype=np.int32),
        rounded=np.zeros((1, d), np.float32),
        offset=shift_for(rows.dtype, frame),
        scale=frame.scale,
        longest=0.0,
    )
    room: Any = make_direct_scratch(k, d) if few else make_scratch(k, d, 1)
    n_iter, passes, end, error = patient(
        all_passes,
        read_only(rows.X),
        rows.weight,
        cuts,
        np.array(rows.cuts),
        rows_at_once(d),
        view,
        np.empty((2, k, d)),
        labels,
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(k, np.int64),
        np.empty((2, *shape[1:])),
        room.nearest,
        room if few else None,
        None if few else room,
        max_iter,
        tol,
        np.empty(rows.n),
        history,
        brief=work * max_iter <= 2**30,  # tenths of a second: Ctrl-C can wait
    )
    if end < 0:
        return None
    return labels, exact, error, history[:passes].tolist(), n_iter, end > 0


@kernel
def all_passes(
    X, weight, cuts, parts, block, centers, room, labels, sums, low, count, totals, nearest, direct,
    scratch, max_iter, tol, d2, history, stop
):  # fmt: skip
    """`lloyd_at_once`: labels in `labels`, centres in `centers.exact`.

    Returns passes, how many errors are in `history`, 1 if converged (-1: left to `Partition`), and
    the error. Steps and names are those of `kmeans.lloyd` and `Partition`. `room` is for centres
    that all have rows, and for means; `d2` for the distance of each row.
    """
    exact, filled, new = centers.exact, room[0], room[1]
    (k, d), (high, rest) = exact.shape, (totals[0], totals[1])
    sse = peak = 0.0
    n_iter, n_history, converged, fresh_sums = 0, 0, 0, False
    while True:
        # 1. Nearest centres
        ready, moved, n_hard, change = pack(centers), 0, 0, 0.0
        for s in range(cuts.shape[0]):
            i, end, inside = cuts[s, 0], cuts[s, 1], 0.0
            while i < end:
                m, hard = find_nearest(X[:end], i, ready, nearest, direct, scratch)
                n_hard += hard
                for a in range(m):
                    p, q = np.int64(labels[i + a]), nearest[a]
                    if p != q:
                        w = move(X, i + a, q, labels, weight, sums[s], low[s], count)
                        while q >= 0:  # the error with q comes in, then that with p goes out
                            inside += w * sqdist(X, i + a, exact, q)
                            w, q, p = -w, p, -1
                        moved += 1
                i += m
            change += inside
        if stop[0] or n_hard > 0.3 * X.shape[0]:
            return n_iter, n_history, -1, sse
        sse = max(sse + change, 0.0)
        peak = max(peak, sse)
        if converged or n_iter == max_iter:
            break
        n_iter += 1
        if moved == 0 and fresh_sums:
            converged = 1
            break
        # 2. Means
        fresh_sums, empty = moved == 0, 0
        for c in range(k):
            empty += count[c] == 0
            for j in range(d):
                filled[c, j] = exact[c, j]
        if fresh_sums:  # see if it holds without the rounding of the running sums
            n_iter -= 1
            sums[:], low[:], count[:] = 0.0, 0.0, 0
            for s in range(cuts.shape[0]):
                for i in range(cuts[s, 0], cuts[s, 1]):
                    q, labels[i] = np.int64(labels[i]), -1
                    move(X, i, q, labels, weight, sums[s], low[s], count)
        elif empty > 0:
            measure(X, weight, labels, parts, block, exact, d2)
            sse = fill_empty(X, weight, cuts, filled, labels, sums, low, count, d2, sse)
        add_up(sums, low, high, rest)
        saved = take_means(high, rest, count, filled, new)
        if saved < 0.0:
            return n_iter, n_history, -1, sse
        sse, shift = max(sse - saved, 0.0), 0.0
        for c in range(k):
            for j in range(d):
                shift += (new[c, j] - exact[c, j]) ** 2
                exact[c, j] = new[c, j]
        if sse < 1e-5 * peak:  # differences have cancelled most of the digits of `sse`
            sse = peak = measure(X, weight, labels, parts, block, exact, d2)
        if not fresh_sums:
            history[n_history] = sse
            n_history += 1
            converged = int(shift <= tol)
        elif shift == 0.0:  # the same centres: the same rows would be nearest
            n_iter += 1
            converged = 1
            break
    return n_iter, n_history, converged, measure(X, weight, labels, parts, block, exact, d2)


@inner
def find_nearest(X, first, centers, nearest, direct, scratch):
    """The nearest centres of a tile of rows from `first` on.

    Returns the number of rows, and how many of them float32 cannot decide.
    """
    m, n_hard, exact = 0, 0, centers.exact
    if direct is not None:
        columns, best, second = direct.columns, direct.best, direct.second
        m = min(X.shape[0] - first, nearest.shape[0])
        for a in range(m):
            for j in range(X.shape[1]):
                columns[j, a] = X[first + a, j]
        n_near = centers_around(columns, m, exact, direct.near, direct.reach)
        two_nearest(columns, m, exact, direct.near, n_near, direct.line, best, second, nearest)
    if scratch is not None:
        m, n_hard = compare_all(X, first, centers, scratch)
        for b in range(n_hard):
            a = scratch.hard[b]
            nearest[a] = nearest_of_all(X, first + a, exact)
    return m, n_hard


@inner
def move(X, i, q, labels, weight, sums, low, count):
    """Row i goes to cluster q; its old cluster is -1 if it had none. Returns its weight."""
    p, w = np.int64(labels[i]), weight[i] if weight.shape[0] > 0 else 1.0
    labels[i] = q
    if w > 0.0:
        add_row(sums, low, q, X, i, w)
        count[q] += 1
        if p >= 0:
            add_row(sums, low, p, X, i, -w)
            count[p] -= 1
    return w


@inner
def pack(centers):
    """Write the centres in panels, and measure the longest."""
    exact, longest2 = centers.exact, 0.0
    for c in range(exact.shape[0]):
        panel, place, norm2 = c // PANEL, c % PANEL, 0.0
        for j in range(exact.shape[1]):
            v = (exact[c, j] - centers.offset[j]) * centers.scale
            centers.packed[panel, j, place] = v
            norm2 += v * v
        centers.packed_half[panel, place] = norm2 / 2
        longest2 = max(longest2, norm2)
    return Packed(*centers[:-1], np.sqrt(longest2))


@inner
def fill_empty(X, weight, cuts, centers, labels, sums, low, count, d2, sse):
    """Give each centre without rows the row that is farthest from its own centre.

    Returns the error after that, from the error `sse` before. As `kmeans.fill_empty`.
    """
    for c in range(centers.shape[0]):
        count[c] = count[c] if count[c] > 0 else -1  # not 0: the last row of a cluster may leave it
    for c in range(centers.shape[0]):
        if count[c] >= 0:
            continue
        count[c], row, s, largest = 0, np.int64(0), 0, 0.0
        for i in range(1, X.shape[0]):
            row = i if d2[i] > d2[row] else row
        for j in range(X.shape[1]):
            largest = max(largest, abs(np.float64(X[row, j])))
        if d2[row] > X.shape[1] * (4.0 * 2.0**-52 * largest) ** 2:
            while cuts[s, 1] <= row:
                s += 1
            w = move(X, row, np.int64(c), labels, weight, sums[s], low[s], count)
            sse = max(sse - w * d2[row], 0.0)
            for j in range(X.shape[1]):
                centers[c, j] = X[row, j]
        d2[row] = -1.0
    return sse


@inner
def add_up(sums, low, high, rest):
    """The sums of all segments, added in their order, with twice the digits (`row_kernels`)."""
    high[:], rest[:] = 0.0, 0.0
    for s in range(sums.shape[0]):
        for c in range(high.shape[0]):
            for j in range(high.shape[1]):
                old, value = high[c, j], sums[s, c, j]
                new = old + value
                back = new - old
                error = (old - (new - back)) + (value - back)
                high[c, j], rest[c, j] = new, rest[c, j] + error + low[s, c, j]


@kernel
def take_means(sums, low, count, centers, new):
    """Means of the clusters that have rows; the others keep their centres.

    Returns how much this lowers the error; -1: a weight that is not positive, by rounding.
    """
    saved, d = 0.0, centers.shape[1]
    for c in range(centers.shape[0]):
        weight, step2 = sums[c, d] + low[c, d], 0.0
        if count[c] > 0 and not weight > 0.0:
            return -1.0
        for j in range(d):
            new[c, j] = (sums[c, j] + low[c, j]) / weight if count[c] > 0 else centers[c, j]
            step2 += (new[c, j] - centers[c, j]) ** 2
        saved += weight * step2
    return saved


@inner
def measure(X, weight, labels, parts, block, exact, d2):
    """Σ w d², added block by block within segments as `partition.measure_error` does.

    `d2` of each row that counts is kept; 0 for the others.
    """
    total = 0.0
    for s in range(parts.shape[0]):
        part = 0.0
        for a in range(parts[s, 0], parts[s, 1], block):
            inside = 0.0
            for i in range(a, min(a + block, parts[s, 1])):
                w = weight[i] if weight.shape[0] > 0 else 1.0
                error = sqdist(X, i, exact, np.int64(labels[i]))
                d2[i] = error if w > 0.0 else 0.0
                inside += w * error
            part += inside
        total += part
    return total
