"""What each stage of `NeighborCut` earns: the fit without it, on sets that no stage was tuned on.

For each stage of `graph/stages.py` that can be left out: the mean adjusted Rand index and the
number of sets with the exact number of clusters, with all stages and without this one, and the
time. The sets are drawn with seeds of their own from the kinds of `shapes.py` that were not looked
at while the rules were made, with curves that cross, rounded tables and groups of many columns.
"""

import time
import warnings

import numpy as np
from common import main, say, stamp, table
from shapes import NOISE, UNSEEN, circle, curves

SEEDS = (101, 102)


def crossing(n, rng):
    return curves(circle, lambda t: circle(t, 1.2), noise=0.03)(n, rng)


def rounded(n, rng):
    y = rng.integers(0, 3, n)
    return (rng.normal(size=(n, 2)) + 5 * np.c_[y, y % 2]).round(0), y


def many_columns(gap):
    def make(n, rng):
        y = rng.integers(0, 6, n)
        return gap * rng.normal(size=(6, 30))[y] + rng.normal(size=(n, 30)), y

    return make


KINDS = {
    **UNSEEN,
    **{f"noise: {name}": make for name, make in NOISE.items()},
    "crossing rings": crossing,
    "rounded": rounded,
    "many columns, overlapping": many_columns(0.5),
    "many columns, more": many_columns(0.6),
}


def run_once(stages_used, sizes):
    from sklearn.metrics import adjusted_rand_score

    from madbayes import NeighborCut
    from madbayes.graph import stages

    every = stages.STAGES
    stages.STAGES = tuple(stages_used)
    try:
        rows, begin = [], time.process_time()
        for make in KINDS.values():
            for seed in SEEDS:
                for n in sizes:
                    X, y = make(n, np.random.default_rng(seed))
                    labels = NeighborCut(n_jobs=1).fit(X).labels_
                    exact = len(np.unique(labels)) == len(np.unique(y))
                    rows.append((adjusted_rand_score(y, labels), exact))
        return np.mean([r for r, _ in rows]), sum(e for _, e in rows), time.process_time() - begin
    finally:
        stages.STAGES = every


def measure(quick):
    from madbayes.graph import stages

    warnings.simplefilter("ignore")
    sizes = (400,) if quick else (500, 2000)
    sets = len(KINDS) * len(SEEDS) * len(sizes)
    run_once(stages.STAGES, (200,))  # loads and compiles
    whole = run_once(stages.STAGES, sizes)
    rows = [["all stages", f"{whole[0]:.3f}", whole[1], f"{whole[2]:.1f} s", ""]]
    for stage in stages.STAGES[1:]:  # the first makes the clusters
        say(f"   without {stage.__name__}")
        left = run_once([each for each in stages.STAGES if each is not stage], sizes)
        rows.append(
            [
                f"without `{stage.__name__}`",
                f"{left[0]:.3f}",
                left[1],
                f"{left[2]:.1f} s",
                f"{whole[0] - left[0]:+.3f}",
            ]
        )
    head = ["", "adjusted Rand", f"exact of {sets}", "CPU time", "the stage earns"]
    return f"{stamp()}\n\n{table(head, rows)}"


if __name__ == "__main__":
    main(measure, description=__doc__)
