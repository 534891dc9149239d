"""Are the words of the evidence promises? "strong" should be right in 95 of 100, "moderate" in 80.

Tables and shapes of many kinds, each generated from a description and a seed. Every estimator sees
each of them whole, shuffled, and with nine tenths of the rows; an answer is right if its adjusted
Rand index with the truth is at least .8. The kinds of `UNSEEN` play no part in making the rules.

    python benchmarks/calibration.py --seeds 0 --of seen
    python benchmarks/calibration.py --seeds 7 8 9 --of unseen --draws 3
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import any_shape
import numpy as np
from any_shape import Shape, arc, ellipse, together
from sklearn.metrics import adjusted_rand_score

import madbayes

ESTIMATORS = ("AutoCluster", "DPMeans", "EllipticalMeans", "NeighborCut")
RIGHT = 0.8  # adjusted Rand index of an answer that counts as right
KEPT = 0.9  # share of the rows in a draw


def box(r, n, low, high):
    """Rows spread evenly over a box."""
    return r.uniform(low, high, (n, len(low)))


def curve(r, points, n, noise):
    """Rows along a line through these points."""
    points = np.asarray(points, float)
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    place = np.r_[0, np.cumsum(steps)]
    t = r.uniform(0, place[-1], n)
    line = np.c_[*(np.interp(t, place, column) for column in points.T)]
    return line + r.normal(0, noise, line.shape)


def blobs(r, sizes, d, gap, spread=(1.0, 1.0), long=False):
    """Gaussian clusters whose centres are at least `gap` apart."""
    side, centers = gap, [np.zeros(d)]
    while len(centers) < len(sizes):
        new = r.uniform(-side, side, d)
        side *= 1.02
        if min(np.linalg.norm(new - c) for c in centers) >= gap:
            centers.append(new)
    parts = []
    for c, n in zip(centers, sizes, strict=True):
        rows = r.normal(size=(int(n), d)) * r.uniform(*spread)
        if long:
            rows = rows * r.uniform(0.3, 1.5, d) @ np.linalg.qr(r.normal(size=(d, d)))[0]
        parts.append(rows + c)
    return together(*parts)


def with_dust(shape: Shape, dust: np.ndarray) -> Shape:
    """A shape with further rows that belong to no cluster."""
    return np.r_[shape[0], dust], np.r_[shape[1], np.full(len(dust), -1)]


def shape_sets(r) -> Iterator[tuple[str, Shape]]:
    """Shapes after the descriptions of well-known benchmark sets."""
    normal = r.normal
    yield (
        "engytime",
        together(normal([0, 0], [1, 1], (2000, 2)), normal([3.4, 3.4], [1.5, 1.2], (2000, 2))),
    )
    seven = 3 * np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
    yield (
        "hepta",
        together(*(normal(c, 0.15 if i == 0 else 0.5, (30, 3)) for i, c in enumerate(seven))),
    )
    yield (
        "lsun",
        together(
            box(r, 100, [0, 0], [1, 4]),
            box(r, 200, [1.6, 0], [4.5, 1]),
            normal([3.5, 3.2], 0.45, (100, 2)),
        ),
    )
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    yield "tetra", together(*(normal(c, 0.38, (100, 3)) for c in corners))
    turn = np.array([[0.7, 0.7], [-0.7, 0.7]])
    yield (
        "two diamonds",
        together(*(box(r, 400, [-1, -1], [1, 1]) @ turn + [x, 0] for x in (0, 2.82))),
    )
    wing = [np.c_[r.uniform(0, 3, 500), 2.4 * np.sqrt(r.uniform(0, 1, 500))] for _ in range(2)]
    yield "wing nut", together(wing[0], [[1.2, 5.1]] + wing[1] * [1, -1])
    yield "circles", together(*(arc(r, 1000, 0, 7, R, noise=0.04) for R in (1, 2, 3, 4)))
    yield "isolation", together(*(arc(r, 1500, 0, 7, R, noise=0.08) for R in (1, 2.2, 3.4)))
    yield (
        "graph",
        together(
            *(
                normal(c, 0.25, (250, 2))
                for c in r.permutation([(i, j) for i in (0, 2, 4, 6) for j in (0, 2, 4)])[:10]
            )
        ),
    )
    yield (
        "windows",
        together(*(box(r, 400, [i, j], [i + 0.85, j + 0.85]) for i in range(3) for j in range(2))),
    )
    yield (
        "crossing lines",
        together(*(ellipse(r, 600, (0, 0), a, 3, 0.12) for a in (0.2, 1.25, 2.3))),
    )
    yield (
        "splashes",
        together(normal([0, 0], [0.5, 1.1], (200, 2)), normal([3.0, 0], [0.5, 1.1], (200, 2))),
    )
    yield (
        "lovers",
        together(
            arc(r, 1800, 0, 7, 3, noise=0.2),
            normal([0, 0.6], 0.25, (900, 2)),
            normal([0, -0.9], 0.25, (900, 2)),
        ),
    )
    t = r.uniform(-3, 3, (4, 1000))
    yield (
        "trajectories",
        together(
            *(
                np.c_[x, 1.6 * i + 0.8 * np.sin(x)] + normal(0, 0.08, (1000, 2))
                for i, x in enumerate(t)
            )
        ),
    )
    maze = (
        [(0, 0), (4, 0), (4, 3)],
        [(0, 1), (3, 1), (3, 4), (5, 4)],
        [(0, 2), (0, 4), (2, 4), (2, 2)],
    )
    yield "labyrinth", together(*(curve(r, line, 700, 0.09) for line in maze))
    square = [(0, 0), (3, 0), (3, 3), (0, 3), (0, 0)]
    yield (
        "square in square",
        together(curve(r, square, 600, 0.05), normal([1.5, 1.5], 0.35, (400, 2))),
    )
    yield (
        "aggregation",
        together(
            normal([0, 0], 1.0, (170, 2)),
            normal([0, 5], 1.2, (270, 2)),
            normal([7, 0], 0.7, (100, 2)),
            normal([9.8, 0], 0.7, (130, 2)),
            normal([4, 3], 0.4, (34, 2)),
            normal([8, 5.5], 0.5, (45, 2)),
        ),
    )
    yield (
        "jain",
        together(arc(r, 100, 0.2, 2.9, 10, (0, 0), 0.7), arc(r, 270, 3.3, 6.1, 10, (10, 3), 0.7)),
    )
    bowl = arc(r, 110, 0.6, 5.7, 10, noise=0.8)
    yield "path-based", together(bowl, *(normal([x, 0], 1.6, (95, 2)) for x in (-4, 4)))
    k = np.arange(15)
    rings = np.r_[
        [[0, 0]],
        2.2 * np.c_[np.cos(k[:7] * 0.9), np.sin(k[:7] * 0.9)],
        5.5 * np.c_[np.cos(k[:7] * 0.9), np.sin(k[:7] * 0.9)],
    ]
    yield "r15", together(*(normal(c, 0.32, (40, 2)) for c in rings))
    yield "a sets", blobs(r, np.full(30, 150), 2, 5.0)
    yield "s4", blobs(r, np.full(15, 330), 2, 3.1, long=False)
    yield "unbalance", blobs(r, [2000] * 3 + [100] * 5, 2, 9.0)
    yield (
        "compound",
        together(
            normal([0, 0], 0.5, (50, 2)),
            arc(r, 90, 0, 7, 2.4, noise=0.1),
            normal([8, 6], 0.5, (40, 2)),
            normal([11, 6], 0.5, (60, 2)),
        ),
    )
    worms = [
        np.cumsum(normal(0, 0.25, (8, 2)), axis=0).cumsum(axis=0) + r.uniform(0, 90, 2)
        for _ in range(8)
    ]
    yield "worms", together(*(curve(r, line, 400, 0.35) for line in worms))
    clouds = [
        normal([0, 0], 0.3, (300, 2)),
        normal([3, 0], [1, 0.15], (300, 2)),
        arc(r, 400, 0, 3.1, 1.3, (1, 3), 0.1),
    ]
    yield "mixed shapes", together(*clouds, box(r, 300, [4, 2], [5.5, 3.5]))
    yield (
        "three lines",
        together(*(curve(r, [(0, y), (6, y + 1)], 300, 0.1) for y in (0, 0.9, 1.8))),
    )
    yield (
        "zigzags",
        together(*(curve(r, [(x, y + x % 2) for x in range(6)], 250, 0.06) for y in (0, 0.8, 1.6))),
    )
    yield (
        "dense and sparse",
        together(normal([0, 0], 0.15, (150, 2)), normal([1.8, 0], 0.8, (50, 2))),
    )
    yield (
        "fuzzy cross",
        together(
            *(
                ellipse(r, 500, c, a, 2.5, 0.25)
                for c, a in (((0, 0), 0.8), ((0.5, 6), -0.8), ((7, 3), 0.1))
            )
        ),
    )
    yield (
        "ring with core and dust",
        with_dust(
            together(arc(r, 600, 0, 7, 3, noise=0.15), normal([0, 0], 0.5, (300, 2))),
            box(r, 40, [-4, -4], [4, 4]),
        ),
    )


def table_sets(r) -> Iterator[tuple[str, Shape]]:
    """Tables of Gaussian and other clusters."""
    size = r.integers
    yield "table of 4 columns", blobs(r, size(60, 200, 3), 4, 4.5)
    yield "table of 8 columns", blobs(r, size(50, 300, 6), 8, 5.0, (0.6, 1.4))
    yield "table of 30 columns", blobs(r, size(80, 200, 5), 30, 5.5)
    yield "long table", blobs(r, size(150, 300, 4), 6, 4.5, long=True)
    yield "overlapping table", blobs(r, size(150, 300, 4), 5, 3.0)
    yield "few rows", blobs(r, size(15, 40, 3), 3, 6.0)
    yield "many clusters", blobs(r, size(40, 90, 25), 3, 5.0)
    X, y = blobs(r, size(100, 300, 4), 3, 5.0)
    yield "heavy-tailed clusters", (X + 0.6 * r.standard_t(2.5, X.shape), y)
    X, y = blobs(r, size(100, 300, 3), 4, 5.0)
    yield "useless columns", (np.c_[X, r.normal(size=(len(X), 6))], y)
    yield (
        "skewed clusters",
        together(*(r.gamma(2, 1, (250, 2)) * [1, 0.6] + c for c in ([0, 0], [9, 0], [0, 8]))),
    )
    X, y = blobs(r, size(100, 300, 4), 3, 7.0)
    yield "rounded", (np.round(X), y)
    yield "touching pair", blobs(r, [400, 400], 2, 3.2)
    yield "iris-like", blobs(r, [50, 50, 50], 4, 3.5, (0.5, 0.8), long=True)
    yield "wine-like", blobs(r, [59, 71, 48], 13, 4.5)
    yield "one column", blobs(r, size(80, 300, 3), 1, 6.0)
    yield (
        "boxes",
        together(
            *(
                box(r, 200, c, np.add(c, 1))
                for c in ([0, 0, 0], [1.4, 0, 0], [0, 1.4, 0], [0, 0, 1.4])
            )
        ),
    )
    yield (
        "outliers",
        with_dust(blobs(r, size(100, 200, 4), 3, 6.0), r.normal(0, 40, (6, 3))),
    )


def noise_sets(r) -> Iterator[tuple[str, Shape]]:
    """One cloud each: one cluster is right."""
    n, d = (int(v) for v in (r.integers(60, 1500), r.integers(2, 9)))
    yield "noise: normal", together(r.normal(size=(n, d)))
    yield "noise: uniform", together(r.uniform(size=(n, d)))
    yield "noise: t", together(r.standard_t(3, (n, d)))
    yield "noise: t, 2 degrees", together(r.standard_t(2, (n, 2)))
    yield "noise: correlated", together(r.normal(size=(n, d)) @ r.normal(size=(d, d)))
    yield "noise: ring", together(arc(r, n, 0, 7, 3, noise=r.uniform(0.1, 0.6)))
    side = int(np.sqrt(n))
    yield (
        "noise: grid",
        together(np.array([[i, j] for i in range(side) for j in range(side)], float)),
    )
    yield "noise: log-normal", together(np.exp(r.normal(size=(n, d))))
    yield "noise: log-normal, wide", together(np.exp(1.5 * r.normal(size=(n, 3))))
    yield "noise: exponential", together(r.exponential(size=(n, d)))
    yield "noise: integers", together(r.integers(0, 10, (n, d)).astype(float))
    yield "noise: Poisson", together(r.poisson(3, (n, d)).astype(float))
    yield "noise: 50 columns", together(r.normal(size=(400, 50)))
    yield "noise: few rows", together(r.normal(size=(int(r.integers(20, 60)), 3)))
    yield "noise: few uniform rows", together(r.uniform(size=(int(r.integers(20, 80)), 2)))
    ball = r.normal(size=(n, 3))
    yield (
        "noise: sphere",
        together(ball / np.linalg.norm(ball, axis=1)[:, None] + r.normal(0, 0.05, (n, 3))),
    )
    x = r.uniform(-2, 2, n)
    yield "noise: parabola", together(np.c_[x, x**2] + r.normal(0, 0.2, (n, 2)))
    yield "noise: one column", together(r.normal(size=(n, 1)))
    yield "noise: triangle", together(np.sort(r.uniform(size=(n, 2)), axis=1))
    yield "noise: Laplace", together(r.laplace(size=(n, d)))
    yield "noise: one line", together(curve(r, [(0, 0), (5, 2), (9, 2)], n, 0.2))
    yield (
        "noise: low rank",
        together(r.normal(size=(n, 2)) @ r.normal(size=(2, 20)) + 0.3 * r.normal(size=(n, 20))),
    )


# Kinds that no rule was made on: every third one of each list, and none of `any_shape`.
UNSEEN = {
    "lsun", "wing nut", "graph", "splashes", "labyrinth", "jain", "a sets", "compound",
    "three lines", "long table", "many clusters", "skewed clusters", "iris-like",
    "boxes", "outliers", "noise: t, 2 degrees", "noise: grid", "noise: integers",
    "noise: few uniform rows", "noise: triangle", "noise: low rank", "noise: correlated",
}  # fmt: skip


def old_sets(r) -> Iterator[tuple[str, Shape]]:
    for family, kinds in any_shape.KINDS.items():
        for kind, shape in kinds(r):
            yield f"{family} {kind}", shape


SETS: tuple[Callable[..., Iterator[tuple[str, Shape]]], ...] = (
    old_sets,
    shape_sets,
    table_sets,
    noise_sets,
)


def sets(seed: int, of: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and truth (-1: noise that does not count) of each kind, in a random order."""
    for at, kinds in enumerate(SETS):
        r = np.random.default_rng([seed, at])
        for name, (X, y) in kinds(r):
            if of == "all" or (name in UNSEEN) == (of == "unseen"):
                order = np.random.default_rng(seed).permutation(len(X))
                yield name, X[order], y[order]


