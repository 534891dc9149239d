"""The nearest rows, kept while blocks of squared distances pass by; edges between neighbours."""

import numpy as np

from madbayes._jit import kernel

STRIP = 32  # columns that are passed by together when none of them is near enough


@kernel
def keep_nearest(products, squares, first, skip, distance, index):
    """Squared distances |c|² - 2xc of a block: the least of each row, ascending; ties to the lowest
    index. `first` is the index of the first column, `skip` (-1: none) the column of the first row
    that is the row itself.
    """
    n, m = products.shape
    k = distance.shape[1]
    for i in range(n):
        own = skip + i if skip >= 0 else -1
        for a in range(0, m, STRIP):
            near, limit = 0, distance[i, k - 1]
            strip, at = products[i, a : a + STRIP], squares[a : a + STRIP]
            for j in range(at.shape[0]):  # no branch: several at a time
                near += at[j] - 2.0 * strip[j] < limit
            if near == 0:
                continue
            for j in range(at.shape[0]):
                value = at[j] - 2.0 * strip[j]
                if value >= distance[i, k - 1] or first + a + j == own:
                    continue
                p = k - 1
                while p > 0 and distance[i, p - 1] > value:
                    distance[i, p] = distance[i, p - 1]
                    index[i, p] = index[i, p - 1]
                    p -= 1
                distance[i, p] = value
                index[i, p] = first + a + j


@kernel
def shared_neighbours(indptr, indices, neighbours, share):
    """For each edge the Jaccard index of the two lists of neighbours, each row among its own."""
    n, k = neighbours.shape
    mark = np.full(n, -1, np.int64)
    for i in range(n):
        mark[i] = i
        for s in range(k):
            mark[neighbours[i, s]] = i
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            both = 1.0 if mark[j] == i else 0.0
            for s in range(k):
                if mark[neighbours[j, s]] == i:
                    both += 1.0
            share[e] = both / (2.0 * (k + 1) - both)
