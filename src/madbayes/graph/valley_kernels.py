"""The valley between two clusters of a graph's nodes: `valley_test.py` explains the test.

A lazy walk smooths the levels of the nodes: it averages a node's value with the mean of its
neighbours, so that v becomes (I + W)v / 2, where W is the matrix of the links, each row of it
divided by its sum. N steps of it are a polynomial in W that needs far fewer products with W than N.
With T_k the Chebyshev polynomials, and because (1 + cos t) / 2 = cos²(t / 2),

    ((1 + W) / 2)^N = sum over k of p_k T_k(W),  p_k = 2 C(2N, N - k) / 4^N (half for k = 0),

a binomial law of standard deviation √(N / 2): terms beyond four of these add up to 5e-5.

Serial: no result depends on threads. The sort is written here because Numba takes longer to compile
numpy's.
"""

from math import comb
from typing import NamedTuple

import numpy as np

from madbayes._jit import inner, kernel

ROWS = 4.0  # rows near a side for each unit of links across it
NO_VALLEY = -9.0  # z if there is no valley at all
TAIL = 4.0  # terms of the sum that are kept, in standard deviations


def smoothing_terms(steps: int) -> np.ndarray:
    """The p_k of so many steps of a lazy walk."""
    kept = range(int(TAIL * np.sqrt(steps / 2)) + 1)
    return np.array([(1 + (k > 0)) * comb(2 * steps, steps - k) / 4**steps for k in kept])


class Pieces(NamedTuple):
    """A graph as symmetric CSR, its nodes sorted by their piece. Pieces do not change."""

    indptr: np.ndarray
    indices: np.ndarray
    walk: np.ndarray  # the weight of each edge
    flow: np.ndarray  # what each edge counts for when it crosses a level
    piece: np.ndarray  # of each node
    first: np.ndarray  # the first node of each piece
    links: np.ndarray  # edges link piece p to the pieces linked[links[p]:links[p + 1]]
    linked: np.ndarray


class Clusters(NamedTuple):
    """Clusters are chains of pieces. A cluster has the number of its first piece."""

    cluster: np.ndarray  # of each piece
    follows: np.ndarray  # the next piece of the chain, -1 behind the last
    last: np.ndarray  # the last piece of each cluster
    size: np.ndarray  # the nodes of each cluster


class Rule(NamedTuple):
    """How a valley is measured."""

    terms: np.ndarray  # of the walk that smooths
    limit: int  # nodes of each side that are looked at, those nearest to the boundary
    layers: float  # a boundary so long that `limit` nodes are fewer layers has no valley
    height: float  # the quantile that is the height of a side
    unit: float  # so many links come and go together
    spare: float  # links that are added to middle and side


class Room(NamedTuple):
    """The working memory for one thread."""

    where: np.ndarray  # -1 for each node of the graph, before and after
    whole: np.ndarray
    real: np.ndarray
    J: np.ndarray
    W: np.ndarray
    V: np.ndarray


@inner
def smooth(ptr, J, W, value, old, now, total, scale, terms):
    """`value` of the nodes after as many steps of the lazy walk as `terms` is made for.

    `old`, `now`, `total`, `scale`: working memory. Nodes without links keep their value.
    """
    m = ptr.shape[0] - 1
    for i in range(m):
        x = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            x += W[e]
        scale[i] = 1.0 / x if x > 0.0 else 0.0
        now[i], old[i], total[i] = value[i], 0.0, terms[0] * value[i]
    for k in range(1, terms.shape[0]):
        twice = 1.0 if k == 1 else 2.0  # T_1 = W, then T_{k + 1} = 2 W T_k - T_{k - 1}
        for i in range(m):
            a, b = np.int64(ptr[i]), np.int64(ptr[i + 1])
            x, y, end = 0.0, 0.0, a + (b - a) // 2 * 2
            for e in range(a, end, 2):  # two sums that do not wait for each other
                x += W[e] * now[J[e]]
                y += W[e + 1] * now[J[e + 1]]
            if end < b:
                x += W[end] * now[J[end]]
            x = twice * scale[i] * (x + y) - old[i] if scale[i] > 0.0 else now[i]
            old[i] = x
            total[i] += terms[k] * x
        old, now = now, old
    for i in range(m):
        value[i] = total[i]


