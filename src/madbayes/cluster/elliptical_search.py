"""The search for a low objective of elliptical means (`elliptical` has the objective).

1. *Start.* Many small clusters by k-means, merged where that costs least: down to the number
   wanted, or while it pays.
2. *Descend*, until none of these lowers J: the paper's steps (nearest cluster by Mahalanobis
   distance, then means and covariances); moves of single rows by their exact change; with a penalty
   also openings, merges, and splits of clusters across their longest axis.

Exact changes, in units of λ²: a cluster costs log|I + Φ⁻¹S|. A row that joins adds a rank-one term
to S, so it costs log(1 + W w/(W + w)·uᵀ(Φ + S)⁻¹u) with u = y - μ; a merge adds the scatters and
W_a W_b/(W_a + W_b)·(μ_a - μ_b)(μ_a - μ_b)ᵀ.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from madbayes._kernels import ellipses as kernels
from madbayes.cluster.kmeans import KMeans

TOL = 1e-10  # a move must lower J by more than this share of it
CELLS = 4  # small clusters to begin with, for each of the clusters wanted …
MOST_CELLS = 64  # … not more than this, which is also taken for an open number
FEW = 1024  # rows that are looked through for equal ones
FREE = 16  # clusters that one sweep can open, or as many as there are


@dataclass(frozen=True)
class Problem:
    """Standardized rows Y and weights; φ (Φ = φI), and prices in units of λ²."""

    Y: np.ndarray
    w: np.ndarray
    phi: float
    price: float | None  # penalty/λ², None: the number of clusters is fixed
    most: int  # clusters allowed (with a price), or wanted
    least: int  # rows that a cluster keeps

    def division(self, labels: np.ndarray) -> "Division":
        """The division by `labels`, with its means and covariances; empty numbers are dropped."""
        kept, z = np.unique(labels, return_inverse=True)
        k, d = len(kept), self.Y.shape[1]
        z = z.astype(np.int64)
        C, W, N, S = np.empty((k, d)), np.empty(k), np.empty(k, np.int64), np.empty((k, d, d))
        kernels.scatter(self.Y, self.w, z, C, W, N, S)
        costs = log_volume(S, self.phi)
        J = float(costs.sum()) + (self.price or 0.0) * k
        A = np.linalg.inv(S + self.phi * np.eye(d))
        return Division(z, C, W, N, S, A, costs, J)


@dataclass(frozen=True)
class Division:
    """Rows divided into k clusters. `A` is (Φ + S)⁻¹, `costs` log|I + Φ⁻¹S|, J in units of λ²."""

    labels: np.ndarray
    C: np.ndarray
    W: np.ndarray
    N: np.ndarray
    S: np.ndarray
    A: np.ndarray
    costs: np.ndarray
    objective: float

    @property
    def k(self) -> int:
        return len(self.C)


def log_volume(S: np.ndarray, phi: float) -> np.ndarray:
    """log|I + S/φ| of one or more scatter matrices."""
    return np.linalg.slogdet(np.eye(S.shape[-1]) + S / phi)[1]


def assign(problem: Problem, now: Division) -> Division:
    """Step 1 and 2 of the paper, the number of clusters fixed."""
    d2 = np.empty((len(problem.Y), now.k))
    kernels.quadratic(problem.Y, now.C, now.A, d2)
    labels = d2.argmin(axis=1)
    while True:  # a cluster that would become too small keeps its rows
        size = np.bincount(labels, minlength=now.k)
        short = size < np.minimum(now.N, problem.least)
        back = short[now.labels] & (labels != now.labels)
        if not back.any():
            break
        labels[back] = now.labels[back]
    return now if np.array_equal(labels, now.labels) else problem.division(labels)


def move_rows(problem: Problem, now: Division) -> Division:
    """Exact moves of single rows; one sweep."""
    free = 0 if problem.price is None else min(max(FREE, now.k), problem.most - now.k)
    d = problem.Y.shape[1]
    labels = now.labels.copy()
    kernels.move_rows(
        problem.Y,
        problem.w,
        labels,
        np.vstack([now.C, np.zeros((free, d))]),
        np.append(now.W, np.zeros(free)),
        np.append(now.N, np.zeros(free, np.int64)),
        np.concatenate([now.A, np.zeros((free, d, d))]),
        np.eye(d) / problem.phi,
        np.inf if problem.price is None else problem.price,
        problem.least,
        TOL * (now.objective + 1.0),
    )
    return now if np.array_equal(labels, now.labels) else problem.division(labels)


def merge(problem: Problem, now: Division) -> Division:
    """Merge the two clusters for which that costs least, while there are too many or it pays."""
    while now.k > 1:
        lowest, a, b = min(cheapest_partner(problem, now, b) for b in range(1, now.k))
        pays = problem.price is not None and lowest < problem.price - TOL * now.objective
        if now.k <= problem.most and not pays:
            break
        now = problem.division(np.where(now.labels == b, a, now.labels))
    return now


def cheapest_partner(problem: Problem, now: Division, b: int) -> tuple[float, int, int]:
    """What the cheapest merge of cluster b with one before it costs, and with which; S adds up."""
    u = now.C[:b] - now.C[b]
    f = now.W[:b] * now.W[b] / (now.W[:b] + now.W[b])
    S = now.S[:b] + now.S[b] + f[:, None, None] * u[:, :, None] * u[:, None, :]
    change = log_volume(S, problem.phi) - now.costs[:b] - now.costs[b]
    a = int(np.argmin(change))
    return float(change[a]), a, b


def split(problem: Problem, now: Division) -> Division:
    """Cut clusters in two across their longest axis, where that lowers J."""
    labels, k = now.labels.copy(), now.k
    for c in range(now.k):
        rows = np.flatnonzero(now.labels == c)
        side = (problem.Y[rows] - now.C[c]) @ np.linalg.eigh(now.S[c])[1][:, -1] > 0
        if 0 < side.sum() < side.size:
            labels[rows[side]] = k
            k += 1
    parts = problem.division(labels)  # keeps the order of the numbers
    halves = np.arange(now.k, k)
    whole = np.array([now.labels[parts.labels == h][0] for h in halves], dtype=np.int64)
    gain = now.costs[whole] - parts.costs[whole] - parts.costs[halves] - problem.price
    order = np.argsort(-gain, kind="stable")
    done = [h for h in order if gain[h] > TOL * now.objective][: problem.most - now.k]
    if not done:
        return now
    undo = np.isin(parts.labels, np.delete(halves, done))
    return problem.division(np.where(undo, now.labels, parts.labels))


def start(problem: Problem, seed: int, n_jobs: int | None) -> Division:
    """1. Small clusters by k-means (of few rows: the different ones), merged."""
    cells = MOST_CELLS
    if problem.price is None:
        cells = min(CELLS * problem.most, max(problem.most, MOST_CELLS))
    if len(problem.Y) <= FEW:
        labels = np.unique(problem.Y, axis=0, return_inverse=True)[1].ravel()
        if labels.max() < cells:
            return merge(problem, problem.division(labels))
    return merge(problem, problem.division(kmeans(problem, cells, seed, n_jobs)))


def kmeans(problem: Problem, k: int, seed: int, n_jobs: int | None) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(k, random_state=seed, n_jobs=n_jobs)
        return model.fit(problem.Y, sample_weight=problem.w).labels_


def descend(
    problem: Problem, now: Division, *, max_iter: int
) -> tuple[Division, list[float], bool]:
    """2. The paper's steps, then exact moves, merges and splits, until none of them lowers J."""
    history = [now.objective]
    for _ in range(max_iter):
        new = assign(problem, now)
        if not new.objective < now.objective:
            new = move_rows(problem, now)
        if problem.price is not None and not new.objective < now.objective:
            new = merge(problem, now)
        if problem.price is not None and not new.objective < now.objective:
            new = split(problem, now)
        if not new.objective < now.objective:
            return now, history, True
        now = new
        history.append(now.objective)
    return now, history, False


def search(
    problem: Problem, seed: int, n_jobs: int | None, *, max_iter: int
) -> tuple[Division, list[float], bool]:
    """The division at the end, J after each pass, and whether it converged."""
    best = descend(problem, start(problem, seed, n_jobs), max_iter=max_iter)  # 1. and 2.
    if problem.price is None:  # plain k-means is the better start now and then
        other = problem.division(kmeans(problem, problem.most, seed, n_jobs))
        tried = descend(problem, other, max_iter=max_iter)
        best = min(best, tried, key=lambda found: (-found[0].k, found[0].objective))
    return best
