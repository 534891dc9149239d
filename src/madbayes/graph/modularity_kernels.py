"""Kernels of `graph/planted.py` and `graph/fringe.py`: moves raising modularity, leaves folded."""

from madbayes._jit import kernel

TOL = 1e-10


@kernel
def rise(indptr, indices, data, w, z, W, links, gamma, asked, stop):
    """Move nodes while that raises the modularity at resolution `gamma`; return the moves made.

    The graph is CSR without its diagonal; `w` are the degrees of the nodes, loops included, `W`
    those of the clusters `z`. A node goes to the cluster it has the most links to, beyond `gamma`
    times those that its degree would lead to expect. Only nodes that are `asked` are looked at; a
    move asks the neighbours outside of the new cluster. `links` has a 0 for each cluster.
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
            p, share = z[i], gamma * w[i] / total
            for e in range(indptr[i], indptr[i + 1]):
                links[z[indices[e]]] += data[e]
            best, most = p, links[p] - share * (W[p] - w[i]) + TOL * w[i]
            for e in range(indptr[i], indptr[i + 1]):
                c = z[indices[e]]
                value = links[c] - share * W[c]
                if c != p and value > most:
                    best, most = c, value
            for e in range(indptr[i], indptr[i + 1]):
                links[z[indices[e]]] = 0.0
            if best != p:
                z[i] = best
                W[p] -= w[i]
                W[best] += w[i]
                moves += 1
                for e in range(indptr[i], indptr[i + 1]):
                    if z[indices[e]] != best:
                        asked[indices[e]] = 1
    return moves


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
