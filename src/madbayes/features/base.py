"""What the feature models share: starts in threads, `transform` and back, the fitted attributes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from madbayes._engine.checks import check_count, check_penalty, check_rows, check_weight
from madbayes._engine.feature_blocks import Allocation
from madbayes._engine.rows import Rows, segments
from madbayes._engine.threads import Run, workers
from madbayes.penalties.feature_path import auto_penalty, turn


@dataclass(frozen=True)
class Features:
    """Where one start ended."""

    assignments: np.ndarray
    components: np.ndarray
    objective: float
    history: list[float]
    n_iter: int
    converged: bool


def finish(
    state: Allocation, penalty: float, history: list[float], n_iter: int, converged: bool
) -> Features:
    """Measure the objective afresh, rows of weight 0 with the rest."""
    if state.weight.shape[0] and not state.weight.all():
        Z = state.Z.copy()
        state.assign("exact")
        state.Z[state.weight > 0] = Z[state.weight > 0]
    state.measure()
    objective = state.rss + penalty * state.K
    fell = [J for i, J in enumerate(history) if J > objective and (i == 0 or J < min(history[:i]))]
    fell.append(objective)  # rounding aside, the objective on the way
    history = fell
    return Features(state.Z, state.A, objective, history, n_iter, converged)


def new_state(source: Rows, weight: np.ndarray | None, run: Run) -> Allocation:
    return Allocation(source, weight, run, segments(source.n, 16))


def best_start(
    X: Any,
    weight: np.ndarray | None,
    start: Callable[[Allocation, np.random.RandomState], Features],
    n_init: int,
    random_state: Any,
    n_jobs: int | None,
    as_is: bool = False,
) -> Features:
    """The best of `n_init` starts; the first of equals. Small data: a thread for each start."""
    seeds = check_random_state(random_state).randint(2**31 - 1, size=n_init)
    turned = X if as_is else turn(X)
    source = Rows(turned)
    with workers(n_jobs) as run:
        blocks = len(segments(source.n, 16)) > 1

        def serial(function: Callable[[Any], Any], items: Any) -> list[Any]:
            return [function(item) for item in items]

        def one(seed: int) -> Features:
            state = new_state(source, weight, run if blocks else serial)
            return start(state, np.random.RandomState(seed))

        results = [one(seed) for seed in seeds] if blocks else run(one, seeds)
        best = min(results, key=lambda result: result.objective)
        if turned is X:
            return best
        state = new_state(Rows(X), weight, run)  # the components in the columns of X
        state.put(best.assignments, np.zeros((best.components.shape[0], X.shape[1])))
        state.refit(reduce=False)
        return Features(**{**best.__dict__, "components": state.A})


class FeaturesMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Estimators with `components_` and `assignments_`."""

    n_jobs: int | None
    random_state: Any
    penalty: float | str
    max_components: int | None
    components_: np.ndarray
    assignments_: np.ndarray

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit and return the features of each row of X."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def transform(self, X: Any) -> np.ndarray:
        """Which features each row of X has, (n_rows, n_components) booleans.

        All combinations are compared up to 12 features; beyond that by branch and bound.
        """
        return self._allocate(X).Z.astype(bool)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """The sums of features, ZA."""
        check_is_fitted(self)
        Z = check_array(Z, dtype=self.components_.dtype, ensure_min_features=0)
        if Z.shape[1] != self.components_.shape[0]:
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but the model has {self.components_.shape[0]} "
                "features; pass what transform returns."
            )
        return Z @ self.components_

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the squared error of the rows of X: larger is better."""
        return -self._allocate(X, sample_weight).rss

    def _allocate(self, X: Any, sample_weight: Any = None) -> Allocation:
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        weight = check_weight(sample_weight, X.shape[0])
        A = np.asarray(self.components_, dtype=np.float64)
        with workers(self.n_jobs) as run:
            state = new_state(Rows(X), weight, run)
            state.put(np.zeros((X.shape[0], A.shape[0])), A)
            while state.assign("exact"):  # again from closer by, for the last digits
                pass
        return state

    def _cap(self, X: Any) -> int:
        """`max_components`, or as many features as rows."""
        if self.max_components is None:
            return int(X.shape[0])
        return min(X.shape[0], check_count("max_components", self.max_components))

    def _find_penalty(self, X: Any, weight: np.ndarray | None) -> float:
        """`penalty`, once it is a number."""
        penalty = check_penalty(self.penalty, "auto", of="feature")
        if penalty == "auto":
            penalty = auto_penalty(X, weight, self.random_state, self.n_jobs)
        return float(penalty)

    def _store(self, result: Features, X: Any) -> None:
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge; rows still change their features. "
                "Raise max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.components_ = result.components.astype(np.float32 if X.dtype == np.float32 else float)
        self.assignments_ = result.assignments.astype(bool)
        self.n_components_ = result.components.shape[0]
        self.objective_ = result.objective
        self.objective_history_ = np.array(result.history)
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def by_size(result: Features, weight: np.ndarray | None) -> Features:
    """The features that most rows have first."""
    count = result.assignments.T @ (np.ones(len(result.assignments)) if weight is None else weight)
    order = np.argsort(-count, kind="stable")
    return Features(
        **{
            **result.__dict__,
            "assignments": result.assignments[:, order],
            "components": result.components[order],
        }
    )
