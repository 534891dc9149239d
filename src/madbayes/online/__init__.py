"""Clusters of a stream: rows come in batches and are not kept."""

from madbayes.online.online_dp_means import OnlineDPMeans
from madbayes.online.online_kmeans import OnlineKMeans

__all__ = ["OnlineDPMeans", "OnlineKMeans"]
