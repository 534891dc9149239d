"""Nearest neighbours, exactly: a tree in few dimensions, blocks of matrix products in many.

Memory is linear in the rows. Each block of rows is on its own, so that nothing depends on the
number of threads. Rows of any other metric go through scikit-learn. Above `MANY` rows in many
dimensions pynndescent takes over where it is installed, which misses a few; `recall` says how many.
"""

from copy import copy
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from madbayes._rows.checks import dense
from madbayes._rows.frame import check_reach, measure, measure_to_fit
from madbayes._rows.progress import Stage
from madbayes._rows.rows import Rows, unit_csr, unit_rows
from madbayes._rows.threads import count_jobs, workers
from madbayes.graph.neighbor_kernels import keep_nearest

TREE = 10  # columns up to which a tree is quicker
ROWS, COLUMNS = 512, 1024  # of a block of products, which the cache of a core should hold
MANY = 100_000  # rows from which on approximate neighbours are worth it
SPARE = 8  # neighbours beside those asked for: rounding may confuse the last of them
ROUNDED = 0.05  # share of rows with many equals from which on a table counts as rounded
KINDS = 4  # values of a column that may be kinds
NARROW = 1e12  # products of rows that reach this (or its inverse) are numbers in float32
UNIT = 1e-5  # squared lengths as near to 1 are 1
CHECKED = 200  # rows whose exact neighbours tell the recall


