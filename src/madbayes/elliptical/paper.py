"""Elliptical means as printed (BKJ Sup. E).

Objective, with Mahalanobis distances and a price for wide covariances:

    J = Σ_n w_n (x_n - μ)ᵀΣ⁻¹(x_n - μ) + Σ_k [tr(ΦΣ_k⁻¹) + λ² (log|λ²Σ_kΦ⁻¹| - d)] + penalty·k

1. Each row goes to the cluster with the smallest (x - μ)ᵀΣ⁻¹(x - μ).
2. μ_k is the mean of its rows, and Σ_k = (S_k + Φ)/λ², S_k their scatter: the best for these rows.
3. Repeat until no row moves.

With a penalty it is KJ Algorithm 1: in step 1 a row opens a cluster if w times its distance to all
others exceeds the penalty. With the best μ and Σ, J = Σ_k λ² log|I + Φ⁻¹S_k| + penalty·k.

Departs from the paper: (a) Φ stays. In the paper it vanishes with σ², and then a cluster with few
rows sends log|Σ_k|, and with it J, to minus infinity. (b) log|Σ_k| is counted from Φ/λ², the Σ of a
single row, so that one more cluster costs exactly `penalty` in any unit; for a fixed k this is a
constant. (c) With a fixed k the minimum can still be one large cluster and k - 1 tiny ones, because
log|S_k| is concave: clusters of `min_cluster_size` rows give none away.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from madbayes._model.fitting import Options
from madbayes._rows.threads import patient
from madbayes._search.number import printed_number
from madbayes.elliptical import ellipse_kernels as kernels
from madbayes.elliptical.path import find_ellipses
from madbayes.elliptical.space import Division, Ellipses, divide, keep_size
from madbayes.kmeans.kmeans import KMeans


@dataclass(frozen=True)
class Printed:
    """Standardized rows and weights; Φ = φI, λ² = lam."""

    Y: np.ndarray
    w: np.ndarray
    phi: float
    lam: float
    penalty: float | None  # None: the number of clusters is fixed
    most: int  # clusters allowed (with a penalty), or wanted
    least: int  # rows that a cluster keeps, for a fixed number

    def objective(self, now: Division) -> float:
        """J with the best μ and Σ."""
        volume = float((now.L - self.Y.shape[1] * np.log(self.phi)).sum())
        return self.lam * volume + (self.penalty or 0.0) * now.k

    def division(self, labels: np.ndarray) -> Division:
        return divide(self.Y, self.w, labels, self.phi)


def objective(
    Y: np.ndarray, labels: np.ndarray, weight: np.ndarray, phi: float, lam: float, penalty: float
) -> float:
    """J of a division of standardized rows, with the best μ and Σ, by its formula."""
    total = 0.0
    for c in np.unique(labels):
        rows, w = Y[labels == c], weight[labels == c]
        u = rows - np.average(rows, axis=0, weights=w)
        S = (w[:, None] * u).T @ u
        total += lam * np.linalg.slogdet(np.eye(Y.shape[1]) + S / phi)[1] + penalty
    return float(total)


def assign(problem: Printed, now: Division) -> Division:
    """Steps 1 and 2, the number of clusters fixed."""
    labels = now.labels.copy()
    patient(kernels.assign, problem.Y, now.C, now.A, np.ones(now.k), np.zeros(now.k), labels)
    labels = keep_size(labels, now, problem.least)
    return now if np.array_equal(labels, now.labels) else problem.division(labels)


def assign_or_open(problem: Printed, now: Division) -> Division:
    """Step 1 with openings (KJ Algorithm 1), and step 2."""
    assert problem.penalty is not None
    n, d = problem.Y.shape
    cap = max(now.k, min(n, problem.most))
    C, A = np.empty((cap, d)), np.empty((cap, d, d))
    C[: now.k], A[: now.k] = now.C, now.A
    labels = np.empty(n, np.int64)
    first = np.eye(d) / problem.phi
    with np.errstate(over="ignore"):
        price = problem.penalty / np.float64(problem.lam)  # the kernel's distances lack λ²
    kernels.assign_or_open(problem.Y, problem.w, labels, C, A, now.k, first, price)
    return now if np.array_equal(labels, now.labels) else problem.division(labels)


def follow_paper(
    problem: Printed, seed: int, n_jobs: int | None, *, max_iter: int
) -> tuple[Division, list[float], bool]:
    """Steps 1 to 3: the division at the end, J after each pass, and whether it converged."""
    labels = np.zeros(len(problem.Y), np.int64)
    if problem.penalty is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KMeans(problem.most, random_state=seed, n_jobs=n_jobs)
            labels = model.fit(problem.Y, sample_weight=problem.w).labels_.astype(np.int64)
    step = assign if problem.penalty is None else assign_or_open
    now = problem.division(labels)
    history = [problem.objective(now)]
    for _ in range(max_iter):
        new = step(problem, now)  # 1. and 2.
        if new is now or not problem.objective(new) < history[-1]:  # 3.
            return now, history, True
        now = new
        history.append(problem.objective(now))
    return now, history, False


def print_ellipses(
    Y: np.ndarray,
    w: np.ndarray,
    options: Options,
    *,
    n_clusters: int | None,
    reg_covar: float,
    covariance_penalty: float | None,
    min_cluster_size: int | None,
) -> Ellipses:
    """The printed algorithm on standardized rows; "auto" takes the number from the search."""
    n, d = Y.shape
    phi = reg_covar * float(w.sum())
    lam = phi if covariance_penalty is None else float(covariance_penalty)
    least = d + 1 if min_cluster_size is None else min_cluster_size
    most = min(n, options.cap or n) if n_clusters is None else n_clusters
    problem = Printed(Y, w, phi, lam, None, most, least)
    seed = options.random_state.randint(2**31 - 1)

    def solve(penalty: float | None) -> tuple[Division, list[float], bool]:
        at = replace(problem, penalty=penalty)
        return follow_paper(at, seed, None, max_iter=options.max_iter)

    path, penalty = None, 0.0
    if n_clusters is not None:
        found = solve(None)
    elif options.penalty == "auto":
        path = find_ellipses(
            Y,
            w,
            options,
            n_clusters=None,
            reg_covar=0.1,
            covariance_penalty=None,
            min_cluster_size=None,
        ).path
        assert path is not None
        penalty, found = printed_number(solve, lambda f: f[0].k, path.best().number, lam / phi)
    else:
        penalty = options.penalty
        found = solve(penalty)
    now = found[0]
    Sigma = (now.S + phi * np.eye(d)) / lam
    return Ellipses(*found, penalty, lam, Sigma, np.zeros(now.k), path)
