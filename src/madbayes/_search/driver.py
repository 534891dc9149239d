"""The search: one minimiser of *squared error + price of the clusters*, for every space of rows.

KJ's algorithms open a cluster only when one row alone repays the penalty; the penalty that suits a
data set is what a whole cluster repays. So:

1. *Start.* Centres that the space proposes (many small clusters, merged while a merge costs less
   than the penalty), and those that the caller knows.
2. *Descend* from the best: the moves of the space (merges, Lloyd, exact moves of single rows) and
   splits of every cluster, in turn, until none lowers the objective.
3. *Combine.* Other starts, crossed with each other and with the ends so far (`pool.py`); descend.
4. *Renew neighbourhoods* of a few clusters each (`renewal.py`), where that pays.
5. *Descend* again, on all rows (1 to 4 see a sample when there are very many).

3 to 5 are a round. `effort` is how many, to the nearest whole number: 1 costs a few k-means fits,
.1 leaves 1 and 2. Where there is a sample, or many clusters that have a price, 2 costs more than
crossings do: there the first round comes before it, and is always made. More effort begins with all
that less effort does, and keeps what is lowest, so it never ends higher.

Guaranteed at the end: no move of the space lowers the objective, and splits of every cluster have
been tried in vain. It never rises from step to step. Draws, cuts and the order of sums depend on
the data and the seed alone, so the result is the same for any number of threads.

A *space* (`Space`) holds the rows and a price (`price.py`), and says what a division costs and how
rows and clusters move; it is all that the driver knows of a model. `kmeans/dense_space.py` is the
one to read first.

Hartigan 1975 (row moves); Ward 1963 (merges); Arthur & Vassilvitskii 2007 (draws).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes._search.division import Division, alike
from madbayes._search.pool import combine
from madbayes._search.price import Price
from madbayes._search.renewal import NOISE, renew

SAMPLE = 20_000  # rows that a search looks at; the others only take part in its last descent
GIVEN = 5  # times as many for a given number: on noise the minima of a sample are not those of all
PER_CLUSTER = 50  # rows of that sample for each cluster, at least
TOL = 1e-10  # less than this share of the objective is no gain
SPLITS = 3  # starts per split
ENDS = 4  # divisions that are kept from round to round
SURE = 3  # rounds that end where the search has been: it is over

Step = Callable[[Division], Division]


class Space(Protocol):
    """Rows, what a division of them costs, and how rows and clusters move."""

    price: Price
    n: int
    values: int  # rows × columns, of which the patience of the search depends
    crosses: bool  # has what `pool.py` asks for: sow, cross, glide
    neighbours: int  # clusters in a neighbourhood; 0: neighbourhoods are not renewed
    passes: float  # of all rows over all centres, that the renewal may cost
    counts: bool  # `relax` says how many it took
    redraw_any: bool  # now and then re-draw any number of centres
    tries: int  # starts that are descended from
    exact_parts: bool  # if not, every cluster is halved, and `merge` decides

    def division(self, labels: np.ndarray) -> Division:
        """The division by `labels`; numbers without rows are dropped."""

    def first_centers(self, rng: np.random.RandomState) -> Iterable[np.ndarray]:
        """1. Centres to start from."""

    def settle(self, centers: np.ndarray) -> Division:
        """The division that a few centres lead to."""

    def moves(self) -> Sequence[Step]:
        """3. Moves that never raise the objective."""

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        """Rows far from each other, as centres; fewer where rows are equal."""

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        """4. The centres with up to `most` of them removed, and about as many drawn anew."""

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        """Labels and objective after the quick moves, from the nearest of these centres, and how
        many passes of all rows over one centre it took.

        It may give up where there is little hope to come below `limit`, or where it comes back to
        the division `known`."""

    def part(self, rows: np.ndarray, cap: int) -> "Space":
        """The space of some of the rows (ascending), with at most `cap` clusters."""

    def whole(self, rows: np.ndarray, center: np.ndarray) -> bool:
        """Whether it is sure that no division of these rows is below one cluster."""

    def sample(self, size: int, rng: np.random.RandomState) -> "Space":
        """A space of about so many rows that stands for this one."""


def search(
    space: Any,
    *,
    random_state: np.random.RandomState,
    effort: float = 1.0,
    n_init: int = 1,
    centers: Sequence[np.ndarray] = (),
    labels: Sequence[np.ndarray] = (),
) -> tuple[Division, list[float]]:
    """The lowest division found, and the objective on the way to it.

    `centers`, `labels`: where else to start from; the result is never above these labels.
    """
    known = [space.division(z) for z in labels]
    seeds = random_state.randint(2**31 - 1, size=n_init - 1)  # whatever the effort
    streams = [random_state, *(np.random.RandomState(seed) for seed in seeds)]
    found = [search_once(space, rng, effort, centers, known) for rng in streams]
    return min(found, key=lambda one: one[0].objective)


def search_once(
    space: Any,
    rng: np.random.RandomState,
    effort: float,
    centers: Sequence[np.ndarray],
    known: list[Division],
) -> tuple[Division, list[float]]:
    """Steps 1 to 5 from one seed."""
    Stage("first clusters")
    first = [*space.first_centers(rng)]  # 1.
    first += [C for C in (*centers, *(d.centers for d in known)) if len(C) <= space.price.cap]
    more = GIVEN if space.crosses and space.price.penalty == 0 else 1
    size = max(more * SAMPLE, PER_CLUSTER * len(first[0]))
    some = space.sample(size, rng) if space.n > size else space
    starts = different([*(some.settle(C) for C in first), *(known if some is space else ())])
    # Where the first descent is dear, crossings come before it, and one round at least.
    many = some.crosses and some.price.penalty > 0 and starts[0].k > some.neighbours
    dear = many or some is not space
    late = dear and some.crosses and starts[0].k > 1
    found = []
    for start in starts[: 0 if late else space.tries]:  # 2.
        steps = [start.objective]
        found.append((descend(some, start, rng, steps), steps))
    found = found or [(starts[0], [starts[0].objective])]
    best, history = min(found, key=lambda f: f[0].objective)
    ends, steps = different([best, *starts])[:ENDS], history if some is space else []
    others = [] if some is space else [*known]
    same, pays = 0, True
    for turn in range(max(round(effort), dear)):
        last, raw = ends[0], late and turn == 0
        if some.crosses and last.k > 1:  # 3.
            new = combine(some, ends, rng, raw=raw)
            new = descend(some, new, rng, steps) if raw or new is not last else new
            same += alike(new.labels, last.labels)
            ends = [new] if raw else different([*ends, new])[:ENDS]
        now = ends[0]
        if pays or now is not last or not some.crosses:  # 4.
            now = renew(some, now, rng, steps)
            pays = now.objective < (1 - NOISE) * ends[0].objective
        Stage("last moves")  # 5.
        if some is space:
            best = ends[0] = now if now is ends[0] else descend(space, now, rng, steps)
        elif turn == 0 or now is not last:
            ends[0] = now
            now = different([*others, space.settle(now.centers)])[0]
            best, others, history = (best, [], history) if turn else (now, [], [now.objective])
            best = different([descend(space, now, rng, history), best])[0]
        if same == SURE:
            break
    return best, never_rising([*history, best.objective])


def different(divisions: Sequence[Division]) -> list[Division]:
    """Those that are not the same as another, the lowest first."""
    lowest: list[Division] = []
    for one in sorted(divisions, key=lambda d: d.objective):
        if not (lowest and np.array_equal(one.labels, lowest[-1].labels)):
            lowest.append(one)
    return lowest


def descend(
    space: Any, now: Division, rng: np.random.RandomState, history: list[float]
) -> Division:
    """3. All moves and splits in turn until none lowers the objective."""
    steps = [*space.moves(), lambda division: split(space, division, rng)]
    vain: list[Division | None] = [None] * len(steps)  # where each was last of no use
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


def split(space: Any, now: Division, rng: np.random.RandomState) -> Division:
    """3. Split each cluster from a few drawn pairs of rows; what repays its price stays."""
    clusters = [(c, rows) for c, rows in enumerate(now.rows()) if len(rows) > 1]
    seeds = rng.randint(2**31 - 1, size=len(clusters))
    spare = space.price.cap - now.k if space.exact_parts else space.n
    limited = spare < min(now.k, space.n - now.k)

    def divide(job: tuple[int, np.ndarray, int]) -> np.ndarray | None:
        c, rows, seed = job
        if spare <= 0 or (space.exact_parts and space.whole(rows, now.centers[c])):
            return None
        one, draws = space.part(rows, spare + 1), np.random.RandomState(seed)
        lowest, found = np.inf, None
        if space.exact_parts:
            lowest = one.division(np.zeros(len(rows), np.int64)).objective
            lowest -= TOL * abs(lowest)
        for _ in range(SPLITS):
            labels, objective, *_ = one.relax(one.draw(2, draws), lowest)
            if objective < lowest:
                lowest, found = objective, labels
        return found

    z, n = now.labels.copy(), len(now.labels)
    jobs = [(c, rows, int(seed)) for (c, rows), seed in zip(clusters, seeds, strict=True)]
    # Clusters that share little that the cap leaves are split one after the other (`map` is lazy).
    found = map(divide, jobs) if limited else together(divide, jobs)
    for (c, rows, _), labels in zip(jobs, found, strict=True):
        if labels is not None and labels.max() <= spare:  # numbers that no other cluster has
            z[rows] = np.where(labels == 0, c, (now.k + c) * n + labels)
            spare -= int(labels.max())
    if np.array_equal(z, now.labels):
        return now
    new = space.division(z)
    return new if space.exact_parts else space.merge(new)


def never_rising(history: Sequence[float], *, passes: bool = False) -> list[float]:
    """The history without what rounding raised, or lowered beyond its last value.

    Sums over parts of the rows and over all of them differ in their last digits. `passes`: one
    value for each, equal ones too.
    """
    lowest = np.maximum(np.minimum.accumulate(history), history[-1])
    fallen = np.r_[True, (np.diff(lowest) < 0) | passes]
    return [float(v) for v in lowest[fallen]]


def by_size(centers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Clusters from the heaviest to the lightest; among equals by place, not by order of rows."""
    direction = np.random.RandomState(0).standard_normal(centers.shape[1])
    return np.lexsort((centers @ direction, -weights))
