"""The search on CSR rows: `dp_search` for tables that are too large to be made dense (texts).

Objective: J = Σ_n w_n ‖x_n - μ_{z_n}‖² + λk (KJ Eq. 1, with weights), for the cosine metric with
rows and centres of length 1 (`unit`).

1. *Start.* Over-segment (k-means++ seeds, a few Lloyd passes) and merge while a merge costs less
   than λ.
2. *Descend*, in turn and until none lowers J: merges, Lloyd, Hartigan's exact moves of single rows
   (openings and closings included), 2-means splits of every cluster.

Guaranteed at the end: no move of one row, no row opened as a cluster of its own and no merge of two
clusters lowers J, and splits of every cluster have been tried. Without the neighbourhoods of
`dp_search` the result is a little higher.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._engine.lloyd import lloyd_passes, nearest
from madbayes._engine.threads import Run, patient
from madbayes._kernels.sparse_moves import TOL, move_csr_rows

FIRST_SEEDS = 128
MOST_SEEDS = 1024
SPLITS = 3  # starts per split


@dataclass(frozen=True)
class SparseDivision:
    """Rows divided into k clusters, with the sums of their rows."""

    labels: np.ndarray
    sums: np.ndarray  # (k, d)
    weights: np.ndarray  # (k,)
    objective: float

    @property
    def k(self) -> int:
        return len(self.weights)


@dataclass(frozen=True)
class SparseProblem:
    X: Any  # CSR, rows of length 1 with `unit`
    w: np.ndarray
    penalty: float
    cap: int
    rng: np.random.RandomState
    run: Run
    unit: bool
    norm2: np.ndarray = field(repr=False)
    history: list[float] = field(default_factory=list)

    def division(self, labels: np.ndarray) -> SparseDivision:
        """The division by `labels`; numbers without rows are dropped."""
        z = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        k = int(z.max()) + 1
        members = sp.csr_array((self.w, (z, np.arange(len(z)))), shape=(k, len(z)))
        sums, weights = (members @ self.X).toarray(), np.bincount(z, self.w)
        J = self.alone() - self.saved(sums, weights).sum() + self.penalty * k
        return SparseDivision(z, sums, weights, float(J))

    def alone(self) -> float:
        """The squared error of rows that all have the centre 0, or, with `unit`, another one."""
        return float(2.0 * self.w.sum() if self.unit else self.w @ self.norm2)

    def saved(self, sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
        length2 = np.einsum("ij,ij->i", sums, sums)
        return 2.0 * np.sqrt(length2) if self.unit else length2 / weights

    def centers(self, now: SparseDivision) -> np.ndarray:
        if not self.unit:
            return now.sums / now.weights[:, None]
        length = np.linalg.norm(now.sums, axis=1, keepdims=True)
        return now.sums / np.where(length > 0, length, 1.0)


def draw_seeds(problem: SparseProblem, rows: np.ndarray, m: int) -> np.ndarray:
    """k-means++ among `rows`: dense centres, fewer than m when the rows are equal."""
    X, w = problem.X[rows], problem.w[rows]
    norm2, mass = problem.norm2[rows], np.full(len(rows), np.inf)
    seeds: list[int] = []
    while len(seeds) < m:
        weights = w if not seeds else w * mass
        total = np.cumsum(weights)
        if total[-1] <= 1e-12 * float(w @ norm2):
            break
        at = problem.rng.random_sample() * total[-1]
        i = min(int(np.searchsorted(total, at, side="right")), len(rows) - 1)
        seeds.append(i)
        gap2 = norm2 + norm2[i] - 2.0 * (X @ X[[i]].T).toarray()[:, 0]
        mass = np.minimum(mass, np.maximum(gap2, 0.0))
    return X[seeds].toarray()


def over_segment(problem: SparseProblem) -> SparseDivision:
    """1. Merges of many small clusters, until a merge costs more than the penalty."""
    n, m = problem.X.shape[0], FIRST_SEEDS
    while True:
        some = np.sort(problem.rng.permutation(n)[: 4000 + 8 * m])
        seeds = draw_seeds(problem, some, min(m, n))
        X, w = problem.X, problem.w
        labels = lloyd_passes(X, seeds, w, 3, problem.run, problem.unit)[0]
        merged = merge_clusters(problem, problem.division(labels))
        if 3 * merged.k <= m or merged.k == problem.cap or len(seeds) < m or 2 * m > MOST_SEEDS:
            return merged
        m *= 2


def merge_clusters(problem: SparseProblem, now: SparseDivision) -> SparseDivision:
    """2. The cheapest merge first, by the products of the sums, while it costs less than λ."""
    G, W = now.sums @ now.sums.T, now.weights.copy()
    group = np.arange(now.k)

    def costs(a: int) -> np.ndarray:
        """Of merging a with each of the clusters."""
        length2 = np.diag(G)
        both = length2 + length2[a] + 2.0 * G[a]
        if problem.unit:
            cost = 2.0 * (np.sqrt(length2) + np.sqrt(length2[a]) - np.sqrt(np.maximum(both, 0)))
        else:
            cost = length2 / W + length2[a] / W[a] - both / (W + W[a])
        cost[a] = np.inf
        return cost

    C = np.array([costs(a) for a in range(now.k)])
    k = now.k
    while k > 1:
        a, b = sorted(np.unravel_index(np.argmin(C), C.shape))
        if not (k > problem.cap or C[a, b] < problem.penalty * (1 - TOL)):
            break
        G[a] += G[b]
        G[:, a] += G[:, b]
        W[a] += W[b]
        group[group == b] = a
        C[b] = C[:, b] = np.inf
        alive = np.unique(group)
        C[a, alive] = C[alive, a] = costs(int(a))[alive]
        k -= 1
    return problem.division(group[now.labels]) if k < now.k else now


def follow_lloyd(problem: SparseProblem, now: SparseDivision) -> SparseDivision:
    """2. Nearest centres and means, until nothing moves."""
    X, w = problem.X, problem.w
    return problem.division(
        lloyd_passes(X, problem.centers(now), w, 300, problem.run, problem.unit)[0]
    )


def move_rows(problem: SparseProblem, now: SparseDivision) -> SparseDivision:
    """2. Hartigan's moves of single rows."""
    X, k = problem.X, now.k
    slots = min(X.shape[0], k + 16)
    z = now.labels.copy()
    S = np.zeros((X.shape[1], slots))
    S[:, :k] = now.sums.T
    W = np.pad(now.weights, (0, slots - k))
    length2 = np.pad(np.einsum("ij,ij->i", now.sums, now.sums), (0, slots - k))
    N = np.bincount(z, minlength=slots)
    csr = X.data, X.indices, X.indptr
    state = S, W, length2, N
    rule = problem.penalty, problem.cap, problem.unit
    patient(move_csr_rows, *csr, problem.norm2, problem.w, z, *state, *rule)
    return problem.division(z)


