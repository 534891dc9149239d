"""Ways to choose the penalty, for every family in one place."""

from madbayes._search.staircase import Choice, Staircase
from madbayes.cluster.farthest import farthest_first
from madbayes.cluster.path import path
from madbayes.features.path import feature_path
from madbayes.graph.path import cut_path
from madbayes.multi.farthest import hdp_farthest_first

PenaltyPath = Staircase  # what all paths return

__all__ = [
    "Choice",
    "PenaltyPath",
    "Staircase",
    "cut_path",
    "farthest_first",
    "feature_path",
    "hdp_farthest_first",
    "path",
]
