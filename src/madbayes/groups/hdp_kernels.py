"""The hard HDP: the printed steps, and what a division costs; serial, sums in float64.

Letters: X (n, d) rows, those of one group together, group j from start[j] to start[j+1]; w weights
(all positive), z global labels, C global centres, W and N their weights and row counts. `local` and
`glob` are λ_l and λ_g. A local cluster is what the rows of one group with one label are, so the
objective is Σ w‖x - μ_z‖² + λ_l · #{(group, label)} + λ_g · #{labels}. A gain must exceed TOL.

Rows are copied and divided by loops: an assignment from array to array brings its error messages
with it, which take longer to compile than all of this file. What only calls kernels stays Python.
"""

import numpy as np

from madbayes._jit import kernel
from madbayes._partition.moves import copy_row, means
from madbayes._rows.distance import sqdist
from madbayes._rows.row_kernels import read_only, squared_error

SPARE = 64  # room for more centres, beside once again as many as there are


def assign_or_open(X, w, start, z, C, k, local, glob):
    """KJ Algorithm 2, step 4: each row to its cheapest cluster, or to a new one.

    A cluster that the group of the row does not use costs λ_l more. With λ_l = 0 and one row to a
    group it is a pass of DP-means (KJ Algorithm 1), which is step 5 when the rows are local means.
    Returns the centres, the new ones behind the k that were there, and their number.
    """
    room, user, done = C[:k], np.zeros(k, np.int64), np.zeros(1, np.int64)
    while done[0] < len(X):
        more = min(k + SPARE, len(X) - int(done[0]))  # rows that are left open no more
        room = np.concatenate([room, np.empty((more, C.shape[1]))])
        user = np.concatenate([user, np.zeros(more, np.int64)])
        k = assign_rows(read_only(X), w, start, z, room, k, local, glob, user, done)
    return room[:k], k


@kernel
def assign_rows(X, w, start, z, C, k, local, glob, user, done):
    """`assign_or_open` with room in C; `user` of a cluster is one more than the group that used it
    last. Returns the number of centres; `done` rows have been assigned before, and when C is full
    the others wait."""
    for j in range(start.shape[0] - 1):
        if start[j + 1] <= done[0]:
            continue
        for i in range(start[j], start[j + 1]):
            user[z[i]] = j + 1
        for i in range(max(start[j], done[0]), start[j + 1]):
            best, q = np.inf, 0
            for p in range(k):
                cost = w[i] * sqdist(X, i, C, p)
                if user[p] != j + 1:
                    cost += local
                if cost < best:
                    best, q = cost, p
            if best > local + glob:
                if k == C.shape[0]:
                    done[0] = i
                    return k
                copy_row(X, i, C, k)
                q = k
                k += 1
            z[i] = q
            user[q] = j + 1
    done[0] = X.shape[0]
    return k


def count_local(start, z, k):
    """The number of local clusters of each group."""
    found = np.zeros(len(start) - 1, np.int64)
    add_local(start, z, np.zeros(k, np.int64), found)
    return found


@kernel
def add_local(start, z, user, found):
    """`count_local`; `user` as in `assign_rows`."""
    for j in range(start.shape[0] - 1):
        for i in range(start[j], start[j + 1]):
            if user[z[i]] != j + 1:
                user[z[i]] = j + 1
                found[j] += 1


def local_clusters(X, w, start, z, k):
    """Means, weights and global labels of the local clusters, by group, then by label; and the
    local cluster of each row."""
    groups = len(start) - 1
    key = np.repeat(np.arange(groups) * k, np.diff(start)) + z
    if groups * k > 4 * len(z) + 1024:  # most are not in use
        found, member = np.unique(key, return_inverse=True)
    else:
        used = np.bincount(key, minlength=groups * k) > 0
        found, member = np.flatnonzero(used), (np.cumsum(used) - 1)[key]
    A = np.bincount(member, w)
    M = np.column_stack([np.bincount(member, w * X[:, f]) for f in range(X.shape[1])])
    M /= A[:, None]
    return M, A, found % k, member


@kernel
def add_errors(total, X, w, z, C):
    """total + Σ w‖x - μ_z‖², one row after the other."""
    for i in range(X.shape[0]):
        total += w[i] * sqdist(X, i, C, z[i])
    return total


def objective(X, w, start, z, k, local, glob):
    """KJ Eq. 2, every one of the k labels in use."""
    C = means(X, w, z, k, False)[0]
    return squared_error(X, w, z, C) + local * int(count_local(start, z, k).sum()) + glob * k
