"""Clusters around medoids, for any dissimilarity."""

from madbayes.medoids.dp_medoids import DPMedoids
from madbayes.medoids.kmedoids import KMedoids

__all__ = ["DPMedoids", "KMedoids"]
