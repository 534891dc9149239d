"""Clusterings of rows: one algorithm, one file."""

from madbayes.cluster.collapsed_dp_means import CollapsedDPMeans
from madbayes.cluster.dp_means import DPMeans
from madbayes.cluster.dp_medoids import DPMedoids
from madbayes.cluster.elliptical import EllipticalMeans
from madbayes.cluster.kmeans import KMeans
from madbayes.cluster.kmedoids import KMedoids
from madbayes.cluster.online_dp_means import OnlineDPMeans
from madbayes.cluster.online_kmeans import OnlineKMeans

__all__ = [
    "CollapsedDPMeans",
    "DPMeans",
    "DPMedoids",
    "EllipticalMeans",
    "KMeans",
    "KMedoids",
    "OnlineDPMeans",
    "OnlineKMeans",
]
