"""Lightweight coresets: few weighted rows on which every clustering costs about what it costs on
all rows (Bachem, Lucic & Krause 2018, Algorithm 1).

1. The mean μ of the rows.
2. Each row is drawn with probability q = ½·w/Σw + ½·w·d(x, μ)²/Σw·d(x, μ)², m times, with
   replacement.
3. A drawn row weighs w/(m·q), so that sums over the coreset are right on average.

For m of the order of (dk·log k + log 1/δ)/ε² all k centres Q at once satisfy (with probability
1 - δ) |φ_coreset(Q) - φ(Q)| ≤ ε/2·φ(Q) + ε/2·φ({μ}) (their Theorem 2).

Departs from the paper: nothing but that weights are allowed, and that a row which is drawn several
times is kept once, with the sum of its weights. The bound is not relied on: whoever uses a coreset
measures the error of what was found in a pass over all rows.

Every step is a sum over blocks of rows: `mass` and `pick` are all that has to be done where the
rows are, `places` is drawn in between.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from madbayes._rows.row_kernels import distances_to
from madbayes._rows.rows import Share


class Coreset(NamedTuple):
    """Some rows, in their order, and what each of them weighs."""

    rows: np.ndarray  # where they are
    X: np.ndarray  # as the source has them, C-contiguous
    weight: np.ndarray


class Drawn(NamedTuple):
    """What `pick` found in one block: places in the block, how often, and the chance q of each."""

    at: np.ndarray
    times: np.ndarray
    chance: np.ndarray


def mass(block: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """1. and 2., of one block: (Σw, Σw·d²); `weight` is empty where all are one.

    The sum over all blocks is what `pick` is given as `total`.
    """
    return _shares(block, weight, mean).sum(axis=1)


def places(m: int, rng: np.random.RandomState) -> np.ndarray:
    """2. Where along the whole mass, from 0 to 1, the m draws fall; sorted."""
    return np.sort(rng.random_sample(m))


def edges(masses: np.ndarray) -> np.ndarray:
    """Where on that line each block begins, and the end; `masses` has one line for each block."""
    along = _chance(np.asarray(masses, dtype=np.float64).T, np.sum(masses, axis=0))
    ends = np.concatenate([[0.0], np.cumsum(along)])
    ends[-1] = 1.0  # rounding aside
    return ends


def pick(
    block: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    total: np.ndarray,
    span: tuple[float, float],
    drawn: np.ndarray,
) -> Drawn:
    """2. The rows of one block that the places `drawn` fall on; `span` is where the block lies."""
    inside = drawn[np.searchsorted(drawn, span[0]) : np.searchsorted(drawn, span[1])]
    if not inside.size:
        return Drawn(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    chance = _chance(_shares(block, weight, mean), total)
    reached = np.cumsum(chance)
    along = (inside - span[0]) * (reached[-1] / (span[1] - span[0]))
    at = np.minimum(np.searchsorted(reached, along, side="right"), len(block) - 1)
    at, times = np.unique(at, return_counts=True)
    counts = chance[at] > 0  # a row of weight 0 is drawn by rounding alone
    return Drawn(at[counts], times[counts], chance[at][counts])


def weigh(drawn: Drawn, weight: np.ndarray, m: int) -> np.ndarray:
    """3. What the drawn rows weigh."""
    w = weight[drawn.at] if weight.shape[0] else 1.0
    return drawn.times * w / (m * drawn.chance)


def coreset(rows: Any, mean: np.ndarray, m: int, rng: np.random.RandomState) -> Coreset:
    """1. to 3. over the blocks of the rows; `mean` is that of the rows (`measure`)."""
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
    """2. and 3. of a share: numbers of rows, the rows, what they weigh."""
    parts = []
    for (a, b), span in zip(share.block_cuts(), pairwise(ends), strict=True):
        if not np.subtract(*np.searchsorted(drawn, span)):
            continue  # nothing to read
        for here, block, weight in share.blocks((a, b)):
            got = pick(block, weight, mean, total, span, drawn)
            at = share.start + share.first + here.start + got.at
            parts.append((at, block[got.at], weigh(got, weight, m)))
    at, X, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return at, X, weight


def _shares(block: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(2, rows): w and w·d² of each row."""
    center = np.ascontiguousarray(mean, dtype=np.float64)[None, :]
    squared = np.empty((1, len(block)))
    distances_to(block, center, squared)
    w = weight if weight.shape[0] else np.ones(len(block))
    return np.stack([w, w * squared[0]])


def _chance(shares: np.ndarray, total: np.ndarray) -> np.ndarray:
    """q of such shares; where all rows are equal only the weights count."""
    if not total[1] > 0:
        return shares[0] / total[0]
    return 0.5 * (shares[0] / total[0] + shares[1] / total[1])
