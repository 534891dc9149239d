"""Clusters known by sums and counts alone: what they cost, exact moves of rows, and merges.

A row is a vector T and counts P, one for each *block* of neighbouring columns (1: the cells are
there, 0: they are missing, the row's total: multinomial counts). A cluster is S = Σ w T and
N = Σ w P. Each column has a family (the codes below), and a cluster earns

    F(S, N) = Σ_columns f(S_j, N_block(j)),
    f = S²/N                                     SQUARED
        S log(S/N)                               POISSON, SHARE (multinomial, categories)
        S log(S/N) + (N-S) log((N-S)/N)          BERNOULLI
        -a N log(S/N)                            GAMMA, of shape a (`scale`)

so that a division costs Σ w φ(x) - Σ_clusters F + penalty · k (docs/families.md derives it).
`start[b]` is the first column of block b. Groups (hard HDP) pay `local` for each cluster they use;
without groups there is one, and `local` is 0.
"""

import numpy as np

from madbayes._jit import inner, kernel

SQUARED, POISSON, SHARE, BERNOULLI, GAMMA = 0, 1, 2, 3, 4
NOTHING = 1e-12  # a sum or count below this is a zero that rounding left
TINY = 1e-300
NEVER = -1e8  # log 0: a row that needs it is too far; finite, so that other columns are not lost
GAIN = 1e-10  # a move has to save this share of what is at stake, or it may be rounding


@inner
def xlogx(v):
    return v * np.log(v) if v > NOTHING else 0.0


@inner
def earned(S, N, R, M, start, family, scale):
    """F of two clusters together; of one where R and M are zeros."""
    total = 0.0
    for b in range(len(N)):
        n = N[b] + M[b]
        if n <= NOTHING:
            continue
        logs, times, log_n = 0.0, 0.0, np.log(n)
        for j in range(start[b], start[b + 1]):
            code, s = family[j], S[j] + R[j]
            if code == SQUARED:
                total += s * s / n
            elif code == GAMMA:
                total -= scale[j] * n * np.log(max(s, TINY))
                times -= scale[j]
            elif code == BERNOULLI:
                total += xlogx(s) + xlogx(n - s)
                times += 1.0
            else:
                total += xlogx(s)
                logs += s
        total -= (logs + times * n) * log_n
    return total


@inner
def change(S, N, x, o, w, start, family, scale):
    """F after a row of weight w joins (negative: leaves), minus F before it."""
    total = 0.0
    for b in range(len(N)):
        if o[b] == 0.0:
            continue
        before = N[b]
        after = before + w * o[b]
        was, is_ = before > NOTHING, after > NOTHING
        logs, added, times = 0.0, 0.0, 0.0
        for j in range(start[b], start[b + 1]):
            code, s, more = family[j], S[j], w * x[j]
            if code == SQUARED:
                if is_:
                    total += (s + more) * (s + more) / after
                if was:
                    total -= s * s / before
            elif code == GAMMA:
                if is_:
                    total -= scale[j] * after * np.log(max(s + more, TINY))
                if was:
                    total += scale[j] * before * np.log(max(s, TINY))
                times -= scale[j]
            elif code == BERNOULLI:
                if more != 0.0:
                    total += xlogx(s + more) - xlogx(s)
                rest = w * o[b] - more
                if rest != 0.0:
                    total += xlogx(before - s + rest) - xlogx(before - s)
                times += 1.0
            else:
                if more != 0.0:
                    total += xlogx(s + more) - xlogx(s)
                logs += s
                added += more
        if is_:
            total -= (logs + added + times * after) * np.log(after)
        if was:
            total += (logs + times * before) * np.log(before)
    return total


@inner
def log_share(v, zero):
    """log v; of `zero` in the place of a share of 0."""
    if v > NOTHING:
        return np.log(v)
    return np.log(zero) if zero > 0 else NEVER


