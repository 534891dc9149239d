"""The search: a minimiser of the DP-means objective that does not wait for one row to repay λ.

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights). For the cosine metric rows
and centres have length 1 (`unit`) and only the deltas of the moves differ.

1. *Start.* Over-segment (k-means++ seeds and a few Lloyd passes on a sample; every row when there
   are few) and merge by Ward's cost W_a W_b/(W_a+W_b)·‖μ_a-μ_b‖² while it is below λ.
2. *Descend*, in turn and until none lowers J: merges, Lloyd, Hartigan's exact moves of single rows
   (openings and closings included), 2-means splits of every cluster.
3. *Renew neighbourhoods.* Because λ prices each cluster, J is a sum over clusters, so a few
   neighbouring clusters are a problem of their own: take the rows of a cluster and of those nearest
   to it, remove and re-draw some centres at random, relax, keep what is lower. A cluster is settled
   when this has failed several times; clusters that change are unsettled again.
4. *Descend* again, on all rows (steps 1-3 see a sample when there are very many).

Guaranteed at the end: no move of one row, no row opened as a cluster of its own and no merge of two
clusters lowers J, and splits of every cluster have been tried in vain (at `max_clusters` clusters:
no move and no merge). J never rises from step to step.

Hartigan 1975 (row moves); Ward 1963; Arthur & Vassilvitskii 2007 (seeds); Taillard 2003, "Heuristic
methods for large centroid clustering problems" (neighbourhoods as problems).
Departs from KJ: Algorithm 1 opens a cluster only when one row alone repays λ.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from madbayes._engine.lloyd import lloyd_passes, nearest, nearest_bounds
from madbayes._engine.progress import Stage
from madbayes._engine.threads import Run
from madbayes._kernels import moves
from madbayes._kernels.moves import TOL
from madbayes._kernels.rows import squared_error
from madbayes._kernels.ward import merge_below
from madbayes._search import division
from madbayes._search.division import SAMPLE, Division, count_trials, resolve

NEIGHBOURS = 12  # clusters in a neighbourhood
SPLITS = 3  # starts per split
SMALL = 1024  # so many rows are merged without over-segmenting
MOST_SEEDS = 16_384  # more small clusters than these are found in boxes …
BOX = 4096  # … of at most so many rows


@dataclass(frozen=True)
class Problem:
    """Rows, weights, penalty and the bound on k; what every step needs."""

    X: np.ndarray
    w: np.ndarray
    penalty: float
    cap: int
    rng: np.random.RandomState
    run: Run
    unit: bool = False
    history: list[float] = field(default_factory=list)

    def division(self, labels: np.ndarray) -> Division:
        """The division by `labels`, with means; numbers without rows are dropped."""
        z = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        k = int(z.max()) + 1
        C, W, _ = moves.means(self.X, self.w, z, k, self.unit)
        J = squared_error(self.X, self.w, z, C) + self.penalty * k
        return Division(z, C, W, J)

    def part(self, rows: np.ndarray, cap: int) -> "Problem":
        """The same for some of the rows."""
        X, w = self.X[rows], self.w[rows]
        return replace(self, X=X, w=w, cap=min(cap, len(rows)), history=[])

    def relax(self, centers: np.ndarray) -> tuple[np.ndarray, float]:
        """Labels and J after row moves and merges from the nearest of these centres."""
        labels, _, J = moves.relax(self.X, self.w, centers, self.penalty, self.cap, self.unit)
        return labels, J

    def sample(self, size: int) -> np.ndarray:
        n = len(self.X)
        return np.arange(n) if n <= size else np.sort(self.rng.choice(n, size, replace=False))


def over_segment(problem: Problem) -> Division:
    """1. Ward's merges of many small clusters, until a merge costs more than the penalty."""
    X, w, cap, penalty = problem.X, problem.w, problem.cap, problem.penalty * (1 - TOL)
    n = len(X)
    m = n if n <= SMALL else 256
    while m < n and m <= MOST_SEEDS:
        rows = problem.sample(4000 + 8 * m)
        seeds = np.empty((m, X.shape[1]))
        uniforms = problem.rng.random_sample(m)
        seeds = seeds[: moves.draw_seeds(X[rows], w[rows], seeds, 0, uniforms)]
        some = problem.part(rows, m)
        fine = some.division(lloyd_passes(some.X, seeds, some.w, 3, problem.run, problem.unit)[0])
        weights = fine.weights * (w.sum() / some.w.sum())
        group, k = merge_below(fine.centers, weights, penalty, cap, problem.unit)
        if 3 * k <= m or k == cap or len(seeds) < m:  # fine enough for this penalty
            centers = moves.means(fine.centers, weights, group, k, problem.unit)[0]
            return problem.division(nearest(X, centers, problem.run))
        m = 4 * m if 8 * m <= n else n
    if n > BOX:
        warn_of_many(problem, k)
    z = np.empty(n, np.int64)
    n_clusters = 0
    for rows in chunks(X, np.arange(n)):
        group, k = merge_below(X[rows].astype(np.float64), w[rows], penalty, cap, problem.unit)
        z[rows] = n_clusters + group
        n_clusters += k
    return merge_clusters(problem, problem.division(z))


