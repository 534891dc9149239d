"""DP-medoids: medoids for any dissimilarity, as many as pay (PRML Eq. 9.6 with KJ's penalty).

Objective: J = Σ_n w_n V(x_n, μ_{z_n}) + λk, each μ one of the rows.

KJ Algorithm 1 with medoids in the place of means (`algorithm="paper"`):
1. One cluster, its medoid the best single row.
2. Row by row: if w·V to the nearest medoid exceeds λ, the row becomes a medoid (visible to the rows
   after it, in the same pass); otherwise it goes to the nearest.
3. Each medoid becomes the best row of its cluster; clusters without rows are dropped.
4. Repeat 2 and 3 until nothing changes.

The default, `algorithm="search"`:
1. *Grow.* From the best single row, add the row that saves most, while that is more than λ.
2. *Open, swap, close*, by exact changes: every row in turn is tried as one more medoid and in the
   place of each medoid, and the best of these is done at once if it lowers J; medoids that save
   less than λ are given up.
3. Until no opening, no swap and no closing lowers J.

The problem is known as (uncapacitated) facility location: λ is the price of a facility. Where the
dissimilarity is a metric and the number of medoids is not capped, no result of step 3 is above
three times the minimum (Arya et al. 2004, "Local search heuristics for k-median and facility
location problems").

`penalty="auto"`: medoids are added one by one to a sample, with swaps after each; the lower convex
hull of what is left to pay, against k, gives the penalties for which k is best: a staircase. The k
with the largest √k·log(λ_high/λ_low) is taken, or one cluster if no step is wider than in noise.
"""

import warnings
from itertools import pairwise
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from madbayes._engine.checks import (
    check_choice,
    check_count,
    check_hint,
    check_weight,
)
from madbayes._engine.dissimilarity import (
    MedoidsMixin,
    Metric,
    check_dissimilar,
    check_params,
    check_total,
    matrix,
    paid,
    part,
)
from madbayes._engine.threads import workers
from madbayes._estimators.fitting import check_effort
from madbayes._kernels import medoids as kernels
from madbayes.cluster.medoid_search import (
    Medoids,
    assign,
    by_size,
    grow,
    never_rising,
    renew,
    swap,
)

SAMPLE = 2000  # rows that "auto" looks at


def objective(D: np.ndarray, weight: np.ndarray, medoids: np.ndarray, penalty: float) -> float:
    """J when every row is with its nearest medoid."""
    return paid(weight, D[medoids].min(axis=0)) + penalty * len(medoids)


def follow_paper(
    D: np.ndarray, weight: np.ndarray, penalty: float, *, cap: int, max_iter: int
) -> Medoids:
    """KJ Algorithm 1 with medoids, the rows in their order."""
    n = len(D)
    medoids = np.empty(n, np.int64)
    medoids[0], k = kernels.totals(D, weight).argmin(), 1  # 1.
    labels = np.zeros(n, np.int32)
    history: list[float] = []
    converged = False
    n_iter = 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        before = labels.copy()
        k = kernels.assign_or_open(D, weight, medoids, k, cap, penalty, labels)  # 2.
        converged = np.array_equal(labels, before)  # 4.
        if not converged:
            kernels.update_medoids(D, weight, labels, medoids, k)  # 3.
            kept, new = np.unique(labels, return_inverse=True)
            labels, k = new.astype(np.int32), len(kept)
            medoids[:k] = medoids[kept]
            history.append(paid(weight, D[medoids[labels], np.arange(n)]) + penalty * k)
    medoids = medoids[:k].copy()
    history.append(objective(D, weight, medoids, penalty))
    return Medoids(medoids, history[-1], history, n_iter, converged)


def search(
    D: np.ndarray,
    weight: np.ndarray,
    penalty: float,
    *,
    cap: int,
    max_iter: int,
    effort: float,
    random_state: np.random.RandomState,
) -> Medoids:
    """Grow; open, swap and close; renew (`medoid_search`)."""
    options: dict[str, Any] = {"cap": cap, "penalty": penalty, "max_iter": max_iter}
    found = swap(D, weight, grow(D, weight, cap, penalty), **options)
    return renew(D, weight, found, effort=effort, random_state=random_state, **options)


def farthest_first(D: np.ndarray, weight: np.ndarray, n_clusters: int) -> float:
    """A penalty for about so many clusters: KJ 6.1 from the best single row."""
    member = int(kernels.totals(D, weight).argmin())
    closest = np.full(len(D), np.inf)
    for round_ in range(n_clusters):
        np.minimum(closest, D[member], out=closest)
        member = int(np.argmax(closest))
        if closest[member] == 0.0:
            raise ValueError(
                f"n_clusters_hint={n_clusters} is more than X can give: after {round_} rows there "
                "is no different one left. Ask for fewer clusters."
            )
    return float(closest[member])


