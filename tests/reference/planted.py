"""The degree-corrected planted partition by plain loops: modularity and the gain of edges held out.

Newman 2016 (modularity at a resolution), Kawamoto & Kabashima 2017 (edges held out).
"""

from math import log


def modularity(A, labels, gamma):
    """Links inside of the communities, less `gamma` times those that the degrees lead to expect."""
    degree, total = A.sum(axis=1), A.sum()
    value = 0.0
    for i in range(len(A)):
        for j in range(len(A)):
            if labels[i] == labels[j]:
                value += A[i, j] - gamma * degree[i] * degree[j] / total
    return value / total


def held_out_shares(B, labels, u, v):
    """The share of the edges (u, v) that lie inside of a community, and the share that would if
    both ends were drawn in proportion to the degrees of B."""
    degree = B.sum(axis=1)
    inside = sum(1 for a, b in zip(u, v, strict=True) if labels[a] == labels[b]) / len(u)
    expected = 0.0
    for c in set(labels.tolist()):
        expected += (degree[labels == c].sum() / degree.sum()) ** 2
    return inside, expected


def gain(p, q):
    """The mean log likelihood of an edge above that without communities."""
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))
