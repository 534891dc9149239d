"""A pass of collapsed BP-means (BKJ 4.1): rows change their features one by one, A always fitted.

With row n out, A₋ and M₋ = (Z₋ᵀWZ₋)⁻¹ fitted to the others, the objective is J₋ + w‖x - zA₋‖² /
(1 + w·zM₋zᵀ): a rank-one downdate, O(K) for each flip that is looked at, and a rank-one update.
"""

import numpy as np

from madbayes._jit import inner, kernel
from madbayes.features.allocation import Allocation
from madbayes.features.row_kernels import DONE, OPEN, SOLE, dot, residual, slack
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


# Kernels


@kernel
def best_z(z, w, ee, tol, g, G, M, p):
    """Flip features of one row, the best first, while w‖x - zA₋‖²/(1 + w·zM₋z) falls.

    `g` = A₋(x - zA₋), `G` = A₋A₋ᵀ and `M` speak of the other rows; `z`, `g` and `p` (zM) follow.
    Returns (‖x - zA₋‖², zM₋z, number of flips).
    """
    K = z.shape[0]
    s = times(z, M, p)
    flips = 0
    while flips < 4 * K + 4:
        best, value = -1, w * ee / (1.0 + w * s) - tol
        for k in range(K):
            t = -1.0 if z[k] else 1.0
            there = max(0.0, ee - 2.0 * t * g[k] + G[k, k])
            spread = max(0.0, s + 2.0 * t * p[k] + M[k, k])
            there = w * there / (1.0 + w * spread)
            if there < value:
                best, value = k, there
        if best < 0:
            break
        flips += 1
        t = -1.0 if z[best] else 1.0
        ee = max(0.0, ee - 2.0 * t * g[best] + G[best, best])
        s = max(0.0, s + 2.0 * t * p[best] + M[best, best])
        z[best] = 1 - z[best]
        for i in range(K):
            g[i] -= t * G[best, i]
            p[i] += t * M[best, i]
    return ee, s, flips


@inner
def times(z, M, p):
    """p = zM; returns zMz."""
    K = z.shape[0]
    for k in range(K):
        p[k] = 0.0
    for k in range(K):
        if z[k]:
            for i in range(K):
                p[i] += M[k, i]
    s = 0.0
    for k in range(K):
        if z[k]:
            s += p[k]
    return s


@kernel
def collapsed_rows(X, weight, Z, A, S, M, G, start, penalty, may_open, may_drop, count):
    """From row `start` of the block on; A, S, M and G always fit all of Z.

    A row is taken out, finds its best z, and is put back. Returns (row, why): DONE, SOLE (without
    this row the columns of Z depend on each other; the row was left as it is) or OPEN (a feature
    for this row alone pays). `count[0]` grows by the flips.
    """
    K, d = A.shape
    e, z = np.empty(d), np.empty(K, np.uint8)
    u, v, g, p = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    G_out, M_out = np.empty((K, K)), np.empty((K, K))
    for n in range(start, X.shape[0]):
        w = weight[n] if weight.shape[0] else 1.0
        if w == 0.0:
            continue
        own = Z[n]
        residual(X[n], own, A, e)
        ee = dot(e, e)
        for k in range(K):
            z[k] = own[k]
        q = 1.0 - w * times(z, M, u)
        if q < 1e-9:
            if may_drop:
                return n, SOLE
            continue
        # Nothing can be gained where the row, left out, is fitted exactly.
        tol = w * slack(X[n], ee)
        if w * ee / q <= tol:
            continue
        c = w / q
        for k in range(K):
            v[k] = dot(A[k], e)
        for k in range(K):
            g[k] = (v[k] - c * u[k] * ee) / q
            for i in range(K):
                M_out[k, i] = M[k, i] + c * u[k] * u[i]
                G_out[k, i] = G[k, i] - c * (u[k] * v[i] + v[k] * u[i]) + c * c * ee * u[k] * u[i]
        there, s, flips = best_z(z, w, ee / (q * q), tol, g, G_out, M_out, p)
        opens = may_open and w * there / (1.0 + w * s) > penalty + tol
        if flips:
            count[0] += flips
            for k in range(K):  # out with the old z …
                for j in range(d):
                    A[k, j] -= c * u[k] * e[j]
                for i in range(K):
                    S[k, i] += w * (float(z[k]) * z[i] - float(own[k]) * own[i])
            for k in range(K):
                own[k] = z[k]
            residual(X[n], z, A, e)  # … and in with the new one
            c = w / (1.0 + w * s)
            for k in range(K):
                for j in range(d):
                    A[k, j] += c * p[k] * e[j]
                for i in range(K):
                    M[k, i] = M_out[k, i] - c * p[k] * p[i]
                    G[k, i] = (
                        G_out[k, i] + c * (p[k] * g[i] + g[k] * p[i]) + c * c * there * p[k] * p[i]
                    )
        if opens:
            return n, OPEN
    return X.shape[0], DONE
