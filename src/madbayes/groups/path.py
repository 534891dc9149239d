"""Penalties of the hard HDP that the data decide.

1. *Candidates.* For several λ_l, from far below the variation of a group's rows to all of it: the
   clusters that pay at a small λ_g; then λ_g rises step by step, and each descent starts from the
   one before.
2. *Description length.* A candidate describes the data by the clusters that each group uses, the
   cluster of each row, the centres, and the rest as round Gaussian noise. The length is

     L = nd/2·log(SSE/(n-g)d) + Σ_j log C(g, k_j) + Σ_j l_j + gd/2·log(n/g)

   with l_j, the labels within a group, the shorter of n_j log k_j (clusters about equal) and
   Σ_p n_jp log(n_j/n_jp) + (k_j-1)/2·log n_j. This is the integrated complete likelihood of
   Biernacki, Celeux & Govaert 2000, for groups. d is the number of columns that vary, (Σ v)²/Σ v²
   of the variances v of small clusters along their principal axes. The candidate with the least L
   is the best one.
3. *Are clusters shared?* Three divisions describe a half of the rows that did not set their
   centres: the best candidate, DP-means of all rows together, and DP-means of each group alone
   (`penalties.path`). The shortest description wins. Round Gaussians cut long clusters into pieces,
   so a candidate must also describe the true groups better than shuffled ones, and have no more
   clusters than all rows together or than the groups alone, added up.
4. With hints: the candidate nearest to them, then larger or smaller penalties until the numbers are
   met, or nearly.

With one group the number is that of DP-means. With many rows the candidates come from a sample of
the groups, or of the rows where there are few groups.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln, xlogy

from madbayes._partition.lloyd import nearest
from madbayes._partition.moves import means
from madbayes._rows.frame import power_of_two
from madbayes._rows.progress import Stage
from madbayes._rows.row_kernels import squared_error
from madbayes._search.division import Division, without_gaps
from madbayes._search.driver import descend
from madbayes._search.price import SharedPrice
from madbayes._search.renewal import renew
from madbayes.groups.grouped_rows import Grouped
from madbayes.groups.space import GroupedSpace
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase

SAMPLE_ROWS = 4000  # rows that candidates are made from
GLOBAL_STEP = 1.6  # factor from one λ_g to the next
LOCAL_LEVELS = 6  # values of λ_l
MOST_CLUSTERS = 48  # clusters at the smallest λ_g, about
MIN_ROWS = 4  # rows that a cluster has on average, at least
SURPLUS = (5.0, 0.04)  # nats, and nats per row, by which a description must be shorter
LOCAL_SHARE = 0.1  # of the penalty of DP-means: the part that goes to λ_l if all groups are alike
LEAST_SUPPORT = 0.01  # of groups that differ but are not divided themselves: weak evidence
MANY_GROUPS = 64  # more groups are not clustered one by one

Pair = tuple[float | None, float | None]  # for λ_l and λ_g


class Candidate(NamedTuple):
    local: float
    glob: float
    n_local: float  # clusters that a group uses, on average
    n_global: int
    words: float  # L, in nats
    error: float  # with λ_l, without λ_g
    centers: np.ndarray


class Plan(NamedTuple):
    """Penalties, the number of clusters against λ_g, and how the clusters are found.

    `parts` is empty if the groups share some clusters. It holds the path of DP-means of all rows if
    the groups are alike, and one path for each group if each has clusters of its own.
    """

    local: float
    glob: float
    path: Staircase | None = None
    parts: tuple[Staircase, ...] = ()


def description_length(space: GroupedSpace, labels: np.ndarray, d: float) -> float:
    """2. L of a division."""
    X, w, g = space.X, space.w, int(labels.max()) + 1
    n, n_groups = float(w.sum()), len(space.start) - 1
    group = np.repeat(np.arange(n_groups), np.diff(space.start))
    n_jp = np.bincount(group * g + labels, w, minlength=n_groups * g).reshape(-1, g)
    n_j, k_j = n_jp.sum(axis=1), (n_jp > 0).sum(axis=1)
    error = squared_error(X, w, labels, means(X, w, labels, g, False)[0])
    floor = 1e-9 * total_error(space)  # rows that coincide are not described for nothing
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
    """2. How many columns vary within small clusters, as their principal variances say."""
    X, w = space.X, space.w
    seeds = space.draw(max(1, min(MOST_CLUSTERS, len(X) // 8)), rng)
    z, k = space.nearest(seeds)
    R = (X - means(X, w, z, k, False)[0][z]) * np.sqrt(w)[:, None]
    R *= power_of_two(float(np.abs(R).max()))  # fourth powers follow
    S = R.T @ R if R.shape[1] <= R.shape[0] else R @ R.T  # the same eigenvalues except zeros
    norm = float((S**2).sum())
    return float(np.trace(S)) ** 2 / norm if norm > 0 else 1.0


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
    """1. For each λ_l the staircase over λ_g; penalties that are given stay as they are."""
    X, w, n_groups = space.X, space.w, len(space.start) - 1
    total = total_error(space)
    if not total > 0:
        return [Candidate(given[0] or 1.0, given[1] or 1.0, 1.0, 1, 0.0, 0.0, X[:1])]
    between = sum(np.square(w[a:b] @ X[a:b]).sum() / w[a:b].sum() for a, b in pairwise(space.start))
    each = max(total - float(between), 1e-9 * total) / n_groups  # variation within one group
    lowest = each * n_groups / (8 * w.sum())  # an eighth of the variation of one row
    levels = np.geomspace(each / 2, min(lowest, each / 4), LOCAL_LEVELS).tolist()
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


def held_out_length(
    space: GroupedSpace, labels: np.ndarray, fitted: np.ndarray, d: float, order: np.ndarray
) -> float:
    """3. L of the rows that are not `fitted`, each in the nearest cluster that its group uses.

    Centres, and the clusters that a group uses, are those of the fitted rows. `order` is a
    permutation of the other rows: it puts them into other groups.
    """
    k = int(labels.max()) + 1
    fit, rest = (space.part(np.flatnonzero(side), space.n) for side in (fitted, ~fitted))
    C, W, _ = means(fit.X, fit.w, labels[fitted], k, False)
    uses = np.zeros((int(space.group[-1]) + 1, k), bool)
    uses[fit.group, labels[fitted]] = True
    uses[~uses.any(axis=1)] = W > 0  # a group without fitted rows may use any cluster
    rest = replace(rest, X=rest.X[order], w=rest.w[order])
    z = np.empty(rest.n, np.int64)
    for a, b in pairwise(rest.start):
        mine = np.flatnonzero(uses[rest.group[a]])
        z[a:b] = mine[cdist(rest.X[a:b], C[mine], "sqeuclidean").argmin(axis=1)]
    return description_length(rest, without_gaps(z)[0], d)


def parts_or_shared(
    rows: Grouped, space: GroupedSpace, best: Candidate, d: float, rng: np.random.RandomState
) -> tuple[tuple[Staircase, ...], int]:
    """3. The paths of the parts that are clustered apart (`Plan`), and the most clusters that
    groups may share."""
    fitted = np.zeros(space.n, bool)
    for a, b in pairwise(space.start):  # half of each group
        fitted[a + rng.permutation(b - a)[: (b - a) // 2]] = True
    pooled = find_path(rows.X, rows.w, None, None)
    if not fitted.any():
        return (pooled,), 1
    kept = np.arange(np.count_nonzero(~fitted))

    def length(labels: np.ndarray, order: np.ndarray = kept) -> float:
        return held_out_length(space, labels, fitted, d, order)

    surplus = SURPLUS[0] + SURPLUS[1] * float(space.w[~fitted].sum())
    parts: tuple[Staircase, ...] = (pooled,)
    most = space.n
    shortest = length(labels_of(rows, parts))
    if len(space.start) - 1 <= MANY_GROUPS:
        cuts = pairwise(space.start)
        alone = tuple(find_path(rows.X[a:b], rows.w[a:b], None, None) for a, b in cuts)
        most = max(pooled.best().number, sum(path.best().number for path in alone))
        words = length(labels_of(rows, alone))
        if words < shortest - surplus:
            parts, shortest = alone, words
    shared = space.at(best.local, best.glob).settle(best.centers).labels
    words = length(shared)
    shuffled = min(length(shared, rng.permutation(kept)) for _ in range(4))
    if best.n_global <= most and words < min(shortest, shuffled - surplus):
        return (), most
    return parts, most


def labels_of(rows: Grouped, parts: tuple[Staircase, ...]) -> np.ndarray:
    """The divisions of the parts (all rows, or each group) as one division."""
    cuts = rows.start if len(parts) > 1 else [0, len(rows.X)]
    z, k = np.empty(len(rows.X), np.int64), 0
    for path, (a, b) in zip(parts, pairwise(cuts), strict=True):
        centers = path.centers_at(path.best().price)
        z[a:b] = k + nearest(rows.X[a:b], centers)
        k += len(centers)
    return without_gaps(z)[0]


def split_penalty(total: float, rows: Grouped, n_parts: int, given: Pair) -> tuple[float, float]:
    """λ_l and λ_g at which a cluster costs `total`.

    If the groups are alike, all of them use each cluster, and most of the cost is λ_g. If each
    group has clusters of its own, most of the cost is λ_l.
    """
    uses = len(rows.start) - 1 if n_parts == 1 else 1
    share = LOCAL_SHARE if n_parts == 1 else 1 - LOCAL_SHARE
    if given[1] is not None:
        return given[0] or max(total - given[1], 1e-3 * total) / uses, given[1]
    local = given[0] or share * total / uses
    return local, max(total - uses * local, 1e-3 * total)


def plan_parts(rows: Grouped, parts: tuple[Staircase, ...], given: Pair) -> Plan:
    """The plan to cluster all rows together, or each group alone."""
    choices = [path.best() for path in parts]
    total = float(np.exp(np.mean([np.log(choice.price) for choice in choices])))
    local, glob = split_penalty(total, rows, len(parts), given)
    if len(rows.start) == 2:
        return Plan(local, glob, moved(parts[0], rows.offset), parts)
    if len(parts) == 1:
        reason = f"the groups are alike, and of all rows together: {choices[0].reason}"
        path = replace(parts[0], choice=replace(choices[0], reason=reason))
        return Plan(local, glob, moved(path, rows.offset), parts)
    divided = [choice for choice in choices if choice.number > 1]
    labels = labels_of(rows, parts)
    now = GroupedSpace(
        rows.X, rows.w, rows.group, SharedPrice(glob, len(labels), local=local)
    ).division(labels)
    everything = float(rows.w @ np.square(rows.X, dtype=np.float64).sum(axis=1))
    path = Staircase.build(
        [1, now.k],
        [everything + local * (len(rows.start) - 1), now.objective - glob * now.k],
        centers=[np.zeros((1, rows.X.shape[1])), now.centers],
    )
    path = path.decide(
        now.k,
        "each group has clusters of its own",
        scores={},
        support=min((choice.support for choice in divided), default=LEAST_SUPPORT),
        price=glob,
    )
    return Plan(local, glob, moved(path, rows.offset), parts)


def miss(one: Candidate, wanted: Pair) -> float:
    """How far the numbers of clusters are from the wanted ones."""
    have = (one.n_local, one.n_global)
    return sum(abs(np.log(h / w)) for h, w in zip(have, wanted, strict=True) if w is not None)


def towards(
    space: GroupedSpace, best: Candidate, wanted: Pair, d: float, rng: np.random.RandomState
) -> Candidate:
    """4. Penalties rise where the search finds too many clusters, and fall where too few."""
    local, glob = best.local, best.glob
    power = 1 + 2 / d  # the gain of one more of k clusters falls like k to this power
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
        local *= float(np.clip(too_many[0] ** power, 1 / 4, 4))
        glob *= float(np.clip(too_many[1] ** power, 1 / 4, 4))
    return min(found, key=lambda one: miss(one, wanted))


def find_plan(rows: Grouped, given: Pair, hints: Pair, rng: np.random.RandomState) -> Plan:
    """λ_l, λ_g and how the clusters are found, where not both penalties are given."""
    if len(rows.start) == 2:  # one group
        hint = hints[1] or hints[0]
        return plan_parts(
            rows, (find_path(rows.X, rows.w, None, None if hint is None else round(hint)),), given
        )
    row = float(rows.w.mean())  # in the spaces below a row has weight 1 on average
    whole = GroupedSpace(rows.X, rows.w / row, rows.group, SharedPrice(1.0, len(rows.X), local=1.0))
    space = whole.sample(SAMPLE_ROWS, rng) if whole.n > SAMPLE_ROWS else whole
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
    elif given[1] is None and best.n_global > 1:
        scaled = best._replace(glob=best.glob / space.price.penalty)
        parts, most = parts_or_shared(rows, whole, scaled, d, rng)
        if parts:
            return plan_parts(rows, parts, given)
        nearby = (best.glob * factor for factor in (1, 1 / GLOBAL_STEP, GLOBAL_STEP))
        trials = [searched(space.at(best.local, glob), best, d, rng) for glob in nearby]
        trials = [one for one in trials if one.n_global <= most]
        best = min([*trials, best], key=lambda one: one.words)
    if best.n_global == 1 and hints[1] is None and given[1] is None:
        best = best._replace(glob=max(best.glob, total_error(space)))  # no division saves as much
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
    if best.n_global == 1:
        margin, reason = 0.0, "no division stands out from noise"
    scores = {one.n_global: -one.words for one in sorted(steps, key=lambda one: -one.words)}
    return path.decide(
        best.n_global, reason, scores=scores, support=margin, price=best.glob / share
    )
