"""Pictures of what was found. matplotlib is imported only when something is drawn."""

from madbayes.plots._features import features
from madbayes.plots._groups import group_usage, groups
from madbayes.plots._path import path
from madbayes.plots._scatter import scatter
from madbayes.plots._spectrum import spectrum
from madbayes.plots._trace import trace
from madbayes.plots._tree import tree

__all__ = ["features", "group_usage", "groups", "path", "scatter", "spectrum", "trace", "tree"]
