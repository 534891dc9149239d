"""What the benchmark scripts share: data, measuring in a process of its own, tables.

Only the standard library and numpy are imported here: `dp_means.py` also runs this file in an
environment that has little else.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOG = HERE / "log"
SIFT_SHAPE = (312_320, 128)
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")  # of others
PACKAGES = ["madbayes", "numpy", "scipy", "scikit-learn", "numba"]
PEERS = ["scikit-learn-intelex", "faiss-cpu", "hdbscan"]

# Data


def data_folder():
    """The folder that MADBAYES_DATA names, or None."""
    name = os.environ.get("MADBAYES_DATA")
    return Path(name) if name else None


def sift():
    """(name, rows): the descriptors of the data folder, or a mixture of the same shape."""
    folder = data_folder()
    if folder is None:
        n, d = SIFT_SHAPE
        return "mixture in place of SIFT (MADBAYES_DATA is not set)", mixture(n, d, 500, gap=3)[0]
    parts = [folder / "sift" / f"{name}_sift.npz" for name in ("landscapes", "sacre_coeur")]
    return "SIFT", np.vstack([np.load(part)["X"] for part in parts]).astype(np.float32)


def mixture(n, d, k, *, gap, seed=0, dtype=np.float32):
    """Rows and labels of k round Gaussian clusters of unequal sizes and spreads (0.6 to 1.4).

    No two centres are closer than `gap`: 6 is clear-cut, 4 touches, 2 overlaps.
    """
    rng = np.random.default_rng(seed)
    # Room for k centres: in few columns they fill a cube, in many a small cube has room enough.
    side = gap * max(1.6 * k ** (1 / d), 1.5 * np.sqrt(6 / d))
    centers = np.empty((0, d))
    while centers.shape[0] < k:
        new = rng.uniform(0, side, d)
        if centers.shape[0] == 0 or ((centers - new) ** 2).sum(axis=1).min() >= gap**2:
            centers = np.vstack([centers, new])
    size = rng.uniform(1, 5, k)
    labels = np.concatenate([np.arange(k), rng.choice(k, n - k, p=size / size.sum())])
    labels = rng.permutation(labels)
    spread = rng.uniform(0.6, 1.4, k)
    rows = rng.standard_normal((n, d), dtype=np.float32)
    rows *= spread[labels, None].astype(np.float32)
    rows += centers[labels].astype(np.float32)
    return rows.astype(dtype, copy=False), labels


def starting_rows(rows, k, seed=0):
    """k different rows, the start that everybody gets."""
    distinct = np.unique(rows[np.random.default_rng(seed).permutation(len(rows))[: 4 * k]], axis=0)
    return np.ascontiguousarray(np.random.default_rng(seed).permutation(distinct)[:k])


# Measuring


def timed(function, repeats=1):
    """The best time of `repeats` calls, in seconds, and what the last call returned."""
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - begin)
    return best, result


def timed_cpu(function, repeats=1):
    """The least CPU seconds of `repeats` calls (those of all threads), the least time, and what the
    last call returned. CPU seconds suffer less from what else the machine does."""
    cpu = wall = np.inf
    for _ in range(repeats):
        begin, clock = time.process_time(), time.perf_counter()
        result = function()
        cpu = min(cpu, time.process_time() - begin)
        wall = min(wall, time.perf_counter() - clock)
    return cpu, wall, result


def peak_memory():
    """The most memory that this process has held so far, in bytes."""
    try:
        # ru_maxrss would do, but on Linux a child starts with the peak of its parent.
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_process(script, task, python=sys.executable, env=None, timeout=None):
    """Run `script --worker` with `task` in a new process; what its worker returned."""
    command = [str(python), str(script), "--worker", json.dumps(task)]
    env = {**os.environ, **(env or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"{Path(script).name} {task} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def squared_error(rows, centers):
    """Σ ‖x - nearest centre‖² in float64, whoever found the centres."""
    centers = np.asarray(centers, dtype=np.float64)
    origin = centers.mean(axis=0)
    centers = centers - origin
    norms = (centers**2).sum(axis=1)
    total = 0.0
    for first in range(0, len(rows), 8192):
        block = rows[first : first + 8192].astype(np.float64) - origin
        nearest = (norms - 2 * block @ centers.T).argmin(axis=1)
        total += float(((block - centers[nearest]) ** 2).sum())
    return total


def objective(rows, labels, penalty):
    """KJ Eq. 1 of the clusters that have rows."""
    names, labels = np.unique(labels, return_inverse=True)
    count = np.bincount(labels).astype(np.float64)
    rows = rows.astype(np.float64)
    means = np.empty((names.size, rows.shape[1]))
    for column in range(rows.shape[1]):
        means[:, column] = np.bincount(labels, weights=rows[:, column]) / count
    return float(((rows - means[labels]) ** 2).sum() + penalty * names.size)


# Tables and the log


def table(header, rows):
    """Markdown; numbers to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def seconds(value):
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def stamp():
    """When and under what load: the first line of each section."""
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    busy = " (**not a quiet machine**)" if LOAD > 0.5 else ""
    return f"{now}, commit {commit('--dirty')}; load average before the run {LOAD:.2f}{busy}."


def commit(*options):
    """The commit of the checkout, in short."""
    command = ["git", "-C", str(ROOT), "describe", "--always", *options]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def machine():
    """The machine and the versions, as a table."""
    name = platform.processor() or platform.machine()
    memory = "unknown"
    if Path("/proc/cpuinfo").exists():
        text = Path("/proc/cpuinfo").read_text()
        name = next((x.split(":")[1].strip() for x in text.splitlines() if "model name" in x), name)
    if hasattr(os, "sysconf"):
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    rows = [
        ["processor", f"{name}, {usable_cores()} cores, all used by everybody"],
        ["memory", memory],
        ["system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"],
    ]
    rows += [[package, version(package)] for package in PACKAGES + PEERS]
    return table(["what", "this run"], rows)


def usable_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def write_section(name, text):
    """Replace what stands between the markers of the page of `name` in the log."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = LOG / f"{name}.md"
    head, rest = page.read_text(encoding="utf-8").split(begin)
    tail = rest.split(end)[1]
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")


def measured(name):
    """Whether the log has figures of section `name` of this commit (writing the log changes it)."""
    text = (LOG / f"{name}.md").read_text(encoding="utf-8")
    return f"commit {commit()}" in text


def say(text):
    """Progress, apart from the tables."""
    print(text, file=sys.stderr, flush=True)


def main(measure, worker=None, description=None):
    """The command line of one script: `measure(quick)` returns Markdown, `worker(task)` a dict."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(worker(arguments.worker)))
    else:
        print(measure(arguments.quick))
