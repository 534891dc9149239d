"""What all estimators with centres share: nearest centres, transform, score."""

from typing import Any

import numpy as np

from madbayes._model.calibration import calibrate_shares
from madbayes._model.clusterer import Clusterer
from madbayes._model.dispatch import anywhere
from madbayes._model.novelty_mixin import FEW_ROWS, Closest, without_direction, without_row
from madbayes._partition.partition import Partition
from madbayes._rows.checks import (
    check_rows,
    check_weight,
    is_cosine,
    rows_of_zeros,
    weight_of_directions,
)
from madbayes._rows.frame import frame_of
from madbayes._rows.row_kernels import distances_to, row_errors
from madbayes._rows.rows import Rows, segments
from madbayes._rows.threads import together, workers


class CentersMixin(Clusterer):
    """Estimators with `cluster_centers_`."""

    metric: str = "euclidean"
    cluster_centers_: np.ndarray

    def _rows_to_fit(
        self, X: Any, sample_weight: Any, *, reset: bool = True
    ) -> tuple[Any, np.ndarray | None]:
        """Rows and weights for `fit`; rows without a direction do not count for the cosine."""
        X = check_rows(self, X, reset=reset)
        weight = check_weight(sample_weight, X.shape[0])
        return X, weight_of_directions(X, weight, up=1) if self._unit else weight

    @anywhere
    def transform(self, X: Any) -> np.ndarray:
        """Euclidean distances, (n_rows, n_clusters).

        With ``metric="cosine"`` those of rows and centres of length 1, √(2 - 2 cos).
        """
        X = self._new_rows(X)
        found = self._fill(X, np.sqrt, Rows(X).dtype)
        if np.isinf(found.max(initial=0.0)):  # farther apart than float32 can say
            return self._fill(X, np.sqrt, np.dtype(np.float64))
        return found

    def _gaps(self, X: Any) -> np.ndarray:
        return self._fill(X, np.positive, np.dtype(np.float64))

    def _fill(self, X: Any, of: Any, dtype: np.dtype) -> np.ndarray:
        """(n_rows, n_clusters), a function of the squared distances."""
        source = Rows(X, unit=self._unit)
        centers = np.ascontiguousarray(self._exact_centers())
        out = np.empty((source.n, centers.shape[0]), dtype=dtype)
        with workers(self.n_jobs):

            def partial(cut: tuple[int, int]) -> None:
                for a, b, block in source.blocks(*cut):
                    for first in range(a, b, 1024):
                        rows = block[first - a : first - a + 1024]
                        squared = np.empty((centers.shape[0], rows.shape[0]))
                        distances_to(rows, centers, squared)
                        if not np.isfinite(squared).all():
                            raise ValueError(
                                "X and the centres are so far apart that squared distances "
                                "overflow float64. Divide both by a large number."
                            )
                        with np.errstate(over="ignore"):
                            out[first : first + rows.shape[0]] = of(squared).T

            together(partial, source.cuts)
        return out

    @anywhere
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of squared distances to the nearest centres: larger is better."""
        return -self._nearest(X, sample_weight)[1]

    def _plain_labels(self, X: Any, **how: Any) -> np.ndarray:
        return self._nearest(X, errors=False)[0]

    def _closest(self, X: Any) -> Closest:
        X = self._new_rows(X)
        labels = self._assign(X, None, errors=False)[0]
        return Closest(labels, self._errors(X, labels), lambda rows: self._gaps(X[rows]))

    def _errors(self, X: Any, labels: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The squared distance of each row (of `rows`) to the centre of its label."""
        source, out = Rows(X, rows, unit=self._unit), np.empty(len(labels))
        centers = np.ascontiguousarray(self._exact_centers())

        def partial(cut: tuple[int, int]) -> None:
            for a, b, block in source.blocks(*cut):
                row_errors(block, labels[a:b], centers, out[a:b])

        if len(labels) <= FEW_ROWS:
            partial((0, len(labels)))
            return out
        with workers(self.n_jobs):
            together(partial, segments(len(labels), 1))
        return out

    def _relative_gaps(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """By products with the centres: ‖x - c‖² - ‖x‖² = ‖c‖² - 2x·c."""
        if type(self)._gaps is not CentersMixin._gaps:
            return super()._relative_gaps(X, rows)
        centers = self._exact_centers()
        middle = centers.mean(axis=0)
        shifted = centers - middle
        taken = Rows(X, unit=self._unit).take(rows) - middle
        with workers(1):  # the last digits of a product depend on the threads of BLAS
            return (shifted**2).sum(axis=1) - 2 * taken @ shifted.T

    def _held_out(
        self, X: Any, rows: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray
    ) -> np.ndarray:
        if len(rows) == X.shape[0]:
            d2 = self._errors(X, label)
        elif isinstance(X, np.ndarray):  # without a copy of them all
            d2 = self._errors(X, label, rows)
        else:
            d2 = self._errors(X[rows], label)
        if self._unit:
            return without_direction(d2, label, weight, total)
        return without_row(d2, weight, total[label])

    def _nearest(self, X: Any, sample_weight: Any = None, **how: Any) -> tuple[np.ndarray, float]:
        """Labels and the sum of squared distances (or without `errors` labels alone)."""
        X = self._new_rows(X)
        return self._assign(X, check_weight(sample_weight, X.shape[0]), **how)

    def _assign(
        self, X: Any, weight: np.ndarray | None, errors: bool = True
    ) -> tuple[np.ndarray, float]:
        """The same for rows and weights that have been checked."""
        centers, n = self._exact_centers(), X.shape[0]
        labels, error = np.empty(n, np.int32), 0.0
        step = max(4096, 2**24 // X.shape[1])  # rows whose bounds are held at a time
        with workers(self.n_jobs):
            for a in range(0, n, step):
                b = min(n, a + step)
                w = None if weight is None else weight[a:b]
                part = X if b - a == n else X[a:b]
                source = Rows(part, unit=self._unit, weight=w)
                frame = None if errors else frame_of(centers, source)
                partition = Partition(source, frame, once=True, errors=errors)
                partition.assign(centers)
                labels[a:b], error = partition.labels, error + partition.sse
        if self._unit:  # all centres are as far from a row of zeros, up to rounding
            labels[rows_of_zeros(X)] = 0
        return labels, error

    @property
    def _unit(self) -> bool:
        return is_cosine(self.metric)

    def _store_centers(self, centers: np.ndarray, dtype: np.dtype) -> None:
        self._centers = centers
        self.cluster_centers_ = centers.astype(dtype)

    def _calibrate_rows(self, rows: Any, labels: Any) -> None:
        """Store how far the rows of the fit are from their clusters, wherever the rows are."""
        if rows.executor.remote:
            calibrate_shares(self, rows, labels)
        else:
            self._calibrate(rows.X, labels, rows.weight if rows.weighted else None)

    def _store_result(self, rows: Any, result: Any, penalty: float) -> None:
        """Of an algorithm that finds the number of clusters (a `Clustering`)."""
        self.labels_ = rows.public(result.labels)
        self._store_centers(result.centers, rows.dtype)
        self.n_clusters_ = result.k
        self.penalty_ = penalty
        self.objective_ = result.objective
        self.inertia_ = result.inertia
        self.objective_history_ = np.array(result.history)
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged

    def _exact_centers(self) -> np.ndarray:
        """The centres before they were rounded to the type of X, unless the user changed them."""
        if np.array_equal(self._centers.astype(self.cluster_centers_.dtype), self.cluster_centers_):
            return self._centers
        return np.asarray(self.cluster_centers_, dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])
