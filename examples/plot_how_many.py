"""
How many kinds of eruption are there?
=====================================

Nothing is set: the data say how many clusters there are, how sure that is, and what else it could
be.
"""

from pathlib import Path

import numpy as np
from matplotlib import pyplot

from madbayes import DPMeans, plots

found = [p / "old_faithful.csv" for p in (Path(), Path("examples"), Path("../examples"))]
X = np.loadtxt(next(p for p in found if p.exists()), delimiter=",", skiprows=1)
X = (X - X.mean(axis=0)) / X.std(axis=0)
model = DPMeans(random_state=0).fit(X)
print(model.evidence_.describe())

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
plots.scatter(model, X, feature_names=["eruption", "waiting"], ax=left)
model.path_.plot(ax=right)
