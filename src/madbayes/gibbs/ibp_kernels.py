"""The rows of one sweep of a collapsed Gibbs sampler for the Indian buffet process.

X (n, d) rows, Z (n, m) which features they have. A column of zeros is a feature nobody has: free.
Given Z, the features A have a posterior: mean F and covariance V·σ_x², where V = (ZᵀZ + cI)⁻¹, F =
V ZᵀX and c = σ_x²/σ_a². Of free features V is 1/c and F is 0: the prior.
"""

import math

from madbayes._jit import inner, kernel

SURE = 1e-4  # a row with more leverage than 1 - SURE is not taken out of V by subtracting
NEGLIGIBLE = 40.0  # log of how much less probable a number of new features is than the best


@kernel
def sweep(first, X, Z, U, G, B, V, F, z, g, r, variance, c, rate, afresh):
    """Rows from `first` on draw their features; Z changes, and with it G = ZᵀZ and B = ZᵀX.

    U (n, 1 + m) are uniform: those of a row decide the number of its own features, then each of the
    others. `rate` is α/n. With `afresh` V and F are computed anew for each row, otherwise carried
    along. The sweep ends before a row for whose own features no column is free, and returns its
    number (n: it is complete). V (m, m), F (m, d), z (m), g (m) and r (d) are room to work in.
    """
    n, d = X.shape
    m = Z.shape[1]
    refresh(G, B, c, V, F)
    for i in range(first, n):
        for k in range(m):
            z[k] = Z[i, k]
        # The row leaves, and with it the features that it alone has.
        leverage = 0.0
        for k in range(m):
            g[k] = 0.0
            for h in range(m):
                g[k] += V[k, h] * z[h]
            leverage += z[k] * g[k]
        own = 0.0  # a float, or draw_shared is compiled twice
        for k in range(m):
            if z[k] > 0 and G[k, k] == 1:
                own += 1
        put(X, i, Z, -1.0, G, B)
        if afresh or own > 0 or 1 - leverage < SURE:
            for k in range(m):
                if G[k, k] == 0:
                    z[k] = 0.0
            refresh(G, B, c, V, F)
        else:
            residual(X, i, z, F, r)
            carry(V, F, g, r, -1 / (1 - leverage))

        draw_shared(X, i, z, U, G, V, F, variance, c, n, own, g, r)
        spread, error = 1.0, 0.0
        for k in range(m):
            spread += z[k] * g[k]
        for j in range(d):
            error += r[j] * r[j]
        more = draw_own(U[i, 0], spread, error, variance, c, rate, d)

        # The row comes back, with features of its own in free columns.
        for k in range(m):
            if more > 0 and G[k, k] == 0:
                z[k] = 1.0
                g[k] = 1 / c
                spread += 1 / c
                more -= 1
        if more > 0:
            return i
        for k in range(m):
            Z[i, k] = z[k] > 0
        put(X, i, Z, 1.0, G, B)
        carry(V, F, g, r, 1 / spread)
    return n


@inner
def put(X, i, Z, sign, G, B):
    """Row i into ZᵀZ and ZᵀX, or out of them."""
    for k in range(Z.shape[1]):
        if Z[i, k] > 0:
            for h in range(Z.shape[1]):
                G[k, h] += sign * Z[i, h]
            for j in range(X.shape[1]):
                B[k, j] = B[k, j] + sign * X[i, j] if G[k, k] > 0 else 0.0


@inner
def refresh(G, B, c, V, F):
    """V and F from G and B, by Gauss-Jordan elimination (G + cI is positive definite)."""
    m, d = B.shape
    for k in range(m):
        for h in range(m):
            V[k, h] = G[k, h]
        V[k, k] += c
    for p in range(m):
        if G[p, p] == 0:
            V[p, p] = 1 / c
            continue
        pivot = 1 / V[p, p]
        V[p, p] = 1.0
        for h in range(m):
            V[p, h] *= pivot
        for k in range(m):
            if k != p and G[k, k] > 0:
                f = V[k, p]
                V[k, p] = 0.0
                for h in range(m):
                    V[k, h] -= f * V[p, h]
    for k in range(m):
        for j in range(d):
            F[k, j] = 0.0
        if G[k, k] > 0:
            for h in range(m):
                if G[h, h] > 0:
                    for j in range(d):
                        F[k, j] += V[k, h] * B[h, j]


@inner
def residual(X, i, z, F, r):
    """r = x - zF."""
    for j in range(r.shape[0]):
        r[j] = X[i, j]
    for k in range(z.shape[0]):
        if z[k] > 0:
            for j in range(r.shape[0]):
                r[j] -= F[k, j]


@inner
def carry(V, F, g, r, factor):
    """V and F with a row more (factor 1/(1+q)) or less (-1/(1-h)); g = Vz, r = x - zF."""
    for k in range(g.shape[0]):
        if g[k] != 0:
            f = factor * g[k]
            for h in range(g.shape[0]):
                V[k, h] -= f * g[h]
            for j in range(r.shape[0]):
                F[k, j] += f * r[j]


@inner
def draw_shared(X, i, z, U, G, V, F, variance, c, n, own, g, r):
    """Features that other rows have, one after the other; z, g = Vz and r = x - zF change.

    The row is N(zF, σ_x²(1 + zVzᵀ + own/c)) for z, with `own` features of its own.
    """
    m, d = F.shape
    spread, error = 1 + own / c, 0.0
    for k in range(m):
        g[k] = 0.0
        for h in range(m):
            g[k] += V[k, h] * z[h]
        spread += z[k] * g[k]
    residual(X, i, z, F, r)
    for j in range(d):
        error += r[j] * r[j]
    for k in range(m):
        if G[k, k] == 0:
            continue
        turn = 1 - 2 * z[k]
        other_spread = spread + 2 * turn * g[k] + V[k, k]
        other_error = 0.0
        for j in range(d):
            other_error += (r[j] - turn * F[k, j]) ** 2
        gain = log_density(other_spread, other_error, variance, d)
        gain -= log_density(spread, error, variance, d)
        gain += turn * math.log(G[k, k] / (n - G[k, k]))
        # One uniform number decides for "on", whatever z[k] is now.
        on = 1 / (1 + math.exp(-turn * gain)) if turn * gain > -700 else 0.0
        if (U[i, 1 + k] < on) == (z[k] > 0):
            continue
        z[k] += turn
        spread, error = other_spread, other_error
        for h in range(m):
            g[h] += turn * V[h, k]
        for j in range(d):
            r[j] -= turn * F[k, j]


@inner
def log_density(spread, error, variance, d):
    """log N but for a constant: of a squared distance from the mean, variance σ_x²·spread."""
    return -0.5 * d * math.log(spread) - error / (2 * variance * spread)


@inner
def draw_own(u, spread, error, variance, c, rate, d):
    """How many features the row has for itself: Poisson(α/n) times the density."""
    top, total, last = -math.inf, 0.0, 0
    poisson = 0.0
    while True:  # scaled to the largest so far
        weight = poisson + log_density(spread + last / c, error, variance, d)
        if weight > top:
            total = total * math.exp(top - weight) + 1
            top = weight
        else:
            total += math.exp(weight - top)
        if last > rate and weight < top - NEGLIGIBLE:
            break
        last += 1
        poisson += math.log(rate / last)
    left, poisson = u * total, 0.0
    for own in range(last):
        left -= math.exp(poisson + log_density(spread + own / c, error, variance, d) - top)
        if left < 0:
            return own
        poisson += math.log(rate / (own + 1))
    return last
