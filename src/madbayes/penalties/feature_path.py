"""The number of features as a function of the penalty, and which penalty to take.

1. For K = 0, 1, 2, …: the least squared error E(K) that the search finds with K features, each
   search starting from the one before. It ends when further features save no more than features of
   noise do, σ²(√n + √d)² (the largest squared singular value of n×d noise).
2. E(K) + λK is least on the lower convex hull of E: K is best for λ from E(K) - E(K+1) to
   E(K-1) - E(K).
3. Of the K whose range lies above the noise, the one with the largest √K·log(λ_high/λ_low); λ is
   the geometric middle of its range. None: 0 features, and a λ above what the first would save.

Of many rows (more than `max_rows`) a random selection is used, and counted n/`max_rows` times.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from madbayes._engine.checks import check_count, check_table, check_weight
from madbayes._engine.feature_blocks import Allocation
from madbayes._engine.feature_search import search
from madbayes._engine.rows import Rows, segments
from madbayes._engine.threads import workers
from madbayes._search.staircase import lower_hull

MAX_ROWS = 10_000
WIDE_ROWS = 4000  # wide tables of up to so many rows are turned before the search
FLOOR = 1e-2  # without noise a range goes down to 0: no further than this part of its upper end


class FeatureChoice(NamedTuple):
    """What `FeaturePath.best` recommends."""

    penalty: float
    n_components: int
    score: float  # √K·log(λ_high/λ_low) above the noise; 0 where nothing rises above it


@dataclass(frozen=True)
class FeaturePath:
    """The staircase: how many features at which penalty.

    Attributes
    ----------
    n_components, penalty_low, penalty_high : arrays
        `n_components[i]` is best for ``penalty_low[i] <= penalty < penalty_high[i]``.
    objective : array
        The squared error with `n_components[i]` features; the objective at a penalty in the
        interval is ``objective[i] + penalty * n_components[i]``.
    noise_edge : array
        What one more feature would save if only noise were left.
    score : array
        How far each step of the staircase stands out.
    """

    n_components: np.ndarray
    penalty_low: np.ndarray
    penalty_high: np.ndarray
    objective: np.ndarray
    noise_edge: np.ndarray
    score: np.ndarray
    _assignments: list[np.ndarray] = field(repr=False)

    def at(self, penalty: float) -> int:
        """The entry that `penalty` falls into."""
        return int(np.argmin(self.objective + penalty * self.n_components))

    def assignments_at(self, penalty: float) -> np.ndarray:
        """Which features each row (of those used) has at this penalty."""
        return self._assignments[self.at(penalty)]

    def best(self) -> FeatureChoice:
        """The number of features that stands out, and the middle of its range of penalties."""
        i = int(np.argmax(self.score))
        if not self.score[i] > 0:
            penalty = 1.5 * float(max(self.noise_edge[0], self.penalty_low[0]))
            return FeatureChoice(penalty or 1.0, 0, 0.0)  # every row zero: any penalty
        low = max(self.penalty_low[i], self.noise_edge[i], FLOOR * self.penalty_high[i])
        penalty = float(np.sqrt(low) * np.sqrt(self.penalty_high[i]))
        return FeatureChoice(penalty, int(self.n_components[i]), float(self.score[i]))

    def plot(self, ax: Any = None) -> Any:
        """Draw the staircase; the chosen penalty and the noise are marked."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6, 4), layout="constrained").add_subplot()
        best = self.best().penalty
        top = 3 * float(np.max(self.penalty_high[np.isfinite(self.penalty_high)], initial=best))
        bottom = max(float(self.penalty_low[-1]), FLOOR * best) / 2
        edges = np.concatenate([[top], np.maximum(self.penalty_low[:-1], bottom), [bottom]])
        ax.stairs(self.n_components[::-1], edges[::-1], baseline=None, color="#0072B2", linewidth=2)
        ax.axvline(best, color="#D55E00", label=f"chosen: {best:.4g}")
        noise = float(self.noise_edge[self.at(best)])
        if noise > bottom:
            ax.axvspan(bottom, noise, color="0.9", label="no more than noise saves")
        ax.set(xscale="log", xlabel="penalty", ylabel="number of features")
        ax.yaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def feature_path(
    X: Any,
    *,
    max_components: int = 30,
    max_rows: int = MAX_ROWS,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> FeaturePath:
    """The number of features for each penalty (see `FeaturePath`).

    Parameters
    ----------
    X : array, table or CSR matrix
    max_components : int, default=30
        Go no further than this.
    max_rows : int, default=10_000
        Of more rows a random selection of this size is used; penalties are those for all rows.
    sample_weight : array or None
    random_state : int, RandomState or None
    n_jobs : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.penalties.feature_path import feature_path
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.random((200, 3)) < 0.5
    >>> X = Z @ np.eye(3, 12) * 4 + 0.3 * rng.standard_normal((200, 12))
    >>> path = feature_path(X, random_state=0)
    >>> path.best().n_components
    3
    """
    X = check_table(X)
    weight = check_weight(sample_weight, X.shape[0])
    cap = check_count("max_components", max_components)
    max_rows = check_count("max_rows", max_rows, low=2)
    rng = check_random_state(random_state)
    if weight is not None and (weight == 0).any():
        X, weight = X[weight > 0], weight[weight > 0]
    n, scale = X.shape[0], 1.0
    if n > max_rows:
        rows = np.sort(rng.permutation(n)[:max_rows])
        total = float(n if weight is None else weight.sum())
        X, weight = X[rows], None if weight is None else weight[rows]
        scale = total / float(max_rows if weight is None else weight.sum())
    with workers(n_jobs) as run:
        source = Rows(turn(X))
        state = Allocation(source, weight, run, segments(source.n, 16))
        errors, edges, found = climb(state, np.random.RandomState(rng.randint(2**31 - 1)), cap)
    return staircase(scale * errors, scale * edges, found)


def auto_penalty(X: Any, weight: np.ndarray | None, random_state: Any, n_jobs: int | None) -> float:
    """The penalty that ``penalty="auto"`` stands for."""
    path = feature_path(X, sample_weight=weight, random_state=random_state, n_jobs=n_jobs)
    return path.best().penalty


def turn(X: Any) -> Any:
    """Wide rows in coordinates of their own span: the same distances in n columns, not d."""
    n, d = X.shape
    if sp.issparse(X) or d <= 2 * n or n > WIDE_ROWS:
        return X
    triangle: Any = np.linalg.qr(X.T.astype(np.float64), mode="r")
    return np.ascontiguousarray(triangle.T)


def climb(
    state: Allocation, rng: np.random.RandomState, cap: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """1. Squared errors, noise edges and assignments for K = 0, 1, 2, …"""
    n, d = state.n, state.d
    errors, edges, found = [state.rss], [edge(state.rss, n, d, 0)], [state.Z.astype(bool)]
    in_vain = 0
    while state.K < min(cap, n - 1) and in_vain < 2 and errors[-1] > 1e-12 * errors[0]:
        K = state.K
        search(state, rng, 0.0, K + 1, patience=5 + K, goal=errors[-1] - edges[-1] / 2)
        if state.K == K:
            break
        errors.append(min(state.rss, errors[-1]))
        edges.append(edge(state.rss, n, d, state.K))
        found.append(state.Z.astype(bool))
        in_vain = in_vain + 1 if errors[-2] - errors[-1] <= edges[-1] else 0
    return np.array(errors), np.array(edges), found


def edge(error: float, n: int, d: int, K: int) -> float:
    """σ²(√n + √d)², with σ² what K features leave over."""
    return error / (max(n - K, 1) * d) * (np.sqrt(n) + np.sqrt(d)) ** 2


def staircase(errors: np.ndarray, edges: np.ndarray, found: list[np.ndarray]) -> FeaturePath:
    """2 and 3."""
    at = lower_hull(np.arange(len(errors)), errors)
    saves = -np.diff(errors[at]) / np.diff(at)
    high = np.concatenate([[np.inf], saves])
    low = np.concatenate([saves, [0.0]])
    floor = np.maximum(np.maximum(low, edges[at]), FLOOR * np.where(np.isinf(high), 0.0, high))
    score = np.zeros(len(at))
    pays = (at > 0) & (high > floor)
    score[pays] = np.sqrt(at[pays]) * np.log(high[pays] / floor[pays])
    return FeaturePath(at, low, high, errors[at], edges[at], score, [found[K] for K in at])
