"""Ways to choose the penalty."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from madbayes.penalties.farthest import farthest_first
from madbayes.penalties.feature_path import FeaturePath, feature_path
from madbayes.penalties.hdp import hdp_farthest_first
from madbayes.penalties.path import path
from madbayes.penalties.staircase import Choice, PenaltyPath

if TYPE_CHECKING:
    from madbayes.graph.path import CutChoice, CutPath, cut_path

__all__ = [
    "Choice",
    "CutChoice",
    "CutPath",
    "FeaturePath",
    "PenaltyPath",
    "cut_path",
    "farthest_first",
    "feature_path",
    "hdp_farthest_first",
    "path",
]

_HOME = {"CutChoice": "graph.path", "CutPath": "graph.path", "cut_path": "graph.path"}


def __getattr__(name: str) -> Any:
    """Paths live beside their models; imported on first use."""
    if name in _HOME:
        return getattr(import_module(f"madbayes.{_HOME[name]}"), name)
    raise AttributeError(f"module 'madbayes.penalties' has no attribute {name!r}")
