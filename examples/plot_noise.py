"""
Noise has one cluster
=====================

k-means divides anything into as many parts as it is told. `DPMeans()` first asks whether there is
a valley between the parts, on rows that did not help to find them.
"""

import numpy as np
from matplotlib import pyplot
from sklearn.cluster import KMeans

from madbayes import DPMeans, plots

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 2)) @ [[2.0, 0.5], [0.0, 1.0]]
model = DPMeans(random_state=0).fit(X)

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
plots.scatter(X, KMeans(4, n_init=1, random_state=0).fit_predict(X), title="k-means, k=4", ax=left)
plots.scatter(model, X, title=f"DPMeans(): {model.n_clusters_}", ax=right)
