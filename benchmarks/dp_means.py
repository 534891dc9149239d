"""DP-means at the same penalty, by time and by objective: madbayes and pdc-dp-means.

pdc-dp-means overwrites scikit-learn's files and wants numpy < 2, so it gets an environment of its
own in `.bench-envs`, made on first use. The objective is computed here from everybody's labels.
"""

import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from common import (
    ROOT,
    in_process,
    main,
    mixture,
    objective,
    say,
    seconds,
    sift,
    stamp,
    table,
    timed,
)

ENVIRONMENT = ROOT / ".bench-envs" / "pdc-dp-means"
PEER = "pdc-dp-means"
PATIENCE = 300  # seconds for one fit
PEER_PYTHON = ((3, 8), (3, 11))  # the versions that it has wheels for


def peer_python():
    """The interpreter that can import pdc-dp-means, or None and why there is none."""
    python = ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ready = ENVIRONMENT / "ready"
    if ready.exists():
        return python, ""
    base = next(filter(None, map(shutil.which, ["python3.11", "python3.10", "python3.9"])), None)
    if PEER_PYTHON[0] <= sys.version_info[:2] <= PEER_PYTHON[1]:
        base = sys.executable
    if base is None:
        return None, "it needs Python 3.11 or older"
    say(f"making an environment for {PEER} (once)")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    (ENVIRONMENT.parent / ".gitignore").write_text("*\n")
    install = [str(python), "-m", "pip", "install", "--quiet"]
    for command in (
        [base, "-m", "venv", str(ENVIRONMENT)],
        [*install, "numpy<2", "scikit-learn<1.3"],
        [*install, PEER],  # last: it overwrites what scikit-learn installed
        [str(python), "-c", "import pdc_dp_means"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            say(done.stderr[-2000:])
            return None, "it could not be installed"
    ready.touch()
    return python, ""


# What runs in a process of its own: (rows, penalty) -> labels, passes


def fit_paper(rows, penalty):
    from madbayes import DPMeans

    model = DPMeans(penalty=penalty, algorithm="paper", max_iter=1000).fit(rows)
    return model.labels_, model.n_iter_


def fit_search(rows, penalty):
    from madbayes import DPMeans

    model = DPMeans(penalty=penalty, algorithm="search", random_state=0).fit(rows)
    return model.labels_, model.n_iter_


def fit_peer(rows, penalty):
    from pdc_dp_means import DPMeans

    # Its wheel raises and swallows an exception a pass; printing them would cost it time.
    sys.excepthook = sys.unraisablehook = lambda *_: None
    options = {"n_clusters": 1, "n_init": 1, "max_iter": 1000, "tol": 0, "random_state": 0}
    model = DPMeans(delta=penalty, **options).fit(rows)
    return model.labels_, model.n_iter_


def fit_stream(rows, penalty):
    from madbayes import OnlineDPMeans

    return OnlineDPMeans(penalty, random_state=0).fit(rows).labels_, 1


def fit_peer_batches(rows, penalty):
    from pdc_dp_means import MiniBatchDPMeans

    sys.excepthook = sys.unraisablehook = lambda *_: None
    model = MiniBatchDPMeans(n_clusters=1, n_init=1, random_state=0, delta=penalty).fit(rows)
    return model.labels_, model.n_iter_


CONTENDERS = {
    "madbayes, paper": fit_paper,
    "madbayes, search": fit_search,
    "madbayes, OnlineDPMeans": fit_stream,
    PEER: fit_peer,
    f"{PEER}, mini-batches": fit_peer_batches,
}


def worker(task):
    warnings.simplefilter("ignore")
    rows = np.load(task["rows"])
    fit = CONTENDERS[task["who"]]
    try:
        fit(rows[:2000], task["penalty"])
    except ValueError as error:
        if task["who"] == "madbayes, search" and "algorithm" in str(error):
            return {"missing": "not in this version"}
        raise
    best, (labels, n_iter) = timed(lambda: fit(rows, task["penalty"]))
    np.save(task["labels"], labels)
    return {"seconds": best, "passes": int(n_iter)}


# Penalties


def one_row_repays(rows, k):
    """KJ 6.1: the penalty of the printed algorithm for about k clusters."""
    from madbayes import penalties

    return float(penalties.farthest_first(rows, k))


def one_cluster_repays(rows, k):
    """Between what the k-th cluster saves and what one more would: the slopes of k-means' error."""
    from madbayes import KMeans

    counts = [round(0.9 * k), k, round(1.1 * k)]
    low, middle, high = (KMeans(c, n_init=3, random_state=0).fit(rows).inertia_ for c in counts)
    before = (low - middle) / (counts[1] - counts[0])
    after = (middle - high) / (counts[2] - counts[1])
    return float(np.sqrt(before * after))


def run(task, python):
    python = python if task["who"].startswith(PEER) else sys.executable
    try:
        return in_process(__file__, task, python=python, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"missing": f"more than {PATIENCE // 60} minutes"}


def compare(name, rows, penalty, why, repeats, folder, python, reason):
    say(f"{name}: {rows.shape[0]}×{rows.shape[1]}, penalty {penalty:.4g}, {why}")
    paths = {"rows": str(folder / "rows.npy"), "labels": str(folder / "labels.npy")}
    np.save(paths["rows"], rows)
    theirs = [who for who in CONTENDERS if who.startswith(PEER)]
    best = {} if python else {who: {"missing": reason} for who in theirs}
    for _ in range(repeats):
        for who in CONTENDERS:
            if who in best and best[who].get("seconds", np.inf) > 60:
                continue  # missing, or so slow that one run measures it well
            got = run(paths | {"who": who, "penalty": penalty}, python)
            if "missing" not in got:
                labels = np.load(paths["labels"])
                got["clusters"] = np.unique(labels).size
                got["objective"] = objective(rows, labels, penalty)
            say(f"  {who}: {got}")
            if who not in best or got.get("seconds", np.inf) < best[who]["seconds"]:
                best[who] = got
    ours = best["madbayes, paper"]["seconds"]
    lowest = min(got["objective"] for got in best.values() if "missing" not in got)
    lines = []
    for who in CONTENDERS:
        got = best[who]
        if "missing" in got:
            lines.append([who, got["missing"], "", "", "", "", ""])
            continue
        above = f"{100 * (got['objective'] / lowest - 1):.3f} %"
        ratio = f"{got['seconds'] / ours:.2f}"
        cells = [got["clusters"], f"{got['objective']:.6g}", above, got["passes"]]
        lines.append([who, seconds(got["seconds"]), ratio, *cells])
    header = ["who", "time", "time / paper", "clusters", "objective", "above the lowest", "passes"]
    title = f"**{name}, {rows.shape[0]:,}×{rows.shape[1]}, λ = {penalty:.4g} ({why})**"
    return f"{title} (best of {repeats})\n\n{table(header, lines)}"


def measure(quick):
    parts = [stamp()]
    repeats = 2
    python, reason = peer_python()
    name, rows = sift()
    rows = rows[np.random.default_rng(0).permutation(len(rows))[: 5_000 if quick else 20_000]]
    n = 10_000 if quick else 50_000
    sets = [
        (f"{name}, a sample", rows, 30 if quick else 100),
        ("mixture", mixture(n, 2, 50, gap=4)[0], 50),
        ("mixture", mixture(n, 32, 100, gap=4)[0], 100),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        for name, rows, k in sets:
            for why, rule in (
                (f"one row repays it, aiming at {k} clusters", one_row_repays),
                (f"a cluster repays it, aiming at {k}", one_cluster_repays),
            ):
                penalty = rule(rows, k)
                folder = Path(temporary)
                parts.append(compare(name, rows, penalty, why, repeats, folder, python, reason))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(measure, worker, __doc__)
