"""
Images: what the centres look like
==================================

Clusters of handwritten digits, 8×8 pixels each; a centre is a picture. With a rough number as a
hint, "auto" looks near it.
"""

import numpy as np
from matplotlib import pyplot
from sklearn.datasets import load_digits

from madbayes import DPMeans

X = load_digits().data
model = DPMeans(n_clusters_hint=12, random_state=0).fit(X)
print(model.evidence_.describe())

size = np.bincount(model.labels_)
columns = -(-len(size) // 2)
figure, axes = pyplot.subplots(2, columns, figsize=(1.3 * columns, 3.2), layout="constrained")
for ax in axes.flat:
    ax.axis("off")
for ax, center, n in zip(axes.flat, model.cluster_centers_, size, strict=False):
    ax.imshow(center.reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{n} rows", fontsize=9)
