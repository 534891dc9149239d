"""Clusters with a covariance of their own."""

from madbayes.elliptical.elliptical_means import EllipticalMeans

__all__ = ["EllipticalMeans"]
