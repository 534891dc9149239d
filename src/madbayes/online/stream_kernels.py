"""Rows one after another, each moving the centre it goes to (PRML Eq. 9.5).

Letters: X (n, d) rows, w weights, C centres as rows see them, M + low the same before they are
rounded (and, for the cosine, before they are brought to length 1), W cluster weights, `last` the
number of the row that each cluster got last.
"""

import numpy as np

from madbayes._jit import kernel
from madbayes._rows.distance import sqdist


@kernel
def follow_rows(X, w, z, k, limit, seen, C, M, low, W, last, near, error, scale, drift, rule):
    """Take the rows of X in turn; z, C, M, low, W and last change.

    `rule` is (penalty, cap, step, half_life, unit): a row farther than the penalty from all k
    centres opens a cluster while there are fewer than `cap`; `step` 0 stands for means, `half_life`
    0 for no forgetting. Stops before an opening when there are `limit` clusters already.

    Bounds only save work: `near[i, c]` is `scale`² times the squared distance of row i to centre c
    as it was before, up to `error[i]`; `drift` adds up how far the centres have come since. Columns
    that `near` does not have, all of them perhaps, are distances to be computed.

    Returns the rows done, k, the rows of positive weight seen so far, and Σ w d² on arrival.
    """
    penalty, cap, step, half_life, unit = rule
    d, known = X.shape[1], near.shape[1]
    total = 0.0
    for i in range(X.shape[0]):
        wi = w[i]
        q, best = -1, np.inf
        if known > 0:
            q = np.argmin(near[i])
            best = sqdist(X, i, C, q)
        reach, guess = np.sqrt(best), q
        for c in range(k):
            if c < known:
                bound = scale * (reach + drift[c]) * (1 + 1e-9)  # it is rounded
                if c == guess or near[i, c] - error[i] > bound * bound:
                    continue
            d2 = sqdist(X, i, C, c)
            if d2 < best or (d2 == best and c < q):
                best, q = d2, c
        if wi == 0.0:
            z[i] = q
            continue

        if q < 0 or (wi * best > penalty and k < cap):
            if k == limit:
                return i, k, seen, total
            seen += 1
            for j in range(d):
                C[k, j] = M[k, j] = X[i, j]
                low[k, j] = 0.0
            W[k], last[k] = wi, seen
            z[i] = k
            k += 1
            continue

        seen += 1
        z[i] = q
        total += wi * best
        if half_life > 0.0:
            W[q] *= 0.5 ** ((seen - last[q]) / half_life)
        W[q] += wi
        last[q] = seen
        rate = wi / W[q] if step == 0.0 else 1.0 - (1.0 - step) ** wi
        norm = 0.0
        for j in range(d):
            # M + low += rate (x - M - low), with twice the digits (Knuth's two-sum)
            old = M[q, j]
            value = low[q, j] + rate * (X[i, j] - old - low[q, j])
            new = old + value
            back = new - old
            low[q, j] = (old - (new - back)) + (value - back)
            M[q, j] = new
            norm += new * new
        way = 0.0
        if not unit or norm > 0.0:  # opposite rows cancel: the centre keeps its direction
            length = np.sqrt(norm) if unit else 1.0
            for j in range(d):
                new = M[q, j] / length
                way += (new - C[q, j]) ** 2
                C[q, j] = new
        if q < drift.shape[0]:
            drift[q] += np.sqrt(way)
    return X.shape[0], k, seen, total
