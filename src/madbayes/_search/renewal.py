"""Neighbourhoods of clusters, solved anew: step 4 of the search (`driver.py`).

The objective is a sum over clusters, so a few neighbouring clusters are a problem of their own:
take their rows, remove and re-draw some centres at random, relax, keep what is lower. A cluster is
settled when this has failed several times; clusters that change are unsettled again.

It ends when every cluster is settled, or when its budget is used up. The budget is counted in
row-centre distances times columns, not in seconds: the same data and seed give the same result.

Taillard 2003, "Heuristic methods for large centroid clustering problems".
"""

from collections import Counter
from typing import Any

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes._search.division import Division, Slots, alike

REDRAW = 2  # centres re-drawn at once, at most
TRIALS = 4  # failures that settle a cluster of many; down to 1 for more …
FEW_VALUES = 125_000  # … than so many values
MANY = 20_000  # … or rows
MIN_TRIALS = 40  # failures that settle a problem of few clusters; where all end …
SURE = 16  # … as others did, so many
AT_ONCE = 8  # neighbourhoods that are solved at the same time
LOOKS = 32  # clusters that are looked at to find them
CROWDED = 4096  # rows above which neighbourhoods of clusters of …
FEW_ROWS = 8  # … so few rows are left alone: it would take for ever and gain little
LEAST = 1.5e7  # what the renewal may cost beside passes of all rows, some hundredths of a second
CHEAP = 1e7  # where passes are not counted, one is this at least
PER_ROW = 6  # columns that cost as much as what a distance costs beside them
SWEEPS = 30  # and one trial is about so many
NOISE = 1e-4  # a smaller gain, as a share of the objective, is kept but not waited for
PROBE = 0.25  # of the budget is spent in any case, where many clusters can be crossed
TRIAL = 2e5  # what a trial costs beside its passes


def renew(
    space: Any,
    now: Division,
    rng: np.random.RandomState,
    history: list[float],
) -> Division:
    """Solve neighbourhoods anew until every cluster is settled or the budget is used up.

    Neighbourhoods that have no cluster in common are solved at the same time. Which those are does
    not depend on the number of threads.
    """
    if not space.neighbours or (space.n > CROWDED and FEW_ROWS * now.k > space.n):
        return now
    clusters, objective, k = Slots(now), now.objective, now.k
    unsettled = set(range(k))
    trials = count_trials(space, k)
    free = space.price.cap == space.n  # nothing to share
    budget = max_cost(space, k)
    many = space.crosses and k > space.neighbours
    rest = (1 - PROBE) * budget if many else 0.0  # not touched before it pays
    stage = Stage("searching", k)
    while unsettled and budget > rest:
        stage.at(k - len(unsettled), k)
        spare = space.price.cap - k
        at_once = AT_ONCE if free or spare >= k else 1
        jobs: list[Any] = []
        taken: set[int] = set()
        for c in rng.permutation(sorted(unsettled))[:LOOKS].tolist():
            near = neighbours(space, clusters.centers, c, k, rng)
            if taken.isdisjoint(near.tolist()):
                taken.update(near.tolist())
                jobs.append((c, near, *clusters.inside(near), rng.randint(2**31 - 1)))
            if len(jobs) == at_once or len(near) == k:
                break

        room = spare if free else spare // len(jobs)

        def solve(
            job: Any, room: int = room, budget: float = (budget - rest) / len(jobs)
        ) -> tuple[Division, Division, float]:
            _, near, rows, labels, seed = job
            part = space.part(rows, room + len(near))
            old = part.division(labels)
            return old, *resolve(part, old, trials, budget, np.random.RandomState(seed))

        found = together(solve, jobs)
        for (c, near, rows, *_), (old, new, cost) in zip(jobs, found, strict=True):
            budget -= cost
            if new is old:
                unsettled -= set(near.tolist()) if len(near) == k else {c}
                continue
            k += new.k - old.k
            objective += new.objective - old.objective
            history.append(objective)
            slots = clusters.exchange(near, rows, new)
            unsettled = (unsettled - set(near.tolist())) | set(slots)
        if objective < (1 - NOISE) * now.objective:
            rest = 0.0
    return space.division(clusters.labels()) if objective < now.objective else now


def count_trials(space: Any, k: int) -> int:
    """Failures in a row that settle one of k clusters."""
    each = max(1, min(TRIALS, TRIALS * FEW_VALUES // space.values, MANY // space.n))
    enough = max(MIN_TRIALS * each // TRIALS, MIN_TRIALS // 2)
    return max(each, enough // k if k > space.neighbours else enough)


def max_cost(space: Any, k: int) -> float:
    """What the renewal of k clusters may cost."""
    passes = space.passes * k * pass_cost(space)
    if space.counts:
        return passes + LEAST
    few = max(1.0, space.neighbours / k)  # then a re-draw is a restart
    return max(passes, space.passes * CHEAP * few**2)


def pass_cost(space: Any) -> float:
    """What it costs to compare all rows with one centre."""
    return float(space.values + PER_ROW * space.n)


def neighbours(
    space: Any, centers: np.ndarray, c: int, k: int, rng: np.random.RandomState
) -> np.ndarray:
    """The clusters nearest to c.

    At the cap, half of them lie around another one: a cluster saved there can be spent here.
    """
    size = min(space.neighbours, k)
    d2 = ((centers - centers[c]) ** 2).sum(axis=1)
    if k == space.price.cap and size < k:
        alive = np.flatnonzero(np.isfinite(centers[:, 0]))
        e = alive[int(rng.random_sample() * len(alive))]
        d2 = np.minimum(d2, ((centers - centers[e]) ** 2).sum(axis=1))
    return np.argsort(d2, kind="stable")[:size]


def resolve(
    space: Any, now: Division, trials: int, budget: float, rng: np.random.RandomState
) -> tuple[Division, float]:
    """Random re-draws of some centres until so many in a row do not lower the objective, or the
    budget is used up.

    Every third time of any number of them, where the space asks for it: a few clusters of many
    groups each hold each other fast. Fewer are enough if no end was seen only once: the share of
    such ends is about the chance of a new one (Good 1953). A gain below NOISE is kept, but is no
    reason to go on. Returns the division and what it cost.
    """
    failed, cost, ends = 0, 0.0, Counter[float]()
    # where passes are not counted the budget is large, and patience all that ends it
    sure = max(SURE, trials * SURE // MIN_TRIALS) if space.counts else trials
    noise = NOISE if space.counts else 0.0
    while failed < trials and cost < budget and not (failed >= sure and min(ends.values()) > 1):
        most = now.k if space.redraw_any and failed % 3 == 0 else REDRAW
        centers = space.redraw(now.centers, most, rng)
        spare = space.price.penalty * max(0, len(centers) - now.k)  # a merge may save it
        labels, objective, passes = space.relax(centers, now.objective + spare, now.labels)
        failed += 1
        cost += (passes if space.counts else SWEEPS * now.k) * pass_cost(space) + TRIAL
        if objective < now.objective * (1 - 1e-9):
            new = space.division(labels)
            if new.objective < now.objective:
                failed = 0 if new.objective < now.objective * (1 - noise) else failed
                now = new
                ends.clear()
        back = alike(labels, now.labels)
        ends[1.0 if back else round(objective / (abs(now.objective) or 1.0), 6)] += 1
    return now, cost
