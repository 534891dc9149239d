"""The search at a fixed number of clusters against restarts of scikit-learn's KMeans.

python benchmarks/fixed_k.py [--quick]

Both on one thread, CPU time. Restarts: ten, and as many as take about as long as the search. The
error is given relative to the best of ten restarts; below 0 is lower.
"""

import time

import numpy as np
from common import data_folder, main, say, seconds, stamp, table
from ellipses import read
from threadpoolctl import threadpool_limits

EFFORTS = (0.1, 1.0, 10.0)


def standardized(X):
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def problems(quick):
    rng = np.random.default_rng(0)
    yield "noise", rng.normal(size=(5_000, 8)), 30
    centers = rng.normal(size=(25, 16)) * 2
    yield "25 groups", centers[rng.integers(0, 25, 3_000)] + rng.normal(size=(3_000, 16)), 25
    folder = data_folder()
    if quick or folder is None:
        return
    for name, k in (("uci/wine", 10), ("uci/vehicle", 12), ("shapes/s1", 15), ("shapes/d31", 31)):
        yield name, standardized(read(folder / f"{name}.csv.gz")[0]), k
    digits = standardized(read(folder / "images" / "digits8x8.csv.gz")[0])
    yield "images/digits8x8", digits, 10
    yield "images/digits8x8", digits, 40
    sift = np.load(folder / "sift" / "sacre_coeur_sift_10k.npz")["X"][:4_000]
    yield "sift, 4,000 rows", sift.astype(np.float32), 20


def cpu(model, X):
    start = time.process_time()
    fitted = model.fit(X)
    return time.process_time() - start, fitted.inertia_


def measure(quick):
    from sklearn.cluster import KMeans as Peer

    from madbayes import KMeans

    lines = []
    for name, X, k in problems(quick):
        KMeans(3, algorithm="search", random_state=0, n_jobs=1).fit(X[:300])  # compiles
        with threadpool_limits(1):
            ten_time, ten = cpu(Peer(k, n_init=10, random_state=0), X)
            found = [
                cpu(KMeans(k, algorithm="search", effort=e, random_state=0, n_jobs=1), X)
                for e in EFFORTS
            ]
            starts = max(10, round(10 * found[1][0] / ten_time))
            _, many = cpu(Peer(k, n_init=starts, random_state=1), X)
        cells = [name, f"{len(X):,}×{X.shape[1]}", k, seconds(ten_time)]
        cells += [f"{starts}: {many / ten - 1:+.2%}"]
        cells += [f"{error / ten - 1:+.2%} in {seconds(t)}" for t, error in found]
        say(str(cells))
        lines.append(cells)
    head = ["data", "size", "k", "ten restarts", "as many as take as long"]
    head += [f"search, effort {e:g}" for e in EFFORTS]
    return table(head, lines) + "\n\n" + stamp()


if __name__ == "__main__":
    main(measure)
