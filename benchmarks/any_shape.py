"""AutoCluster and the three estimators that it chooses from, on shapes of 42 kinds.

Every kind is generated from a description, with a seed, so that other draws can be looked at:

    python benchmarks/any_shape.py --seeds 3 4

For each set the number of clusters, the adjusted Rand index and the strength of the evidence; at
the end the means, how often the number is exact, and how often "strong" is right (index >= .8).
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

import madbayes

Shape = tuple[np.ndarray, np.ndarray]


def arc(r, n, first, last, radius, middle=(0.0, 0.0), noise=0.05):
    """Rows along a part of a circle."""
    t = r.uniform(first, last, n)
    ring = np.c_[middle[0] + radius * np.cos(t), middle[1] + radius * np.sin(t)]
    return ring + r.normal(0, noise, (n, 2))


def ellipse(r, n, middle, angle, long, short):
    """A Gaussian cluster with two axes, turned."""
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return r.normal(size=(n, 2)) * [long, short] @ turn + middle


def together(*parts: np.ndarray) -> Shape:
    return np.vstack(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def round_kinds(r):
    """Clusters near their centres, apart and overlapping."""
    normal, uniform = r.normal, r.uniform
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    yield "tetrahedron", together(*(normal(c, 0.45, (150, 3)) for c in corners))
    seven = 3 * np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
    yield "seven", together(*(normal(c, 0.3, (40, 3)) for c in seven))
    centers = uniform(-10, 10, (15, 2))
    yield "overlapping", together(*(normal(c, 0.9, (250, 2)) for c in centers))
    sizes = r.choice([40, 100, 800], 9)
    places = uniform(-10, 10, (9, 2))
    pairs = zip(places, sizes, strict=True)
    yield "unequal sizes", together(*(normal(c, 0.5, (int(n), 2)) for c, n in pairs))
    grid = np.array([[i, j] for i in range(4) for j in range(4)], float)
    yield "grid", together(*(normal(c, 0.18, (80, 2)) for c in grid))
    yield "close grid", together(*(normal(c, 0.24, (150, 2)) for c in grid))
    for d, spread in ((5, 2.2), (20, 1.5)):
        yield f"{d} columns", together(*(normal(c, 1, (150, d)) for c in normal(0, spread, (7, d))))
    yield "two densities", together(normal([0, 0], 0.2, (500, 2)), normal([2.5, 0], 0.9, (500, 2)))
    small = [normal(c, 0.4, (80, 2)) for c in ([4.5, 0], [0, 4.5])]
    yield "small beside large", together(normal([0, 0], 1.5, (1500, 2)), *small)


def long_kinds(r):
    """Clusters with covariances, some of which overlap without a valley."""
    yield "parallel", together(*(ellipse(r, 250, (0, 1.2 * i), 0.1, 2.5, 0.2) for i in range(4)))
    yield "cross", together(*(ellipse(r, 400, (0, 0), a, 3, 0.25) for a in (0.3, 1.6)))
    corner = ellipse(r, 400, (4.2, 2.4), 1.57, 3, 0.3)
    yield "corner", together(ellipse(r, 400, (0, 0), 0, 3, 0.3), corner)
    mixed = [ellipse(r, 300, (0, 0), 0.5, 3, 0.5), ellipse(r, 300, (3, -2), 1.2, 2, 0.6)]
    yield "long and round", together(*mixed, r.normal([6, 4], 0.8, (300, 2)))
    shapes = r.normal(size=(3, 4, 4))
    parts = [r.normal(size=(300, 4)) @ A + 4 * r.normal(size=4) for A in shapes]
    yield "ellipsoids", together(*parts)


def any_kinds(r):
    """Curves, rings, uniform pieces."""
    normal, uniform = r.normal, r.uniform
    half = np.pi
    moons = arc(r, 400, 0, half, 1), arc(r, 400, half, 2 * half, 1, (1, 0.5))
    yield "moons", together(*moons)
    yield "rings", together(arc(r, 500, 0, 7, 1, noise=0.08), arc(r, 500, 0, 7, 2.2, noise=0.08))
    yield "target", together(normal(0, 0.25, (400, 2)), arc(r, 400, 0, 7, 2, noise=0.1))
    flat = np.c_[arc(r, 500, 0, 7, 1), normal(0, 0.05, 500)]
    tall = np.c_[arc(r, 500, 0, 7, 1), normal(0, 0.05, 500)][:, [0, 2, 1]] + [1, 0, 0]
    yield "chain", together(flat, tall)
    ball = normal(size=(400, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    yield "atom", together(normal(0, 0.3, (400, 3)), 3 * ball + normal(0, 0.1, (400, 3)))
    bars = (
        np.c_[uniform(0, 1, 200), uniform(0, 4, 200)],
        np.c_[uniform(2, 5, 200), uniform(0, 1, 200)],
    )
    yield "bars", together(*bars, normal([4, 4], 0.4, (200, 2)))
    turn = np.array([[0.7, 0.7], [-0.7, 0.7]])
    yield "diamonds", together(*(uniform(-1, 1, (400, 2)) @ turn + [x, 0] for x in (0, 2.9)))
    wings = [np.c_[uniform(0, 3, 500), 2 * np.sqrt(uniform(0, 1, 500))] for _ in range(2)]
    yield "wings", together(wings[0], [0, 4.4] + wings[1] * [1, -1])
    t = np.linspace(0, 3 * np.pi, 500)
    arms = [np.c_[t * np.cos(t + k), t * np.sin(t + k)] / 5 for k in (0, 2.1, 4.2)]
    yield "spirals", together(*(arm + normal(0, 0.05, (500, 2)) for arm in arms))
    x, z = uniform(-2, 2, (2, 400))
    curves = np.c_[x, x**2], np.c_[z + 2.2, 5 - z**2]
    yield "parabolas", together(*(curve + normal(0, 0.1, (400, 2)) for curve in curves))
    s = np.linspace(0, 3, 200)
    lines = [np.c_[s, i + np.abs((2 * s) % 2 - 1)] for i in range(4)]
    yield "zigzag", together(*(line + normal(0, 0.05, (200, 2)) for line in lines))
    eyes = [normal([x, 1.5], 0.3, (100, 2)) for x in (-1.5, 1.5)]
    mouth = arc(r, 150, 3.6, 5.8, 2.2, noise=0.1)
    yield "smile", together(arc(r, 300, 0, 7, 4, noise=0.1), *eyes, mouth)
    yield (
        "stripes",
        together(*(np.c_[uniform(0, 5, 400), uniform(k, k + 0.5, 400)] for k in (0, 0.8))),
    )
    squares = [[0, 0], [1.25, 0], [0, 1.25], [1.25, 1.25]]
    yield "squares", together(*(uniform(0, 1, (300, 2)) + c for c in squares))
    bowl = arc(r, 160, 1.05 * half, 1.95 * half, 2.2, (0, 2.5), 0.2)
    yield "flame", together(normal([0, 2], [1.2, 0.5], (120, 2)), bowl)


def noise_kinds(r):
    """One cluster, or none: nothing is to be found."""
    angle, radius = r.uniform(0, 7, 900), np.sqrt(r.uniform(0, 1, 900))
    yield "normal", together(r.normal(size=(1000, 2)))
    yield "normal, 10 columns", together(r.normal(size=(800, 10)))
    yield "uniform", together(r.uniform(size=(1000, 2)))
    yield "uniform, 3 columns", together(r.uniform(size=(600, 3)))
    yield "heavy tails", together(r.standard_t(3, (1000, 2)))
    yield "one long", together(r.normal(size=(800, 2)) * [5, 1])
    yield "one ring", together(arc(r, 800, 0, 7, 2, noise=0.2))
    yield "exponential", together(r.exponential(size=(800, 3)))
    yield "log-normal", together(np.exp(r.normal(size=(900, 2))))
    yield "one arc", together(arc(r, 600, 0, 3.5, 2, noise=0.12))
    yield "disc", together(np.c_[radius * np.cos(angle), radius * np.sin(angle)])
    yield "few rows", together(r.normal(size=(150, 4)))


KINDS = {"round": round_kinds, "long": long_kinds, "any": any_kinds, "noise": noise_kinds}
ESTIMATORS = ("AutoCluster", "DPMeans", "EllipticalMeans", "NeighborCut")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    warnings.simplefilter("ignore")
    scores: dict[str, list[tuple[float, bool, str, float]]] = {name: [] for name in ESTIMATORS}
    for seed in parser.parse_args().seeds:
        r = np.random.default_rng(seed)
        for family, kinds in KINDS.items():
            for kind, (X, y) in kinds(r):
                order = r.permutation(len(X))
                line = f"{seed} {family:6s} {kind:20s} {y.max() + 1:3d}"
                for name in ESTIMATORS:
                    began = time.process_time()
                    model = getattr(madbayes, name)(random_state=0).fit(X[order])
                    took = time.process_time() - began
                    index = adjusted_rand_score(y[order], model.labels_)
                    word = model.evidence_.strength
                    scores[name].append((index, model.n_clusters_ == y.max() + 1, word, took))
                    line += f" | {model.n_clusters_:3d} {index:5.2f} {word:8s}"
                print(line, flush=True)
    for name, rows in scores.items():
        strong = [index >= 0.8 for index, _, word, _ in rows if word == "strong"]
        print(
            f"{name:16s} mean adjusted Rand {np.mean([row[0] for row in rows]):.3f}, exact number "
            f"{np.mean([row[1] for row in rows]):.0%}, strong and right {sum(strong)} of "
            f"{len(strong)}, {sum(row[3] for row in rows):.0f} s of CPU"
        )


if __name__ == "__main__":
    main()
