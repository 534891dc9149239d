"""Samples from posteriors: the models that the rest of this library takes to the limit."""

from madbayes.gibbs.diagnostics import effective_sample_size, r_hat
from madbayes.gibbs.dp_mixture import DPMixtureGibbs
from madbayes.gibbs.ibp import IBPGibbs

__all__ = ["DPMixtureGibbs", "IBPGibbs", "effective_sample_size", "r_hat"]
