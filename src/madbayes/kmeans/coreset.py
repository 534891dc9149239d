"""Lightweight coresets: a few weighted rows on which the cost of every clustering is about its cost
on all rows (Bachem, Lucic & Krause 2018, Algorithm 1).

1. The mean μ of the rows.
2. Each row is drawn with probability q = ½·w/Σw + ½·w·d(x, μ)²/Σw·d(x, μ)², m times, with
   replacement.
3. A drawn row weighs w/(m·q), so that sums over the coreset are right on average.

For m of the order of (dk·log k + log 1/δ)/ε² all k centres Q at once satisfy (with probability
1 - δ) |φ_coreset(Q) - φ(Q)| ≤ ε/2·φ(Q) + ε/2·φ({μ}) (their Theorem 2).

Departs from the paper: rows may have weights, and a row that is drawn several times is kept once,
with the sum of its weights. Callers do not rely on the bound: they measure the error of their
centres in a pass over all rows.

Every step is a sum over blocks of rows. Only `mass` and `pick` read the rows, so only they run
where the rows are; `places` is drawn between the two.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from madbayes._rows.row_kernels import distances_to
from madbayes._rows.rows import Share


class Coreset(NamedTuple):
    """Some rows, in the order of the table, and the weight of each."""

    rows: np.ndarray  # their numbers in the table
    X: np.ndarray  # in the type of the source, C-contiguous
    weight: np.ndarray


class Drawn(NamedTuple):
    """The drawn rows of one block: their places in it, how often each was drawn, and each q."""

    at: np.ndarray
    times: np.ndarray
    chance: np.ndarray


def mass(block: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(Σw, Σw·d²) of one block, for step 2; `weight` is empty if all weights are 1.

    `pick` takes the sum over all blocks as `total`.
    """
    return _shares(block, weight, mean).sum(axis=1)


def places(m: int, rng: np.random.RandomState) -> np.ndarray:
    """2. m sorted random numbers from 0 to 1: positions on the line of cumulated probabilities."""
    return np.sort(rng.random_sample(m))


def edges(masses: np.ndarray) -> np.ndarray:
    """The positions where the blocks begin on the line of cumulated probabilities, and its end.

    `masses` has one row for each block.
    """
    along = _chance(np.asarray(masses, dtype=np.float64).T, np.sum(masses, axis=0))
    ends = np.concatenate([[0.0], np.cumsum(along)])
    ends[-1] = 1.0  # exactly, in spite of rounding
    return ends


def pick(
    block: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    total: np.ndarray,
    span: tuple[float, float],
    drawn: np.ndarray,
) -> Drawn:
    """2. The rows of one block that the positions `drawn` fall on.

    `span` is the part of the line that belongs to the block.
    """
    inside = drawn[np.searchsorted(drawn, span[0]) : np.searchsorted(drawn, span[1])]
    if not inside.size:
        return Drawn(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    chance = _chance(_shares(block, weight, mean), total)
    reached = np.cumsum(chance)
    along = (inside - span[0]) * (reached[-1] / (span[1] - span[0]))
    at = np.minimum(np.searchsorted(reached, along, side="right"), len(block) - 1)
    at, times = np.unique(at, return_counts=True)
    counts = chance[at] > 0  # only rounding can draw a row of weight 0
    return Drawn(at[counts], times[counts], chance[at][counts])


def weigh(drawn: Drawn, weight: np.ndarray, m: int) -> np.ndarray:
    """3. The weights of the drawn rows."""
    w = weight[drawn.at] if weight.shape[0] else 1.0
    return drawn.times * w / (m * drawn.chance)


def coreset(rows: Any, mean: np.ndarray, m: int, rng: np.random.RandomState) -> Coreset:
    """Steps 1 to 3 over the blocks of the rows; `mean` is the mean of the rows (`measure`)."""
    executor, shares = rows.executor, rows.shares
    masses = executor.ask(masses_of, shares, args=(mean,))
    whole = np.vstack(masses)
    ends, drawn = edges(whole), places(m, rng)
    first = np.cumsum([0, *map(len, masses)])
    spans = [ends[a : b + 1] for a, b in pairwise(first)]
    inside = [drawn[slice(*np.searchsorted(drawn, span[[0, -1]]))] for span in spans]
    hit = [s for s, places in enumerate(inside) if places.size]
    columns = ([each[s] for s in hit] for each in (shares, spans, inside))
    parts = executor.ask(picks, *columns, args=(mean, whole.sum(axis=0), m))
    found, X, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Coreset(found, X, weight)


def masses_of(share: Share, mean: np.ndarray) -> np.ndarray:
    """`mass` of each block of a share."""
    return np.array([mass(block, weight, mean) for _, block, weight in share.blocks()])


def picks(
    share: Share, ends: np.ndarray, drawn: np.ndarray, mean: np.ndarray, total: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """2. and 3. for a share: the numbers of the drawn rows, the rows, and their weights."""
    parts = []
    for (a, b), span in zip(share.block_cuts(), pairwise(ends), strict=True):
        if not np.subtract(*np.searchsorted(drawn, span)):
            continue  # no draw falls on this block, so it is not read
        for here, block, weight in share.blocks((a, b)):
            got = pick(block, weight, mean, total, span, drawn)
            at = share.start + share.first + here.start + got.at
            parts.append((at, block[got.at], weigh(got, weight, m)))
    at, X, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return at, X, weight


def _shares(block: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """An array (2, rows) with w and w·d² of each row."""
    center = np.ascontiguousarray(mean, dtype=np.float64)[None, :]
    squared = np.empty((1, len(block)))
    distances_to(block, center, squared)
    w = weight if weight.shape[0] else np.ones(len(block))
    return np.stack([w, w * squared[0]])


def _chance(shares: np.ndarray, total: np.ndarray) -> np.ndarray:
    """q for the result of `_shares`; if all rows are equal, q depends on the weights only."""
    if not total[1] > 0:
        return shares[0] / total[0]
    return 0.5 * (shares[0] / total[0] + shares[1] / total[1])
