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
4. *Arcs* (`curve_arcs.py`). Each clear anchor looks ahead and behind for the best two near it that
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
from scipy.spatial import cKDTree

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes.graph.curve_arcs import TOUCH, Strands, join_arcs
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
STIFF = 15.0  # step 7: distances across count so much more, squared
LOOKED = 8  # nearest anchors of an anchor, and of a row


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
