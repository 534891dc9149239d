"""KJ 6.3: 50 small data sets that share 15 Gaussians."""

import argparse
import warnings

import numpy as np
from common import canvas, keep, nmi, timed, write
from sklearn.cluster import KMeans as SklearnKMeans

from madbayes import DPMeans, HardHDP, penalties
from madbayes.plots._palette import COLORS

SETS, GAUSSIANS, USED, EACH = 50, 15, 5, 5
PROTOCOL = """Means of 15 Gaussians uniform in the unit square, covariance .01 I; 50 data sets of 25
rows, 5 rows from each of 5 Gaussians. NMI with the Gaussians within each data set, averaged over
the sets and the seeds. Penalties by farthest-first from 5 (local) and 15 (global). HDP: Algorithm 2
as printed, rows in the given order, empty clusters dropped and local clusters of a set that point
to the same global one merged after each pass. HDP search: exact search, the same hints. k-means
(10 starts) and DP-means as printed, on all rows at once (15) and on each set (5). Seconds are of
one core, median over the seeds."""
PAPER = {
    "HDP": {"nmi": 0.81, "g": 17, "mean_k_j": 4.4, "seconds": 28.8},
    "k-means all": {"nmi": 0.77, "seconds": 2.7},
    "DP-means all": {"nmi": 0.73},
    "k-means each": {"nmi": 0.79},
    "DP-means each": {"nmi": 0.79},
}


def shared_gaussians(seed):
    rng = np.random.default_rng(seed)
    means = rng.uniform(size=(GAUSSIANS, 2))
    picks = [rng.choice(GAUSSIANS, USED, replace=False) for _ in range(SETS)]
    truth = np.concatenate([np.repeat(pick, EACH) for pick in picks])
    groups = np.repeat(np.arange(SETS), USED * EACH)
    return means[truth] + 0.1 * rng.standard_normal((len(truth), 2)), groups, truth


def each(fit, X, groups):
    """Labels of every data set on its own."""
    labels = np.empty(len(X), dtype=np.int64)
    for j in range(SETS):
        labels[groups == j] = fit(X[groups == j])
    return labels


def methods(seed):
    """name: (X, groups) -> labels."""
    first = {"penalty_local": "farthest-first", "penalty_global": "farthest-first"}
    hints = {"n_local_hint": USED, "n_global_hint": GAUSSIANS}

    def kmeans(k):
        return lambda X: SklearnKMeans(k, n_init=10, random_state=seed).fit(X).labels_

    def dp_means(k):
        def fit(X):
            penalty = penalties.farthest_first(X, k, n_jobs=1)
            return DPMeans(penalty, algorithm="paper", n_jobs=1).fit(X).labels_

        return fit

    def hdp(**options):
        model = HardHDP(random_state=seed, n_jobs=1, **options)
        return lambda X, groups: model.fit(X, groups=groups).labels_

    return {
        "HDP": hdp(algorithm="paper", **first, **hints),
        "HDP search": hdp(**hints),
        "HDP auto": hdp(),
        "k-means all": lambda X, groups: kmeans(GAUSSIANS)(X),
        "DP-means all": lambda X, groups: dp_means(GAUSSIANS)(X),
        "k-means each": lambda X, groups: each(kmeans(USED), X, groups),
        "DP-means each": lambda X, groups: each(dp_means(USED), X, groups),
    }


def measure(seeds):
    kept = {}
    for seed in range(seeds):
        X, groups, truth = shared_gaussians(seed)
        for name, fit in methods(seed).items():
            seconds, labels = timed(lambda fit=fit, X=X, groups=groups: fit(X, groups))
            within = np.mean([nmi(truth[groups == j], labels[groups == j]) for j in range(SETS)])
            k = np.mean([len(np.unique(labels[groups == j])) for j in range(SETS)])
            kept.setdefault(name, []).append((within, len(np.unique(labels)), k, seconds))
        print(seed, {name: round(v[-1][0], 3) for name, v in kept.items()}, flush=True)
    result = {}
    for name, values in kept.items():
        value, g, k, seconds = np.array(values).T
        result[name] = {
            "nmi": value.mean(),
            "nmi_from_to": [value.min(), value.max()],
            "g": None if "each" in name else g.mean(),
            "mean_k_j": k.mean(),
            "seconds": round(float(np.median(seconds)), 3),
        }
        if name in PAPER:
            result[name]["paper"] = PAPER[name]
    return result


def draw():
    X, groups, truth = shared_gaussians(0)
    model = HardHDP(n_local_hint=USED, n_global_hint=GAUSSIANS, random_state=0, n_jobs=1)
    labels = model.fit(X, groups=groups).labels_
    figure, (axes,) = canvas(1, 3, figsize=(12, 4), sharex=True, sharey=True)
    one = groups == 0
    panels = {"one data set, true Gaussians": (one, truth), "the same, as found": (one, labels)}
    panels["all 50 data sets, as found"] = (groups >= 0, labels)
    for ax, (title, (rows, values)) in zip(axes, panels.items(), strict=True):
        ax.scatter(*X.T, s=2, c="#dddddd")
        ax.scatter(*X[rows].T, s=14, c=np.array(COLORS)[values[rows] % len(COLORS)])
        ax.set_title(title)
    keep(figure, "kj_hdp")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")  # passes that run out are part of the comparison
    write("kj_hdp", PROTOCOL, measure(seeds), seeds=f"0 to {seeds - 1}", n_seeds=seeds)
    draw()


if __name__ == "__main__":
    main()
