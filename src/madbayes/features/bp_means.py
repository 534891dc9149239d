"""BP-means: K-features that finds the number of features (BKJ 3; Eq. 6 and 15).

Objective: J = Σ_n w_n ‖x_n - z_n A‖² + λK (BKJ Eq. 6, with weights; λ is the paper's λ²).

As printed (`algorithm="paper"`):

1. Row by row: for k = 1..K choose the better z_nk; then, if w‖x_n - z_n A‖² > λ, the row opens a
   feature of its own, equal to that residual (visible to the rows after it).
2. A = (ZᵀZ)⁻¹ZᵀX.
3. Repeat 1 and 2 until nothing changes.

By default (`algorithm="search"`) features are also grown from the residuals of many rows, dropped
and exchanged (`features/search.py`), each time with exact z and with A refitting at once,
until none of a number of tries helps. At the end no flip of one z_nk, no feature opened by one row
and no feature dropped lowers J, even with A refitted.

Departs from the paper: before step 2 empty columns of Z go, and columns that depend on those before
them (not only equal ones make ZᵀZ singular; col1 = col2 + col3 does too). The fit stays, and each
saves λ. A printed row opens a feature only when it alone repays λ, which is why there is a search.
"""

from functools import partial
from typing import Any

import numpy as np

from madbayes._rows.checks import check_choice, check_count
from madbayes.features.allocation import Allocation
from madbayes.features.base import PenalizedFeatures
from madbayes.features.kfeatures import greedy
from madbayes.features.search import default_patience, few, search, search_start, settle
from madbayes.features.solve import Features, Method, finish


def objective(X: np.ndarray, Z: np.ndarray, A: np.ndarray, penalty: float) -> float:
    """BKJ Eq. 6."""
    return float(((X - Z.astype(float) @ A) ** 2).sum()) + penalty * Z.shape[1]


def assign_or_open(state: Allocation, penalty: float, cap: int) -> int:
    """1. One pass over the rows; returns how many z changed."""
    return state.open_in_turn(penalty, cap)


def update_features(state: Allocation) -> None:
    """2. A by least squares on independent columns."""
    state.measure()
    state.refit()


def bp_means(state: Allocation, penalty: float, *, cap: int, max_iter: int) -> Features:
    """The printed algorithm from the present Z and A."""
    history: list[float] = []
    for n_iter in range(1, max_iter + 1):
        changed = assign_or_open(state, penalty, cap)  # 1.
        if not changed and n_iter > 1:
            return finish(state, penalty, history, n_iter, True)  # 3.
        update_features(state)  # 2.
        history.append(state.rss + penalty * state.K)
    return finish(state, penalty, history, max_iter, False)


class BPMeans(PenalizedFeatures):
    """BP-means: each row is a sum of features, and the number of features is found.

    Minimises squared error + penalty × number of features.

    Parameters
    ----------
    penalty : float or "auto", default="auto"
        The cost of one more feature, in squared-distance units (λ² of the paper): a feature stays
        if the squared error of all rows together would rise by more without it. "auto" chooses it
        by `penalties.feature_path`. The features of that path are the first start, and their number
        is kept.
    algorithm : {"search", "paper"}, default="search"
        "paper" is the printed algorithm, which opens a feature only where a single row repays the
        penalty.
    max_components : int or None
        Never more features than this.
    init : {"greedy", "empty"}, default="greedy"
        Where "paper" starts: the mean and residuals drawn at random while the objective falls
        (BKJ 5), or no feature. "search" needs no start.
    n_init : int or "auto", default="auto"
        How many starts to try; the best result is kept. "auto" is 10 for "paper" with "greedy", 3
        for "search" on small data, 1 otherwise.
    effort : float, default=1
        Patience of "search": it ends after 10 to 60 times `effort` tries in vain (fewer for larger
        data, more for more features).
    max_iter : int, default=300
        Passes at most ("paper").
    random_state : int, RandomState or None
        Seed. The result is the same to the bit for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The features; after "search" those that most rows have first.
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
        The objective on the way; never rises.
    n_iter_, converged_
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.features import BPMeans
    >>> X = np.array([[0.0, 0], [5, 0], [0, 3], [5, 3], [5, 3]])
    >>> model = BPMeans(penalty=2.0, random_state=0).fit(X)
    >>> model.n_components_, round(model.objective_, 6)
    (2, 4.0)
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        algorithm: str = "search",
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
        self.algorithm = algorithm
        self.init = init
        self.max_iter = max_iter

    def _method(self, shape: tuple[int, int]) -> Method:
        algorithm = check_choice("algorithm", self.algorithm, "search", "paper")
        empty = check_choice("init", self.init, "greedy", "empty") == "empty"
        max_iter = check_count("max_iter", self.max_iter)
        if algorithm == "search":
            effort = self._effort()
            n_init = self._restarts(few(shape))
            find = partial(search, patience=default_patience(shape, effort))
            return Method(search_start(find), n_init, settle=search_start(settle), effort=effort)

        def start(
            state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, given: bool
        ) -> Features:
            if not given and not empty:
                greedy(state, rng, penalty, cap)
            return bp_means(state, penalty, cap=cap, max_iter=max_iter)

        self._effort(unused_by="algorithm='paper'")
        return Method(start, self._restarts(1 if empty else 10), sorts=False, printed=True)
