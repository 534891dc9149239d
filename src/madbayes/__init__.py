"""madbayes: k-means that finds its own size.

Every model is one sentence: squared error + penalty × number of groups.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from madbayes import cluster, features, gibbs, graph, multi, penalties, plots
    from madbayes._engine.sources import blocks
    from madbayes._estimators.saving import load
    from madbayes.cluster import (
        CollapsedDPMeans,
        DPMeans,
        DPMedoids,
        EllipticalMeans,
        KernelDPMeans,
        KMeans,
        KMedoids,
        OnlineDPMeans,
        OnlineKMeans,
        SpectralDPMeans,
    )
    from madbayes.features import BPMeans, CollapsedBPMeans, KFeatures, StepwiseKFeatures
    from madbayes.gibbs import DPMixtureGibbs, IBPGibbs
    from madbayes.graph import GraphCut, NeighborCut
    from madbayes.multi import HardHDP, KernelHardHDP
    from madbayes.progress import show_progress
    from madbayes.reports import report

__version__ = "0.1.0"
__all__ = [
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
    "blocks",
    "cluster",
    "features",
    "gibbs",
    "graph",
    "load",
    "multi",
    "penalties",
    "plots",
    "report",
    "show_progress",
]

_HOME = {
    "BPMeans": "features",
    "CollapsedBPMeans": "features",
    "CollapsedDPMeans": "cluster",
    "DPMeans": "cluster",
    "DPMedoids": "cluster",
    "DPMixtureGibbs": "gibbs",
    "EllipticalMeans": "cluster",
    "GraphCut": "graph",
    "NeighborCut": "graph",
    "KFeatures": "features",
    "KMeans": "cluster",
    "OnlineDPMeans": "cluster",
    "OnlineKMeans": "cluster",
    "KMedoids": "cluster",
    "KernelDPMeans": "cluster",
    "SpectralDPMeans": "cluster",
    "HardHDP": "multi",
    "IBPGibbs": "gibbs",
    "KernelHardHDP": "multi",
    "StepwiseKFeatures": "features",
    "blocks": "_engine.sources",
    "load": "_estimators.saving",
    "report": "reports",
    "show_progress": "progress",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import madbayes` alone loads nothing heavy."""
    if name in _HOME:
        return getattr(import_module(f"madbayes.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"madbayes.{name}")
    raise AttributeError(f"module 'madbayes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
