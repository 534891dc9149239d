"""Rows that change their features one after another, each seeing what those before it did."""

import numpy as np

from madbayes._kernels import features as kernels
from madbayes._kernels.features import DONE, OPEN, SOLE
from madbayes.features.allocation import Allocation


def collapsed_pass(state: Allocation, penalty: float, cap: int) -> int:
    """Each row in turn takes its best z, everything else refitting at once (BKJ 4.1)."""
    state.measure()
    state.refit()
    count = np.zeros(1, dtype=np.int64)
    fresh = 0
    M, G = inverse(state)
    for a, b, block in state.pieces((0, state.n)):
        row, why = 0, SOLE
        while why != DONE:
            row, why = kernels.collapsed_rows(
                *(block, state.weight[a:b], state.Z[a:b], state.A, state.S, M, G, row, penalty),
                *(state.K < cap, penalty > 0, count),
            )
            if why == SOLE:
                count[0] += without(state, a + row, block[row], M, penalty)
            elif why == OPEN:
                open_feature(state, a + row, block[row], M)
                count[0] += 1
            elif count[0] - fresh <= state.n:  # more flips, and rounding may have gathered
                continue
            else:
                state.measure()
                state.refit()
                fresh = int(count[0])
            row += 1
            M, G = inverse(state)
    state.measure()
    state.refit()
    return int(count[0]) + state.drop_unpaid(penalty)


def inverse(state: Allocation) -> tuple[np.ndarray, np.ndarray]:
    M = np.linalg.inv(state.S) if state.K else np.zeros((0, 0))
    return M, state.A @ state.A.T


def weight_of(state: Allocation, n: int) -> float:
    return float(state.weight[n]) if state.weight.shape[0] else 1.0


def without(state: Allocation, n: int, x: np.ndarray, M: np.ndarray, penalty: float) -> int:
    """A row that alone keeps a column independent: try without that column."""
    w, z = weight_of(state, n), state.Z[n].copy()
    v = M @ z  # Z v is zero in all other rows
    j = int(np.argmax(np.abs(v)))
    rest = np.arange(state.K) != j
    A = np.ascontiguousarray((state.A - np.outer(v / v[j], state.A[j]))[rest])
    S = (state.S - w * np.outer(z, z))[np.ix_(rest, rest)]
    M = np.linalg.inv(S) if rest.any() else np.zeros((0, 0))
    G = A @ A.T
    best = None
    starts = [z] + [z ^ (np.arange(state.K) == i) for i in range(state.K)]
    for start in starts:
        if start is not z and abs(v @ start) > 1e-9 * abs(v[j]):
            continue  # not the same column space
        own = start[rest].astype(np.uint8)
        e = x - own.astype(np.float64) @ A
        ee = float(e @ e)
        tol = w * float(kernels.slack(x, ee))
        p = np.empty(A.shape[0])
        ee, s, _ = kernels.best_z(own, w, ee, tol, A @ e, G, M, p)
        cost = w * ee / (1 + w * s)
        if best is None or cost < best[0]:
            best = (cost, own, p, s, tol)
    assert best is not None  # the first start is always tried
    cost, own, p, s, tol = best
    if cost >= penalty - tol:
        return 0
    state.Z = np.ascontiguousarray(state.Z[:, rest])
    state.Z[n] = own
    state.A = A + np.outer(p, x - own.astype(np.float64) @ A) * (w / (1 + w * s))
    state.S = S + w * np.outer(own, own)
    return 1


def open_feature(state: Allocation, n: int, x: np.ndarray, M: np.ndarray) -> None:
    """A feature for row n alone; the others fit the other rows."""
    w, z = weight_of(state, n), state.Z[n].astype(np.float64)
    u = M @ z
    e = x - z @ state.A
    q = 1 - w * float(z @ u)
    state.A = np.vstack([state.A - np.outer(u, e) * (w / q), e / q])
    state.S = np.block([[state.S, w * z[:, None]], [w * z[None, :], np.full((1, 1), w)]])
    state.Z = np.column_stack([state.Z, np.zeros(state.n, dtype=np.uint8)])
    state.Z[n, -1] = 1


def paper_pass(state: Allocation, penalty: float, cap: int) -> int:
    """BP-means step 1 (BKJ 3): rows in order, features with one row opened on the way."""
    count = np.zeros(1, dtype=np.int64)
    for a, b, block in state.pieces((0, state.n)):
        row, why = 0, OPEN
        while why != DONE:
            row, why = kernels.paper_rows(
                *(block, state.weight[a:b], state.Z[a:b], state.A, state.A @ state.A.T, row),
                *(penalty, state.K < cap, count),
            )
            if why == OPEN:
                e = block[row] - state.Z[a + row].astype(np.float64) @ state.A
                state.add(np.arange(state.n) == a + row, e)
                count[0] += 1
                row += 1
    return int(count[0])
