"""Kernel values between rows, from any source, handed out in blocks of rows of the n×n matrix.

Up to HELD_ROWS rows the matrix is computed once and held; above that, blocks of it are computed
each time they are needed. A matrix given as CSR stays sparse.

Squared distances between weighted means do not change when some a_i + a_j is subtracted from every
K_ij. Dense matrices are shifted so that the mean of a few rows is the origin, which keeps the
digits that a large common part would cost. For kernels that do not ask where the rows are, the rows
are shifted to their mean before that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from madbayes._rows.threads import together
from madbayes.kernel.move_kernels import label_sums

HELD_ROWS = 8192  # 512 MiB
MAX_ROWS = 100_000  # a pass computes the square of that
BLOCK_ROWS = 512
BLOCK_VALUES = 2**21  # in a block at most, where it has to be computed
AHEAD = 8  # blocks computed at the same time
EXPLAINED = 1e-12  # of the longest row: no more is left to explain
REFERENCES = 256  # rows whose mean becomes the origin
ANYWHERE = ("linear", "rbf", "laplacian")  # the place of the origin does not matter
TAKES = {
    "poly": ("gamma", "degree", "coef0"),
    "polynomial": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "chi2": ("gamma",),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel of scikit-learn by name, or a function of two rows, and where it puts the origin."""

    metric: str | Callable[..., float]
    params: dict[str, Any]
    origin: np.ndarray | None

    def place(self, X: Any) -> Any:
        """A copy of the rows as float64 in C order, shifted where the kernel allows it.

        A model keeps this copy for `predict`, so that it does not change with the caller's array.
        The order of the values decides the last digits of products, hence one order for all.
        """
        if sp.issparse(X):
            return X.astype(np.float64) if self.origin is None else X.toarray() - self.origin
        X = np.array(X, dtype=np.float64, order="C")
        if self.origin is not None:
            X -= self.origin
        return X

    def between(self, X: Any, Y: Any) -> np.ndarray:
        """Kernel values of all pairs; X and Y are in place."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = pairwise_kernels(X, Y, metric=self.metric, **self.params)
        values = np.ascontiguousarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(
                f"kernel={self.metric!r} gives values that are not finite for these rows: they "
                "overflow float64, or it is not defined there. Scale X, or change the parameters "
                "of the kernel."
            )
        return values

    def diagonal(self, X: Any) -> np.ndarray:
        """The kernel of each row with itself."""
        step = 32 if isinstance(self.metric, str) else 1  # small squares, little waste
        cuts = range(0, X.shape[0], step)
        return np.concatenate(
            [np.diagonal(self.between(X[a : a + step], X[a : a + step])) for a in cuts]
        )


def make_kernel(
    metric: Any,
    gamma: Any,
    degree: float,
    coef0: float,
    kernel_params: dict[str, Any] | None,
    X: Any,
    weight: np.ndarray | None,
    origin: np.ndarray,
) -> Kernel:
    """The kernel that the parameters of an estimator describe, for the rows X."""
    more = dict(kernel_params or {})
    if callable(metric):
        return Kernel(metric, more, None)
    if metric not in PAIRWISE_KERNEL_FUNCTIONS:
        names = ", ".join(repr(name) for name in sorted(PAIRWISE_KERNEL_FUNCTIONS))
        raise ValueError(
            f"kernel={metric!r} must be one of {names}, 'precomputed', or a function of two rows."
        )
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    params = {name: given[name] for name in TAKES.get(metric, ())}
    if isinstance(gamma, str) and gamma != "scale":
        raise ValueError(
            f"gamma={gamma!r} must be a number > 0, 'scale', or None (scikit-learn's default)."
        )
    if params.get("gamma", 1.0) is None:
        del params["gamma"]
    elif isinstance(params.get("gamma"), str):
        variance = total_variance(X, weight, origin) / X.shape[1]
        variance = variance or 1.0  # all rows equal: any will do
        size = np.sqrt(variance) if metric == "laplacian" else variance
        params["gamma"] = 1.0 / (X.shape[1] * size)
        if metric == "chi2":
            del params["gamma"]
    elif not params.get("gamma", 1.0) > 0:
        raise ValueError(f"gamma={gamma!r} must be > 0.")
    shift = metric in ANYWHERE and not sp.issparse(X)
    return Kernel(metric, params | more, origin if shift else None)


def total_variance(X: Any, weight: np.ndarray | None, origin: np.ndarray) -> float:
    """Weighted mean of ‖x - origin‖²."""
    w = np.ones(X.shape[0]) if weight is None else weight
    if sp.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        return float(max(w @ squares / w.sum() - origin @ origin, 0.0))
    total = 0.0
    for a in range(0, X.shape[0], 4096):
        part = np.ascontiguousarray(X[a : a + 4096], dtype=np.float64) - origin
        total += float(w[a : a + 4096] @ np.einsum("ij,ij->i", part, part))
    return total / float(w.sum())


class Gram:
    """The (shifted) kernel matrix of n rows.

    `raw(index)` gives rows of the matrix, `diagonal` is its diagonal; `sparse` the matrix itself,
    where it is sparse (it is not shifted then).
    """

    def __init__(
        self,
        raw: Callable[[Any], np.ndarray],
        diagonal: np.ndarray,
        sparse: Any = None,
    ) -> None:
        self.n, self.sparse = len(diagonal), sparse
        self._raw = raw
        self._held: np.ndarray | None = None
        self.references = np.empty(0, np.int64)
        self.half = 0.0
        self.shift = np.zeros(self.n)
        if sparse is None:
            some = min(self.n, REFERENCES)
            self.references = np.linspace(0, self.n - 1, some).astype(np.int64)
            near = raw(self.references)
            self.half = float(near[:, self.references].mean()) / 2
            self.shift = near.mean(axis=0) - self.half
        self.diagonal = diagonal - 2 * self.shift
        if sparse is None and self.n <= HELD_ROWS:
            held = np.empty((self.n, self.n))

            def fill(cut: tuple[int, int]) -> None:
                held[slice(*cut)] = self.rows(slice(*cut))

            together(fill, self.cuts())
            self._held = held

    @classmethod
    def of_rows(cls, kernel: Kernel, X: Any) -> "Gram":
        """From rows that are in place."""
        return cls(lambda index: kernel.between(X[index], X), kernel.diagonal(X))

    @classmethod
    def of_matrix(cls, K: Any) -> "Gram":
        """From a symmetric matrix."""
        if sp.issparse(K):
            K = sp.csr_array(K).astype(np.float64)
            return cls(lambda index: K[index].toarray(), K.diagonal(), K)
        diagonal = np.array(np.diagonal(K), dtype=np.float64)
        return cls(lambda index: np.array(K[index], dtype=np.float64, order="C"), diagonal)

    def rows(self, index: Any) -> np.ndarray:
        """Rows of the matrix."""
        if self._held is not None:
            return self._held[index]
        values = self._raw(index)
        values -= self.shift[index, None]
        values -= self.shift
        return values

    def part(self, rows: np.ndarray) -> "Gram":
        """The matrix of some of the rows."""
        if self.sparse is not None:
            return Gram.of_matrix(self.sparse[rows][:, rows])
        blocks = [self.rows(cut)[:, rows] for cut in np.array_split(rows, -(-len(rows) // 64))]
        return Gram.of_matrix(np.concatenate(blocks))

    def cuts(self) -> list[tuple[int, int]]:
        """Where the blocks begin and end: the same for any number of threads."""
        step = BLOCK_ROWS
        if self.n > HELD_ROWS and self.sparse is None:
            step = max(16, min(step, BLOCK_VALUES // self.n))
        return [(a, min(self.n, a + step)) for a in range(0, self.n, step)]

    def blocks(self) -> Iterator[tuple[int, int, Any]]:
        """(first, last, rows of the matrix) in order; CSR rows of a sparse one."""
        cuts = self.cuts()
        for at in range(0, len(cuts), AHEAD):
            some = cuts[at : at + AHEAD]
            for (a, b), block in zip(some, together(self._block, some), strict=True):
                yield a, b, block

    def _block(self, cut: tuple[int, int]) -> Any:
        return self.rows(slice(*cut)) if self.sparse is None else self.sparse[slice(*cut)]

    def sums(self, w: np.ndarray, z: np.ndarray, k: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """(first, last, M) with M[i, c] the weighted sum of row i over cluster c."""
        cuts = self.cuts()
        for at in range(0, len(cuts), AHEAD):
            some = cuts[at : at + AHEAD]
            found = together(lambda cut: sums_of(self._block(cut), w, z, k), some)
            for (a, b), M in zip(some, found, strict=True):
                yield a, b, M


def sums_of(block: Any, w: np.ndarray, z: np.ndarray, k: int) -> np.ndarray:
    """M of a block of rows."""
    if sp.issparse(block):
        n = block.shape[1]
        return (block @ sp.csr_array((w, z, np.arange(n + 1)), shape=(n, k))).toarray()
    M = np.empty((len(block), k))
    label_sums(block, w, z, M)
    return M


def pivoted_cholesky(
    row: Callable[[int], np.ndarray], diagonal: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """G (r, n) with GᵀG close to a matrix of which only the diagonal and r rows are looked at.

    The next row is the one that is longest outside the span of those taken before (the pivot). It
    ends at `rank`, or when none has more than EXPLAINED of the longest left. Also returns the
    pivots, and what is left of the diagonal. Fine & Scheinberg 2001, "Efficient SVM training using
    low-rank kernel representations".
    """
    left = np.array(diagonal, dtype=np.float64)
    n, longest = len(left), max(float(left.max(initial=0.0)), 0.0)
    rank = min(rank, n)
    G = np.empty((min(rank, 64), n))
    pivots: list[int] = []
    while len(pivots) < rank:
        i, r = int(np.argmax(left)), len(pivots)
        if not left[i] > EXPLAINED * longest:
            break
        if r == len(G):
            G = np.vstack([G, np.empty((min(r, rank - r), n))])
        G[r] = (row(i) - G[:r, i] @ G[:r]) / np.sqrt(left[i])
        left -= G[r] ** 2
        pivots.append(i)
        left[pivots] = 0.0
    return G[: len(pivots)], np.array(pivots, dtype=np.intp), left


def embed(gram: Gram, w: np.ndarray, rank: int) -> tuple[np.ndarray, bool]:
    """Rows F (n, r ≤ rank) with F Fᵀ close to the kernel matrix, columns by falling variance.

    Second: whether that is all of it, up to rounding.
    """
    G, _, left = pivoted_cholesky(lambda i: gram.rows(np.array([i]))[0], gram.diagonal, rank)
    longest = max(float(gram.diagonal.max(initial=0.0)), 0.0)
    exact = bool(np.abs(left).max(initial=0.0) <= 1e-9 * longest)
    if not len(G):  # all rows equal
        return np.zeros((gram.n, 1)), exact
    mean = G @ w / w.sum()
    value, vector = np.linalg.eigh((G * w) @ G.T - w.sum() * np.outer(mean, mean))
    keep = value[::-1] > 1e-13 * max(value[-1], 0.0)
    axes = vector[:, ::-1][:, keep] if keep.any() else vector[:, -1:]
    return np.ascontiguousarray((G.T - mean) @ axes), exact


def is_all(used: np.ndarray, X: Any) -> bool:
    """Whether `used` are all rows of X, in their order."""
    return np.array_equal(used, np.arange(X.shape[0]))


def check_symmetric(K: Any) -> None:
    """A square and symmetric matrix, up to rounding."""
    n = K.shape[0]
    if K.shape != (n, n):
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of kernel values, but X.shape={K.shape}."
        )
    if sp.issparse(K):
        top = np.abs(K.data).max(initial=0.0)
        gap = np.abs((K - K.T).data).max(initial=0.0)
    else:
        step = HELD_ROWS // 16
        cuts = [slice(a, a + step) for a in range(0, n, step)]
        top = max(float(np.abs(K[cut]).max()) for cut in cuts)
        gap = max(float(np.abs(K[cut] - K[:, cut].T.astype(float)).max()) for cut in cuts)
    if gap > 1e-5 * top:
        raise ValueError(
            f"kernel='precomputed' needs a symmetric matrix, but X and its transpose differ by "
            f"{gap:.3g}. Symmetrize it, (X + X.T) / 2, if that is only noise."
        )
