"""Workers killed at random times: does every fit end with the bits of one machine?

    python tests/kills.py [rounds, 20]

Three worker processes, one of which gets SIGKILL while a fit runs; Dask starts another one.
"""

import os
import random
import signal
import sys
import threading
import time
import warnings

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from madbayes import BPMeans, DPMeans, HardHDP, KFeatures, KMeans

N = 30_000
FITS = {
    "KMeans": lambda: KMeans(40, random_state=0, tol=0, max_iter=12),
    "DPMeans": lambda: DPMeans(40.0, algorithm="paper", max_iter=8),
    "DPMeans()": lambda: DPMeans(random_state=0),
    "HardHDP": lambda: HardHDP(60.0, 90.0, algorithm="paper", max_iter=8),
    "KFeatures": lambda: KFeatures(4, assignment="coordinate", n_init=2, random_state=0),
    "BPMeans": lambda: BPMeans(9_000.0, algorithm="paper", n_init=2, max_iter=8, random_state=0),
}


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    Z = rng.random((N, 4)) < 0.4
    return (4 * Z @ rng.normal(size=(4, 8)) + rng.normal(size=(N, 8))).astype(np.float32)


def leaves(model) -> dict[str, np.ndarray]:
    """What a fit left behind, here."""
    names = ("labels_", "cluster_centers_", "components_", "assignments_", "objective_history_")
    found = [(name, getattr(model, name)) for name in names if hasattr(model, name)]
    return {name: np.asarray(value) for name, value in found}


def kill_one(client: Client, delay: float, done: threading.Event, during: list[bool]) -> None:
    """Kill a worker, and note whether the fit was still under way."""
    victims = list(client.run(os.getpid).values())
    time.sleep(delay)
    os.kill(random.choice(victims), signal.SIGKILL)
    during.append(not done.is_set())


def main(rounds: int) -> int:
    random.seed(0)
    warnings.simplefilter("ignore")
    X = rows()
    groups = np.arange(N) // 1_500
    table = da.from_array(X, chunks=(1_700, -1))
    wrong = early = 0
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        LocalCluster(
            n_workers=3, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        expected, seconds = {}, {}
        for name, make in FITS.items():
            more = {"groups": groups} if name == "HardHDP" else {}
            expected[name] = leaves(make().fit(X, **more))
            make().fit(table, **more)  # compiles on the workers
            begun = time.perf_counter()
            make().fit(table, **more)
            seconds[name] = time.perf_counter() - begun
        for i in range(rounds):
            name = list(FITS)[i % len(FITS)]
            more = {"groups": groups} if name == "HardHDP" else {}
            while len(client.nthreads()) < 3:
                time.sleep(0.1)
            done, during = threading.Event(), []
            delay = random.uniform(0, 0.9 * seconds[name])
            killer = threading.Thread(target=kill_one, args=(client, delay, done, during))
            killer.start()
            model = FITS[name]().fit(table, **more)
            done.set()
            killer.join()
            found = leaves(model)
            same = all(np.array_equal(found[key], value) for key, value in expected[name].items())
            wrong += not same
            early += during[0]
            print(
                f"{i + 1:3} {name:10} killed after {delay:5.2f} s: {'same' if same else 'WRONG'}",
                flush=True,
            )
    print(f"{rounds} fits, {early} with a worker killed in mid-fit, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
