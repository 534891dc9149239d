"""Streams and single-row moves: time and objective, side by side.

OnlineKMeans against scikit-learn's MiniBatchKMeans.partial_fit on the same blocks from the same
centres; CollapsedDPMeans against DPMeans at the same penalty.
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
    return stream(task) if task["kind"] == "stream" else single_moves(task)


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
