"""The limit that leads from a sampler to DP-means, seen happening.

With α = (1 + ρ/σ)^{d/2} exp(-λ/2σ) (Kulis & Jordan 3.1) and variances σ that shrink, the density of
a clustering approaches the objective of DP-means, and what the sampler draws approaches what
DP-means answers. Writes small_variance_limit.png, into the folder given as the only argument or
here.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from sklearn.metrics import adjusted_rand_score

from madbayes import DPMeans
from madbayes.gibbs import DPMixtureGibbs
from madbayes.gibbs.dp_sampler import log_joint, log_marginal
from madbayes.plots._palette import COLORS

PENALTY, RHO = 30.0, 100.0


def log_alpha(sigma, d):
    """KJ 3.1."""
    return d / 2 * np.log1p(RHO / sigma) - PENALTY / (2 * sigma)


def densities(X, model, sigmas):
    """-2σ log P(x, z, μ) and -2σ log P(x, z) of the clusters of DP-means, α as in BKJ 2."""
    z, means = model.labels_, model.cluster_centers_
    for s in sigmas:
        theta = -PENALTY / (2 * s)
        joint = log_joint(X, z, means, s, RHO, theta)
        yield -2 * s * joint, -2 * s * log_marginal(X, z, s, RHO, theta)


def agreement(X, model, sigmas):
    """Adjusted Rand index of the samples with the clusters of DP-means: mean, and 5 % to 95 %."""
    for s in sigmas:
        sampler = DPMixtureGibbs(s, RHO, log_alpha=log_alpha(s, X.shape[1]), random_state=0)
        samples = sampler.set_params(n_iter=100, burn_in=200).fit(X).label_samples_
        index = [adjusted_rand_score(model.labels_, labels) for labels in samples]
        yield np.mean(index), *np.quantile(index, [0.05, 0.95])


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    rng = np.random.default_rng(0)
    X = np.repeat([[-3.0, -1], [3, -1], [0, 4]], 50, axis=0) + 1.2 * rng.normal(size=(150, 2))
    model = DPMeans(PENALTY, algorithm="paper").fit(X)
    goal = model.inertia_ + PENALTY * (model.n_clusters_ - 1)  # BKJ Eq. 3

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    sigmas = np.geomspace(10, 1e-6, 40)
    joint, marginal = np.array(list(densities(X, model, sigmas))).T
    left.plot(sigmas, abs(joint / goal - 1), color=COLORS[0], label="-2σ log P(x, z, μ)")
    left.plot(sigmas, abs(marginal / goal - 1), color=COLORS[1], ls="--", label="-2σ log P(x, z)")
    left.set(yscale="log", ylabel="relative distance from squared error + λ(k - 1)")
    left.set(xlabel="variance σ", title="the density becomes the objective")

    sigmas = np.geomspace(10, 1e-3, 15)
    mean, low, high = np.array(list(agreement(X, model, sigmas))).T
    right.fill_between(sigmas, low, high, color=COLORS[2], alpha=0.25, lw=0, label="5 % to 95 %")
    right.plot(sigmas, mean, color=COLORS[2], label="mean of 100 samples")
    right.set(xlabel="variance σ", title="samples become the answer of DP-means")
    right.set(ylabel="adjusted Rand index with DP-means", ylim=(-0.05, 1.05))
    for ax in (left, right):
        ax.set_xscale("log")
        ax.invert_xaxis()
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "small_variance_limit.png", dpi=120)
    sys.stdout.write(
        f"DP-means: {model.n_clusters_} clusters; agreement at σ=0.001: {mean[-1]:.3f}\n"
    )


if __name__ == "__main__":
    main()
