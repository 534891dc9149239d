"""Solve neighbourhoods of clusters again: step 4 of the search (`driver.py`).

The objective is a sum over clusters, so the rows of a few neighbouring clusters are a smaller
problem of the same kind. A trial takes these rows, removes some centres, draws new ones at random,
relaxes the division, and keeps the result if it is lower. A cluster is *settled* when several
trials in a row have failed. A cluster that changes is no longer settled.

The renewal ends when every cluster is settled or when its budget is used up. The budget counts
row-centre distances times columns, not seconds, so that equal data and seeds give equal results.

Taillard 2003, "Heuristic methods for large centroid clustering problems".
"""

from collections import Counter

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes._search.division import Division, Slots, same_division
from madbayes._search.space import Crossing, Space

Job = tuple[int, np.ndarray, np.ndarray, np.ndarray, int]  # cluster, neighbours, rows, labels, seed

NOISE = 1e-4  # a gain below this share of the objective is kept, but does not prolong the renewal
TRIALS = 4  # failed trials that settle a cluster, if there are many clusters; the number falls to 1
MIN_TRIALS = 40  # failed trials that settle all clusters, if there are few of them


def renew(
    space: Space,
    now: Division,
    rng: np.random.RandomState,
    history: list[float],
) -> Division:
    """Solve neighbourhoods again until every cluster is settled or the budget is used up.

    Up to eight neighbourhoods without a common cluster are solved at the same time. The choice of
    these neighbourhoods does not depend on the number of threads. For very many clusters of fewer
    than eight rows, the renewal would gain little and take long, so it is left out.
    """
    if not space.neighbours or (space.n > 4096 and 8 * now.k > space.n):
        return now
    clusters, objective, k = Slots(now), now.objective, now.k
    unsettled = set(range(k))
    trials = count_trials(space, k)
    free = space.price.cap == space.n  # no cap: every neighbourhood may open any number of clusters
    budget = max_cost(space, k)
    many = isinstance(space, Crossing) and k > space.neighbours
    rest = 0.75 * budget if many else 0.0  # kept back until the first gain
    stage = Stage("searching", k)
    while unsettled and budget > rest:
        stage.at(k - len(unsettled), k)
        spare = space.price.cap - k
        at_once = 8 if free or spare >= k else 1
        jobs: list[Job] = []
        taken: set[int] = set()
        for c in rng.permutation(sorted(unsettled))[:32].tolist():
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
    """How many failed trials in a row settle one of k clusters: fewer for more rows and values."""
    each = max(1, min(TRIALS, TRIALS * 125_000 // space.values, 20_000 // space.n))
    enough = max(MIN_TRIALS * each // TRIALS, MIN_TRIALS // 2)
    return max(each, enough // k if k > space.neighbours else enough)


def max_cost(space: Space, k: int) -> float:
    """The budget for the renewal of k clusters, in distances × columns."""
    passes = space.passes * k * pass_cost(space)
    if space.counts:
        return passes + 1.5e7  # some hundredths of a second
    few = max(1.0, space.neighbours / k)  # for few clusters, a trial is a restart of all of them
    return max(passes, space.passes * 1e7 * few**2)


def pass_cost(space: Space) -> float:
    """The cost of comparing all rows with one centre, in distances × columns.

    The fixed cost of one distance equals the cost of about six columns.
    """
    return float(space.values + 6 * space.n)


def neighbours(
    space: Space, centers: np.ndarray, c: int, k: int, rng: np.random.RandomState
) -> np.ndarray:
    """The clusters nearest to cluster c.

    When there are as many clusters as the cap allows, the neighbourhood also includes the clusters
    nearest to a second, random cluster: a merge there allows a split here.
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

    If the space has `redraw_any`, every third trial may re-draw any number of centres: where few
    clusters hold many groups each, re-drawing one or two centres changes nothing. Fewer trials are
    enough when no end was reached only once, because the share of such ends estimates the
    probability of a new end (Good 1953). A gain below NOISE is kept, but does not start the count
    of failed trials again. Returns the division and the cost of the trials.
    """
    failed, cost, ends = 0, 0.0, Counter[float]()
    # A space that does not count passes has a large budget: the number of trials ends its loop.
    sure = max(16, trials * 16 // MIN_TRIALS) if space.counts else trials
    noise = NOISE if space.counts else 0.0
    while failed < trials and cost < budget and not (failed >= sure and min(ends.values()) > 1):
        most = now.k if space.redraw_any and failed % 3 == 0 else 2
        centers = space.redraw(now.centers, most, rng)
        # Merges may remove the additional centres, so `relax` may end higher by their penalties.
        spare = space.price.penalty * max(0, len(centers) - now.k)
        labels, objective, passes = space.relax(centers, now.objective + spare, now.labels)
        failed += 1
        passes = passes if space.counts else 30 * now.k  # an estimate
        cost += passes * pass_cost(space) + 2e5  # the fixed cost of a trial
        if objective < now.objective * (1 - 1e-9):
            new = space.division(labels)
            if new.objective < now.objective:
                failed = 0 if new.objective < now.objective * (1 - noise) else failed
                now = new
                ends.clear()
        back = same_division(labels, now.labels)
        ends[1.0 if back else round(objective / (abs(now.objective) or 1.0), 6)] += 1
    return now, cost
