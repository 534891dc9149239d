"""Rows divided into clusters with exact means, and clusters exchanged a few at a time.

What the searches (`cluster/dp_search.py`, `multi/hard_hdp_search.py`) have in common.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from madbayes._engine.progress import Stage
from madbayes._engine.threads import Run
from madbayes._kernels.moves import redraw_some

Solve = Callable[
    [np.ndarray, np.ndarray, int, np.random.RandomState], tuple["Division", "Division"]
]
SAMPLE = 20_000  # rows that a search looks at; the others only take part in its last descent
REDRAW = 2  # centres re-drawn at once, at most
TRIALS = 4  # failures that settle a cluster of many; down to 1 for more than so many values:
FEW_VALUES = 125_000
MIN_TRIALS = 40  # failures that settle a problem of few clusters
AT_ONCE = 8  # neighbourhoods that are solved at the same time
LOOKS = 32  # clusters that are looked at to find them


@dataclass(frozen=True)
class Division:
    """Rows divided into k clusters, with their exact means."""

    labels: np.ndarray
    centers: np.ndarray
    weights: np.ndarray
    objective: float

    @property
    def k(self) -> int:
        return len(self.centers)

    def rows(self) -> list[np.ndarray]:
        """The rows of each cluster, in order."""
        order = np.argsort(self.labels, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.labels))[:-1])


class Slots:
    """The clusters of a division in numbered slots, so that some of them can be exchanged."""

    def __init__(self, division: Division) -> None:
        self.rows: list[np.ndarray | None] = list(division.rows())
        self.centers = division.centers.copy()  # infinite where a slot is empty
        self.n = len(division.labels)

    def inside(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All rows of these clusters, and for each of them which of `slots` it is in."""
        parts = [part for e in slots if (part := self.rows[e]) is not None]
        at = np.repeat(np.arange(len(slots)), [len(part) for part in parts])
        return np.concatenate(parts), at

    def exchange(self, old: np.ndarray, inside: np.ndarray, new: Division) -> list[int]:
        """Put the clusters of `new`, a division of the rows `inside`, in the place of those in the
        slots `old`; returns their slots."""
        more = range(len(self.rows), len(self.rows) + new.k - len(old))
        slots = [*old[: new.k], *more]
        self.rows += [None] * (max(slots) + 1 - len(self.rows))
        room = np.empty((len(self.rows) - len(self.centers), self.centers.shape[1]))
        self.centers = np.vstack([self.centers, room])
        self.centers[old] = np.inf
        for e, part in zip(slots, new.rows(), strict=True):
            self.rows[e] = inside[part]
        self.centers[slots] = new.centers
        return slots

    def labels(self) -> np.ndarray:
        """The slot of each row."""
        z = np.empty(self.n, np.int64)
        for e in np.flatnonzero(np.isfinite(self.centers[:, 0])):
            z[self.rows[e]] = e
        return z


def count_trials(X: np.ndarray, k: int, neighbours: int) -> int:
    """Failures in a row that settle one of k clusters, of which so many are neighbours."""
    each = max(1, min(TRIALS, TRIALS * FEW_VALUES // X.size, SAMPLE // len(X)))
    enough = max(MIN_TRIALS * each // TRIALS, MIN_TRIALS // 2)
    return max(each, enough // k if k > neighbours else enough)


def resolve(problem: Any, now: Division, trials: int, *, any_number: bool = False) -> Division:
    """Random re-draws of some centres until so many in a row do not lower the objective.

    `problem` has rows X, weights w, rng, `division(labels)`, and `relax(centers)` for labels and
    objective after the moves that the search makes in a neighbourhood.
    `any_number`: every third time of any number of them, because a few clusters of many groups each
    hold each other fast.
    """
    failed = 0
    while failed < trials:
        most = now.k if any_number and failed % 3 == 0 else REDRAW
        uniforms = problem.rng.random_sample(3 + 2 * most)
        centers = redraw_some(problem.X, problem.w, now.centers, most, uniforms)
        labels, objective = problem.relax(centers)
        failed += 1
        if objective < now.objective * (1 - 1e-9):
            new = problem.division(labels)
            if new.objective < now.objective:
                now, failed = new, 0
    return now


def renew(
    now: Division,
    neighbours: Callable[[np.ndarray, int, int], np.ndarray],
    solve: Solve,
    *,
    rng: np.random.RandomState,
    run: Run,
    history: list[float],
    at_once: int = AT_ONCE,
) -> np.ndarray:
    """Solve neighbourhoods of clusters anew until every cluster is settled; returns labels.

    The objective is a sum over clusters, so a few clusters are a problem of their own, and
    neighbourhoods that have no cluster in common can be solved at the same time. Which those are
    does not depend on the number of threads.

    `neighbours(centers, c, k)`: the clusters around c, of k in all. `solve(rows, labels, k, rng)`:
    the division of the neighbourhood's rows as it is, and a better one or the same again. A cluster
    is settled when the same comes back; clusters that change are unsettled again.
    """
    clusters, objective, k = Slots(now), now.objective, now.k
    unsettled = set(range(k))
    stage = Stage("searching", k)
    while unsettled:
        stage.at(k - len(unsettled), k)
        jobs: list[Any] = []
        taken: set[int] = set()
        for c in rng.permutation(sorted(unsettled))[:LOOKS].tolist():
            near = neighbours(clusters.centers, c, k)
            if taken.isdisjoint(near.tolist()):
                taken.update(near.tolist())
                seed = rng.randint(2**31 - 1)
                jobs.append((c, near, *clusters.inside(near), k, np.random.RandomState(seed)))
            if len(jobs) == at_once or len(near) == k:
                break
        found = run(lambda job: solve(*job[2:]), jobs)
        for (c, near, rows, *_), (old, new) in zip(jobs, found, strict=True):
            if new is old:
                unsettled -= set(near.tolist()) if len(near) == k else {c}
                continue
            k += new.k - old.k
            objective += new.objective - old.objective
            history.append(objective)
            slots = clusters.exchange(near, rows, new)
            unsettled = (unsettled - set(near.tolist())) | set(slots)
    return clusters.labels()
