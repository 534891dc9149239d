"""Kernels of `planted.py`, `held_out.py` and `fringe.py`: moves that raise the modularity, edges
held out, connected components, hashes of surroundings, leaves folded."""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes.graph.cut_kernels import TOL, look_around

DEGREE, LINKS = range(2)  # of a cluster: columns of `sums`


@kernel
def rise(indptr, indices, data, w, z, sums, there, gamma, asked, stop):
    """Move nodes while that raises the modularity at resolution `gamma`; return the moves made.

    The graph is CSR without its diagonal; `w` are the degrees of the nodes, loops included, and
    `sums` has a row for each cluster of `z`: its degree, and a 0 that sums links. A node goes to
    the cluster it has the most links to, beyond `gamma` times those that its degree would lead to
    expect. Only nodes that are `asked` are looked at; a move asks the neighbours outside of the
    new cluster. `there` has room for the clusters of a node's neighbours: each is read once from
    `z`, which does not fit into the cache.
    """
    total = 0.0
    for i in range(w.size):
        total += w[i]
    moves, before = 0, -1
    while moves != before:
        before = moves
        for i in range(w.size):
            if stop[0]:
                return moves
            if asked[i] == 0:
                continue
            asked[i] = 0
            begin, end, p = indptr[i], indptr[i + 1], z[i]
            if look_around(indices, z, begin, end, p, there) == 0:
                continue
            for e in range(begin, end):
                sums[there[e - begin], LINKS] += data[e]
            share = gamma * w[i] / total
            best, most = p, sums[p, LINKS] - share * (sums[p, DEGREE] - w[i]) + TOL * w[i]
            sums[p, LINKS] = -np.inf  # p is the choice already
            for e in range(begin, end):
                c = there[e - begin]
                value = sums[c, LINKS] - share * sums[c, DEGREE]
                if value > most:
                    best, most = c, value
            for e in range(begin, end):
                sums[there[e - begin], LINKS] = 0.0
            sums[p, LINKS] = 0.0
            if best != p:
                z[i] = best
                sums[p, DEGREE] -= w[i]
                sums[best, DEGREE] += w[i]
                moves += 1
                for e in range(begin, end):
                    if there[e - begin] != best:
                        asked[indices[e]] = 1
    return moves


@inner
def mix(x):
    """A hash of 64 bits: each bit depends on all bits of x (splitmix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hold_out(indptr, indices, data, fold, folds, new_indptr, new_indices, new_data, u, v, weight):
    """Divide the edges: those of this `fold` go to (u, v) with their weight, the others to the new
    graph. Returns how many (half-edges of the new graph, edges held out).

    A hash of the numbers of its two nodes says which fold an edge is in.
    """
    kept, held = 0, 0
    for i in range(indptr.size - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            edge = np.uint64(min(i, j)) << np.uint64(32) | np.uint64(max(i, j))
            if mix(edge) % np.uint64(folds) != np.uint64(fold):
                new_indices[kept], new_data[kept] = j, data[e]
                kept += 1
            elif i < j:
                u[held], v[held], weight[held] = i, j, data[e]
                held += 1
        new_indptr[i + 1] = kept
    return kept, held


@kernel
def surroundings(indptr, indices, data, before, after):
    """A hash of each node from those of its neighbours `before` and the weights of its edges.

    Sums of integers modulo 2⁶⁴ are the same in any order.
    """
    for i in range(indptr.size - 1):
        around = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            around += mix(before[indices[e]] ^ data[e])
        after[i] = mix(before[i] + mix(around))


@kernel
def connect(indptr, indices, component, queue):
    """The connected component of each node, numbered from 0; `component` is full of -1."""
    number = 0
    for start in range(component.size):
        if component[start] >= 0:
            continue
        component[start], queue[0] = number, start
        head, last = 0, 1
        while head < last:
            i = queue[head]
            head += 1
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if component[j] < 0:
                    component[j], queue[last] = number, j
                    last += 1
        number += 1


@kernel
def fold_leaves(indptr, indices, most, degree, size, root, queue):
    """Fold leaves into the node they hang on, again and again: `root` becomes that node.

    A leaf is a node with one neighbour that is not folded itself; it is folded when it stands for
    at most `most` nodes. `degree` are the numbers of neighbours, `size` is full of 1, `root` is
    0, 1, …; `queue` is room for one number for each node.
    """
    n, head, last = root.size, 0, 0
    for i in range(n):
        if degree[i] == 1:
            queue[last] = i
            last += 1
    while head < last:
        i = queue[head]
        head += 1
        if degree[i] != 1 or size[i] > most:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if root[j] == j and degree[j] > 0:
                root[i] = j
                size[j] += size[i]
                degree[i] = 0
                degree[j] -= 1
                if degree[j] == 1:
                    queue[last] = j
                    last += 1
                break
    for i in range(n):
        r = i
        while root[r] != r:
            r = root[r]
        root[i] = r
