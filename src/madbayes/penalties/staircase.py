"""What `path` returns: the staircase k(λ), and the step that the data supports."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from madbayes._engine.checks import check_penalty, check_table
from madbayes._engine.lloyd import nearest
from madbayes._engine.threads import workers


@dataclass(frozen=True)
class Choice:
    """The number of clusters that a path supports best, and how well.

    Attributes
    ----------
    penalty : float
        A penalty in the middle (of the logarithms) of the plateau of `n_clusters`.
    n_clusters : int
    strength : {"none", "weak", "moderate", "strong"}
        The evidence in a word. "none": one cluster, nothing stands out from noise.
    support : float
        The mean vote of the links between neighbouring clusters: 1 when all are apart beyond doubt,
        0 or less when they look like pieces of noise.
    confirmed : float
        The share of links that are significant at the 5 % level on rows that played no part in
        finding them.
    score : float
        The sum of the votes; the largest of all numbers of clusters that were tried.
    runners_up : tuple of (n_clusters, score), best first
    n_isolated : int
        Far, lonely rows (or clumps of up to five) that repay the penalty on their own: the best
        clustering at `penalty` has ``n_clusters + n_isolated`` clusters.
    """

    penalty: float
    n_clusters: int
    strength: str
    support: float
    confirmed: float
    score: float
    runners_up: tuple[tuple[int, float], ...]
    n_isolated: int

    def describe(self) -> str:
        """One sentence for a person."""
        others = ", ".join(str(k) for k, _ in self.runners_up[:3])
        if self.n_clusters == 1:
            text = "1 cluster: no division stands out from noise"
        else:
            text = (
                f"{self.n_clusters} clusters, evidence {self.strength} "
                f"({self.confirmed:.0%} of the divisions confirmed on held-out rows)"
            )
        if self.n_isolated:
            text += f", and {self.n_isolated} isolated beside"
        return f"{text}; next best: {others}" if others else text


@dataclass(frozen=True)
class PenaltyPath:
    """The staircase: how many clusters at which penalty.

    Attributes
    ----------
    n_clusters, penalty_low, penalty_high : arrays
        `n_clusters[i]` is best for ``penalty_low[i] <= penalty < penalty_high[i]``.
    objective : array
        The sum of squares with `n_clusters[i]` clusters; the objective at a penalty in the interval
        is ``objective[i] + penalty * n_clusters[i]``.
    scores : dict
        For each number of clusters that was examined its (score, confirmed share of links).

    For a large X all of it comes from a sample, scaled up.
    """

    n_clusters: np.ndarray
    penalty_low: np.ndarray
    penalty_high: np.ndarray
    objective: np.ndarray
    scores: dict[int, tuple[float, float]] = field(repr=False)
    _choice: int = field(repr=False)  # position of the best on the staircase
    _k_scored: int = field(repr=False)  # the k of `scores` it stands for
    _centers: tuple[np.ndarray, ...] = field(repr=False)
    _X: Any = field(repr=False)
    _unit: bool = field(repr=False, default=False)

    def labels_at(self, penalty: float, X: Any = None, n_jobs: int | None = None) -> np.ndarray:
        """Labels of the rows (of X, or those of the path) in the best division at `penalty`.

        The division is that of the path: `DPMeans(penalty)` starts from the same idea and goes on
        until nothing lowers the objective.
        """
        X = self._X if X is None else check_table(X)
        if X is None:
            raise ValueError(
                "this path does not hold the rows it was made of: pass them, labels_at(penalty, X)."
            )
        with workers(n_jobs) as run:
            return nearest(X, self.centers_at(penalty), run, unit=self._unit)

    def centers_at(self, penalty: float) -> np.ndarray:
        """The centres of the best division at `penalty`."""
        penalty = check_penalty(penalty)
        i = int(np.searchsorted(-self.penalty_low, -penalty))
        return self._centers[min(i, len(self._centers) - 1)]

    def best(self) -> Choice:
        """The number of clusters that the data supports best; 1 when nothing stands out."""
        i, k = self._choice, self._k_scored
        best_score, confirmed = self.scores[k]
        support = best_score / (k - 1) if k > 1 else 0.0
        low, high = self.penalty_low[i], self.penalty_high[i]
        if not np.isfinite(high):  # beyond the whole sum of squares no split can ever pay
            high = max(self.objective[0], low)
        if high <= 0:  # all rows equal: any penalty
            low = high = 1.0
        # By score; where that is negative (no better than noise) by the mean vote of the links.
        rank = {j: s if s >= 0 else s / (j - 1) for j, (s, _) in self.scores.items()}
        runners = sorted((j for j in rank if j != k), key=lambda j: (-round(rank[j], 1), j))[:5]
        runners += [j for j in self._widest_plateau() if j != k and j not in runners]
        return Choice(
            penalty=float(np.sqrt(low) * np.sqrt(high)) if low > 0 else float(high) / 2,
            n_clusters=k,
            strength=strength(k, support, self.scores),
            support=support,
            confirmed=confirmed,
            score=best_score,
            runners_up=tuple((j, self.scores[j][0]) for j in runners),
            n_isolated=int(self.n_clusters[i]) - k,
        )

    def _widest_plateau(self) -> list[int]:
        """The k with the largest √k·log(λ_high/λ_low) among those whose neighbours were examined.

        It sees overlapping clusters in several dimensions, where no valley is left between them.
        """
        gain: dict[int, float] = {}
        for i in range(1, len(self.n_clusters) - 1):
            k, low, high = int(self.n_clusters[i]), self.penalty_low[i], self.penalty_high[i]
            if {k - 1, k, k + 1} <= set(self.scores) and low > 0:
                gain[k] = float(np.sqrt(k) * np.log(high / low))
        return [max(gain, key=lambda k: gain[k])] if gain else []

    def plot(self, ax: Any = None) -> Any:
        """k against the penalty, plateau and runners-up marked; needs matplotlib."""
        from madbayes.penalties.draw import draw_path

        return draw_path(self, ax)

    def without_rows(self) -> "PenaltyPath":
        """The same path without the rows it was made of, for keeping."""
        return replace(self, _X=None)


def strength(k: int, support: float, scores: dict[int, tuple[float, float]]) -> str:
    """In words; one step down when a k elsewhere, a peak of its own, scores nearly as much."""
    if k == 1 or support <= 0:
        return "none"
    ks = sorted(scores)
    level = (support > 1 / 3) + (support > 2 / 3)
    for before, j, after in zip(ks[:-2], ks[1:-1], ks[2:], strict=True):
        peak = scores[j][0] > max(scores[before][0], scores[after][0])
        if peak and abs(j - k) > max(1, k / 10) and scores[j][0] > 0.75 * scores[k][0]:
            level = max(level - 1, 0)
            break
    return ("weak", "moderate", "strong")[level]


def lower_hull(ks: np.ndarray, sse: np.ndarray) -> np.ndarray:
    """Positions on the lower convex hull of (k, SSE), from the smallest k, strictly falling."""
    keep: list[int] = []
    for i in range(len(ks)):
        if keep and sse[i] >= sse[keep[-1]]:
            continue
        while len(keep) > 1 and (sse[keep[-2]] - sse[keep[-1]]) * (ks[i] - ks[keep[-1]]) <= (
            sse[keep[-1]] - sse[i]
        ) * (ks[keep[-1]] - ks[keep[-2]]):
            keep.pop()
        keep.append(i)
    return np.array(keep)
