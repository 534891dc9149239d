"""`python -m madbayes.compile`: compile the kernels now, not in somebody's first call.

Numba compiles a kernel when it is first called and keeps the result in a cache on the disk. In an
image, a new environment or CI that is best done beforehand: every estimator is fitted on a few
rows, in several processes, which fill the same cache.
"""

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import numpy as np

WIDE = 24  # columns that are compared by matrix products, if there are enough rows
LARGE = 24_000  # rows that are too many to compare each with all of 64 centres


def rows(n: int, d: int) -> np.ndarray:
    """A few groups."""
    r = np.random.default_rng(0)
    return np.asarray(np.repeat(9 * r.normal(size=(3, d)), n // 3, axis=0) + r.normal(size=(n, d)))


def tasks() -> list[tuple[str, dict[str, object], str]]:
    """(estimator, parameters, data) whose fits call every kernel that a user's first fit would."""
    wide = ["KMeans", "DPMeans", "OnlineDPMeans", "OnlineKMeans"]
    plain = ["CollapsedDPMeans", "KMedoids", "DPMedoids", "EllipticalMeans", "KernelDPMeans"]
    plain += ["SpectralDPMeans", "HardHDP", "KernelHardHDP", "NeighborCut", "KFeatures", "BPMeans"]
    plain += ["StepwiseKFeatures", "CollapsedBPMeans", "DPMixtureGibbs", "IBPGibbs"]
    found: list[tuple[str, dict[str, object], str]] = []
    found += [(name, {}, kind) for name in wide for kind in ("narrow", "wide", "single")]
    large = ("narrow large", "wide large", "narrow large single", "wide large single")
    found += [("KMeans", {"n_clusters": 64, "n_init": 1}, kind) for kind in large]
    found += [(name, {}, "narrow") for name in plain]
    found += [(name, {"algorithm": "paper"}, "narrow") for name in ("DPMeans", "HardHDP")]
    found += [("AutoCluster", {"shape": "round"}, "narrow")]
    found += [(name, {"divergence": "mixed"}, "narrow") for name in ("DPMeans", "KMeans")]
    return [*found, ("NeighborCut", {}, "cloud"), ("GraphCut", {}, "graph")]


def compile_one(task: tuple[str, dict[str, object], str]) -> str:
    """Fit one estimator."""
    import madbayes

    name, parameters, kind = task
    X = rows(LARGE if "large" in kind else 60, WIDE if "wide" in kind else 3)
    if "single" in kind:
        X = X.astype(np.float32)
    if kind == "cloud":  # without groups: a second look is taken
        X = np.random.default_rng(0).normal(size=(120, WIDE))
    if kind == "graph":
        X = (((X[:, None] - X) ** 2).sum(axis=2) < 9) * 1.0
        np.fill_diagonal(X, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(madbayes, name)(**parameters).fit(X)
        if hasattr(model, "predict") and kind != "graph":
            model.predict(X)
    return name


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m madbayes.compile", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--quiet", action="store_true", help="no bar")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="estimators, such as DPMeans")
    options = parser.parse_args(arguments)
    jobs = [t for t in tasks() if not options.only or t[0] in options.only]
    if not jobs:
        names = ", ".join(sorted({t[0] for t in tasks()}))
        parser.error(f"--only {' '.join(options.only)}: nothing to do. The names are {names}.")
    started = time.monotonic()
    with ProcessPoolExecutor(max(1, options.jobs), get_context("spawn")) as pool:
        futures = [pool.submit(compile_one, job) for job in jobs]
        for done, future in enumerate(as_completed(futures), 1):
            name = future.result()
            if not options.quiet:
                bar = "#" * round(30 * done / len(jobs))
                left = (time.monotonic() - started) / done * (len(jobs) - done)
                line = f"\r[{bar:<30}] {done}/{len(jobs)} {name:<20} about {left:3.0f} s left"
                sys.stderr.write(line)
                sys.stderr.flush()
    if not options.quiet:
        sys.stderr.write(f"\ncompiled in {time.monotonic() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
