"""What `KMeans`, `DPMeans` and `HardHDP` share for divergences: parameters, predicting, storing."""

import warnings
from typing import Any

import numpy as np

from madbayes._model.dispatch import anywhere
from madbayes._model.novelty_mixin import Closest
from madbayes._rows.checks import check_choice, check_weight
from madbayes.divergences.families import EncodedRows, Statistics, centers_of, half_seen
from madbayes.divergences.kernels import SQUARED
from madbayes.divergences.number import Noise
from madbayes.divergences.table import (
    DIVERGENCES,
    ColumnEncoder,
    check_gaps,
    fit_table,
    read_columns,
)


class DivergenceMixin:
    """Estimators with `divergence`; before `CentersMixin` in the order of bases."""

    divergence: str = "squared"
    missing: str = "error"
    columns: Any = None
    n_jobs: int | None
    n_clusters_: int
    labels_: np.ndarray
    _statistics: Statistics  # only while a fit is calibrated
    cluster_centers_: np.ndarray

    @property
    def _by_divergence(self) -> bool:
        """Whether a fit goes by divergences; complains about parameters that do not fit."""
        check_choice("divergence", self.divergence, *DIVERGENCES)
        check_choice("missing", self.missing, "error", "observed")
        earlier = ("_encoder", "_cluster_weights", "columns_", "scales_", "outlier_penalty_")
        for name in earlier:
            vars(self).pop(name, None)
        special = self.divergence != "squared" or self.missing == "observed"
        special |= getattr(self, "outlier_penalty", None) is not None
        if self.columns is not None and self.divergence != "mixed":
            raise ValueError(
                f"columns={self.columns!r} is for divergence='mixed', and divergence is "
                f"{self.divergence!r}."
            )
        if special and getattr(self, "metric", "euclidean") != "euclidean":
            raise ValueError(
                f"metric={self.metric!r} needs divergence='squared', no gaps, no outliers. "  # type: ignore
                "Leave one of them out."
            )
        if special and getattr(self, "checkpoint", None) is not None:
            raise ValueError(
                "checkpoint goes with divergence='squared', without gaps and outliers."
            )
        return special

    def _encode_fit(self, X: Any, sample_weight: Any) -> tuple[EncodedRows, np.ndarray]:
        """Rows of a fit (not scaled), and which of them count: with a weight and with a cell."""
        columns = read_columns(self, X, reset=True)
        weight = check_weight(sample_weight, len(columns[0]))
        self._encoder = fit_table(self, columns)
        rows = self._encoder.encode(columns, weight)
        return rows, (rows.w > 0) & has_cells(rows, self._encoder)

    def _set_noise(self, rows: EncodedRows, noise: Noise) -> None:
        """Keep how numbers are shifted and scaled."""
        encoder, squared = self._encoder, rows.layout.family == SQUARED
        encoder.offset = np.where(squared, rows.overall, 0.0)
        encoder.factor, encoder.shape = noise.factor, noise.shape

    def _store_means(self, means: np.ndarray, weights: np.ndarray) -> None:
        """Centres, of scaled rows."""
        encoder: ColumnEncoder = self._encoder
        self._centers = encoder.own_units(means)
        self.cluster_centers_ = self._centers.copy()
        self._cluster_weights = weights
        self.columns_ = dict(zip(encoder.names, encoder.kinds, strict=True))
        if encoder.mixed:
            first = encoder.first
            self.scales_ = {
                encoder.names[at]: float(
                    encoder.shape[j] if kind == "gamma" else 1 / (np.sqrt(2) * encoder.factor[j])
                )
                for at, (j, kind) in enumerate(zip(first, encoder.kinds, strict=True))
                if kind in ("squared", "gamma")
            }

    def _calibrate_encoded(self, rows: EncodedRows, labels: np.ndarray) -> None:
        """Novelty, from the (scaled) rows of the fit that are in a cluster."""
        inside = np.flatnonzero(labels >= 0)
        rows, labels = rows.take(inside), labels[inside]
        self._statistics = rows.add_up(labels.astype(np.int64), self.n_clusters_)
        try:
            self._calibrate(rows, labels, rows.w)  # type: ignore[attr-defined]
        finally:
            del self._statistics

    # New rows

    @property
    def _divergent(self) -> bool:
        """Whether the fitted model goes by divergences."""
        return getattr(self, "_encoder", None) is not None

    def _new_rows(self, X: Any) -> Any:
        if not self._divergent:
            return super()._new_rows(X)  # type: ignore[misc]
        columns = read_columns(self, X, reset=False)
        encoder = self._encoder
        check_gaps(columns, list(encoder.names), encoder.observed, new=True)
        return encoder.scaled(encoder.encode(columns, None))

    def _gaps(self, X: Any) -> np.ndarray:
        """Divergences of encoded rows to all centres."""
        if not self._divergent:
            return super()._gaps(X)  # type: ignore[misc]
        means = self._encoder.from_own_units(self._exact_centers())  # type: ignore[attr-defined]
        near = centers_of(means, X.layout, half_seen(self._cluster_weights))
        cost = X.cost(near, 0, X.n) + X.phi[:, None]
        return np.asarray(np.maximum(cost, 0.0))

    def _closest(self, X: Any, *more: Any) -> Closest:
        if not self._divergent:
            return super()._closest(X, *more)  # type: ignore[misc]
        rows = self._new_rows(X)
        labels, costs = self._label(rows)
        return Closest(labels, costs, lambda some: self._gaps(rows.take(some)))

    def _label(self, rows: EncodedRows) -> tuple[np.ndarray, np.ndarray]:
        """Nearest clusters and divergences; -1 for rows without a cell, or too far for a price."""
        labels, costs = np.empty(rows.n, np.int32), np.empty(rows.n)
        for a in range(0, rows.n, 2**15):
            some = rows.take(np.arange(a, min(rows.n, a + 2**15)))
            gaps = self._gaps(some)
            labels[a : a + some.n] = gaps.argmin(axis=1)
            costs[a : a + some.n] = gaps.min(axis=1)
        price = getattr(self, "outlier_penalty_", None)
        if price is not None:
            labels[costs > price] = -1
        empty = ~has_cells(rows, self._encoder)
        if empty.any():
            labels[empty] = -1
            warn_of_empty(empty)
        return labels, costs

    def _plain_labels(self, X: Any, **how: Any) -> np.ndarray:
        if not self._divergent:
            return super()._plain_labels(X, **how)  # type: ignore[misc]
        return self._label(self._new_rows(X))[0]

    def _fitted_gaps(self, X: Any, rows: np.ndarray) -> np.ndarray:
        if not self._divergent:
            return super()._fitted_gaps(X, rows)  # type: ignore[misc]
        return self._gaps(X.take(rows))

    def _held_out(
        self, X: Any, rows: np.ndarray, label: np.ndarray, weight: np.ndarray, total: np.ndarray
    ) -> np.ndarray:
        if not self._divergent:
            return super()._held_out(X, rows, label, weight, total)  # type: ignore
        return divergence_without_row(X.take(rows), label, self._statistics)

    @anywhere
    def transform(self, X: Any) -> np.ndarray:
        """Distances to the centres, (n_rows, n_clusters): Euclidean, or of directions with
        ``metric="cosine"``; with a `divergence` other than "squared" the divergences themselves.
        """
        if not self._divergent:
            return super().transform(X)  # type: ignore[misc]
        gaps = self._gaps(self._new_rows(X))
        return np.sqrt(gaps) if self._encoder.divergence == "squared" else gaps

    @anywhere
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of squared distances (or divergences) to the nearest centres: larger is
        better."""
        if not self._divergent:
            return super().score(X, y, sample_weight)  # type: ignore[misc]
        rows = self._new_rows(X)
        weight = check_weight(sample_weight, rows.n)
        costs = self._label(rows)[1]
        return -float(costs.sum() if weight is None else weight @ costs)


def has_cells(rows: EncodedRows, encoder: ColumnEncoder) -> np.ndarray:
    """Rows with at least one cell (multinomial rows of zeros have their cells)."""
    if encoder.divergence == "multinomial":
        return np.ones(rows.n, bool)
    return np.asarray((rows.P > 0).any(axis=1))


def warn_of_empty(empty: np.ndarray) -> None:
    warnings.warn(
        f"{int(empty.sum())} rows have no cell at all (the first is row {int(np.argmax(empty))}): "
        "they are in no cluster, and their label is -1.",
        stacklevel=3,
    )


def divergence_without_row(
    rows: EncodedRows, label: np.ndarray, clusters: Statistics
) -> np.ndarray:
    """The divergence of each row to the mean of the other rows of its cluster; infinite alone."""
    out, layout, overall = np.empty(rows.n), rows.layout, clusters.total().means(rows.layout)
    for a in range(0, rows.n, 4096):
        some, c = rows.take(np.arange(a, min(rows.n, a + 4096))), label[a : a + 4096]
        w = some.w[:, None]
        rest = Statistics(
            clusters.S[c] - w * some.T, clusters.N[c] - w * some.P, clusters.W[c] - some.w
        )
        near = centers_of(rest.means(layout, overall), layout, half_seen(np.maximum(rest.W, 0.0)))
        cost = some.phi + (some.P * near.psi).sum(axis=1) - (some.T * near.theta).sum(axis=1)
        alone = rest.W <= 1e-12 * clusters.W[c]
        out[a : a + some.n] = np.where(alone, np.inf, np.maximum(cost, 0.0))
    return out
