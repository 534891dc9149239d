"""The hard HDP in the space of a kernel (KJ 5.2: it "can also easily be applied in kernel space").

Objective: that of `hard_hdp`, with φ(x) for x: Σ w ‖φ(x) - μ_z‖² + λ_l Σ_j k_j + λ_g g, where φ is
known only through κ(x, y) = φ(x)·φ(y).

1. Coordinates of the rows in the span of φ: rows of an incomplete Cholesky factor of the kernel
   matrix (`kernel/gram.py`), in which the squared distances are the kernel sums of KJ 5.2, exactly
   up to 1,024 rows, nearly above.
2. `HardHDP` on them, as printed or by search.
3. Error and distances of the result from the kernel itself.

Departs from the paper: KJ write each distance as sums over the kernel matrix, O(n) each.
Coordinates give the same numbers up to rounding from far fewer kernel values, and one code for both
estimators (docs/adr/0010).
"""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._model.novelty_mixin import Closest
from madbayes._rows.checks import check_rows, check_weight
from madbayes._rows.threads import workers
from madbayes._search.driver import never_rising
from madbayes._search.price import Price
from madbayes.groups.base import SharedClusters
from madbayes.groups.grouped_rows import check_groups, gather, usage
from madbayes.kernel.base import KernelMixin
from madbayes.kernel.gram import Gram, embed
from madbayes.kernel.space import FULL_RANK, RANK, KernelSpace, by_size


class KernelHardHDP(SharedClusters, KernelMixin):
    """`HardHDP` in the space of a kernel: shared clusters that need not be round.

    Use it when groups share clusters that are not round, or when only similarities are known.
    Penalties are in units of κ: with "rbf", squared distances lie between 0 and 2. With
    ``kernel="linear"`` it is `HardHDP`, only slower. For its size see the notes of `KernelDPMeans`.

    Parameters
    ----------
    penalty_local, penalty_global, algorithm, n_local_hint, n_global_hint, n_init, effort, max_iter
        As in `HardHDP`.
    kernel, gamma, degree, coef0, kernel_params
        As in `KernelDPMeans`.
    random_state, n_jobs
        As in `HardHDP`.

    Attributes
    ----------
    labels_, local_labels_, n_clusters_, n_local_clusters_, groups_
    penalty_local_, penalty_global_, objective_, inertia_, objective_history_, n_iter_, converged_
    evidence_, path_, relaxed_bound_, gap_
        As in `HardHDP`. There are no `cluster_centers_`: a centre is a mean of φ.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import KernelHardHDP
    >>> rng = np.random.default_rng(0)
    >>> places = np.array([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    >>> X = [np.repeat(places[pair], 4, axis=0) + rng.normal(size=(8, 2))
    ...      for pair in ([0, 1], [1, 2], [2, 3], [0, 3], [0, 2])]
    >>> model = KernelHardHDP(0.5, 1.0, gamma=0.05, random_state=0).fit(X)
    >>> model.n_clusters_, model.n_local_clusters_
    (4, array([2, 2, 2, 2, 2]))
    """

    def __init__(
        self,
        penalty_local: float | Literal["auto", "farthest-first"] = "auto",
        penalty_global: float | Literal["auto", "farthest-first"] = "auto",
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        algorithm: Literal["search", "paper", "spectral"] = "search",
        n_local_hint: int | None = None,
        n_global_hint: int | None = None,
        n_init: int = 1,
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty_local = penalty_local
        self.penalty_global = penalty_global
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.algorithm = algorithm
        self.n_local_hint = n_local_hint
        self.n_global_hint = n_global_hint
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Cluster the rows of X; see `HardHDP.fit`."""
        X, groups = gather(X, groups)
        X = check_rows(self, X)
        weight = check_weight(sample_weight, X.shape[0])
        found = check_groups(groups, X.shape[0])
        options = self._check()
        used, w = self._used_rows(X, sample_weight)
        with workers(self.n_jobs):
            gram = self._make_gram(X, used, w)
            some = self._coordinates(gram, w)  # 1.
            features = np.zeros((X.shape[0], some.shape[1]))
            features[used] = some
            _, _, labels = self._solve(features, weight, found, options)  # 2.
            space = KernelSpace(gram, w, Price(1.0, gram.n), some)
            division = space.division(labels[used])
        if self.algorithm != "paper":  # in an order that does not depend on the coordinates
            division = by_size(division)
            labels[used] = division.labels
            shape = (len(found.names), division.k)
            self._rows_of = usage(found.code[used], division.labels, shape)
        self.objective_ += division.inertia - self.inertia_  # 3.
        self.inertia_ = division.inertia
        history = [*self.objective_history_[:-1], self.objective_]
        self.objective_history_ = np.array(never_rising(history))
        if hasattr(self, "path_"):  # its centres are coordinates that nobody else knows
            self.path_ = replace(self.path_, centers=None)
        self._store_clusters(
            gram, w, division.labels, division.weights, np.diagonal(division.links)
        )
        left_out = np.flatnonzero(labels < 0)
        if left_out.size:
            gaps = self._gaps(X[left_out], None, False)
            labels[left_out] = self._nearest_of_group(gaps, found.code[left_out])
        self._store_labels(labels, found)
        self._calibrate_kernel(X, sample_weight)
        return self

    def _coordinates(self, gram: Gram, w: np.ndarray) -> np.ndarray:
        full = gram.n <= FULL_RANK
        features, exact = embed(gram, w, FULL_RANK if full else RANK)
        if full and not exact:
            raise ValueError(
                f"kernel={self.kernel!r} is not positive semidefinite on these rows, so it has no "
                "squared distances. Add a constant to the diagonal of a precomputed kernel, or "
                "take another one, such as 'rbf'."
            )
        return features

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit and return the distances of the rows of X to the means in kernel space."""
        self.fit(X, sample_weight=sample_weight, groups=groups)
        return self._transform_fitted(gather(X, None)[0])

    def predict(
        self, X: Any, novel: Any = False, diagonal: Any = None, groups: Any = None
    ) -> np.ndarray:
        """The cluster of each row of X; see `HardHDP.predict`, and `KernelDPMeans.predict` for
        `diagonal`."""
        return self._predict(X, novel, diagonal=diagonal, groups=groups)

    def novelty_score(self, X: Any, diagonal: Any = None, groups: Any = None) -> np.ndarray:
        """As in `DPMeans.novelty_score`, for the cluster that `predict` gives."""
        return self._score_novelty(self._closest(X, diagonal, groups))

    def _plain_labels(self, X: Any, **how: Any) -> np.ndarray:
        return self._closest(X, **how, need_distance=False).labels

    def _closest(
        self, X: Any, diagonal: Any = None, groups: Any = None, need_distance: bool = True
    ) -> Closest:
        check_is_fitted(self)
        X, groups = gather(X, groups)
        X = check_rows(self, X, reset=False)
        gaps = self._gaps(X, diagonal, need_distance)
        labels, d2, paid = self._cheapest(lambda a, b: gaps.T[:, a:b], X.shape[0], groups)
        return Closest(labels, d2, lambda rows: gaps[rows], paid)