@inner
def near_border(graph, clusters, own, other, limit, side, where, node, level, n):
    """The nodes of the cluster `own` in the order of their distance from `other`, at most `limit`:
    from the n-th on in `node`. `level` becomes how many edges and a half lie between them and
    `other`, with the sign of `side`. Returns where they end.

    `where` has the place in `node`, -1 for all others.
    """
    indptr, indices, piece, cluster = graph.indptr, graph.indices, graph.piece, clusters.cluster
    end, head, p = n + limit, n, own
    while p >= 0:
        meets = False
        for e in range(graph.links[p], graph.links[p + 1]):
            meets |= cluster[graph.linked[e]] == other
        if meets:
            for i in range(graph.first[p], graph.first[p + 1]):
                for e in range(indptr[i], indptr[i + 1]):
                    if cluster[piece[indices[e]]] == other and n < end:
                        node[n], level[n], where[i] = i, 0.5 * side, n
                        n += 1
                        break
        p = clusters.follows[p]
    while head < n and n < end:
        i, further = node[head], level[head] + side
        head += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if where[j] < 0 and n < end and cluster[piece[j]] == own:
                node[n], level[n], where[j] = j, further, n
                n += 1
    return n


@inner
def take_edges(graph, node, m, where, ptr, J, W, V):
    """The graph of the first m of `node` alone."""
    at = 0
    ptr[0] = 0
    for i in range(m):
        for e in range(graph.indptr[node[i]], graph.indptr[node[i] + 1]):
            j = where[graph.indices[e]]
            # the next edge overwrites one that is not inside
            J[at], W[at], V[at] = j, graph.walk[e], graph.flow[e]
            at += j >= 0
        ptr[i + 1] = at


@inner
def sort(value, a, b, order, room):
    """`order` begins with the places a … b - 1, from the lowest to the highest value; of equals the
    first is first."""
    n, width = b - a, 1
    for p in range(n):
        order[p] = a + p
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            p, q = start, middle
            for t in range(start, end):
                if q == end or (p < middle and value[order[p]] <= value[order[q]]):
                    room[t] = order[p]
                    p += 1
                else:
                    room[t] = order[q]
                    q += 1
        for t in range(n):
            order[t] = room[t]
        width *= 2


@inner
def profile(ptr, J, W, V, order, rank, left, flows, edges):
    """The weights of the edges that cross each level, where nodes have this `order`; returns the
    level with the deepest valley."""
    m, total = ptr.shape[0] - 1, 0.0
    for p in range(m):
        rank[order[p]] = p
        flows[p] = edges[p] = 0.0
    for i in range(m):
        low = rank[i]
        flow, walk = flows[low], edges[low]
        for e in range(ptr[i], ptr[i + 1]):
            high = rank[J[e]]
            total += V[e]
            up = 1.0 if high > low else 0.0  # one of the two ways: a branch would be guessed wrong
            v, w = up * V[e], up * W[e]
            flow += v
            walk += w
            flows[high] -= v
            edges[high] -= w
        flows[low], edges[low] = flow, walk
    flow = walk = 0.0
    for p in range(m):
        flow += flows[p]
        walk += edges[p]
        flows[p] = flow if flow > 0.0 else 0.0
        edges[p] = walk if walk > 0.0 else 0.0
    half, at = 0.5 * total / ptr[m], -1  # what half an edge weighs
    best, right, deepest = 0, m - 2, -np.inf  # where both sides are highest
    for p in range(m - 1):
        if flows[p] > flows[best]:
            best = p
        left[p] = best
    for p in range(m - 2, -1, -1):
        here = flows[p]
        if here > flows[right]:
            right = p
        value = (min(flows[left[p]], flows[right]) + half) / (here + half)
        if value > deepest:
            deepest, at = value, p
    return at


