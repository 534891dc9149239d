"""Ways to choose the penalty."""

from madbayes.penalties.farthest import farthest_first

__all__ = ["farthest_first"]
