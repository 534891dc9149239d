"""
Pictures as sums of parts
=========================

Each picture holds some of four bars, in noise. Clustering would need a cluster for each of 16
combinations; features need four.
"""

import numpy as np

from madbayes import BPMeans, plots

rng = np.random.default_rng(0)
bars = np.zeros((4, 6, 6))
bars[0, 1], bars[1, 4], bars[2, :, 1], bars[3, :, 4] = 1, 1, 1, 1
Z = rng.random((200, 4)) < 0.4
X = Z @ bars.reshape(4, -1) + 0.2 * rng.normal(size=(200, 36))
model = BPMeans(random_state=0).fit(X)
print(model.evidence_.describe())

figure = plots.features(model, (6, 6), X=X)