@kernel
def strands(ptr, J, V, rank, level, root, weight):
    """In how many strands edges cross a level: the weight of all over that of the largest strand.

    Nodes at edges that cross are of one strand if an edge links them.
    """
    m, total, most = ptr.shape[0] - 1, 0.0, 0.0
    for i in range(m):
        root[i], weight[i] = m, 0.0  # m: no edge of it crosses
    for i in range(m):
        if rank[i] <= level:
            for e in range(ptr[i], ptr[i + 1]):
                if rank[J[e]] > level:
                    root[i], root[J[e]] = i, J[e]
    for i in range(m):
        if root[i] < m:
            for e in range(ptr[i], ptr[i + 1]):
                a, b = i, J[e]
                if b < i and root[b] < m:
                    while root[a] != a:
                        root[a] = root[root[a]]
                        a = root[a]
                    while root[b] != b:
                        root[b] = root[root[b]]
                        b = root[b]
                    root[a] = b
    for i in range(m):
        if root[i] < m and rank[i] <= level:
            a = i
            while root[a] != a:
                a = root[a]
            for e in range(ptr[i], ptr[i + 1]):
                if rank[J[e]] > level:
                    weight[a] += V[e]
                    total += V[e]
            most = weight[a] if weight[a] > most else most
    return total / most if most > 0.0 else 1.0


@inner
def lower_side(flows, at, m, height, order, room):
    """The place of the lower of the two sides' heights: not their highest places, which chance has
    made high."""
    lower, a, b = at, np.int64(0), at + 1
    for _ in range(2):
        sort(flows, a, b, order, room)
        p = np.int64(order[int(height * (b - a - 1))])
        lower = p if a == 0 or flows[p] < flows[lower] else lower
        a, b = at, m - 1
    return lower


@kernel
def depth(middle, side, links, unit, spare):
    """z of a valley; `links` cross the side."""
    if not np.isfinite(middle) or not side > 0.0:  # nothing crosses the side: no valley beside it
        return NO_VALLEY
    share = (links * min(middle / side, 1.0) + spare) / (links + spare)
    rows = ROWS * links / unit
    return np.sqrt(2.0) * (np.sqrt(rows) - np.sqrt(rows * np.sqrt(share)))


@inner
def valley(graph, clusters, rule, room, a, b):
    """z of the valley between the clusters a and b.

    Where edges cross in several strands, one of them is compared. There is no valley if
    `rule.limit` nodes of a side are no more than `rule.layers` along the boundary: which of the
    next nodes are among them is chance.
    """
    where, whole, real, J, W, V = room
    node, order, rank, root, spare = whole[0], whole[1], whole[2], whole[3], whole[4]
    level, new, degree, flows, walks, weight = real[0], real[1], real[2], real[3], real[4], real[5]
    size = clusters.size
    if size[b] < size[a] or (size[b] == size[a] and b < a):
        a, b = b, a
    none = np.int64(0)  # a literal would be compiled apart
    m, sign, seen = none, -1.0, True
    for _ in range(2):
        begin = m
        m = near_border(graph, clusters, a, b, rule.limit, sign, where, node, level, m)
        seen &= m < begin + rule.limit or abs(level[m - 1]) > rule.layers
        a, b, sign = b, a, 1.0
    ptr = whole[5, : m + 1]
    if seen:
        take_edges(graph, node, m, where, ptr, J, W, V)
    for i in range(m):
        where[node[i]] = -1
    if not seen:
        return NO_VALLEY
    smooth(ptr, J, W, level, new, degree, flows, walks, rule.terms)
    sort(level, none, m, order, spare)
    at = profile(ptr, J, W, V, order, rank, spare, flows, walks)
    if not 1 <= at <= m - 3:
        return NO_VALLEY
    lower = lower_side(flows, at, m, rule.height, order, spare)
    # strands are counted at the first place from the middle that is as high as the side: farther
    # off they meet
    p, many, here = at, 0.0, 0.0
    step = 1 if lower > at else -1
    while p != lower and flows[p] < flows[lower]:
        p += step
    for turn in range(2):  # one call compiles in half the time of two
        here = strands(ptr, J, V, rank, p, root, weight)
        many = here if turn == 0 else many
        p = at
    here = min(many, here)
    return depth(flows[at] / here, flows[lower] / many, walks[lower] / many, rule.unit, rule.spare)


