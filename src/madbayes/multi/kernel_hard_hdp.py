"""The hard HDP in the space of a kernel (KJ 5.2: it "can also easily be applied in kernel space").

Objective: that of `hard_hdp`, with φ(x) for x: Σ w ‖φ(x) - μ_z‖² + λ_l Σ_j k_j + λ_g g, where φ is
known only through κ(x, y) = φ(x)·φ(y).

1. Coordinates of the rows in the span of φ (`kernel_features`), in which the squared distances are
   the kernel sums of KJ 5.2.
2. `hard_hdp` or its search on them.

Departs from the paper: KJ write each distance as sums over the kernel matrix, O(n) each.
Coordinates give the same numbers up to rounding from far fewer kernel values, and one code for both
estimators (docs/adr/0010).
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from madbayes._engine.checks import check_weight, without_arrow
from madbayes._engine.groups import check_groups, gather
from madbayes._engine.kernel_features import KernelFeatures
from madbayes._engine.threads import workers
from madbayes.multi.hard_hdp import SharedClusters


class KernelHardHDP(SharedClusters, ClusterMixin, BaseEstimator):
    """`HardHDP` in the space of a kernel: shared clusters that need not be round.

    Use it when `HardHDP` would fit but for the shape of the clusters, or when only similarities are
    known. Penalties are in units of κ: with "rbf", squared distances lie between 0 and 2. It needs
    the rows in memory and grows with n·r², r being the rank of the kernel (at most n): some
    thousand rows. With ``kernel="linear"`` it is `HardHDP`, only slower.

    Parameters
    ----------
    penalty_local, penalty_global, algorithm, n_local_hint, n_global_hint, n_init, max_iter
        As in `HardHDP`.
    kernel : str or callable, default="rbf"
        A name that `sklearn.metrics.pairwise.pairwise_kernels` knows, a function of two rows, or
        "precomputed": X is then the symmetric matrix of κ, and for `predict` that of new rows
        against the rows of `fit`.
    gamma, degree, coef0
        Of the kernels that have them.
    random_state, n_jobs
        As in `HardHDP`.

    Attributes
    ----------
    labels_, local_labels_, n_clusters_, n_local_clusters_, groups_
    penalty_local_, penalty_global_, objective_, inertia_, objective_history_, n_iter_, converged_
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
        penalty_local: float | str = "auto",
        penalty_global: float | str = "auto",
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        algorithm: str = "search",
        n_local_hint: int | None = None,
        n_global_hint: int | None = None,
        n_init: int = 1,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            penalty_local,
            penalty_global,
            algorithm=algorithm,
            n_local_hint=n_local_hint,
            n_global_hint=n_global_hint,
            n_init=n_init,
            max_iter=max_iter,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Cluster the rows of X; see `HardHDP.fit`."""
        X, groups = gather(X, groups)
        X = validate_data(self, without_arrow(X), dtype=np.float64)
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(f"kernel='precomputed' needs a square X, not one of shape {X.shape}.")
        weight = check_weight(sample_weight, X.shape[0])
        found = check_groups(groups, X.shape[0])
        self._check()
        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        self._features = KernelFeatures(self.kernel, **options)
        with workers(self.n_jobs) as run:
            phi = self._features.fit(X)
            rows, centers, labels = self._solve(phi, weight, found, run)
        self._centers = centers + rows.offset
        left_out = np.flatnonzero(labels < 0)
        if left_out.size:
            labels[left_out] = self._nearest_of_group(
                ((phi[left_out, None] - self._centers) ** 2).sum(axis=2), found.code[left_out]
            )
        self._store_labels(labels, found)
        return self

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit and return `labels_`."""
        return self.fit(X, sample_weight=sample_weight, groups=groups).labels_

    def predict(self, X: Any, groups: Any = None, novel: bool = False) -> np.ndarray:
        """The cluster of each row of X; see `HardHDP.predict`.

        With ``kernel="precomputed"`` X has the kernel of each new row with the rows of `fit`, which
        does not tell κ(x, x): ``novel=True`` is not possible then.
        """
        check_is_fitted(self)
        X, groups = gather(X, groups)
        X = validate_data(self, without_arrow(X), reset=False, dtype=np.float64)
        if novel and self._precomputed:
            raise ValueError(
                "novel=True needs κ(x, x) of the new rows, which a precomputed kernel between new "
                "and old rows does not have."
            )
        phi = self._features.transform(X)
        outside = np.zeros(len(X))
        if novel:
            outside = np.maximum(self._features.norms(X) - (phi**2).sum(axis=1), 0.0)

        def distances(a: int, b: int) -> np.ndarray:
            gaps = [((phi[a:b] - center) ** 2).sum(axis=1) for center in self._centers]
            return np.array(gaps) + outside[a:b]

        return self._cheapest(distances, len(X), groups, novel)

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags
