"""
What a valley is
================

Half of the rows propose two clusters, the other half test them. The rows that were held out are
projected on the line through the two centres and counted in three windows of equal width: one
around the mean of each side, and one half-way. Two groups leave the middle emptier than both
sides; one group, cut in two, does not.

`python examples/plot_valley.py picture.png` writes the picture to a file.
"""

import sys

import numpy as np
from matplotlib import pyplot

from madbayes import DPMeans, KMeans

rng = np.random.default_rng(0)
one = rng.normal(size=(600, 2)) * [2.2, 1]
two = rng.normal(size=(600, 2)) + np.where(rng.random((600, 1)) < 0.5, [-2.0, 0], [2.0, 0])

figure, axes = pyplot.subplots(2, 2, figsize=(9, 5.2), height_ratios=[1.2, 1], layout="constrained")
for column, X in zip(axes.T, (two, one), strict=True):
    propose, test = X[::2], X[1::2]
    a, b = KMeans(2, random_state=0).fit(propose).cluster_centers_
    a, b = (a, b) if a[0] < b[0] else (b, a)
    t = (test - (a + b) / 2) @ (b - a) / np.linalg.norm(b - a)
    sides = t[t < 0].mean(), t[t > 0].mean()
    width = 0.45 * (sides[1] - sides[0])

    ax = column[0]
    ax.scatter(*propose.T, s=5, color="#BBBBBB", label="propose")
    ax.scatter(*test.T, s=5, c=np.where(t < 0, "#0072B2", "#E69F00"), label="test")
    ax.plot(*np.transpose([a, b]), "k-o", lw=1.5, ms=6)
    found = DPMeans(random_state=0).fit(X).n_clusters_
    ax.set_title(f"DPMeans(): {found} cluster{'s' if found > 1 else ''}", fontsize=10)
    ax.set(xticks=[], yticks=[], aspect="equal")

    ax = column[1]
    ax.hist(t, 30, color="#DDDDDD")
    for at, color in ((sides[0], "#0072B2"), (0.0, "#D55E00"), (sides[1], "#E69F00")):
        count = int((np.abs(t - at) < width / 2).sum())
        ax.axvspan(at - width / 2, at + width / 2, color=color, alpha=0.25, lw=0)
        ax.text(at, ax.get_ylim()[1] * 0.93, str(count), ha="center", va="top", fontsize=11)
    ax.set_xlabel("place along the line, rows held out", fontsize=9)
    ax.set_yticks([])

if sys.argv[1:] and sys.argv[1].endswith(".png"):
    figure.savefig(sys.argv[1], dpi=90)
