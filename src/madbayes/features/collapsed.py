"""Collapsed BP-means: BP-means with A always fitted (BKJ 4.1; Eq. 10).

Objective: J = min_A Σ_n w_n ‖x_n - z_n A‖² + λK = tr(Xᵀ(I - Z(ZᵀZ)⁻¹Zᵀ)X) + λK.

1. Row by row: choose z_n so that J is least, A refitting at once; drop redundant features; open a
   feature for the row alone if that lowers J.
2. Repeat 1 until nothing changes.

With row n out, A₋ and M₋ = (Z₋ᵀZ₋)⁻¹ fitted to the others, J(z) = J₋ + w‖x - zA₋‖²/(1 + w·zM₋zᵀ):
a rank-one downdate, O(K) for each flip that is looked at, and a rank-one update.

Departs from the paper: z_n is chosen by flipping the feature that helps most, until no flip helps.
A row without which columns of Z would depend on each other (its feature's only owner, say) has no
M₋; the dependent column goes first. A and M are computed afresh after each pass and every n flips.
After a pass, features that do not repay λ are dropped. After step 2 features are exchanged, each
time followed by steps 1 and 2, while that helps (`features/search.py`); an `effort` below
0.01 leaves that out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from madbayes._rows.checks import check_choice, check_count
from madbayes.features.allocation import Allocation
from madbayes.features.base import PenalizedFeatures
from madbayes.features.collapsed_pass import collapsed_pass
from madbayes.features.kfeatures import greedy
from madbayes.features.search import default_patience, exchange, few, search_start
from madbayes.features.solve import Features, Method


def objective(X: np.ndarray, Z: np.ndarray, penalty: float) -> float:
    """BKJ Eq. 10."""
    Z = Z.astype(float)
    A = np.linalg.lstsq(Z, X, rcond=None)[0]
    return float(((X - Z @ A) ** 2).sum()) + penalty * Z.shape[1]


def assign_or_open(state: Allocation, penalty: float, cap: int) -> int:
    """1. One pass over the rows; returns how many z changed."""
    return collapsed_pass(state, penalty, cap)


def collapsed_bp_means(
    state: Allocation,
    penalty: float,
    cap: int,
    target: float = np.inf,
    *,
    max_iter: int,
    on_step: Callable[[float], None] | None = None,
) -> bool:
    """Steps 1 and 2 from the present Z; whether they ended by themselves.

    Gives up when the last pass shows that J will not come below `target`.
    """
    before = np.inf
    for _ in range(max_iter):
        changed = assign_or_open(state, penalty, cap)  # 1.
        J = state.rss + penalty * state.K
        if on_step is not None:
            on_step(J)
        if not changed or J >= before:
            return True  # 2.
        if J - 30 * (before - J) > target:  # thirty more passes like this one would not do
            break
        before = J
    return False


class CollapsedBPMeans(PenalizedFeatures):
    """Collapsed BP-means: rows change features one by one, and features are always refitted.

    Minimises the objective of `BPMeans`. First, rows change their features until no change of one
    feature of one row lowers the objective. Then whole features are exchanged, as in `BPMeans`,
    while that helps.

    Parameters
    ----------
    penalty : float or "auto", default="auto"
        The cost of one more feature, in squared-distance units (λ² of the paper). "auto" chooses it
        by `penalties.feature_path`. The features of that path are the first start, and their number
        is kept.
    max_components : int or None
        Never more features than this.
    init : {"greedy", "empty"}, default="greedy"
        The mean and residuals drawn at random while the objective falls (BKJ 5), or no feature.
    n_init : int or "auto", default="auto"
        How many starts to try; the best result is kept. "auto" is 3 for small data, 1 otherwise.
    effort : float, default=1
        Patience: exchanges of features end after 10 to 60 times `effort` tries in vain (fewer for
        larger data, more for more features). Below 0.01 there are none: it stops where the paper
        stops.
    max_iter : int, default=300
        Passes at most.
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
    assignments_ : bool array of shape (n_rows, n_components_)
    n_components_ : int
        May be 0.
    penalty_ : float
    evidence_, path_ : Choice, Staircase
        After "auto": how many features and how sure, and the number for every other penalty.
    objective_ : float
        (Weighted) squared error + penalty × number of features.
    objective_history_ : array
        The objective after each pass; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.features import CollapsedBPMeans
    >>> X = np.array([[0.0, 0], [5, 0], [0, 3], [5, 3], [5, 3]])
    >>> CollapsedBPMeans(penalty=2.0, random_state=0).fit(X).n_components_
    2
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        max_components: int | None = None,
        init: str = "greedy",
        n_init: int | str = "auto",
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            penalty,
            max_components=max_components,
            n_init=n_init,
            effort=effort,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.init = init
        self.max_iter = max_iter

    def _method(self, shape: tuple[int, int]) -> Method:
        empty = check_choice("init", self.init, "greedy", "empty") == "empty"
        descend = partial(collapsed_bp_means, max_iter=check_count("max_iter", self.max_iter))
        effort = self._effort()
        patience = default_patience(shape, effort)

        def find(
            state: Allocation,
            rng: np.random.RandomState,
            penalty: float,
            cap: int,
            on_step: Callable[[float], None],
        ) -> bool:
            ended = descend(state, penalty, cap, on_step=on_step)
            return exchange(state, rng, penalty, cap, patience, on_step, descend) and ended

        def start(
            state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, given: bool
        ) -> Features:
            if not given and not empty:
                greedy(state, rng, penalty, cap)
            return search_start(find)(state, rng, penalty, cap, given)

        n_init = self._restarts(few(shape))
        return Method(start, n_init, effort=effort)
