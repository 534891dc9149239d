"""KMeans of a Dask table: workers, chunks, bytes; against one machine and against dask-ml.

Workers are processes of one thread each on this machine. From the same centres, so many passes for
each. Where dask-ml can be imported it runs too. Bytes are what workers send to each other
while a pass runs, as they count them.
"""

import logging
import time
import warnings

import numpy as np
from common import stamp, table

PASSES = 8


def rows_of(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    places = 3 * rng.normal(size=(k, d))
    X = np.empty((n, d), np.float32)
    for a in range(0, n, 100_000):
        b = min(n, a + 100_000)
        X[a:b] = places[rng.integers(0, k, b - a)] + rng.normal(size=(b - a, d))
    return X


def sent(client):
    """Bytes that the workers have sent to each other so far."""

    def of_worker(dask_worker):
        return dask_worker.transfer_outgoing_bytes_total

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


def measure(quick):
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    n, d, k = (40_000, 16, 20) if quick else (400_000, 32, 100)
    X = rows_of(n, d, k)
    init = X[np.linspace(0, n - 1, k).astype(int)].astype(np.float64)
    ours(k, init, 2).fit(X)  # compiled
    one, model, _ = per_pass(lambda m: ours(k, init, m).fit(X))
    lines = [["one machine, one thread", f"{one:.3f} s", "", "", "", ""]]
    for workers, chunks in ((1, 16), (2, 16), (2, 4), (2, 256)):
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            name = f"{workers} worker{'s' * (workers > 1)}, {chunks} chunks"
            lines.append([name, *compare(client, X, n // chunks, k, init, model)])
    header = ["where", "a pass", "sent in a pass", "the same bits", "first fit", "dask-ml, a pass"]
    return "\n\n".join([stamp(), f"{n:,}×{d} float32, k = {k}.", table(header, lines)])


def compare(client, X, chunk, k, init, model):
    """The cells of one line, on the workers of `client`."""
    import dask.array as da

    rows = da.from_array(X, chunks=(chunk, -1)).persist()
    first, _ = timed(lambda: ours(k, init, 1).fit(rows))  # the workers compile or load
    spread, other, moved = per_pass(lambda m: ours(k, init, m).fit(rows), lambda: sent(client))
    same = np.array_equal(model.cluster_centers_, other.cluster_centers_)
    cells = [
        f"{spread:.3f} s",
        f"{moved / 2**20:.2f} MB",
        "yes" if same else "NO",
        f"{first:.1f} s",
    ]
    try:
        from dask_ml.cluster import KMeans as Other
    except ImportError:
        return [*cells, "not installed"]
    start32 = init.astype(np.float32)
    theirs, _, _ = per_pass(lambda m: Other(k, init=start32, max_iter=m, tol=0).fit(rows))
    return [*cells, f"{theirs:.3f} s"]


if __name__ == "__main__":
    print(measure(quick=False))