def split_clusters(problem: SparseProblem, now: SparseDivision) -> SparseDivision:
    """2. Split each cluster by 2-means from a few drawn pairs; splits that repay λ stay."""
    z, k = now.labels.copy(), now.k
    whole = problem.saved(now.sums, now.weights)
    for c in range(now.k):
        rows = np.flatnonzero(now.labels == c)
        if len(rows) < 2 or k >= problem.cap:
            continue
        X, w = problem.X[rows], problem.w[rows]
        most, halves = whole[c] + problem.penalty * (1 + TOL), None
        for _ in range(SPLITS):
            pair = draw_seeds(problem, rows, 2)
            if len(pair) < 2:
                break
            labels = lloyd_passes(X, pair, w, 20, problem.run, problem.unit)[0]
            sums = np.array([(w * (labels == h)) @ X for h in (0, 1)])
            weights = np.array([w[labels == h].sum() for h in (0, 1)])
            if (weights > 0).all() and problem.saved(sums, weights).sum() > most:
                most, halves = problem.saved(sums, weights).sum(), labels
        if halves is not None:
            z[rows[halves == 1]] = k
            k += 1
    return problem.division(z) if k > now.k else now


def sparse_search(
    X: Any,
    weight: np.ndarray,
    penalty: float,
    *,
    max_clusters: int | None,
    random_state: np.random.RandomState,
    run: Run,
    unit: bool,
    start: np.ndarray | None = None,
) -> tuple[SparseDivision, np.ndarray, list[float]]:
    """Minimise J over the rows of X (CSR, all weights positive): division, centres, history.

    `start`: centres of a division that is taken instead of step 1 if it is better.
    """
    norm2 = X.astype(np.float64).power(2).sum(axis=1)
    cap = min(max_clusters or X.shape[0], X.shape[0])
    problem = SparseProblem(X, weight, penalty, cap, random_state, run, unit, norm2)
    now = over_segment(problem)  # 1.
    if start is not None and len(start) <= cap:
        given = problem.division(nearest(X, start, run))
        now = min(now, given, key=lambda division: division.objective)
    problem.history.append(now.objective)
    steps: tuple[Callable[[SparseProblem, SparseDivision], SparseDivision], ...]
    steps = (merge_clusters, follow_lloyd, move_rows, split_clusters)
    while True:  # 2.
        before = now
        for step in steps:
            new = step(problem, now)
            if new.objective < now.objective * (1 - TOL):
                now = new
                problem.history.append(now.objective)
        if now is before:
            return now, problem.centers(now), problem.history
