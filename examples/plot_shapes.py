"""
Clusters that are not round
===========================

`DPMeans` looks for round clusters. `NeighborCut` cuts the graph of nearest neighbours where there
is a valley, whatever the shape.
"""

from matplotlib import pyplot
from sklearn.datasets import make_moons

from madbayes import DPMeans, NeighborCut, plots

X, _ = make_moons(600, noise=0.06, random_state=0)
figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, model in zip(axes, (DPMeans(random_state=0), NeighborCut(random_state=0)), strict=True):
    labels = model.fit(X).labels_
    plots.scatter(X, labels, title=f"{type(model).__name__}: {model.n_clusters_}", ax=ax)
