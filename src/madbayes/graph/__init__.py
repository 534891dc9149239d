"""Clusterings of graphs, and of rows through their neighbours: one algorithm, one file."""

from madbayes.graph.graph_cut import GraphCut
from madbayes.graph.neighbor_cut import NeighborCut

__all__ = ["GraphCut", "NeighborCut"]
