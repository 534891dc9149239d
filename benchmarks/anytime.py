"""How low the search gets in how much time, against restarts of scikit-learn's KMeans.

python benchmarks/anytime.py [--quick]

`KMeans(k, algorithm="search", effort=…)` and 50 single starts of scikit-learn, one after the other;
one thread, CPU time, one process. Each effort is compared with the best of as many restarts as take
as long (of one at least). Below 0 is lower; times are in restarts. Both are drawn against time in
anytime.png beside this file.
"""

import time

import numpy as np
from common import HERE, data_folder, main, mixture, say, seconds, stamp, table
from ellipses import read
from threadpoolctl import threadpool_limits

EFFORTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RESTARTS = 50


def problems(quick):
    noise = np.random.default_rng(0).normal(size=(20_000, 8))
    yield "noise", noise[:2_000] if quick else noise, 56
    yield "mixture, touching", mixture(2_000 if quick else 20_000, 16, 50, gap=4)[0], 50
    if not quick:
        yield "mixture, overlapping", mixture(20_000, 8, 100, gap=2)[0], 100
    folder = data_folder()
    if quick or folder is None:
        return
    yield "SIFT", np.load(folder / "sift" / "sacre_coeur_sift_10k.npz")["X"].astype(np.float32), 64
    yield "digits", read(folder / "images" / "digits8x8.csv.gz")[0], 20
    yield "d31", read(folder / "shapes" / "d31.csv.gz")[0], 31


def cpu(model, X):
    start = time.process_time()
    error = model.fit(X).inertia_
    return time.process_time() - start, error


def draw(curves):
    """Squared error above the lowest seen against CPU seconds, one panel for each problem."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for axis, (title, spent, best, found) in zip(axes.flat, curves, strict=False):
        times, errors = np.transpose(found)
        lowest = min(best.min(), errors.min())
        axis.step(spent, 100 * (best / lowest - 1), where="post", label="restarts of scikit-learn")
        axis.plot(times, 100 * (errors / lowest - 1), "o-", label="search, effort .1 to 30")
        axis.set(title=title, xscale="log", xlabel="CPU seconds", ylabel="above the lowest, %")
    axes.flat[0].legend()
    figure.savefig(HERE / "anytime.png", dpi=110)


def measure(quick):
    from sklearn.cluster import KMeans as Peer

    from madbayes import KMeans

    lines, curves = [], []
    for name, X, k in problems(quick):
        KMeans(k, algorithm="search", random_state=0, n_jobs=1).fit(X[:1_000])  # compiles
        with threadpool_limits(1):
            starts = [cpu(Peer(k, n_init=1, random_state=s), X) for s in range(RESTARTS)]
            found = [
                cpu(KMeans(k, algorithm="search", effort=e, random_state=0, n_jobs=1), X)
                for e in EFFORTS
            ]
        spent = np.cumsum([t for t, _ in starts])
        best = np.minimum.accumulate([error for _, error in starts])
        one = spent[-1] / RESTARTS
        cells = [name, f"{len(X):,}×{X.shape[1]}", k, seconds(one)]
        cells += [f"{best[9] / best[0] - 1:+.2%}", f"{best[-1] / best[0] - 1:+.2%}"]
        for t, error in found:
            there = best[max(np.searchsorted(spent, t, side="right") - 1, 0)]
            cells.append(f"{error / there - 1:+.2%} at {t / one:.1f}")
        say(str(cells))
        lines.append(cells)
        curves.append((f"{name}, {len(X):,}×{X.shape[1]}, k = {k}", spent, best, found))
    if not quick:
        draw(curves)
    head = ["data", "size", "k", "one restart", "best of 10", f"best of {RESTARTS}"]
    head += [f"effort {e:g}" for e in EFFORTS]
    return table(head, lines) + "\n\n" + stamp()


if __name__ == "__main__":
    main(measure)
