"""Ways to choose the penalty, for every family in one place."""

from madbayes.features.path import feature_path
from madbayes.graph.path import cut_path
from madbayes.groups.farthest import hdp_farthest_first
from madbayes.howmany.path import path
from madbayes.howmany.staircase import Choice, Staircase
from madbayes.kmeans.farthest import farthest_first

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