def chunks(X: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in boxes of at most BOX, halved along the widest column."""
    if len(rows) <= BOX:
        yield rows
        return
    column = X[rows, np.argmax(np.ptp(X[rows], axis=0))]
    order = np.argsort(column, kind="stable")
    for half in np.array_split(rows[order], 2):
        yield from chunks(X, half)


def warn_of_many(problem: Problem, k: int) -> None:
    n = len(problem.X)
    warnings.warn(
        f"penalty={problem.penalty:.4g} is so small that the {n} rows fall into more than {k} "
        "clusters, which takes long. A larger penalty, or max_clusters, makes it quick; "
        "penalties.path(X) shows how many clusters there are at which penalty.",
        stacklevel=6,
    )


def merge_clusters(problem: Problem, now: Division) -> Division:
    """2. Merges that save more than they cost."""
    penalty = problem.penalty * (1 - TOL)
    group, k = merge_below(now.centers, now.weights, penalty, problem.cap, problem.unit)
    return problem.division(group[now.labels]) if k < now.k else now


def follow_lloyd(problem: Problem, now: Division) -> Division:
    """2. Nearest centres and means, until nothing moves."""
    X, w, run = problem.X, problem.w, problem.run
    return problem.division(lloyd_passes(X, now.centers, w, 300, run, problem.unit)[0])


def move_rows(problem: Problem, now: Division) -> Division:
    """2. Hartigan's moves, of the rows that are not much nearer to their own centre than others."""
    w, penalty, unit = problem.w, problem.penalty, problem.unit
    while True:
        z = now.labels.copy()
        own, other = nearest_bounds(problem.X, z, now.centers, problem.run)
        slots = min(len(w), 2 * now.k + 16) + 1
        C, W, N = moves.means(problem.X, w, z, slots, unit)
        rows = moves.rows_to_watch(own, other, w, z, now.weights, N, penalty, unit)
        if not moves.move_rows(problem.X, w, z, rows, C, W, N, penalty, problem.cap, unit):
            return now
        new = problem.division(z)
        if not new.objective < now.objective:  # only rounding is left
            return now
        now = new


def split_clusters(problem: Problem, now: Division) -> Division:
    """2. Split each cluster by 2-means from a few drawn pairs; splits that repay λ stay."""
    z, k = now.labels.copy(), now.k
    n = len(z)
    for c, rows in enumerate(now.rows()):
        if len(rows) < 2 or k >= problem.cap:
            continue
        one = problem.part(rows, problem.cap - k + 1)
        lowest = one.division(np.zeros(len(rows), np.int64)).objective * (1 - TOL)
        for _ in range(SPLITS):
            pair = np.empty((2, problem.X.shape[1]))
            pair = pair[: moves.draw_seeds(one.X, one.w, pair, 0, one.rng.random_sample(2))]
            labels, J = one.relax(pair)
            if J < lowest:  # numbers that no other cluster has
                lowest = J
                z[rows] = np.where(labels == 0, c, (now.k + c) * n + labels)
        k += len(np.unique(z[rows])) - 1
    return problem.division(z) if k > now.k else now


def descend(problem: Problem, now: Division) -> Division:
    """2. All moves in turn until none lowers J."""
    while True:
        start = now
        for step in (merge_clusters, follow_lloyd, move_rows, split_clusters):
            new = step(problem, now)
            if new.objective < now.objective:
                now = new
                problem.history.append(now.objective)
        if now is start:
            return now


def renew(problem: Problem, now: Division, effort: int) -> Division:
    """3. Solve neighbourhoods of clusters anew until every cluster is settled.

    Not for very many clusters of a few rows each, where it would take for ever and gain little.
    """
    if len(problem.X) > BOX and 8 * now.k > len(problem.X):
        return now
    trials = effort * count_trials(problem.X, now.k, NEIGHBOURS)

    def solve(
        rows: np.ndarray, labels: np.ndarray, k: int, rng: np.random.RandomState
    ) -> tuple[Division, Division]:
        sub = replace(problem.part(rows, problem.cap - k + int(labels.max()) + 1), rng=rng)
        old = sub.division(labels)
        return old, resolve(sub, old, trials, any_number=True)

    labels = division.renew(
        now,
        partial(neighbours, problem),
        solve,
        rng=problem.rng,
        run=problem.run,
        history=problem.history,
        at_once=division.AT_ONCE if problem.cap == len(problem.X) else 1,  # they share the cap
    )
    return problem.division(labels)


def neighbours(problem: Problem, C: np.ndarray, c: int, k: int) -> np.ndarray:
    """The clusters nearest to c.

    At the cap, half of them lie around another one: a cluster saved there can be spent here.
    """
    size = min(NEIGHBOURS, k)
    d2 = ((C - C[c]) ** 2).sum(axis=1)
    if k == problem.cap and size < k:
        alive = np.flatnonzero(np.isfinite(C[:, 0]))
        e = alive[int(problem.rng.random_sample() * len(alive))]
        d2 = np.minimum(d2, ((C - C[e]) ** 2).sum(axis=1))
    return np.argsort(d2, kind="stable")[:size]


def dp_search(
    X: np.ndarray,
    weight: np.ndarray,
    penalty: float,
    *,
    max_clusters: int | None,
    effort: int,
    random_state: np.random.RandomState,
    run: Run,
    unit: bool = False,
    start: np.ndarray | None = None,
) -> tuple[Division, list[float]]:
    """Minimise J over the rows of X (dense, centred or of length 1, all weights positive).

    `start`: centres of a division that is taken instead of step 1 if it is better.
    """
    cap = min(max_clusters or len(X), len(X))
    problem = Problem(X, weight, penalty, cap, random_state, run, unit)
    Stage("first clusters")
    now = over_segment(problem)  # 1.
    if start is not None and len(start) <= cap:
        given = problem.division(nearest(X, start, run))
        now = min(now, given, key=lambda division: division.objective)
    chosen = problem.sample(max(SAMPLE, 50 * now.k))  # rows that 2. and 3. look at
    if len(chosen) < len(X):
        some = problem.part(chosen, cap)
        some = replace(some, w=some.w * (weight.sum() / some.w.sum()))
        best = renew(some, descend(some, some.division(now.labels[chosen])), effort)  # 2., 3.
        best = problem.division(nearest(X, best.centers, run))
        now = min(now, best, key=lambda division: division.objective)
    else:
        problem.history.append(now.objective)
        now = renew(problem, descend(problem, now), effort)  # 2., 3.
    problem.history.append(now.objective)
    Stage("last moves")
    return descend(problem, now), problem.history  # 4.
