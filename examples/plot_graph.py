"""
Communities of a graph
======================

A graph whose nodes have most of their edges within eight groups. `GraphCut()` finds the groups and
their number.
"""

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot

from madbayes import GraphCut

rng = np.random.default_rng(0)
group = np.repeat(np.arange(8), 30)
within = group[:, None] == group
edges = np.triu(rng.random((240, 240)) < np.where(within, 0.3, 0.01), 1)
A = sp.csr_array((edges | edges.T).astype(float))
shuffle = rng.permutation(240)
A = A[shuffle][:, shuffle]
model = GraphCut(random_state=0).fit(A)
print(model.n_clusters_, "communities")

order = np.argsort(model.labels_, kind="stable")
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
left.spy(A, markersize=1)
left.set_title("as given")
right.spy(A[order][:, order], markersize=1)
right.set_title("sorted by community")
