"""The valley between two clusters of a graph's nodes: `valley_test.py` explains the test.

A lazy walk smooths the levels of the nodes: it averages a node's value with the mean of its
neighbours, so that v becomes (I + W)v / 2, where W is the matrix of the links, each row of it
divided by its sum. N steps of it are a polynomial in W that needs far fewer products with W than N.
With T_k the Chebyshev polynomials, and because (1 + cos t) / 2 = cos²(t / 2),

    ((1 + W) / 2)^N = sum over k of p_k T_k(W),  p_k = 2 C(2N, N - k) / 4^N (half for k = 0),

a binomial law of standard deviation √(N / 2): terms beyond four of these add up to 5e-5.

A graph is symmetric CSR: `indptr`, `indices`, `walk` (weights of the edges). `flow` are the weights
that count when an edge crosses a level. Clusters are made of pieces, which do not change: nodes
`first[p]` to `first[p + 1] - 1` are in `piece` p, and an edge links it to the pieces
`linked[links[p]:links[p + 1]]`. A cluster has the number of its first piece; `follows` tells the
next piece of its chain, -1 behind the last, and `cluster` the cluster of each piece. Serial: no
result depends on threads. The sort is written here because Numba takes longer to compile numpy's.
"""

from math import comb

import numpy as np

from madbayes._jit import inner, kernel

TAIL = 4.0  # terms of the sum that are kept, in standard deviations


def smoothing_terms(steps: int) -> np.ndarray:
    """The p_k of so many steps of a lazy walk."""
    kept = range(int(TAIL * np.sqrt(steps / 2)) + 1)
    return np.array([(1 + (k > 0)) * comb(2 * steps, steps - k) / 4**steps for k in kept])


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
def near_border(
    indptr, indices, piece, first, links, linked, cluster, follows,
    own, other, limit, side, where, node, level, n,
):  # fmt: skip
    """The nodes of the cluster `own` in the order of their distance from `other`, at most `limit`:
    from the n-th on in `node`. `level` becomes how many edges and a half lie between them and
    `other`, with the sign of `side`. Returns where they end.

    `where` has the place in `node`, -1 for all others.
    """
    end, head, p = n + limit, n, own
    while p >= 0:
        meets = False
        for e in range(links[p], links[p + 1]):
            meets |= cluster[linked[e]] == other
        if meets:
            for i in range(first[p], first[p + 1]):
                for e in range(indptr[i], indptr[i + 1]):
                    if cluster[piece[indices[e]]] == other and n < end:
                        node[n], level[n], where[i] = i, 0.5 * side, n
                        n += 1
                        break
        p = follows[p]
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
def take_edges(indptr, indices, walk, flow, node, m, where, ptr, J, W, V):
    """The graph of the first m of `node` alone."""
    at = 0
    ptr[0] = 0
    for i in range(m):
        for e in range(indptr[node[i]], indptr[node[i] + 1]):
            j = where[indices[e]]
            J[at], W[at], V[at] = j, walk[e], flow[e]  # the next one overwrites what is not inside
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
    lower, a, b = at, 0, at + 1
    for _ in range(2):
        sort(flows, a, b, order, room)
        p = np.int64(order[int(height * (b - a - 1))])
        lower = p if a == 0 or flows[p] < flows[lower] else lower
        a, b = at, m - 1
    return lower


@kernel
def valleys(
    indptr, indices, walk, flow, piece, first, links, linked, cluster, follows, size,
    ones, others, limit, layers, terms, height,
    where, whole, real, J, W, V, middle, side, across,
):  # fmt: skip
    """The valley between each of `ones` and its one of `others`: middle and side by `flow`, and the
    side by `walk`; of one strand each, where edges cross in several.

    The first is inf where there is no valley, and where `limit` nodes of a side are no more than so
    many `layers` along the boundary: which of the next are among them is chance. `where`: -1 for
    each node of the graph, before and after. `whole`, `real`, `J`, `W`, `V`: room.
    """
    node, order, rank, root, spare = whole[0], whole[1], whole[2], whole[3], whole[4]
    level, new, degree, flows, walks, weight = real[0], real[1], real[2], real[3], real[4], real[5]
    for t in range(ones.shape[0]):
        a, b = ones[t], others[t]
        if size[b] < size[a] or (size[b] == size[a] and b < a):
            a, b = b, a
        m, sign, seen = 0, -1.0, True
        for _ in range(2):
            begin = m
            m = near_border(
                indptr, indices, piece, first, links, linked, cluster, follows,
                a, b, limit, sign, where, node, level, m,
            )  # fmt: skip
            seen &= m < begin + limit or abs(level[m - 1]) > layers
            a, b, sign = b, a, 1.0
        ptr = whole[5, : m + 1]
        if seen:
            take_edges(indptr, indices, walk, flow, node, m, where, ptr, J, W, V)
        for i in range(m):
            where[node[i]] = -1
        middle[t], side[t], across[t] = np.inf, 1.0, 0.0
        if not seen:
            continue
        smooth(ptr, J, W, level, new, degree, flows, walks, terms)
        sort(level, 0, m, order, spare)
        at = profile(ptr, J, W, V, order, rank, spare, flows, walks)
        if 1 <= at <= m - 3:
            lower = lower_side(flows, at, m, height, order, spare)
            # strands are counted at the first place from the middle that is as high as the side:
            # farther off they meet
            p, many, here = at, 0.0, 0.0
            step = 1 if lower > at else -1
            while p != lower and flows[p] < flows[lower]:
                p += step
            for turn in range(2):  # one call compiles in half the time of two
                here = strands(ptr, J, V, rank, p, root, weight)
                many = here if turn == 0 else many
                p = at
            here = min(many, here)
            middle[t], side[t] = flows[at] / here, flows[lower] / many
            across[t] = walks[lower] / many
