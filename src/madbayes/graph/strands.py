"""Curves that cross, or run side by side closer than rows see their neighbours: strands.

Where two curves cross, rows are densest, and no valley separates them; between two arms of a thin
spiral there is a gap, but the nearest neighbours reach over it. What tells such curves apart is
the direction in which they run.

1. *Anchors.* Rows thinned out until they are `rho` apart, each moved a few times to the middle of
   the rows beside it: on the ridge of a curve, if it is on one.
2. *Tangents* (`_kernels/strands.py`). The double cone of 18° that holds most of the rows around an
   anchor is its direction. An anchor is *clear* if the cone holds half of the rows, and twice as
   many as a second cone: on a curve it does, in a cloud or at a crossing it does not.
3. *Scales.* Of many `rho` those at which nearly as many rows as ever are at clear anchors. If never
   half of them are, the rows are no curves, and that is all: of clouds in two columns it is a
   third at most, and in more columns less. 4 and 5 are done at each of these scales, from two
   thinnings each, and a division counts only if others confirm it: one wrong link joins two
   curves, but each time others.
4. *Strands.* Each clear anchor looks for the best two ahead and behind, which lie in its direction,
   have the direction that an arc from it would have there, and are near; two that found each other
   are linked. Links pass over crossings, whose anchors are not clear. Connected anchors are a
   strand.
5. *Passing.* Strands whose contacts are away from the ends of both pass through each other, or
   along each other: they are different curves. A contact at an end (a corner, a fork) joins
   two strands, and so does a gap between two ends, unless they are joined to strands that pass each
   other.
6. *Rows* go to the strand of an anchor that they are near to, distances across counting four times.

docs/adr/0016 tells what was tried.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from sklearn.metrics import adjusted_rand_score

from madbayes._engine.progress import Stage
from madbayes._kernels.strands import follow

COLUMNS = 10  # at most: directions of few rows in many columns say nothing
FEWEST, MOST = 60, 3_000  # rows: fewer are no curve, of more a sample is looked at
ANCHORS = 12  # at least
FEW = 6  # rows that an anchor looks at, however far they are
FINER = 1.2  # the ratio of two scales
NEAR, CONE, ACROSS, TRIES, SHIFTS = 2.5, 0.9, 0.75, 24, 3  # see `follow`; cones by squared cosines
CLEAR, TWICE = 0.5, 0.5  # step 2
CURVES, NEARLY = 0.5, 0.8  # step 3: share of the rows, and of the largest share
AGREE = 0.75  # adjusted Rand index of two divisions that confirm each other
TRIED = 8  # scales, from the finest
VOTES, SHARED = 3, 0.25  # so many divisions, and such a share of all tries, have to agree
FAR, TURN, BEND, STIFF, BEST = 8.0, 0.25, 0.1, 15.0, 2  # step 4
LONG = 3.0  # links (in rho): beyond, they may turn less
SHORT, COVER = 0.04, 0.7  # strands of so few anchors are left out; all others hold so many
END = 3.0  # step 5: so near (in rho) to an end
LOOKED = 8  # nearest anchors of an anchor, and of a row


class Anchors(NamedTuple):
    rho: float
    point: np.ndarray
    tangent: np.ndarray
    clear: np.ndarray
    share: float  # of the rows that are nearest to a clear one


def untangled(X: np.ndarray, labels: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Clusters that are several curves divided: the first curve keeps the label, others get new
    ones, in the order of the clusters."""
    new, k = labels.copy(), int(labels.max(initial=-1)) + 1
    if X.shape[1] > COLUMNS:
        return new
    stage = Stage("curves that cross", k)
    top = k
    for c in range(k):
        rows = np.flatnonzero(labels == c)
        curve = strands(X[rows], rng)
        if curve is not None:
            further = curve > 0
            new[rows[further]] = top + curve[further] - 1
            top += int(curve.max())
        stage.step()
    return new


