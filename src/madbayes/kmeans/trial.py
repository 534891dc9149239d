"""The first part of a trial of the search: Lloyd's passes, which end early where a trial fails.

Most trials (re-drawn centres, `_search/renewal.py`) end at the division that the search has
already, or at a higher one. Exact moves of single rows take long to show this, Lloyd's passes do
not. From the centres that were drawn:

1. If there may be too many centres: make a few passes, then Ward's merges.
2. Make passes as long as they lower the error and may still bring the objective below `limit`.
3. Give up the trial if the objective is so far above `limit` that exact moves cannot lower it
   enough, or if the division agrees with the `known` one in all but a few rows. The second
   condition is checked twice: when a pass gains little, and when it gains hardly anything.

The larger the clusters, the smaller the gain of exact moves after Lloyd's passes: docs/adr/0023.
"""

from typing import NamedTuple

import numpy as np

from madbayes._partition.lloyd_kernels import lloyd_by_columns
from madbayes._partition.moves import TOL, means
from madbayes._partition.ward import merge_below
from madbayes._rows.threads import patient
from madbayes._search.division import same_division
from madbayes._search.price import Price

FIRST, PASSES = 3, 300  # Lloyd's passes: before small clusters are merged; in all, at most
GAINS = 1e-3, 1e-5  # shares of the error: passes that gain less end the first and the second part
HOPE = 30.0  # passes end when this many more, with the gain of the last one, would miss the limit
REACH = 0.2  # exact moves lower the error by up to about the share REACH / rows per cluster


class Near(NamedTuple):
    """The state of a trial before exact moves, and whether exact moves may make it succeed."""

    labels: np.ndarray
    centers: np.ndarray
    objective: float
    limit: float
    passes: float  # cost so far, in passes of exact moves that compare all rows with one centre
    hopeful: bool


def approach(
    columns: np.ndarray,
    w: np.ndarray,
    centers: np.ndarray,
    price: Price,
    limit: float = np.inf,
    known: np.ndarray | None = None,
) -> Near:
    """Steps 1 to 3 for rows with weights w, given by their `columns`."""
    count = len(centers)  # passes over one centre: drawing a centre takes one
    if price.penalty > 0 or len(centers) > price.cap:  # 1.
        before = len(centers)
        count += FIRST * before
        centers = merge_early(columns, w, centers, price)
        if known is not None:  # the limit allowed for merges that are now made
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
    passes = 0.25 * count  # one of Lloyd's passes costs a quarter of a pass of exact moves
    return Near(labels, centers, error + cost, limit, passes, not (far or back))


def merge_early(
    columns: np.ndarray, w: np.ndarray, centers: np.ndarray, price: Price
) -> np.ndarray:
    """1. The centres after a few passes and all merges that cost less than the penalty."""
    labels, centers, *_ = lloyd_by_columns(columns, w, centers, FIRST)
    weights = np.bincount(labels, w, minlength=len(centers))
    centers, weights = centers[weights > 0], weights[weights > 0]
    group, k = patient(merge_below, centers, weights, price.penalty * (1 - TOL), price.cap, False)
    if k == len(centers):
        return centers
    return means(centers, weights, group, k, False)[0]
