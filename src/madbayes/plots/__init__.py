"""Pictures of what was found. matplotlib is imported only when something is drawn."""

from madbayes.plots._features import features
from madbayes.plots._models import path, spectrum, trace, tree
from madbayes.plots._rows import group_usage, groups, scatter

__all__ = ["features", "group_usage", "groups", "path", "scatter", "spectrum", "trace", "tree"]
