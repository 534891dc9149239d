"""The first call: what a new installation waits for while Numba compiles.

Every estimator is fitted on a small table by a new process whose cache is empty, and once more in
the same process. The share of a kernel is the time of its own compilation, without that of the
kernels it calls and nobody had compiled before.

python benchmarks/first_call.py                  the table
python benchmarks/first_call.py --only DPMeans   one estimator
python benchmarks/first_call.py --kernels 12     with so many kernels of each
"""

import argparse
import json
import tempfile
import time
import warnings
from collections import defaultdict

import numpy as np
from common import in_process, mixture, say, stamp, table

ROWS = 3000
SHAPES = {"narrow": 3, "wide": 16}  # columns: plain distances, matrix products
BOTH = ["KMeans", "DPMeans"]
PAPER = ["DPMeans", "HardHDP"]


def cases():
    """(estimator, options, shape of the data)."""
    import madbayes

    names = sorted(name for name in madbayes.__all__ if name[0].isupper())
    names = BOTH + [name for name in names if name not in BOTH]
    for name in names:
        for shape in SHAPES if name in BOTH else ["narrow"]:
            yield name, {}, shape
        if name in PAPER:
            yield name, {"algorithm": "paper"}, "narrow"


def rows_for(name, shape):
    """A table of a few groups; nodes for a graph, 0 and 1 plus noise for features."""
    X = mixture(ROWS, SHAPES[shape], 8, gap=6, dtype=np.float64)[0]
    if name == "GraphCut":
        from sklearn.neighbors import kneighbors_graph

        A = kneighbors_graph(X, 10)
        return A.maximum(A.T)
    if name in ("KernelDPMeans", "KernelHardHDP", "KMedoids", "DPMedoids", "IBPGibbs"):
        return X[: ROWS // 2]  # quadratic, or slow: the compiling is the same
    return X


# What runs in a process of its own


class Shares:
    """Seconds of CPU for each kernel, from Numba's own events."""

    def __init__(self):
        from numba.core import event

        seen = self.seen = defaultdict(lambda: [0, 0.0])
        stack = []

        class Listener(event.Listener):
            def on_start(self, event):
                stack.append([time.thread_time(), 0.0])

            def on_end(self, event):
                begin, inside = stack.pop()
                spent = time.thread_time() - begin
                function = event.data["dispatcher"].py_func
                home = function.__module__.replace("madbayes.", "")
                home = "numba" if home.startswith("numba") else home
                entry = seen[f"{home}.{function.__qualname__.split('.')[0]}"]
                entry[0] += 1
                entry[1] += spent - inside
                if stack:
                    stack[-1][1] += spent

        event.register("numba:compile", Listener())


def worker(task):
    """The CPU and wall time of the import, of the first fit and of the second."""
    times = {}

    def clock(what, function):
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        times[what] = [time.process_time() - cpu, time.perf_counter() - wall]

    rows = rows_for(task["name"], task["shape"])

    def load():
        import madbayes

        getattr(madbayes, task["name"])

    def fit():
        import madbayes

        getattr(madbayes, task["name"])(**options).fit(rows)

    options = dict(task["options"])
    clock("import", load)
    import madbayes

    known = getattr(madbayes, task["name"])().get_params()
    options |= {k: v for k, v in {"random_state": 0, "n_jobs": 1}.items() if k in known}
    shares = Shares()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clock("first", fit)
        clock("again", fit)
    return {**times, "kernels": dict(shares.seen)}


# The table


def measure_one(name, options, shape):
    with tempfile.TemporaryDirectory() as folder:
        env = {"NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        task = {"name": name, "options": options, "shape": shape}
        return in_process(__file__, task, env=env)


def measure(quick=False, only=None, kernels=4):
    rows = []
    header = ["fit", "first, CPU", "wall", "again, CPU", "functions", "the dearest, seconds"]
    for name, options, shape in cases():
        if (only and name not in only) or (quick and name not in BOTH):
            continue
        call = f"{name}({', '.join(f'{k}={v!r}' for k, v in options.items())})"
        say(f"{call}, {shape}")
        first = measure_one(name, options, shape)
        dear = sorted(first["kernels"].items(), key=lambda item: -item[1][1])[:kernels]
        rows.append(
            [
                f"`{call}`, {SHAPES[shape]} columns",
                f"{first['first'][0]:.1f} s",
                f"{first['first'][1]:.1f} s",
                f"{first['again'][0]:.2f} s",
                sum(count for count, _ in first["kernels"].values()),
                ", ".join(f"{kernel} {spent:.1f}" for kernel, (_, spent) in dear),
            ]
        )
    return f"{stamp()}\n\n{table(header, rows)}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--kernels", type=int, default=4)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(worker(options.worker)))
    else:
        print(measure(options.quick, options.only, options.kernels))


if __name__ == "__main__":
    main()
