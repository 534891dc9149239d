"""
Directions: embeddings and text
===============================

What a text is about is the direction of its vector, not its length. ``metric="cosine"`` compares
directions.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import DPMeans

rng = np.random.default_rng(0)
topics = rng.normal(size=(5, 40))
X = np.repeat(topics, 80, axis=0) * rng.uniform(0.2, 3, size=(400, 1))
X += 0.3 * np.linalg.norm(X, axis=1, keepdims=True) * rng.normal(size=X.shape) / np.sqrt(40)
model = DPMeans(metric="cosine", random_state=0).fit(X)
print(model.n_clusters_, "clusters of directions;", DPMeans(random_state=0).fit(X).n_clusters_,
      "of rows as they are")  # fmt: skip

U = X / np.linalg.norm(X, axis=1, keepdims=True)
order = np.argsort(model.labels_, kind="stable")
figure, ax = pyplot.subplots(figsize=(5, 4.4), layout="constrained")
ax.imshow(U[order] @ U[order].T, cmap="viridis")
ax.set_title("cosines between rows, sorted by cluster")