def strands(X: np.ndarray, rng: np.random.RandomState) -> np.ndarray | None:
    """For each row of a cluster the curve that it belongs to; None if that would be one for all."""
    n, d = X.shape
    if n < FEWEST or not 1 < d <= COLUMNS:
        return None
    order = rng.permutation(n)[:MOST]
    rows = np.ascontiguousarray(X[order], dtype=np.float64)
    middle = rows.mean(axis=0)
    rows = rows - middle
    width = float(np.sqrt((rows**2).sum(axis=1).mean()))
    rho = 0.7 * float(np.median(cKDTree(rows).query(rows, [3])[0]))
    scales = []
    while 0 < rho < width / 4:
        scale = anchors(rows, rho)
        if scale is None:
            break
        scales.append(scale)
        rho *= FINER
    enough = max(CURVES, NEARLY * max((each.share for each in scales), default=0.0))
    scales = [each for each in scales if each.share >= enough][:TRIED]
    backwards = np.ascontiguousarray(rows[::-1])
    scales += [each for scale in scales if (each := anchors(backwards, scale.rho)) is not None]
    found = [(scale, curve) for scale in scales if (curve := curves(scale)) is not None]
    best = agreed([nearest_strand(rows, *each) for each in found], max(VOTES, SHARED * len(scales)))
    if best is None:
        return None
    label = nearest_strand(np.asarray(X, dtype=np.float64) - middle, *found[best])
    return np.unique(label, return_inverse=True)[1]


def agreed(found: list[np.ndarray], votes: float) -> int | None:
    """3. The place of the division that most others (and itself, at least `votes`) confirm, then
    with most curves, then most like them; None if none is confirmed."""
    best, most = None, (0.0, 0.0, 0.0)
    for place, one in enumerate(found):
        alike = np.array([adjusted_rand_score(one, other) for other in found])
        same = alike[alike >= AGREE]
        value = (float(same.size), float(one.max()), float(same.mean()))
        if same.size >= votes and value > most:
            best, most = place, value
    return best


def thinned(points: np.ndarray, apart: float, tree: cKDTree) -> np.ndarray:
    """1. Those that are left when each, in turn, removes all after it that are within `apart`."""
    pairs = np.sort(tree.query_pairs(apart, output_type="ndarray"), axis=1)
    kept, removed = np.zeros(len(points), bool), np.zeros(len(points), bool)
    while True:
        sure = ~(kept | removed)
        sure[pairs[:, 1]] = False  # somebody before it may still remove it
        kept |= sure
        removed[pairs[kept[pairs[:, 0]], 1]] = True
        if not pairs.size:
            return np.flatnonzero(kept)
        pairs = pairs[~(kept | removed)[pairs].any(axis=1)]


def anchors(rows: np.ndarray, rho: float) -> Anchors | None:
    """1 and 2, at one scale; None if there are too few."""
    tree = cKDTree(rows)
    point = rows[thinned(rows, rho, tree)]
    if len(point) < ANCHORS:
        return None
    reach = (NEAR + 0.5) * rho
    near = cKDTree(point).sparse_distance_matrix(tree, reach, output_type="ndarray")
    few = np.bincount(near["i"], minlength=len(point)) < FEW
    further = tree.query(point[few], np.arange(1, FEW + 1))[1]
    i = np.r_[near["i"][~few[near["i"]]], np.repeat(np.flatnonzero(few), FEW)]
    j = np.r_[near["j"][~few[near["i"]]], further.ravel()]
    order = np.lexsort((j, i))
    start, member = np.searchsorted(i[order], np.arange(len(point) + 1)), j[order]
    tangent, first, second = np.zeros_like(point), np.zeros(len(point)), np.zeros(len(point))
    follow(
        rows, start, member, point, rho, NEAR, CONE, ACROSS, TRIES, SHIFTS, tangent, first, second
    )
    kept = thinned(point, 0.7 * rho, cKDTree(point))
    clear = ((first >= CLEAR) & (second < TWICE * first))[kept]
    own = cKDTree(point[kept]).query(rows)[1]
    return Anchors(rho, point[kept], tangent[kept], clear, float(clear[own].mean()))


