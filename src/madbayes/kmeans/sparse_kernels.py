"""Row moves of the search on CSR rows, by the sums of the clusters.

A cluster of weight W whose rows add up to S costs Σ w‖x‖² - ‖S‖²/W, or, when rows and centres have
length 1 (`unit`), 2W - 2‖S‖. So W, ‖S‖² and the products x·S are all that a move needs, and they
cost as much as the row has values.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes._partition.moves import SWEEPS, TOL


@inner
def saving(W, length2, unit):
    """What the rows of a cluster save by sharing a centre."""
    if unit:
        return 2.0 * np.sqrt(max(length2, 0.0))
    return length2 / W


@kernel
def move_csr_rows(data, indices, indptr, norm2, w, z, S, W, length2, N, penalty, cap, unit, stop):
    """Hartigan's moves: each row in turn goes where J is lowest by the exact change.

    S is (d, slots): the sums, one cluster a column; N[c] = 0 is a free slot. Updates z, S, W,
    `length2` (‖S‖²) and N, until a sweep moves nothing; returns the number of moves.
    """
    d, slots = S.shape
    dots = np.empty(slots)
    k, moved = 0, 0
    for c in range(slots):
        k += N[c] > 0
    for _ in range(SWEEPS):
        now = 0
        for i in range(z.shape[0]):
            if stop[0]:
                return moved
            p, wi = z[i], w[i]
            for c in range(slots):
                dots[c] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                x, j = np.float64(data[e]), indices[e]
                for c in range(slots):
                    dots[c] += x * S[j, c]
            alone = 2.0 * wi if unit else wi * norm2[i]
            own2 = wi * wi * norm2[i]
            leave = penalty
            if N[p] > 1:
                rest2 = length2[p] - 2.0 * wi * dots[p] + own2
                leave = alone - saving(W[p], length2[p], unit) + saving(W[p] - wi, rest2, unit)
            best, q, free = leave * (1 - TOL), -1, -1
            for c in range(slots):
                if N[c] == 0:
                    free = c if free < 0 else free
                elif c != p:
                    both2 = length2[c] + 2.0 * wi * dots[c] + own2
                    more = saving(W[c] + wi, both2, unit) - saving(W[c], length2[c], unit)
                    if alone - more < best:
                        best, q = alone - more, c
            if penalty < best and N[p] > 1 and k < cap and free >= 0:
                q = free
            if q < 0:
                continue
            now += 1
            k += int(N[q] == 0) - int(N[p] == 1)
            length2[p] += own2 - 2.0 * wi * dots[p]
            length2[q] += own2 + 2.0 * wi * dots[q]
            for e in range(indptr[i], indptr[i + 1]):
                S[indices[e], p] -= wi * data[e]
                S[indices[e], q] += wi * data[e]
            W[p] -= wi
            W[q] += wi
            N[p] -= 1
            N[q] += 1
            z[i] = q
            if N[p] == 0:  # without what rounding left
                W[p] = length2[p] = 0.0
                for j in range(d):
                    S[j, p] = 0.0
        moved += now
        if now == 0:
            break
    return moved
