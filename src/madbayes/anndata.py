"""Clusters of cells in an `AnnData` object, in the manner of `scanpy.tl.leiden`.

The objects are known by their parts (`obs`, `obsm`, `obsp`, `uns`): neither scanpy nor anndata is
imported, and pandas only to write the labels.
"""

from typing import Any

import numpy as np

from madbayes.graph import NeighborCut

__all__ = ["neighbor_cut"]


def neighbor_cut(
    adata: Any,
    *,
    key_added: str = "madbayes",
    neighbors_key: str | None = None,
    obsp: str | None = None,
    use_rep: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
) -> Any:
    """Cluster cells with `NeighborCut`: no number of clusters and no resolution to choose.

    By default the graph of `scanpy.pp.neighbors` is cut. With `use_rep` the neighbours are searched
    among the rows of that representation; then the number of neighbours is tried out, and cells
    without valleys between them are looked at once more (see `NeighborCut`).

    Parameters
    ----------
    adata : AnnData
    key_added : str, default="madbayes"
        The column of `adata.obs`, and the entry of `adata.uns`, to write to.
    neighbors_key : str, optional
        The entry of `adata.uns` that names the graph; "neighbors" by default.
    obsp : str, optional
        The entry of `adata.obsp` with the graph itself, symmetric, higher weights for nearer cells.
    use_rep : str, optional
        The entry of `adata.obsm` with rows, for example "X_pca"; "X" is `adata.X`. At most one of
        `neighbors_key`, `obsp` and `use_rep` can be given.
    copy : bool, default=False
        Leave `adata` as it is and return a copy with the clusters.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    AnnData or None
        None unless `copy`. What is written:

        ``obs[key_added]`` : categorical
            The clusters "0", "1", … from the largest to the smallest; missing for cells that have
            no link.
        ``obs[f"{key_added}_layer_{i}"]`` : categorical
            `cluster_layers_` of the model, 0 the finest; one of them is ``obs[key_added]``. There
            are none where the clusters have one layer.
        ``obs[f"{key_added}_probability"]`` : float
            `probabilities_` of the model.
        ``uns[key_added]`` : dict
            "params" (what was asked for), "n_clusters", "strength" and "evidence" (how sure the
            number is, in words) and "layers" (the names of those columns).

    Examples
    --------
    ``madbayes.anndata.neighbor_cut(adata)`` after ``sc.pp.neighbors(adata)``; then
    ``sc.pl.umap(adata, color="madbayes")``.
    """
    X, metric, used = _input_of(adata, neighbors_key, obsp, use_rep)
    model = NeighborCut(metric=metric, random_state=random_state).fit(X)
    adata = adata.copy() if copy else adata
    layers = model.cluster_layers_
    names = [f"{key_added}_layer_{i}" for i in range(len(layers) if len(layers) > 1 else 0)]
    for old in [c for c in adata.obs.columns if str(c).startswith(f"{key_added}_layer_")]:
        del adata.obs[old]  # of an earlier call
    adata.obs[key_added] = _categorical(model.labels_)
    for name, layer in zip(names, layers, strict=False):
        adata.obs[name] = _categorical(layer)
    adata.obs[f"{key_added}_probability"] = model.probabilities_
    seed = random_state if isinstance(random_state, int | np.integer) else str(random_state)
    adata.uns[key_added] = {
        "params": {**used, "random_state": seed},
        "n_clusters": model.n_clusters_,
        "strength": model.evidence_.strength,
        "evidence": model.evidence_.describe(),
        "layers": np.array(names, dtype=object),
    }
    return adata if copy else None


def _input_of(
    adata: Any, neighbors_key: str | None, obsp: str | None, use_rep: str | None
) -> tuple[Any, str, dict[str, str]]:
    """What is clustered, its metric, and where it was found."""
    given = {"neighbors_key": neighbors_key, "obsp": obsp, "use_rep": use_rep}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        listed = " and ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"{listed}: only one of them can say what is clustered.")
    if use_rep is not None:
        rows = adata.X if use_rep == "X" else _entry(adata.obsm, use_rep, "use_rep", "obsm")
        return rows, "euclidean", {"use_rep": use_rep}
    if obsp is None:
        key = "neighbors" if neighbors_key is None else neighbors_key
        if key not in adata.uns:
            raise KeyError(
                f"adata.uns[{key!r}] is missing: run scanpy.pp.neighbors(adata) first, name the "
                "graph (neighbors_key=, obsp=), or name rows (use_rep='X_pca')."
            )
        obsp = str(adata.uns[key].get("connectivities_key", "connectivities"))
    graph = _entry(adata.obsp, obsp, "obsp", "obsp")
    return graph, "connectivities", {"obsp": obsp}


def _entry(place: Any, key: str, parameter: str, name: str) -> Any:
    if key not in place:
        there = ", ".join(map(repr, place)) or "nothing"
        raise KeyError(f"{parameter}={key!r} is not in adata.{name}, which holds {there}.")
    return place[key]


def _categorical(labels: np.ndarray) -> Any:
    """As scanpy writes clusters: names in the order of their numbers; -1 is missing."""
    import pandas as pd

    names = [str(c) for c in range(int(labels.max(initial=-1)) + 1)]
    return pd.Categorical.from_codes(labels, categories=names)
