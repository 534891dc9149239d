"""Two reasons to doubt clusters that valleys separate: densities of held-out rows (`densities.py`).

A valley shows that two clusters are apart. It does not show that a cluster is complete, nor that it
is a single cluster. So the clusters are turned into Gaussians, and these are compared with:

1. *Other shapes.* A straight line between two pieces of a ring or a crescent crosses a gap, so the
   tests on held-out rows see a valley. A density without clusters explains such rows much better.
2. *A finer division.* Two clusters that overlap have no valley between them. If a finer division of
   the staircase explains held-out rows better, the number may be too small (iris: 2 instead of 3).

If one of the two comparisons favours the alternative, the evidence becomes weak.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._partition.lloyd import nearest
from madbayes._rows.content import content_order
from madbayes.howmany.densities import MAX_COLUMNS, MAX_ROWS, MIN_ROWS, explain
from madbayes.howmany.staircase import Staircase

# Nats per row. Uniform clusters (not Gaussian ones) lose 0.1 to 0.25 against the kernel density;
# rings, arcs and crescents that are cut into round pieces lose 0.4 to 1.3.
SHAPE_LOSS = 0.3
# Nats per row. A finer division gains up to 0.015 on Gaussian and uniform clusters, and 0.05 to 0.7
# on clusters that hold two classes (iris, penguins, vehicle).
FINER_GAIN = 0.03
WEAK_SUPPORT = 0.2  # the support of a choice that is doubted
FINER = 1.0, 1.5, 2.0  # finer divisions: this many times as many clusters, and at least one more


def doubt(path: Staircase, X: Any, labels: np.ndarray) -> Staircase:
    """The path; its choice becomes weak if 1. or 2. speaks against the clusters of the rows X."""
    choice = path.best()
    if choice.strength not in ("moderate", "strong") or len(X) < MIN_ROWS:
        return path
    rows = content_order(X, None, 0)[:MAX_ROWS]
    X, labels = np.asarray(X[rows], np.float64), labels[rows]
    divisions = {"clusters": labels, **finer_divisions(path, X)}
    if X.shape[1] <= MAX_COLUMNS:
        divisions["any"] = np.zeros(len(X), np.int64)
    found = explain(X, divisions)
    clusters = found.pop("clusters")
    loss = found.pop("any", clusters) - clusters
    if loss > SHAPE_LOSS:
        remark = (
            f"The clusters are not round: without clusters, held-out rows are explained better by "
            f"{loss:.1f} nats each. AutoCluster and NeighborCut find clusters of other shapes"
        )
        weaker = replace(choice, remarks=(*choice.remarks, remark))
    elif max(found.values(), default=clusters) - clusters > FINER_GAIN:
        reason = f"{choice.reason}, but a finer division explains held-out rows better"
        weaker = replace(choice, reason=reason)
    else:
        return path
    return replace(path, choice=replace(weaker, strength="weak", support=WEAK_SUPPORT))


def finer_divisions(path: Staircase, X: np.ndarray) -> dict[str, np.ndarray]:
    """2. Labels of the rows X in divisions of the path that have some more clusters."""
    centers = [C for C in path.centers or () if len(C) > path.best().number]
    if not centers:
        return {}
    sizes = np.array([len(C) for C in centers])
    wanted = [max(path.best().number + 1, times * path.best().number) for times in FINER]
    finer = {int(np.argmin(np.abs(np.log(sizes / k)))) for k in wanted}
    return {f"finer {i}": nearest(X, centers[i]) for i in finer if sizes[i] <= 2.5 * wanted[0]}
