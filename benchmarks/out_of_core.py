"""Rows on disk against the same rows in memory: time, private memory, and the error of a coreset.

A file of 4,000,000 × 64 float32 (1 GB) is made in the temporary folder and removed at the end.
"""

import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from common import in_process, main, mixture, seconds, stamp, table, timed

ROWS, COLUMNS, CLUSTERS = 4_000_000, 64, 100
SOURCES = ["in memory", "memory map", "madbayes.blocks(npy)", "madbayes.blocks(parquet)"]


def models(penalty):
    """(name, estimator, by pass): time is divided by the passes where these are given."""
    from madbayes import DPMeans, KMeans, OnlineDPMeans

    few = {"n_init": 1, "max_iter": 5, "tol": 0, "random_state": 0}
    return {
        "KMeans(100), 5 passes": KMeans(CLUSTERS, init=starts, **few),
        "KMeans(100), k-means++": KMeans(CLUSTERS, **few),
        'DPMeans(algorithm="paper")': DPMeans(penalty, algorithm="paper", max_iter=5),
        "DPMeans()": DPMeans(random_state=0),
        "OnlineDPMeans()": OnlineDPMeans(random_state=0),
    }


def starts(X, k, random_state):
    return np.asarray(X[:: X.shape[0] // k][:k], dtype=np.float64)


def make(path, n):
    """The rows, block by block, so that this process stays small too."""
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, COLUMNS))
    centers = mixture(CLUSTERS, COLUMNS, CLUSTERS, gap=8)[0]
    rng = np.random.default_rng(0)
    for a in range(0, n, 100_000):
        b = min(n, a + 100_000)
        rows = rng.standard_normal((b - a, COLUMNS), dtype=np.float32)
        out[a:b] = rows + centers[rng.integers(CLUSTERS, size=b - a)]


def as_parquet(path, n):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.load(path, mmap_mode="r")
    folder = path.with_name("parquet")
    folder.mkdir(exist_ok=True)
    for i, a in enumerate(range(0, n, n // 8)):
        part = rows[a : a + n // 8]
        columns = {f"x{j}": np.ascontiguousarray(part[:, j]) for j in range(COLUMNS)}
        pq.write_table(pa.table(columns), folder / f"{i:02}.parquet", row_group_size=2**16)


def load(source, path):
    import madbayes

    if source == "in memory":
        return np.load(path)
    if source == "memory map":
        return np.load(path, mmap_mode="r")
    return madbayes.blocks(path if "npy" in source else path.with_name("parquet"))


class PrivateMemory(threading.Thread):
    """The most anonymous memory that this process holds (Linux), looked at again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak = 0

    def run(self):
        while True:
            status = Path("/proc/self/status").read_text()
            self.peak = max(self.peak, 1024 * int(status.split("RssAnon:")[1].split()[0]))
            time.sleep(0.005)


def worker(task):
    path = Path(task["path"])
    model = models(task["penalty"])[task["model"]]
    small = np.load(path, mmap_mode="r")[:3000]
    watch = PrivateMemory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.ascontiguousarray(small))  # compiles
        watch.start()
        X = load(task["source"], path)
        begun = time.process_time()
        took, _ = timed(lambda: model.fit(X))
        cpu = time.process_time() - begun
        again, _ = timed(lambda: model.predict(X))
    return {
        "seconds": took,
        "cpu": cpu,
        "predict": again,
        "memory": watch.peak,
        "k": int(model.n_clusters_),
        "passes": int(model.n_iter_),
        "objective": float(model.objective_),
        "error": getattr(model, "coreset_error_", None),
    }


def measure(quick, only=None):
    n = ROWS // 20 if quick else ROWS
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        make(path, n)
        as_parquet(path, n)
        for name in models(1.0):
            if only and only not in name:
                continue
            first = None
            for source in SOURCES:
                task = {"path": str(path), "penalty": 200.0, "model": name, "source": source}
                found = in_process(__file__, task)
                first = first or found
                error = "" if found["error"] is None else f"{found['error']:+.2%}"
                lines.append(
                    [
                        f"{name}, {source}",
                        f"{found['memory'] / 2**20:.0f} MB",
                        seconds(found["seconds"]),
                        f"{found['seconds'] / first['seconds']:.2f}",
                        seconds(found["predict"]),
                        found["k"],
                        f"{found['objective'] / first['objective']:.6f}",
                        error,
                    ]
                )
    header = [
        "fit",
        "private memory",
        "time",
        "× in memory",
        "predict",
        "k",
        "objective × ",
        "off by",
    ]
    about = f"{n:,} × {COLUMNS} float32, {n * COLUMNS * 4 / 1e9:.2g} GB."
    return "\n\n".join([stamp(), about, table(header, lines)])


if __name__ == "__main__":
    main(measure, worker, __doc__)
