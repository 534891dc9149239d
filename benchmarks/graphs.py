"""Communities of graphs: GraphCut against Leiden, Louvain and Infomap (igraph) and METIS (pymetis).

Planted graphs, and real ones with known labels when MADBAYES_DATA names the folder. For each: the
number of clusters, the agreement with the labels (normalized mutual information), the normalized
cut, the objective at one resolution for all, and the time of the fit without building the graph.
Graphs of Lancichinetti, Fortunato & Radicchi 2008 (LFR, by networkx) at several mixings have one
table, with the mutual information adjusted for chance: at high mixings many small clusters agree
with any labels. igraph, networkx and pymetis are installed for this script only; what is missing is
left out.
"""

import gzip
import random

import numpy as np
import scipy.sparse as sp
from common import data_folder, in_process, main, peak_memory, say, seconds, stamp, table, timed

REAL = ("karate", "dolphins", "polbooks", "football", "email_eu_core", "facebook_pages")
CONTENDERS = {
    "auto": "madbayes `GraphCut()`",
    "fixed": "madbayes `GraphCut(0.5)`",
    "leiden": "igraph Leiden, modularity",
    "louvain": "igraph Louvain, modularity",
    "infomap": "igraph Infomap",
    "metis": "METIS, told the true number",
}

# Graphs


