"""The rows of one or more segments on a worker, and what can be asked of them alone.

These functions run in tasks and never change their arguments. Segment by segment they do what one
machine does, so that what they add up to is the same to the bit.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from madbayes._partition.segment import scatter
from madbayes._rows.frame import NO_WEIGHT, add_up
from madbayes._rows.rows import Rows, spatial_order
from madbayes.kmeans.coreset import mass, pick, weigh

Cuts = list[tuple[int, int]]


class Share(NamedTuple):
    """The rows of one or more segments."""

    rows: np.ndarray
    weight: np.ndarray  # empty: all ones
    cuts: Cuts
    unit: bool

    @property
    def source(self) -> Rows:
        return Rows(self.rows, unit=self.unit)


def taken(share: Share, at: np.ndarray) -> np.ndarray:
    """Some rows, in the type that they are kept in."""
    return share.source.take(at).astype(share.source.dtype)


def kept(share: Share, at: np.ndarray) -> np.ndarray:
    """Some rows as they are, whatever their length."""
    return share.rows[at]


def weights_at(share: Share, at: np.ndarray) -> np.ndarray:
    return share.weight[at] if share.weight.shape[0] else np.ones(len(at))


def add_up_all(share: Share, origin: np.ndarray) -> list[tuple[np.ndarray, float, float]]:
    return [add_up(share.source, share.weight, origin, cut) for cut in share.cuts]


def scatter_all(share: Share, mean: np.ndarray) -> list[float]:
    return [scatter(share.source, share.weight, mean, cut) for cut in share.cuts]


def first_positive(share: Share) -> int:
    found = np.flatnonzero(share.weight > 0)
    return int(found[0]) if found.size else -1


def rows_of(share: Share, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
    return share.rows[a:b], share.weight[a:b]


def join_shares(cuts: Cuts, unit: bool, *parts: tuple[np.ndarray, np.ndarray]) -> Share:
    rows, weights = zip(*parts, strict=True)
    if len(parts) == 1:
        return Share(np.ascontiguousarray(rows[0]), weights[0], cuts, unit)
    return Share(np.concatenate(rows), np.concatenate(weights), cuts, unit)


# Rows near each other put next to each other


def order_of(share: Share) -> np.ndarray:
    return spatial_order(share.rows)


def order_within(share: Share) -> np.ndarray:
    """Each segment in an order of its own."""
    return np.concatenate([a + spatial_order(share.rows[a:b]) for a, b in share.cuts])


def in_order(share: Share, order: np.ndarray) -> Share:
    return picked(share, order, 0, len(order), share.cuts)


def picked(share: Share, order: np.ndarray, a: int, b: int, cuts: Cuts) -> Share:
    weight = share.weight[order[a:b]] if share.weight.shape[0] else NO_WEIGHT
    return Share(np.ascontiguousarray(share.rows[order[a:b]]), weight, cuts, share.unit)


# metric="cosine"


def zeros(share: Share) -> np.ndarray:
    """Rows without a direction."""
    return np.flatnonzero(~share.rows.any(axis=1))


def of_directions(share: Share, zero: np.ndarray, weighted: bool) -> Share:
    """Rows of length 1, zeros without weight."""
    weight = share.weight
    if weighted:
        weight = weight.copy() if weight.shape[0] else np.ones(len(share.rows))
        weight[zero] = 0.0
    return share._replace(weight=weight, unit=True)


# Coresets


def masses(share: Share, mean: np.ndarray) -> np.ndarray:
    """`coreset.mass` of each block."""
    return np.array(
        [
            mass(block, share.weight[a:b], mean)
            for cut in share.cuts
            for a, b, block in share.source.blocks(*cut)
        ]
    )


def picks(
    share: Share, mean: np.ndarray, total: np.ndarray, ends: np.ndarray, drawn: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`coreset.pick` of all blocks: where, the rows, what they weigh."""
    parts = []
    blocks = (block for cut in share.cuts for block in share.source.blocks(*cut))
    for (a, b, block), span in zip(blocks, pairwise(ends), strict=True):
        got = pick(block, share.weight[a:b], mean, total, span, drawn)
        parts.append((a + got.at, block[got.at], weigh(got, share.weight[a:b], m)))
    at, rows, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return at, rows, weight
