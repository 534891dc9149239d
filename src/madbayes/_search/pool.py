"""A pool of divisions and their crossings: step 3 of the search (`driver.py`).

Local searches of data without clear clusters end in local minima that differ everywhere a little.
Two of them together know more than each: the centres of both are twice as many as needed, and
Ward's merges down to the right number keep, place by place, what suits the rows best.

1. *Pool.* Starts from seeds of their own; a few Lloyd passes each.
2. *Cross* two divisions that have not met: all centres of both, their nearest rows, merged down to
   as many clusters as they have, or a few more or less where clusters have a price; Lloyd passes.
   The child takes the place of the worst, if it is lower; or that of its twin, which has hardly a
   row elsewhere.
3. Where all have met, another start joins them; one that has a twin ends it, for there is nothing
   new to be found.
4. Where the number is given: a *chain* in place of a pool. Ten starts, fewer of many clusters, each
   crossed with the best so far: crossings of relatives gain little, and few clusters need as many
   starts as k-means does.
5. The best is crossed with the `ends` of the search so far, if it is not the lowest of them. They
   are not in the pool: exact moves have made them lower than all in it, which would soon be alike.

Lloyd's passes are all it needs: they are many times cheaper than exact moves, which only the best
sees in the end.

Fränti 2000, "Genetic algorithm with deterministic crossover for vector quantization" (2., for a
given number of clusters; departs from it by the free number and by a pool of steady size).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._search.division import Division, alike

SIZE = 3  # divisions in the pool
CROSSINGS = 6
FIRST = 10  # of them where the number of clusters may have far to go
GLIDE = 3e-4  # Lloyd ends with a pass that gains less than this share of the error …
CHAINED = 1e-3, 1e-4  # … of starts and of crossings in a chain
STARTS = 10  # in a chain; of …
FEW = 40  # … more clusters fewer, in proportion, …
LEAST = 5  # … but not below
TWINS = 2  # starts that lead to where the chain is already: it is over
SPREAD = 0.05  # clusters more or less than the parents have, as a share


def combine(
    space: Any, ends: Sequence[Division], rng: np.random.RandomState, *, raw: bool = False
) -> Division:
    """The lowest division that another pool or chain and its crossings with `ends` lead to.

    `raw`: nothing has descended from them yet, and it begins with them.
    """
    best = (breed if space.price.penalty > 0 else chain)(space, ends, rng, raw)
    if raw:
        return min(best, ends[0], key=cost)
    if alike(best.labels, ends[0].labels):
        return ends[0]
    return min([best, *(cross(space, best, end, rng) for end in ends)], key=cost)  # 5.


def breed(space: Any, ends: Sequence[Division], rng: np.random.RandomState, raw: bool) -> Division:
    """1. to 3. The lowest of a pool."""
    pool: dict[int, Division] = {}
    met: set[tuple[int, int]] = set()
    crossings = FIRST if raw else CROSSINGS
    stage = Stage("combining", SIZE + crossings + len(ends))
    for step in range(SIZE + crossings):
        stage.at(step)
        pairs = [pair for pair in combinations(sorted(pool), 2) if pair not in met]
        fresh = step < SIZE or not pairs
        if fresh:  # 1., 3.
            k = count_clusters(space, ends[0], ends[0], rng)
            start = ends[step] if raw and step < len(ends) else space.sow(k, rng)
            child = space.glide(start, GLIDE)
        else:  # 2.
            one, other = pairs[rng.randint(len(pairs))]
            met.add((one, other))
            child = cross(space, pool[one], pool[other], rng)
        twins = [number for number, old in pool.items() if alike(child.labels, old.labels)]
        if twins and not pairs and step >= SIZE - 1:
            break
        if len(pool) < SIZE and not twins:
            pool[step] = child
            continue
        place = twins[0] if twins else max(pool, key=lambda number: pool[number].objective)
        if child.objective < pool[place].objective or (fresh and not twins):
            del pool[place]
            pool[place if twins else step] = child
    return min(pool.values(), key=cost)


def chain(space: Any, ends: Sequence[Division], rng: np.random.RandomState, raw: bool) -> Division:
    """4. The lowest of a chain."""
    k = ends[0].k
    starts = int(np.clip(STARTS * FEW // k, LEAST, STARTS))
    stage = Stage("combining", starts + len(ends))
    best = space.glide(ends[0] if raw else space.sow(k, rng), CHAINED[0])
    twins = 0
    for step in range(1, starts):
        stage.at(step)
        other = space.glide(space.sow(k, rng), CHAINED[0])
        twin = alike(other.labels, best.labels)
        best = min(best, other if twin else cross(space, best, other, rng), key=cost)
        twins += twin
        if twins == TWINS:
            break
    return best


def cross(space: Any, one: Division, other: Division, rng: np.random.RandomState) -> Division:
    """2. A child of two divisions."""
    k = count_clusters(space, one, other, rng)
    gain = GLIDE if space.price.penalty > 0 else CHAINED[1]
    return space.glide(space.cross(one, other, k), gain)


def cost(division: Division) -> float:
    return division.objective


def count_clusters(space: Any, one: Division, other: Division, rng: np.random.RandomState) -> int:
    """As many as the parents have, and a few more or less where the price decides."""
    fewest, most = sorted((one.k, other.k))
    if space.price.penalty == 0:
        return most
    spread = max(1, round(SPREAD * most))
    return int(np.clip(rng.randint(fewest - spread, most + spread + 1), 1, space.price.cap))
