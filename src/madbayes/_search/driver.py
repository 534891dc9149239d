"""The search: one minimiser of *squared error + price of the clusters*, for every space of rows.

KJ's algorithms open a cluster only when one row alone saves more than the penalty. The penalty that
suits a data set is larger: only a whole cluster saves as much. So the search moves, splits and
merges clusters as well as rows:

1. *Start.* The space proposes centres: many small clusters, merged while a merge costs less than
   the penalty. The caller may add centres or labels. Where there are very many rows, steps 1 to 4
   work on a sample of them.
2. *Descend* from the best start: the moves of the space (merges, Lloyd's passes, exact moves of
   single rows) and splits of every cluster, in turn, until none lowers the objective.
3. *Combine* (`pool.py`): new starts are crossed with each other and with the best divisions so far;
   descend from the result.
4. *Renew* (`renewal.py`): neighbourhoods of a few clusters each are solved again from new centres,
   as long as this lowers the objective.
5. *Descend* again, on all rows.

Steps 3 to 5 are a round. `effort`, rounded, is the number of rounds: an effort of 1 costs about as
much as a few fits of k-means, an effort of 0.1 runs steps 1 and 2 only. With a sample, or with many
clusters and a penalty above 0, the descent of step 2 costs more than a round of combinations. In
these two cases the search always makes one round, and combines before it descends.

A search with more effort repeats everything that a search with less effort does and keeps the
lowest division, so its objective is never higher. At the end no move of the space lowers the
objective, and no split that was tried lowers it. The objective never rises from step to step.
Random draws, cuts and the order of sums depend on the data and on the seed only, so the result does
not depend on the number of threads.

`space.py` lists the methods that a model has to provide.

Hartigan 1975 (moves of rows); Ward 1963 (merges); Arthur & Vassilvitskii 2007 (draws).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from madbayes._partition.moves import TOL
from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes._search.division import Division, same_division
from madbayes._search.pool import combine
from madbayes._search.renewal import NOISE, renew
from madbayes._search.space import Crossing, Descent, Halving, Space

SAMPLE_ROWS = 20_000  # rows of the sample that steps 1 to 4 work on
SAMPLE_ROWS_PER_CLUSTER = 50  # the sample has at least this many rows for each cluster
SPLITS = 3  # pairs of rows from which the split of one cluster starts
ENDS = 4  # lowest divisions that are kept from round to round


def search(
    space: Space,
    *,
    random_state: np.random.RandomState,
    effort: float = 1.0,
    n_init: int = 1,
    centers: Sequence[np.ndarray] = (),
    labels: Sequence[np.ndarray] = (),
) -> tuple[Division, list[float]]:
    """The lowest division found, and the objective on the way to it.

    `centers` and `labels` are further starts. The result is never above the division by `labels`.
    """
    known = [space.division(z) for z in labels]
    seeds = random_state.randint(2**31 - 1, size=n_init - 1)  # does not depend on the effort
    streams = [random_state, *(np.random.RandomState(seed) for seed in seeds)]
    found = [search_once(space, rng, effort, centers, known) for rng in streams]
    return min(found, key=lambda one: one[0].objective)


def search_once(
    space: Space,
    rng: np.random.RandomState,
    effort: float,
    centers: Sequence[np.ndarray],
    known: list[Division],
) -> tuple[Division, list[float]]:
    """Steps 1 to 5 from one seed."""
    some, starts = start(space, rng, centers, known)  # 1.
    sampled = some is not space
    crosses = isinstance(some, Crossing)
    many_priced = crosses and some.price.penalty > 0 and starts[0].k > some.neighbours
    costly = sampled or many_priced  # the first descent costs more than a round of combinations
    combine_first = costly and crosses and starts[0].k > 1

    tries = 0 if combine_first else some.tries
    best, history = descend_from(some, starts, tries, rng)  # 2.
    rounds = Rounds(some, different([best, *starts])[:ENDS], rng, [] if sampled else history)
    for turn in range(max(round(effort), costly)):
        before = rounds.best
        now = rounds.combine_and_renew(raw=combine_first and turn == 0)  # 3., 4.
        Stage("last moves")  # 5.
        if not sampled:
            if now is not rounds.best:
                now = descend(space, now, rng, history)
            best = rounds.best = now
        elif turn == 0 or now is not before:
            rounds.best = now
            on_all_rows = space.settle(now.centers)
            if turn == 0:  # the history begins again: so far it described the sample
                on_all_rows = different([*known, on_all_rows])[0]
                best, history = on_all_rows, [on_all_rows.objective]
            best = different([descend(space, on_all_rows, rng, history), best])[0]
        if rounds.vain == 3:  # more rounds would find the lowest division again
            break
    return best, never_rising([*history, best.objective])


def start(
    space: Space, rng: np.random.RandomState, centers: Sequence[np.ndarray], known: list[Division]
) -> tuple[Space, list[Division]]:
    """1. The space that steps 1 to 4 see (a sample of very many rows), and its first divisions."""
    Stage("first clusters")
    first = [*space.first_centers(rng)]
    first += [C for C in (*centers, *(d.centers for d in known)) if len(C) <= space.price.cap]
    # A given number of clusters needs a larger sample: on data without clear clusters the minimum
    # of a small sample is far from the minimum of all rows.
    given = isinstance(space, Crossing) and space.price.penalty == 0
    size = max(SAMPLE_ROWS * (5 if given else 1), SAMPLE_ROWS_PER_CLUSTER * len(first[0]))
    if space.n > size:
        some = space.sample(size, rng)
        return some, different([some.settle(C) for C in first])
    return space, different([*(space.settle(C) for C in first), *known])


def descend_from(
    space: Space, starts: list[Division], tries: int, rng: np.random.RandomState
) -> tuple[Division, list[float]]:
    """2. The lowest end of descents from the best `tries` starts, and the objective on the way."""
    if tries == 0:
        return starts[0], [starts[0].objective]
    found = []
    for one in starts[:tries]:
        history = [one.objective]
        found.append((descend(space, one, rng, history), history))
    return min(found, key=lambda each: each[0].objective)


class Rounds:
    """Steps 3 and 4, and the state that one round hands to the next.

    Attributes
    ----------
    ends : list of Division
        The lowest divisions so far, lowest first.
    vain : int
        How many rounds found the lowest division again and nothing lower.
    """

    def __init__(
        self,
        space: Space,
        ends: list[Division],
        rng: np.random.RandomState,
        history: list[float],
    ) -> None:
        self.space, self.ends, self.rng, self.history = space, ends, rng, history
        self.vain, self._renewal_pays = 0, True

    @property
    def best(self) -> Division:
        return self.ends[0]

    @best.setter
    def best(self, division: Division) -> None:
        self.ends[0] = division

    def combine_and_renew(self, *, raw: bool) -> Division:
        """One round. `raw`: step 2 has not descended yet, so the `ends` are only starts."""
        space, last = self.space, self.best
        if isinstance(space, Crossing) and last.k > 1:  # 3.
            new = combine(space, self.ends, self.rng, raw=raw)
            if raw or new is not last:
                new = descend(space, new, self.rng, self.history)
            self.vain += same_division(new.labels, last.labels)
            self.ends = [new] if raw else different([*self.ends, new])[:ENDS]
        now = self.best
        if self._renewal_pays or now is not last or not isinstance(space, Crossing):  # 4.
            now = renew(space, now, self.rng, self.history)
            self._renewal_pays = now.objective < (1 - NOISE) * self.best.objective
        return now


def different(divisions: Sequence[Division]) -> list[Division]:
    """The divisions from the lowest objective to the highest, without repetitions."""
    lowest: list[Division] = []
    for one in sorted(divisions, key=lambda d: d.objective):
        if not (lowest and np.array_equal(one.labels, lowest[-1].labels)):
            lowest.append(one)
    return lowest


def descend(space: Descent, now: Any, rng: np.random.RandomState, history: list[float]) -> Any:
    """2., 5. All moves and splits in turn until none lowers the objective."""
    steps = [*space.moves(), lambda division: split(space, division, rng)]
    vain: list[Any] = [None] * len(steps)  # the division at which each step last gained nothing
    while True:
        before = now.objective
        for s, step in enumerate(steps):
            if now is vain[s]:
                continue
            new = step(now)
            if new.objective < now.objective:
                now = new
                history.append(now.objective)
            else:
                vain[s] = now
        if not now.objective < before - TOL * abs(before):
            return now


def split(space: Descent, now: Any, rng: np.random.RandomState) -> Any:
    """2., 5. Split each cluster from drawn pairs of rows; keep splits that repay their price."""
    clusters = [(c, rows) for c, rows in enumerate(now.rows()) if len(rows) > 1]
    seeds = rng.randint(2**31 - 1, size=len(clusters))
    halving = isinstance(space, Halving)
    spare = space.n if halving else space.price.cap - now.k
    limited = spare < min(now.k, space.n - now.k)

    def divide(job: tuple[int, np.ndarray, int]) -> np.ndarray | None:
        c, rows, seed = job
        if spare <= 0 or space.indivisible(rows, now.centers[c]):
            return None
        one, draws = space.part(rows, spare + 1), np.random.RandomState(seed)
        lowest, found = np.inf, None
        if not halving:
            lowest = one.division(np.zeros(len(rows), np.int64)).objective
            lowest -= TOL * abs(lowest)
        for _ in range(SPLITS):
            labels, objective, *_ = one.relax(one.draw(2, draws), lowest)
            if objective < lowest:
                lowest, found = objective, labels
        return found

    z, n = now.labels.copy(), len(now.labels)
    jobs = [(c, rows, int(seed)) for (c, rows), seed in zip(clusters, seeds, strict=True)]
    # If the cap leaves little room, clusters are split one after the other (`map` is lazy), so
    # that `spare` is up to date for each of them.
    found = map(divide, jobs) if limited else together(divide, jobs)
    for (c, rows, _), labels in zip(jobs, found, strict=True):
        if labels is not None and labels.max() <= spare:
            # new clusters get numbers that no other cluster has
            z[rows] = np.where(labels == 0, c, (now.k + c) * n + labels)
            spare -= int(labels.max())
    if np.array_equal(z, now.labels):
        return now
    new = space.division(z)
    return space.merge_halves(new) if isinstance(space, Halving) else new


def never_rising(history: Sequence[float], *, passes: bool = False) -> list[float]:
    """The history without the rises and falls that only rounding causes.

    Sums over parts of the rows and over all rows differ in their last digits. `passes=True` keeps
    one value for each pass, also where consecutive values are equal.
    """
    lowest = np.maximum(np.minimum.accumulate(history), history[-1])
    fallen = np.r_[True, (np.diff(lowest) < 0) | passes]
    return [float(v) for v in lowest[fallen]]


def by_size(centers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Numbers of the clusters from the heaviest to the lightest.

    Clusters of equal weight are sorted by their centres' products with a fixed random direction.
    """
    direction = np.random.RandomState(0).standard_normal(centers.shape[1])
    return np.lexsort((centers @ direction, -weights))
