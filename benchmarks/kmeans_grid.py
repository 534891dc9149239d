"""K-means on a grid of rows, columns and centres: who is quicker, and by how much.

Everybody starts from the same rows, in float32, and makes the same number of passes: as many as
madbayes takes, 20 at most. The result is labels and centres; FAISS and SuperKMeans return centres
only, so a call for the labels of the rows belongs to their time. Cells whose product of rows,
columns and centres is above `MOST_PRODUCTS` are left out. `kmeans_grid.png` shows the ratios.

All fits of a cell run in one process, in turns, with one thread each. The least CPU time of each
library counts, so that other work on the machine changes the ratios little.
"""

import time
import warnings

import numpy as np
from common import HERE, in_process, main, mixture, say, stamp, starting_rows, table
from kmeans import fit_estimator, fit_sklearn

ROWS, COLUMNS, CENTERS = (10**3, 10**4, 10**5, 10**6), (2, 16, 128, 784), (5, 50, 500)
PASSES = 20
MOST_PRODUCTS = 5 * 10**9  # of a pass
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
MOST_VALUES = 2 * 10**8  # rows × columns: more do not fit beside the copies of the peers


def fit_madbayes(rows, start, passes):
    from madbayes import KMeans

    return fit_estimator(KMeans(len(start), init=start, max_iter=passes, tol=0, n_jobs=1), rows)


def fit_faiss(rows, start, passes):
    import faiss

    options = {"max_points_per_centroid": len(rows), "min_points_per_centroid": 1}
    model = faiss.Kmeans(rows.shape[1], len(start), niter=passes, **options)
    model.train(rows, init_centroids=start)
    return model.centroids, model.index.search(rows, 1)[1]


def fit_superkmeans(rows, start, passes):
    """It has no parameter for first centres: it draws its own."""
    from superkmeans import SuperKMeans

    options = {"hierarchical": False, "early_termination": False, "sampling_fraction": 1.0}
    options |= {"max_points_per_cluster": len(rows), "n_threads": 1}
    model = SuperKMeans(len(start), rows.shape[1], iters=passes, **options)
    centers = model.train(rows)
    return centers, model.assign(rows, centers)


PEERS = {"scikit-learn": fit_sklearn, "FAISS": fit_faiss, "SuperKMeans": fit_superkmeans}


def worker(task):
    """The best time of everybody in one cell, in seconds."""
    warnings.simplefilter("ignore")
    n, d, k = task["cell"]
    rows = mixture(n, d, k, gap=4)[0]
    start = starting_rows(rows, k)
    passes = int(fit_madbayes(rows, start, PASSES)[1])
    best = {}
    for name, fit in {"madbayes": fit_madbayes, **PEERS}.items():
        try:
            fit(rows[: 4 * k], start, 1)
            best[name] = np.inf
        except ImportError:
            say(f"  {name} is not installed")
    begun, turns = time.perf_counter(), 0
    while turns < 2 or (turns < 50 and time.perf_counter() - begun < task["seconds"]):
        for name in best:
            fit = {"madbayes": fit_madbayes, **PEERS}[name]
            clock = time.process_time()
            fit(rows, start, passes)
            best[name] = min(best[name], time.process_time() - clock)
        turns += 1
    return {"passes": passes, "best": best}


def draw(found, path):
    """One panel for each peer: squares of log2(time of the peer / time of madbayes)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in PEERS if any(name in got["best"] for got in found.values())]
    size = (4.2 * len(names), 3.6)
    figure, panels = plt.subplots(1, len(names), figsize=size, sharey=True, squeeze=False)
    across = [(d, k) for d in COLUMNS for k in CENTERS]
    for panel, name in zip(panels[0], names, strict=True):
        ratios = np.full((len(ROWS), len(across)), np.nan)
        for (n, d, k), got in found.items():
            if name in got["best"]:
                ratio = got["best"][name] / got["best"]["madbayes"]
                ratios[ROWS.index(n), across.index((d, k))] = ratio
        image = panel.imshow(np.log2(ratios), cmap="RdBu", vmin=-3, vmax=3, aspect="auto")
        for (y, x), ratio in np.ndenumerate(ratios):
            if np.isfinite(ratio):
                text = f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"
                panel.text(x, y, text, ha="center", va="center", fontsize=6)
        panel.set_title(f"{name} / madbayes", fontsize=9)
        panel.set_xticks(range(len(across)), [f"{d}, {k}" for d, k in across], rotation=90)
        panel.set_yticks(range(len(ROWS)), [f"{n:,}" for n in ROWS])
        panel.set_xlabel("columns, centres")
        panel.tick_params(labelsize=7)
    panels[0][0].set_ylabel("rows")
    figure.colorbar(image, ax=panels[0].tolist(), label="log2 of the ratio of times", shrink=0.9)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def measure(quick):
    head, found = stamp(), {}
    for n in ROWS[:2] if quick else ROWS:
        for d in COLUMNS:
            for k in CENTERS:
                if 3 * k > n or n * d * k > MOST_PRODUCTS or n * d > MOST_VALUES:
                    continue
                cell = {"cell": (n, d, k), "seconds": 1 if quick else 3}
                found[n, d, k] = in_process(__file__, cell, env=ONE_THREAD)
                say(f"{n}×{d}, k={k}: {found[n, d, k]}")
    if not quick:
        draw(found, HERE / "kmeans_grid.png")
    lines = []
    for (n, d, k), got in found.items():
        ours = got["best"]["madbayes"]
        ratios = [f"{got['best'][p] / ours:.2f}" if p in got["best"] else "" for p in PEERS]
        lines.append([f"{n:,}×{d}, k={k}", got["passes"], f"{1000 * ours:.3g} ms", *ratios])
    text = table(["rows", "passes", "madbayes", *(f"{p} / madbayes" for p in PEERS)], lines)
    return f"{head}\n\n{text}"


if __name__ == "__main__":
    main(measure, worker, __doc__)
