"""madbayes: k-means that finds its own size.

Every model is one sentence: squared error + penalty × number of groups.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from madbayes import penalties, plots
    from madbayes.cluster import DPMeans, KMeans
    from madbayes.features import BPMeans, CollapsedBPMeans, KFeatures, StepwiseKFeatures
    from madbayes.multi import HardHDP, KernelHardHDP

__version__ = "0.1.0"
__all__ = [
    "BPMeans",
    "CollapsedBPMeans",
    "DPMeans",
    "HardHDP",
    "KFeatures",
    "KMeans",
    "KernelHardHDP",
    "StepwiseKFeatures",
    "penalties",
    "plots",
]

_HOME = {
    "BPMeans": "features",
    "CollapsedBPMeans": "features",
    "DPMeans": "cluster",
    "HardHDP": "multi",
    "KFeatures": "features",
    "KMeans": "cluster",
    "KernelHardHDP": "multi",
    "StepwiseKFeatures": "features",
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
