"""What the estimators in kernel space share: which kernel, nearest means, transform, score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._model.clusterer import Clusterer
from madbayes._model.novelty_mixin import MOST_ROWS, Closest
from madbayes._rows.checks import check_rows, check_weight
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import Rows
from madbayes._rows.threads import together, workers
from madbayes.kernel.gram import (
    MAX_ROWS,
    Gram,
    Kernel,
    check_symmetric,
    is_all,
    make_kernel,
    sums_of,
)
from madbayes.kernel.move_kernels import distances, nearest

NEW_ROWS = 512  # new rows compared with the fitted ones at a time


class KernelMixin(Clusterer):
    """Estimators whose centres exist only through kernel values."""

    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None

    def _transform_fitted(self, X: Any) -> np.ndarray:
        """Of the rows of the fit, whose kernel values with themselves are known."""
        if self._is_precomputed():
            X = check_rows(self, X, reset=False)
            return self.transform(X, diagonal=X.diagonal())
        return self.transform(X)

    def predict(self, X: Any, novel: Any = False, diagonal: Any = None) -> np.ndarray:
        """The nearest cluster of each row of X, or -1 for rows that are new.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            With ``kernel="precomputed"``: kernel values of the new rows with the fitted ones.
        novel : bool, float or "paper", default=False
            As in `DPMeans.predict`.
        diagonal : array of shape (n_rows,), optional
            With ``kernel="precomputed"`` and `novel`: kernel values of the new rows with
            themselves. May be left out where they were all equal in `fit`.
        """
        return self._predict(X, novel, diagonal=diagonal)

    def novelty_score(self, X: Any, diagonal: Any = None) -> np.ndarray:
        """As in `DPMeans.novelty_score`; X and `diagonal` as in `predict`."""
        return self._score_novelty(self._closest(X, diagonal))

    def transform(self, X: Any, diagonal: Any = None) -> np.ndarray:
        """Distances to the means in kernel space, (n_rows, n_clusters); X as in `predict`."""
        X = self._new_rows(X)
        out = np.empty((X.shape[0], self.n_clusters_), dtype=Rows(X).dtype)

        def store(cut: slice, D: np.ndarray, diagonal: np.ndarray) -> None:
            out[cut] = np.sqrt(D)

        self._compare(X, diagonal, True, store)
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of squared distances to the nearest means: larger is better."""
        d2 = self._nearest(self._new_rows(X), None, need_distance=True)[1]
        weight = check_weight(sample_weight, len(d2))
        return -float(d2.sum() if weight is None else weight @ d2)

    # Fitting

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _used_rows(self, X: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the rows that count, and their weights."""
        weight = check_weight(sample_weight, X.shape[0])
        weight = np.ones(X.shape[0]) if weight is None else weight
        used = np.flatnonzero(weight > 0)
        return used, weight[used]

    def _make_gram(self, X: Any, used: np.ndarray, w: np.ndarray) -> Gram:
        """Kernel values between the rows `used`; remembers what new rows will need."""
        if len(used) > MAX_ROWS:
            raise ValueError(
                f"X has {len(used)} rows: {type(self).__name__} compares all pairs of them, which "
                f"is too slow above {MAX_ROWS}. make_pipeline(Nystroem(), DPMeans()) with "
                "sklearn.kernel_approximation.Nystroem does the same approximately."
            )
        if self._is_precomputed():
            check_symmetric(X)
            self._rows, self._columns = None, used
            gram = Gram.of_matrix(X if is_all(used, X) else X[used][:, used])
        else:
            self._kernel, self._rows = self._place(X, used, w)
            gram = Gram.of_rows(self._kernel, self._rows)
        top = float(np.abs(gram.diagonal).max())
        with np.errstate(over="ignore"):
            if not top * w.sum() ** 2 < 1e307:
                raise ValueError(
                    f"kernel values reach {top:.3g}: their sums over all pairs of rows (times "
                    "their weights) would overflow float64. Divide X or the weights."
                )
        return gram

    def _place(self, X: Any, used: np.ndarray, w: np.ndarray) -> tuple[Kernel, Any]:
        """The kernel, and the rows `used` where it wants them."""
        rows = X if is_all(used, X) else X[used]
        frame = measure_to_fit(Rows(rows, weight=w))
        kernel = make_kernel(
            self.kernel,
            self.gamma,
            self.degree,
            self.coef0,
            self.kernel_params,
            rows,
            w,
            frame.mean,
        )
        return kernel, kernel.place(rows)

    def _store_clusters(
        self, gram: Gram, w: np.ndarray, z: np.ndarray, W: np.ndarray, S: np.ndarray
    ) -> None:
        """What `predict` needs: clusters z of the rows of `gram`; W and S as in `kernel_moves`."""
        self._weight, self._labels = w, np.asarray(z, dtype=np.int64)
        self._totals, self._norms = W, S / W**2
        self._shift = (gram.references, gram.half, gram.shift, gram.sparse is not None)
        raw_diagonal = gram.diagonal + 2 * gram.shift
        same = np.ptp(raw_diagonal) <= 1e-9 * np.abs(raw_diagonal).max()
        self._diagonal = float(raw_diagonal[0]) if same else None

    def _all_labels(self, X: Any, used: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Labels of all rows of X: z for the rows `used`, the nearest cluster for others."""
        labels = np.empty(X.shape[0], dtype=np.int32)
        labels[used] = z
        left_out = np.setdiff1d(np.arange(X.shape[0]), used)

        def store(cut: slice, D: np.ndarray, diagonal: np.ndarray) -> None:
            nearest(D, diagonal, self._norms, found[cut], np.empty(len(D)))

        if len(left_out):
            found = np.empty(len(left_out), np.int32)
            self._compare(X[left_out], None, False, store)
            labels[left_out] = found
        return labels

    # New rows

    def _plain_labels(self, X: Any, **how: Any) -> np.ndarray:
        return self._nearest(self._new_rows(X), how.get("diagonal"), need_distance=False)[0]

    def _closest(self, X: Any, diagonal: Any = None) -> Closest:
        X = self._new_rows(X)
        labels, d2 = self._nearest(X, diagonal, need_distance=True)

        def gaps(rows: np.ndarray) -> np.ndarray:
            return self._gaps(X[rows], None if diagonal is None else np.asarray(diagonal)[rows])

        return Closest(labels, np.maximum(d2, 0.0), gaps)

    def _gaps(self, X: Any, diagonal: Any = None, need_distance: bool = True) -> np.ndarray:
        """Squared distances to the means, (n_rows, n_clusters)."""
        out = np.empty((X.shape[0], self.n_clusters_))

        def store(cut: slice, D: np.ndarray, _: np.ndarray) -> None:
            out[cut] = D

        self._compare(X, diagonal, need_distance, store)
        return out

    def _fitted_gaps(self, X: Any, rows: np.ndarray) -> np.ndarray:
        return self._gaps(X[rows], X.diagonal()[rows] if self._is_precomputed() else None)

    def _calibrate_kernel(self, X: Any, sample_weight: Any) -> None:
        """Calibrate with fewer rows the more rows there are, since each is compared with all."""
        compared = len(self._columns) if self._rows is None else self._rows.shape[0]
        weight = check_weight(sample_weight, X.shape[0])
        most = min(MOST_ROWS, max(1024, 2**25 // compared))
        self._calibrate(X, self.labels_, weight, most=most)

    def _nearest(
        self, X: Any, diagonal: Any, *, need_distance: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Labels and squared distances of rows that are checked."""
        labels, d2 = np.empty(X.shape[0], np.int32), np.empty(X.shape[0])

        def store(cut: slice, D: np.ndarray, diagonal: np.ndarray) -> None:
            nearest(D, diagonal, self._norms, labels[cut], d2[cut])

        self._compare(X, diagonal, need_distance, store)
        return labels, d2

    def _compare(
        self,
        X: Any,
        diagonal: Any,
        need_distance: bool,
        store: Callable[[slice, np.ndarray, np.ndarray], None],
    ) -> None:
        """Squared distances to the means, block by block, into `store`.

        Without `need_distance` those of a row may all be off by the same number.
        """
        precomputed = self._rows is None
        if precomputed and not self._is_precomputed():
            raise AttributeError(
                f"with kernel={self.kernel!r} there is no distance between other rows and the "
                "clusters; use fit_predict."
            )
        if diagonal is not None and not precomputed:
            raise ValueError("diagonal is for kernel='precomputed' only; leave it out.")
        if precomputed and need_distance:
            diagonal = self._checked_diagonal(diagonal, X.shape[0])
        references, half, shift, unshifted = self._shift

        def partial(a: int) -> None:
            cut = slice(a, min(a + NEW_ROWS, X.shape[0]))
            if precomputed:
                block = X[cut][:, self._columns]
                values = block.toarray() if sp.issparse(block) else block
                values = np.array(values, dtype=np.float64, order="C")
            else:
                rows = self._kernel.place(X[cut])
                values = self._kernel.between(rows, self._rows)
            own = np.zeros(len(values))
            if not unshifted:
                own = values[:, references].mean(axis=1) - half
                values -= own[:, None]
                values -= shift
            if not precomputed:
                here = self._kernel.diagonal(rows) - 2 * own
            elif diagonal is not None:
                here = diagonal[cut] - 2 * own
            else:  # large enough for all distances to be positive
                here = np.full(len(values), 4 * np.abs(values).max(initial=0.0))
            M = sums_of(values, self._weight, self._labels, len(self._totals))
            D = np.empty_like(M)
            distances(M, here, self._totals, self._norms, D)
            store(cut, D, here)

        with workers(self.n_jobs):
            together(partial, range(0, X.shape[0], NEW_ROWS))

    def _checked_diagonal(self, diagonal: Any, n: int) -> np.ndarray:
        if diagonal is None and self._diagonal is None:
            raise ValueError(
                "distances of new rows need their kernel values with themselves: pass diagonal=, "
                "one value for each row of X."
            )
        diagonal = np.full(n, self._diagonal) if diagonal is None else np.asarray(diagonal, float)
        if diagonal.shape != (n,):
            raise ValueError(f"diagonal has shape {diagonal.shape}, but X has {n} rows.")
        return diagonal

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed()
        return tags
