"""Pictures of what was found. matplotlib is imported only when something is drawn."""

from madbayes.plots.features import features
from madbayes.plots.groups import group_usage, groups
from madbayes.plots.path import path
from madbayes.plots.scatter import scatter
from madbayes.plots.spectrum import spectrum
from madbayes.plots.trace import trace

__all__ = ["features", "group_usage", "groups", "path", "scatter", "spectrum", "trace"]
