"""Neighbourhoods of clusters, solved anew: step 4 of the search (`driver.py`).

The objective is a sum over clusters, so a few neighbouring clusters are a problem of their own:
take their rows, remove and re-draw some centres at random, relax, keep the result if it is lower. A
cluster is settled when this has failed several times. Clusters that change are unsettled again.

The renewal ends when every cluster is settled or when its budget is used up. The budget is counted
in row-centre distances times columns, not in seconds: the same data and seed give the same result.

Taillard 2003, "Heuristic methods for large centroid clustering problems".
"""

from collections import Counter

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes._search.division import Division, Slots, same_division
from madbayes._search.space import Crossing, Space

Job = tuple[int, np.ndarray, np.ndarray, np.ndarray, int]  # cluster, neighbours, rows, labels, seed

MAX_REDRAWN = 2  # centres that are re-drawn at once
TRIALS = 4  # failures that settle one of many clusters; fewer, down to 1, …
FEW_VALUES = 125_000  # … where there are more values
MANY_ROWS = 20_000  # … or more rows
MIN_TRIALS = 40  # failures that settle a problem of few clusters; …
SURE_TRIALS = 16  # … this many are enough if every end was seen twice
NEIGHBOURHOODS_AT_ONCE = 8  # neighbourhoods that are solved at the same time
LOOKS = 32  # clusters that are looked at to find them
CROWDED_ROWS = 4096  # above this many rows, clusters of fewer than …
CROWDED_CLUSTER = 8  # … this many rows on average are left alone: little gain for much time
BASE_BUDGET = (
    1.5e7  # distances × columns on top of the passes of all rows: some hundredths of a second
)
MIN_PASS_BUDGET = 1e7  # the least that one pass counts for, where passes are estimated
ROW_OVERHEAD = 6  # columns that cost as much as the rest of the work on one distance
SWEEPS_PER_TRIAL = 30  # passes of one trial, where they are estimated
TRIAL_OVERHEAD = 2e5  # what a trial costs beside its passes
NOISE = 1e-4  # a smaller gain, as a share of the objective, is kept but is no reason to go on
PROBE = 0.25  # share of the budget that is spent in any case, where many clusters can be crossed


def renew(
    space: Space,
    now: Division,
    rng: np.random.RandomState,
    history: list[float],
) -> Division:
    """Solve neighbourhoods anew until every cluster is settled or the budget is used up.

    Neighbourhoods that have no cluster in common are solved at the same time. Which those are does
    not depend on the number of threads.
    """
    if not space.neighbours or (space.n > CROWDED_ROWS and CROWDED_CLUSTER * now.k > space.n):
        return now
    clusters, objective, k = Slots(now), now.objective, now.k
    unsettled = set(range(k))
    trials = count_trials(space, k)
    free = space.price.cap == space.n  # neighbourhoods need not share what the cap leaves
    budget = max_cost(space, k)
    many = isinstance(space, Crossing) and k > space.neighbours
    rest = (1 - PROBE) * budget if many else 0.0  # kept back until the first gain
    stage = Stage("searching", k)
    while unsettled and budget > rest:
        stage.at(k - len(unsettled), k)
        spare = space.price.cap - k
        at_once = NEIGHBOURHOODS_AT_ONCE if free or spare >= k else 1
        jobs: list[Job] = []
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
            job: Job, room: int = room, budget: float = (budget - rest) / len(jobs)
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


def count_trials(space: Space, k: int) -> int:
    """Failures in a row that settle one of k clusters."""
    each = max(1, min(TRIALS, TRIALS * FEW_VALUES // space.values, MANY_ROWS // space.n))
    enough = max(MIN_TRIALS * each // TRIALS, MIN_TRIALS // 2)
    return max(each, enough // k if k > space.neighbours else enough)


def max_cost(space: Space, k: int) -> float:
    """What the renewal of k clusters may cost."""
    passes = space.passes * k * pass_cost(space)
    if space.counts:
        return passes + BASE_BUDGET
    few = max(1.0, space.neighbours / k)  # with few clusters a re-draw is a restart
    return max(passes, space.passes * MIN_PASS_BUDGET * few**2)


def pass_cost(space: Space) -> float:
    """What it costs to compare all rows with one centre."""
    return float(space.values + ROW_OVERHEAD * space.n)


def neighbours(
    space: Space, centers: np.ndarray, c: int, k: int, rng: np.random.RandomState
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
    space: Space, now: Division, trials: int, budget: float, rng: np.random.RandomState
) -> tuple[Division, float]:
    """Re-draw some centres at random until `trials` in a row fail or the budget is used up.

    Where the space asks for it, every third trial re-draws any number of centres: a few clusters
    that each hold many groups keep each other in place. Fewer trials are enough if no end was seen
    only once: the share of such ends is about the chance of a new one (Good 1953). A gain below
    NOISE is kept but is no reason to go on. Returns the division and what it cost.
    """
    failed, cost, ends = 0, 0.0, Counter[float]()
    # Where passes are not counted the budget is large, and only the number of trials ends the loop.
    sure = max(SURE_TRIALS, trials * SURE_TRIALS // MIN_TRIALS) if space.counts else trials
    noise = NOISE if space.counts else 0.0
    while failed < trials and cost < budget and not (failed >= sure and min(ends.values()) > 1):
        most = now.k if space.redraw_any and failed % 3 == 0 else MAX_REDRAWN
        centers = space.redraw(now.centers, most, rng)
        spare = space.price.penalty * max(0, len(centers) - now.k)  # a merge may save it
        labels, objective, passes = space.relax(centers, now.objective + spare, now.labels)
        failed += 1
        passes = passes if space.counts else SWEEPS_PER_TRIAL * now.k
        cost += passes * pass_cost(space) + TRIAL_OVERHEAD
        if objective < now.objective * (1 - 1e-9):
            new = space.division(labels)
            if new.objective < now.objective:
                failed = 0 if new.objective < now.objective * (1 - noise) else failed
                now = new
                ends.clear()
        back = same_division(labels, now.labels)
        ends[1.0 if back else round(objective / (abs(now.objective) or 1.0), 6)] += 1
    return now, cost
