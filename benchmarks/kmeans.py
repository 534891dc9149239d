"""K-means to convergence from the same start: madbayes, scikit-learn, its Intel patch, FAISS.

Every fit runs in a process of its own, after a small fit that loads and compiles what is needed:
no library meets the threads or the memory of another. Repeats go round in turns, the best counts.
"""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from common import (
    in_process,
    main,
    mixture,
    peak_memory,
    say,
    seconds,
    sift,
    squared_error,
    stamp,
    starting_rows,
    table,
    timed,
)

# The contenders: (rows, start, passes) -> centres, passes made


def fit_estimator(estimator, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops after `passes` is the plan
        estimator.fit(rows)
    return estimator.cluster_centers_, estimator.n_iter_


def fit_madbayes(rows, start, passes):
    from madbayes import KMeans

    return fit_estimator(KMeans(len(start), init=start, max_iter=passes, tol=0), rows)


def fit_sklearn(rows, start, passes, algorithm="lloyd"):
    from sklearn.cluster import KMeans

    options = {"init": start, "n_init": 1, "max_iter": passes, "tol": 0, "algorithm": algorithm}
    return fit_estimator(KMeans(len(start), **options), rows)


def fit_sklearn_elkan(rows, start, passes):
    return fit_sklearn(rows, start, passes, "elkan")


def fit_intelex(rows, start, passes):
    from sklearnex.cluster import KMeans

    return fit_estimator(KMeans(len(start), init=start, n_init=1, max_iter=passes, tol=0), rows)


def fit_faiss(rows, start, passes, **stop):
    import faiss

    # By default FAISS draws 256 rows a centre: here it takes them all.
    options = {"max_points_per_centroid": len(rows), "min_points_per_centroid": 1}
    model = faiss.Kmeans(rows.shape[1], len(start), niter=passes, **options, **stop)
    model.train(rows, init_centroids=start)
    return model.centroids, len(model.obj)


def fit_faiss_on(rows, start, passes):
    """FAISS stops when its float32 objective stands still; here it goes on to the last pass."""
    import faiss

    known = hasattr(faiss.ClusteringParameters(), "early_stop_threshold")  # or it never stops
    return fit_faiss(rows, start, passes, **({"early_stop_threshold": -1.0} if known else {}))


CONTENDERS = {
    "madbayes": fit_madbayes,
    "scikit-learn": fit_sklearn,
    "scikit-learn, elkan": fit_sklearn_elkan,
    "scikit-learn-intelex": fit_intelex,
    "FAISS": fit_faiss,
    "FAISS, all passes": fit_faiss_on,
}


CALLS = {
    "KMeans(8)": {"n_clusters": 8},
    'DPMeans(200, algorithm="paper")': {"penalty": 200.0, "algorithm": "paper"},
    "DPMeans()": {},
}


# What runs in a process of its own


def worker(task):
    return {"fit": fit_once, "first pass": first_pass, "first call": first_call}[task["do"]](task)


def fit_once(task):
    rows, start = np.load(task["rows"]), np.load(task["start"])
    fit = CONTENDERS[task["who"]]
    try:
        fit(rows[:4000], start[:20], 3)
    except ImportError as error:
        return {"error": type(error).__name__}
    before, cpu = peak_memory(), time.process_time()
    best, (centers, n_iter) = timed(lambda: fit(rows, start, task["passes"]))
    return {
        "seconds": best,
        "cpu": time.process_time() - cpu,  # not in the table: to judge a busy machine by
        "memory": peak_memory() - before,
        "passes": int(n_iter),
        "objective": squared_error(rows, centers),
    }


def first_pass(task):
    """The first pass, `predict`, and the bare product of rows and centres, in turns."""
    from madbayes import KMeans
    from madbayes._partition.partition import Partition
    from madbayes._rows.rows import Rows
    from madbayes._rows.threads import workers

    rows, start = np.load(task["rows"]), np.load(task["start"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KMeans(len(start), init=start, max_iter=1, tol=0).fit(rows)
    product = np.zeros((len(rows), len(start)), dtype=np.float32)
    best = defaultdict(lambda: np.inf)

    def keep(name, function):
        best[name] = min(best[name], timed(function)[0])

    for _ in range(task["repeats"]):
        with workers(None):
            partition = Partition(Rows(rows))
            centers = start.astype(np.float64)
            keep("first pass", lambda p=partition, c=centers: p.assign(c))
        keep("`predict`, with its checks", lambda: model.predict(rows))
        keep("the product alone", lambda: np.matmul(rows, start.T, out=product))
        time.sleep(0.3)  # the threads of the BLAS wait for more work in busy loops
    return best


def first_call(task):
    """Time from the import to the first result, and of the same call again."""
    rows = mixture(2000, task["columns"], 8, gap=6, dtype=np.float64)[0]
    options = CALLS[task["call"]]

    def call():
        import madbayes

        estimator = getattr(madbayes, task["call"].split("(")[0])
        return estimator(**options, random_state=0).fit(rows)

    return {"first": timed(call)[0], "again": timed(call, 3)[0]}


# The tables


def compare(name, rows, k, passes, repeats, folder):
    say(f"{name}: {rows.shape[0]}×{rows.shape[1]}, k={k}")
    task = save(rows, k, folder) | {"do": "fit"}
    n, d = rows.shape
    del rows  # the workers need the memory
    best = {}
    for _ in range(repeats):
        for who in CONTENDERS:
            # FAISS does not look for convergence: it gets as many passes as madbayes took.
            limit = best["madbayes"]["passes"] if who.startswith("FAISS") else passes
            got = in_process(__file__, task | {"who": who, "passes": limit})
            say(f"  {who}: {got}")
            if who not in best or got.get("seconds", np.inf) < best[who].get("seconds", np.inf):
                best[who] = got
    ours = best["madbayes"]["seconds"]
    lowest = min(got["objective"] for got in best.values() if "error" not in got)
    lines = []
    for who, got in best.items():
        if "error" in got:
            lines.append([who, f"not available ({got['error']})", "", "", "", ""])
            continue
        ratio = f"{got['seconds'] / ours:.2f}"
        above = f"{100 * (got['objective'] / lowest - 1):.4f} %"
        memory = f"{got['memory'] / 2**20:.0f} MiB"
        lines.append([who, seconds(got["seconds"]), ratio, got["passes"], above, memory])
    header = ["library", "time", "time / madbayes", "passes", "above the lowest objective"]
    text = table([*header, "memory beyond the data"], lines)
    return f"**{name}, {n:,}×{d}, k={k}** (best of {repeats})\n\n{text}"


def save(rows, k, folder):
    paths = {"rows": str(folder / "rows.npy"), "start": str(folder / "start.npy")}
    np.save(paths["rows"], rows)
    np.save(paths["start"], starting_rows(rows, k))
    return paths


def compare_first_pass(cases, repeats, folder):
    lines = []
    for name, rows, k, _ in cases:
        say(f"first pass: {name}")
        shape = f"{rows.shape[0]:,}×{rows.shape[1]}, k={k}"
        best = in_process(
            __file__, save(rows, k, folder) | {"do": "first pass", "repeats": repeats}
        )
        bare = best["the product alone"]
        lines += [
            [f"{name}, {shape}", what, seconds(best[what]), f"{best[what] / bare:.2f}"]
            for what in sorted(best, key=best.get)
        ]
    text = table(["rows", "what", "time", "time / product"], lines)
    return f"**The first pass against the bare float32 product** (best of {repeats})\n\n{text}"


def compare_start(repeats, folder):
    """How long until something happens: the import, the first call, the first call with a cache."""
    lines = []
    imports = {
        "`import madbayes`": "import madbayes",
        "`from madbayes import KMeans, DPMeans`": "from madbayes import KMeans, DPMeans",
        "`from sklearn.cluster import KMeans`, to compare": "from sklearn.cluster import KMeans",
    }
    best = defaultdict(lambda: np.inf)
    for _ in range(repeats):
        for name, code in imports.items():
            best[name] = min(best[name], time_code(code))
    lines += [[name, seconds(value), ""] for name, value in best.items()]
    for call in CALLS:
        for columns in (2, 16):
            say(f"first call: {call}, {columns} columns")
            task = {"do": "first call", "call": call, "columns": columns}
            env = {"NUMBA_CACHE_DIR": str(folder / f"cache-{len(lines)}")}
            for when in ("compiles", "next process"):
                got = in_process(__file__, task, env=env)
                name = f"`{call}.fit` on 2000×{columns}, first call, {when}"
                lines.append([name, seconds(got["first"]), seconds(got["again"])])
    return "**Starting up**\n\n" + table(["what", "time", "the same call again"], lines)


def time_code(code):
    clock = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", clock], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(quick):
    head = stamp()
    repeats = 2
    name, rows = sift()
    if quick:
        rows = rows[:: len(rows) // 30_000].copy()
    cases = [(name, rows, 100 if quick else 500, 60)]
    n = 30_000 if quick else 200_000
    cases.append(("mixture", mixture(n, 64, 200, gap=4)[0], 200, 1000))
    n = 200_000 if quick else 1_000_000
    cases.append(("mixture", mixture(n, 2, 100, gap=4)[0], 100, 1000))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts = [head, *(compare(*case, repeats, folder) for case in cases)]
        parts.append(compare_first_pass(cases[:2], 3 if quick else 7, folder))
        parts.append(compare_start(5, folder))
    return "\n\n".join(parts)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main(measure, worker, __doc__)
