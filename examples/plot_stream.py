"""
A stream
========

Rows come in batches and are not kept. Far ones open clusters, old clusters keep their numbers.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import OnlineDPMeans

rng = np.random.default_rng(0)
places = np.array([[0.0, 0], [8, 0], [0, 8], [8, 8]])
model = OnlineDPMeans(penalty=16.0)
figure, axes = pyplot.subplots(1, 4, figsize=(12, 3), sharex=True, sharey=True)
for ax, seen in zip(axes, (1, 2, 3, 4), strict=True):
    batch = places[rng.integers(seen, size=100)] + rng.normal(size=(100, 2))
    labels = model.partial_fit(batch).predict(batch)
    ax.scatter(*batch.T, s=6, c=labels, cmap="tab10", vmin=0, vmax=9)
    ax.plot(*model.cluster_centers_.T, "kx")
    ax.set_title(f"{100 * seen} rows: {model.n_clusters_}")