def staircase(D: np.ndarray, weight: np.ndarray, most: int) -> np.ndarray:
    """(k, λ_low, λ_high) for each k <= most that is the best for some penalty."""
    medoids = grow(D, weight, 1)
    costs = [paid(weight, D[medoids[0]])]
    while len(costs) < min(most + 1, len(D)) and costs[-1] > 0:
        k = len(medoids)
        slots = np.append(medoids, 0)
        kernels.grow(D, weight, slots, k, k + 1, -1.0, assign(D, medoids)[2])
        found = swap(D, weight, slots, max_iter=5)
        medoids = found.rows
        costs.append(min(costs[-1], found.objective))
    hull = [1]
    for k in range(2, len(costs) + 1):  # the lower convex hull: slopes that only shrink
        while len(hull) > 1 and slope(costs, hull[-2], hull[-1]) <= slope(costs, hull[-1], k):
            hull.pop()
        hull.append(k)
    falls = [slope(costs, a, b) for a, b in pairwise(hull)]
    low = [*falls, 0.0]  # below the last one: unknown, or nothing left to pay
    steps = np.column_stack([hull, low, [np.inf, *falls]])
    return steps if costs[-1] == 0.0 and hull[-1] <= most else steps[:-1]


def slope(costs: list[float], a: int, b: int) -> float:
    return (costs[a - 1] - costs[b - 1]) / (b - a)


def noise(n: int) -> float:
    """√k·log(λ_high/λ_low) that n rows without clusters hardly ever reach for a k up to √n.

    Gaussian, uniform and exponential rows, 20 to 600 of them in 1 to 20 columns, reached it in 3 of
    1,260 trials with distances; with squared distances in 7 of 945, but in one column in one of 5.
    """
    return 2.5 + 5 / np.sqrt(n)


def choose(steps: np.ndarray, fewest: int, n: int) -> float:
    """The middle of the widest step of at least `fewest` clusters; one cluster if none is wide."""
    k, low, high = steps.T
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.sqrt(k) * np.log(high / low)
    score[k < max(fewest, 2)] = -1.0
    at = int(np.argmax(score))
    if score[at] < (noise(n) if fewest == 1 else 0.0):
        at = 0 if fewest == 1 else len(k) - 1
    if at == 0:
        return float(2 * low[0]) or 1.0
    return float(np.sqrt(low[at] * high[at])) or float(high[at] / 2)


