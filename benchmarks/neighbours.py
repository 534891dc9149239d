"""Clusters of any shape: NeighborCut against HDBSCAN, Leiden, Louvain, spectral and DPMeans.

Generated shapes and noise (`shapes.py`), digits, texts, descriptors of pictures, and the sets of
`shapes_any`, the last three when MADBAYES_DATA names the folder: number of clusters, adjusted Rand
index and mutual information (rows labelled 0 left out), time of the fit. Leiden and Louvain
(igraph, for this script only) cut the graph of 15 neighbours by modularity; spectral clustering is
told the true number. Texts are directions: NeighborCut measures them by the cosine, the others get
rows of length 1. And the exact search for neighbours against scikit-learn's and FAISS's.
"""

import gzip
from importlib.util import find_spec

import numpy as np
from common import data_folder, in_process, main, say, seconds, stamp, table, timed

CONTENDERS = {
    "cut": "madbayes `NeighborCut()`",
    "dp": "madbayes `DPMeans()`",
    "hdbscan": "scikit-learn `HDBSCAN()`",
    "boruvka": "hdbscan `HDBSCAN()`",
    "plscan": "fast_hdbscan `PLSCAN()`",
    "leiden": "igraph Leiden, modularity",
    "louvain": "igraph Louvain, modularity",
    "spectral": "scikit-learn `SpectralClustering`, told the number",
    "genie": "genieclust `Genie`, told the number",
}
TOLD = ("spectral", "genie")
SLOW = {"spectral": 5_000, "hdbscan": 50_000}  # rows above which one is left out
NEEDS = {  # what may be missing
    "boruvka": "hdbscan",
    "plscan": "fast_hdbscan",
    "leiden": "igraph",
    "louvain": "igraph",
    "genie": "genieclust",
}
LARGE = ("moons", "touching", "circles", "squares", "normal, 2 columns")
HUGE = ("moons", "touching")
TEXTS = DESCRIPTORS = 5_000  # rows


def texts():
    """Directions of 20 Newsgroups: TF-IDF, the first 100 singular vectors."""
    import scipy.sparse as sp
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    with np.load(data_folder() / "text" / "20news_bow.npz") as found:
        A = sp.csr_array((found["data"], found["indices"], found["indptr"]), shape=found["shape"])
        y = found["label"].astype(int)
    rows = np.sort(np.random.default_rng(0).choice(len(y), TEXTS, replace=False))
    A = TfidfTransformer(sublinear_tf=True).fit_transform(sp.csr_matrix(A[rows]))
    return normalize(TruncatedSVD(100, random_state=0).fit_transform(A)), y[rows]


def rows_of(name, n):
    """(rows, labels); the label -1 is noise."""
    from shapes import NOISE, SHAPES

    if n:
        number = [*SHAPES, *NOISE].index(name)
        return (SHAPES | NOISE)[name](n, np.random.default_rng(number))
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    if name == "texts":
        return texts()
    if name == "descriptors":
        with np.load(data_folder() / "sift" / "sacre_coeur_sift_10k.npz") as found:
            return found["X"][:DESCRIPTORS].astype(np.float32), np.full(DESCRIPTORS, -1)
    with gzip.open(data_folder() / "shapes_any" / f"{name}.csv.gz", "rt") as stream:
        values = np.loadtxt(stream, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1].astype(int) - 1


def contender(who, X, k, metric):
    """A function that does the fit."""
    if who in ("cut", "dp"):
        from madbayes import DPMeans, NeighborCut

        kind = {"metric": metric} if who == "cut" else {}
        model = (NeighborCut if who == "cut" else DPMeans)(random_state=0, **kind)
        model.fit(X[:200])  # loads and compiles
        return lambda: model.fit(X).labels_
    if who == "hdbscan":
        from sklearn.cluster import HDBSCAN

        return lambda: HDBSCAN(copy=True).fit(X).labels_
    if who == "boruvka":
        from hdbscan import HDBSCAN as Boruvka

        return lambda: Boruvka().fit(X).labels_
    if who == "plscan":
        from fast_hdbscan import PLSCAN

        return lambda: PLSCAN().fit(X).labels_
    if who == "genie":
        from genieclust import Genie

        return lambda: Genie(k).fit(X).labels_
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


def one_set(who, name, n):
    from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

    X, truth = rows_of(name, n)
    known = truth >= 0
    true_k = len(np.unique(truth[known]))
    metric = "cosine" if name == "texts" else "euclidean"
    time, labels = timed(contender(who, X, max(true_k, 1), metric), 1)
    pair = truth[known], labels[known]
    return {
        "true_k": true_k,
        "time": time,
        "k": len(np.unique(labels[labels >= 0])),
        "ari": adjusted_rand_score(*pair) if true_k else None,
        "ami": adjusted_mutual_info_score(*pair) if true_k else None,
    }


def worker(task):
    if task["who"] in SEARCHES:
        return {"time": search_for_neighbours(task["who"])}
    return {"found": [one_set(task["who"], *one) for one in task["sets"]]}


