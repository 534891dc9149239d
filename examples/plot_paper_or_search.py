"""
The printed algorithm and the search
====================================

Both lower the same objective at the same penalty. The printed algorithm opens a cluster when one
row alone repays the penalty; the search when a whole group of rows does.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import DPMeans, plots

rng = np.random.default_rng(0)
X = np.repeat([[0.0, 0], [6, 0], [0, 6], [6, 6]], 80, axis=0) + rng.normal(size=(320, 2))

figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, algorithm in zip(axes, ("paper", "search"), strict=True):
    model = DPMeans(penalty=200.0, algorithm=algorithm, random_state=0).fit(X)
    title = f"{algorithm}: k={model.n_clusters_}, objective {model.objective_:.0f}"
    plots.scatter(model, X, title=title, ax=ax)
