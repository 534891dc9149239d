"""
How sure is the number? The posterior of k
==========================================

`DPMixtureGibbs` draws clusterings, each as often as it is probable; `DPMeans` is its limit for
small variances, and takes a few passes where the sampler takes thousands.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import DPMeans
from madbayes.gibbs import DPMixtureGibbs

rng = np.random.default_rng(0)
X = np.repeat([[-3.0, -1], [3, -1], [0, 4]], 40, axis=0) + rng.normal(size=(120, 2))
X -= X.mean(axis=0)
sampler = DPMixtureGibbs(n_iter=1000, burn_in=300, random_state=0).fit(X)
k, count = np.unique(sampler.n_clusters_samples_, return_counts=True)

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.bar(k, count / count.sum())
left.set(xlabel="clusters", ylabel="share of samples", xticks=k)
left.set_title(f"DPMeans(): {DPMeans(random_state=0).fit(X).n_clusters_}")
right.plot(sampler.n_clusters_samples_, lw=0.7)
right.set(xlabel="sweep", ylabel="clusters")
