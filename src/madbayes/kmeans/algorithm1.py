"""DP-means as printed (KJ Algorithm 1; BKJ Eq. 3 and 12).

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights).

1. One cluster, its centre the mean of all rows.
2. Row by row: if w·d² to the nearest centre exceeds λ, the row opens a cluster at its own place
   (visible to the rows after it, in the same pass); otherwise it goes to the nearest centre.
3. Each centre becomes the mean of its rows; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

Departs from the paper: nothing in the result. Step 2 is serial as printed, but distances to the
centres known at the start of a stretch of rows do not depend on order: threads (or the workers of a
Dask cluster) find them, and only the rows that are too far from all of those need the serial rule
(docs/adr/0004).
"""

import numpy as np

from madbayes._model.checkpoint import NOT_KEPT, Passes
from madbayes._partition.partition import Partition
from madbayes._partition.segment import Proposals
from madbayes._rows.progress import Stage
from madbayes._search.driver import never_rising
from madbayes.kmeans.search_rows import Clustering

FIRST_STRETCH = 1024  # rows before the first look at who opens a cluster
FAR_ROWS = 8192  # rows under the serial rule at a time


def assign_or_open(
    partition: Partition, centers: np.ndarray, penalty: float, max_clusters: int, stretch: int
) -> tuple[np.ndarray, bool]:
    """2. One pass over the rows; returns all centres, and whether anything changed."""
    n = partition.rows.n
    changed = False
    first = 0
    while first < n:
        last = min(n, first + stretch)
        changed |= partition.assign(centers, penalty, rows=(first, last)) > 0
        room = max_clusters - centers.shape[0]
        # at most 2²² distances between old and new centres are kept at a time
        at_once = min(FAR_ROWS, max(256, 2**22 // centers.shape[0])) if room > 0 else 0
        far = partition.far_rows(first, last, at_once + 1)
        n_opened = 0
        if len(far.at) and room > 0:
            if len(far.at) > at_once:  # the rest comes in the next stretch
                last = int(far.at[at_once])
                far = Proposals(*(part[:at_once] for part in far))
            opened = partition.open_clusters(centers, far, penalty, room)
            n_opened = len(opened.at)
            if n_opened:
                centers = partition.offer(centers, opened, last)
                changed = True
        # Few openings: look less often. The result does not depend on it.
        stretch = min(n, 2 * stretch) if n_opened <= 16 else max(256, stretch // 2)
        first = last
    return centers, changed


def update_means(partition: Partition, centers: np.ndarray) -> np.ndarray:
    """3. Means of what is left."""
    return partition.filled_means(centers)


def dp_means(
    partition: Partition,
    penalty: float,
    *,
    max_clusters: int | None,
    max_iter: int,
    passes: Passes = NOT_KEPT,
) -> Clustering:
    """KJ Algorithm 1 on the rows of `partition`, in their order; `passes` keeps where it is."""
    n = partition.rows.n
    cap = n + 1 if max_clusters is None else max_clusters  # the first one may lose its rows
    history: list[float] = []
    converged = fresh_sums = False
    n_iter, stretch = 0, FIRST_STRETCH
    if (past := passes.resume(partition)) is None:
        centers = partition.middle()  # 1.
        partition.assign(centers)
    else:
        centers, history, fresh_sums, n_iter, stretch = past
    stage = Stage("passes of Algorithm 1")
    while n_iter < max_iter and not converged:
        n_iter += 1
        stage.at(n_iter)
        centers, changed = assign_or_open(partition, centers, penalty, cap, stretch)  # 2.
        stretch = n
        if changed or not fresh_sums:
            if not changed:  # see if it holds without the rounding of the running sums
                partition.recount()
                n_iter -= 1
            fresh_sums = not changed
            centers = update_means(partition, centers)  # 3.
            if changed:
                history.append(partition.sse + penalty * centers.shape[0])
            passes.keep(partition, (centers, history, fresh_sums, n_iter, stretch))
        else:
            converged = True  # 4.
    if not converged:
        partition.assign(centers)
    inertia = partition.measure_sse(centers)
    history = never_rising([*history, inertia + penalty * centers.shape[0]], passes=True)
    return Clustering(partition.labels, centers, history[-1], inertia, history, n_iter, converged)
