"""Clusters around means: K-means, DP-means and collapsed DP-means."""

from madbayes.kmeans.collapsed_dp_means import CollapsedDPMeans
from madbayes.kmeans.dp_means import DPMeans
from madbayes.kmeans.kmeans import KMeans

__all__ = ["CollapsedDPMeans", "DPMeans", "KMeans"]
