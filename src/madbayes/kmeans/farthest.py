"""A penalty from a rough number of clusters: the farthest-first heuristic of KJ 6.1.

1. T holds the mean of all rows.
2. k times: find the row that is farthest from T, and add it to T.
3. λ is the squared distance found in the last round.
"""

from collections.abc import Callable
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
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import Run, workers


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
    with workers(n_jobs) as run:
        return largest_gap(Rows(X, unit=unit), weight, n_clusters, run, unit=unit)


def largest_gap(
    source: Rows, weight: np.ndarray | None, n_clusters: int, run: Run, *, unit: bool = False
) -> float:
    """Steps 1 to 3."""
    k = check_count("n_clusters", n_clusters, why="It is a rough number of clusters.")
    cuts = segments(source.n, 1)
    left_out = None if weight is None else weight == 0
    mean = measure_to_fit(source, weight, run).mean
    if unit and mean.any():
        mean = mean / np.linalg.norm(mean)
    closest = np.full(source.n, np.inf)

    def farthest_from(member: np.ndarray) -> tuple[int, float]:
        def partial(cut: tuple[int, int]) -> None:
            here = closest[cut[0] : cut[1]]
            np.minimum(here, squared_distances(source, *cut, member)[0], out=here)

        run(partial, cuts)
        if left_out is not None:
            closest[left_out] = 0.0
        row = int(np.argmax(closest))
        return row, float(closest[row])

    return last_gap(mean, k, farthest_from, source.take)


def last_gap(
    mean: np.ndarray,
    k: int,
    farthest_from: Callable[[np.ndarray], tuple[int, float]],
    take: Callable[[np.ndarray], np.ndarray],
) -> float:
    """Steps 1 to 3: `farthest_from` adds a member to T and returns the row farthest from T."""
    member, gap = mean[None, :], 0.0  # 1.
    for round_ in range(1, k + 1):  # 2.
        row, gap = farthest_from(member)
        if gap == 0.0:
            raise ValueError(
                f"n_clusters={k} is more than X can give: after {round_ - 1} rows there is no "
                "different one left. Ask for fewer clusters."
            )
        if round_ < k:
            member = take(np.array([row]))
    return gap  # 3.


def first_gap(
    source: Rows, weight: np.ndarray | None, n_clusters: int, run: Run, *, unit: bool = False
) -> float:
    """The same where there may be fewer different rows; never 0."""
    for k in range(n_clusters, 0, -1):
        try:
            return largest_gap(source, weight, k, run, unit=unit)
        except ValueError:  # fewer different rows
            continue
    return 1.0
