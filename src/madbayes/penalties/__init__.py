"""Ways to choose the penalty."""

from madbayes.penalties.cut_path import CutChoice, CutPath, cut_path
from madbayes.penalties.farthest import farthest_first
from madbayes.penalties.feature_path import FeaturePath, feature_path
from madbayes.penalties.hdp import hdp_farthest_first
from madbayes.penalties.path import path
from madbayes.penalties.staircase import Choice, PenaltyPath

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
