"""Clusterings of rows: one algorithm, one file."""

from madbayes.cluster.collapsed_dp_means import CollapsedDPMeans
from madbayes.cluster.dp_means import DPMeans
from madbayes.cluster.dp_medoids import DPMedoids
from madbayes.cluster.elliptical import EllipticalMeans
from madbayes.cluster.kernel_dp_means import KernelDPMeans
from madbayes.cluster.kmeans import KMeans
from madbayes.cluster.kmedoids import KMedoids
from madbayes.cluster.online_dp_means import OnlineDPMeans
from madbayes.cluster.online_kmeans import OnlineKMeans
from madbayes.cluster.spectral_dp_means import SpectralDPMeans

__all__ = [
    "CollapsedDPMeans",
    "DPMeans",
    "DPMedoids",
    "EllipticalMeans",
    "KMeans",
    "KMedoids",
    "KernelDPMeans",
    "OnlineDPMeans",
    "OnlineKMeans",
    "SpectralDPMeans",
]
