"""Dask tables: `KMeans`, `DPMeans`, `HardHDP`, `KFeatures` and `BPMeans` where the rows are.

Nothing is called from here directly: `fit`, `predict` and the like of these estimators come here
when they are given a Dask array or data frame. The active client does the work, or without one
Dask's default scheduler.
"""

from collections.abc import Callable
from typing import Any

from madbayes._rows.checks import check_rows
from madbayes.distributed.clusters import fit_dp_means, fit_kmeans
from madbayes.distributed.features import fit_bp_means, fit_k_features
from madbayes.distributed.groups import fit_hard_hdp
from madbayes.distributed.later import map_rows, score
from madbayes.features.bp_means import BPMeans
from madbayes.features.kfeatures import KFeatures
from madbayes.groups.hard_hdp import HardHDP
from madbayes.kmeans.dp_means import DPMeans
from madbayes.kmeans.kmeans import KMeans

FITS: dict[type, Callable[..., Any]] = {
    KMeans: fit_kmeans,
    DPMeans: fit_dp_means,
    HardHDP: fit_hard_hdp,
    KFeatures: fit_k_features,
    BPMeans: fit_bp_means,
}

__all__ = ["run"]


def run(model: Any, method: Callable[..., Any], X: Any, *args: Any, **options: Any) -> Any:
    """`method` of `model` for a Dask table."""
    name = method.__name__
    if name == "fit":
        fit = next((fit for kind, fit in FITS.items() if isinstance(model, kind)), check_rows)
        return fit(model, X, *args, **options)
    if name == "score":
        return score(model, name, X, *args, **options)
    return map_rows(model, name, X, *args, **options)