class Neighbours:
    """Rows that can be asked which of them are nearest; `approximate` when they may miss some."""

    def __init__(
        self, X: Any, metric: Any, n_jobs: int | None, seed: int, approximate: Any
    ) -> None:
        self.metric, self.n_jobs, self.seed = metric, n_jobs, seed
        self.X = self.prepared(X)
        self.plain = metric in ("euclidean", "cosine") if isinstance(metric, str) else False
        few = self.plain and not sp.issparse(self.X) and self.X.shape[1] <= TREE
        self.tree = cKDTree(self.X) if few else None
        can = self.plain and not few and not sp.issparse(self.X)
        if approximate == "auto":
            approximate = can and len(self.X) > MANY and find_spec("pynndescent") is not None
        elif approximate and not (can and find_spec("pynndescent") is not None):
            raise ValueError(
                "approximate=True needs pynndescent (pip install pynndescent), dense rows of more "
                f"than {TREE} columns and metric='euclidean' or 'cosine'."
            )
        self.approximate = bool(approximate)

    def prepared(self, X: Any) -> Any:
        """For cosine: at length 1, where the straight distance orders rows in the same way."""
        if not self.by_cosine():
            return X
        return unit_csr(X) if sp.issparse(X) else unit_rows(X).astype(X.dtype, copy=False)

    def by_cosine(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "cosine"

    def in_order(self, order: np.ndarray) -> "Neighbours":
        """The same rows in another order, for looks at some of them (`among`, `straight`)."""
        other = copy(self)
        other.X, other.tree = self.X[order], None
        return other

    def on_sphere(self) -> "Neighbours":
        """The same rows by the cosine, if all have length 1: their neighbours are the same, and so
        is what they are compared with, whatever the metric is called."""
        if sp.issparse(self.X):
            squares = np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", self.X, self.X)
        if not np.allclose(squares, 1.0, rtol=0, atol=UNIT):
            return self
        other = copy(self)
        other.metric = "cosine"
        return other

    def straight(self) -> np.ndarray | None:
        """The rows, where distances between them are those of straight lines."""
        euclidean = isinstance(self.metric, str) and self.metric == "euclidean"
        return self.X if euclidean and not sp.issparse(self.X) else None

    def of_themselves(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices of each row's k nearest others, ascending."""
        if self.approximate:
            return self.finished(*self.guessed(k))
        if self.plain and self.tree is None:
            return self.finished(*self.by_blocks(self.X, k, themselves=True))
        return others(*self.ask(self.X, k + 1), k)

    def among(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for some of the rows alone."""
        return Neighbours(self.X[rows], self.metric, self.n_jobs, 0, False).of_themselves(k)

    def of(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for other rows."""
        X = self.prepared(X)
        if self.plain and self.tree is None:
            return self.finished(*self.by_blocks(X, k, themselves=False))
        return self.ask(X, k)

    def ask(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        if self.tree is not None:
            distance, index = self.tree.query(
                X, k=np.arange(1, k + 1), workers=count_jobs(self.n_jobs)
            )
            return self.finished(distance, index)
        search = NearestNeighbors(metric=self.metric, n_jobs=self.n_jobs).fit(self.X)
        return search.kneighbors(X, n_neighbors=k)

    def by_blocks(self, X: Any, k: int, themselves: bool) -> tuple[np.ndarray, np.ndarray]:
        n, m = X.shape[0], self.X.shape[0]
        sparse = sp.issparse(X)
        shift = 0.0 if sparse else self.X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        Y = self.X if sparse else self.X - shift
        squares = np.asarray(
            Y.multiply(Y).sum(axis=1) if sparse else np.einsum("ij,ij->i", Y, Y), dtype=np.float64
        ).ravel()
        kept = min(k + SPARE, m - themselves)
        distance, index = np.empty((n, k)), np.empty((n, k), np.int64)
        if kept == 0:  # a row without others
            return distance, index
        stage = Stage("neighbours", -(-n // ROWS))

        def block(a: int) -> None:
            rows = X[a : a + ROWS] if sparse else X[a : a + ROWS] - shift
            b = a + rows.shape[0]
            own = a if themselves else -1
            least, found = np.full((b - a, kept), np.inf), np.zeros((b - a, kept), np.int64)
            for c in range(0, m, COLUMNS):
                products = rows @ Y[c : c + COLUMNS].T
                products = products.toarray() if sparse else products
                at = squares[c : c + COLUMNS]
                keep_nearest(products, at, c, own, least, found)
            exact = pairs(X[a:b], self.X, found)
            order = np.lexsort((found, exact), axis=1)[:, :k]
            distance[a:b] = np.take_along_axis(exact, order, 1)
            index[a:b] = np.take_along_axis(found, order, 1)
            stage.step()

        with workers(self.n_jobs) as run:
            run(block, range(0, n, ROWS))
        return distance, index

    def guessed(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        from pynndescent import NNDescent

        # One thread: with several the result is not always the same
        found = NNDescent(
            self.X, n_neighbors=k + 1, random_state=self.seed, n_jobs=1, compressed=False
        )
        index, distance = found.neighbor_graph
        return others(distance.astype(np.float64), index.astype(np.int64), k)

    def recall(self, index: np.ndarray) -> float:
        """The share of the exact neighbours that was found, by a sample of rows."""
        if not self.approximate:
            return 1.0
        n, k = index.shape
        rows = np.random.RandomState(self.seed).choice(n, min(n, CHECKED), replace=False)
        _, exact = others(*self.by_blocks(self.X[rows], k + 1, themselves=False), k, rows)
        return float(np.mean([np.isin(exact[i], index[r]).mean() for i, r in enumerate(rows)]))

    def finished(self, distance: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosine distances are half the square of the straight ones."""
        return distance**2 / 2 if self.by_cosine() else distance, index


def safe_rows(X: Any, unit: bool, n_jobs: int | None) -> Any:
    """Rows of a fit as float32 or float64, if their squared distances are numbers there.

    `unit`: distances are those of rows of length 1, so that only their directions matter.
    """
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    if unit:
        return X
    with workers(n_jobs):
        spread = 1 / measure_to_fit(Rows(X)).scale
    return X if 1 / NARROW < spread < NARROW else X.astype(np.float64)


def safe_new_rows(X: Any, fitted: Any, unit: bool, n_jobs: int | None) -> Any:
    """The same for new rows, which become sparse or dense as those of the fit are."""
    X = sp.csr_array(X) if sp.issparse(fitted) else dense(X, "predict")
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    if unit:
        return X.astype(fitted.dtype, copy=False)
    ends = [fitted.min(axis=0), fitted.max(axis=0)]
    ends = [end.toarray() for end in ends] if sp.issparse(fitted) else ends
    corners = np.vstack(ends).astype(np.float64)
    with workers(n_jobs):
        frame = measure(Rows(X))
    check_reach(corners, frame, X.shape[1], "the rows of the fit")
    reach = np.abs(corners - frame.offset).max(initial=0.0) + 1 / frame.scale
    return X.astype(fitted.dtype if reach < NARROW else np.float64, copy=False)


def pairs(rows: Any, X: Any, index: np.ndarray) -> np.ndarray:
    """Distances of each row to the rows `index` of X, in float64."""
    found = np.empty(index.shape)
    for s in range(index.shape[1]):
        gap = rows - X[index[:, s]]
        if sp.issparse(gap):
            found[:, s] = np.sqrt(np.asarray(gap.multiply(gap).sum(axis=1), np.float64).ravel())
        else:
            gap = gap.astype(np.float64)
            found[:, s] = np.sqrt(np.einsum("ij,ij->i", gap, gap))
    return found


def spread_rounded_rows(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of a rounded table, spread evenly over the cells of its grid; and which were equal.

    Where more than k / 2 rows are equal they would be linked to each other alone, cell by cell.
    Columns of few values are left as they are: these may be kinds.
    """
    if 2 * (len(X) - np.unique(X[:, 0]).size) < ROUNDED * len(X):  # then few can have equals
        return X, None
    _, cell, count = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    cell = cell.ravel()
    if np.mean(count[cell] > k / 2) < ROUNDED:
        return X, None
    step = np.zeros(X.shape[1])
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        step[j] = np.diff(values).min() if values.size > KINDS else 0.0
    away = np.empty(X.shape)  # drawn in the order of the values, whatever order the rows have
    away[np.argsort(cell, kind="stable")] = np.random.RandomState(0).uniform(-0.5, 0.5, X.shape)
    away *= step
    return np.asarray(X + away, dtype=X.dtype), cell


def others(
    distance: np.ndarray, index: np.ndarray, k: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """k + 1 neighbours without the row itself (or, among many equal ones, without the last)."""
    rows = np.arange(len(index)) if rows is None else rows
    own = index == rows[:, None]
    own[~own.any(axis=1), -1] = True
    keep = np.argsort(own, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, keep, 1), np.take_along_axis(index, keep, 1)


def nearest_among_by_distances(
    D: np.ndarray, rows: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of some rows among themselves."""
    return nearest_by_distances(D[np.ix_(rows, rows)], k, themselves=True)


def nearest_by_distances(D: Any, k: int, *, themselves: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest by a matrix of distances, dense or the sparse graph of a neighbours' search.

    Sparse: what is not stored is far. Rows with fewer than k entries: k is the least number.
    """
    if not sp.issparse(D):
        D = np.asarray(D, dtype=np.float64)
        if themselves:
            D = D.copy()
            np.fill_diagonal(D, np.inf)
        index = np.argsort(D, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(D, index, 1), index
    D = sp.csr_array(D)
    rows = np.repeat(np.arange(D.shape[0]), np.diff(D.indptr))
    use = rows != D.indices if themselves else np.ones(rows.size, bool)
    rows, columns, data = rows[use], D.indices[use], D.data[use]
    count = np.bincount(rows, minlength=D.shape[0])
    if count.min(initial=k) < 1:
        raise ValueError(
            f"row {int(count.argmin())} of the precomputed distances has no neighbour. Each row "
            "needs one at least: sklearn.neighbors.KNeighborsTransformer(mode='distance') makes "
            "such a matrix."
        )
    k = min(k, int(count.min()))
    order = np.lexsort((columns, data, rows))
    first = np.cumsum(count) - count
    at = order[first[:, None] + np.arange(k)]
    return data[at].astype(np.float64), columns[at].astype(np.int64)
