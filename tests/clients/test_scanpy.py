"""`madbayes.anndata.neighbor_cut` on real AnnData objects."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import madbayes

anndata = pytest.importorskip("anndata", reason="needs anndata")


@pytest.fixture
def cells():
    """700 blood cells, sorted into ten kinds by hand."""
    scanpy = pytest.importorskip("scanpy", reason="needs scanpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scanpy.datasets.pbmc68k_reduced()


def test_blood_cells_as_well_as_by_louvain(cells, tmp_path):
    madbayes.anndata.neighbor_cut(cells)
    kinds = cells.obs["bulk_labels"].astype(str)
    layers = [cells.obs[name] for name in cells.uns["madbayes"]["layers"]]
    best = max(adjusted_rand_score(kinds, layer) for layer in [cells.obs["madbayes"], *layers])
    assert best > adjusted_rand_score(kinds, cells.obs["louvain"])  # .44 and .41
    cells.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    pd.testing.assert_series_equal(again.obs["madbayes"], cells.obs["madbayes"])
    assert again.uns["madbayes"]["params"]["obsp"] == "connectivities"


def test_neighbours_that_scanpy_finds_anew(cells):
    import scanpy

    scanpy.pp.neighbors(cells, use_rep="X_pca", key_added="near", n_neighbors=15)
    before = cells.obs.columns.tolist()
    made = madbayes.anndata.neighbor_cut(cells, neighbors_key="near", copy=True)
    assert cells.obs.columns.tolist() == before
    assert made.obs["madbayes"].cat.categories[0] == "0"
    again = madbayes.anndata.neighbor_cut(cells, neighbors_key="near", copy=True)
    pd.testing.assert_series_equal(made.obs["madbayes"], again.obs["madbayes"])


def test_rows_in_place_of_a_graph():
    r = np.random.default_rng(0)
    label = np.repeat(np.arange(4), 60)
    cells = anndata.AnnData(X=(8 * r.normal(size=(4, 20))[label] + r.normal(size=(240, 20))))
    madbayes.anndata.neighbor_cut(cells, use_rep="X")
    assert adjusted_rand_score(label, cells.obs["madbayes"]) == 1.0
