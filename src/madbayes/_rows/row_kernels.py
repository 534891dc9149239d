"""One pass over a block of rows: sums, errors, offers of new centres.

Few values are added up by numpy, in the same order, so that no kernel has to be compiled for them.
"""

import numpy as np

from madbayes._jit import kernel
from madbayes._jit.constants import DOWN, UP
from madbayes._rows.distance import add_row, sqdist

SMALL_ARRAY = 2**16  # values up to which numpy is quick enough, and no kernel has to be compiled
NO_WEIGHT = np.empty(0)  # all weights are one


def read_only(X):
    """A view of X that cannot be written to: kernels have one version for all tables."""
    if type(X) is np.ndarray and not X.flags.writeable:
        return X
    X = X.view(np.ndarray)  # not np.memmap, which is another type too
    X.flags.writeable = False
    return X


def moments(X, weight, origin, total):
    """Add the weighted sum of X - origin to `total`; return (weight, largest |X - origin|)."""
    if X.size > 2**11:
        farthest = np.zeros(len(total))
        return moments_of_many(X, weight, origin, total, farthest), float(farthest.max())
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = X - origin
        largest = max(shifted.max(), -shifted.min())
        if weight.shape[0]:
            shifted *= weight[:, None]
        shifted[0] += total
        # numpy adds row after row, but a single column in another order
        total[:] = shifted.sum(axis=0) if X.shape[1] > 1 else in_turn(shifted[:, 0])
    return in_turn(weight) if weight.shape[0] else float(len(X)), float(largest)


@kernel
def moments_of_many(X, weight, origin, total, farthest):
    """`moments`, equal to the bit. It keeps the largest value of each column, for vector code."""
    weighted = weight.shape[0] > 0
    sum_weight = 0.0
    for i in range(X.shape[0]):
        w = weight[i] if weighted else 1.0
        sum_weight += w
        for j in range(X.shape[1]):
            v = np.float64(X[i, j]) - origin[j]
            total[j] += w * v
            v = abs(v)
            farthest[j] = v if v > farthest[j] else farthest[j]
    return sum_weight


def in_turn(values):
    """The sum of a vector, one value after the other: as a loop adds them, not as `np.sum` does."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


def add_sums(high, low, more, more_low, many=False):
    """high + low += more + more_low, element by element, with twice the digits (Knuth)."""
    if many:
        return add_many_sums(high, low, more, more_low)
    new = high + more
    back = new - high
    low += (high - (new - back)) + (more - back)
    low += more_low
    high[:] = new


@kernel
def add_many_sums(high, low, more, more_low):
    """The same, to the bit."""
    for c in range(high.shape[0]):
        for j in range(high.shape[1]):
            old, value = high[c, j], more[c, j]
            new = old + value
            back = new - old
            low[c, j] = low[c, j] + ((old - (new - back)) + (value - back)) + more_low[c, j]
            high[c, j] = new


def squared_error(X, weight, labels, exact):
    """Σ w ‖x - c‖² of the rows of X to the centres of their labels."""
    return sum_errors(read_only(X), weight, labels.astype(np.int64, copy=False), exact, NO_WEIGHT)


def row_errors(X, labels, exact, out):
    """out[i] = ‖x - c‖² of row i of X to the centre of its label."""
    sum_errors(X, NO_WEIGHT, labels.astype(np.int64, copy=False), exact, out)


@kernel
def sum_errors(X, weight, labels, exact, out):
    """`squared_error`, and `row_errors` if there is room for them."""
    total = 0.0
    for i in range(X.shape[0]):
        d2 = sqdist(X, i, exact, labels[i])
        if out.shape[0] > 0:
            out[i] = d2
        total += weight[i] * d2 if weight.shape[0] > 0 else d2
    return total


def distances_to(X, C, out):
    """out[c, i] = squared distance of row i of X to row c of C."""
    if X.size * len(C) > SMALL_ARRAY:
        return distances_to_many(X, C, out)
    labels = np.empty(len(X), np.int64)
    for c in range(len(C)):
        labels[:] = c
        row_errors(X, labels, C, out[c])


@kernel
def distances_to_many(X, C, out):
    """The same, to the bit."""
    for i in range(X.shape[0]):
        for c in range(C.shape[0]):
            out[c, i] = sqdist(X, i, C, c)


def project(X, direction, out):
    """out[i] = row i of X times `direction`: equal rows give equal values."""
    if X.size > SMALL_ARRAY:
        return project_many(X, direction, out)
    out[:] = np.add.accumulate(X * direction, axis=1)[:, -1]


@kernel
def project_many(X, direction, out):
    """The same, to the bit."""
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += np.float64(X[i, j]) * direction[j]
        out[i] = total


@kernel
def tally_rows(X, weight, labels, tally, sign):
    """Add the rows of X to the sums of their clusters (sign 1), or take them out (-1)."""
    for i in range(X.shape[0]):
        w = weight[i] if weight.shape[0] > 0 else 1.0
        if w > 0.0:
            add_row(tally.sums, tally.low, np.int64(labels[i]), X, i, sign * w)
            tally.count[labels[i]] += sign


@kernel
def open_clusters(X, weight, labels, exact, penalty, limit, opened):
    """The serial rule of KJ Algorithm 1 among rows that are far from all centres known so far.

    A row opens a cluster when it is also too far from every cluster opened before it here, as long
    as there are fewer than `limit`. Returns how many were opened; `opened` are their rows in X.
    """
    m = 0
    for i in range(X.shape[0]):
        best = sqdist(X, i, exact, labels[i])
        for c in range(m):
            best = min(best, sqdist(X, i, X, opened[c]))
        if weight[i] * best > penalty and m < limit:
            opened[m] = i
            m += 1
    return m


@kernel
def offer(X, first, new, opened_at, half_gap, exact, scale, k_old, rows, tally):
    """Move rows first, first + 1, … to nearer new centres that they or earlier rows opened.

    `half_gap[c, m]` is half the distance between centre c and new centre m, scaled: a row nearer to
    its centre than that cannot be nearer to m.
    """
    labels, uppers, weight, stats = rows.labels, rows.upper, rows.weight, tally.stats
    for i in range(X.shape[0]):
        p = np.int64(labels[i])
        if p >= k_old or opened_at[0] > first + i:
            continue
        own = -1.0
        q = -1
        best = 0.0
        for m in range(new.shape[0]):
            if opened_at[m] > first + i:
                break
            if uppers[i] <= half_gap[p, m] * DOWN:
                continue
            if own < 0.0:
                own = sqdist(X, i, exact, p)
                best = own
                uppers[i] = np.sqrt(own) * scale * UP
            d2 = sqdist(X, i, new, m)
            if d2 < best:
                best = d2
                q = m
        if q >= 0:
            w = weight[i] if weight.shape[0] > 0 else 1.0
            labels[i] = k_old + q
            uppers[i] = np.sqrt(best) * scale * UP
            stats[0] += w * (best - own)
            stats[1] += 1
            if w > 0.0:
                add_row(tally.sums, tally.low, k_old + q, X, i, w)
                add_row(tally.sums, tally.low, p, X, i, -w)
                tally.count[k_old + q] += 1
                tally.count[p] -= 1
