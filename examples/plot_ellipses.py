"""
Clusters of different shapes
============================

`EllipticalMeans` gives each cluster a covariance of its own.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import EllipticalMeans, KMeans, plots

rng = np.random.default_rng(0)
long = rng.normal(size=(200, 2)) * [3.0, 0.4]
X = np.vstack([long, rng.normal(size=(200, 2)) * [3.0, 0.4] + [1, 3]])
figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
models = KMeans(2, random_state=0), EllipticalMeans(2, random_state=0)
for ax, model in zip(axes, models, strict=True):
    plots.scatter(model.fit(X), X, title=type(model).__name__, ax=ax)
