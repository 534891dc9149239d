"""Combinations of divisions: step 3 of the search (`driver.py`).

On data without clear clusters, local searches end in local minima that differ a little in every
region. The centres of two such minima together are twice as many as needed. Ward's merges reduce
them to the right number and keep, in each region, the centres that fit the rows best.

1. *Pool.* A few new starts, each improved by Lloyd's passes.
2. *Cross* two divisions of the pool that have not been crossed yet. Assign the rows to the centres
   of both, merge clusters until as many are left as the parents have (a few more or fewer if the
   penalty is above 0), then make Lloyd's passes. The result is the child. A twin of the child is a
   division that agrees with it in all but a few rows. If the pool holds a twin, the child replaces
   the twin if the child is lower; otherwise it replaces the highest division of the pool if the
   child is lower.
3. When all pairs have been crossed, another start joins the pool. If the pool already holds a twin
   of that start, the pool ends, because new starts only find known divisions.
4. For a given number of clusters a *chain* replaces the pool: ten starts, for more than 40 clusters
   fewer, but at least five, each crossed with the lowest division so far. The chain ends early when
   two starts were twins of its lowest division. With a given number, crossings among
   children of the same parents gain little, and a division into few clusters needs about as many
   starts as k-means does.
5. The lowest division of the pool or chain is crossed with the `ends`, the lowest divisions of the
   search so far. The ends do not enter the pool: exact moves have made them lower than all members,
   so the pool would soon hold only their children.

The pool uses Lloyd's passes only, because they are many times cheaper than exact moves. The driver
makes exact moves from the result.

Fränti 2000, "Genetic algorithm with deterministic crossover for vector quantization" (step 2, for a
given number of clusters; departs from it by the free number and by a pool of constant size).
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._search.division import Division, same_division
from madbayes._search.space import CrossingSpace

POOL_SIZE = 3  # divisions
POOL_GAIN = 3e-4  # Lloyd's passes end when a pass lowers the error by less than this share


def combine(
    space: CrossingSpace, ends: Sequence[Division], rng: np.random.RandomState, *, raw: bool = False
) -> Division:
    """The lowest division of a new pool or chain, crossed with `ends`.

    `raw`: the driver has not descended from `ends` yet, so the pool or chain starts with them.
    """
    best = (pool_of if space.price.penalty > 0 else chain)(space, ends, rng, raw)
    if raw:
        return min(best, ends[0], key=cost)
    if same_division(best.labels, ends[0].labels):
        return ends[0]
    return min([best, *(cross(space, best, end, rng) for end in ends)], key=cost)  # 5.


def pool_of(
    space: CrossingSpace, ends: Sequence[Division], rng: np.random.RandomState, raw: bool
) -> Division:
    """1. to 3. The lowest division of a pool."""
    pool: dict[int, Division] = {}
    met: set[tuple[int, int]] = set()
    crossings = 10 if raw else 6  # in the first round the number of clusters may still be far off
    stage = Stage("combining", POOL_SIZE + crossings + len(ends))
    for step in range(POOL_SIZE + crossings):
        stage.at(step)
        pairs = [pair for pair in combinations(sorted(pool), 2) if pair not in met]
        fresh = step < POOL_SIZE or not pairs
        if fresh:  # 1., 3.
            k = count_clusters(space, ends[0], ends[0], rng)
            start = ends[step] if raw and step < len(ends) else space.new_start(k, rng)
            child = space.lloyd_until(start, POOL_GAIN)
        else:  # 2.
            one, other = pairs[rng.randint(len(pairs))]
            met.add((one, other))
            child = cross(space, pool[one], pool[other], rng)
        twins = [number for number, old in pool.items() if same_division(child.labels, old.labels)]
        if twins and not pairs and step >= POOL_SIZE - 1:
            break
        if len(pool) < POOL_SIZE and not twins:
            pool[step] = child
            continue
        place = twins[0] if twins else max(pool, key=lambda number: pool[number].objective)
        if child.objective < pool[place].objective or (fresh and not twins):
            del pool[place]
            pool[place if twins else step] = child
    return min(pool.values(), key=cost)


def chain(
    space: CrossingSpace, ends: Sequence[Division], rng: np.random.RandomState, raw: bool
) -> Division:
    """4. The lowest division of a chain."""
    k = ends[0].k
    starts = int(np.clip(10 * 40 // k, 5, 10))
    stage = Stage("combining", starts + len(ends))
    best = space.lloyd_until(ends[0] if raw else space.new_start(k, rng), gain=1e-3)
    twins = 0
    for step in range(1, starts):
        stage.at(step)
        other = space.lloyd_until(space.new_start(k, rng), gain=1e-3)
        twin = same_division(other.labels, best.labels)
        best = min(best, other if twin else cross(space, best, other, rng), key=cost)
        twins += twin
        if twins == 2:
            break
    return best


def cross(
    space: CrossingSpace, one: Division, other: Division, rng: np.random.RandomState
) -> Division:
    """2. The child of two divisions."""
    k = count_clusters(space, one, other, rng)
    gain = POOL_GAIN if space.price.penalty > 0 else 1e-4
    return space.lloyd_until(space.cross(one, other, k), gain)


def cost(division: Division) -> float:
    return division.objective


def count_clusters(
    space: CrossingSpace, one: Division, other: Division, rng: np.random.RandomState
) -> int:
    """The number of clusters of a child: that of its parents, at a penalty 5 % more or fewer."""
    fewest, most = sorted((one.k, other.k))
    if space.price.penalty == 0:
        return most
    spread = max(1, round(0.05 * most))
    return int(np.clip(rng.randint(fewest - spread, most + spread + 1), 1, space.price.cap))
