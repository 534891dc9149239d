"""Kernels and spectra: KernelDPMeans and SpectralDPMeans beside scikit-learn and DPMeans.

scikit-learn's SpectralClustering is told the number of clusters. Every fit runs in a process of its
own, after a small fit that loads and compiles what is needed.
"""

import numpy as np
from common import (
    data_folder,
    in_process,
    main,
    mixture,
    objective,
    say,
    seconds,
    stamp,
    table,
    timed,
)


def rings(n, seed=0):
    rng = np.random.default_rng(seed)
    angle, truth = rng.uniform(0, 2 * np.pi, n), np.arange(n) % 2
    radius = np.where(truth == 0, 1.0, 5.0)
    rows = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
    return rows + rng.normal(0, 0.15, rows.shape), truth


def digits():
    name = "images/digits8x8.csv.gz"
    values = np.loadtxt(data_folder() / name, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1].astype(int)


DATA = {
    "rings": rings,
    "mixture": lambda n: mixture(n, 10, 8, gap=6, dtype=np.float64),
    "wide mixture": lambda n: mixture(n, 100, 20, gap=6, dtype=np.float64),
    "digits": lambda n: digits(),
}


def estimators(task, penalty):
    from sklearn.cluster import SpectralClustering

    from madbayes import DPMeans, KernelDPMeans, SpectralDPMeans

    gamma, k = task["gamma"], task["k"]
    return {
        "DPMeans": DPMeans(penalty, random_state=0),
        "SpectralDPMeans, linear": SpectralDPMeans(penalty, random_state=0),
        "KernelDPMeans, rbf": KernelDPMeans(penalty, gamma=gamma, random_state=0),
        "SpectralDPMeans, rbf": SpectralDPMeans(penalty, kernel="rbf", gamma=gamma, random_state=0),
        "SpectralClustering, rbf": SpectralClustering(k, gamma=gamma, random_state=0),
        "SpectralDPMeans, neighbours": SpectralDPMeans(kernel="nearest_neighbors", random_state=0),
        "SpectralClustering, neighbours": SpectralClustering(
            k, affinity="nearest_neighbors", random_state=0
        ),
    }


def worker(task):
    import warnings

    from sklearn.metrics import normalized_mutual_info_score

    warnings.simplefilter("ignore")  # a graph in several pieces
    rows, truth = DATA[task["data"]](task["rows"])
    estimators(task, task["penalty"])[task["who"]].fit(rows[:: max(1, len(rows) // 400)])
    model = estimators(task, task["penalty"])[task["who"]]
    best, _ = timed(lambda: model.fit(rows))
    return {
        "seconds": best,
        "k": int(model.labels_.max()) + 1,
        "nmi": float(normalized_mutual_info_score(truth, model.labels_)),
        "objective": score(rows, model.labels_, task),
        "bound": getattr(model, "relaxed_bound_", None),
    }


def score(rows, labels, task):
    """The objective of anybody's labels: in kernel space for rbf, that of DP-means otherwise."""
    if "rbf" not in task["who"]:
        return None if "neighbours" in task["who"] else objective(rows, labels, task["penalty"])
    norms = (rows**2).sum(axis=1)
    saved = 0.0
    for c in np.unique(labels):
        part, own = rows[labels == c], norms[labels == c]
        distance = own[:, None] + own - 2 * part @ part.T
        saved += np.exp(-task["gamma"] * np.maximum(distance, 0)).sum() / len(part)
    return float(len(rows) - saved + task["penalty"] * len(np.unique(labels)))


def compare(data, n, k, gamma, penalties):
    lines = []
    for who, penalty in penalties.items():
        task = {"data": data, "rows": n, "k": k, "gamma": gamma, "penalty": penalty, "who": who}
        got = in_process(__file__, task)
        say(f"  {who}: {got}")
        bound = got["bound"]
        lines.append(
            [
                who,
                seconds(got["seconds"]),
                f"{got['k']}{' (given)' if 'Clustering' in who else ''}",
                f"{got['nmi']:.3f}",
                "" if got["objective"] is None else f"{got['objective']:.6g}",
                "" if bound is None or got["objective"] is None else f"{bound:.6g}",
            ]
        )
    header = ["estimator", "time", "clusters", "NMI", "objective", "lower bound"]
    return f"**{data}, {n:,} rows, {k} classes**\n\n{table(header, lines)}"


def measure(quick):
    parts = [stamp()]
    rbf = ["KernelDPMeans, rbf", "SpectralDPMeans, rbf", "SpectralClustering, rbf"]
    graph = ["SpectralDPMeans, neighbours", "SpectralClustering, neighbours"]
    linear = ["DPMeans", "SpectralDPMeans, linear"]
    n = 500 if quick else 2_000
    penalties = dict.fromkeys(rbf, n / 10) | dict.fromkeys(graph, 0.0)
    say("rings")
    parts.append(compare("rings", n, 2, 0.1, penalties))
    n = 500 if quick else 5_000
    penalties = dict.fromkeys(linear, n / 2) | dict.fromkeys(rbf, n / 100) | dict.fromkeys(graph, 0)
    say("mixture")
    parts.append(compare("mixture", n, 8, 0.02, penalties))
    if data_folder() is not None:
        penalties = dict.fromkeys(linear, 20_000.0) | dict.fromkeys(rbf, 12.0)
        say("digits")
        parts.append(compare("digits", 1797, 10, 0.001, penalties | dict.fromkeys(graph, 0)))
    n = 10_000 if quick else 100_000
    say("wide mixture")
    parts.append(compare("wide mixture", n, 20, 0.01, dict.fromkeys(linear, n / 1.0)))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(measure, worker, __doc__)
