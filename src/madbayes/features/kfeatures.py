"""K-features: rows as sums of a given number of features (BKJ Eq. 14).

Objective: J = Σ_n w_n ‖x_n - z_n A‖², z_n in {0, 1}^K (with weights).

0. Start (BKJ 5): the first feature is the mean and everybody has it; each further one is the
   residual of a row drawn with probability proportional to its squared length.
1. For each row choose z_n, A fixed.
2. A = (ZᵀZ)⁻¹ZᵀX.
3. Repeat 1 and 2 until nothing changes.

Departs from the paper: step 1 as printed goes through the features once, one at a time
(`assignment="coordinate"`); by default it takes the best of all 2^K combinations (branch and bound
beyond 12 features). Where columns of Z depend on each other, A is the smallest of the best. After
step 3 features are exchanged for others grown from the residuals while that helps
(`features/search.py`); an `effort` below 0.01 leaves that out. In step 0 "the nth distance" is read
as the residual of row n.
"""

from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from madbayes._rows.checks import check_choice, check_count
from madbayes._rows.threads import workers
from madbayes.features.allocation import Allocation
from madbayes.features.base import FeaturesMixin
from madbayes.features.search import (
    FEW_NODES,
    SMALL,
    default_patience,
    search,
    search_start,
    settle,
)
from madbayes.features.segment import Bounds
from madbayes.features.solve import Features, Method, best_start, finish, in_order
from madbayes.features.table import open_table


def objective(X: np.ndarray, Z: np.ndarray, A: np.ndarray) -> float:
    """BKJ Eq. 14."""
    return float(((X - Z.astype(float) @ A) ** 2).sum())


def greedy(state: Allocation, rng: np.random.RandomState, penalty: float, cap: int) -> None:
    """0. The start of BKJ 5: the mean for all rows, then residuals of rows drawn by squared error.

    With penalty 0 up to `cap` features, otherwise as long as J falls.
    """
    if cap < 1:
        return
    before, saved = state.objective(penalty), state.save()
    state.add(state.everybody(), np.zeros(state.d))
    state.measure()
    state.refit()
    state.measure()
    if penalty > 0 and state.objective(penalty) >= before:
        state.restore(saved)
    while state.K < cap:
        rows = state.draw(rng, 1)
        if rows.size == 0:
            break
        before, saved = state.objective(penalty), state.save()
        a = state.residuals(rows)
        state.add(state.nearer(a[0]), a[0])
        state.measure()
        if state.objective(penalty) >= before:
            state.restore(saved)
            break


def assign(state: Allocation, how: str) -> int:
    """1. Each row's z; returns how many changed."""
    return state.assign(how)


def update_features(state: Allocation) -> None:
    """2. A by least squares."""
    state.refit_all()


def k_features(
    state: Allocation, *, assignment: str, max_iter: int, bounds: Bounds | None = None
) -> tuple[list[float], int, bool]:
    """Steps 1 to 3 from the present Z and A; the objective after each pass, passes, converged.

    With `bounds`, rows that provably keep their z are skipped, and a pass that gains less than
    1e-5 of the objective is the last: a search follows.
    """
    history: list[float] = []
    least = 0.0 if bounds is None else 1e-5
    for n_iter in range(1, max_iter + 1):
        changed = assign(state, assignment) if bounds is None else state.assign_some(bounds)  # 1.
        if not changed and n_iter > 1:
            return history, n_iter, True  # 3.
        update_features(state)  # 2.
        if history and state.rss >= history[-1] * (1 - least):
            return history, n_iter, True
        history.append(state.rss)
    return history, max_iter, False


def pad(result: Features, k: int) -> Features:
    """Features that nobody needs are zero."""
    more, Z = k - result.components.shape[0], result.assignments
    return Features(
        **{
            **result.__dict__,
            "components": np.pad(result.components, ((0, more), (0, 0))),
            "assignments": np.pad(result.assignments, ((0, 0), (0, more))) if more else Z,
        }
    )


