"""
When it is wrong
================

Four ways to get a wrong answer, and what to do about each.

`python examples/plot_wrong.py picture.png` writes the picture to a file.
"""

import sys

import numpy as np
from matplotlib import pyplot
from sklearn.datasets import make_blobs, make_circles

from madbayes import AutoCluster, DPMeans, EllipticalMeans, KMeans, NeighborCut
from madbayes.plots._palette import COLORS

rng = np.random.default_rng(0)


def standardized(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


units, _ = make_blobs(400, centers=[[0, 0], [0, 9]], random_state=0)
units = units * [1000, 1]  # grams beside years
rings, _ = make_circles(500, factor=0.45, noise=0.05, random_state=0)
touching = np.vstack([rng.normal(size=(300, 2)), rng.normal([1.8, 0], 1, size=(300, 2))])
stripes = rng.normal(size=(500, 2)) * [8, 0.5] + np.where(
    rng.random((500, 1)) < 0.5, [0, 0], [0, 4]
)

pairs = {
    "columns in different units": (
        units,
        DPMeans(),
        "standardized",
        standardized(units),
        DPMeans(),
    ),
    "not round": (rings, DPMeans(), "NeighborCut", rings, NeighborCut()),
    "touching, no valley": (touching, DPMeans(), "KMeans, told 2", touching, KMeans(2)),
    "stripes": (stripes, DPMeans(), "EllipticalMeans", stripes, EllipticalMeans()),
}
figure, axes = pyplot.subplots(2, 4, figsize=(10.5, 5.2), layout="constrained")
for (wrong, right), (title, (X, first, name, Y, second)) in zip(axes.T, pairs.items(), strict=True):
    for ax, rows, model, head in ((wrong, X, first, f"{title}\nDPMeans"), (right, Y, second, name)):
        labels = model.set_params(random_state=0).fit(rows).labels_
        ax.scatter(*standardized(rows).T, s=3, c=np.array(COLORS)[labels % len(COLORS)], lw=0)
        ax.set_title(f"{head}: {labels.max() + 1}", fontsize=9)
        ax.set(xticks=[], yticks=[])

# %%
# `AutoCluster` finds out by itself that the rings are not round:
print(AutoCluster(random_state=0).fit(rings).shape_)

if sys.argv[1:] and sys.argv[1].endswith(".png"):
    figure.savefig(sys.argv[1], dpi=80)
