"""K-medoids against the `kmedoids` package (FasterPAM): time and loss on the same dissimilarities.

python benchmarks/medoids.py [--quick]

Each in a process of its own, after a small fit that compiles. Everybody works in one thread, so the
time is CPU time, which a busy machine does not change much.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common import data_folder, in_process, main, mixture, say, seconds, stamp, table

SEEDS = 5


def fit_madbayes(D, k, seed):
    from madbayes import KMedoids

    return KMedoids(k, metric="precomputed", random_state=seed).fit(D).medoid_indices_


def fit_madbayes_random(D, k, seed):
    from madbayes import KMedoids

    model = KMedoids(k, metric="precomputed", init="random", random_state=seed)
    return model.fit(D).medoid_indices_


def fit_paper(D, k, seed):
    from madbayes import KMedoids

    model = KMedoids(k, metric="precomputed", algorithm="paper", random_state=seed)
    return model.fit(D).medoid_indices_


def fit_fasterpam(D, k, seed):
    import kmedoids

    return kmedoids.fasterpam(D, k, random_state=seed, n_cpu=1).medoids


def fit_dp(D, k, seed):
    """With an open number of clusters, at a penalty that gives about k of them."""
    from madbayes import DPMedoids, KMedoids

    lower = KMedoids(k, metric="precomputed").fit(D).inertia_
    upper = KMedoids(max(1, k - 1), metric="precomputed").fit(D).inertia_
    model = DPMedoids(max(upper - lower, 1e-9), metric="precomputed")
    begin = time.process_time()
    medoids = model.fit(D).medoid_indices_
    return medoids, time.process_time() - begin


CONTENDERS = {
    "kmedoids (FasterPAM)": fit_fasterpam,
    "`KMedoids`": fit_madbayes,
    '`KMedoids(init="random")`': fit_madbayes_random,
    '`KMedoids(algorithm="paper")`': fit_paper,
    "`DPMedoids`, similar k": fit_dp,
}


def worker(task):
    D, k = np.load(task["matrix"]), task["k"]
    fit = CONTENDERS[task["who"]]
    try:
        fit(np.ascontiguousarray(D[:200, :200]), 5, 0)
    except ImportError as error:
        return {"error": type(error).__name__}
    losses, times = [], []
    for seed in range(SEEDS):
        begin = time.process_time()
        medoids = fit(D, k, seed)
        times.append(time.process_time() - begin)
        if isinstance(medoids, tuple):
            medoids, times[-1] = medoids
        losses.append(float(D[:, np.asarray(medoids, dtype=np.int64)].min(axis=1).sum()))
    found = len(medoids)
    return {"seconds": statistics.median(times), "losses": losses, "found": found}


def compare(name, rows, k, folder):
    from sklearn.metrics import pairwise_distances

    say(f"{name}: {rows.shape}, k={k}")
    path = str(folder / "matrix.npy")
    np.save(path, pairwise_distances(rows.astype(np.float64)).astype(np.float32))
    results = {}
    for who in CONTENDERS:
        results[who] = in_process(__file__, {"who": who, "matrix": path, "k": k})
        say(f"  {who}: {results[who]}")
    peer = results["kmedoids (FasterPAM)"]
    lines = []
    for who, got in results.items():
        if "error" in got:
            lines.append([who, f"not available ({got['error']})", "", "", ""])
            continue
        loss = statistics.median(got["losses"])
        base = peer if "error" not in peer else got
        above = 100 * (loss / statistics.median(base["losses"]) - 1)
        ratio = got["seconds"] / base["seconds"]
        lines.append(
            [who, got["found"], seconds(got["seconds"]), f"{ratio:.2f}", f"{above:+.2f} %"]
        )
    head = ["what", "medoids", "CPU time", "time / kmedoids", "loss against kmedoids"]
    n, d = rows.shape
    return f"**{name}, {n:,}×{d}, k={k}** (median of {SEEDS} seeds)\n\n{table(head, lines)}"


def measure(quick):
    cases = [("mixture, touching", mixture(3000, 2, 30, gap=4)[0], 30)]
    if not quick:
        cases.append(("mixture, overlapping", mixture(5000, 16, 50, gap=2)[0], 50))
        cases.append(("mixture, touching", mixture(10_000, 8, 100, gap=4)[0], 100))
        folder = data_folder()
        if folder is not None:
            rows = np.load(folder / "sift" / "sacre_coeur_sift_10k.npz")["X"][:5000]
            cases.append(("SIFT", rows, 50))
    with tempfile.TemporaryDirectory() as temporary:
        parts = [compare(*case, Path(temporary)) for case in cases]
    return "\n\n".join([stamp(), *parts])


if __name__ == "__main__":
    main(measure, worker, __doc__)
