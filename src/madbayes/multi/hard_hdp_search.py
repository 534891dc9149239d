"""The search: a minimiser of the hard HDP objective that does not wait for one row to repay λ.

Objective: F = Σ w ‖x - μ_z‖² + λ_l Σ_j k_j + λ_g g (KJ Eq. 2, with weights). A local cluster is a
group's share of a global one, so F is a sum over global clusters: of squared error, λ_l for each
group that uses the cluster, and λ_g.

1. *Start* from several places: many small clusters merged by Ward's cost below λ_g; one cluster;
   the result of Algorithm 2.
2. *Descend*, in turn and until none lowers F: each group opens and closes clusters, the centres
   fixed (the rows of a group repay λ_l together); exact moves of rows and of whole local clusters,
   each to any cluster or a new one; merges of global clusters, which save λ_g and λ_l for every
   group that uses both; splits of global clusters.
3. *Renew neighbourhoods.* F is a sum over clusters, so neighbouring clusters are a problem of their
   own: take their rows, remove and re-draw some centres, relax, keep what is lower.
4. *Descend* again, on all rows (1-3 see a sample when there are very many).

Guaranteed at the end: no move of one row or of one local cluster, to another cluster or to a new
one, and no merge of two global clusters lowers F; splits of every cluster have been tried in vain.
Departs from KJ: Algorithm 2 opens a cluster only where one row, or one local cluster, repays λ.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from madbayes._engine.groups import starts
from madbayes._engine.lloyd import lloyd_passes
from madbayes._engine.threads import Run
from madbayes._kernels import hdp, moves
from madbayes._kernels.moves import TOL
from madbayes._kernels.ward import merge_below
from madbayes._search import division
from madbayes._search.division import SAMPLE, Division, count_trials, resolve

SEEDS = 256  # small clusters to start from
NEIGHBOURS = 8  # clusters in a neighbourhood
SPLITS = 3  # starts per split
SAMPLE_GROUPS = 32  # fewer groups than this are not a sample of the groups


@dataclass(frozen=True)
class Problem:
    """Rows (those of a group together), weights, groups and penalties; what every step needs."""

    X: np.ndarray
    w: np.ndarray
    group: np.ndarray
    local: float
    glob: float
    rng: np.random.RandomState
    history: list[float] = field(default_factory=list)

    @property
    def start(self) -> np.ndarray:
        return starts(self.group)

    def division(self, labels: np.ndarray) -> Division:
        """The division by `labels`; numbers without rows are dropped."""
        z = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        k = int(z.max()) + 1
        C, W, _ = moves.means(self.X, self.w, z, k, False)
        F = hdp.objective(self.X, self.w, self.start, z, k, self.local, self.glob)
        return Division(z, C, W, F)

    def relaxed(self, centers: np.ndarray) -> Division:
        """2. without splits, from the nearest of these centres."""
        return self.division(self.relax(centers)[0])

    def relax(self, centers: np.ndarray) -> tuple[np.ndarray, float]:
        """The same: labels and objective."""
        z, k = hdp.nearest_centers(self.X, centers)
        k, F = hdp.descend(self.X, self.w, self.start, z, k, self.local, self.glob)
        return z, F

    def part(self, rows: np.ndarray) -> "Problem":
        """The same for some of the rows, in order."""
        return replace(self, X=self.X[rows], w=self.w[rows], group=self.group[rows], history=[])

    def sample(self, size: int) -> "Problem":
        """Whole groups where there are many, else rows that stand for several."""
        n = len(self.X)
        if n <= size:
            return self
        start = self.start
        picked = self.rng.permutation(len(start) - 1)
        enough = 1 + int(np.searchsorted(np.cumsum(np.diff(start)[picked]), size))
        if enough >= SAMPLE_GROUPS:
            some = self.part(
                np.concatenate(
                    [np.arange(start[j], start[j + 1]) for j in np.sort(picked[:enough])]
                )
            )
            return replace(some, glob=self.glob * some.w.sum() / self.w.sum())
        some = self.part(np.sort(self.rng.choice(n, size, replace=False)))
        return replace(some, w=some.w * (self.w.sum() / some.w.sum()))


def over_segment(problem: Problem, run: Run) -> np.ndarray:
    """1. Centres: small clusters of all groups, merged by Ward's cost while that is below λ_g."""
    X, w = problem.X, problem.w
    seeds = np.empty((min(SEEDS, len(X)), X.shape[1]))
    seeds = seeds[: moves.draw_seeds(X, w, seeds, 0, problem.rng.random_sample(len(seeds)))]
    labels = lloyd_passes(X, seeds, w, 3, run)[0]
    small = problem.division(labels)
    group, k = merge_below(small.centers, small.weights, problem.glob * (1 - TOL), len(X), False)
    return moves.means(small.centers, small.weights, group, k, False)[0]


