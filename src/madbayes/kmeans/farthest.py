"""A penalty from a rough number of clusters: the farthest-first heuristic of KJ 6.1.

1. T holds the mean of all rows.
2. k times: find the row that is farthest from T, and add it to T.
3. λ is the squared distance found in the last round.
"""

from operator import itemgetter
from typing import Any

import numpy as np

from madbayes._partition.seeding import squared_distances
from madbayes._rows.checks import (
    check_count,
    check_table,
    check_weight,
    is_cosine,
    weight_of_directions,
)
from madbayes._rows.frame import Frame, measure_to_fit
from madbayes._rows.rows import Rows, Share
from madbayes._rows.threads import workers


def farthest_first(
    X: Any,
    n_clusters: int,
    *,
    metric: str = "euclidean",
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> float:
    """A penalty for about `n_clusters` clusters (KJ 6.1), in squared-distance units.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
    n_clusters : int
        Roughly how many clusters.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine": squared distances are 2 - 2 cos.
    sample_weight : array of shape (n_rows,), optional
        Rows of weight 0 do not count; other weights do not matter, as repeated rows do not.
    n_jobs : int or None
        Threads; None uses all cores.

    Returns
    -------
    float
        The squared distance found in the last round.

    Examples
    --------
    >>> from madbayes import penalties
    >>> penalties.farthest_first([[0.0], [1.0], [5.0], [10.0]], n_clusters=2)
    16.0
    """
    X = check_table(X)
    weight = check_weight(sample_weight, X.shape[0])
    unit = is_cosine(metric)
    if unit:
        weight = weight_of_directions(X, weight, quiet=True)
    with workers(n_jobs):
        return largest_gap(Rows(X, unit=unit, weight=weight), n_clusters)


def largest_gap(rows: Any, n_clusters: int, frame: Frame | None = None) -> float:
    """Steps 1 to 3; `frame` of the rows if it is known."""
    k = check_count("n_clusters", n_clusters, why="It is a rough number of clusters.")
    executor, member = rows.executor, (frame or measure_to_fit(rows)).mean[None, :]  # 1.
    if rows.unit and member.any():
        member = member / np.linalg.norm(member)
    closest, gap = [None] * len(rows.shares), 0.0
    for round_ in range(1, k + 1):  # 2.
        closest = executor.map(nearer, rows.shares, closest, args=(member,))
        row, gap = max(executor.ask(farthest, rows.shares, closest), key=itemgetter(1))
        if gap == 0.0:
            raise ValueError(
                f"n_clusters={k} is more than X can give: after {round_ - 1} rows there is no "
                "different one left. Ask for fewer clusters."
            )
        if round_ < k:
            member = rows.take(np.array([row]))
    return gap  # 3.


def nearer(share: Share, closest: np.ndarray | None, member: np.ndarray) -> np.ndarray:
    """The squared distance of each row of a share to T, after `member` joined it; 0 for rows that
    do not count."""
    d2 = squared_distances(share.rows, share.first, share.last, member)[0]
    if closest is not None:
        np.minimum(d2, closest, out=d2)
    if share.rows.weighted:
        d2[share.weight == 0] = 0.0
    return d2


def farthest(share: Share, closest: np.ndarray) -> tuple[int, float]:
    """The row (of the table) that is farthest from T, and how far."""
    row = int(np.argmax(closest))
    return share.start + share.first + row, float(closest[row])


def first_gap(rows: Any, n_clusters: int, frame: Frame | None = None) -> float:
    """The same where there may be fewer different rows; never 0."""
    frame = frame or measure_to_fit(rows)
    for k in range(n_clusters, 0, -1):
        try:
            return largest_gap(rows, k, frame)
        except ValueError:  # fewer different rows
            continue
    return 1.0
