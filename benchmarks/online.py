"""Streams and single-row moves: time and objective, side by side.

OnlineKMeans against scikit-learn's MiniBatchKMeans.partial_fit on the same blocks from the same
centres; streams whose number of clusters is not known: OnlineDPMeans against BIRCH, river's
DBSTREAM and MiniBatchKMeans that is told the number; CollapsedDPMeans against DPMeans at the same
penalty.
"""

import warnings
from itertools import product

from common import (
    in_process,
    main,
    mixture,
    objective,
    seconds,
    squared_error,
    stamp,
    starting_rows,
    table,
    timed,
)

BLOCK = 1000
STREAMS = [(200_000, 2, 20), (100_000, 20, 50), (50_000, 128, 500)]
UNKNOWN = [(200_000, 2, 20), (200_000, 20, 50)]
FEW = 2000  # rows, for clusterers in plain Python
TABLES = [(20_000, 2, 20), (20_000, 20, 50)]


def online(rows, start):
    from madbayes import OnlineKMeans

    return OnlineKMeans(len(start), init=start, n_jobs=1)


def mini_batch(rows, start):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(len(start), init=start, n_init=1, random_state=0)


def drawn_rows(rows, k):
    from sklearn.cluster import kmeans_plusplus

    return kmeans_plusplus(rows[: 20 * k], k, random_state=0)[0]


STARTS = {"k-means++ of the first rows": drawn_rows, "random rows": starting_rows}
MODELS = {"madbayes OnlineKMeans": online, "scikit-learn MiniBatchKMeans": mini_batch}


def stream(task):
    rows, _ = mixture(task["n"], task["d"], task["k"], gap=4)
    start = STARTS[task["start"]](rows, task["k"])
    make = MODELS[task["model"]]

    def run(rows):
        model = make(rows, start)
        for first in range(0, len(rows), BLOCK):
            model.partial_fit(rows[first : first + BLOCK])
        return model

    run(rows[: 2 * BLOCK])  # compiles
    took, model = timed(lambda: run(rows), task["repeats"])
    return {"seconds": took, "error": squared_error(rows, model.cluster_centers_)}


def by_blocks(model):
    """A model that has seen the rows, and how it labels them."""

    def run(rows):
        for first in range(0, len(rows), BLOCK):
            model.partial_fit(rows[first : first + BLOCK])
        return model.predict

    return run


def birch(k, d):
    from sklearn.cluster import Birch

    return by_blocks(Birch(threshold=1.4 * d**0.5, n_clusters=None))


def mini_batch_told(k, d):
    from sklearn.cluster import MiniBatchKMeans

    return by_blocks(MiniBatchKMeans(k, n_init=1, random_state=0))


def online_auto(k, d):
    from madbayes import OnlineDPMeans

    return by_blocks(OnlineDPMeans(random_state=0, n_jobs=1))


def river(make):
    def run(rows):
        model = make()
        points = [dict(enumerate(row.tolist())) for row in rows]
        for point in points:
            model.learn_one(point)
        return lambda rows: [model.predict_one(dict(enumerate(row.tolist()))) for row in rows]

    return run


def dbstream(k, d):
    from river.cluster import DBSTREAM

    return river(lambda: DBSTREAM(clustering_threshold=1.4 * d**0.5))


FINDERS = {
    "madbayes OnlineDPMeans()": online_auto,
    "scikit-learn Birch, told the radius": birch,
    "scikit-learn MiniBatchKMeans, told k": mini_batch_told,
    "river DBSTREAM, told the radius": dbstream,
}


def unknown(task):
    from sklearn.metrics import normalized_mutual_info_score

    rows, truth = mixture(task["n"], task["d"], task["k"], gap=6)
    run = FINDERS[task["model"]]
    if task["model"].startswith("river"):
        rows, truth = rows[-FEW:], truth[-FEW:]
    run(task["k"], task["d"])(rows[: 2 * BLOCK])  # compiles
    took, predict = timed(lambda: run(task["k"], task["d"])(rows))
    labels = predict(rows[-FEW:])
    return {
        "rate": len(rows) / took,
        "k": len(set(labels)),
        "nmi": normalized_mutual_info_score(truth[-FEW:], labels),
    }


