"""Feature models on generated bars: time, and how the objective compares with the planted one.

Run it from a checkout: python benchmarks/features.py [rows ...]
"""

import sys
import time

import numpy as np

from madbayes.features import BPMeans, CollapsedBPMeans, KFeatures

NOISE = 0.3


def bars(n, side=8, seed=0):
    rng = np.random.default_rng(seed)
    A = np.zeros((8, side, side))
    for k in range(4):
        A[k, 2 * k] = A[k + 4, :, 2 * k] = 1
    Z = rng.random((n, 8)) < 0.3
    return Z @ A.reshape(8, -1) + NOISE * rng.standard_normal((n, side**2)), Z


def planted(X, Z):
    A = np.linalg.lstsq(Z.astype(float), X, rcond=None)[0]
    return float(((X - Z.astype(float) @ A) ** 2).sum())


def main():
    BPMeans(100.0, random_state=0).fit(bars(200)[0])  # compile
    print("| rows | model | features | seconds | CPU seconds | objective / planted |")
    print("|---:|---|---:|---:|---:|---:|")
    for n in [int(a) for a in sys.argv[1:]] or [400, 5_000, 50_000]:
        X, Z = bars(n)
        penalty = 2 * NOISE**2 * (np.sqrt(n) + np.sqrt(X.shape[1])) ** 2  # twice the noise edge
        for model in (
            KFeatures(8, n_init=1, random_state=0),
            BPMeans(penalty, n_init=1, random_state=0),
            BPMeans(penalty, algorithm="paper", random_state=0),
            CollapsedBPMeans(penalty, random_state=0),
        ):
            begin, cpu = time.perf_counter(), time.process_time()
            model.fit(X)
            wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
            goal = planted(X, Z) + 8 * getattr(model, "penalty_", 0.0)
            name = type(model).__name__ + (" (paper)" if "paper" in str(model) else "")
            ratio = model.objective_ / goal
            print(
                f"| {n} | {name} | {model.n_components_} | {wall:.1f} | {cpu:.1f} | {ratio:.4f} |"
            )


if __name__ == "__main__":
    main()
