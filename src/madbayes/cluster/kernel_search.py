"""The search in kernel space: `dp_search` on features, then exact moves on sums of kernel values.

Objective: J = Σ_n w_n ‖φ(x_n) - μ_{z_n}‖² + λk = Σ_n w_n K_nn - Σ_c S_c/W_c + λk,
where S_c = Σ_{i,j in c} w_i w_j K_ij and W_c = Σ_{i in c} w_i.

1. *Features.* Rows of an incomplete Cholesky factor of the kernel matrix: distances between them
   are those of kernel space, exactly up to 1024 rows, nearly above (at most RANK columns).
2. *Search* on the features, as for DP-means (`dp_search`).
3. *Descend* with the kernel itself, in turn and until none lowers J: merges, exact moves of single
   rows (openings and closings included), and splits: each cluster is halved by 2-means on the
   features, and merged again where that did not pay.

Guaranteed at the end, up to rounding, for any symmetric kernel: no move of one row, no row opened
as a cluster of its own and no merge of two clusters lowers J (at `max_clusters`: no move, no
merge).
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from madbayes._engine.gram import Gram, embed, sums_of
from madbayes._engine.lloyd import lloyd_passes
from madbayes._engine.threads import Run, patient
from madbayes._kernels.kernel_moves import merge_below, move_block, sum_links
from madbayes._kernels.moves import SWEEPS, TOL, draw_seeds
from madbayes.cluster.dp_search import SPLITS, dp_search

FULL_RANK = 1024  # rows up to which the features are exact
RANK = 256


@dataclass(frozen=True)
class KernelDivision:
    """Rows divided into k clusters: labels, weights W, sums L between them, error and J."""

    labels: np.ndarray
    weights: np.ndarray
    links: np.ndarray
    inertia: float
    objective: float

    @property
    def k(self) -> int:
        return len(self.weights)


@dataclass(frozen=True)
class KernelProblem:
    """Kernel values, weights, penalty and the bound on k; what every step needs."""

    gram: Gram
    w: np.ndarray
    penalty: float
    cap: int
    features: np.ndarray  # for splits
    rng: np.random.RandomState
    history: list[float] = field(default_factory=list)

    def division(self, labels: np.ndarray) -> KernelDivision:
        """The division by `labels`; numbers without rows are dropped."""
        return divide(self.gram, self.w, self.penalty, labels)


def divide(gram: Gram, w: np.ndarray, penalty: float, labels: np.ndarray) -> KernelDivision:
    """Weights, sums and J of the clusters of `labels`."""
    z = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    k = int(z.max()) + 1
    L = np.zeros((k, k))
    for first, _, M in gram.sums(w, z, k):
        sum_links(M, w, z, first, L)
    L = (L + L.T) / 2
    W = np.bincount(z, w)
    total = float(w @ gram.diagonal)
    inertia = total - float((np.diagonal(L) / W).sum())
    if abs(inertia) < 1e-13 * float(w @ np.abs(gram.diagonal)):
        inertia = 0.0  # rounding
    return KernelDivision(z, W, L, inertia, inertia + penalty * k)


def merge_clusters(problem: KernelProblem, now: KernelDivision) -> KernelDivision:
    """3. Merges that save more than they cost."""
    cost = problem.penalty * (1 - TOL)
    group, k = merge_below(now.links, now.weights, cost, problem.cap)
    return problem.division(group[now.labels]) if k < now.k else now


def move_rows(problem: KernelProblem, now: KernelDivision) -> KernelDivision:
    """3. Hartigan's moves, block after block, until a sweep over all rows finds none."""
    gram, w, penalty = problem.gram, problem.w, problem.penalty
    for _ in range(SWEEPS):
        slots = min(gram.n, 2 * now.k + 16)
        z, W, S = now.labels.copy(), np.zeros(slots), np.zeros(slots)
        W[: now.k], S[: now.k] = now.weights, np.diagonal(now.links)
        N = np.bincount(z, minlength=slots)
        moved = 0
        for a, b, block in gram.blocks():
            M = sums_of(block, w, z, slots)
            within = block[:, a:b]
            within = within.toarray() if sp.issparse(within) else np.ascontiguousarray(within)
            moved += move_block(within, a, gram.diagonal, w, z, M, W, S, N, penalty, problem.cap)
        if moved == 0:
            return now
        new = problem.division(z)
        if not new.objective < now.objective:  # only rounding is left
            return now
        now = new
        problem.history.append(now.objective)
    return now


def split_clusters(problem: KernelProblem, now: KernelDivision) -> KernelDivision:
    """3. Halve every cluster by 2-means on the features; halves that do not repay λ merge again."""
    z, k = now.labels.copy(), now.k
    for c in range(now.k):
        rows = np.flatnonzero(now.labels == c)
        if len(rows) < 2:
            continue
        X, w = problem.features[rows], problem.w[rows]
        lowest = np.inf
        for _ in range(SPLITS):
            pair = np.empty((2, X.shape[1]))
            pair = pair[: patient(draw_seeds, X, w, pair, 0, problem.rng.random_sample(2))]
            labels, _, error = lloyd_passes(X, pair, w, 20)
            if error < lowest:
                lowest = error
                z[rows] = np.where(labels == 0, c, k)
        k += 1
    return merge_clusters(problem, problem.division(z))


def descend(problem: KernelProblem, now: KernelDivision) -> KernelDivision:
    """3. All moves in turn until none lowers J."""
    problem.history.append(now.objective)
    if now.k > problem.cap:
        now = merge_clusters(problem, now)
        problem.history[-1] = now.objective
    while True:
        start = now
        for step in (merge_clusters, move_rows, split_clusters):
            new = step(problem, now)
            if new.objective < now.objective:
                now = new
                problem.history.append(now.objective)
        if now is start:
            return now


def features_of(gram: Gram, w: np.ndarray) -> np.ndarray:
    """1. Rows whose distances are those of kernel space."""
    return embed(gram, w, FULL_RANK if gram.n <= FULL_RANK else RANK)[0]


def kernel_search(
    gram: Gram,
    w: np.ndarray,
    penalty: float,
    features: np.ndarray,
    *,
    max_clusters: int | None,
    effort: int,
    random_state: np.random.RandomState,
    run: Run,
) -> tuple[KernelDivision, list[float]]:
    """Minimise J. `features`: of step 1."""
    found, _ = dp_search(  # 2.
        features,
        w,
        penalty,
        max_clusters=max_clusters,
        effort=effort,
        random_state=random_state,
        run=run,
    )
    cap = min(max_clusters or gram.n, gram.n)
    problem = KernelProblem(gram, w, penalty, cap, features, random_state)
    now = descend(problem, problem.division(found.labels))  # 3.
    return by_size(now), problem.history


def by_size(now: KernelDivision) -> KernelDivision:
    """Clusters from the heaviest to the lightest; among equals those near the mean of all first."""
    W = now.weights
    d2 = np.diagonal(now.links) / W**2 - 2 * now.links.sum(axis=1) / (W * W.sum())
    rank = np.lexsort((d2, -W))
    place = np.argsort(rank)
    return KernelDivision(
        place[now.labels],
        now.weights[rank],
        now.links[np.ix_(rank, rank)],
        now.inertia,
        now.objective,
    )
