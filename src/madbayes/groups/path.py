"""How many clusters groups share, and the penalties λ_l and λ_g of that number.

Three divisions compete. The last two use the tests of `DPMeans` ("alone": `howmany/path.py`).

1. *Shared.* For several λ_l, from far below the variation of a group's rows to all of it, take the
   clusters that pay at a small λ_g. Then λ_g rises step by step, and each descent starts from the
   division before. Of all these candidates the one with the shortest description is kept. A
   description names the clusters that each group uses, the cluster of each row and the centres, and
   codes the rest as round Gaussian noise. Its length is

     L = nd/2·log(SSE/(n-g)d) + Σ_j log C(g, k_j) + Σ_j l_j + gd/2·log(n/g)

   where l_j, the labels within a group, is the shorter of n_j log k_j (clusters about equal) and
   Σ_p n_jp log(n_j/n_jp) + (k_j-1)/2·log n_j. This is the integrated complete likelihood of
   Biernacki, Celeux & Govaert 2000, for groups. d is the number of columns that vary, (Σ v)²/Σ v²
   of the variances v of small clusters along their principal axes.
2. *Pooled.* DP-means of all rows together.
3. *Alone.* DP-means of each group alone. Clusters of different groups are then joined, the nearest
   first, while that shortens the description.

The division wins under which rows that did not set its centres are most likely: half of the rows of
each group, under a mixture of round Gaussians, averaged over several halvings. If "alone" beats
"pooled", all rows together in as many clusters as half of the groups show compete, too: groups can
show a division that the test of all rows missed. "Shared" must also beat what the same penalties
give for groups at random, because it is the best of many candidates.

With hints, the candidate nearest to the hints is taken, and its penalties rise or fall until the
numbers are met, or nearly. With one group the number is that of DP-means. Candidates of many rows
come from a sample of the groups, or of the rows where there are few groups. The random numbers are
the same in every fit, so that the number of clusters depends on the rows only.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln, logsumexp, xlogy

from madbayes._model.fitting import Options
from madbayes._partition.lloyd import nearest
from madbayes._partition.moves import means
from madbayes._rows.frame import power_of_two
from madbayes._rows.progress import Stage
from madbayes._rows.row_kernels import squared_error
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import descend
from madbayes._search.number import search_number
from madbayes._search.price import SharedPrice, fixed
from madbayes._search.renewal import renew
from madbayes.groups.grouped_rows import Grouped
from madbayes.groups.space import GroupedSpace
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.dense_space import DenseSpace

GLOBAL_STEP = 1.6  # factor from one λ_g to the next
MOST_CLUSTERS = 48  # clusters at the smallest λ_g, about
MIN_ROWS = 4  # rows that a cluster has on average, at least
SURPLUS = (5.0, 0.04)  # nats, and nats per held-out row, by which a division must be more likely
LOCAL_SHARE = 0.1  # of the penalty of DP-means: the part that goes to λ_l if all groups are alike
LEAST_SUPPORT = 0.01  # of groups that differ but are not divided themselves: weak evidence

Pair = tuple[float | None, float | None]  # for λ_l and λ_g; None: to be found


class Candidate(NamedTuple):
    """A division of the groups at the penalties `local` and `glob`."""

    local: float
    glob: float
    n_local: float  # clusters that a group uses, on average
    n_global: int
    words: float  # L, in nats
    error: float  # with λ_l, without λ_g
    centers: np.ndarray


class Plan(NamedTuple):
    """Penalties; where they were found, the number of clusters against λ_g (`path`); and the labels
    of the rows if the division "pooled" or "alone" won."""

    local: float
    glob: float
    path: Staircase | None = None
    labels: np.ndarray | None = None


# Descriptions


def description_length(space: GroupedSpace, labels: np.ndarray, d: float) -> float:
    """L of a division."""
    X, w, g = space.X, space.w, int(labels.max()) + 1
    n, n_groups = float(w.sum()), len(space.start) - 1
    group = np.repeat(np.arange(n_groups), np.diff(space.start))
    n_jp = np.bincount(group * g + labels, w, minlength=n_groups * g).reshape(-1, g)
    n_j, k_j = n_jp.sum(axis=1), (n_jp > 0).sum(axis=1)
    error = squared_error(X, w, labels, means(X, w, labels, g, False)[0])
    floor = 1e-9 * total_error(space)  # rows that coincide do not have an infinitely short code
    error = max(error, floor, np.finfo(float).tiny)
    unequal = -xlogy(n_jp, n_jp / n_j[:, None]).sum(axis=1) + (k_j - 1) * np.log(n_j) / 2
    return float(
        n * d / 2 * np.log(error / (max(n - g, 1.0) * d))
        + np.minimum(unequal, n_j * np.log(k_j)).sum()
        + (gammaln(g + 1) - gammaln(k_j + 1) - gammaln(g - k_j + 1)).sum()
        + g * d / 2 * np.log(n / g)
    )


def total_error(space: GroupedSpace) -> float:
    """The error of one cluster; rows are shifted to their mean."""
    return float(space.w @ np.square(space.X, dtype=np.float64).sum(axis=1))


def varying_columns(space: GroupedSpace, rng: np.random.RandomState) -> float:
    """d: how many columns vary within small clusters, as their principal variances say."""
    X, w = space.X, space.w
    seeds = space.draw(max(1, min(MOST_CLUSTERS, len(X) // 8)), rng)
    z, k = space.nearest(seeds)
    R = (X - means(X, w, z, k, False)[0][z]) * np.sqrt(w)[:, None]
    R *= power_of_two(float(np.abs(R).max()))  # fourth powers follow
    S = R.T @ R if R.shape[1] <= R.shape[0] else R @ R.T  # the same eigenvalues except zeros
    norm = float((S**2).sum())
    return float(np.trace(S)) ** 2 / norm if norm > 0 else 1.0


def held_out_length(space: GroupedSpace, labels: np.ndarray, fitted: np.ndarray, d: float) -> float:
    """Minus the log-likelihood of the rows that are not `fitted`, up to a constant.

    The fitted rows make a mixture of round Gaussians for each group: all groups share the centres
    and the variance, and each has the shares of its own rows, with one row more that is spread like
    the rows of all groups.
    """
    k = int(labels.max()) + 1
    fit, rest = (space.part(np.flatnonzero(side), space.n) for side in (fitted, ~fitted))
    C, W, _ = means(fit.X, fit.w, labels[fitted], k, False)
    error = squared_error(fit.X, fit.w, labels[fitted], C)
    error = max(error, 1e-9 * total_error(space), np.finfo(float).tiny)
    variance = error / (max(float(W.sum()) - k, 1.0) * d)
    shares = np.zeros((int(space.group[-1]) + 1, k))
    np.add.at(shares, (fit.group, labels[fitted]), fit.w)
    shares += W / W.sum()
    shares /= shares.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    found = logsumexp(logs[rest.group] - cdist(rest.X, C, "sqeuclidean") / (2 * variance), axis=1)
    return float(rest.w @ (d / 2 * np.log(variance) - found))


def halve(space: GroupedSpace, rng: np.random.RandomState) -> np.ndarray:
    """A mask of half of the rows of each group."""
    fitted = np.zeros(space.n, bool)
    for a, b in pairwise(space.start):
        fitted[a + rng.permutation(b - a)[: (b - a) // 2]] = True
    return fitted


def shuffle(space: GroupedSpace, rng: np.random.RandomState) -> GroupedSpace:
    """The same rows, in groups at random."""
    order = rng.permutation(space.n)
    return replace(space, X=space.X[order], w=space.w[order])


# Shared


def describe(space: GroupedSpace, now: Division, d: float) -> Candidate:
    """A division as a candidate."""
    local, glob = space.penalties
    n_local = without_gaps(space.group * now.k + now.labels)[1] / (len(space.start) - 1)
    words = description_length(space, now.labels, d)
    error = now.objective - glob * now.k  # λ_l is part of the error of a number of clusters
    return Candidate(local, glob, n_local, now.k, words, error, now.centers)


def candidates(
    space: GroupedSpace, given: Pair, d: float, rng: np.random.RandomState
) -> list[Candidate]:
    """For each λ_l the staircase over λ_g; penalties that are given stay as they are."""
    X, w, n_groups = space.X, space.w, len(space.start) - 1
    total = total_error(space)
    if not total > 0:
        return [Candidate(given[0] or 1.0, given[1] or 1.0, 1.0, 1, 0.0, 0.0, X[:1])]
    between = sum(np.square(w[a:b] @ X[a:b]).sum() / w[a:b].sum() for a, b in pairwise(space.start))
    each = max(total - float(between), 1e-9 * total) / n_groups  # variation within one group
    lowest = each * n_groups / (8 * w.sum())  # an eighth of the variation of one row
    levels = np.geomspace(each / 2, min(lowest, each / 4), 6).tolist()
    smallest = 2 / d * total / min(MOST_CLUSTERS, len(X)) ** (1 + 2 / d)
    if given[0] is not None:
        levels = [given[0]]
    found = []
    stage = Stage("at which penalties", len(levels))
    for local in levels:
        stage.step()
        here = space.at(local, given[1] or float(smallest))
        now = here.move(here.settle(here.merged_seeds(rng)))
        found.append(describe(here, now, d))
        while given[1] is None and now.k > 1:
            here = here.at(local, GLOBAL_STEP * here.price.penalty)
            now = here.move(now)
            found.append(describe(here, now, d))
    return found


def searched(
    space: GroupedSpace, start: Candidate, d: float, rng: np.random.RandomState
) -> Candidate:
    """The division that a search from a candidate finds at the penalties of `space`."""
    now = renew(space, descend(space, space.settle(start.centers), rng, []), rng, [])
    return describe(space, now, d)


def miss(one: Candidate, wanted: Pair) -> float:
    """How far the numbers of clusters are from the wanted ones."""
    have = (one.n_local, one.n_global)
    return sum(abs(np.log(h / w)) for h, w in zip(have, wanted, strict=True) if w is not None)


def towards(
    space: GroupedSpace, best: Candidate, wanted: Pair, d: float, rng: np.random.RandomState
) -> Candidate:
    """Raise penalties where the search finds more clusters than wanted, and lower them where fewer.

    The gain of one more of k clusters falls like k to the power 1 + 2/d, which sets the steps.
    """
    local, glob = best.local, best.glob
    found = []
    for _ in range(6):
        best = searched(space.at(local, glob), best, d, rng)
        found.append(best)
        too_many = [
            1.0 if want is None else have / want
            for have, want in zip((best.n_local, best.n_global), wanted, strict=True)
        ]
        if all(abs(ratio - 1) < 0.05 for ratio in too_many):
            break
        steps = np.clip(np.power(too_many, 1 + 2 / d), 1 / 4, 4)
        local, glob = local * float(steps[0]), glob * float(steps[1])
    return min(found, key=lambda one: miss(one, wanted))


# Pooled and alone


def paths_of(space: GroupedSpace, cuts: Any) -> tuple[Staircase, ...]:
    """How many clusters DP-means finds in each part of the rows."""
    return tuple(find_path(space.X[a:b], space.w[a:b], None, None) for a, b in pairwise(cuts))


def labels_of(X: np.ndarray, parts: tuple[Staircase, ...], cuts: Any) -> np.ndarray:
    """The divisions of the parts as one division."""
    z, k = np.empty(len(X), np.int64), 0
    for path, (a, b) in zip(parts, pairwise(cuts), strict=True):
        centers = path.centers_at(path.best().price)
        z[a:b] = k + nearest(X[a:b], centers)
        k += len(centers)
    return without_gaps(z)[0]


def join_across_groups(space: GroupedSpace, labels: np.ndarray, d: float) -> np.ndarray:
    """Join clusters of different groups, the cheapest pair first, while L falls."""
    z, words = labels, description_length(space, labels, d)
    while (k := int(z.max()) + 1) > 1:
        C, W, _ = means(space.X, space.w, z, k, False)
        uses = np.zeros((int(space.group[-1]) + 1, k))
        uses[space.group, z] = 1.0
        cost = cdist(C, C, "sqeuclidean") * (W * W[:, None] / (W + W[:, None]))
        cost[(uses.T @ uses) > 0] = np.inf  # a group keeps the clusters that it was divided into
        a, b = np.unravel_index(np.argmin(cost), cost.shape)
        joined = without_gaps(np.where(z == b, a, z))[0]
        shorter = description_length(space, joined, d) if np.isfinite(cost[a, b]) else np.inf
        if not shorter < words:
            break
        z, words = joined, shorter
    return z


def at_number(path: Staircase, number: int, reason: str) -> Staircase:
    """The path with another choice: the step nearest to `number`, with weak evidence."""
    nearest_number = int(path.number[np.argmin(np.abs(path.number - number))])
    return path.decide(nearest_number, reason, scores=path.scores, support=LEAST_SUPPORT)


def compete(
    space: GroupedSpace, shared: Candidate, d: float, rng: np.random.RandomState
) -> tuple[tuple[Staircase, ...], int]:
    """Which division wins: the paths of its parts (none: "shared"; one: "pooled"; otherwise
    "alone"), and the most clusters that groups may share."""
    everything = [0, space.n]
    pooled = paths_of(space, everything)
    if (np.diff(space.start) < 2).all():
        return pooled, 1
    halves = [halve(space, rng) for _ in range(4)]
    surplus = SURPLUS[0] + SURPLUS[1] * float(space.w.sum()) / 2

    def length(space: GroupedSpace, labels: np.ndarray) -> float:
        return float(np.mean([held_out_length(space, labels, half, d) for half in halves]))

    winner, most = pooled, space.n
    shortest = length(space, labels_of(space.X, pooled, everything))
    if len(space.start) - 1 <= 64:  # more groups are not clustered one by one: too slow
        alone = paths_of(space, space.start)
        numbers = sorted(path.best().number for path in alone)
        most = max(pooled[0].best().number, sum(numbers))
        joined = join_across_groups(space, labels_of(space.X, alone, space.start), d)
        words = length(space, joined)
        if words < shortest - surplus:
            winner, shortest = alone, words
            usual = numbers[len(numbers) // 2]
            reason = f"half of the groups alone have {usual} clusters or more"
            finer = (at_number(pooled[0], usual, reason),)
            words = length(space, labels_of(space.X, finer, everything))
            if words < shortest:
                winner, shortest = finer, words
    here = space.at(shared.local, shared.glob)
    words = length(space, here.settle(shared.centers).labels)
    if 1 < shared.n_global <= most and words < shortest:
        at_random = [shuffle(here, rng) for _ in range(8)]
        null = [length(one, one.move(one.settle(shared.centers)).labels) for one in at_random]
        if words < np.mean(null) - 2 * np.std(null) - surplus:
            return (), most
    return winner, most


def split_penalty(total: float, rows: Grouped, n_parts: int, given: Pair) -> tuple[float, float]:
    """λ_l and λ_g at which a cluster costs `total`.

    If the groups are alike, all of them use each cluster, and most of the cost is λ_g. If each
    group was clustered alone, most of the cost is λ_l.
    """
    uses = len(rows.start) - 1 if n_parts == 1 else 1
    share = LOCAL_SHARE if n_parts == 1 else 1 - LOCAL_SHARE
    if given[1] is not None:
        return given[0] or max(total - given[1], 1e-3 * total) / uses, given[1]
    local = given[0] or share * total / uses
    return local, max(total - uses * local, 1e-3 * total)


def space_of(rows: Grouped, local: float, glob: float) -> GroupedSpace:
    """The rows with the prices λ_l and λ_g."""
    return GroupedSpace(rows.X, rows.w, rows.group, SharedPrice(glob, len(rows.X), local=local))


def plan_parts(
    rows: Grouped, parts: tuple[Staircase, ...], given: Pair, options: Options, d: float = 1.0
) -> Plan:
    """The plan of "pooled" or "alone": a search of each part for the number of its path."""
    cuts = rows.start if len(parts) > 1 else [0, len(rows.X)]
    labels, prices, k = np.empty(len(rows.X), np.int64), [], 0
    for path, (a, b) in zip(parts, pairwise(cuts), strict=True):
        choice = path.best()
        now, _, price = search_number(
            DenseSpace(rows.X[a:b], rows.w[a:b], fixed(choice.number, b - a)),
            choice.number,
            choice.price,
            max_clusters=None,
            centers=[path.centers_at(choice.price)],
            **options.for_search(),
        )
        labels[a:b] = k + now.labels
        prices.append(price)
        k += now.k
    local, glob = split_penalty(float(np.exp(np.mean(np.log(prices)))), rows, len(parts), given)
    choice = parts[0].best()
    if len(rows.start) == 2:
        return Plan(local, glob, moved(parts[0], rows.offset), labels)
    if len(parts) == 1:
        reason = f"the groups are alike, and of all rows together: {choice.reason}"
        path = replace(parts[0], choice=replace(choice, reason=reason))
        return Plan(local, glob, moved(path, rows.offset), labels)
    space = space_of(rows, local, glob)
    now = space.division(join_across_groups(space, labels, d))
    reason = "each group has clusters of its own"
    if now.k < k:
        reason = f"each group was clustered alone, and {k} clusters were joined to {now.k}"
    path = Staircase.build(
        [1, now.k],
        [total_error(space) + local * (len(rows.start) - 1), now.objective - glob * now.k],
        centers=[np.zeros((1, rows.X.shape[1])), now.centers],
    )
    divided = [path.best().support for path in parts if path.best().number > 1]
    support = min(divided, default=LEAST_SUPPORT)
    path = path.decide(now.k, reason, scores={}, support=support, price=glob)
    return Plan(local, glob, moved(path, rows.offset), now.labels)


# The plan


def find_plan(rows: Grouped, given: Pair, hints: Pair, options: Options) -> Plan:
    """λ_l, λ_g and how the clusters are found, where not both penalties are given."""
    if len(rows.start) == 2:  # one group
        hint = hints[1] or hints[0]
        path = find_path(rows.X, rows.w, None, None if hint is None else round(hint))
        return plan_parts(rows, (path,), given, options)
    rng = np.random.RandomState(0)
    row = float(rows.w.mean())  # in the spaces below a row has weight 1 on average
    whole = GroupedSpace(rows.X, rows.w / row, rows.group, SharedPrice(1.0, len(rows.X), local=1.0))
    space = whole.sample(4000, rng) if whole.n > 4000 else whole  # so that candidates take seconds
    share = space.price.penalty / row  # λ_g of the sample for λ_g = 1 of all rows
    at = (
        None if given[0] is None else given[0] / row,
        None if given[1] is None else given[1] * share,
    )
    d = varying_columns(space, rng)
    found = candidates(space, at, d, rng)
    large = [one for one in found if MIN_ROWS * one.n_global <= space.n or one.n_global == 1]
    best = min(large or found, key=lambda one: (miss(one, hints), one.words))
    reason = "the groups share clusters: the shortest description of the groups"
    if hints != (None, None):
        best, reason = towards(space, best, hints, d, rng), "the nearest to the hints"
    elif given[1] is None:
        scaled = best._replace(glob=best.glob / space.price.penalty)
        parts, most = compete(whole, scaled, d, rng)
        if parts:
            return plan_parts(rows, parts, given, options, d)
        nearby = (best.glob * factor for factor in (1, 1 / GLOBAL_STEP, GLOBAL_STEP))
        trials = [searched(space.at(best.local, glob), best, d, rng) for glob in nearby]
        best = min([best, *trials], key=lambda one: (one.n_global > most, one.words))
    path = staircase(found, best, share, reason)
    local, glob = given[0] or best.local * row, given[1] or best.glob / share
    return Plan(local, glob, moved(path, rows.offset))


def moved(path: Staircase, offset: np.ndarray) -> Staircase:
    """With centres where the rows were before they were shifted to their mean."""
    assert path.centers is not None
    return replace(path.without_rows(), centers=tuple(C + offset for C in path.centers))


def staircase(found: list[Candidate], best: Candidate, share: float, reason: str) -> Staircase:
    """The candidates at about the chosen λ_l, back in the units of the data."""
    level = min({one.local for one in found}, key=lambda x: abs(np.log(x / best.local)))
    steps = [one for one in found if one.local == level and one.n_global != best.n_global]
    steps.append(best)
    path = Staircase.build(
        [one.n_global for one in steps],
        np.array([one.error for one in steps]) / share,
        centers=[one.centers for one in steps],
    )
    others = sorted((one for one in steps if one is not best), key=lambda one: one.words)
    # A lead of ten nats is as good as certain.
    margin = min((others[0].words - best.words) / 10, 1.0) if others else 1.0
    scores = {one.n_global: -one.words for one in sorted(steps, key=lambda one: -one.words)}
    return path.decide(
        best.n_global, reason, scores=scores, support=margin, price=best.glob / share
    )
