"""Coordinates for a kernel: rows φ with φ(x)·φ(y) = κ(x, y), by a pivoted Cholesky factor.

Only the columns of the pivots are ever computed: O(n·r) values for r pivots, not n². Squared
distances to means are then those of KJ 5.2, κ(x,x) - 2Σκ(x,x_i)/n_c + ΣΣκ(x_i,x_j)/n_c², up to
rounding, and cost O(r) each. A new row has coordinates from its kernel with the pivots alone.
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import pairwise_kernels

from madbayes._engine.gram import ANYWHERE, pivoted_cholesky

ASKEW = 1e-6  # share of the largest κ(x, x) by which the factor may miss an entry
CHECKED = 64  # columns that are compared with the factor
BLOCK = 128


class KernelFeatures:
    """`fit` gives the coordinates of its rows, `transform` those of others."""

    def __init__(self, kernel: Any, **options: Any) -> None:
        self.kernel = kernel
        self.options = options

    def fit(self, X: np.ndarray) -> np.ndarray:
        """(n, r) coordinates."""
        self._given = isinstance(self.kernel, str) and self.kernel == "precomputed"
        self._shift = X.mean(axis=0) if self.kernel in ANYWHERE else 0.0
        self._X = X if self._given else X - self._shift
        norms = self.norms(X)
        G, self._pivots, left = pivoted_cholesky(
            lambda i: self._columns([i])[:, 0], norms, len(norms)
        )
        phi = np.ascontiguousarray(G.T) if len(G) else np.zeros((len(norms), 1))
        self._corner = phi[self._pivots, : len(G)]
        self._check(phi, left, max(float(norms.max()), 0.0))
        self._X = None if self._given else self._X[self._pivots]
        return phi

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Coordinates of other rows, in the span of those of `fit`."""
        if not self._pivots.size:
            return np.zeros((X.shape[0], 1))
        near = X[:, self._pivots] if self._given else self._kernel(X - self._shift, self._X)
        return solve_triangular(self._corner, near.T, lower=True).T

    def norms(self, X: np.ndarray) -> np.ndarray:
        """κ(x, x) of each row; of a precomputed kernel, its diagonal."""
        if self._given:
            return np.array(X.diagonal(), dtype=np.float64)
        X = X - self._shift
        blocks = [X[a : a + BLOCK] for a in range(0, len(X), BLOCK)]
        return np.concatenate([self._kernel(block, block).diagonal() for block in blocks])

    def _kernel(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        options = self.options
        K = pairwise_kernels(X, Y, metric=self.kernel, filter_params=True, **options)
        return np.asarray(K, dtype=np.float64)

    def _columns(self, index: Any) -> np.ndarray:
        return self._X[:, index] if self._given else self._kernel(self._X, self._X[index])

    def _check(self, phi: np.ndarray, left: np.ndarray, top: float) -> None:
        """Not every table of similarities is a kernel."""
        n = len(phi)
        index = np.unique(np.linspace(0, n - 1, n if self._given else CHECKED).astype(np.intp))
        worst = -float(left.min())
        for a in range(0, len(index), BLOCK):
            part = index[a : a + BLOCK]
            worst = max(worst, float(np.abs(self._columns(part) - phi @ phi[part].T).max()))
        if worst > ASKEW * max(top, np.finfo(float).tiny):
            raise ValueError(
                f"kernel={self.kernel!r} is not symmetric and positive semidefinite on these rows "
                f"(off by {worst:.3g}), so it has no squared distances. Add a constant to the "
                "diagonal of a precomputed kernel, or take another one, such as 'rbf'."
            )
