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
   circles meet continue each other, the best pairs first, and an end has one continuation at most.
   Arcs that became longer are looked at again.
6. *Curves.* Strands that pass through each other, or along each other, away from their ends are
   different curves. A strand that ends where it touches another is part of that curve.
7. *Rows* go to the curve of the nearest anchor; distances across the curve count 16 times.
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
from madbayes.graph.curve_kernels import CELLS, follow, thin
from madbayes.graph.held_out import adjusted_rand

COLUMNS = 10  # at most: directions of few rows in many columns say nothing
FEWEST, MOST = 60, 3_000  # rows: fewer are no curve, of more a sample is looked at
ANCHORS = 12  # at least
FINER = 1.2  # the ratio of two scales; with 1.3 fewer divisions confirm each other
NEAR, CONE, ACROSS, TRIES, SHIFTS = 2.5, 0.9, 0.75, 24, 3  # see `follow`; cones by squared cosines
CLEAR = 0.5  # step 2: share of the rows in the first cone, and of the second cone in the first
CURVES, NEARLY = 0.5, 0.8  # step 3: share of the rows, and of the largest share
AGREE = 0.75  # adjusted Rand index of two divisions that confirm each other
TRIED = 8  # scales, from the finest
VOTES, SHARED = 3, 0.25  # so many divisions, and such a share of all tries, have to agree
STIFF = 15.0  # steps 4 and 7: squared distances across a curve count so many times more
LOOKED = 8  # nearest anchors of an anchor, and of a row
# Step 4, in rho and squared sines: the reach of a link, how far it turns, and how far it bends
LINK, TURN, BEND = 2.5, 0.25, 0.1
# Step 5, one round after another: the squared angles that circles miss each other by, at most; the
# longest gap and the length that is looked back, in rho. One round for all gaps loses spirals.
ROUNDS = ((0.1, 8.0, 6.0), (0.4, 8.0, 6.0), (0.2, 16.0, 10.0))
FAR = 0.04  # step 5: the angle that each rho of a gap counts for
RIDGE = 2.0  # what a curvature is worth in squared distances
SHORT = 0.04  # strands of a smaller share of the anchors are left out
END, TOUCH, ALONG = (
    3.0,
    1.5,
    0.75,
)  # step 6, in rho: at an end; touching; squared cosine of parallels


class Anchors(NamedTuple):
    rho: float
    point: np.ndarray
    tangent: np.ndarray
    clear: np.ndarray
    share: float  # of the rows that are nearest to a clear one


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
    # The share changes slowly: every third scale tells if any has nearly enough
    some = list(filter(is_there, together(partial(anchors, tree), steps[1::3])))
    if max((each.share for each in some), default=0.0) < NEARLY * CURVES:
        return None
    left = [rho for i, rho in enumerate(steps) if i % 3 != 1]
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
            alike[p, q] = alike[q, p] = adjusted_rand(one, found[q])
    for place, one in enumerate(found):
        same = alike[place][alike[place] >= AGREE]
        value = (float(same.size), float(same.mean()), float(one.max()))
        if same.size >= votes and value > most:
            best, most = place, value
    return best


def thinned(points: np.ndarray, apart: float) -> np.ndarray:
    """1. Those that are left when each, in turn, removes all after it that are within `apart`."""
    head, after, kept = np.full((CELLS, CELLS), -1), *np.empty((2, len(points)), np.int64)
    return kept[: thin(points, apart, head, after, kept)]