def curves(scale: Anchors) -> np.ndarray | None:
    """4 and 5: the curve of each anchor, -1 of those left out; None if there is only one."""
    seen = np.flatnonzero(scale.clear)
    point, tangent = scale.point[seen], scale.tangent[seen]
    m = len(seen)
    tree = cKDTree(point)
    pairs = tree.query_pairs(FAR * scale.rho, output_type="ndarray")
    i, j = np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]]
    u = point[j] - point[i]
    squared = np.maximum((u**2).sum(axis=1), np.finfo(float).tiny)
    along = np.einsum("pd,pd->p", u, tangent[i])
    strand = linked_ahead(i, j, u, squared, along, tangent, scale.rho)
    size = np.bincount(strand)
    long = size >= max(4, SHORT * m)
    if long.sum() < 2 or size[long].sum() < COVER * m:
        return None
    kept = long[strand]
    strand = np.where(kept, np.cumsum(long)[strand] - 1, -1)
    # 5. Ends: nobody of the strand ahead, or nobody behind
    same = (strand[i] == strand[j]) & kept[i]
    ahead = same & (along**2 > 0.5 * squared)
    both = np.isin(np.arange(m), i[ahead & (along > 0)]) & np.isin(
        np.arange(m), i[ahead & (along < 0)]
    )
    at_end = ~both
    at_end[i[same & (squared < (END * scale.rho) ** 2) & ~both[j]]] = True
    group = grouped(point, strand, ~both, at_end)
    if group is None:
        return None
    label = np.full(len(scale.point), -1)
    label[seen] = np.where(kept, group[strand], -1)
    return label


def linked_ahead(
    i: np.ndarray,
    j: np.ndarray,
    u: np.ndarray,
    squared: np.ndarray,
    along: np.ndarray,
    tangent: np.ndarray,
    rho: float,
) -> np.ndarray:
    """4. The strand of each anchor. An arc through i in its direction arrives at j in the direction
    of i mirrored at the line between them."""
    m = len(tangent)
    turn = 1 - along**2 / squared
    turned = 1 - np.einsum("pd,pd->p", u, tangent[j]) ** 2 / squared
    mirrored = 2 * (along / squared)[:, None] * u - tangent[i]
    bend = 1 - np.einsum("pd,pd->p", mirrored, tangent[j]) ** 2
    most = TURN * np.minimum(1, LONG * rho / np.sqrt(squared))
    possible = np.flatnonzero((turn < most) & (turned < most) & (bend < BEND))
    cost = squared * (1 + STIFF * (turn + turned + bend))
    side = i * 2 + (along > 0)
    order = possible[np.lexsort((j[possible], cost[possible], side[possible]))]
    first = np.r_[True, side[order][1:] != side[order][:-1]]
    place = np.arange(order.size) - np.flatnonzero(first)[np.cumsum(first) - 1]
    best = order[place < BEST]
    asked = sp.csr_array((np.ones(best.size), (i[best], j[best])), (m, m))
    return connected_components(asked.multiply(asked.T), directed=False)[1]


def grouped(
    point: np.ndarray, strand: np.ndarray, end: np.ndarray, at_end: np.ndarray
) -> np.ndarray | None:
    """5. Strands that meet at an end are joined: the curve of each strand, -1 of those that pass
    nobody; None if less than two are left."""
    k = int(strand.max()) + 1
    kept = np.flatnonzero(strand >= 0)
    near = cKDTree(point[kept]).query(point[kept], min(LOOKED + 1, kept.size))[1][:, 1:]
    a, b = np.repeat(kept, near.shape[1]), kept[near.ravel()]
    meeting = strand[a] != strand[b]
    a, b = a[meeting], b[meeting]
    contacts, passing = np.zeros((k, k)), np.zeros((k, k))
    np.add.at(contacts, (strand[a], strand[b]), 1.0)
    np.add.at(passing, (strand[a], strand[b]), 1.0 * ~(at_end[a] | at_end[b]))
    contacts, passing = contacts + contacts.T, passing + passing.T
    different = (contacts > 0) & (passing >= contacts / 2)
    joins = (contacts > 0) & ~different
    ends = np.flatnonzero(end & (strand >= 0))
    for e in ends:  # over a gap, to the nearest end
        others = ends[(strand[ends] != strand[e]) & ~different[strand[e], strand[ends]]]
        if others.size:
            nearest = others[((point[others] - point[e]) ** 2).sum(axis=1).argmin()]
            joins[strand[e], strand[nearest]] = joins[strand[nearest], strand[e]] = True
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


def nearest_strand(X: np.ndarray, scale: Anchors, label: np.ndarray) -> np.ndarray:
    """6. The curve of each row."""
    used = np.flatnonzero(label >= 0)
    point, tangent = scale.point[used], scale.tangent[used]
    place = cKDTree(point).query(X, np.arange(1, min(LOOKED, used.size) + 1))[1]
    u = X[:, None, :] - point[place]
    along = np.einsum("npd,npd->np", u, tangent[place])
    apart = (1 + STIFF) * (u**2).sum(axis=2) - STIFF * along**2
    return label[used][np.take_along_axis(place, apart.argmin(axis=1)[:, None], 1)[:, 0]]
