"""Which new rows are unlike those of the fit: p-values from distances to the nearest neighbours.

Rows of the fit stand at some distance from their neighbours, each measured without itself, so a new
row of the same kind is as likely to stand at any place among them: (1 + number of those at least as
far)/(n + 1) is a p-value (conformal prediction), cluster by cluster. Beyond the upper tenth, where
rows are few, the tail of the logarithms is taken for exponential.
"""

from numbers import Real
from typing import Any

import numpy as np

RATE = 0.001  # of rows like those of the fit that `novel=True` flags
TAIL = 0.1  # the share of rows that the tail is fitted to
FEW = 30  # rows of a cluster that are too few for a tail of their own


def check_rate(novel: Any) -> float:
    """0 for False: nothing is new; the rate for True or a number between 0 and 1."""
    if isinstance(novel, (bool, np.bool_)):
        return RATE if novel else 0.0
    if not isinstance(novel, Real) or not 0 < float(novel) < 1:
        raise ValueError(
            f"novel={novel!r} must be True, False, or a rate between 0 and 1: the share of rows "
            "like those of the fit that may be called new (-1) by mistake."
        )
    return float(novel)


def p_values(
    distance: np.ndarray, labels: np.ndarray, fitted: np.ndarray, fitted_labels: np.ndarray
) -> np.ndarray:
    """For each row, the share of rows of its cluster that stand at least as far from neighbours."""
    with np.errstate(divide="ignore"):
        x, known = np.log(distance), np.log(fitted)
    found = np.ones(x.size)
    for c in np.unique(labels[labels >= 0]):
        rows = labels == c
        own = known[fitted_labels == c]
        found[rows] = tail(x[rows], np.sort(own if own.size >= FEW else known))
    return found


def tail(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """P(a row stands at least as far as x); `known` ascending."""
    n = known.size
    p = (1.0 + n - np.searchsorted(known, x, side="left")) / (n + 1.0)
    start = known[int((1 - TAIL) * (n - 1))]
    above = known[known > start] - start
    if above.size < 2 or not np.isfinite(start):
        return p
    far = x > start
    share = (above.size + 1.0) / (n + 1.0)
    p[far] = share * np.exp(-(x[far] - start) / above.mean())
    return p
