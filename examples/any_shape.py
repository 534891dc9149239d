"""Clusters of any shape, new rows, and labels back in a table.

`NeighborCut` links each row to its nearest rows and divides where a valley lies between. The second
part is what single-cell data look like to it: a sparse graph of cells, such as scanpy keeps in
`adata.obsp["connectivities"]`, and a table of cells, such as `adata.obs`.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import make_blobs, make_moons

from madbayes import NeighborCut

rows, _ = make_moons(600, noise=0.06, random_state=0)
model = NeighborCut(random_state=0).fit(rows)
print(model.evidence_.describe())
print("conductance", model.conductance_.round(4))
print("at a border:", int((model.membership_ < 0.9).sum()), "rows")
print("new rows:", model.predict([[0.0, 1.0], [1.0, -0.5], [5.0, 5.0]], novel=True))

counts, kinds = make_blobs(500, n_features=30, centers=4, cluster_std=3.0, random_state=0)
graph = NeighborCut(random_state=0).fit(counts).graph_  # or adata.obsp["connectivities"]
cells = NeighborCut(metric="connectivities", random_state=0).fit(graph)
table = pd.DataFrame({"kind": kinds}, index=[f"cell{i}" for i in range(500)])  # or adata.obs
table["cluster"] = pd.Categorical(cells.labels_)
print(table.groupby("cluster", observed=True)["kind"].agg(["size", "nunique"]))
print(
    "noise:",
    NeighborCut(random_state=0).fit(np.random.default_rng(0).normal(size=(500, 5))).n_clusters_,
)
