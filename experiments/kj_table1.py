"""KJ Table 1: eight UCI sets; DP-means, k-means and Gibbs sampling against the classes.

The Gibbs runs are as long as in the paper; `--sweeps 200 500` is quick.
"""

import argparse

import numpy as np
from common import UCI, nmi, uci, write
from joblib import Parallel, delayed
from sklearn.cluster import KMeans as SklearnKMeans

from madbayes import DPMeans, penalties
from madbayes.gibbs import DPMixtureGibbs

RUNS = 10
PAPER = {
    "Wine": (0.41, 0.43, 0.42),
    "Iris": (0.75, 0.76, 0.73),
    "Pima": (0.02, 0.03, 0.02),
    "Soybean": (0.72, 0.66, 0.73),
    "Car": (0.07, 0.05, 0.15),
    "Balance Scale": (0.17, 0.11, 0.14),
    "Breast Cancer": (0.04, 0.03, 0.04),
    "Vehicle": (0.18, 0.18, 0.17),
}
SIGMAS = (0.1, 0.3, 0.6)  # parts of the mean variance of the columns
ALPHAS = (0.01, 1.0)
VALIDATION = (100, 250)  # sweeps before, and from which every 10th is taken
PROTOCOL = """Raw attributes, categories as ordinal numbers, rows with missing values left out
(Soybean: the train file of the large set; Breast Cancer: Ljubljana). 10 runs, each on a random 70 %
of the rows in random order; NMI with the classes, averaged over the runs. DP-means: Algorithm 1 as
printed from one cluster, rows visited in that order, λ by farthest-first from the number of classes
on the same rows, a row opens a cluster when its squared distance is > λ. k-means: from k rows drawn
at random, one start, k the number of classes. Gibbs: columns centred, ρ=100, σ and α from a grid by
NMI on the other 30 % (100 + 250 sweeps), then burn-in and sweeps as given in "sweeps", every
10th kept, NMI averaged over the kept samples. search: "farthest-first" with the number of classes
as its hint, the number that the search then aims at. search, same penalty: the search at the very λ
of the DP-means column, where whole groups repay it, so that there are more clusters. auto: nothing
given."""


def parts(n, run):
    """70 % for clustering and 30 % for validation, in random order."""
    order = np.random.default_rng(run).permutation(n)
    cut = round(0.7 * n)
    return order[:cut], order[cut:]


def gibbs(X, y, sigma, alpha, sweeps, seed):
    """Mean NMI of every 10th sample, and the mean number of clusters."""
    burn_in, n_iter = sweeps
    model = DPMixtureGibbs(
        sigma, alpha=alpha, n_iter=n_iter, burn_in=burn_in, thin=10, random_state=seed, n_jobs=1
    ).fit(X - X.mean(axis=0))
    value = np.mean([nmi(y, labels) for labels in model.label_samples_])
    return value, model.n_clusters_samples_.mean()


def validated_gibbs(X, y, rest, run):
    """σ and α chosen on the other rows."""
    spread = X[rest].var(axis=0).mean()
    grid = [(part * spread, alpha) for part in SIGMAS for alpha in ALPHAS]
    score = [gibbs(X[rest], y[rest], *pair, VALIDATION, run)[0] for pair in grid]
    return grid[int(np.argmax(score))]


def one_run(X, y, run, sweeps):
    """name: (NMI, number of clusters)."""
    rows, rest = parts(len(X), run)
    A, b = X[rows], y[rows]
    k = len(np.unique(y))
    penalty = penalties.farthest_first(A, k, n_jobs=1)
    common = {"random_state": run, "n_jobs": 1}
    models = {
        "DP-means": DPMeans(penalty, algorithm="paper", **common),
        "k-means": SklearnKMeans(k, init="random", n_init=1, random_state=run),
        "search": DPMeans("farthest-first", n_clusters_hint=k, **common),
        "search, same penalty": DPMeans(penalty, **common),
        "auto": DPMeans(**common),
    }
    found, objective = {}, {}
    for name, model in models.items():
        labels = model.fit(A).labels_
        found[name] = nmi(b, labels), len(np.unique(labels))
        objective[name] = getattr(model, "objective_", None)
    if sweeps[1]:
        pair = validated_gibbs(X, y, rest, run)
        found["Gibbs"] = gibbs(A, b, *pair, sweeps, run)
    gap = objective["DP-means"] / objective["search, same penalty"] - 1
    return found, penalty, gap


def all_rows(X, y):
    """DP-means on all rows, as the file has them and in random order; and λ beside the farthest."""
    penalty = penalties.farthest_first(X, len(np.unique(y)), n_jobs=1)
    found = {"penalty": penalty, "farthest": float(((X - X.mean(axis=0)) ** 2).sum(axis=1).max())}
    for order in ("given", "random"):
        model = DPMeans(penalty, algorithm="paper", order=order, random_state=0, n_jobs=1).fit(X)
        found[f"{order} order"] = {"nmi": nmi(y, model.labels_), "n_clusters": model.n_clusters_}
    return found


def one_set(name, sweeps, gibbs_runs):
    X, y = uci(name)
    runs = [one_run(X, y, run, sweeps if run < gibbs_runs else (0, 0)) for run in range(RUNS)]
    result = {}
    for method in runs[0][0]:
        values = [found[method] for found, _, _ in runs if method in found]
        value, k = np.mean(values, axis=0)
        result[method] = {"nmi": value, "n_clusters": k, "runs": len(values)}
    # Plain numbers under the paper's names, the rest beside them.
    flat = {method: round(result[method]["nmi"], 4) for method in result}
    return {
        **flat,
        "n_clusters": {method: round(r["n_clusters"], 1) for method, r in result.items()},
        "runs": {method: r["runs"] for method, r in result.items()},
        "all rows": all_rows(X, y),
        "rows": len(X),
        "columns": X.shape[1],
        "classes": len(np.unique(y)),
        "mean_penalty": np.mean([penalty for _, penalty, _ in runs]),
        "objective_of_paper_above_search_same_penalty": np.mean([gap for _, _, gap in runs]),
        "paper": dict(zip(("DP-means", "k-means", "Gibbs"), PAPER[name], strict=True)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", nargs=2, type=int, default=(1000, 5000), help="burn-in, sweeps")
    parser.add_argument("--gibbs-runs", type=int, default=10, help="of the 10 runs")
    options = parser.parse_args()
    tasks = [delayed(one_set)(name, options.sweeps, options.gibbs_runs) for name in UCI]
    result = dict(zip(UCI, Parallel(n_jobs=-1)(tasks), strict=True))
    for name, found in result.items():
        print(name, {m: v for m, v in found.items() if isinstance(v, float)})
    sweeps = {"burn_in": options.sweeps[0], "kept_from": options.sweeps[1], "every": 10}
    sweeps["paper"] = {"burn_in": 1000, "kept_from": 5000, "every": 10}
    sizes = {"runs": RUNS, "gibbs_runs": options.gibbs_runs, "seeds": "0 to 9"}
    write("kj_table1", PROTOCOL, result, sweeps=sweeps, **sizes)


if __name__ == "__main__":
    main()
