"""What more threads are worth: the same fits with one thread and with all cores.

Time and CPU time of each, the best of a few fits, in a process of its own after a small fit that
compiles. "Same" compares labels (or features) and centres bit by bit.
"""

import hashlib
import os

import numpy as np
from common import in_process, main, mixture, say, seconds, stamp, table, timed_cpu, usable_cores

KEPT = ("labels_", "assignments_", "cluster_centers_", "components_")


def groups(spread, n_sets):
    from hdp import shared_gaussians

    return shared_gaussians(0, n_sets, 40, 8, 25, d=8, spread=spread)[:2]


def descriptors(n):
    from common import sift

    rows = sift()[1]
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), n, replace=False))]


def cases(quick):
    """{name: (rows, estimator, arguments, repeats)}; `rows` and groups are made in the process."""
    s = 100 if quick else 1  # so many times smaller
    clear, touching = {"gap": 6}, {"gap": 4}
    return {
        "KMeans(200), 200,000×64": ("mixture", [200_000 // s, 64, 200], touching, "KMeans", [200]),
        "KMeans(100), 10⁶×2": ("mixture", [1_000_000 // s, 2, 100], touching, "KMeans", [100]),
        "KMeans(500), SIFT 100,000×128": ("sift", [100_000 // s], {}, "KMeans", [500 // s]),
        "DPMeans(), 10⁶×32, 100 clusters": (
            "mixture",
            [1_000_000 // s, 32, 100 // s],
            clear,
            "DPMeans",
            [],
        ),
        "DPMeans(400), noise 20,000×8": ("noise", [20_000 // s, 8], {}, "DPMeans", [400.0]),
        "DPMeans(), 3,000×3": ("mixture", [3_000, 3, 8], clear, "DPMeans", []),
        "HardHDP(1, 100), 500 sets of 200×8": ("groups", [0.5, 500 // s], {}, "HardHDP", [1, 100]),
        "BPMeans(), 50,000×64": ("bars", [50_000 // s], {}, "BPMeans", []),
        "KFeatures(8), 200,000×64": ("bars", [200_000 // s], {}, "KFeatures", [8]),
        "EllipticalMeans(), 20,000×4": (
            "mixture",
            [20_000 // s, 4, 6],
            clear,
            "EllipticalMeans",
            [],
        ),
        "KMedoids(20), 5,000×8": ("mixture", [5_000 // s, 8, 20], clear, "KMedoids", [20]),
        "NeighborCut(), 5,000×2": ("moons", [5_000 // s], {}, "NeighborCut", []),
        "NeighborCut(), 50,000×2": ("moons", [50_000 // s], {}, "NeighborCut", []),
        "GraphCut(), 100,000 nodes": ("graph", [100_000 // s], {}, "GraphCut", []),
    }


def data_of(kind, arguments, options):
    """(rows, what else `fit` is given)."""
    if kind == "mixture":
        return mixture(*arguments, **options)[0], {}
    if kind == "sift":
        return descriptors(*arguments), {}
    if kind == "groups":
        X, of = groups(*arguments)
        return X, {"groups": of}
    if kind == "bars":
        from features import bars

        return bars(*arguments)[0], {}
    if kind == "moons":
        from sklearn.datasets import make_moons

        return make_moons(*arguments, noise=0.05, random_state=0)[0], {}
    if kind == "graph":
        from graphs import planted

        return planted(arguments[0], max(2, arguments[0] // 1_000), 12, 0.3)[0], {}
    return np.random.default_rng(0).normal(size=arguments), {}


def worker(task):
    import madbayes

    kind, arguments, options, name, parameters = task["case"]
    X, also = data_of(kind, arguments, options)
    known = getattr(madbayes, name)().get_params()
    fixed = {key: v for key, v in {"random_state": 0, "n_init": 1}.items() if key in known}
    found = {}
    for jobs in task["jobs"]:
        model = getattr(madbayes, name)(*parameters, n_jobs=jobs, **fixed)
        model.fit(X, **also)  # compiles
        cpu, wall, _ = timed_cpu(lambda model=model: model.fit(X, **also), 2)
        parts = [getattr(model, key, None) for key in KEPT]
        bits = b"".join(np.ascontiguousarray(p).tobytes() for p in parts if p is not None)
        found[jobs] = [cpu, wall, hashlib.sha256(bits).hexdigest()]
    return found


def measure(quick):
    cores, lines = usable_cores(), []
    jobs = [1, cores]
    for name, case in cases(quick).items():
        found = in_process(os.path.abspath(__file__), {"case": case, "jobs": jobs})
        one, all_ = found["1"], found[str(cores)]
        same = "yes" if one[2] == all_[2] else "**no**"
        times = [seconds(v) for v in (one[1], all_[1], one[0], all_[0])]
        lines.append([name, *times, f"{one[1] / all_[1]:.2f}×", same])
        say(f"threads: {lines[-1]}")
    header = ["fit", "time, 1", f"time, {cores}", "CPU, 1", f"CPU, {cores}", "gain", "same"]
    return f"{stamp()}\n\n{table(header, lines)}"


if __name__ == "__main__":
    main(measure, worker, __doc__)
