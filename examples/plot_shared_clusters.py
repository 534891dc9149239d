"""
Clusters that many data sets share
==================================

Twelve small data sets, each with a few of six clusters. Alone, each has too few rows; together they
show what they share.
"""

import numpy as np

from madbayes import HardHDP, plots

rng = np.random.default_rng(2)
means = rng.uniform(0, 10, size=(6, 2))
used = [rng.choice(6, 3, replace=False) for _ in range(12)]
truth = np.concatenate([np.repeat(pick, 12) for pick in used])
groups = np.repeat(np.arange(12), 36)
X = means[truth] + 0.5 * rng.normal(size=(len(truth), 2))
model = HardHDP(random_state=0).fit(X, groups=groups)
print(model.n_clusters_, "clusters,", model.n_local_clusters_.tolist(), "in each set")

figure = plots.groups(model, X, groups)
