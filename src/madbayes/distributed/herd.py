"""What a worker does with some whole groups, for `groups`. Arguments are never changed."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from madbayes._partition.moves import add_rows
from madbayes.groups import hdp_kernels as hdp
from madbayes.groups.base import number_locally, usage


class Herd(NamedTuple):
    """The rows of some whole groups, shifted to the mean of all."""

    X: np.ndarray
    w: np.ndarray
    start: np.ndarray  # group j of the herd is rows start[j] to start[j + 1]
    first: int  # the number of its first group


def try_rows(
    herd: Herd, z: np.ndarray, centers: np.ndarray, local: float, glob: float
) -> tuple[np.ndarray, np.ndarray]:
    """4., as if nobody else opened a cluster: labels and clusters opened."""
    z, k = z.copy(), len(centers)
    C = hdp.assign_or_open(herd.X, herd.w, herd.start, z, centers.copy(), k, local, glob)[0]
    return z, C[k:]


def labels_after(tried: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return tried[0]


def opened_by(tried: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return tried[1]


def find_local(herd: Herd, z: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    return hdp.local_clusters(herd.X, herd.w, herd.start, z, k)


def first_three(found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return found[:3]


def follow(found: tuple[np.ndarray, ...], label: np.ndarray) -> np.ndarray:
    return label[found[3]]


def add_herd(sums: tuple[np.ndarray, ...], herd: Herd, z: np.ndarray) -> tuple[np.ndarray, ...]:
    C, W, N = (part.copy() for part in sums)
    add_rows(herd.X, herd.w, z, C, W, N, False)
    return C, W, N


def add_error(total: float, herd: Herd, z: np.ndarray, centers: np.ndarray) -> float:
    return hdp.add_errors(total, herd.X, herd.w, z, centers)


def count_local(herd: Herd, z: np.ndarray, k: int) -> int:
    return int(hdp.count_local(herd.start, z, k).sum())


def codes(herd: Herd) -> np.ndarray:
    return np.repeat(np.arange(len(herd.start) - 1), np.diff(herd.start))


def used(herd: Herd, z: np.ndarray, k: int) -> sp.csr_array:
    return usage(codes(herd), z, (len(herd.start) - 1, k))


def number(rows_of: sp.csr_array, herd: Herd, z: np.ndarray) -> np.ndarray:
    return number_locally(rows_of, herd.first + codes(herd), z)
