"""KJ 6.2, scalability: a descriptor of 128 numbers for each of 312,320 image patches."""

import argparse
import warnings

import numpy as np
from common import need, timed, write

from madbayes import DPMeans, penalties
from madbayes.gibbs.dp_sampler import dp_mixture

ROWS = 312_320
PROTOCOL = """SIFT descriptors of 20 photographs, as many rows and columns as the paper's Photo
Tourism patches (which may not be had here; so only sizes and times compare). DP-means as printed,
rows in the given order, λ by farthest-first from "hint", until a pass changes nothing. Seconds are
of this process on the processor, all threads together. Gibbs: sweeps from the clusters that DP-
means found, columns centred, σ the mean squared error per column, α=1, on the first "gibbs_rows"
rows; a sweep's time is scaled to all rows."""


def descriptors():
    parts = [np.load(need(f"sift/{name}_sift.npz"))["X"] for name in ("landscapes", "sacre_coeur")]
    return np.vstack(parts).astype(np.float32)


def gibbs(X, model, rows):
    """Seconds of one sweep over the first rows, and clusters after it."""
    part = X[:rows].astype(np.float64)
    part -= part.mean(axis=0)
    sigma = model.inertia_ / X.size

    def sweep(n):
        sampler = dp_mixture(part[:n], rho=100.0, sigma=sigma, log_alpha=0.0)
        labels = np.unique(model.labels_[:n], return_inverse=True)[1]
        return sampler.step(np.random.default_rng(0), sampler.init(labels))[1]

    sweep(50)  # compile
    seconds, info = timed(lambda: sweep(rows))
    return seconds, len(info.sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hint", type=int, default=100)
    parser.add_argument("--gibbs-rows", type=int, default=20_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X = descriptors()
    DPMeans(1e5, algorithm="paper", max_iter=2).fit(X[:2000])  # compile
    penalty = penalties.farthest_first(X, options.hint)
    seconds, model = timed(lambda: DPMeans(penalty, algorithm="paper", max_iter=500).fit(X))
    print(model.n_clusters_, model.n_iter_, seconds, flush=True)
    sweep, k = gibbs(X, model, options.gibbs_rows)
    whole = sweep * ROWS / options.gibbs_rows
    result = {
        "rows": len(X),
        "columns": X.shape[1],
        "DP-means": {
            "seconds_per_pass": round(seconds / model.n_iter_, 3),
            "passes": model.n_iter_,
            "seconds": round(seconds, 1),
            "converged": model.converged_,
            "n_clusters": model.n_clusters_,
            "penalty": penalty,
        },
        "seconds_per_pass": round(seconds / model.n_iter_, 3),
        "passes": model.n_iter_,
        "Gibbs": {
            "seconds_per_sweep": round(whole, 1),
            "sweeps_per_second": 1 / whole,
            "gibbs_rows": options.gibbs_rows,
            "n_clusters": k,
        },
        "paper": {"seconds_per_pass": 37.9, "passes": 63, "Gibbs": {"seconds_per_sweep": 29.4}},
    }
    write("kj_scale", PROTOCOL, result, hint=options.hint)


if __name__ == "__main__":
    main()
