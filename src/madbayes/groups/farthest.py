"""Penalties of the hard HDP from rough numbers of clusters: farthest-first, KJ 6.1.

λ_l: the heuristic of DP-means (`farthest.py`) within each group for `n_local` clusters, averaged
over the groups. Groups with too few different rows for that do not count.

λ_g: "we replace distances of points to elements of T with sums of distances of points in a data set
to elements of T". The text leaves open what joins T. Here:

1. T holds the mean of all rows.
2. g times: each group's distance to T is the sum over its rows of the squared distance to the
   nearest element of T; of the farthest group, the row that is farthest from T joins T.
3. λ_g is the distance of the farthest group in the last round.

The other reading, that the mean of the farthest group joins T, does not serve: means of groups lie
close together when groups use several clusters each, so the sums hardly fall from round to round
and λ_g comes out larger than all the error that a further cluster could save.
"""

from typing import Any

import numpy as np

from madbayes._partition.seeding import squared_distances
from madbayes._rows.checks import check_count, check_table, check_weight
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import together, workers
from madbayes.groups.grouped_rows import check_groups, gather
from madbayes.kmeans.farthest import largest_gap


def hdp_farthest_first(
    X: Any,
    groups: Any = None,
    n_local: int = 1,
    n_global: int = 1,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> tuple[float, float]:
    """(penalty_local, penalty_global) for `HardHDP`, for about so many clusters (KJ 6.1).

    Parameters
    ----------
    X : array, table or CSR matrix, or a list of them, one for each group
    groups : array of shape (n_rows,), optional
    n_local : int
        Roughly how many clusters a group uses.
    n_global : int
        Roughly how many there are in all.
    sample_weight : array of shape (n_rows,), optional
        For λ_l rows of weight 0 do not count and other weights do not matter, as in
        `farthest_first`; the sums of λ_g are weighted.
    n_jobs : int or None

    Returns
    -------
    (float, float)
        `penalty_local` and `penalty_global`.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import penalties
    >>> X = [np.array([[0.0], [1.0], [8.0]]), np.array([[0.0], [1.0], [2.0]])]
    >>> penalties.hdp_farthest_first(X, n_local=1, n_global=2)
    (13.0, 5.0)
    """
    X, groups = gather(X, groups)
    X = check_table(X)
    weight = check_weight(sample_weight, X.shape[0])
    code = check_groups(groups, X.shape[0]).code
    with workers(n_jobs):
        return local_gap(X, weight, code, n_local), group_gap(X, weight, code, n_global)


def local_gap(X: Any, weight: np.ndarray | None, code: np.ndarray, k: int) -> float:
    """λ_l."""
    k = check_count("n_local", k, why="It is a rough number of clusters in a group.")
    gaps = []
    order = np.argsort(code, kind="stable")
    order = order if weight is None else order[weight[order] > 0]
    for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        if rows.size > 1:
            try:
                gaps.append(largest_gap(Rows(X[rows]), k))
            except ValueError:  # fewer different rows
                continue
    if not gaps:
        raise ValueError(
            f"n_local={k} is more than any group can give: none has as many different rows. Ask "
            "for fewer clusters."
        )
    return float(np.mean(gaps))


def group_gap(X: Any, weight: np.ndarray | None, code: np.ndarray, k: int) -> float:
    """λ_g."""
    k = check_count("n_global", k, why="It is a rough number of clusters in all.")
    source = Rows(X, weight=weight)
    member = measure_to_fit(source).mean[None, :]  # 1.
    closest = np.full(source.n, np.inf)

    def partial(cut: tuple[int, int]) -> None:
        here = closest[cut[0] : cut[1]]
        np.minimum(here, squared_distances(source, *cut, member)[0], out=here)

    for round_ in range(1, k + 1):  # 2.
        together(partial, segments(source.n, 1))
        counted = closest if weight is None else weight * closest
        far = np.bincount(code, counted)
        farthest = int(np.argmax(far))
        if far[farthest] == 0.0:
            raise ValueError(
                f"n_global={k} is more than X can give: after {round_ - 1} rows there is no "
                "different one left. Ask for fewer clusters."
            )
        inside = np.flatnonzero(code == farthest)
        member = source.take(inside[[np.argmax(counted[inside])]])
    return float(far[farthest])  # 3.
