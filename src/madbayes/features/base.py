"""What the feature models share: checks, starts, what "auto" leaves, `transform` and back."""

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from madbayes._model.assignments import AssignmentsMixin
from madbayes._model.callbacks import CallbacksMixin
from madbayes._model.dispatch import anywhere
from madbayes._model.fitting import check_effort, forget
from madbayes._rows.checks import check_count, check_penalty, check_rows
from madbayes._rows.threads import workers
from madbayes._storage.saving import SaveMixin
from madbayes.features.allocation import Allocation
from madbayes.features.path import climb_path
from madbayes.features.search import NO_SEARCH
from madbayes.features.solve import Features, Method, best_start, in_order
from madbayes.features.table import Table, check_table_to_fit, open_table

TIE = 1e-12  # of a row's sum of squares: errors that differ by less are equal up to rounding


class FeaturesMixin(SaveMixin, CallbacksMixin, AssignmentsMixin, BaseEstimator):
    """The feature models: `transform`, `score`, and what a fit stores."""

    _reads_blocks = True
    n_init: int | str
    effort: float
    random_state: Any
    n_jobs: int | None

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit and return the features of each row of X."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    @anywhere
    def transform(self, X: Any) -> np.ndarray:
        """Which features each row of X has, (n_rows, n_components) booleans.

        All combinations are compared up to 12 features; beyond that by branch and bound.
        """
        return self._allocate(X)[0].Z.astype(bool)

    @anywhere
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the squared error of the rows of X: larger is better."""
        state, unit = self._allocate(X, sample_weight)
        return -state.rss * unit

    def _allocate(self, X: Any, sample_weight: Any = None) -> tuple[Allocation, float]:
        check_is_fitted(self)
        A = np.asarray(self.components_, dtype=np.float64)
        table = check_table_to_fit(check_rows(self, X, reset=False), sample_weight, A)
        return self._allocate_table(table), table.unit

    def _allocate_table(self, table: Table) -> Allocation:
        """Each row with the features that describe it best."""
        with workers(self.n_jobs):
            state = Allocation(table.rows)
            state.put_features(self.components_)
            while state.assign("exact"):  # again from closer by, for the last digits
                pass
        return state

    def _settle_ties(self, table: Table) -> None:
        """Of combinations that describe a row equally well `assignments_` gets that of `transform`.

        A printed algorithm may leave rows with combinations that are not the best: these stay.
        """
        if table.remote:
            return
        best, Z = self._allocate_table(table), self.assignments_
        other = np.flatnonzero((best.Z != Z).any(axis=1))
        if other.size:
            rows, A = table.rows.take(other), self.components_.astype(np.float64)
            error = ((rows - Z[other].astype(np.float64) @ A) ** 2).sum(axis=1)
            tied = other[error <= best.error[other] + TIE * (rows**2).sum(axis=1)]
            Z[tied] = best.Z[tied]

    def _restarts(self, auto: int) -> int:
        """`n_init`, where "auto" stands for `auto`."""
        return auto if self.n_init == "auto" else check_count("n_init", self.n_init)

    def _effort(self, unused_by: str | None = None) -> float:
        """`effort`; an algorithm without a search takes no other than the default."""
        effort = check_effort(self.effort)
        if unused_by and effort != 1 and effort >= NO_SEARCH:
            raise ValueError(
                f"effort={self.effort!r} is the patience of a search, and {unused_by} has none: "
                "leave it at 1."
            )
        return effort

    def _store(self, result: Features, table: Table) -> None:
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge; rows still change their features. "
                "Raise max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        single = table.dtype == np.float32
        self.components_ = result.components.astype(np.float32 if single else np.float64)
        self.assignments_ = result.assignments.astype(bool)
        self.n_components_ = result.components.shape[0]
        self.objective_ = result.objective * table.unit
        self.objective_history_ = np.array(result.history) * table.unit
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PenalizedFeatures(FeaturesMixin):
    """Those that find the number of features: one `fit`, in which only the method differs."""

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        max_components: int | None = None,
        n_init: int | str = "auto",
        effort: float = 1.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.max_components = max_components
        self.n_init = n_init
        self.effort = effort
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _method(self, shape: tuple[int, int]) -> Method:
        """Check the parameters of the algorithm; how one start is made."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the features of the rows of X."""
        table = open_table(self, X, sample_weight)
        penalty = check_penalty(self.penalty, "auto", of="feature")
        cap = table.n
        if self.max_components is not None:
            cap = min(cap, check_count("max_components", self.max_components))
        method = self._method((table.n, table.d))
        if table.remote and (penalty == "auto" or not method.printed):
            raise ValueError(
                f"{type(self).__name__} does not fit Dask tables so: use BPMeans with "
                "algorithm='paper' and a penalty that is a number. The penalty_ of a sample is on "
                "the scale of its rows: multiply it by the number of rows that each stands for."
            )
        rng = check_random_state(self.random_state)
        forget(self)
        with workers(self.n_jobs):
            if penalty == "auto":
                result, penalty = self._fit_auto(table, cap, method, rng)
            else:
                result = best_start(table, method, penalty / table.unit, cap, rng)
        self.penalty_ = float(penalty)
        self._store(in_order(result, table, method.sorts), table)
        self._settle_ties(table)
        return self

    def _fit_auto(
        self, table: Table, cap: int, method: Method, rng: np.random.RandomState
    ) -> tuple[Features, float]:
        """The path first; its allocation is the first start, and its number of features stays."""
        path, first = climb_path(table, cap, method.effort, rng)
        choice = path.best()
        K = choice.n_components
        result = best_start(*(table, method, choice.penalty / table.unit, cap, rng), first=first(K))
        if result.components.shape[0] != K:  # on all rows a feature turned out to be one too many
            K = result.components.shape[0]
            others = tuple(other for other in choice.runners_up if other[0] != K)
            choice = replace(choice, number=K, runners_up=others)
        self.path_ = replace(path, choice=choice)
        self.evidence_ = choice
        return result, choice.penalty