def penalized(rows, k):
    """Half of what a cluster repays on average, on the way from k/2 to k clusters."""
    from madbayes import KMeans

    errors = [KMeans(m, n_init=2, random_state=0).fit(rows).inertia_ for m in (k // 2, k)]
    return (errors[0] - errors[1]) / (k - k // 2) / 2


MOVERS = ["DPMeans", "DPMeans, paper", "CollapsedDPMeans", "CollapsedDPMeans, init one"]


def single_moves(task):
    from madbayes import CollapsedDPMeans, DPMeans

    rows, _ = mixture(task["n"], task["d"], task["k"], gap=4)
    models = [
        DPMeans(random_state=0),
        DPMeans(algorithm="paper"),
        CollapsedDPMeans(random_state=0),
        CollapsedDPMeans(init="one"),
    ]
    model = models[MOVERS.index(task["model"])].set_params(penalty=task["penalty"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows[:500])  # compiles
        took, _ = timed(lambda: model.fit(rows), task["repeats"])
    return {
        "seconds": took,
        "k": model.n_clusters_,
        "passes": int(model.n_iter_),
        "objective": objective(rows, model.labels_, task["penalty"]),
    }


def worker(task):
    return {"stream": stream, "unknown": unknown, "moves": single_moves}[task["kind"]](task)


def measure(quick):
    repeats = 1 if quick else 3
    parts = [stamp()]
    lines = []
    for (n, d, k), begin in product(STREAMS, STARTS):
        n = n // 10 if quick else n
        task = {"kind": "stream", "n": n, "d": d, "k": k, "start": begin, "repeats": repeats}
        found = {name: in_process(__file__, {**task, "model": name}) for name in MODELS}
        lowest = min(result["error"] for result in found.values())
        for name, result in found.items():
            took, ratio = seconds(result["seconds"]), f"{result['error'] / lowest:.4f}"
            lines.append([f"{n:,} × {d}, k={k}, {begin}", name, took, ratio])
    parts.append(f"Streams of mixtures (float32) in blocks of {BLOCK} rows, one pass.")
    parts.append(table(["rows, start", "model", "time", "squared error / lowest"], lines))

    lines = []
    for (n, d, k), name in product(UNKNOWN, FINDERS):
        task = {"kind": "unknown", "n": n // 5 if quick else n, "d": d, "k": k, "model": name}
        found = in_process(__file__, task)
        cells = [f"{task['n']:,} × {d}, k={k}", name, found["k"]]
        lines.append([*cells, f"{found['nmi']:.3f}", f"{found['rate']:,.0f}"])
    parts.append(
        f"Streams whose number of clusters is not known, in blocks of {BLOCK} rows, one thread; "
        f"the last {FEW} rows are labelled at the end, and river gets only those."
    )
    parts.append(table(["rows", "model", "clusters", "NMI", "rows / s"], lines))

    lines = []
    for n, d, k in TABLES:
        n = n // 10 if quick else n
        rows, _ = mixture(n, d, k, gap=4)
        for why, penalty in (
            ("a cluster repays it", penalized(rows, k)),
            ("one row repays it", 9.0 * d),
        ):
            task = {"kind": "moves", "n": n, "d": d, "k": k, "penalty": penalty}
            found = {
                name: in_process(__file__, {**task, "model": name, "repeats": repeats})
                for name in MOVERS
            }
            lowest = min(result["objective"] for result in found.values())
            for name, result in found.items():
                cells = [f"{n:,} × {d}, {why}", name, result["k"], result["passes"]]
                took, ratio = seconds(result["seconds"]), f"{result['objective'] / lowest:.4f}"
                lines.append([*cells, took, ratio])
    parts.append("Single-row moves, at the same penalty.")
    parts.append(
        table(["rows, penalty", "model", "k", "passes", "time", "objective / lowest"], lines)
    )
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(measure, worker, __doc__)