def planted(n, k, degree, mixing, seed=0):
    """(adjacency, labels): k communities of equal size, `mixing` of the edges anywhere."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % k)
    members = np.argsort(labels, kind="stable").reshape(k, -1)
    u = rng.integers(0, n, n * degree // 2)
    v = members[labels[u], rng.integers(0, n // k, u.size)]
    anywhere = rng.random(u.size) < mixing
    v[anywhere] = rng.integers(0, n, anywhere.sum())
    return undirected(u, v, n), labels


def undirected(u, v, n):
    apart = u != v
    u, v = u[apart], v[apart]
    A = sp.coo_array((np.ones(2 * u.size), (np.r_[u, v], np.r_[v, u])), shape=(n, n)).tocsr()
    A.data[:] = 1  # an edge drawn twice is one edge
    return A


def real(name):
    folder = data_folder() / "graphs"
    u, v = np.loadtxt(folder / f"{name}.edges.txt.gz", dtype=np.int64).T
    with gzip.open(folder / f"{name}.labels.csv.gz", "rt") as stream:
        labels = [line.strip().split(",")[1] for line in stream][1:]
    return undirected(u, v, len(labels)), np.unique(labels, return_inverse=True)[1]


def lfr(n, mixing, seed=0):
    """A graph with degrees and communities of unequal sizes (20 to 100 nodes, mean degree 15)."""
    import networkx

    while True:  # the generator gives up on some seeds
        try:
            graph = networkx.LFR_benchmark_graph(
                n, 3, 1.5, mixing, average_degree=15, max_degree=50,
                min_community=20, max_community=100, max_iters=2000, seed=seed,
            )  # fmt: skip
            break
        except networkx.ExceededMaxIterations:
            seed += 1
    first = [min(graph.nodes[i]["community"]) for i in range(n)]
    u, v = np.array(graph.edges).T
    return undirected(u, v, n), np.unique(first, return_inverse=True)[1]


def graph_of(task):
    graph = task["graph"]
    return real(graph) if isinstance(graph, str) else planted(*graph)


# The contenders: adjacency -> labels


def contender(who, A, k):
    """A function that does the fit; the graph is built before the clock starts."""
    if who in ("auto", "fixed"):
        from madbayes import GraphCut

        model = GraphCut("auto" if who == "auto" else 0.5, random_state=0)
        model.fit(planted(200, 4, 8, 0.2)[0])  # loads and compiles
        return lambda: model.fit(A).labels_
    if who == "metis":
        import pymetis

        lists = pymetis.CSRAdjacency(A.indptr, A.indices)
        return lambda: np.array(pymetis.part_graph(k, adjacency=lists)[1])
    import igraph

    rows, columns = sp.triu(A, 1).coords
    graph = igraph.Graph(n=A.shape[0], edges=np.c_[rows, columns])
    random.seed(0)
    if who == "leiden":
        return lambda: np.array(
            graph.community_leiden(objective_function="modularity", n_iterations=2).membership
        )
    if who == "infomap":
        return lambda: np.array(graph.community_infomap().membership)
    return lambda: np.array(graph.community_multilevel().membership)


def compare_on_lfr(n, mixing, contenders):
    """For each contender: clusters, adjusted mutual information, CPU seconds."""
    import time

    from sklearn.metrics import adjusted_mutual_info_score

    A, truth = lfr(n, mixing)
    found = {}
    for who in contenders:
        fit = contender(who, A, len(np.unique(truth)))
        start = time.process_time()
        labels = fit()
        cpu = time.process_time() - start
        agreement = adjusted_mutual_info_score(truth, labels)
        found[who] = [len(np.unique(labels)), agreement, cpu]
    return {"true": len(np.unique(truth)), "edges": A.nnz // 2, **found}


def worker(task):
    from sklearn.metrics import normalized_mutual_info_score

    if "lfr" in task:
        return compare_on_lfr(*task["lfr"])
    A, truth = graph_of(task)
    degree = np.asarray(A.sum(axis=1)).ravel()
    fit = contender(task["who"], A, len(np.unique(truth)))
    before = peak_memory()
    time, labels = timed(fit, task["repeats"])
    used = degree > 0  # isolated nodes belong nowhere
    labels = np.unique(labels[used], return_inverse=True)[1]
    inside = sp.coo_array(A[used][:, used])
    same = labels[inside.row] == labels[inside.col]
    kept = np.bincount(labels[inside.row], weights=inside.data * same)
    conductance = 1 - kept / np.bincount(labels, weights=degree[used])
    return {
        "time": time,
        "memory": peak_memory() - before,
        "edges": A.nnz // 2,
        "k": int(labels.max()) + 1,
        "true_k": len(np.unique(truth)),
        "nmi": normalized_mutual_info_score(truth[used], labels),
        "cut": float(conductance.sum()),
    }


# The tables


def installed():
    found = dict(CONTENDERS)
    for module, names in (("igraph", ("leiden", "louvain", "infomap")), ("pymetis", ("metis",))):
        try:
            __import__(module)
        except ImportError:
            for name in names:
                del found[name]
    return found


def there_is(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def compare(title, graph, repeats, contenders):
    say(f"   {title}")
    got = {
        who: in_process(__file__, {"graph": graph, "who": who, "repeats": repeats})
        for who in contenders
    }
    rows = [
        [
            name,
            got[who]["k"],
            f"{got[who]['nmi']:.3f}",
            f"{got[who]['cut']:.2f}",
            f"{got[who]['cut'] - 0.5 * got[who]['k']:.2f}",
            seconds(got[who]["time"]),
            f"{got[who]['memory'] / 2**20:.0f} MiB",
        ]
        for who, name in contenders.items()
    ]
    any_of_them = next(iter(got.values()))
    head = f"**{title}**: {any_of_them['edges']:,} edges, {any_of_them['true_k']} communities"
    columns = ["", "clusters", "NMI", "cut", "cut - 0.5 × clusters", "time", "memory"]
    return f"{head}\n\n{table(columns, rows)}"


def lfr_table(n, mixings, contenders):
    names = {who: CONTENDERS[who] for who in ("auto", "leiden", "infomap") if who in contenders}
    rows = []
    for mixing in mixings:
        say(f"   LFR, {n:,} nodes, mixing {mixing}")
        got = in_process(__file__, {"lfr": [n, mixing, list(names)]})
        cells = [f"{k}, {ami:.2f}, {seconds(cpu)}" for k, ami, cpu in (got[who] for who in names)]
        rows.append([mixing, got["true"], *cells])
    head = f"**LFR, {n:,} nodes**: clusters, adjusted mutual information, CPU time"
    return f"{head}\n\n{table(['mixing', 'communities', *names.values()], rows)}"


def measure(quick):
    contenders = installed()
    parts = [stamp()]
    sizes = [(10_000, 100)] if quick else [(10_000, 100), (100_000, 1000), (400_000, 4000)]
    for n, k in sizes:
        title = f"planted, {n:,} nodes, mixing 0.3"
        parts.append(compare(title, [n, k, 20, 0.3], 1, contenders))
    if there_is("networkx"):
        mixings = (0.4,) if quick else (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
        parts.extend(
            lfr_table(n, mixings, contenders) for n in ((1_000,) if quick else (1_000, 10_000))
        )
    if data_folder() is not None:
        for name in REAL[:2] if quick else REAL:
            parts.append(compare(name, name, 3, contenders))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(measure, worker, __doc__)
