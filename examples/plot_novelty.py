"""
Rows that do not belong
=======================

`novelty_score` is the share of rows like those of the fit that would be as far out. Where it is
below a rate, `predict(X, novel=rate)` answers -1.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import DPMeans

rng = np.random.default_rng(0)
X = np.vstack([rng.normal(size=(300, 2)), 0.4 * rng.normal(size=(150, 2)) + [6, 2]])
model = DPMeans(random_state=0).fit(X)
x, y = np.meshgrid(np.linspace(-5, 9, 120), np.linspace(-5, 6, 100))
grid = np.column_stack([x.ravel(), y.ravel()])
score = np.maximum(model.novelty_score(grid), 1e-6).reshape(x.shape)

figure, ax = pyplot.subplots(figsize=(6, 4.4), layout="constrained")
levels = [-6, -3, -2, -1, 0]
shown = ax.contourf(x, y, np.log10(score), levels=levels, cmap="Blues_r")
ax.scatter(*X.T, s=5, c="black")
figure.colorbar(shown, label="log10 of novelty_score")
