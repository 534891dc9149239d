"""Clusters of any shape: NeighborCut against HDBSCAN, Leiden, Louvain, spectral and DPMeans.

Shapes and noise of a few sizes, digits, and the sets of `shapes_any` when MADBAYES_DATA names the
folder: number of clusters, adjusted Rand index (rows labelled 0 left out), time of the fit. Leiden
and Louvain (igraph, for this script only) cut the same graph of 15 neighbours by modularity;
spectral clustering is told the true number.
"""

import gzip

import numpy as np
from common import data_folder, in_process, main, say, seconds, stamp, table, timed

CONTENDERS = {
    "cut": "madbayes `NeighborCut()`",
    "dp": "madbayes `DPMeans()`",
    "hdbscan": "scikit-learn `HDBSCAN()`",
    "leiden": "igraph Leiden, modularity",
    "louvain": "igraph Louvain, modularity",
    "spectral": "scikit-learn `SpectralClustering`, told the number",
}
SLOW = {"spectral": 5_000, "hdbscan": 50_000}  # rows above which one is left out
SHAPES = ("moons", "circles", "blobs", "density", "noise")


def generated(name, n):
    from sklearn.datasets import make_blobs, make_circles, make_moons

    r = np.random.default_rng(0)
    if name == "moons":
        return make_moons(n, noise=0.08, random_state=0)
    if name == "circles":
        return make_circles(n, noise=0.05, factor=0.5, random_state=0)
    if name == "blobs":
        return make_blobs(n, centers=10, n_features=20, cluster_std=2.5, random_state=0)
    if name == "density":
        return make_blobs(n, centers=3, cluster_std=[1, 2.5, 0.5], random_state=170)
    return r.normal(size=(n, 5)), np.zeros(n, int)


def rows_of(task):
    """(rows, labels); the label -1 is noise."""
    if task["n"]:
        return generated(task["set"], task["n"])
    if task["set"] == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    with gzip.open(data_folder() / "shapes_any" / f"{task['set']}.csv.gz", "rt") as stream:
        values = np.loadtxt(stream, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1].astype(int) - 1


def contender(who, X, k):
    """A function that does the fit."""
    if who in ("cut", "dp"):
        from madbayes import DPMeans, NeighborCut

        model = (NeighborCut if who == "cut" else DPMeans)(random_state=0)
        model.fit(X[:200])  # loads and compiles
        return lambda: model.fit(X).labels_
    if who == "hdbscan":
        from sklearn.cluster import HDBSCAN

        return lambda: HDBSCAN(copy=True).fit(X).labels_
    if who == "spectral":
        from sklearn.cluster import SpectralClustering

        spectral = SpectralClustering(k, affinity="nearest_neighbors", random_state=0)
        return lambda: spectral.fit(X).labels_
    import igraph
    from sklearn.neighbors import kneighbors_graph

    def modularity():
        A = kneighbors_graph(X, 15)
        u, v = (A + A.T).nonzero()
        graph = igraph.Graph(n=len(X), edges=np.c_[u, v][u < v])
        if who == "louvain":
            return np.array(graph.community_multilevel().membership)
        found = graph.community_leiden(objective_function="modularity", n_iterations=2)
        return np.array(found.membership)

    return modularity


def worker(task):
    from sklearn.metrics import adjusted_rand_score

    X, truth = rows_of(task)
    known = truth >= 0
    true_k = len(np.unique(truth[known]))
    time, labels = timed(contender(task["who"], X, true_k), 1)
    return {
        "rows": len(X),
        "true_k": true_k,
        "time": time,
        "k": len(np.unique(labels[labels >= 0])),
        "ari": adjusted_rand_score(truth[known], labels[known]),
    }


def installed():
    try:
        import igraph  # noqa: F401
    except ImportError:
        return {who: name for who, name in CONTENDERS.items() if who not in ("leiden", "louvain")}
    return CONTENDERS


def compare(title, sets, contenders):
    got = {who: [] for who in contenders}
    for name, n in sets:
        say(f"   {title}: {name}")
        for who in contenders:
            if n <= SLOW.get(who, np.inf):
                task = {"set": name, "n": n, "who": who}
                got[who].append(in_process(__file__, task))
    rows = [
        [
            contenders[who],
            f"{np.mean([r['ari'] for r in found]):.3f}",
            f"{sum(r['k'] == r['true_k'] for r in found)} of {len(found)}",
            " ".join(f"{r['k']}" for r in found),
            seconds(sum(r["time"] for r in found)),
        ]
        for who, found in got.items()
        if found
    ]
    columns = ["", "mean adjusted Rand", "exact number", "clusters found", "time, all sets"]
    true = " ".join(str(r["true_k"]) for r in got["cut"])
    return f"**{title}** (true numbers: {true})\n\n{table(columns, rows)}"


def measure(quick):
    contenders = installed()
    parts = [stamp()]
    for n in (2_000,) if quick else (2_000, 20_000):
        sets = [(name, n) for name in SHAPES]
        parts.append(compare(f"{', '.join(SHAPES)}, {n:,} rows", sets, contenders))
    real = [("digits", 0)]
    if data_folder() is not None and not quick:
        folder = data_folder() / "shapes_any"
        real += [(path.name.split(".")[0], 0) for path in sorted(folder.glob("*.csv.gz"))]
    parts.append(compare("digits and shapes_any", real, contenders))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(measure, worker, __doc__)
