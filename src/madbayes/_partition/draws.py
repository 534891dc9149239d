"""Centres drawn among the rows: the first ones, and others in the place of some (serial).

Letters as in `moves.py`; U are uniform numbers that the caller drew.
"""

import numpy as np

from madbayes._jit import kernel
from madbayes._partition.moves import copy_row
from madbayes._rows.distance import sqdist
from madbayes._rows.row_kernels import read_only


def draw_seeds(X, w, C, have, U, stop):
    """Fill C[have:] with rows drawn in proportion to w·(squared distance to the centres before).

    One uniform number U[c] for each (k-means++; Arthur & Vassilvitskii 2007). Returns how many
    centres there are: fewer than asked when all rows are centres already.
    """
    near, gaps = np.zeros(len(X), np.int32), np.empty(len(C))
    return draw_rows(read_only(X), w, C, have, U, w.copy(), near, gaps, stop)


@kernel
def draw_rows(X, w, C, have, U, mass, nearest, gaps, stop):
    """`draw_seeds`; `mass` are the weights at first, `nearest` and `gaps` room for the nearest
    centre of each row and for how far the new one is from those before.

    A row is not nearer to a new centre that is twice as far from its own as it is itself (4 times
    as far, squared, with room for rounding).
    """
    n = X.shape[0]
    for c in range(C.shape[0]):
        if stop[0]:
            break
        if c >= have:
            total = 0.0
            for i in range(n):
                total += mass[i]
            if total <= 0.0:
                return c
            target, i, passed = U[c] * total, -1, 0.0
            while i < n - 1 and passed <= target:
                i += 1
                passed += mass[i]
            copy_row(X, i, C, c)
            for e in range(c):
                gaps[e] = sqdist(X, i, C, e)
        for i in range(n):
            if c > 0 and c >= have and w[i] * gaps[nearest[i]] > 4 * (1 + 1e-9) * mass[i]:
                continue
            near = w[i] * sqdist(X, i, C, c)
            if c == 0 or near < mass[i]:
                mass[i], nearest[i] = near, c
    return C.shape[0]


def redraw_some(X, w, C, most, U, at_least=False):
    """Remove up to `most` random centres and draw about as many (one less to one more) anew; with
    `at_least` no fewer."""
    k, u = len(C), U.tolist()
    gone = int(u[0] * (min(most, k) + 1))
    drawn = gone + int(u[1] * 2) if at_least else gone - 1 + int(u[1] * 3)
    drawn = max(drawn, 1 if gone == k or gone == 0 else 0)
    drawn = min(drawn, len(X) - (k - gone))
    index = list(range(k))
    for t in range(gone):  # the first of a shuffle go
        e = t + int(u[2 + t] * (k - t))
        index[t], index[e] = index[e], index[t]
    stay = k - gone
    new, V = np.empty((stay + drawn, C.shape[1])), np.empty(stay + drawn)
    new[:stay] = C[index[gone:]]
    V[stay:] = U[2 + most : 2 + most + drawn]
    return new[: draw_seeds(X, w, new, stay, V, np.zeros(1, np.uint8))]