def index(y: np.ndarray, labels: np.ndarray) -> float:
    """The adjusted Rand index over the rows that count."""
    return float(adjusted_rand_score(y[y >= 0], labels[y >= 0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--of", choices=["seen", "unseen", "all"], default="unseen")
    parser.add_argument("--draws", type=int, default=1, help="fits beside the first, of 90 %% each")
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    answers: dict[str, list[tuple[str, float, bool, str, float]]] = {}
    for seed in options.seeds:
        for name, X, y in sets(seed, options.of):
            line = f"{seed} {name:26s} {y.max() + 1:3d}"
            for estimator in options.estimators:
                for draw in range(1 + options.draws):
                    some = np.random.default_rng(draw).permutation(len(X))
                    some = some[: int(KEPT * len(X))] if draw else np.arange(len(X))
                    began = time.process_time()
                    model = getattr(madbayes, estimator)(random_state=draw).fit(X[some])
                    took = time.process_time() - began
                    right, word = index(y[some], model.labels_), model.evidence_.strength
                    exact = model.n_clusters_ == y.max() + 1
                    answers.setdefault(estimator, []).append((name, right, exact, word, took))
                    line += f" | {model.n_clusters_:3d} {right:5.2f} {word:8s}"
            print(line, flush=True)
    for estimator, rows in answers.items():
        text = f"{estimator:16s} mean adjusted Rand {np.mean([row[1] for row in rows]):.3f}, exact "
        text += f"{np.mean([row[2] for row in rows]):.0%}"
        noise = [row[2] for row in rows if "noise" in row[0]]
        text += f", noise whole {sum(noise)} of {len(noise)}"
        for word in ("strong", "moderate", "weak"):
            right = [row[1] >= RIGHT for row in rows if row[3] == word]
            text += f", {word} {sum(right)} of {len(right)}"
        print(f"{text}, {sum(row[4] for row in rows):.0f} s of CPU")


if __name__ == "__main__":
    main()
