"""Workers killed at random times: does every fit end with the bits of one machine?

    python tests/kills.py [rounds, 20]

Three worker processes, one of which gets SIGKILL while a fit runs.
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


def fit(name: str, X):
    return FITS[name]().fit(X, **({"groups": np.arange(N) // 1_500} if name == "HardHDP" else {}))


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


def killed_fit(name: str, X: np.ndarray, seconds: float | None) -> tuple[dict, float, bool]:
    """A fit on three new workers, one of which is killed (None: not); what it left, how long it
    took, and whether it was under way when the worker died."""
    table = da.from_array(X, chunks=(1_700, -1))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        LocalCluster(
            n_workers=3, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        done, during = threading.Event(), []
        if seconds is not None:
            args = (client, random.uniform(0, 0.9 * seconds), done, during)
            threading.Thread(target=kill_one, args=args).start()
        begun = time.perf_counter()
        found = leaves(fit(name, table))
        took = time.perf_counter() - begun
        done.set()
        while seconds is not None and not during:
            time.sleep(0.01)
    return found, took, any(during)


def main(rounds: int) -> int:
    random.seed(0)
    warnings.simplefilter("ignore")
    X = rows()
    seconds = {name: killed_fit(name, X, None)[1] for name in FITS}
    wrong = early = 0
    for i in range(rounds):
        name = list(FITS)[i % len(FITS)]
        found, took, during = killed_fit(name, X, seconds[name])
        expected = leaves(fit(name, X))
        same = all(np.array_equal(found[key], value) for key, value in expected.items())
        wrong += not same
        early += during
        how = "in mid-fit" if during else "after the fit"
        print(f"{i + 1:3} {name:10} {how}, {took:.1f} s: {'same' if same else 'WRONG'}", flush=True)
    print(f"{rounds} fits, {early} with a worker killed in mid-fit, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