@kernel
def natural(means, zero, start, family, scale, theta, psi):
    """θ of the columns of each centre, and ψ added up over the columns of a block."""
    for c in range(len(means)):
        for b in range(len(start) - 1):
            for j in range(start[b], start[b + 1]):
                code, m = family[j], means[c, j]
                if code == SQUARED:
                    theta[c, j] = 2.0 * m
                    psi[c, b] += m * m
                elif code == GAMMA:
                    theta[c, j] = -scale[j] / max(m, TINY)
                    psi[c, b] += scale[j] * (np.log(max(m, TINY)) - 1.0)
                elif code == BERNOULLI:
                    no = log_share(1.0 - m, zero[c])
                    theta[c, j] = log_share(m, zero[c]) - no
                    psi[c, b] -= no
                elif code == POISSON:
                    theta[c, j] = log_share(m, zero[c]) + 1.0
                    psi[c, b] += m
                else:
                    theta[c, j] = log_share(m, zero[c])


@kernel
def row_terms(T, P, start, family, scale, phi):
    """φ(x) of each row: F of the row alone."""
    nothing, none = np.zeros(T.shape[1]), np.zeros(P.shape[1])
    for i in range(len(T)):
        phi[i] = earned(T[i], P[i], nothing, none, start, family, scale)


@kernel
def cluster_terms(S, N, start, family, scale, F):
    """F of each cluster."""
    nothing, none = np.zeros(S.shape[1]), np.zeros(N.shape[1])
    for c in range(len(S)):
        F[c] = earned(S[c], N[c], nothing, none, start, family, scale)


@kernel
def add_up(T, P, w, z, S, N, W):
    """Sums, counts and weights of the clusters; rows with a negative label count nowhere."""
    for i in range(len(T)):
        c = z[i]
        if c < 0:
            continue
        W[c] += w[i]
        for j in range(T.shape[1]):
            S[c, j] += w[i] * T[i, j]
        for b in range(P.shape[1]):
            N[c, b] += w[i] * P[i, b]


@inner
def put(T, P, w, i, sign, S, N):
    """Add row i to a cluster (sign 1) or take it out (-1)."""
    for j in range(T.shape[1]):
        S[j] += sign * w[i] * T[i, j]
    for b in range(P.shape[1]):
        N[b] += sign * w[i] * P[i, b]


@kernel
def move_rows(
    T, P, w, phi, z, group, rows, S, N, count, use, rule, start, family, scale, limit, stop
):
    """Exact moves of single rows (Hartigan's), in place, until a sweep finds none.

    A row goes where the objective falls most: to another cluster, to one of its own, or with an
    `outlier` price out of all (label -1). `rule`: penalty, local, outlier, cap. `count[c]`: rows of
    cluster c; `use[g, c]`: rows of group g in it. It ends early where `limit` rows have been
    visited. Returns how many rows moved.
    """
    penalty, local, outlier, cap = rule
    room = len(count)
    k = 0
    for c in range(room):
        k += count[c] > 0
    moved, quiet, visited = 0, 0, 0
    while quiet < len(rows) and visited < limit:
        for at in range(len(rows)):
            if stop[0]:
                return moved
            i = rows[at]
            visited += 1
            p, g, w_i = z[i], group[i], w[i]
            whole = w_i * phi[i]
            if p >= 0:
                now = 0.0
                if count[p] > 1:
                    now = whole + change(S[p], N[p], T[i], P[i], -w_i, start, family, scale)
                else:
                    now = penalty
                if use[g, p] == 1:
                    now += local
            else:
                now = w_i * outlier
            best, to, free = now - GAIN * (abs(now) + abs(whole)), p, -1
            for q in range(room):
                if q == p:
                    continue
                if count[q] == 0:
                    free = q if free < 0 else free
                    continue
                cost = 0.0 if use[g, q] > 0 else local
                if cost < best:
                    cost += whole - change(S[q], N[q], T[i], P[i], w_i, start, family, scale)
                    if cost < best:
                        best, to = cost, q
            alone = p >= 0 and count[p] == 1
            if free >= 0 and k < cap and not alone and penalty + local < best:
                best, to = penalty + local, free
            if p >= 0 and w_i * outlier < best:
                best, to = w_i * outlier, -1
            if to == p:
                quiet += 1
                if quiet >= len(rows):
                    break
                continue
            quiet = 0
            moved += 1
            if p >= 0:
                put(T, P, w, i, -1.0, S[p], N[p])
                count[p] -= 1
                use[g, p] -= 1
                if count[p] == 0:
                    k -= 1
                    S[p, :] = 0.0
                    N[p, :] = 0.0
            if to >= 0:
                k += count[to] == 0
                put(T, P, w, i, 1.0, S[to], N[to])
                count[to] += 1
                use[g, to] += 1
            z[i] = to
    return moved


