"""Anchors linked to arcs, and arcs continued to strands: steps 4 and 5 of `curves.py`.

All lengths here are in units of the scale `rho`: anchors are about 1 apart.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

NEAR = 10.0  # anchors that have to do with each other
LINK, TURN, BEND, STIFF, BEST = 2.5, 0.25, 0.1, 15.0, 2  # step 4
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
    once = cKDTree(point).query_pairs(NEAR, output_type="ndarray")
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
