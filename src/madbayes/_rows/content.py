"""A random order of rows that depends on the values of the rows, not on their places in the table.

Every draw of rows (samples, halves, seeds of clusters) is made from rows in this order. So a table
and its shuffled copy give the same draws, and hence the same clusters.

1. *Hash.* Each value, as a whole number between the least and the largest of its column (so that
   units and origin do not matter), is mixed with a random number of the column, and the results are
   added up. A CSR matrix and its dense copy have the same hashes.
2. *Copies.* Equal rows (with equal weights) are numbered, and the number is mixed in: otherwise all
   copies of a row would come next to each other, and a sample would hold all of them or none.
3. *Order.* By the hash, mixed with the seed.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._rows.rows import DISK_VALUES, on_disk

STEPS = 2.0**32  # from the least to the largest value of a column
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, odd: spreads small numbers


def content_order(X: Any, weight: np.ndarray | None, seed: int) -> np.ndarray:
    """The positions of the rows of X in a random order that depends on their values and the seed.

    Rows of weight 0 come last, so that they do not change the order of the others. Many rows on
    disk are not read for this; their order depends on their positions.
    """
    n = X.shape[0]
    if on_disk(X) and n * X.shape[1] > DISK_VALUES:
        return np.random.default_rng(seed).permutation(n)
    if weight is not None and not weight.all():
        counted = np.flatnonzero(weight)
        order = counted[content_order(X[counted], weight[counted], seed)]
        return np.concatenate([order, np.flatnonzero(weight == 0)])
    hashes = hash_rows(X)  # 1.
    if weight is not None and weight.min() != weight.max():
        hashes += mix(np.rint(weight * (STEPS / weight.max())).astype(np.uint64) * ODD)
    by_hash = np.argsort(hashes, kind="stable")  # 2.
    ordered = hashes[by_hash]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    copy = np.arange(n) - np.repeat(first, np.diff(np.r_[first, n]))
    keys = mix(ordered + ODD * copy.astype(np.uint64) + mix(np.full(1, seed + 1, np.uint64) * ODD))
    return by_hash[np.argsort(keys, kind="stable")]  # 3.


def hash_rows(X: Any) -> np.ndarray:
    """1. A 64-bit number for each row; equal rows have equal numbers."""
    n, d = X.shape
    factor = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * np.uint64(2)
    factor += np.uint64(1)
    step = max(1, 2**16 // max(d, 1))  # rows hashed at once: few enough to stay in the cache
    if sp.issparse(X):
        X = X.tocsr()
        low, high = (getattr(X, name)(axis=0).toarray().ravel() for name in ("min", "max"))
        zero = hashed(np.zeros(d), low, high, factor)  # what a zero that is not stored would add
        j = X.indices
        sums = np.zeros(len(X.data) + 1, np.uint64)
        np.cumsum(hashed(X.data, low[j], high[j], factor[j]) - zero[j], out=sums[1:])
        return zero.sum(dtype=np.uint64) + sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    out = np.empty(n, np.uint64)
    cuts = [slice(a, a + step) for a in range(0, n, step)]
    ends = [(X[cut].min(axis=0), X[cut].max(axis=0)) for cut in cuts]
    low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
    for cut in cuts:
        out[cut] = hashed(X[cut], low, high, factor).sum(axis=1, dtype=np.uint64)
    return out


def hashed(values: Any, low: np.ndarray, high: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """1. The number that each value adds to the hash of its row (modulo 2^64)."""
    low = low.astype(np.float64)
    width = high - low
    scale = np.divide(
        STEPS, width, out=np.zeros(len(width)), where=np.isfinite(width) & (width > 0)
    )
    whole = np.rint((values - low) * scale).astype(np.uint64)
    return mix((whole + np.uint64(1)) * factor)


def mix(numbers: np.ndarray) -> np.ndarray:
    """Mix in place, so that each bit of the result depends on all bits."""
    numbers ^= numbers >> np.uint64(32)
    numbers *= ODD
    numbers ^= numbers >> np.uint64(29)
    return numbers
