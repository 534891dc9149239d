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
3. The candidate with the least L, if it describes the groups better than the same rows in shuffled
   groups; the search itself then settles λ_g among its neighbours, again by the least L. If it does
   not, all groups are alike and DP-means of all rows tells how many clusters there are
   (`penalties.path`; 1 in noise, which round Gaussians would cut up when it is long).
4. With hints: the candidate nearest to them, then the search with larger or smaller penalties until
   the numbers are met, or nearly.

One group: λ_l + λ_g is the penalty of DP-means, half each. Many rows: a sample of the groups, or of
the rows where groups are few.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from madbayes._engine.progress import Stage
from madbayes._engine.threads import Run
from madbayes._kernels import hdp
from madbayes._kernels.moves import draw_seeds, means
from madbayes._kernels.rows import squared_error
from madbayes.cluster.path import find_path
from madbayes.multi.farthest import group_gap, local_gap
from madbayes.multi.hard_hdp_search import Division, Problem, descend, over_segment, renew

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
ROWS = 4  # that a cluster has on average, at least


class Candidate(NamedTuple):
    local: float
    glob: float
    n_local: float  # clusters that a group uses, on average
    n_global: int
    words: float
    labels: np.ndarray


def description_length(problem: Problem, labels: np.ndarray, d: float) -> float:
    """2. L of a division."""
    X, w, g = problem.X, problem.w, int(labels.max()) + 1
    start, n = problem.start, float(problem.w.sum())
    group = np.repeat(np.arange(len(start) - 1), np.diff(start))
    n_jp = np.bincount(group * g + labels, w, minlength=(len(start) - 1) * g).reshape(-1, g)
    n_j, k_j = n_jp.sum(axis=1), (n_jp > 0).sum(axis=1)
    error = squared_error(X, w, labels, means(X, w, labels, g, False)[0])
    error = max(error, FLOOR * float(w @ (X**2).sum(axis=1)), np.finfo(float).tiny)
    unequal = -xlogy(n_jp, n_jp / n_j[:, None]).sum(axis=1) + (k_j - 1) * np.log(n_j) / 2
    return float(
        n * d / 2 * np.log(error / (max(n - g, 1.0) * d))
        + np.minimum(unequal, n_j * np.log(k_j)).sum()
        + (gammaln(g + 1) - gammaln(k_j + 1) - gammaln(g - k_j + 1)).sum()
        + g * d / 2 * np.log(n / g)
    )


