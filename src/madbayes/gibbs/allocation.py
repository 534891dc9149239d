"""Features given which rows have them, and rows given the features."""

from math import log, pi
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._model.assignments import AssignmentsMixin
from madbayes.gibbs.base import GibbsMixin

ALL_COMBINATIONS = 12  # up to so many features every z is compared
BLOCK = 2**22  # values held at a time


class Posterior:
    """Of the features A given X and Z: each column N(mean, σ_x² V), V = (ZᵀZ + cI)⁻¹.

    By eigenvalues of ZᵀZ, so that dependent columns and a tiny c do no harm.
    """

    def __init__(self, X: np.ndarray, Z: np.ndarray, c: float) -> None:
        self._X, self._Z = X, Z.astype(np.float64)
        self._values, self._vectors = np.linalg.eigh(self._Z.T @ self._Z)
        self._set(c)

    def at(self, c: float) -> "Posterior":
        """The same for another c = σ_x²/σ_a²."""
        other = object.__new__(Posterior)
        other._X, other._Z = self._X, self._Z
        other._values, other._vectors = self._values, self._vectors
        other._set(c)
        return other

    def _set(self, c: float) -> None:
        self.c = c
        self._eigen = np.maximum(self._values, 0.0) + c
        self.V = (self._vectors / self._eigen) @ self._vectors.T
        self.mean = self.V @ (self._Z.T @ self._X)

    def draw(self, rng: np.random.Generator, variance: float) -> np.ndarray:
        noise = rng.standard_normal(self.mean.shape)
        return self.mean + np.sqrt(variance) * (self._vectors / np.sqrt(self._eigen)) @ noise

    def log_likelihood(self, variance: float) -> float:
        """log P(X | Z), A integrated out (BKJ Eq. 7)."""
        n, d = self._X.shape
        fit = ((self._X - self._Z @ self.mean) ** 2).sum() + self.c * (self.mean**2).sum()
        return float(
            -0.5 * n * d * log(2 * pi * variance)
            - 0.5 * d * np.log(self._eigen / self.c).sum()
            - fit / (2 * variance)
        )


def check_start(init: Any, n: int) -> np.ndarray:
    """Z to start from."""
    if isinstance(init, str) and init in ("cooled", "empty"):
        return np.zeros((n, 0), dtype=np.uint8)
    Z = np.asarray(init)
    if Z.ndim != 2 or len(Z) != n or not np.isin(Z, (0, 1)).all():
        raise ValueError(
            f"init={init!r} must be 'cooled', 'empty' or an array of {n} rows of zeros and ones: "
            "which features each row of X has."
        )
    return Z.astype(np.uint8)


def left_ordered(Z: np.ndarray) -> np.ndarray:
    """Columns sorted as binary numbers, the first row counting most (Griffiths & Ghahramani)."""
    return Z[:, np.lexsort(1 - Z[::-1])].astype(bool)


class AllocationMixin(AssignmentsMixin, GibbsMixin):
    """Samplers of features."""

    _precision: float
    _variance: float
    _simpler = "BPMeans"

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> np.ndarray:
        """Fit and return the features of each row of X."""
        return self.fit(X, **params).transform(X)

    def transform(self, X: Any) -> np.ndarray:
        """Which features of `components_` each row of X has, (n_rows, n_components_) booleans.

        The most probable combination for one more row, given the sample of highest `log_joint_`.
        All combinations are compared up to 12 features; beyond that a row turns features on and
        off, one after the other, while that helps.
        """
        check_is_fitted(self)
        X = self._table(X, reset=False)
        seen = self.assignments_.astype(np.float64)
        n, k = seen.shape
        A, size = self.components_.astype(np.float64), seen.sum(axis=0)
        V = np.linalg.inv(seen.T @ seen + self._precision * np.eye(k))
        odds = np.log(size / (n + 1 - size))

        def score(Z: np.ndarray, rows: np.ndarray) -> np.ndarray:
            """log P(x, z) but for a constant, of rows of Z and of X that broadcast."""
            spread = 1 + np.einsum("...k,kl,...l->...", Z, V, Z)
            error = ((rows - Z @ A) ** 2).sum(axis=-1)
            d = rows.shape[-1]
            return Z @ odds - 0.5 * d * np.log(spread) - error / (2 * self._variance * spread)

        if k > ALL_COMBINATIONS:
            return _climb(score, X, k)
        every = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(np.float64)
        step = max(1, BLOCK // (2**k * X.shape[1]))
        best = [score(every, X[i : i + step, None]).argmax(axis=1) for i in range(0, len(X), step)]
        return every[np.concatenate(best)].astype(bool)


def _climb(score: Any, X: np.ndarray, k: int) -> np.ndarray:
    """From no feature, one flip after the other while it helps."""
    Z = np.zeros((len(X), k))
    now = score(Z, X)
    changed = True
    while changed:
        changed = False
        for feature in range(k):
            Z[:, feature] = 1 - Z[:, feature]
            other = score(Z, X)
            worse = other <= now
            Z[worse, feature] = 1 - Z[worse, feature]
            now = np.where(worse, now, other)
            changed = changed or not worse.all()
    return Z.astype(bool)
