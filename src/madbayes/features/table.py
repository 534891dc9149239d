"""The rows of a fit: checked to neither overflow nor underflow, sampled, turned."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._model.open_rows import open_rows
from madbayes._rows.checks import check_rows, check_weight, is_spread
from madbayes._rows.rows import Rows, Share, segments

WIDE_ROWS = 4000  # wide tables of up to so many rows are turned before the search
FEW_COLUMNS = 8  # no fewer directions are ever kept
MORE_DIRECTIONS = 4  # than seem to be needed
DENSE_VALUES = 2**22  # a CSR matrix up to this size may be made dense


@dataclass(frozen=True)
class Table:
    """Rows and their weights, which were divided by `unit` (a power of two; None: all ones).

    Rows that are elsewhere (`elsewhere`, weights included) have neither X nor weight.
    """

    X: Any
    weight: np.ndarray | None
    unit: float = 1.0
    elsewhere: Any = None  # `DaskRows`

    @property
    def remote(self) -> bool:
        return self.elsewhere is not None

    @property
    def rows(self) -> Any:
        return self.elsewhere if self.remote else Rows(self.X, weight=self.weight)

    @property
    def n(self) -> int:
        return int(self.elsewhere.n if self.remote else self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.elsewhere.d if self.remote else self.X.shape[1])

    @property
    def dtype(self) -> np.dtype:
        return self.elsewhere.dtype if self.remote else self.X.dtype

    def sample(self, rows: np.ndarray) -> "Table":
        """Some of the rows, each counted for as many as it stands for."""
        weight = np.ones(rows.size) if self.weight is None else self.weight[rows]
        total = float(self.n if self.weight is None else self.weight.sum())
        return Table(self.X[rows], weight * (total / weight.sum()), self.unit)

    def draw(self, rng: np.random.RandomState, count: int) -> np.ndarray:
        """Rows at random, of those that count."""
        rows = np.arange(self.n) if self.weight is None else np.flatnonzero(self.weight)
        return np.sort(rng.permutation(rows)[:count])


def open_table(model: Any, X: Any, sample_weight: Any) -> Table:
    """The checked rows of a fit, wherever they are."""
    if is_spread(X):
        return scaled(open_rows(model, X, sample_weight))
    return check_table_to_fit(check_rows(model, X), sample_weight)


def scaled(rows: Any) -> Table:
    """`check_table_to_fit` for rows that are elsewhere."""
    ask = rows.executor.ask
    if rows.d > 2 * rows.n and rows.n <= WIDE_ROWS:
        raise ValueError(
            f"X.shape={(rows.n, rows.d)} is a small table: X.compute() brings it to this process."
        )
    unit = 1.0
    if rows.weighted:
        ranges = np.array(ask(lightest_and_heaviest, rows.shares))
        if ranges[:, 0].min() == 0:
            raise ValueError(
                "sample_weight has zeros: leave these rows out of a Dask table for features."
            )
        unit = float(2.0 ** np.floor(np.log2(ranges[:, 1].max())))
        rows = rows.change(in_units, [unit] * len(rows.shares))
    check_largest(max(ask(largest, rows.shares)), float(rows.n * rows.d), unit)
    return Table(None, None, unit, rows.cut_at(segments(rows.n, 16)))


def lightest_and_heaviest(share: Share) -> tuple[float, float]:
    return float(share.weight.min()), float(share.weight.max())


def in_units(share: Share, unit: float) -> Share:
    rows = Rows(share.rows.X, weight=share.rows.weight / unit)
    return share._replace(rows=rows)


def largest(share: Share) -> float:
    return max((float(np.abs(block).max(initial=0)) for _, block, _ in share.blocks()), default=0.0)


def check_table_to_fit(X: Any, sample_weight: Any, A: np.ndarray | None = None) -> Table:
    """Weighted sums of squares of X (and of the features A) must be numbers."""
    weight = check_weight(sample_weight, X.shape[0])
    unit = 1.0
    if weight is not None:
        unit = float(2.0 ** np.floor(np.log2(weight.max())))
        weight = weight / unit
    parts = [X.data] if sp.issparse(X) else (block for *_, block in Rows(X).blocks(0, X.shape[0]))
    top = max((float(np.abs(part).max(initial=0)) for part in parts), default=0.0)
    check_largest(top, float(X.shape[0] * X.shape[1]), unit, A)
    return Table(X, weight, unit)


def check_largest(largest: float, count: float, unit: float, A: np.ndarray | None = None) -> None:
    """The same of so many values, of which this is the largest; weights reach `unit`."""
    if A is not None:
        largest += float(np.abs(A).sum(axis=0).max(initial=0.0))
    with np.errstate(over="ignore", under="ignore"):
        square = np.float64(largest) ** 2 * count
    if not square < 1e306:
        raise ValueError(
            f"X reaches {largest:.3g}: the sum of its squares would overflow float64. Divide X by, "
            f"say, {largest:.1g} (and the penalty by its square)."
        )
    if A is None and 0 < largest < 1e-151:
        raise ValueError(
            f"X reaches only {largest:.3g}: squared errors would underflow float64. Divide X by, "
            f"say, {largest:.1g} (and the penalty by its square)."
        )
    if largest > 0 and not 1e-290 < unit * largest**2 < 1e306 / count:
        raise ValueError(
            f"sample_weight reaches {unit:.3g}: weighted squared errors would "
            f"{'over' if unit > 1 else 'under'}flow float64. Divide the weights (and the penalty) "
            f"by, say, {unit:.1g}."
        )


def turn(X: Any) -> Any:
    """Wide rows in coordinates of their own span: the same distances in n columns, not d."""
    n, d = X.shape
    if sp.issparse(X) or d <= 2 * n or n > WIDE_ROWS:
        return X
    triangle: Any = np.linalg.qr(X.T.astype(np.float64), mode="r")
    return np.ascontiguousarray(triangle.T)


def main_directions(table: Table) -> tuple[Table, float]:
    """The rows in the directions that hold more than noise does, and the sum of squares left out.

    Noise holds up to σ²(√n + √d)² in one direction, with σ² the mean square of what is left out.
    """
    n, d = table.X.shape
    if min(n, d) <= FEW_COLUMNS or (sp.issparse(table.X) and n * d > DENSE_VALUES):
        return table, 0.0
    X = table.X.toarray() if sp.issparse(table.X) else table.X
    root = np.ones((n, 1)) if table.weight is None else np.sqrt(table.weight)[:, None]
    U, s, _ = np.linalg.svd(root * X, full_matrices=False)
    squares = s**2
    left = np.append(np.cumsum(squares[::-1])[::-1], 0.0)
    edge = left[:-1] / (n * d) * (np.sqrt(n) + np.sqrt(d)) ** 2
    r = int(np.argmax(squares <= edge)) if (squares <= edge).any() else s.size
    r = min(s.size, max(FEW_COLUMNS, r + MORE_DIRECTIONS))
    turned = np.ascontiguousarray(U[:, :r] * s[:r] / root)
    return Table(turned, table.weight, table.unit), float(left[r])
