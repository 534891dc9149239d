"""Ways to choose the penalty."""

from madbayes.penalties.farthest import farthest_first
from madbayes.penalties.path import Choice, PenaltyPath, path

__all__ = ["Choice", "PenaltyPath", "farthest_first", "path"]
