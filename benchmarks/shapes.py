"""Clusters of many shapes, and rows without any: `SHAPES` and `NOISE`, each (n, rng) -> (X, y).

`SEEN` were looked at while the rules of `NeighborCut` were made; the others were not, but for
circles and groups of unequal size, whose like were looked at when the rule was last changed.
"""

import numpy as np
from sklearn.datasets import make_circles, make_moons


def blobs(k, d, gap, spread=(1.0, 1.0), shares=None):
    """k Gaussian clusters whose centres are at least `gap` apart."""

    def make(n, rng):
        centers = np.empty((0, d))
        while len(centers) < k:
            new = rng.uniform(0, 1.6 * gap * k ** (1 / d), d)
            if len(centers) == 0 or np.linalg.norm(centers - new, axis=1).min() >= gap:
                centers = np.vstack([centers, new])
        share = np.ones(k) if shares is None else np.array(shares)
        y = rng.choice(k, n, p=share / share.sum())
        return centers[y] + rng.uniform(*spread, k)[y, None] * rng.normal(size=(n, d)), y

    return make


def curves(*functions, noise):
    """One cluster along each curve t -> columns, t from 0 to 1."""

    def make(n, rng):
        y = rng.integers(0, len(functions), n)
        t = rng.uniform(size=n)
        X = np.choose(y[:, None], [np.c_[function(t)] for function in functions])
        return X + noise * rng.normal(size=X.shape), y

    return make


def circle(t, x=0.0, r=1.0):
    return np.c_[x + r * np.cos(2 * np.pi * t), r * np.sin(2 * np.pi * t), 0 * t]


def spiral(t, turn=0.0):
    angle = 3 * np.pi * np.sqrt(0.05 + 0.95 * t)
    return np.c_[angle * np.cos(angle + turn), angle * np.sin(angle + turn)]


def shell(n, rng):
    y = (rng.uniform(size=n) < 0.6).astype(int)
    u = rng.normal(size=(n, 3))
    sphere = u / np.linalg.norm(u, axis=1)[:, None]
    return np.where(y[:, None] == 1, sphere + 0.1 * rng.normal(size=u.shape), 0.17 * u), y


def corner(t, at=0.0):
    return at + np.where((t < 0.5)[:, None], np.c_[0 * t, 6 * t], np.c_[6 * t - 3, 0 * t])


def bars(n, rng):
    y = rng.integers(0, 3, n)
    return np.c_[rng.uniform(0, 6, n), rng.uniform(0, 1, n) + 1.25 * y], y


def elongated(n, rng):
    y = rng.integers(0, 3, n)
    return np.c_[5 * rng.normal(size=n), rng.normal(size=n) + 5 * y], y


def flame(n, rng):
    y = rng.integers(0, 2, n)
    arc = 2 * circle(0.5 + rng.uniform(size=n) / 2)[:, :2] + 0.2 * rng.normal(size=(n, 2))
    return np.where(y[:, None] == 0, arc, [0, 0.3] + 0.5 * rng.normal(size=(n, 2))), y


def squares(n, rng):
    y = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    return rng.uniform(size=(n, 2)) + 1.2 * np.c_[y % 2, y // 2], y


def dumbbell(n, rng):
    X = rng.normal(size=(n, 2)) + np.c_[7 * rng.integers(0, 2, n), np.zeros(n)]
    bridge = rng.uniform(size=n) < 0.04
    X[bridge] = np.c_[rng.uniform(2, 5, n), 0.2 * rng.normal(size=n)][bridge]
    return X, (X[:, 0] > 3.5).astype(int)


def roll(n, rng):
    t = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n))
    X = np.c_[t * np.cos(t), 21 * rng.uniform(size=n), t * np.sin(t)]
    return X + 0.1 * rng.normal(size=X.shape), np.zeros(n, int)


def none(name, d):
    return lambda n, rng: (getattr(rng, name)(size=(n, d)), np.zeros(n, int))


def seed(rng):
    return int(rng.integers(2**31))


SEEN = {
    "moons": lambda n, rng: make_moons(n, noise=0.08, random_state=seed(rng)),
    "linked rings": curves(circle, lambda t: circle(t, 1.0)[:, [0, 2, 1]], noise=0.1),
    "spirals": curves(spiral, lambda t: spiral(t, np.pi), noise=0.4),
    "touching": blobs(8, 2, 5),
    "densities": blobs(5, 3, 9, spread=(0.3, 1.8)),
    "waves": curves(
        *(lambda t, a=a: np.c_[10 * t, np.sin(10 * t) + a] for a in (0, 1, 2)), noise=0.15
    ),
    "shell": shell,
    "corners": curves(corner, lambda t: corner(t, 0.8), noise=0.15),
}
UNSEEN = {
    "circles": lambda n, rng: make_circles(n, noise=0.08, factor=0.5, random_state=seed(rng)),
    "bars": bars,
    "elongated": elongated,
    "flame": flame,
    "squares": squares,
    "dumbbell": dumbbell,
    "sizes": blobs(6, 2, 6, shares=(16, 8, 4, 2, 1, 1)),
    "ten columns": blobs(10, 10, 6),
}
SHAPES = SEEN | UNSEEN
NOISE = {
    "normal, 2 columns": none("normal", 2),
    "normal, 20 columns": none("normal", 20),
    "uniform, 2 columns": none("uniform", 2),
    "uniform, 5 columns": none("uniform", 5),
    "long tails": lambda n, rng: (rng.standard_t(4, size=(n, 3)), np.zeros(n, int)),
    "ring": curves(circle, noise=0.05),
    "filament": curves(lambda t: np.c_[10 * t, np.sin(9 * t)], noise=0.05),
    "Swiss roll": roll,
}
