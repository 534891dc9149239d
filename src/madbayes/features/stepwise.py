"""Stepwise K-features: one more feature as long as it pays (BKJ 5).

Objective: J = Σ_n w_n ‖x_n - z_n A‖² + λK (BKJ Eq. 6, with weights).

1. K = 0.
2. K-features with K + 1 features.
3. If J fell, K = K + 1 and again 2. Otherwise stop.

Departs from the paper: "until the objective decreases" (sic) is read as "until it stops
decreasing". Step 2 starts from the K features found before and one grown from the residuals, and
exchanges features while that helps, instead of 300 starts from nothing.
"""

from functools import partial

import numpy as np

from madbayes.features.allocation import Allocation
from madbayes.features.base import PenalizedFeatures
from madbayes.features.search import default_patience, few, search, search_start, settle
from madbayes.features.solve import Features, Method, finish

WORK = 2**31  # products of one start, about 2 s: after so many no features are exchanged any more


def objective(X: np.ndarray, Z: np.ndarray, A: np.ndarray, penalty: float) -> float:
    """BKJ Eq. 6."""
    return float(((X - Z.astype(float) @ A) ** 2).sum()) + penalty * Z.shape[1]


def one_more(state: Allocation, rng: np.random.RandomState, penalty: float, patience: int) -> bool:
    """2. K-features with one more feature, which should save more than the penalty."""
    goal = state.rss - penalty
    return search(state, rng, 0.0, state.K + 1, patience, goal=goal)


def stepwise(
    state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, patience: int
) -> Features:
    """Steps 1 to 3."""
    history = [state.rss]  # 1.
    converged = True
    n_iter = 0
    while state.K < cap:
        saved = state.save()
        ended = one_more(state, rng, penalty, patience if state.work < WORK else 0)  # 2.
        n_iter += 1
        J = state.rss + penalty * state.K
        if not J < history[-1]:  # 3.
            state.restore(saved)
            break
        converged = ended
        history.append(J)
    return finish(state, penalty, history, n_iter, converged)


class StepwiseKFeatures(PenalizedFeatures):
    """K-features that adds features while the objective falls.

    Minimises squared error + penalty × number of features, like `BPMeans`, one size after the
    other.

    Parameters
    ----------
    penalty : float or "auto", default="auto"
        The cost of one more feature, in squared-distance units (λ² of the paper). "auto" chooses it
        by `penalties.feature_path`. The features of that path are the first start, and their number
        is kept.
    max_components : int or None
        Never more features than this.
    n_init : int or "auto", default="auto"
        How many starts to try; the best result is kept. "auto" is 3 for small
        data, 1 otherwise.
    effort : float, default=1
        Patience: at each size, exchanges end after 3 to 15 times `effort` in a row were in vain
        (fewer for larger data, more for more features).
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The features, those that most rows have first.
    assignments_ : bool array of shape (n_rows, n_components_)
        Which features each row has.
    n_components_ : int
        May be 0.
    penalty_ : float
    evidence_, path_ : Choice, Staircase
        After "auto": how many features and how sure, and the number for every other penalty.
    objective_ : float
        (Weighted) squared error + penalty × number of features.
    objective_history_ : array
        The objective at each size; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.features import StepwiseKFeatures
    >>> X = np.array([[0.0, 0], [5, 0], [0, 3], [5, 3], [5, 3]])
    >>> StepwiseKFeatures(penalty=2.0, random_state=0).fit(X).n_components_
    2
    """

    def _method(self, shape: tuple[int, int]) -> Method:
        effort = self._effort()
        patience = default_patience(shape, effort)
        last_step = search_start(partial(search, patience=patience))

        def start(
            state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, given: bool
        ) -> Features:
            if given:
                return last_step(state, rng, penalty, cap, True)
            return stepwise(state, rng, penalty, cap, -(-patience // 4))

        return Method(start, self._restarts(few(shape)), settle=search_start(settle), effort=effort)
