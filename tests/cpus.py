"""The tests as other processors would run them: `make test-cpus`.

    python tests/cpus.py [--quick] [pytest arguments]

OpenBLAS picks its matrix products by the processor, Numba its instructions, and both can be told to
take those of another one. What this library promises to the bit must hold with all of them. --quick
takes only the oldest products, which are nobody's own any more, and the files that rest on them.
"""

import os
import platform
import subprocess
import sys
from itertools import cycle

from llvmlite.binding import get_host_cpu_features

QUICK = ["tests/kmeans/test_kmeans.py", "tests/kmeans/test_cosine.py", "tests/kernel"]


def settings(quick: bool) -> list[dict[str, str]]:
    """Environments, one for each run: every product and every number of threads in one of them."""
    products = ["ARMV8"]
    if platform.machine().lower() in ("x86_64", "amd64"):
        products = ["Prescott", "Haswell", "Zen"]
        if not get_host_cpu_features().get("avx2"):
            products = ["Prescott"]
        if get_host_cpu_features().get("avx512f"):  # elsewhere an illegal instruction
            products.append("SkylakeX")
    runs = [{"OPENBLAS_CORETYPE": name} for name in products]
    if quick:
        return runs[:1]
    runs.append({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""})
    for run, threads in zip(runs, cycle("142"), strict=False):
        run["OPENBLAS_NUM_THREADS"] = threads
    return runs


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    arguments = [a for a in arguments if a != "--quick"] or (QUICK if quick else [])
    failed = []
    for change in settings(quick):
        name = " ".join(f"{key}={value}" for key, value in change.items() if value)
        print(f"--- {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *arguments]
        if subprocess.run(command, env={**os.environ, **change}).returncode:
            failed.append(name)
    print("failed with " + ", ".join(failed) if failed else "the same everywhere")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
