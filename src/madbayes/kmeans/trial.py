"""How a trial of the search comes near a division: plain passes of Lloyd's, given up early.

Most trials (re-drawn centres, `_search/renewal.py`) end where the search is already, or above it.
Exact moves of single rows find that out late. So, from the centres that were drawn:

1. Where there may be too many of them: a few passes, then Ward's merges.
2. Passes, as long as they gain something and may still come below the `limit`.
3. No hope if that is farther above the limit than exact moves reach, or if hardly a row is
   elsewhere than in the division that is `known`. First after a few passes, then after many.

What exact moves gain after Lloyd's passes falls with the rows of a cluster: docs/adr/0023.
"""

from typing import NamedTuple

import numpy as np

from madbayes._partition.lloyd_kernels import lloyd_by_columns
from madbayes._partition.moves import TOL, means
from madbayes._partition.ward import merge_below
from madbayes._rows.threads import patient
from madbayes._search.division import same_division
from madbayes._search.price import Price

FIRST, PASSES = 3, 300  # of Lloyd's: before merges of small clusters; at most
GAINS = 1e-3, 1e-5  # passes that gain less, as a share of the error, are few and many
HOPE = 30.0  # passes go on while one gains this part of what is missing
REACH = 0.2  # exact moves gain up to about this share of the error, over the rows of a cluster
QUICK = 0.25  # what a plain pass costs, of one with exact moves


class Near(NamedTuple):
    """Where a trial is before exact moves, and whether they are worth it."""

    labels: np.ndarray
    centers: np.ndarray
    objective: float
    limit: float
    passes: float  # of all rows over one centre, as dear as exact moves
    hopeful: bool


def approach(
    columns: np.ndarray,
    w: np.ndarray,
    centers: np.ndarray,
    price: Price,
    limit: float = np.inf,
    known: np.ndarray | None = None,
) -> Near:
    """1. to 3. for rows given by their `columns`, of weights w."""
    count = len(centers)  # passes over one centre; one to draw it
    if price.penalty > 0 or len(centers) > price.cap:  # 1.
        before = len(centers)
        count += FIRST * before
        centers = merge_early(columns, w, centers, price)
        if known is not None:  # merges that were to come
            k = int(known.max()) + 1
            limit -= price.penalty * (max(0, before - k) - max(0, len(centers) - k))
    cost = price.penalty * len(centers)
    for gain in GAINS:  # 2.
        labels, centers, error, turns = lloyd_by_columns(
            columns, w, centers, PASSES, gain, limit - cost, HOPE, ahead=1.0
        )
        count += (1 + turns) * len(centers)
        back = (  # 3.
            known is not None and error + cost > limit * (1 - gain) and same_division(labels, known)
        )
        if back:
            break
    far = error + cost > limit * (1 + REACH * len(centers) / len(w))
    return Near(labels, centers, error + cost, limit, QUICK * count, not (far or back))


def merge_early(
    columns: np.ndarray, w: np.ndarray, centers: np.ndarray, price: Price
) -> np.ndarray:
    """1. The centres after a few passes, merged while that costs less than the penalty."""
    labels, centers, *_ = lloyd_by_columns(columns, w, centers, FIRST)
    weights = np.bincount(labels, w, minlength=len(centers))
    centers, weights = centers[weights > 0], weights[weights > 0]
    group, k = patient(merge_below, centers, weights, price.penalty * (1 - TOL), price.cap, False)
    if k == len(centers):
        return centers
    return means(centers, weights, group, k, False)[0]
