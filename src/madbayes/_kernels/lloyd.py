"""Lloyd's passes over few rows, where the bookkeeping of `_engine.partition` costs more.

Rows are given by their columns: distances are added up column by column for all rows at a time,
which the processor does for several rows at once. Each sum is that of `sqdist`, in the same order
(for fewer than LONG columns).
"""

import numpy as np

from madbayes._kernels import inner, kernel


@inner
def distances_from(columns, C, c, line):
    """line[i] = ‖x_i - c‖² of all rows."""
    for i in range(line.shape[0]):
        line[i] = 0.0
    for j in range(columns.shape[0]):
        at = C[c, j]
        for i in range(line.shape[0]):
            diff = columns[j, i] - at
            line[i] += diff * diff


@kernel
def all_pairs(columns, C):
    """‖x - c‖² of each row and each row of C."""
    n, k = columns.shape[1], C.shape[0]
    D, line = np.empty((n, k)), np.empty(n)
    for c in range(k):
        distances_from(columns, C, c, line)
        for i in range(n):
            D[i, c] = line[i]
    return D


@kernel
def lloyd(columns, w, C, passes):
    """At most so many passes; clusters without rows are dropped. Labels, centres, squared error."""
    n = columns.shape[1]
    z, at, line, best = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(n)
    for i in range(n):
        z[i] = -1
    sse = 0.0
    for turn in range(passes + 1):
        for i in range(n):
            best[i], at[i] = np.inf, 0
        for c in range(C.shape[0]):
            distances_from(columns, C, c, line)
            for i in range(n):
                nearer = line[i] < best[i]
                best[i] = line[i] if nearer else best[i]
                at[i] = c if nearer else at[i]
        moved, sse = 0, 0.0
        for i in range(n):
            moved += z[i] != at[i]
            z[i] = at[i]
            sse += w[i] * best[i]
        if moved == 0 or turn == passes:
            break
        C = filled_means(columns, w, z, C.shape[0])
    return z, C, sse


@inner
def filled_means(columns, w, z, k):
    """Means of the clusters that have rows; z is numbered without gaps."""
    weight, new = np.empty(k), np.empty(k, np.int64)
    for c in range(k):
        weight[c] = 0.0
    for i in range(z.shape[0]):
        weight[z[i]] += w[i]
    filled = 0
    for c in range(k):
        new[c] = filled
        filled += weight[c] > 0.0
    C = np.empty((filled, columns.shape[0]))
    for c in range(filled):
        for j in range(columns.shape[0]):
            C[c, j] = 0.0
    for i in range(z.shape[0]):
        share = w[i] / weight[z[i]]
        z[i] = new[z[i]]
        for j in range(columns.shape[0]):
            C[z[i], j] += share * columns[j, i]
    return C