def split_clusters(problem: Problem, now: Division) -> Division:
    """2. Split each cluster from a few drawn pairs of rows; what repays the penalties stays."""
    z, n = now.labels.copy(), len(now.labels)
    for c, rows in enumerate(now.rows()):
        if len(rows) < 2:
            continue
        one = problem.part(rows)
        lowest = one.division(np.zeros(len(rows), np.int64)).objective * (1 - TOL)
        for _ in range(SPLITS):
            pair = np.empty((2, problem.X.shape[1]))
            pair = pair[: moves.draw_seeds(one.X, one.w, pair, 0, one.rng.random_sample(2))]
            labels, F = one.relax(pair)
            if F < lowest:  # numbers that no other cluster has
                lowest = F
                z[rows] = np.where(labels == 0, c, (now.k + c) * n + labels)
    return problem.division(z)


def descend(problem: Problem, now: Division) -> Division:
    """2. All moves in turn until none lowers F."""
    while True:
        before = now
        z = now.labels.copy()
        hdp.descend(problem.X, problem.w, problem.start, z, now.k, problem.local, problem.glob)
        for new in (problem.division(z), split_clusters(problem, problem.division(z))):
            if new.objective < now.objective:
                now = new
                problem.history.append(now.objective)
        if not now.objective < before.objective * (1 - TOL):
            return now


def renew(problem: Problem, now: Division, effort: int, run: Run) -> Division:
    """3. Solve neighbourhoods of clusters anew until every cluster is settled."""

    def neighbours(centers: np.ndarray, c: int, k: int) -> np.ndarray:
        d2 = ((centers - centers[c]) ** 2).sum(axis=1)
        return np.argsort(d2, kind="stable")[: min(NEIGHBOURS, k)]

    def solve(
        rows: np.ndarray, labels: np.ndarray, k: int, rng: np.random.RandomState
    ) -> tuple[Division, Division]:
        order = np.argsort(rows)  # those of a group together
        sub = replace(problem.part(rows[order]), rng=rng)
        old = sub.division(labels[order])
        new = resolve(sub, old, effort * count_trials(problem.X, k, NEIGHBOURS))
        if new is not old:  # in the order that the rows came in
            new = replace(new, labels=new.labels[np.argsort(order)])
        return old, new

    labels = division.renew(
        now, neighbours, solve, rng=problem.rng, run=run, history=problem.history
    )
    return problem.division(labels)


def hdp_search(
    X: np.ndarray,
    weight: np.ndarray,
    group: np.ndarray,
    local: float,
    glob: float,
    *,
    effort: int,
    random_state: np.random.RandomState,
    run: Run,
    printed: np.ndarray,
) -> tuple[Division, list[float]]:
    """Minimise F over the rows of X (dense, centred, weights positive, groups in order).

    `printed`: the labels that Algorithm 2 ends with; the result is never worse.
    """
    problem = Problem(X, weight, group, local, glob, random_state)
    paper = problem.division(printed)
    some = problem.sample(SAMPLE)
    mean = np.average(some.X, axis=0, weights=some.w)[None, :]
    starts = [over_segment(some, run), mean, paper.centers]  # 1.
    now = min((descend(some, some.relaxed(C)) for C in starts), key=lambda new: new.objective)  # 2.
    now = renew(some, now, effort, run)  # 3.
    if some is not problem:
        now = problem.relaxed(now.centers)
    history = [*some.history] if some is problem else []
    problem.history.clear()
    if paper.objective < now.objective:
        now = paper
    now = descend(problem, now)  # 4.
    return now, falling([paper.objective, *history, *problem.history, now.objective])


def falling(values: list[float]) -> list[float]:
    """The values that are below all before them, and the last one."""
    lowest = np.minimum.accumulate(values)
    keep = np.r_[True, np.diff(lowest) < 0]
    return [float(v) for v in lowest[keep]]