class DPMedoids(MedoidsMixin):
    """Medoids for any dissimilarity, as many as the data pays for.

    Minimises the sum of dissimilarities of the rows to the medoid of their cluster, plus `penalty`
    for each cluster. Use it like `KMedoids` when the number of clusters is not known; for squared
    distances in a vector space `DPMeans` is faster, needs no n×n matrix, and its "auto" is tested
    on held-out rows.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        The cost of one more cluster, in the unit of the metric: a cluster pays for itself when it
        brings its rows nearer to a medoid by more than this in all. "auto" takes the widest step of
        the staircase of k against the penalty, one cluster when no step is wider than in noise (see
        Notes). "farthest-first" derives it from `n_clusters_hint` (KJ 6.1): what one row alone
        repays, which suits "paper".
    metric : str or callable, default="euclidean"
        A name that `sklearn.metrics.pairwise_distances` knows, a symmetric function of two rows, or
        "precomputed": X is then the square matrix of dissimilarities, X[i, j] that of row i to row
        j as its medoid. It need not be symmetric, nor obey the triangle inequality.
    metric_params : dict or None
        Options of the metric, as for `pairwise_distances`.
    algorithm : {"search", "paper"}, default="search"
        "search" ends where no opening, swap or closing of medoids lowers the objective (by more
        than 1e-10 of it). "paper" is KJ Algorithm 1 with medoids for means; it opens a cluster only
        where one row alone repays the penalty.
    max_clusters : int or None
        Never more clusters than this.
    n_clusters_hint : int or None
        A rough number of clusters, for "auto" (which then looks between two thirds and three halves
        of it) and "farthest-first".
    max_iter : int, default=300
        Passes at most.
    random_state : int, RandomState or None
        Seed for the sample of 2,000 rows that "auto" looks at; fewer rows are all taken.
    n_jobs : int or None
        Threads for Euclidean dissimilarities; None uses all cores. The result is the same to the
        bit for any value.

    Attributes
    ----------
    medoid_indices_ : array of shape (n_clusters_,)
        The medoids as rows of X; by "search" that of the largest cluster first.
    cluster_centers_ : array of shape (n_clusters_, n_features)
        The rows themselves; absent with metric="precomputed".
    labels_ : array of shape (n_rows,)
    n_clusters_ : int
    penalty_ : float
    staircase_ : array of shape (n_steps, 3)
        With ``penalty="auto"``: numbers of clusters, and the lowest and highest penalty for each.
    objective_ : float
        `inertia_` plus `penalty_` times `n_clusters_`.
    inertia_ : float
        Sum of (weighted) dissimilarities to the medoids.
    objective_history_ : array
        The objective after each pass; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Notes
    -----
    All dissimilarities are held in memory, as for `KMedoids`; more than 8 GiB is an error. A row of
    weight 0 is left out and cannot be a medoid.

    "auto" is a rule of thumb, simpler than that of `DPMeans`: it considers up to √n clusters (of at
    most 2,000 rows, so 45; or those around `n_clusters_hint`), and no held-out rows confirm what it
    says. A few rows far from all others can count as clusters.

    Examples
    --------
    >>> from madbayes import DPMedoids
    >>> X = [[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [99, 2]]
    >>> model = DPMedoids(penalty=20.0).fit(X)
    >>> model.cluster_centers_.tolist(), model.objective_
    ([[10.0, 2.0], [1.0, 2.0], [99.0, 2.0]], 68.0)
    >>> model.predict([[1.0, 3], [50, 2]], novel=True).tolist()
    [1, -1]
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        metric: Metric = "euclidean",
        metric_params: dict[str, Any] | None = None,
        algorithm: str = "search",
        max_clusters: int | None = None,
        n_clusters_hint: int | None = None,
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.n_clusters_hint = n_clusters_hint
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X (or those that the matrix X is about)."""
        X = check_dissimilar(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        check_cost(self.penalty)
        check_choice("algorithm", self.algorithm, "search", "paper")
        effort = check_effort(self.effort)
        max_iter = check_count("max_iter", self.max_iter)
        used = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
        cap = used.size
        if self.max_clusters is not None:
            cap = min(cap, check_count("max_clusters", self.max_clusters))
        hint = self._hint()
        random_state = check_random_state(self.random_state)
        counted = part(X, used, self.metric)
        self._metric_params = check_params(counted, self.metric, self.metric_params)
        with workers(self.n_jobs) as run:
            D = matrix(counted, self.metric, self._metric_params, run)
        w = np.ones(used.size) if weight is None else weight[used]
        check_total(D, w)
        self.penalty_ = self._find_penalty(D, w, cap, hint, random_state)
        if self.algorithm == "paper":
            result = follow_paper(D, w, self.penalty_, cap=cap, max_iter=max_iter)
        else:
            result = search(
                D,
                w,
                self.penalty_,
                cap=cap,
                max_iter=max_iter,
                effort=effort,
                random_state=random_state,
            )
        rows = by_size(D, w, result.rows) if self.algorithm == "search" else result.rows
        del D, counted
        self._store_medoids(X, used[rows])
        self.labels_, self.inertia_ = self._measure(X, weight)
        self.n_clusters_ = len(rows)
        self.objective_ = self.inertia_ + self.penalty_ * self.n_clusters_
        self.objective_history_ = never_rising(result.history, self.objective_)
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        if not result.converged:
            warnings.warn(
                f"DPMedoids did not converge in max_iter={max_iter} passes; the objective still "
                "falls. Raise max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any, novel: bool = False) -> np.ndarray:
        """The index of the nearest medoid for each row of X.

        With ``novel=True``, -1 where the dissimilarity to it is more than `penalty_`: such a row
        would open a cluster of its own.
        """
        check_is_fitted(self)
        return self._nearest(X, penalty=self.penalty_ if novel else None)[0]

    def _find_penalty(
        self,
        D: np.ndarray,
        weight: np.ndarray,
        cap: int,
        hint: int | None,
        random_state: np.random.RandomState,
    ) -> float:
        if not isinstance(self.penalty, str):
            return float(self.penalty)
        if self.penalty == "farthest-first":
            assert hint is not None
            return farthest_first(D, weight, hint)
        n, scale = len(D), 1.0
        if n > SAMPLE:
            chosen = np.sort(random_state.choice(n, SAMPLE, replace=False))
            scale = weight.sum() / weight[chosen].sum()
            D, weight = D[np.ix_(chosen, chosen)], weight[chosen]
            D.flags.writeable = False
        most = int(np.sqrt(len(D))) + 1 if hint is None else -(-3 * hint // 2)
        most = max(1, min(most, cap, len(D) // 2))
        fewest = 1 if hint is None else min(-(-2 * hint // 3), most)
        self.staircase_ = staircase(D, weight, most)
        self.staircase_[:, 1:] *= scale
        return choose(self.staircase_, fewest, len(D))

    def _hint(self) -> int | None:
        if self.n_clusters_hint is None and self.penalty != "farthest-first":
            return None
        return check_hint(self.n_clusters_hint)


def check_cost(penalty: Any) -> None:
    """As `check_penalty`, but the unit is that of the metric."""
    if isinstance(penalty, str) and penalty in ("auto", "farthest-first"):
        return
    text = (
        f"penalty={penalty!r} must be a number > 0, 'auto' or 'farthest-first'. It is the cost of "
        "one more cluster, in the unit of the metric (so a squared distance only for sqeuclidean)."
    )
    if isinstance(penalty, bool) or not isinstance(penalty, Real):
        raise TypeError(text)
    if not 0 < float(penalty) < np.inf:
        raise ValueError(text)
