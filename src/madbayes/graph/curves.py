"""Curves that cross, or that lie closer together than the neighbours of their rows, are told apart.

Where two curves cross, rows are densest, so that no valley separates them. The neighbours of a row
on a thin spiral lie on the next arm, too. Such curves differ in the direction in which they run.

1. *Anchors.* Thin the rows out until they are `rho` apart, and move each of them a few times to the
   middle of the rows beside it: to the ridge of the curve, if there is one.
2. *Tangents* (`curve_kernels.py`). The direction of an anchor is the axis of the double cone of 18°
   that holds most of the rows around it. The anchor is *clear* if the cone holds half of the rows
   and twice as many as any second cone: true on a curve, false in a cloud and at a crossing.
3. *Scales.* Try many `rho`. Keep those at which nearly as many rows as ever are nearest to a clear
   anchor. If these are never half of the rows, the cluster is no curve (clouds in two columns have
   a third at most). Make steps 4 to 7 at each scale from two thinnings, and accept a division only
   if others confirm it: one wrong link joins two curves, but not the same two each time.
4. *Arcs.* Each clear anchor looks ahead and behind for the best two near it that
   lie in its direction and have the direction of a circle through both. Two anchors that found
   each other are linked. An arc ends at crossings, whose anchors are not clear.
5. *Strands.* Each end of an arc goes on as the circle through its last anchors. Two ends whose
   circles meet continue each other, the best pairs first. An end has one continuation at most, and
   a long gap needs rows on the way. Arcs that became longer are looked at again.
6. *Curves.* Strands that pass through each other, or along each other, away from their ends are
   different curves. An end with no rows ahead joins its strand to what it touches.
7. *Rows* go to the curve of the nearest anchor; distances across the curve count four times.
"""

from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes.graph.curve_kernels import CELLS, follow, rows_near, thin

COLUMNS = 10  # at most: directions of few rows in many columns say nothing
FEWEST, MOST = 60, 3_000  # rows: fewer are no curve, of more a sample is looked at
ANCHORS = 12  # at least
FEW = 6  # rows that an anchor looks at, however far they are
USUAL = 50  # anchors that look at a row, at most, where rows are in two columns
FINER = 1.2  # the ratio of two scales
NEAR, CONE, ACROSS, TRIES, SHIFTS = 2.5, 0.9, 0.75, 24, 3  # see `follow`; cones by squared cosines
CLEAR, TWICE = 0.5, 0.5  # step 2
CURVES, NEARLY = 0.5, 0.8  # step 3: share of the rows, and of the largest share
EVERY = 3  # the share changes slowly: every third scale tells if any has nearly enough
AGREE = 0.75  # adjusted Rand index of two divisions that confirm each other
TRIED = 8  # scales, from the finest
VOTES, SHARED = 3, 0.25  # so many divisions, and such a share of all tries, have to agree
CHANCE = 3.0  # step 5: gaps without rows that chance leaves, n rows at random places
END, MEET, ALONG = 3.0, 3.0, 0.75  # step 6, in rho: at an end, that meets; parallel
STIFF = 15.0  # steps 4 and 7: squared distances across a curve count so many times more
LOOKED = 8  # nearest anchors of an anchor, and of a row
LINK, TURN, BEND, BEST = 2.5, 0.25, 0.1, 2  # step 4
ROUNDS = (  # step 5: squared angles missed at most, the longest gap, the length looked back
    (0.05, 8.0, 6.0),
    (0.1, 8.0, 6.0),
    (0.2, 8.0, 6.0),
    (0.4, 8.0, 6.0),
    (0.05, 16.0, 10.0),
    (0.1, 16.0, 10.0),
    (0.2, 16.0, 10.0),
)
RIDGE = 2.0  # what a curvature is worth in squared distances
BENT, GAP = 0.06, 0.04  # what a change of curvature, and a gap, cost
AHEAD, EMPTY = (3.0, 5.0), 1.0  # an end is free if no anchor is there
SHORT, COVER = 0.04, 0.7  # strands of so few anchors are left out; all others hold so many
TOUCH = 1.5  # a row is on the way that is so near to it


class Anchors(NamedTuple):
    rho: float
    point: np.ndarray
    tangent: np.ndarray
    clear: np.ndarray
    share: float  # of the rows that are nearest to a clear one
    rows: int


class Curves(NamedTuple):
    point: np.ndarray
    tangent: np.ndarray
    label: np.ndarray


