"""Ways to choose the penalty, for every family in one place."""

from madbayes._search.staircase import Choice, Staircase
from madbayes.cluster.farthest import farthest_first
from madbayes.cluster.path import path
from madbayes.multi.farthest import hdp_farthest_first
from madbayes.penalties.cut_path import CutChoice, CutPath, cut_path
from madbayes.penalties.feature_path import FeaturePath, feature_path

PenaltyPath = Staircase  # what `path` returns

__all__ = [
    "Choice",
    "CutChoice",
    "CutPath",
    "FeaturePath",
    "PenaltyPath",
    "Staircase",
    "cut_path",
    "farthest_first",
    "feature_path",
    "hdp_farthest_first",
    "path",
]