class KFeatures(FeaturesMixin):
    """K-features: each row is a sum of some of `n_components` features.

    Like k-means, but a row may belong to any number of groups, and to none. Minimises the squared
    error. `BPMeans` finds the number of features.

    Parameters
    ----------
    n_components : int, default=8
        The number of features. Where fewer give the rows exactly, the rest is zero.
    assignment : {"exact", "coordinate"}, default="exact"
        How a row finds its features: the best of all combinations, or one feature after the other
        as printed in the paper.
    init : "greedy" or array of shape (n_components, n_features)
        The first features: the mean and residuals drawn at random (BKJ 5), or given ones.
    n_init : int or "auto", default="auto"
        How many starts to try; the best result is kept. "auto" is 3; given features are one start.
    effort : float, default=1
        Patience: after convergence, exchanges of features end when 10 to 60 times `effort` in a row
        were in vain (fewer for larger data). Below 0.01 there are none, and the fit stops where the
        paper stops, as ``assignment="coordinate"`` always does.
    max_iter : int, default=300
        Passes at most before the exchanges.
    random_state : int, RandomState or None
        Seed for the starts. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The features, those that most rows have first.
    assignments_ : bool array of shape (n_rows, n_components)
        Which features each row has: what `transform` says of the rows of the fit. With
        ``assignment="coordinate"`` a row may be left with a combination that is not its best;
        `transform` always gives the best.
    objective_ : float
        The (weighted) squared error.
    objective_history_ : array
        The objective on the way; never rises.
    n_components_, n_iter_, converged_
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.features import KFeatures
    >>> X = np.array([[0.0, 0], [5, 0], [0, 3], [5, 3], [5, 3]])
    >>> model = KFeatures(n_components=2, random_state=0).fit(X)
    >>> round(model.objective_, 6)
    0.0
    >>> model.inverse_transform(model.transform([[5.1, 2.9]])).round(6).tolist()
    [[5.0, 3.0]]
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        assignment: str = "exact",
        init: Any = "greedy",
        n_init: int | str = "auto",
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.assignment = assignment
        self.init = init
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the features of the rows of X."""
        k = check_count("n_components", self.n_components)
        table = open_table(self, X, sample_weight)
        given = self._given(table.d, k)
        method = self._method((table.n, table.d), given)
        if table.remote and not method.printed:
            raise ValueError(
                "KFeatures fits Dask tables as printed: use assignment='coordinate', or "
                "assignment='exact' with effort=0, which leaves out the exchanges of features."
            )
        rng = check_random_state(self.random_state)
        with workers(self.n_jobs):
            result = best_start(table, method, 0.0, k, rng)
        self._store(pad(in_order(result, table, method.sorts), k), table)
        self._settle_ties(table)
        return self

    def _method(self, shape: tuple[int, int], given: np.ndarray | None) -> Method:
        assignment = check_choice("assignment", self.assignment, "exact", "coordinate")
        max_iter = check_count("max_iter", self.max_iter)
        printed = assignment == "coordinate"
        effort = self._effort("assignment='coordinate'" if printed else None)
        patience = 0 if printed else default_patience(shape, effort)

        def start(
            state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, _: bool
        ) -> Features:
            if given is None:
                greedy(state, rng, penalty, cap)
            else:
                state.put_features(given)
            large = patience > 0 and state.n * state.d > SMALL
            bounds = Bounds() if large else None
            if patience:
                state.most_nodes = FEW_NODES
            history, n_iter, converged = k_features(
                state, assignment=assignment, max_iter=max_iter, bounds=bounds
            )
            if patience:
                converged = search(state, rng, penalty, cap, patience, history.append)
            return finish(state, penalty, history, n_iter, converged)

        n_init = self._restarts(3)
        if given is not None:
            return Method(start, 1, sorts=False, turns=False, printed=not patience)
        settled = search_start(settle) if patience else None
        return Method(start, n_init, settle=settled, printed=not patience)

    def _given(self, d: int, k: int) -> np.ndarray | None:
        if isinstance(self.init, str):
            check_choice("init", self.init, "greedy")
            return None
        A = np.array(self.init, dtype=np.float64, order="C")
        if A.shape != (k, d) or not np.isfinite(A).all():
            raise ValueError(
                f"init has shape {A.shape}; {k} features of {d} finite numbers are needed: "
                f"{(k, d)}."
            )
        return A
