"""KMeans of a Dask table: workers, chunks, bytes; against one machine and against dask-ml.

    python benchmarks/dask_tables.py [--rows N] [--columns D] [--clusters K]

Workers are processes of one thread each on this machine. From the same centres, so many passes for
each. Where dask-ml can be imported it runs too. Bytes are what workers and scheduler send while a
pass runs, as the workers count them.
"""

import argparse
import logging
import time
import warnings

import numpy as np

PASSES = 8


def rows_of(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    places = 3 * rng.normal(size=(k, d))
    X = np.empty((n, d), np.float32)
    for a in range(0, n, 100_000):
        b = min(n, a + 100_000)
        X[a:b] = places[rng.integers(0, k, b - a)] + rng.normal(size=(b - a, d))
    return X


def received(client):
    """Bytes that the workers have received from each other so far."""

    def of_worker(dask_worker):
        return sum(each["total"] for each in dask_worker.transfer_incoming_log)

    return sum(client.run(of_worker).values())


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def ours(k, init, passes):
    from madbayes import KMeans

    return KMeans(k, init=init, tol=0, max_iter=passes, n_jobs=1)


def per_pass(fit, count=lambda: 0):
    """Seconds, a model, what `count` counts in a pass: long fits minus short ones."""
    marks = [count()]
    short, _ = timed(lambda: fit(2))
    marks.append(count())
    long, model = timed(lambda: fit(2 + PASSES))
    marks.append(count())
    counted = (marks[2] - 2 * marks[1] + marks[0]) / PASSES
    return (long - short) / PASSES, model, counted


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("rows", 400_000), ("columns", 32), ("clusters", 100)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--workers", type=int, help="only this number of workers")
    args = parser.parse_args()
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    n, d, k = args.rows, args.columns, args.clusters
    X = rows_of(n, d, k)
    init = X[np.linspace(0, n - 1, k).astype(int)].astype(np.float64)
    ours(k, init, 2).fit(X)  # compiled
    one, model, _ = per_pass(lambda m: ours(k, init, m).fit(X))
    print(f"{n:,} × {d} float32, k={k}; a pass in seconds")
    print(f"one machine, one thread: {one:.3f}")
    for workers, chunk in ((1, n // 16), (2, n // 16), (2, n // 4), (2, n // 256)):
        if args.workers not in (None, workers):
            continue
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            measure(client, X, chunk, k, init, model)


def measure(client, X, chunk, k, init, model):
    """One line for us and one for dask-ml, on the workers of `client`."""
    import dask.array as da

    table = da.from_array(X, chunks=(chunk, -1)).persist()
    first, _ = timed(lambda: ours(k, init, 1).fit(table))  # the workers compile or load
    spread, other, moved = per_pass(lambda m: ours(k, init, m).fit(table), lambda: received(client))
    same = np.array_equal(model.cluster_centers_, other.cluster_centers_)
    print(
        f"{len(client.nthreads())} workers, chunks of {chunk:,}: {spread:.3f}, {moved / 2**20:.2f} "
        f"MB a pass between workers; the same bits: {same}; first fit {first:.1f}"
    )
    try:
        from dask_ml.cluster import KMeans as Other
    except ImportError:
        return
    start32 = init.astype(np.float32)
    theirs, _, _ = per_pass(lambda m: Other(k, init=start32, max_iter=m, tol=0).fit(table))
    print(f"    dask-ml on the same: {theirs:.3f}")


if __name__ == "__main__":
    main()
