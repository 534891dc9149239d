"""Ways to choose the penalty."""

from madbayes.penalties.farthest import farthest_first
from madbayes.penalties.feature_path import FeaturePath, feature_path
from madbayes.penalties.hdp import hdp_farthest_first
from madbayes.penalties.path import Choice, PenaltyPath, path

__all__ = [
    "Choice",
    "FeaturePath",
    "PenaltyPath",
    "farthest_first",
    "feature_path",
    "hdp_farthest_first",
    "path",
]
