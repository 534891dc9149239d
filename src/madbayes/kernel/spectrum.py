"""Eigenvalues above a threshold, and their vectors, of matrices known in three ways.

`linear_spectrum`: rows, whose d×d scatter has the same eigenvalues as their n×n Gram matrix.
`dense_spectrum`: a symmetric matrix. `lanczos_spectrum`: anything that can be multiplied.
All return eigenvalues in falling order, at least those above the threshold (others may follow), and
orthonormal vectors for those above it.
"""

from collections.abc import Callable
from inspect import signature

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh

BELOW = 0.25  # times the threshold: eigenvalues down to there are kept, to be drawn
DENSE = 1024  # up to so many rows all eigenvalues are found at once
# Where its vectors span all that the matrix does, ARPACK goes on from a random vector of its own.
# From SciPy 1.17 on that vector can be seeded; before, the last digits differ from run to run.
SEEDED = "rng" in signature(eigsh).parameters

Spectrum = tuple[np.ndarray, np.ndarray]


def linear_spectrum(X: np.ndarray, threshold: float) -> Spectrum:
    """Of X Xᵀ."""
    n, d = X.shape
    if d >= n:
        return dense_spectrum(X @ X.T, threshold)
    values, vectors = np.linalg.eigh(X.T @ X)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    above = values > threshold
    return values, X @ (vectors[:, above] / np.sqrt(values[above]))


def dense_spectrum(A: np.ndarray, threshold: float) -> Spectrum:
    """Of a symmetric matrix, which is used up; also the eigenvalues a little below."""
    values, vectors = scipy.linalg.eigh(
        A, subset_by_value=(BELOW * threshold, np.inf), overwrite_a=True, check_finite=False
    )
    values, vectors = values[::-1], vectors[:, ::-1]
    return values, vectors[:, values > threshold]


def lanczos_spectrum(
    multiply: Callable[[np.ndarray], np.ndarray],
    n: int,
    threshold: float,
    random_state: np.random.RandomState,
    most: int | None = None,
) -> Spectrum:
    """Rounds of Lanczos' method (ARPACK), each with the vectors found before taken out.

    It goes on until a round finds nothing above the threshold, so that no copy of a multiple
    eigenvalue is missed; or until there are `most` of them.
    """
    values, vectors, below = np.empty(0), np.empty((n, 0)), np.empty(0)
    batch = 24  # eigenvalues sought in a round
    while len(values) < min(n - 1, most or n):

        def deflated(
            x: np.ndarray, vectors: np.ndarray = vectors, values: np.ndarray = values
        ) -> np.ndarray:
            x = x.ravel()
            return multiply(x) - vectors @ (values * (vectors.T @ x))

        operator = LinearOperator((n, n), matvec=deflated, dtype=np.float64)
        count = min(batch, n - 2)
        start, width = random_state.standard_normal(n), min(n, max(64, 2 * count + 1))
        seed = random_state.randint(2**31 - 1)
        again = {"rng": np.random.default_rng(seed)} if SEEDED else {}
        new, axes = eigsh(operator, k=count, which="LA", v0=start, ncv=width, **again)
        above = new > threshold
        below = max(below, new[~above], key=len)
        if not above.any():
            break
        axes = axes[:, above] - vectors @ (vectors.T @ axes[:, above])
        vectors = np.hstack([vectors, np.linalg.qr(axes)[0]])
        values = np.r_[values, new[above]]
        batch = min(2 * batch, 256) if above.all() else 2
    order = np.argsort(-values, kind="stable")
    rest = np.sort(below[below > BELOW * threshold])[::-1]
    return np.r_[values[order], rest], vectors[:, order]
