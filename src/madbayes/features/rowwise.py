"""Rows that change their features one after another, each seeing what those before it did."""

import numpy as np

from madbayes.features.allocation import Allocation
from madbayes.features.collapsed_kernels import DONE, OPEN, SOLE, best_z, collapsed_rows
from madbayes.features.row_kernels import slack
from madbayes.features.segment import pieces


def collapsed_pass(state: Allocation, penalty: float, cap: int) -> int:
    """Each row in turn takes its best z, everything else refitting at once (BKJ 4.1).

    Then features that do not repay the penalty go. Returns the changes.
    """
    state.measure()
    state.refit()
    count = np.zeros(1, dtype=np.int64)
    fresh = 0
    M, G = inverse(state)
    for a, b, block in pieces(state.rows, (0, state.n)):
        row, why = 0, SOLE
        while why != DONE:
            row, why = collapsed_rows(
                *(block, state.weight[a:b], state.Z[a:b], state.A, state.S, M, G, row, penalty),
                *(state.K < cap, penalty > 0, count),
            )
            changed = False
            if why == SOLE:
                changed = give_up(state, a + row, block[row], M, penalty)
            elif why == OPEN:
                changed = open_feature(state, a + row, block[row], M)
            elif count[0] - fresh > state.n:  # rounding may have gathered
                state.measure()
                state.refit()
                fresh = int(count[0])
                M, G = inverse(state)
            if changed:
                count[0] += 1
                M, G = inverse(state)
            row += 1
    state.work += state.one_pass() * 2
    state.measure()
    return int(count[0]) + state.refit(penalty)


def inverse(state: Allocation) -> tuple[np.ndarray, np.ndarray]:
    return np.linalg.inv(state.S), state.A @ state.A.T


def weight_of(state: Allocation, n: int) -> float:
    return float(state.weight[n]) if state.weight.shape[0] else 1.0


def give_up(state: Allocation, n: int, x: np.ndarray, M: np.ndarray, penalty: float) -> bool:
    """A row that alone keeps a column independent: without that column, if that pays."""
    w, z = weight_of(state, n), state.Z[n].copy()
    v = M @ z  # Z v is zero in all other rows
    j = int(np.argmax(np.abs(v)))
    rest = np.arange(state.K) != j
    A = (state.A - np.outer(v / v[j], state.A[j]))[rest]
    S = (state.S - w * np.outer(z, z))[rest][:, rest]
    M, G = np.linalg.inv(S), A @ A.T
    best = None
    for flip in range(-1, state.K):  # as it is, or with a flip that keeps the column space
        start = z.copy()
        if flip >= 0:
            start[flip] ^= 1
            if abs(v @ start) > 1e-9 * abs(v[j]):
                continue
        own = start[rest]
        e = x - own.astype(np.float64) @ A
        ee = float(e @ e)
        tol = w * float(slack(x, ee))
        p = np.empty(A.shape[0])
        ee, s, _ = best_z(own, w, ee, tol, A @ e, G, M, p)
        cost = w * ee / (1 + w * s)
        if best is None or cost < best[0]:
            best = (cost, own, p, s, tol)
    assert best is not None  # the first start is always tried
    cost, own, p, s, tol = best
    if cost >= penalty - tol:
        return False
    state.Z = np.ascontiguousarray(state.Z[:, rest])
    state.Z[n] = own
    state.A = A + np.outer(p, x - own.astype(np.float64) @ A) * (w / (1 + w * s))
    state.S = S + w * np.outer(own, own)
    return True


def open_feature(state: Allocation, n: int, x: np.ndarray, M: np.ndarray) -> bool:
    """A feature for row n alone; the others fit the other rows."""
    w, z = weight_of(state, n), state.Z[n].astype(np.float64)
    u = M @ z
    e = x - z @ state.A
    q = 1 - w * float(z @ u)
    state.A = np.vstack([state.A - np.outer(u, e) * (w / q), e / q])
    state.S = np.block([[state.S, w * z[:, None]], [w * z[None, :], np.full((1, 1), w)]])
    state.Z = np.column_stack([state.Z, np.zeros(state.n, dtype=np.uint8)])
    state.Z[n, -1] = 1
    return True
