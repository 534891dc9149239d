"""Coordinates for a kernel: rows φ with φ(x)·φ(y) = κ(x, y), by a pivoted Cholesky factor.

1. Of all rows, take the one whose φ is longest outside the span of those taken before (the pivot).
2. Its column of the kernel matrix, less what is explained already, is the next coordinate of all.
3. Stop when no row has more than TOL of the largest κ(x, x) left.

Only the columns of the pivots are ever computed: O(n·r) values for r pivots, not n². Squared
distances to means are then those of KJ 5.2, κ(x,x) - 2Σκ(x,x_i)/n_c + ΣΣκ(x_i,x_j)/n_c², up to
rounding, and cost O(r) each. A new row has coordinates from its kernel with the pivots alone.

Fine & Scheinberg 2001, "Efficient SVM training using low-rank kernel representations" (the factor).
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import pairwise_kernels

TOL = 1e-12
ASKEW = 1e-6  # share of the largest κ(x, x) by which the factor may miss an entry
CHECKED = 64  # columns that are compared with the factor
BLOCK = 128
SHIFT = ("linear", "rbf", "laplacian")  # distances do not change when all rows are shifted


class KernelFeatures:
    """`fit` gives the coordinates of its rows, `transform` those of others."""

    def __init__(self, kernel: Any, **options: Any) -> None:
        self.kernel = kernel
        self.options = options

    def fit(self, X: np.ndarray) -> np.ndarray:
        """Steps 1 to 3: (n, r) coordinates."""
        self._given = isinstance(self.kernel, str) and self.kernel == "precomputed"
        self._shift = X.mean(axis=0) if self.kernel in SHIFT else 0.0
        self._X = X if self._given else X - self._shift
        left = self.norms(X)
        n, top = len(left), max(float(left.max()), 0.0)
        phi = np.empty((n, min(n, 64)), order="F")
        pivots: list[int] = []
        while len(pivots) < n:
            i, r = int(np.argmax(left)), len(pivots)
            if not left[i] > TOL * top:
                break
            if r == phi.shape[1]:
                phi = np.asfortranarray(np.hstack([phi, np.empty((n, min(r, n - r)))]))
            column = self._columns([i])[:, 0] - phi[:, :r] @ phi[i, :r]
            phi[:, r] = column / np.sqrt(left[i])
            left -= phi[:, r] ** 2
            left[[*pivots, i]] = 0.0
            pivots.append(i)
        phi = np.ascontiguousarray(phi[:, : max(len(pivots), 1)])
        if not pivots:  # every κ(x, x) is 0
            phi[:] = 0.0
        self._pivots = np.array(pivots, dtype=np.intp)
        self._corner = phi[self._pivots, : len(pivots)]
        self._check(phi, left, top)
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
