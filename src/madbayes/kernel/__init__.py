"""Clusters in the space of a kernel, and their spectral relaxation."""

from madbayes.kernel.kernel_dp_means import KernelDPMeans
from madbayes.kernel.spectral_dp_means import SpectralDPMeans

__all__ = ["KernelDPMeans", "SpectralDPMeans"]
