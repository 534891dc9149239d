"""Moves of nodes that raise the modularity of a division."""

from madbayes._jit import kernel

TOL = 1e-10


@kernel
def rise(indptr, indices, data, w, z, W, links, stop):
    """Nodes move while that raises the modularity; returns how often.

    The graph is CSR without its diagonal; `w` are the weights of the nodes, loops included, `W`
    those of the clusters z. A node goes to the cluster it has the most links to beyond those that
    its weight would lead to expect. `links` is room for one number for each cluster, all 0.
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
            p, share = z[i], w[i] / total
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
    return moves
