"""Feature models on generated bars: time, and how the objective compares with the planted one.

There is no peer to install: scikit-learn has no model with binary features.
"""

from functools import partial

import numpy as np
from common import main, say, seconds, stamp, table, timed_cpu

NOISE = 0.3
LARGE = 100_000  # rows from which on the models that go row by row are left out


def bars(n, side=8, seed=0):
    """8 bars in pictures of 8×8, each present in 3 of 10."""
    rng = np.random.default_rng(seed)
    A = np.zeros((8, side, side))
    for k in range(4):
        A[k, 2 * k] = A[k + 4, :, 2 * k] = 1
    Z = rng.random((n, 8)) < 0.3
    X = rng.standard_normal((n, side**2), dtype=np.float32) * np.float32(NOISE)
    X += Z.astype(np.float32) @ A.reshape(8, -1).astype(np.float32)
    return X, Z


def planted(X, Z):
    """The squared error of the allocation that made X."""
    Z = Z.astype(np.float32)
    A = np.linalg.solve((Z.T @ Z).astype(float), (Z.T @ X).astype(float))
    return float(
        sum(((X[a : a + 8192] - Z[a : a + 8192] @ A) ** 2).sum() for a in range(0, len(X), 8192))
    )


def measure(quick):
    from madbayes import BPMeans, CollapsedBPMeans, KFeatures, StepwiseKFeatures

    lines = []
    for n in (0, 400, 5_000) if quick else (0, 400, 5_000, 50_000, 1_000_000):
        X, Z = bars(n or 200)  # the first one compiles
        error = planted(X, Z)
        penalty = (
            2 * NOISE**2 * (np.sqrt(len(X)) + np.sqrt(X.shape[1])) ** 2
        )  # twice the noise edge
        models = {
            "KFeatures(8)": KFeatures(8, random_state=0),
            "BPMeans()": BPMeans(random_state=0),
            "BPMeans(λ)": BPMeans(penalty, random_state=0),
            "StepwiseKFeatures(λ)": StepwiseKFeatures(penalty, random_state=0),
            "BPMeans(λ, algorithm='paper')": BPMeans(penalty, algorithm="paper", random_state=0),
            "CollapsedBPMeans(λ)": CollapsedBPMeans(penalty, random_state=0),
        }
        if n > LARGE:
            models = {name: models[name] for name in ("KFeatures(8)", "BPMeans()", "BPMeans(λ)")}
        for name, model in models.items():
            cpu, wall, model = timed_cpu(partial(model.fit, X), 3 if 0 < n < 5_000 else 1)
            goal = error + 8 * getattr(model, "penalty_", 0.0)
            times = seconds(cpu), seconds(wall)
            cells = [name, model.n_components_, *times, f"{model.objective_ / goal:.4f}"]
            say(f"{n} {cells}")
            if n:
                lines.append([f"{n:,}×{X.shape[1]}", *cells])
    goal = "objective / that of the planted features"
    header = ["rows", "model", "features", "CPU", "time", goal]
    return f"{stamp()}\n\n{table(header, lines)}"


if __name__ == "__main__":
    main(measure, description=__doc__)
