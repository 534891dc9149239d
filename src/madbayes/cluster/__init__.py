"""Clusterings of rows: one algorithm, one file."""

from madbayes.cluster.dp_means import DPMeans
from madbayes.cluster.dp_medoids import DPMedoids
from madbayes.cluster.elliptical import EllipticalMeans
from madbayes.cluster.kmeans import KMeans
from madbayes.cluster.kmedoids import KMedoids

__all__ = ["DPMeans", "DPMedoids", "EllipticalMeans", "KMeans", "KMedoids"]
