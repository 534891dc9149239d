"""Ward's tree of weighted points (Ward 1963): what it costs to merge, pair by pair.

Merging clusters a and b raises the squared error by W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖², so the heights of
the tree are the penalties at which one cluster fewer begins to pay.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._rows.distance import sqdist
from madbayes._rows.row_kernels import read_only


@inner
def join_cost(W, w, d2, unit):
    """What the objective rises by when weight w, d2 away, joins a cluster of weight W.

    With `unit` the centre is C = S/‖S‖ and W stands for ‖S‖, S the sum of the cluster's unit rows:
    2(W + w - ‖S + wx‖) without the cancellation.
    """
    if unit is not None:
        both = W + w
        apart = both * both - W * w * d2
        return 2.0 * W * w * d2 / (both + np.sqrt(apart if apart > 0.0 else 0.0))
    return W * w / (W + w) * d2


@inner
def sums_cost(L, W, a, b, unit):
    """What merging a and b costs, from the products L of the sums of the clusters.

    The same to the last bit for b and a: else chains of nearest neighbours need not end.
    """
    a, b = min(a, b), max(a, b)
    if unit is not None:
        both = L[a, a] + L[b, b] + 2.0 * L[a, b]
        return 2.0 * (
            np.sqrt(max(L[a, a], 0.0)) + np.sqrt(max(L[b, b], 0.0)) - np.sqrt(max(both, 0.0))
        )
    apart = L[a, a] / W[a] / W[a] + L[b, b] / W[b] / W[b] - 2.0 * L[a, b] / W[a] / W[b]
    return W[a] * W[b] / (W[a] + W[b]) * apart


@inner
def merge_cost(P, Q, W, a, b, unit, sums):
    """Of two clusters known by their centres P or, unless `sums` is None, by products of sums.

    Q is P, read-only: a pair of arrays for which `sqdist` has been compiled already.
    """
    if sums is not None:
        return sums_cost(P, W, a, b, unit)
    return join_cost(W[a], W[b], sqdist(Q, a, P, b), unit)


@inner
def merge_into(P, W, a, b, unit, sums):
    """Cluster a with the rows of b."""
    if sums is not None:
        W[a] += W[b]
        for e in range(P.shape[0]):
            P[a, e] += P[b, e]
        for e in range(P.shape[0]):
            P[e, a] += P[e, b]
        return
    share = W[b] / (W[a] + W[b])
    length2 = 0.0
    for j in range(P.shape[1]):
        P[a, j] += share * (P[b, j] - P[a, j])
        length2 += P[a, j] * P[a, j]
    W[a] += W[b]
    if unit is not None:
        length = np.sqrt(length2)
        if length > 0.0:
            for j in range(P.shape[1]):
                P[a, j] /= length
            W[a] *= length


@kernel
def chain_merges(P, Q, W, left, right, height, book, unit, sums, stop):
    """The m - 1 merges: a point of either side, and the cost. P and W are overwritten.

    Nearest-neighbour chains (Murtagh 1983): O(m²) costs. `book` is room for three numbers of each
    point; Q is P, read-only. `unit` (see `join_cost`) and `sums` (see `merge_cost`) are True or
    None: Numba leaves out the branch that None forbids.
    """
    m = W.shape[0]
    alive, place, chain = book[0], book[1], book[2]
    for c in range(m):
        alive[c] = place[c] = c
    n_alive, top = m, 0
    for t in range(m - 1):
        if top == 0:
            chain[0] = alive[0]
            top = 1
        while True:
            if stop[0]:
                return
            a = chain[top - 1]
            before = chain[top - 2] if top > 1 else -1
            b = before  # the previous link wins ties, so chains end
            best = np.inf
            if b >= 0:
                best = merge_cost(P, Q, W, a, b, unit, sums)
            for r in range(n_alive):
                e = alive[r]
                if e != a and e != before:
                    cost = merge_cost(P, Q, W, a, e, unit, sums)
                    if cost < best or b < 0:
                        best, b = cost, e
            if b == before:
                break
            top = top if top < m else 0  # never so, but for rounding: begin anew
            chain[top] = b
            top += 1
        top -= 2
        left[t], right[t], height[t] = a, b, best
        merge_into(P, W, a, b, unit, sums)
        n_alive -= 1
        alive[place[b]] = alive[n_alive]
        place[alive[n_alive]] = place[b]
        place[b] = -1
        while top > 0 and place[chain[top - 1]] < 0:  # never so, but for rounding
            top -= 1


def tree(P, W, unit, sums, stop):
    """`chain_merges` in order of their cost; none if it was stopped."""
    m, P = len(W), P.copy()
    left, right, height = np.empty(m - 1, np.int64), np.empty(m - 1, np.int64), np.empty(m - 1)
    book, unit = np.empty((3, m), np.int64), unit or None
    chain_merges(P, read_only(P), W.copy(), left, right, height, book, unit, sums, stop)
    order = height.argsort(kind="stable")[: 0 if stop[0] else m]
    return left[order], right[order], height[order]


def ward_tree(C, W, unit, stop):
    """The tree of points C of weights W."""
    return tree(C, W, unit, None, stop)


def ward_tree_of_sums(L, W, unit, stop):
    """The tree of clusters of weights W known by the products L of their sums alone."""
    return tree(L, W, unit, True, stop)


def cut_tree(left, right, k):
    """The group, 0..k-1 in order of first appearance, of each point when k groups are left."""
    group = np.arange(len(left) + 1)
    cut_at(left, right, k, group)
    return group


@kernel
def cut_at(left, right, k, parent):
    """`cut_tree`; at first each point is its own parent, in the end parents are groups."""
    m = parent.shape[0]
    for t in range(m - k):
        a, b = left[t], right[t]
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        if a < b:
            parent[b] = a
        else:
            parent[a] = b
    count = 0
    for c in range(m):  # a parent has the lower index
        p = parent[c]
        if p == c:
            parent[c] = count
            count += 1
        else:
            parent[c] = parent[p]


def merge_below(C, W, penalty, cap, unit, stop):
    """Groups of the points after all merges that cost less than the penalty, and more while there
    are more than `cap`; returns (group, number of groups)."""
    return cut_below(tree(C, W, unit, None, stop), len(W), penalty, cap)


def merge_sums_below(L, W, penalty, cap, unit, stop):
    """As `merge_below`, from the products of the sums."""
    return cut_below(tree(L, W, unit, True, stop), len(W), penalty, cap)


def cut_below(merges, m, penalty, cap):
    """The groups that `merge_below` returns, from the tree of m points."""
    left, right, height = merges
    if len(height) < m - 1:
        return np.zeros(m, np.int64), 1
    k = min(max(m - int(height.searchsorted(penalty)), 1), cap)
    return (cut_tree(left, right, k) if k < m else np.arange(m)), k
