"""What a fitted `NeighborCut` says of new rows: their cluster, and whether they look like any."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from madbayes._partition.novelty import check_novel, p_values
from madbayes._rows.checks import check_pattern, check_rows
from madbayes.graph.knn_graph import mean_distance, one_hot
from madbayes.graph.neighbors import Neighbours, nearest_by_distances, safe_new_rows


class NewRowsMixin:
    """`predict` and `novelty_score` by the neighbours among the rows of the fit."""

    metric: Any
    n_neighbors: int
    n_jobs: int | None
    labels_: np.ndarray
    n_clusters_: int
    novelty_quantiles_: np.ndarray | None
    _neighbours: Neighbours | None

    def predict(self, X: Any, novel: bool | float = False) -> np.ndarray:
        """The cluster that holds most of a row's nearest rows; ties go to the nearest.

        Parameters
        ----------
        X : rows, or their distances (connectivities) to the rows of the fit
        novel : bool or float, default=False
            True (or a rate, True is 0.001) gives -1 to rows so far from their neighbours as at most
            this share of rows like those of the fit would be.
        """
        rate = check_novel(novel)
        if rate == "paper":
            raise ValueError(
                "novel='paper' is not for neighbours: the printed algorithm knows no new rows of a "
                "graph. Use True or a rate between 0 and 1."
            )
        labels, far = self._ask(X)
        if rate is not None:
            labels[self._novelty(labels, far) <= rate] = -1
        return labels

    def novelty_score(self, X: Any) -> np.ndarray:
        """The p-value of each row: the share of rows like those of the fit that would be as far
        from their neighbours."""
        return self._novelty(*self._ask(X))

    def _novelty(self, labels: np.ndarray, far: np.ndarray | None) -> np.ndarray:
        if far is None or self.novelty_quantiles_ is None:
            raise ValueError(
                "metric='connectivities' knows no distances, so it cannot say which rows are new. "
                "Fit on rows or with metric='precomputed'."
            )
        return p_values(far, labels, self.novelty_quantiles_)

    def _ask(self, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Labels by the neighbours, and how far these are."""
        check_is_fitted(self)
        if self._given() == "connectivities":
            X = check_pattern(X)
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
            votes = sp.csr_array(X) @ one_hot(self.labels_, self.n_clusters_)
            return np.asarray(votes.toarray().argmax(axis=1), np.int32).ravel(), None
        k = min(self.n_neighbors, self.labels_.size)
        if self._given() == "precomputed":
            distance, index = nearest_by_distances(
                self._distances(X, reset=False), k, themselves=False
            )
        else:
            X = check_rows(self, X, reset=False)
            assert self._neighbours is not None
            X = safe_new_rows(X, self._neighbours.X, self._given() == "cosine", self.n_jobs)
            distance, index = self._neighbours.of(X, k)
        near = self.labels_[index]
        # A row's nearest counts a little more: it decides ties, and a row of the fit knows itself
        share = np.ones(index.shape)
        share[:, 0] += np.where(distance[:, 0] == 0, k, 0.5)
        rows = np.repeat(np.arange(len(index)), k)
        votes = np.zeros((len(index), max(self.n_clusters_, 1)))
        known = near.ravel() >= 0
        np.add.at(votes, (rows[known], near.ravel()[known]), share.ravel()[known])
        return votes.argmax(axis=1).astype(np.int32), mean_distance(distance)

    def _distances(self, X: Any, *, reset: bool) -> Any:
        D = validate_data(
            self, check_pattern(X), reset=reset, accept_sparse="csr", dtype=np.float64
        )
        if reset and D.shape[0] != D.shape[1]:
            raise ValueError(
                f"metric='precomputed' needs the distances between all rows, and X has the shape "
                f"{D.shape}. For rows of features leave metric='euclidean'."
            )
        if (D.data if sp.issparse(D) else D).min(initial=0.0) < 0:
            raise ValueError("Negative values in data: distances (metric='precomputed') are >= 0.")
        return D

    def _given(self) -> str:
        """What X is, when it is not rows."""
        return self.metric if isinstance(self.metric, str) else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._given() in ("precomputed", "connectivities")
        tags.input_tags.positive_only = tags.input_tags.pairwise
        return tags
