"""
Eight shapes, beside scikit-learn's clusterers
==============================================

Nothing is set and nothing is told, but where a column says so. Above each picture is the number of
clusters that was found. A green frame says that the clusters are the true ones (an adjusted Rand
index of .9 or more); rows that a method calls noise are grey.

`python examples/plot_comparison.py picture.png` writes the picture to a file.
"""

import sys

import numpy as np
from matplotlib import pyplot
from PIL import Image
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from madbayes import AutoCluster, DPMeans, NeighborCut
from madbayes.plots._palette import COLORS


def by_bic(X):
    """The mixture of up to ten Gaussians with the best BIC."""
    tried = [GaussianMixture(k, random_state=0).fit(X) for k in range(1, 11)]
    return min(tried, key=lambda model: model.bic(X)).predict(X)


METHODS = {
    "KMeans,\ntold the number": lambda X, k: KMeans(k, random_state=0, n_init=10).fit_predict(X),
    "GaussianMixture,\nBIC up to 10": lambda X, k: by_bic(X),
    "HDBSCAN": lambda X, k: HDBSCAN(copy=True).fit_predict(X),
    "madbayes\nDPMeans": lambda X, k: DPMeans(random_state=0).fit_predict(X),
    "madbayes\nNeighborCut": lambda X, k: NeighborCut(random_state=0).fit_predict(X),
    "madbayes\nAutoCluster": lambda X, k: AutoCluster(random_state=0).fit_predict(X),
}


def shapes(n=600):
    """(name, rows, their true clusters)"""
    rng = np.random.default_rng(0)
    yield "blobs", *make_blobs(n, centers=5, cluster_std=0.8, random_state=6)
    corners, spread = [[0, 0], [5, 0], [0, 5]], [0.3, 1.0, 1.6]
    yield "spreads", *make_blobs(n, centers=corners, cluster_std=spread, random_state=0)
    grid = [[x, y] for x in range(4) for y in range(4)]
    yield "many, close", *make_blobs(2 * n, centers=grid, cluster_std=0.17, random_state=0)
    places = [[0.0, 0], [3.0, 0], [6.0, 0]]
    X, truth = make_blobs(n, centers=places, cluster_std=0.6, random_state=0)
    yield "long", X * [1, 6] @ [[0.8, -0.6], [0.6, 0.8]], truth
    yield "moons", *make_moons(n, noise=0.06, random_state=0)
    yield "circles", *make_circles(n, factor=0.5, noise=0.05, random_state=0)
    truth = np.repeat([0, 1], [n - 50, 50])
    size = np.where(truth == 1, 0.3, 1.0)[:, None]
    yield "large and small", 4 * truth[:, None] + size * rng.normal(size=(n, 2)), truth
    yield "noise", rng.uniform(size=(n, 2)), np.zeros(n, dtype=int)


rows = list(shapes())
figure, axes = pyplot.subplots(
    len(rows), len(METHODS), figsize=(9, 11.5), layout="constrained", squeeze=False
)
for row, (name, X, truth) in enumerate(rows):
    line = axes[row]
    X = StandardScaler().fit_transform(X)
    true = len(set(truth.tolist()))
    for ax, (method, fit) in zip(line, METHODS.items(), strict=True):
        labels = fit(X, true)
        found = len(set(labels.tolist()) - {-1})
        colors = np.array([*COLORS, "#BBBBBB"])[np.where(labels < 0, -1, labels % len(COLORS))]
        ax.scatter(*X.T, s=1.2, c=colors, linewidths=0)
        right = adjusted_rand_score(truth, labels) >= 0.9
        head = f"{method}\n\n" if row == 0 else ""
        ax.set_title(f"{head}{found}", fontsize=9, pad=2)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set(color="#009E73" if right else "#CCCCCC", linewidth=2 if right else 0.8)
    line[0].set_ylabel(f"{name}\n({true})", fontsize=9)

if sys.argv[1:] and sys.argv[1].endswith(".png"):
    figure.savefig(sys.argv[1], dpi=85)
    few = Image.open(sys.argv[1]).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(sys.argv[1], optimize=True)  # a quarter of the bytes
