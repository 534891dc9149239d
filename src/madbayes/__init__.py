"""madbayes: k-means that finds its own size.

Every model is one sentence: squared error + penalty × number of groups.
"""

from importlib import import_module

TYPE_CHECKING = False  # without typing, the command is sooner where it can explain Ctrl-C
if TYPE_CHECKING:
    from typing import Any

    from madbayes import anndata, features, gibbs, graph, onnx, penalties, plots
    from madbayes._model.sklearn_checks import expected_failed_checks
    from madbayes._rows.sources import blocks
    from madbayes._storage.saving import load
    from madbayes.auto import AutoCluster
    from madbayes.elliptical import EllipticalMeans
    from madbayes.features import BPMeans, CollapsedBPMeans, KFeatures, StepwiseKFeatures
    from madbayes.gibbs import DPMixtureGibbs, IBPGibbs
    from madbayes.graph import GraphCut, NeighborCut
    from madbayes.groups import HardHDP, KernelHardHDP
    from madbayes.kernel import KernelDPMeans, SpectralDPMeans
    from madbayes.kmeans import CollapsedDPMeans, DPMeans, KMeans
    from madbayes.medoids import DPMedoids, KMedoids
    from madbayes.online import OnlineDPMeans, OnlineKMeans
    from madbayes.progress import show_progress
    from madbayes.reports import report
    from madbayes.tables.encoder import TableEncoder
    from madbayes.tables.explore import explore

__version__ = "0.2.0"
__all__ = [
    "AutoCluster",
    "BPMeans",
    "CollapsedBPMeans",
    "CollapsedDPMeans",
    "DPMeans",
    "DPMedoids",
    "DPMixtureGibbs",
    "EllipticalMeans",
    "GraphCut",
    "HardHDP",
    "IBPGibbs",
    "KFeatures",
    "KMeans",
    "KMedoids",
    "KernelDPMeans",
    "KernelHardHDP",
    "NeighborCut",
    "OnlineDPMeans",
    "OnlineKMeans",
    "SpectralDPMeans",
    "StepwiseKFeatures",
    "TableEncoder",
    "anndata",
    "blocks",
    "expected_failed_checks",
    "explore",
    "features",
    "gibbs",
    "graph",
    "load",
    "onnx",
    "penalties",
    "plots",
    "report",
    "show_progress",
]

_HOME = {  # where the names are that are no modules
    name: home
    for home, names in {
        "_model.sklearn_checks": "expected_failed_checks",
        "_rows.sources": "blocks",
        "_storage.saving": "load",
        "auto": "AutoCluster",
        "elliptical": "EllipticalMeans",
        "features": "BPMeans CollapsedBPMeans KFeatures StepwiseKFeatures",
        "gibbs": "DPMixtureGibbs IBPGibbs",
        "graph": "GraphCut NeighborCut",
        "groups": "HardHDP KernelHardHDP",
        "kernel": "KernelDPMeans SpectralDPMeans",
        "kmeans": "CollapsedDPMeans DPMeans KMeans",
        "medoids": "DPMedoids KMedoids",
        "online": "OnlineDPMeans OnlineKMeans",
        "progress": "show_progress",
        "reports": "report",
        "tables.encoder": "TableEncoder",
        "tables.explore": "explore",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> "Any":
    """Import on first use: `import madbayes` alone loads nothing heavy."""
    if name in _HOME:
        return getattr(import_module(f"madbayes.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"madbayes.{name}")
    raise AttributeError(f"module 'madbayes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
