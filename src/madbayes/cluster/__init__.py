"""Clusterings of rows: one algorithm, one file."""

from madbayes.cluster.collapsed_dp_means import CollapsedDPMeans
from madbayes.cluster.dp_means import DPMeans
from madbayes.cluster.kmeans import KMeans
from madbayes.cluster.online import OnlineDPMeans, OnlineKMeans

__all__ = ["CollapsedDPMeans", "DPMeans", "KMeans", "OnlineDPMeans", "OnlineKMeans"]