def around(tree: cKDTree, point: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """2. The rows within `reach` of each point, or the nearest six: where they start, and all."""
    near = cKDTree(point).sparse_distance_matrix(tree, reach, output_type="ndarray")
    owner, member, few = near["i"], near["j"], np.bincount(near["i"], minlength=len(point)) < 6
    further = tree.query(point[few], np.arange(1, 7))[1]
    owner = np.r_[owner[~few[owner]], np.repeat(np.flatnonzero(few), 6)]
    member = np.r_[member[~few[near["i"]]], further.ravel()]
    order = np.argsort(owner * len(tree.data) + member)
    return np.searchsorted(owner[order], np.arange(len(point) + 1)), member[order]


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
    clear = ((first >= CLEAR) & (second < CLEAR * first))[kept]
    own = cKDTree(point[kept]).query(rows)[1]
    return Anchors(rho, point[kept], tangent[kept], clear, float(clear[own].mean()))


def at_scale(scale: Anchors) -> Curves | None:
    """4 to 6; None if there is only one curve."""
    point, tangent = scale.point[scale.clear] / scale.rho, scale.tangent[scale.clear]
    found = join_arcs(point, tangent)
    group = None if found is None else grouped(point, tangent, *found)
    if found is None or group is None:
        return None
    label = np.where(found[0] >= 0, group[found[0]], -1)
    used = label >= 0
    return Curves(point[used] * scale.rho, tangent[used], label[used])


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


def join_arcs(point: np.ndarray, tangent: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """4 and 5. The strand of each clear anchor, -1 if it is too short for one, and the anchors at
    ends of strands; None if there is only one strand."""
    pairs = near_pairs(point, tangent)
    strand, least = linked(pairs, tangent), max(4, SHORT * len(point))
    ends = open_ends(strand, pairs)
    for most, gap, back in ROUNDS:
        best = np.ones(1, bool)
        while best.any():
            if len(point) - np.bincount(strand).max() < least:
                return None
            out, bent = outlook(ends, point, tangent, strand, pairs, back)
            a, b, missed = continuations(point[ends.anchor], out, bent, gap, most)
            lowest = np.full(ends.anchor.size, np.inf)
            np.minimum.at(lowest, np.r_[a, b], np.r_[missed, missed])
            best = (missed == lowest[a]) & (missed == lowest[b])
            left = np.ones(ends.anchor.size, bool)
            for p, q in zip(a[best], b[best], strict=True):
                strand[strand == strand[ends.anchor[q]]] = strand[ends.anchor[p]]
                left[[p, q]] = False
            ends = Ends(ends.anchor[left], ends.side[left])
    strand = np.unique(strand, return_inverse=True)[1]
    long = np.bincount(strand) >= least
    label = np.where(long[strand], np.cumsum(long)[strand] - 1, -1)
    return (label, ends.anchor[label[ends.anchor] >= 0]) if long.sum() > 1 else None


def near_pairs(point: np.ndarray, tangent: np.ndarray) -> Pairs:
    once = cKDTree(point).query_pairs(ROUNDS[-1][2], output_type="ndarray")
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
    best = order[place < 2]
    m = len(tangent)
    ends = i[best].astype(np.int32), j[best].astype(np.int32)  # SciPy 1.11 takes 32 bits only
    asked = sp.csr_array((np.ones(best.size), ends), (m, m))
    return connected_components(asked.multiply(asked.T), directed=False)[1]


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


def continuations(
    point: np.ndarray, out: np.ndarray, bent: np.ndarray, far: float, most: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """5. Pairs of ends that may continue each other, and by how much their circles miss."""
    a, b = cKDTree(point).query_pairs(far, output_type="ndarray").T
    u = point[b] - point[a]
    gap = np.sqrt((u**2).sum(axis=1))
    a, b, u, gap = a[gap > 0], b[gap > 0], u[gap > 0], gap[gap > 0][:, None]
    there, back = chord(out[a], bent[a], gap), chord(out[b], bent[b], gap)
    missed = off(there, u) + off(back, -u) + off(there, -back)
    meet = missed < most
    return a[meet], b[meet], missed[meet] + (FAR * gap[meet, 0]) ** 2


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


def grouped(
    point: np.ndarray, tangent: np.ndarray, strand: np.ndarray, ends: np.ndarray
) -> np.ndarray | None:
    """6. The curve of each strand, -1 of those that pass nobody; None if less than two are left."""
    k = int(strand.max()) + 1
    at_end = np.zeros(len(point), bool)
    if ends.size:
        near = cKDTree(point[ends]).sparse_distance_matrix(
            cKDTree(point), END, output_type="ndarray"
        )
        at_end[near["j"][strand[ends[near["i"]]] == strand[near["j"]]]] = True
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
    joins = (count((apart < END**2) & (at_end[a] | at_end[b])) > 0) & ~different
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