def varying_columns(problem: Problem) -> float:
    """2. How many columns vary within small clusters, as their principal variances say."""
    X, w = problem.X, problem.w
    seeds = np.empty((max(1, min(MOST, len(X) // 8)), X.shape[1]))
    seeds = seeds[: draw_seeds(X, w, seeds, 0, problem.rng.random_sample(len(seeds)))]
    z, k = hdp.nearest_centers(X, seeds)
    R = (X - means(X, w, z, k, False)[0][z]) * np.sqrt(w)[:, None]
    S = R.T @ R if R.shape[1] <= R.shape[0] else R @ R.T  # the same eigenvalues but zeros
    norm = float((S**2).sum())
    return float(np.trace(S)) ** 2 / norm if norm > 0 else 1.0


def solve(problem: Problem, local: float, glob: float, run: Run) -> Division:
    """A quick division: the start of the search, and its descent without splits."""
    here = replace(problem, local=local, glob=glob)
    return here.relaxed(over_segment(here, run))


def describe(problem: Problem, local: float, glob: float, now: Division, d: float) -> Candidate:
    """A division as a candidate."""
    n_local = hdp.count_local(problem.start, now.labels, now.k)
    words = description_length(problem, now.labels, d)
    return Candidate(local, glob, float(n_local.mean()), now.k, words, now.labels)


def candidates(
    problem: Problem, given: tuple[float | None, float | None], d: float, run: Run
) -> list[Candidate]:
    """1. For each λ_l the staircase over λ_g; penalties that are given stay as they are."""
    X, w, start = problem.X, problem.w, problem.start
    total = float(w @ (X**2).sum(axis=1))  # rows are shifted to their mean
    within = total - float(
        sum(np.square(w[a:b] @ X[a:b]).sum() / w[a:b].sum() for a, b in pairwise(start))
    )
    if not total > 0:
        return [Candidate(given[0] or 1.0, given[1] or 1.0, 1.0, 1, 0.0, np.zeros(len(X), int))]
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
        glob = given[1] or float(2 / d * total / min(MOST, len(X)) ** (1 + 2 / d))
        now = solve(problem, local, glob, run)
        found.append(describe(problem, local, glob, now, d))
        while given[1] is None and now.k > 1:
            glob *= STEP
            z = now.labels.copy()
            hdp.descend(X, w, start, z, now.k, local, glob)
            now = replace(problem, local=local, glob=glob).division(z)
            found.append(describe(problem, local, glob, now, d))
    return found


def groups_matter(problem: Problem, best: Candidate, d: float) -> bool:
    """3. Whether the groups are better described than shuffled ones, by the same penalties."""
    centers = problem.division(best.labels).centers
    words = []
    for _ in range(SHUFFLES):
        mixed = problem.rng.permutation(len(problem.X))
        shuffled = replace(
            problem, X=problem.X[mixed], w=problem.w[mixed], local=best.local, glob=best.glob
        )
        words.append(description_length(shuffled, shuffled.relaxed(centers).labels, d))
    return best.words < min(words) - MARGIN[0] - MARGIN[1] * problem.w.sum()


def searched(
    problem: Problem, start: Candidate, local: float, glob: float, d: float, run: Run
) -> Candidate:
    """What the search makes of a candidate at these penalties."""
    here = replace(problem, local=local, glob=glob)
    now = renew(here, descend(here, here.relaxed(here.division(start.labels).centers)), 1, run)
    return describe(problem, local, glob, now, d)


def miss(one: Candidate, wanted: tuple[float | None, float | None]) -> float:
    """How far the numbers of clusters are from the wanted ones."""
    have = (one.n_local, one.n_global)
    return sum(abs(np.log(h / w)) for h, w in zip(have, wanted, strict=True) if w is not None)


def towards(
    problem: Problem, best: Candidate, wanted: tuple[float | None, float | None], d: float, run: Run
) -> Candidate:
    """4. Penalties raised where the search finds too many clusters, lowered where too few."""
    local, glob = best.local, best.glob
    power = 1 + 2 / d  # what one more of k clusters saves falls like k to this power
    found = []
    for _ in range(ROUNDS):
        best = searched(problem, best, local, glob, d, run)
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


def choose_penalties(
    model: Any, rows: Any, random_state: np.random.RandomState, run: Run
) -> tuple[float, float]:
    """(λ_l, λ_g) as the parameters of `model` ask for them."""
    local, glob = model.penalty_local, model.penalty_global
    if local == "farthest-first":
        local = local_gap(rows.X, None, rows.group, model.n_local_hint, run)
    if glob == "farthest-first":
        glob = group_gap(rows.X, rows.w, rows.group, model.n_global_hint, run)
    if local != "auto" and glob != "auto":
        return float(local), float(glob)
    given = (None if local == "auto" else float(local), None if glob == "auto" else float(glob))
    hints = (
        model.n_local_hint if local == "auto" else None,
        model.n_global_hint if glob == "auto" else None,
    )
    if rows.group[0] == rows.group[-1]:  # DP-means
        hint = model.n_global_hint or model.n_local_hint
        total = find_path(rows.X, rows.w, None, hint, random_state, run).best().penalty
        other = given[0] or given[1] or total / 2
        rest = max(total - other, 1e-3 * total)
        return given[0] or rest, given[1] or rest

    unit = float(rows.w.mean())  # a row counts as one on average
    whole = Problem(rows.X, rows.w / unit, rows.group, 1.0, 1.0, random_state)
    problem = whole.sample(SAMPLE)
    share = problem.glob / unit  # of the groups
    at = (
        None if given[0] is None else given[0] / unit,
        None if given[1] is None else given[1] * share,
    )
    d = varying_columns(problem)
    found = candidates(problem, at, d, run)
    few = [one for one in found if ROWS * one.n_global <= len(problem.X) or one.n_global == 1]
    best = min(few or found, key=lambda one: (miss(one, hints), one.words))
    if hints != (None, None):
        best = towards(problem, best, hints, d, run)
    elif given[1] is None and best.n_global > 1:
        if groups_matter(problem, best, d):
            trials = [searched(problem, best, best.local, best.glob * f, d, run) for f in NEARBY]
            best = min(trials, key=lambda one: one.words)
        else:
            k = find_path(rows.X, rows.w, None, None, random_state, run).best().n_clusters
            best = min(found, key=lambda one: (miss(one, (None, k)), one.words))
    if best.n_global == 1 and hints[1] is None and given[1] is None:
        everything = float(problem.w @ (problem.X**2).sum(axis=1))  # what no division can save
        best = best._replace(glob=max(best.glob, everything))
    return given[0] or best.local * unit, given[1] or best.glob / share