SEARCHES = {
    "madbayes": "madbayes",
    "sklearn": "scikit-learn `NearestNeighbors`, brute force",
    "faiss": "FAISS `IndexFlatL2`",
}


def search_for_neighbours(who):
    """Seconds for the 15 nearest of 20,000 rows of 64 columns, float32, the best of three."""
    X = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float32)
    if who == "madbayes":
        from madbayes.graph.neighbors import Neighbours

        Neighbours(X[:500], "euclidean", None, 0, False).of_themselves(15)  # compiles
        return timed(lambda: Neighbours(X, "euclidean", None, 0, False).of_themselves(15), 3)[0]
    if who == "sklearn":
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=15, algorithm="brute")
        return timed(lambda: search.fit(X).kneighbors(), 3)[0]
    import faiss

    index = faiss.IndexFlatL2(64)
    index.add(X)
    return timed(lambda: index.search(X, 16), 3)[0]


def installed():
    missing = {who for who, package in NEEDS.items() if find_spec(package) is None}
    return {who: name for who, name in CONTENDERS.items() if who not in missing}


def mean(found, key):
    values = [one[key] for one in found if one[key] is not None]
    return f"{np.mean(values):.3f}" if values else ""


def compare(title, sets, contenders, seen):
    """Everybody on some sets, as a table; one process for each. `seen` gets what they found."""
    rows, true = [], ""
    for who, name in contenders.items():
        if max(n for _, n in sets) > SLOW.get(who, np.inf):
            continue
        say(f"   {title}: {name}")
        found = in_process(__file__, {"sets": sets, "who": who})["found"]
        known = [one for one in found if one["true_k"]]
        for (set_name, n), one in zip(sets, found, strict=True):
            seen.setdefault((title, set_name, n), {})[who] = one
        true = " ".join(str(one["true_k"] or "unknown") for one in found)
        exact = f"{sum(one['k'] == one['true_k'] for one in known)} of {len(known)}"
        numbers = " ".join(f"{one['k']}" for one in found)
        time = seconds(sum(one["time"] for one in found))
        rows.append([name, mean(found, "ari"), mean(found, "ami"), exact, numbers, time])
    columns = ["", "adjusted Rand", "adjusted MI", "exact number", "clusters found", "time"]
    names = ", ".join(name for name, _ in sets)
    return f"**{title}**: {names}\n(true numbers: {true})\n\n{table(columns, rows)}"


def summary(contenders, seen):
    """Mean rank by the adjusted Rand index, 1 the best, equals share; and exact numbers. Over the
    sets with labels that everybody did; who is told the number is not ranked."""
    from scipy.stats import rankdata

    ranked = [who for who in contenders if who not in TOLD]
    sets = [x for x in seen.values() if all(who in x and x[who]["true_k"] for who in ranked)]
    ranks = np.mean([rankdata([-round(x[who]["ari"], 3) for who in ranked]) for x in sets], axis=0)
    rows = []
    for who, rank in zip(ranked, ranks, strict=True):
        exact = sum(x[who]["k"] == x[who]["true_k"] for x in sets)
        ari = np.mean([x[who]["ari"] for x in sets])
        rows.append([contenders[who], f"{rank:.2f}", f"{ari:.3f}", f"{exact} of {len(sets)}"])
    head = ["", "mean rank", "mean adjusted Rand", "exact number"]
    return f"**All sets with labels that everybody did**\n\n{table(head, rows)}"


def neighbours_table():
    rows = []
    for who, name in SEARCHES.items():
        say(f"   neighbours: {name}")
        rows.append([name, seconds(in_process(__file__, {"who": who})["time"])])
    title = "**The 15 nearest neighbours of 20,000 rows, 64 columns, exactly**"
    return f"{title}\n\n{table(['', 'time'], rows)}"


def measure(quick):
    from shapes import NOISE, SEEN, UNSEEN

    contenders = installed()
    groups = {
        "shapes that the rules were made with, 2,000 rows": [(name, 2_000) for name in SEEN],
        "other shapes, 2,000 rows": [(name, 2_000) for name in UNSEEN],
        "no clusters, 2,000 rows": [(name, 2_000) for name in NOISE],
    }
    if not quick:
        groups["20,000 rows"] = [(name, 20_000) for name in LARGE]
        groups["200,000 rows"] = [(name, 200_000) for name in HUGE]
    groups["pictures of digits"] = [("digits", 0)]
    if data_folder() is not None and not quick:
        folder = data_folder() / "shapes_any"
        names = [path.name.split(".")[0] for path in sorted(folder.glob("*.csv.gz"))]
        groups["shapes_any"] = [(name, 0) for name in names]
        groups[f"20 Newsgroups, {TEXTS:,} texts"] = [("texts", 0)]
        groups[f"SIFT, {DESCRIPTORS:,} descriptors"] = [("descriptors", 0)]
    seen = {}
    parts = [compare(title, sets, contenders, seen) for title, sets in groups.items()]
    return "\n\n".join([stamp(), summary(contenders, seen), *parts, neighbours_table()])


if __name__ == "__main__":
    main(measure, worker, __doc__)