def divide_into_curves(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Clusters that are several curves divided: the first curve keeps the label, others get new
    ones, in the order of the clusters."""
    new, k = labels.copy(), int(labels.max(initial=-1)) + 1
    if X.shape[1] > COLUMNS:
        return new
    stage = Stage("curves that cross", k)
    top = k
    for c in range(k):
        rows = np.flatnonzero(labels == c)
        curve = strands(X[rows])
        if curve is not None:
            further = curve > 0
            new[rows[further]] = top + curve[further] - 1
            top += int(curve.max())
        stage.step()
    return new


def strands(X: np.ndarray) -> np.ndarray | None:
    """For each row of a cluster the curve that it belongs to; None if that would be one for all.

    Rows are taken in a random order, but always in the same, whatever order they have."""
    n, d = X.shape
    if n < FEWEST or not 1 < d <= COLUMNS:
        return None
    order = np.lexsort(X.T)[np.random.RandomState(0).permutation(n)[:MOST]]
    rows = np.ascontiguousarray(X[order], dtype=np.float64)
    middle = rows.mean(axis=0)
    rows = rows - middle
    width = float(np.sqrt((rows**2).sum(axis=1).mean()))
    tree = cKDTree(rows)
    rho = 0.7 * float(np.median(tree.query(rows, [3])[0]))
    steps = []
    while 0 < rho < width / 4:
        steps.append(rho)
        rho *= FINER
    some = list(filter(is_there, together(partial(anchors, tree), steps[1::EVERY])))
    if max((each.share for each in some), default=0.0) < NEARLY * CURVES:
        return None
    left = [rho for i, rho in enumerate(steps) if i % EVERY != 1]
    some += filter(is_there, together(partial(anchors, tree), left))
    enough = max(CURVES, NEARLY * max(each.share for each in some))
    scales = sorted((each for each in some if each.share >= enough), key=attrgetter("rho"))[:TRIED]
    found = list(filter(is_there, together(at_scale, scales)))
    if len(found) + len(scales) < VOTES:
        return None
    again = partial(anchors, cKDTree(rows[::-1]))
    others = list(filter(is_there, together(again, [each.rho for each in scales])))
    scales += others
    found += filter(is_there, together(at_scale, others))
    best = agreed([nearest_curve(rows, each) for each in found], max(VOTES, SHARED * len(scales)))
    if best is None:
        return None
    label = nearest_curve(np.asarray(X, dtype=np.float64) - middle, found[best])
    return np.unique(label, return_inverse=True)[1]


def is_there(found: Any) -> bool:
    return found is not None


def agreed(found: list[np.ndarray], votes: float) -> int | None:
    """3. The place of the division that most others (and itself, at least `votes`) confirm, then
    most like them, then with most curves; None if none is confirmed."""
    best, most = None, (0.0, 0.0, 0.0)
    alike = np.ones((len(found), len(found)))
    for p, one in enumerate(found):
        for q in range(p):
            alike[p, q] = alike[q, p] = rand_index(one, found[q])
    for place, one in enumerate(found):
        same = alike[place][alike[place] >= AGREE]
        value = (float(same.size), float(same.mean()), float(one.max()))
        if same.size >= votes and value > most:
            best, most = place, value
    return best


def rand_index(one: np.ndarray, other: np.ndarray) -> float:
    """Adjusted for chance; of labels from 0 on."""
    both = np.bincount(one * (int(other.max()) + 1) + other).tolist()
    same, first, second = (
        sum(count * (count - 1) for count in each)
        for each in (both, np.bincount(one).tolist(), np.bincount(other).tolist())
    )
    n = one.size * (one.size - 1)
    if first == second == same:
        return 1.0
    # As pairs: in both, in one only, in the other only, in none; whole numbers until the end
    p, q, r, s = same, first - same, second - same, n - first - second + same
    return 2.0 * (p * s - q * r) / ((p + q) * (q + s) + (p + r) * (r + s))


def thinned(points: np.ndarray, apart: float) -> np.ndarray:
    """1. Those that are left when each, in turn, removes all after it that are within `apart`."""
    after, kept = np.empty((2, len(points)), np.int64)
    return kept[: thin(points, apart, grid(), after, kept)]


def grid() -> np.ndarray:
    return np.full((CELLS, CELLS), -1)


def around(tree: cKDTree, point: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """2. The rows within `reach` of each point, or the nearest few: where they start, and all."""
    rows, found = tree.data, np.empty((USUAL * len(tree.data), 2), np.int64)
    after = np.empty(len(point), np.int64)
    total = rows_near(rows, point, reach, grid(), after, found)
    if total > len(found):
        found = np.empty((total, 2), np.int64)
        rows_near(rows, point, reach, grid(), after, found)
    owner, member = found[:total].T
    order = np.argsort(owner.astype(np.uint16), kind="stable")  # less than MOST: a quick sort
    start, member = np.r_[0, np.cumsum(np.bincount(owner, minlength=len(point)))], member[order]
    few = np.diff(start) < FEW
    if few.any():
        owner = np.repeat(np.arange(len(point)), np.diff(start))
        further = np.sort(tree.query(point[few], np.arange(1, FEW + 1))[1], axis=1)
        owner = np.r_[owner[~few[owner]], np.repeat(np.flatnonzero(few), FEW)]
        member = np.r_[member[np.repeat(~few, np.diff(start))], further.ravel()]
        order = np.argsort(owner, kind="stable")
        start, member = np.searchsorted(owner[order], np.arange(len(point) + 1)), member[order]
    return start, member


def anchors(tree: cKDTree, rho: float) -> Anchors | None:
    """1 and 2, at one scale; None if there are too few."""
    rows = tree.data
    point = rows[thinned(rows, rho)]
    if len(point) < ANCHORS:
        return None
    start, member = around(tree, point, (NEAR + 0.5) * rho)
    tangent, first, second = np.zeros_like(point), np.zeros(len(point)), np.zeros(len(point))
    follow(
        rows, start, member, point, rho, NEAR, CONE, ACROSS, TRIES, SHIFTS, tangent, first, second
    )
    kept = thinned(point, 0.7 * rho)
    clear = ((first >= CLEAR) & (second < TWICE * first))[kept]
    own = cKDTree(point[kept]).query(rows)[1]
    return Anchors(rho, point[kept], tangent[kept], clear, float(clear[own].mean()), len(rows))


def at_scale(scale: Anchors) -> Curves | None:
    """4 to 6; None if there is only one curve."""
    point = scale.point / scale.rho
    bare = CHANCE * np.log(scale.rows) * len(point) / scale.rows
    strands = join_arcs(point[scale.clear], scale.tangent[scale.clear], cKDTree(point), bare)
    group = None if strands is None else grouped(strands)
    if strands is None or group is None:
        return None
    label = np.where(strands.label >= 0, group[strands.label], -1)
    used = label >= 0
    return Curves(strands.point[used] * scale.rho, strands.tangent[used], label[used])


class Pairs(NamedTuple):
    """Anchors near each other, in the order of the first."""

    start: np.ndarray
    i: np.ndarray
    j: np.ndarray
    u: np.ndarray
    squared: np.ndarray
    along: np.ndarray  # u in the direction of i


class Ends(NamedTuple):
    anchor: np.ndarray
    side: np.ndarray  # 1: ahead, -1: behind

    def some(self, which: np.ndarray) -> "Ends":
        return Ends(self.anchor[which], self.side[which])


class Bridge(NamedTuple):
    """A continuation: from an anchor in a direction, to another that looks back."""

    first: int
    second: int
    out: np.ndarray
    back: np.ndarray


class Strands(NamedTuple):
    point: np.ndarray  # anchors, also on bridges
    tangent: np.ndarray
    label: np.ndarray  # the strand; -1: too short for one
    ends: np.ndarray
    free: np.ndarray  # of the ends: nothing is ahead of it


def join_arcs(
    point: np.ndarray, tangent: np.ndarray, around: cKDTree, bare: float
) -> Strands | None:
    """4 and 5, of clear anchors, `around` all of them. Gaps of `bare` need no rows; None if there
    is only one strand."""
    pairs = near_pairs(point, tangent)
    least = max(4, SHORT * len(point))
    found = continued(point, tangent, linked(pairs, tangent), pairs, around, bare, least)
    if found is None:
        return None
    strand, bridges, ends, free = found
    size = np.bincount(strand)
    long = size >= least
    if long.sum() < 2 or size[long].sum() < COVER * len(point):
        return None
    point, tangent, strand = bridged(point, tangent, strand, bridges)
    label = np.where(long[strand], np.cumsum(long)[strand] - 1, -1)
    used = label[ends] >= 0
    return Strands(point, tangent, label, ends[used], free[used])


def near_pairs(point: np.ndarray, tangent: np.ndarray) -> Pairs:
    once = cKDTree(point).query_pairs(10.0, output_type="ndarray")
    i, j = np.r_[once[:, 0], once[:, 1]], np.r_[once[:, 1], once[:, 0]]
    order = np.lexsort((j, i))
    i, j = i[order], j[order]
    u = point[j] - point[i]
    squared = np.maximum((u**2).sum(axis=1), np.finfo(float).tiny)
    start = np.searchsorted(i, np.arange(len(point) + 1))
    return Pairs(start, i, j, u, squared, np.einsum("pd,pd->p", u, tangent[i]))


def linked(pairs: Pairs, tangent: np.ndarray) -> np.ndarray:
    """4. The arc of each anchor. A circle through i in its direction arrives at j in the direction
    of i mirrored at the line between them."""
    near = pairs.squared < LINK**2
    i, j, u, squared, along = (each[near] for each in pairs[1:])
    turn = 1 - along**2 / squared
    turned = 1 - np.einsum("pd,pd->p", u, tangent[j]) ** 2 / squared
    mirrored = 2 * (along / squared)[:, None] * u - tangent[i]
    bend = 1 - np.einsum("pd,pd->p", mirrored, tangent[j]) ** 2
    possible = np.flatnonzero((turn < TURN) & (turned < TURN) & (bend < BEND))
    cost = squared * (1 + STIFF * (turn + turned + bend))
    side = i * 2 + (along > 0)
    order = possible[np.lexsort((j[possible], cost[possible], side[possible]))]
    first = np.r_[True, side[order][1:] != side[order][:-1]]
    place = np.arange(order.size) - np.flatnonzero(first)[np.cumsum(first) - 1]
    best = order[place < BEST]
    m = len(tangent)
    ends = i[best].astype(np.int32), j[best].astype(np.int32)  # SciPy 1.11 takes 32 bits only
    asked = sp.csr_array((np.ones(best.size), ends), (m, m))
    return connected_components(asked.multiply(asked.T), directed=False)[1]


def continued(
    point: np.ndarray,
    tangent: np.ndarray,
    arc: np.ndarray,
    pairs: Pairs,
    around: cKDTree,
    bare: float,
    least: float,
) -> tuple[np.ndarray, list[Bridge], np.ndarray, np.ndarray] | None:
    """5. The strand of each anchor, the bridges between arcs, the anchors at ends that are left,
    and which of these have nothing before them; None once one strand leaves less than `least`."""
    strand, bridges = arc.copy(), []
    ends, looked = open_ends(arc, pairs), 0.0
    for most, far, length in ROUNDS:
        while True:
            if len(point) - np.bincount(strand).max() < least:
                return None
            if length != looked:
                out, bent = outlook(ends, point, tangent, strand, pairs, length)
                met, looked = meetings(point[ends.anchor], out, bent, far), length
            a, b, cost = continuations(point[ends.anchor], out, bent, met, most, far, around, bare)
            lowest = np.full(ends.anchor.size, np.inf)
            np.minimum.at(lowest, a, cost)
            np.minimum.at(lowest, b, cost)
            best = np.flatnonzero((cost == lowest[a]) & (cost == lowest[b]))
            left = np.ones(ends.anchor.size, bool)
            for p, q in zip(a[best], b[best], strict=True):
                first, second = ends.anchor[p], ends.anchor[q]
                bridges.append(Bridge(first, second, out[p], out[q]))
                strand[strand == strand[second]] = strand[first]
                left[p] = left[q] = False
            if not best.size:
                break
            ends, looked = ends.some(left), 0.0
    out, bent = outlook(ends, point, tangent, strand, pairs, ROUNDS[0][2])
    free = nothing_ahead(point[ends.anchor], out, bent, around)
    return np.unique(strand, return_inverse=True)[1], bridges, ends.anchor, free


def nothing_ahead(
    point: np.ndarray, out: np.ndarray, bent: np.ndarray, around: cKDTree
) -> np.ndarray:
    """Ends that no anchor is in front of."""
    free = np.ones(len(point), bool)
    for way in AHEAD:
        free &= around.query(point + way * chord(out, bent, way))[0] > EMPTY
    return free


def open_ends(arc: np.ndarray, pairs: Pairs) -> Ends:
    """Anchors with nobody of their arc ahead, or nobody behind."""
    same = (arc[pairs.i] == arc[pairs.j]) & (pairs.along**2 > 0.5 * pairs.squared)
    anchor, side = [], []
    for sign in (1.0, -1.0):
        followed = np.zeros(arc.size, bool)
        followed[pairs.i[same & (sign * pairs.along > 0)]] = True
        anchor.append(np.flatnonzero(~followed))
        side.append(np.full(anchor[-1].size, sign))
    return Ends(np.concatenate(anchor), np.concatenate(side))


def outlook(
    ends: Ends,
    point: np.ndarray,
    tangent: np.ndarray,
    strand: np.ndarray,
    pairs: Pairs,
    length: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Direction and curvature in which strands leave their ends: x(s) = x + s v + s² w through the
    anchors of the last `length`, and through their directions. s is the distance from the end:
    that of a circle is then exact across."""
    count = np.diff(pairs.start)[ends.anchor]
    owner = np.repeat(np.arange(count.size), count)
    pair = np.arange(owner.size) + np.repeat(
        pairs.start[ends.anchor] - np.cumsum(count) + count, count
    )
    j = pairs.j[pair]
    used = (strand[j] == strand[pairs.i[pair]]) & (pairs.squared[pair] < length**2)
    owner, pair, j = owner[used], pair[used], j[used]
    out = ends.side[:, None] * tangent[ends.anchor]
    s = np.sign(ends.side[owner] * pairs.along[pair]) * np.sqrt(pairs.squared[pair])
    t = tangent[j] * np.sign(np.einsum("pd,pd->p", tangent[j], out[owner]))[:, None]
    place = np.c_[np.ones_like(s), s, s**2]
    slope = np.c_[np.zeros_like(s), np.ones_like(s), 2 * s]
    left, right = np.zeros((count.size, 3, 3)), np.zeros((count.size, 3, point.shape[1]))
    left[:] = np.diag([1.0, 1.0, RIDGE**2])  # the end itself, and no curvature
    right[:, 1] = out
    weights = place[:, :, None] * place[:, None] + slope[:, :, None] * slope[:, None]
    np.add.at(left, owner, weights)
    values = place[:, :, None] * pairs.u[pair][:, None] + slope[:, :, None] * t[:, None]
    np.add.at(right, owner, values)
    fit = np.linalg.solve(left, right)
    speed = np.sqrt((fit[:, 1] ** 2).sum(axis=1, keepdims=True))
    out, bent = fit[:, 1] / speed, 2 * fit[:, 2] / speed**2
    return out, bent - np.einsum("pd,pd->p", bent, out)[:, None] * out


def meetings(
    point: np.ndarray, out: np.ndarray, bent: np.ndarray, far: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of ends, how long the gap is, and by how much circles from both miss each other and
    change their curvature."""
    a, b = (
        cKDTree(point).query_pairs(far, output_type="ndarray").T
        if len(point)
        else np.zeros((2, 0), int)
    )
    u = point[b] - point[a]
    gap = np.sqrt((u**2).sum(axis=1))
    a, b, u, gap = a[gap > 0], b[gap > 0], u[gap > 0], gap[gap > 0]
    there, back = chord(out[a], bent[a], gap[:, None]), chord(out[b], bent[b], gap[:, None])
    mirrored = bent[a] - 2 * (np.einsum("pd,pd->p", bent[a], u) / gap**2)[:, None] * u
    missed = off(there, u) + off(back, -u) + off(there, -back)
    missed += BENT * ((bent[b] - mirrored) ** 2).sum(axis=1) * gap**2
    return a, b, gap, missed


def continuations(
    point: np.ndarray,
    out: np.ndarray,
    bent: np.ndarray,
    met: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    most: float,
    far: float,
    around: cKDTree,
    bare: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of ends that may continue each other, and what that costs."""
    a, b, gap, missed = (each[met[3] < most] for each in met)
    if not a.size:
        return a, b, missed
    way = np.arange(1, int(far))[:, None, None] / int(far)
    on_way = cubic(point[a], point[b], out[a], out[b], way)[0]
    empty = around.query(on_way)[0].max(axis=0, initial=0.0) > TOUCH
    free = nothing_ahead(point, out, bent, around)
    good = ~(empty & ~(free[a] & free[b]) & (gap > bare))
    return a[good], b[good], missed[good] + GAP**2 * gap[good] ** 2


def chord(out: np.ndarray, bent: np.ndarray, gap: np.ndarray | float) -> np.ndarray:
    """The direction in which a circle is after a gap."""
    sine = bent * gap / 2
    sine = sine * np.minimum(
        1, 0.9 / np.maximum(np.sqrt((sine**2).sum(axis=1, keepdims=True)), 0.9)
    )
    return out * np.sqrt(1 - (sine**2).sum(axis=1, keepdims=True)) + sine


def off(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """2 (1 - cosine): the squared angle between two directions, where it is small."""
    return 2 - 2 * np.einsum("pd,pd->p", x, y) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))


def cubic(
    p: np.ndarray, q: np.ndarray, out: np.ndarray, back: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points and directions of the curve from p to q, s from 0 to 1."""
    u = q - p
    gap = np.sqrt((u**2).sum(axis=-1, keepdims=True))
    v, w = gap * out, -gap * back
    square, cube = 3 * u - 2 * v - w, v + w - 2 * u
    t = v + 2 * s * square + 3 * s**2 * cube
    return p + s * (v + s * (square + s * cube)), t / np.sqrt((t**2).sum(axis=-1, keepdims=True))


def bridged(
    point: np.ndarray, tangent: np.ndarray, strand: np.ndarray, bridges: list[Bridge]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Anchors, with more of them on the bridges."""
    points, tangents, strands = [point], [tangent], [strand]
    for p, q, out, back in bridges:
        steps = int(np.sqrt(((point[q] - point[p]) ** 2).sum())) + 1
        s = np.arange(1, steps)[:, None] / steps
        way, direction = cubic(point[p], point[q], out, back, s)
        points.append(way)
        tangents.append(direction)
        strands.append(np.full(steps - 1, strand[p]))
    return np.vstack(points), np.vstack(tangents), np.concatenate(strands)


def grouped(strands: Strands) -> np.ndarray | None:
    """6. The curve of each strand, -1 of those that pass nobody; None if less than two are left."""
    point, tangent, strand, ends, free = strands
    k = int(strand.max()) + 1
    at_end, at_free = np.zeros(len(point), bool), np.zeros(len(point), bool)
    if ends.size:
        near = cKDTree(point[ends]).sparse_distance_matrix(
            cKDTree(point), END, output_type="ndarray"
        )
        own = strand[ends[near["i"]]] == strand[near["j"]]
        at_end[near["j"][own]] = True
        at_free[near["j"][own & free[near["i"]]]] = True
    kept = np.flatnonzero(strand >= 0)
    nearest = cKDTree(point[kept]).query(point[kept], min(LOOKED + 1, kept.size))[1][:, 1:]
    a, b = np.repeat(kept, nearest.shape[1]), kept[nearest.ravel()]
    meeting = strand[a] != strand[b]
    a, b = a[meeting], b[meeting]
    for alone in np.setdiff1d(np.arange(k), strand[np.r_[a, b]]):  # it may run along another
        one, rest = np.flatnonzero(strand == alone), kept[strand[kept] != alone]
        a = np.r_[a, one]
        b = np.r_[b, rest[cKDTree(point[rest]).query(point[one])[1]]]
    apart = ((point[a] - point[b]) ** 2).sum(axis=1)
    beside = (apart < TOUCH**2) & (np.einsum("pd,pd->p", tangent[a], tangent[b]) ** 2 > ALONG)
    inside = ~(at_end[a] | at_end[b] | beside)

    def count(which: np.ndarray) -> np.ndarray:
        number = np.zeros((k, k))
        np.add.at(number, (strand[a], strand[b]), 1.0 * which)
        return number + number.T

    contacts = count(np.ones(a.size))
    different = (contacts > 0) & (count(inside) >= contacts / 2)
    different |= count(inside & (apart < TOUCH**2)) > 0
    met = (apart < MEET**2) & (at_free[a] | at_free[b])
    joins = (count(met | (beside & (at_end[a] | at_end[b]))) > 0) & ~different
    group = np.arange(k)
    p, q = np.nonzero(np.triu(joins))
    for pair in np.lexsort((q, p, -contacts[p, q])):
        one, other = group == group[p[pair]], group == group[q[pair]]
        if not different[np.ix_(one, other)].any():
            group[other] = group[p[pair]]
    passes = [different[np.ix_(group == each, group != each)].any() for each in group]
    if not any(passes):
        return None
    group[~np.array(passes)] = -1
    found, new = np.unique(group, return_inverse=True)
    return new - (found[0] < 0)


def nearest_curve(X: np.ndarray, curve: Curves) -> np.ndarray:
    """7. The curve of each row."""
    looked = np.arange(1, min(LOOKED, len(curve.label)) + 1)
    place = cKDTree(curve.point).query(X, looked)[1]
    u = X[:, None, :] - curve.point[place]
    along = np.einsum("npd,npd->np", u, curve.tangent[place])
    apart = (1 + STIFF) * (u**2).sum(axis=2) - STIFF * along**2
    return curve.label[np.take_along_axis(place, apart.argmin(axis=1)[:, None], 1)[:, 0]]
