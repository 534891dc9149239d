"""Clusters shared by many data sets."""

from madbayes.multi.hard_hdp import HardHDP
from madbayes.multi.kernel_hard_hdp import KernelHardHDP

__all__ = ["HardHDP", "KernelHardHDP"]
