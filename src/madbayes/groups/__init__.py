"""Clusters shared by many data sets."""

from madbayes.groups.hard_hdp import HardHDP
from madbayes.groups.kernel_hard_hdp import KernelHardHDP

__all__ = ["HardHDP", "KernelHardHDP"]
