"""A pool of divisions and their crossings: step 2 of the search (`driver.py`).

Local searches of data without clear clusters end in local minima that differ everywhere a little.
Two of them together know more than each: the centres of both are twice as many as needed, and
Ward's merges down to the right number keep, place by place, what suits the rows best.

1. *Pool.* The starts that are given, and others from seeds of their own; a few Lloyd passes each.
2. *Cross* two divisions that have not met: all centres of both, their nearest rows, merged down to
   as many clusters as they have, or a few more or less where clusters have a price; Lloyd passes.
   The child takes the place of the worst, if it is lower and not there yet.
3. Until so many crossings are made, or all pairs have met. The best is the start of the descent.

Lloyd's passes are all it needs: they are many times cheaper than exact moves, which only the best
sees in the end. The unit of effort is one crossing, a small part of one k-means fit.

Fränti 2000, "Genetic algorithm with deterministic crossover for vector quantization" (2., for a
given number of clusters; departs from it by the free number and by a pool of steady size).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from madbayes._engine.progress import Stage
from madbayes._search.division import Division

SIZE = 3  # divisions in the pool, times the root of the effort
CROSSINGS = 10  # times the effort
GLIDE = 3e-4  # Lloyd ends with a pass that gains less than this share of the error, over √effort
SPREAD = 0.05  # clusters more or less than the parents have, as a share
SAME = 1e-9  # divisions whose objectives differ by less than this share are taken for equal


def combine(
    space: Any,
    starts: Sequence[Division],
    effort: float,
    rng: np.random.RandomState,
    history: list[float],
) -> Division:
    """The lowest division of a pool after its crossings."""
    first = min(starts, key=lambda division: division.objective)
    size, crossings = max(2, round(SIZE * effort**0.5)), max(1, round(CROSSINGS * effort))
    if not space.crosses or first.k == 1:
        return first
    gain = GLIDE / effort**0.5
    stage = Stage("combining", size + crossings)
    pool = dict(enumerate(space.glide(start, gain) for start in starts))  # 1.
    while len(pool) < size:
        k = count_clusters(space, first, first, rng)
        pool[len(pool)] = space.glide(space.sow(k, rng), gain)
        stage.at(len(pool))
    history.append(min(one.objective for one in pool.values()))
    met: set[tuple[int, int]] = set()
    for crossing in range(crossings):
        pairs = [pair for pair in combinations(sorted(pool), 2) if pair not in met]
        if not pairs:  # 3.
            break
        pair = pairs[rng.randint(len(pairs))]
        met.add(pair)
        one, other = (pool[number] for number in pair)
        k = count_clusters(space, one, other, rng)
        child = space.glide(space.cross(one, other, k), gain)  # 2.
        worst = max(pool, key=lambda number: pool[number].objective)
        known = any(
            abs(child.objective - old.objective) <= SAME * abs(old.objective)
            for old in pool.values()
        )
        if child.objective < pool[worst].objective and not known:
            history.append(min(history[-1], child.objective))
            del pool[worst]
            pool[size + crossing] = child
        stage.at(size + crossing + 1)
    return min(pool.values(), key=lambda division: division.objective)


def count_clusters(space: Any, one: Division, other: Division, rng: np.random.RandomState) -> int:
    """As many as the parents have, and a few more or less where the price decides."""
    fewest, most = sorted((one.k, other.k))
    if space.price.penalty == 0:
        return most
    spread = max(1, round(SPREAD * most))
    return int(np.clip(rng.randint(fewest - spread, most + spread + 1), 1, space.price.cap))
