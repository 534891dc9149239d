"""Rows as sums of features: one algorithm, one file."""

from madbayes.features.bp_means import BPMeans
from madbayes.features.collapsed import CollapsedBPMeans
from madbayes.features.kfeatures import KFeatures
from madbayes.features.stepwise import StepwiseKFeatures

__all__ = ["BPMeans", "CollapsedBPMeans", "KFeatures", "StepwiseKFeatures"]