@inner
def shared(use, a, b):
    """Groups that use both clusters."""
    both = 0
    for g in range(len(use)):
        both += use[g, a] > 0 and use[g, b] > 0
    return both


@inner
def cheapest_partner(c, S, N, F, alive, use, local, start, family, scale):
    """The cluster that c merges with at the least cost, among those after it; and the cost."""
    best, with_ = np.inf, -1
    for d in range(c + 1, len(F)):
        if alive[d]:
            cost = F[c] + F[d] - earned(S[c], N[c], S[d], N[d], start, family, scale)
            if local > 0.0:
                cost -= local * shared(use, c, d)
            if cost < best:
                best, with_ = cost, d
    return best, with_


@kernel
def merge_clusters(S, N, F, use, penalty, local, cap, start, family, scale, tree, heights, stop):
    """Merge the cheapest pair while that costs less than `penalty` or there are more than `cap`.

    All arrays change in place; a cluster of two has the lower number. `tree[t]` and `heights[t]`
    are the pair and the cost of merge t. Returns how many merges were made.
    """
    m = len(F)
    alive = np.ones(m, np.bool_)
    cost, partner = np.empty(m), np.empty(m, np.int64)
    for c in range(m):
        cost[c], partner[c] = cheapest_partner(c, S, N, F, alive, use, local, start, family, scale)
    left, merges = m, 0
    nothing, none = np.zeros(S.shape[1]), np.zeros(N.shape[1])
    while left > 1 and not stop[0]:
        a = np.argmin(cost)
        if not (cost[a] < penalty or left > cap):
            break
        b = partner[a]
        tree[merges, 0], tree[merges, 1], heights[merges] = a, b, cost[a]
        merges += 1
        left -= 1
        S[a] += S[b]
        N[a] += N[b]
        use[:, a] += use[:, b]
        F[a] = earned(S[a], N[a], nothing, none, start, family, scale)
        alive[b] = False
        cost[b] = np.inf
        for c in range(m):
            if not alive[c]:
                continue
            if c == a or partner[c] == a or partner[c] == b:
                cost[c], partner[c] = cheapest_partner(
                    c, S, N, F, alive, use, local, start, family, scale
                )
            elif c < a:
                new = F[c] + F[a] - earned(S[c], N[c], S[a], N[a], start, family, scale)
                if local > 0.0:
                    new -= local * shared(use, c, a)
                if new < cost[c]:
                    cost[c], partner[c] = new, a
    return merges


@kernel
def opening_pass(T, P, w, phi, z, group, use, theta, offset, k, price, own_theta, own_offset, stop):
    """Rows in order, each to the cheapest centre or to a new one at its own place.

    A row costs φ(x) - T·θ + P·ψ at a centre, and `local` more where its group does not use the
    cluster. `theta` and `offset` (θ and ψ) have room for `cap` centres; `own_theta[i]`,
    `own_offset[i]` are those of a centre at row i. `price`: penalty, local, cap. `use[g, c]`:
    whether group g uses cluster c; it follows the rows. Returns the number of centres.
    """
    penalty, local, cap = price
    for i in range(len(T)):
        if stop[0]:
            return k
        best, near, g = np.inf, 0, group[i]
        for c in range(k):
            d = phi[i]
            for j in range(T.shape[1]):
                d -= T[i, j] * theta[c, j]
            for b in range(P.shape[1]):
                d += P[i, b] * offset[c, b]
            d *= w[i]
            if not use[g, c]:
                d += local
            if d < best:
                best, near = d, c
        if best > penalty + local and k < cap:
            for j in range(T.shape[1]):
                theta[k, j] = own_theta[i, j]
            for b in range(P.shape[1]):
                offset[k, b] = own_offset[i, b]
            near = k
            k += 1
        use[g, near] = True
        z[i] = near
    return k
