"""Clusterings of rows: one algorithm, one file."""

from madbayes.cluster.dp_means import DPMeans
from madbayes.cluster.kernel_dp_means import KernelDPMeans
from madbayes.cluster.kmeans import KMeans
from madbayes.cluster.spectral_dp_means import SpectralDPMeans

__all__ = ["DPMeans", "KMeans", "KernelDPMeans", "SpectralDPMeans"]
