"""Count rows between neighbouring centres. `links.py` explains the test.

A small table is tested hundreds of times, so the whole test is one kernel: single steps in numpy
would take longer than the counting.
"""

import numpy as np

from madbayes._jit import inner, kernel


def make_books(n, k):
    """Working memory for `link_tests` of n rows and k centres."""
    # Three nearest centres of each row: two may be the pair, the third is beside it.
    m, whole = min(k, 3), np.int64
    length, room = np.empty((k, k)), np.empty((2, n))
    near, rows = np.empty((n, m + 1), whole), np.empty(n * m, whole)
    return length, near, rows, np.empty(k + 2, whole), np.empty(k, whole), room


def link_tests(D, between, weights, limit, window, metric, books):
    """z of the k - 1 weakest links that connect all centres, in any order.

    D[i, c] is the squared distance of row i and centre c, `between` holds the squared distances of
    the centres. A centre has at most `limit` neighbours. `metric`: the square roots satisfy the
    triangle inequality.
    """
    order, reach = between.argsort(axis=1, kind="stable"), np.empty(len(between))
    slack = 1 + 1e-6 if metric else np.inf  # a margin for rounding
    link_pairs(D, between, order, weights, limit, window, slack, reach, *books)  # a tuple is slower
    return reach[1:]


@inner
def spanning_tree(length, parent, reach):
    """Prim's minimum spanning tree, written into `parent` and `reach`.

    For each point: the point that it is joined to, and the length of that edge (inf: no edge). The
    root is point 0. A point that is in the tree already has a parent >= 0.
    """
    k = length.shape[0]
    b = 0
    for c in range(k):
        parent[c], reach[c] = -1, np.inf  # -1 - p: not yet in the tree, nearest to p
    for _ in range(k):
        parent[b] = -1 - parent[b]
        near, least = b, np.inf
        for c in range(k):
            if parent[c] < 0:
                if length[b, c] < reach[c]:
                    parent[c], reach[c] = -1 - b, length[b, c]
                if reach[c] < least or near == b:
                    near, least = c, reach[c]
        b = near


@kernel
def link_pairs(
    D,
    between,
    order,
    weights,
    limit,
    window,
    slack,
    reach,
    length,
    nearest,
    rows,
    starts,
    marks,
    room,
):
    """`link_tests`, written into `reach`. order[a] lists the centres by their distance to a.

    nearest[i] is working memory for the centres nearest to row i, and for the last pair that row i
    was counted for.
    """
    n, k = D.shape
    m = nearest.shape[1] - 1
    # Pairs to test (length 0): those of a tree that connects all centres, and Gabriel neighbours:
    # pairs for which no other centre is nearer to the midpoint than the pair is.
    spanning_tree(between, marks, reach)
    for a in range(k):
        for b in range(k):
            length[a, b] = 0.0 if marks[a] == b else np.inf
        found = 0
        for r in range(k):
            b = order[a, r]
            free, gap2 = b != a and found < limit, between[a, b]
            for s in range(r if free else 0):  # a centre nearer to the midpoint is nearer to a
                c = order[a, s]
                if c != a and between[a, c] + between[b, c] < gap2:
                    free = False
                    break
            if free:
                length[a, b] = 0.0
                found += 1
    # the nearest centres of each row; of equal distances the lower number
    for c in range(k + 2):
        starts[c] = 0
    for i in range(n):
        worst, nearest[i, m] = np.inf, 0
        for c in range(k):
            v, at = D[i, c], c
            if c >= m:
                if v >= worst:
                    continue
                at = m - 1
            while at > 0 and v < D[i, nearest[i, at - 1]]:
                nearest[i, at] = nearest[i, at - 1]
                at -= 1
            nearest[i, at] = c
            if c >= m - 1:
                worst = D[i, nearest[i, m - 1]]
        for s in range(m):
            starts[nearest[i, s] + 2] += 1
    # the rows of centre c are rows[starts[c]:starts[c + 1]]
    for c in range(2, k + 2):
        starts[c] += starts[c - 1]
    for i in range(n):
        for s in range(m):
            at = nearest[i, s] + 1
            rows[starts[at]] = i
            starts[at] += 1  # after the loop: where the rows of the next centre begin
    for a in range(k):
        for b in range(a + 1, k):
            if length[a, b] > 0.0 and length[b, a] > 0.0:
                continue
            # A centre so near to a or b that its half-space excludes a or b does not bound the
            # cell.
            gap2, hidden = between[a, b], 0
            for c in range(k):
                near = between[a, c] < gap2 / 4 or between[b, c] < gap2 / 4
                marks[c] = near
                hidden += near
            count = 0
            sum_a = sum_b = w_a = w_b = 0.0
            for centre in range(k):
                if marks[centre] == 0:
                    continue
                for e in range(starts[centre], starts[centre + 1]):
                    i, other = rows[e], np.inf
                    if nearest[i, m] == a * k + b:
                        continue
                    nearest[i, m] = a * k + b
                    for s in range(m):
                        c = nearest[i, s]
                        if marks[c] == 0:
                            other = D[i, c]
                            break
                    to_a, to_b, w = D[i, a], D[i, b], weights[i]
                    middle = (to_a + to_b) / 2 - gap2 / 4
                    if hidden >= m and other == np.inf:
                        # Visit centres by their distance to a or b. Stop when the next centre is so
                        # far away that it cannot be nearer to the row than the midpoint.
                        p, here = (a, to_a) if to_a <= to_b else (b, to_b)
                        here = here if here > 0.0 else 0.0  # `max` is one more function to compile
                        far = np.sqrt(here) + np.sqrt(middle if middle > 0.0 else 0.0)
                        for s in range(k):
                            c = order[p, s]
                            if between[p, c] > far * far * slack:
                                break
                            if marks[c] == 0 and D[i, c] < middle:
                                other = D[i, c]
                                break
                    if middle <= other:
                        t = to_a - to_b
                        room[0, count], room[1, count] = t, w
                        count += 1
                        if t <= 0:
                            sum_a += w * t
                            w_a += w
                        else:
                            sum_b += w * t
                            w_b += w
            z = 0.0
            if w_a != 0.0 and w_b != 0.0:
                at_a, at_b = sum_a / w_a, sum_b / w_b
                middle, half = (at_a + at_b) / 2, window * (at_b - at_a) / 2
                n_a = n_b = n_m = 0.0
                for e in range(count):
                    t, w = room[0, e], room[1, e]
                    if abs(t - at_a) <= half:
                        n_a += w
                    elif abs(t - at_b) <= half:
                        n_b += w
                    elif abs(t - middle) <= half:
                        n_m += w
                least = n_a if n_a < n_b else n_b
                z = np.sqrt(2.0) * (np.sqrt(least + 0.375) - np.sqrt(n_m + 0.375))
            length[a, b] = length[b, a] = z
    spanning_tree(length, marks, reach)
    for c in range(k):
        if reach[c] == np.inf:
            reach[c] = -np.inf