@inner
def comes_first(p, q, z, ends):
    """Whether the pair p is merged before the pair q: the lower z, of equals the lower numbers."""
    if z[p] != z[q]:
        return z[p] < z[q]
    a, b = min(ends[p, 0], ends[p, 1]), min(ends[q, 0], ends[q, 1])
    return a < b or (a == b and max(ends[p, 0], ends[p, 1]) < max(ends[q, 0], ends[q, 1]))


@inner
def play(p, first, z, ends):
    """The pair p has another z: its matches of the tournament `first` are played again."""
    i = (first.shape[0] // 2 + p) // 2
    while i >= 1:
        p, q = first[2 * i], first[2 * i + 1]  # -1: no pair
        first[i] = q if p < 0 or (q >= 0 and comes_first(q, p, z, ends)) else p
        i //= 2


@inner
def join(clusters, a, b):
    """Merge cluster b into cluster a: the pieces of b follow those of a."""
    clusters.follows[clusters.last[a]] = b
    clusters.last[a] = clusters.last[b]
    clusters.size[a] += clusters.size[b]
    while b >= 0:
        clusters.cluster[b] = a
        b = clusters.follows[b]


@kernel
def merge_lowest(
    graph, clusters, rule, room, ends, z, fresh, first, head, after, mark, merged, depths, changed,
    begin, last, done, end, stop,
):  # fmt: skip
    """Measure the pairs `begin` to `last` - 1 of clusters, the two `ends` of each. Then merge the
    pair with the lowest z, again and again. Returns how many merges were made when there are `end`
    of them, or nothing is linked any more.

    A tournament among the pairs finds the lowest: `first[1]` is its winner, `first[2 * i]` and
    `first[2 * i + 1]` have played for `first[i]`. A pair that is not `fresh` has grown since it was
    measured; it is measured when its turn comes. The pairs of cluster c are a list that begins with
    `head[c]`: entry h is the end `h % 2` of the pair `h // 2`, and `after[h]` is the next entry.
    `merged` and `depths`: what was merged, and how deep it was. `changed`: working memory;
    `mark`: -1 for each cluster.
    """
    n = 0  # pairs that have to play again
    if done == 0 and end > 0:
        n = z.shape[0]
        for p in range(n):
            changed[p] = p
    while not stop[0]:
        while n > 0:
            n -= 1
            play(changed[n], first, z, ends)
        p = first[1]
        if begin < last:
            p = begin
        elif done == end or z[p] == np.inf:
            break
        a, b = min(ends[p, 0], ends[p, 1]), max(ends[p, 0], ends[p, 1])
        if begin < last or not fresh[p]:  # one call compiles in half the time of two
            z[p], fresh[p] = valley(graph, clusters, rule, room, a, b), True
            if begin < last:
                begin += 1
            else:
                changed[0], n = p, 1
            continue
        merged[done, 0], merged[done, 1], depths[done] = a, b, z[p]
        done += 1
        join(clusters, a, b)
        changed[0], n, z[p] = p, 1, np.inf
        entries, head[a] = head[a], -1
        for _ in range(2):  # the pairs of a, then those of b
            while entries >= 0:
                h, entries = entries, after[entries]
                p, other = h // 2, ends[h // 2, 1 - h % 2]
                if z[p] == np.inf:
                    continue
                q = mark[other]
                if q >= 0:  # both are linked to it: one pair is left
                    z[p], z[q] = np.inf, min(z[p], z[q])
                    changed[n], changed[n + 1] = p, q
                    n += 2
                else:
                    ends[p, h % 2], fresh[p], mark[other] = a, False, p
                    after[h], head[a] = head[a], h
                    changed[n] = p
                    n += 1
            entries = head[b]
        h = head[a]
        while h >= 0:
            mark[ends[h // 2, 1 - h % 2]] = -1
            h = after[h]
    return done
