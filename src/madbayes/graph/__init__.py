"""Clusterings of graphs: one algorithm, one file."""

from madbayes.graph.graph_cut import GraphCut

__all__ = ["GraphCut"]
