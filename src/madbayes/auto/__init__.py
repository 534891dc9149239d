"""Clusters of any shape, the shape chosen by the data."""

from madbayes.auto.auto_cluster import AutoCluster

__all__ = ["AutoCluster"]
