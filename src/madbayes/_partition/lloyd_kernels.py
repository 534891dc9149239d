"""Lloyd's passes over few rows, where the bookkeeping of `_partition.partition` costs more.

Rows are given by their columns: distances are added up column by column for all rows at a time,
which the processor does for several rows at once. Each sum is that of `sqdist`, in the same order
(for fewer than 16 columns).
"""

import numpy as np

from madbayes._jit import kernel

PLAIN = 2**24  # rows × centres × columns up to which these passes are soonest


@kernel
def fill_pairs(columns, C, D, line):
    """D[i, c] = ‖x_i - c‖² of each row and each row of C."""
    n = line.shape[0]
    for c in range(C.shape[0]):
        for j in range(columns.shape[0]):
            at = C[c, j]
            for i in range(n):
                diff = columns[j, i] - at
                line[i] = diff * diff + (line[i] if j > 0 else 0.0)
        for i in range(n):
            D[i, c] = line[i]


def all_pairs(X, C):
    """‖x - c‖² of each row of X and each row of C."""
    return pairs_of(np.ascontiguousarray(X.T), C)


def pairs_of(columns, C):
    """The same of rows given by their columns."""
    n = columns.shape[1]
    D = np.empty((n, len(C)))
    fill_pairs(columns, C, D, np.empty(n))
    return D


def lloyd_by_columns(columns, w, C, passes, gain=-np.inf, limit=np.inf, hope=1.0, ahead=0.0):
    """Labels, centres, squared error and passes, of rows given by their columns.

    At most so many passes; clusters without rows are dropped.

    It ends when a pass gains less than a share `gain` of the error, or less than what the error is
    above `limit`, over `hope`. `ahead=1.0`: centres go beyond their means (`lloyd.follow`).
    """
    n, C, P = columns.shape[1], C.copy(), C.copy()
    most = n + len(C)
    z, at, line, best = (
        np.empty(n, np.int64),
        np.empty(most, np.int64),
        np.empty(most),
        np.empty(n),
    )
    how = passes, gain, limit, hope, ahead
    k, sse, turn = follow(columns, w, C, P, z, at, line, best, *how)
    return z, C[:k], sse, turn


@kernel
def follow(columns, w, C, P, z, at, line, best, passes, gain, limit, hope, ahead):
    """`lloyd_by_columns`: labels in z, centres in the first rows of C. Returns their number, the
    error and the passes.

    Centres are C = M + pull·(M - P), M the means of a pass and P those of the one before.

    `at` is room for the nearest centre of each row, then for the new number of each cluster; `line`
    for how far rows are from one centre, then for the weight of each cluster; `best` for how far
    they are from the nearest. What is stored could be what is read next, for all that LLVM knows:
    hence the locals.
    """
    d, n = columns.shape
    k, turn, before = C.shape[0], 0, np.inf
    age, pull = 1.0, 0.0
    while True:
        for c in range(k):
            for j in range(0, d - 3, 4):  # four at a time: `line` is stored less often
                m, m1, m2, m3 = C[c, j], C[c, j + 1], C[c, j + 2], C[c, j + 3]
                for i in range(n):
                    diff, diff1 = columns[j, i] - m, columns[j + 1, i] - m1
                    diff2, diff3 = columns[j + 2, i] - m2, columns[j + 3, i] - m3
                    total = diff * diff + (line[i] if j > 0 else 0.0)
                    line[i] = diff3 * diff3 + (diff2 * diff2 + (diff1 * diff1 + total))
            for j in range(d - d % 4, d):
                m = C[c, j]
                for i in range(n):
                    diff = columns[j, i] - m
                    line[i] = diff * diff + (line[i] if j > 0 else 0.0)
            for i in range(n):
                nearer = c == 0 or line[i] < best[i]
                best[i] = line[i] if nearer else best[i]
                at[i] = c if nearer else at[i]
        moved, sse = 0, 0.0
        for i in range(n):
            c = at[i]
            moved += turn == 0 or z[i] != c
            z[i] = c
            sse += w[i] * best[i]
        gained = before - sse
        far = pull > 0.0 and (moved == 0 or gained < 0.0)  # go on from the means
        done = moved == 0 or gained < gain * sse or gained * hope < sse - limit
        if turn == passes or (done and not far):
            return k, sse, turn
        before = sse
        turn += 1
        for c in range(k):
            line[c] = 0.0
        for i in range(n):
            line[z[i]] += w[i]
        filled = 0
        for c in range(k):
            at[c] = filled
            filled += line[c] > 0.0
        last, older = pull, 1.0 if far or filled < k else age
        age = 0.5 + np.sqrt(0.25 + older * older)
        pull = ahead * (older - 1.0) / age
        for c in range(k):
            for j in range(d):
                P[c, j] = (C[c, j] + last * P[c, j]) / (1.0 + last)
                C[c, j] = -pull * P[c, j]
        k = filled
        for i in range(n):
            c = z[i]
            share = (1.0 + pull) * w[i] / line[c]
            c = at[c]
            z[i] = c
            for j in range(d):
                C[c, j] += share * columns[j, i]
