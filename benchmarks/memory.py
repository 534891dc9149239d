"""Memory: the peak of a fit over its input, for each estimator, at a million rows of 16 columns.

Each fit runs in a process of its own: the peak of the process before `fit` (with the rows, and with
everything compiled on a small part of them) is taken off the peak after it. Estimators that compare
all pairs of rows get fewer rows, as the table says.
"""

from common import in_process, main, mixture, peak_memory, say, stamp, table

ROWS, COLUMNS, CLUSTERS = 1_000_000, 16, 50
PAIRS = 5_000  # rows, where every pair of rows has a number
MODELS = {  # rows, parameters
    "KMeans": (ROWS, {"n_clusters": CLUSTERS}),
    "DPMeans": (ROWS, {}),
    "CollapsedDPMeans": (ROWS, {}),
    "OnlineDPMeans": (ROWS, {}),
    "EllipticalMeans": (ROWS, {}),
    "NeighborCut": (ROWS, {}),
    "AutoCluster": (ROWS, {}),
    "HardHDP": (ROWS, {}),
    "KFeatures": (ROWS, {"n_components": 8}),
    "BPMeans": (ROWS, {}),
    "KMedoids": (PAIRS, {"n_clusters": CLUSTERS}),
    "DPMedoids": (PAIRS, {}),
    "KernelDPMeans": (PAIRS, {}),
}


def worker(task):
    import numpy as np

    import madbayes

    rows = mixture(task["rows"], COLUMNS, CLUSTERS, gap=6)[0]
    model = getattr(madbayes, task["model"])(random_state=0, **task["parameters"])
    groups = {"groups": np.arange(len(rows)) % 10} if task["model"] == "HardHDP" else {}
    model.fit(rows[:2000], **{name: values[:2000] for name, values in groups.items()})
    before = peak_memory()
    model.fit(rows, **groups)
    return {"more": peak_memory() - before, "input": rows.nbytes}


def measure(quick):
    lines = []
    for model, (rows, parameters) in MODELS.items():
        rows = min(rows, 20_000) if quick else rows
        say(f"{model}, {rows:,} rows")
        task = {"model": model, "rows": rows, "parameters": parameters}
        found = in_process(__file__, task, timeout=3600)
        ratio = found["more"] / found["input"]
        lines.append(
            [f"`{model}`", f"{rows:,}", f"{found['more'] / 2**20:.0f} MiB", f"{ratio:.1f}"]
        )
    header = ["estimator", "rows", "peak over the input", "in inputs"]
    return f"{stamp()}\n\n{table(header, lines)}"


if __name__ == "__main__":
    main(measure, worker, __doc__)
