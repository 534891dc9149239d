"""Penalties of the hard HDP that the data decide.

1. *Candidates.* For several λ_l, from far below what a group's rows vary to all of it: the fewest
   clusters that pay at a small λ_g, then λ_g raised step by step, each descent from the last one.
2. *Words.* Each candidate is a description of the data: which clusters a group uses, which row is
   in which of them, where the centres are, and what is left over as round Gaussian noise. Its
   length is

     L = nd/2·log(SSE/(n-g)d) + Σ_j log C(g, k_j) + Σ_j l_j + gd/2·log(n/g)

   with l_j, the labels within a group, the shorter of n_j log k_j (clusters about equal) and
   Σ_p n_jp log(n_j/n_jp) + (k_j-1)/2·log n_j. This is the integrated complete likelihood of
   Biernacki, Celeux & Govaert 2000, for groups. d is the number of columns that vary, (Σ v)²/Σ v²
   of the variances v of small clusters along their principal axes.
3. The candidate with the least L, if its clusters describe the groups of held-out rows better than
   the same rows in shuffled groups, and if it has no more clusters than all rows together or than
   the groups alone, added up (`penalties.path`). The search itself then settles λ_g among its
   neighbours, again by the least L. Otherwise all groups are alike, and DP-means of all rows tells
   how many clusters there are (1 in noise, which round Gaussians would cut up when it is long): a
   cluster that all groups use costs what it costs there.
4. With hints: the candidate nearest to them, then the search with larger or smaller penalties until
   the numbers are met, or nearly.

One group: λ_l + λ_g is the penalty of DP-means, half each. Many rows: a sample of the groups, or of
the rows where groups are few.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from madbayes._partition.moves import means
from madbayes._rows.frame import power_of_two
from madbayes._rows.progress import Stage
from madbayes._rows.row_kernels import squared_error
from madbayes._search.division import Division
from madbayes._search.driver import descend
from madbayes._search.price import SharedPrice
from madbayes._search.renewal import renew
from madbayes.groups import hdp_kernels as hdp
from madbayes.groups.descent import nearest
from madbayes.groups.grouped_rows import Grouped, starts
from madbayes.groups.space import GroupedSpace
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase

SAMPLE = 4000  # rows that candidates are made from
STEP = 1.6  # from one λ_g to the next
NEARBY = (1, 1 / STEP, STEP)  # λ_g at which the best is searched again, in parts of its own
LEVELS = 6  # values of λ_l
MOST = 48  # clusters at the smallest λ_g, about
ROUNDS = 6  # searches to meet hints
CLOSE = 0.05  # near enough to them
FLOOR = 1e-9  # of all variation: rows that coincide are not described for nothing
SHUFFLES = 4
MARGIN = (5.0, 0.04)  # and of n: how much shorter the true groups have to be than shuffled ones
LOCAL_SHARE = 0.1  # of the penalty of DP-means that the groups' shares of a cluster cost together
MANY_GROUPS = 64  # more groups are not asked one by one
ALIKE = "the groups are alike, and of all rows together"  # why the pooled rows decided
ROWS = 4  # that a cluster has on average, at least

Pair = tuple[float | None, float | None]  # for λ_l and λ_g


class Candidate(NamedTuple):
    local: float
    glob: float
    n_local: float  # clusters that a group uses, on average
    n_global: int
    words: float
    error: float  # with λ_l, without λ_g
    labels: np.ndarray


def description_length(space: GroupedSpace, labels: np.ndarray, d: float) -> float:
    """2. L of a division."""
    X, w, g = space.X, space.w, int(labels.max()) + 1
    start, n = space.start, float(space.w.sum())
    group = np.repeat(np.arange(len(start) - 1), np.diff(start))
    n_jp = np.bincount(group * g + labels, w, minlength=(len(start) - 1) * g).reshape(-1, g)
    n_j, k_j = n_jp.sum(axis=1), (n_jp > 0).sum(axis=1)
    error = squared_error(X, w, labels, means(X, w, labels, g, False)[0])
    error = max(
        error, FLOOR * float(w @ np.square(X, dtype=np.float64).sum(axis=1)), np.finfo(float).tiny
    )
    unequal = -xlogy(n_jp, n_jp / n_j[:, None]).sum(axis=1) + (k_j - 1) * np.log(n_j) / 2
    return float(
        n * d / 2 * np.log(error / (max(n - g, 1.0) * d))
        + np.minimum(unequal, n_j * np.log(k_j)).sum()
        + (gammaln(g + 1) - gammaln(k_j + 1) - gammaln(g - k_j + 1)).sum()
        + g * d / 2 * np.log(n / g)
    )


def varying_columns(space: GroupedSpace, rng: np.random.RandomState) -> float:
    """2. How many columns vary within small clusters, as their principal variances say."""
    X, w = space.X, space.w
    seeds = space.draw(max(1, min(MOST, len(X) // 8)), rng)
    z, k = nearest(space.problem, seeds)
    R = (X - means(X, w, z, k, False)[0][z]) * np.sqrt(w)[:, None]
    R *= power_of_two(float(np.abs(R).max()))  # fourth powers follow
    S = R.T @ R if R.shape[1] <= R.shape[0] else R @ R.T  # the same eigenvalues but zeros
    norm = float((S**2).sum())
    return float(np.trace(S)) ** 2 / norm if norm > 0 else 1.0


def describe(space: GroupedSpace, now: Division, d: float) -> Candidate:
    """A division as a candidate."""
    local, glob = space.penalties
    n_local = hdp.count_local(space.start, now.labels, now.k)
    words = description_length(space, now.labels, d)
    error = now.objective - glob * now.k  # λ_l is part of what a number of clusters costs
    return Candidate(local, glob, float(n_local.mean()), now.k, words, error, now.labels)


def candidates(
    space: GroupedSpace, given: Pair, d: float, rng: np.random.RandomState
) -> list[Candidate]:
    """1. For each λ_l the staircase over λ_g; penalties that are given stay as they are."""
    X, w, start = space.X, space.w, space.start
    total = float(w @ np.square(X, dtype=np.float64).sum(axis=1))  # rows are shifted to their mean
    within = total - float(
        sum(np.square(w[a:b] @ X[a:b]).sum() / w[a:b].sum() for a, b in pairwise(start))
    )
    if not total > 0:
        one = np.zeros(len(X), int)
        return [Candidate(given[0] or 1.0, given[1] or 1.0, 1.0, 1, 0.0, 0.0, one)]
    n_groups = len(start) - 1
    each = max(within, 1e-9 * total) / n_groups
    lowest = each * n_groups / (8 * w.sum())  # an eighth of what one row varies within its group
    levels = np.geomspace(each / 2, min(lowest, each / 4), LEVELS).tolist()
    if given[0] is not None:
        levels = [given[0]]
    found = []
    stage = Stage("at which penalties", len(levels))
    for local in levels:
        stage.step()
        here = space.at(local, given[1] or float(2 / d * total / min(MOST, len(X)) ** (1 + 2 / d)))
        now = here.move(here.settle(here.merged_seeds(rng)))
        found.append(describe(here, now, d))
        while given[1] is None and now.k > 1:
            here = here.at(local, STEP * here.price.penalty)
            now = here.move(now)
            found.append(describe(here, now, d))
    return found


def groups_matter(
    space: GroupedSpace, best: Candidate, d: float, rng: np.random.RandomState
) -> bool:
    """3. Whether held-out rows are better described in their groups than in shuffled ones.

    The centres come from one half of the rows and the other half is described. On the rows that the
    centres were fitted to, any groups do better than shuffled ones.
    """
    mine = np.zeros(len(space.X), bool)
    for a, b in pairwise(space.start):  # half of each group
        mine[a + rng.permutation(b - a)[: (b - a) // 2]] = True
    if not mine.any() or mine.all():
        return False
    centers = space.part(np.flatnonzero(mine), len(mine)).division(best.labels[mine]).centers
    rest = space.part(np.flatnonzero(~mine), len(mine))
    share = float(rest.w.sum() / space.w.sum())
    words = []
    for i in range(1 + SHUFFLES):
        order = rng.permutation(rest.n) if i else np.arange(rest.n)
        there = replace(rest, X=rest.X[order], w=rest.w[order])
        there = there.at(best.local * share, best.glob * share)
        words.append(description_length(there, there.move(there.settle(centers)).labels, d))
    return words[0] < min(words[1:]) - MARGIN[0] - MARGIN[1] * rest.w.sum()


def most_clusters(rows: Grouped, pooled: Staircase) -> float:
    """3. As many clusters as all rows together have, or as the groups alone, added up."""
    start = starts(rows.group)
    if len(start) - 1 > MANY_GROUPS:
        return np.inf
    alone = [find_path(rows.X[a:b], rows.w[a:b], None, None).best() for a, b in pairwise(start)]
    return max(pooled.best().number, sum(choice.number for choice in alone))


def as_pooled(rows: Grouped, pooled: Staircase) -> tuple[float, float, Staircase]:
    """3. Groups that are alike: a cluster of all groups costs the penalty of DP-means."""
    choice = pooled.best()
    path = replace(
        pooled.without_rows(), choice=replace(choice, reason=f"{ALIKE}: {choice.reason}")
    )
    return *shares(choice.price, rows), moved(path, rows.offset)


def shares(total: float, rows: Grouped) -> tuple[float, float]:
    """λ_l and λ_g at which a cluster that all groups use costs `total`."""
    n_groups = len(starts(rows.group)) - 1
    return LOCAL_SHARE * total / n_groups, (1 - LOCAL_SHARE) * total


def searched(
    space: GroupedSpace, start: Candidate, d: float, rng: np.random.RandomState
) -> Candidate:
    """What the search makes of a candidate at the penalties of `space`."""
    now = space.settle(space.division(start.labels).centers)
    now = renew(space, descend(space, now, rng, []), rng, [])
    return describe(space, now, d)


def miss(one: Candidate, wanted: Pair) -> float:
    """How far the numbers of clusters are from the wanted ones."""
    have = (one.n_local, one.n_global)
    return sum(abs(np.log(h / w)) for h, w in zip(have, wanted, strict=True) if w is not None)


def towards(
    space: GroupedSpace, best: Candidate, wanted: Pair, d: float, rng: np.random.RandomState
) -> Candidate:
    """4. Penalties raised where the search finds too many clusters, lowered where too few."""
    local, glob = best.local, best.glob
    power = 1 + 2 / d  # what one more of k clusters saves falls like k to this power
    found = []
    for _ in range(ROUNDS):
        best = searched(space.at(local, glob), best, d, rng)
        found.append(best)
        too_many = [
            1.0 if want is None else have / want
            for have, want in zip((best.n_local, best.n_global), wanted, strict=True)
        ]
        if all(abs(ratio - 1) < CLOSE for ratio in too_many):
            break
        local *= float(np.clip(too_many[0] ** power, 1 / 4, 4))
        glob *= float(np.clip(too_many[1] ** power, 1 / 4, 4))
    return min(found, key=lambda one: miss(one, wanted))


def find_shared_path(
    rows: Grouped, given: Pair, hints: Pair, random_state: np.random.RandomState
) -> tuple[float, float, Staircase]:
    """λ_l, λ_g, and the number of clusters against λ_g at that λ_l."""
    if rows.group[0] == rows.group[-1]:  # DP-means
        hint = hints[1] or hints[0]
        hint = None if hint is None else round(hint)
        path = find_path(rows.X, rows.w, None, hint)
        total = path.best().price
        other = given[0] or given[1] or total / 2
        rest = max(total - other, 1e-3 * total)
        return given[0] or rest, given[1] or rest, moved(path.without_rows(), rows.offset)
    row = float(rows.w.mean())  # a row counts as one on average
    price = SharedPrice(1.0, len(rows.X), local=1.0)
    whole = GroupedSpace(rows.X, rows.w / row, rows.group, price)
    space = whole.sample(SAMPLE, random_state) if whole.n > SAMPLE else whole
    share = space.price.penalty / row  # of the groups
    at = (
        None if given[0] is None else given[0] / row,
        None if given[1] is None else given[1] * share,
    )
    d = varying_columns(space, random_state)
    found = candidates(space, at, d, random_state)
    few = [one for one in found if ROWS * one.n_global <= len(space.X) or one.n_global == 1]
    best = min(few or found, key=lambda one: (miss(one, hints), one.words))
    reason = "the shortest description of the groups"
    if hints != (None, None):
        best, reason = towards(space, best, hints, d, random_state), "the nearest to the hints"
    elif given[1] is None and best.n_global > 1:
        matter = groups_matter(space, best, d, random_state)
        pooled = None if matter else find_path(rows.X, rows.w, None, None)
        if matter:
            nearby = [space.at(best.local, best.glob * f) for f in NEARBY]
            trials = [searched(here, best, d, random_state) for here in nearby]
            best = min(trials, key=lambda one: one.words)
            pooled = find_path(rows.X, rows.w, None, None)
            if best.n_global <= most_clusters(rows, pooled):
                pooled = None
        if pooled is not None and given[0] is None:
            return as_pooled(rows, pooled)
        if pooled is not None:
            number = pooled.best().number
            best = min(found, key=lambda one: (miss(one, (None, number)), one.words))
            reason = f"groups are alike; of all rows: {pooled.best().reason}"
    if best.n_global == 1 and hints[1] is None and given[1] is None:
        everything = float(
            space.w @ np.square(space.X, dtype=np.float64).sum(axis=1)
        )  # what no division can save
        best = best._replace(glob=max(best.glob, everything))
    local, glob = given[0] or best.local * row, given[1] or best.glob / share
    path = staircase(found, best, share, space, reason)
    return local, glob, moved(path, rows.offset)


def moved(path: Staircase, offset: np.ndarray) -> Staircase:
    """With centres where the rows were before they were shifted to their mean."""
    assert path.centers is not None
    return replace(path, centers=tuple(C + offset for C in path.centers))


def staircase(
    found: list[Candidate],
    best: Candidate,
    share: float,
    space: GroupedSpace,
    reason: str,
) -> Staircase:
    """The candidates at about the chosen λ_l, back in the units of the data."""
    level = min({one.local for one in found}, key=lambda x: abs(np.log(x / best.local)))
    steps = [one for one in found if one.local == level and one.n_global != best.n_global]
    steps.append(best)
    path = Staircase.build(
        [one.n_global for one in steps],
        np.array([one.error for one in steps]) / share,
        centers=[space.division(one.labels).centers for one in steps],
    )
    others = sorted((one for one in steps if one is not best), key=lambda one: one.words)
    # In nats: ten say that nothing else comes near.
    margin = min((others[0].words - best.words) / 10, 1.0) if others else 1.0
    if best.n_global == 1:
        margin, reason = 0.0, "no division stands out from noise"
    scores = {one.n_global: -one.words for one in sorted(steps, key=lambda one: -one.words)}
    return path.decide(
        best.n_global, reason, scores=scores, support=margin, price=best.glob / share
    )
