"""
The number of clusters against the penalty
==========================================

Every penalty has its best number of clusters. A wide step of the staircase is a number that many
penalties agree on.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import penalties, plots

rng = np.random.default_rng(1)
centers = rng.uniform(-10, 10, size=(7, 2))
X = np.repeat(centers, 60, axis=0) + 0.7 * rng.normal(size=(420, 2))
path = penalties.path(X, random_state=0)
best = path.best()
print(best.describe())

figure, (left, right) = pyplot.subplots(1, 2, figsize=(14, 4), layout="constrained")
path.plot(ax=left)
plots.scatter(X, path.labels_at(best.penalty), title=f"penalty {best.penalty:.3g}", ax=right)
