"""Clusters of any shape: the graph of nearest neighbours, cut where there is a valley (KJ 5.2).

1. *Neighbours* (`neighbors.py`): each row is linked to its nearest rows.
2. With a resolution θ given: the penalized normalized cut F = Σ_c (conductance_c - θ) of that graph
   (`search.py`). Otherwise the stages of `stages.py`: pieces are merged unless a valley lies
   between them, communities are looked for in many columns, and curves that cross are told apart.
"""

from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from madbayes._model.callbacks import CallbacksMixin
from madbayes._model.fitting import check_effort, forget
from madbayes._model.layers import LayersMixin
from madbayes._partition.novelty import calibrate, check_novel, p_values
from madbayes._rows.checks import check_choice, check_count, check_pattern, check_rows
from madbayes._rows.threads import workers
from madbayes._storage.saving import SaveMixin
from madbayes.graph.graph_cut import check_resolution
from madbayes.graph.input import check_graph, connected_part, links_kept
from madbayes.graph.knn_graph import (
    KnnGraph,
    Nearest,
    NearestAmong,
    knn_graph,
    mean_distance,
    one_hot,
)
from madbayes.graph.neighbors import (
    Neighbours,
    nearest_among_by_distances,
    nearest_by_distances,
    safe_new_rows,
    safe_rows,
    spread_rounded_rows,
)
from madbayes.graph.search import NOTHING, least_resolution, measure, search
from madbayes.graph.stages import State, divide
from madbayes.graph.voting import n_neighbors_needed, voters


class NeighborCut(SaveMixin, LayersMixin, CallbacksMixin, ClusterMixin, BaseEstimator):
    """Clusters of any shape, their number found: cuts of the graph of nearest neighbours.

    Rows are linked to their nearest rows. The graph is cut into small pieces, and pieces are joined
    unless a valley lies between them: unless fewer links cross their boundary than cross either
    side of it, beyond what chance does. Noise has no valleys and stays one cluster; so do rings and
    filaments, whatever their length. Thin curves that cross, or run so close to each other that
    neighbours reach over the gap, are told apart by their directions, in up to 10 columns. Rows of
    a rounded table, many of which are equal, are spread over the cells of its grid first.

    Subjects of texts and overlapping kinds of cells have no valleys between them. So rows of more
    than 10 columns, measured by straight lines or the cosine, are looked at once more where valleys
    say little. There, communities are the clusters if links stay within them (modularity) a quarter
    more than in rows without clusters that have the same columns or the same principal axes; the
    evidence is then weak. A given graph has no rows to compare with; if it spreads like one of many
    columns, its communities (see `GraphCut`) are the clusters if they are found again without a
    tenth of the links.

    Use it when clusters need not be round: crescents, rings, filaments, embeddings of cells, texts
    or words. Use `DPMeans` for round clusters that overlap in few columns, or when you need
    centres; `SpectralDPMeans` when you have a kernel of your own.

    Parameters
    ----------
    n_neighbors : int, default=15
        The number of nearest rows that each row is linked to (all others, if there are fewer). Low
        numbers see thin gaps, high ones need fewer rows to be sure. With ``resolution="auto"`` the
        cuts of three graphs decide by majority: with 10, 15 and 30 neighbours if this number lies
        between 10 and 30, else with two thirds, once and twice as many. A cut uses the nearest
        0.7 √n_rows of them (8 at least), because more would reach over the gaps. More than 6,000
        rows are cut with 15 neighbours; then three samples of 4,000 rows decide by majority whether
        a cluster of more than 6,000 rows is divided further, because wide gaps show in them only.
    metric : str or callable, default="euclidean"
        "cosine", or any other of `sklearn.neighbors.NearestNeighbors`. "precomputed": X holds the
        distances between the rows, all of them or (sparse) those to the nearest, as from
        `sklearn.neighbors.KNeighborsTransformer`. "connectivities": X is a symmetric graph with
        weights, higher for nearer rows, such as ``adata.obsp["connectivities"]`` of scanpy.
    weights : {"uniform", "jaccard"}, default="uniform"
        What a link weighs: 1 where each of its two rows is a neighbour of the other and 1/2 where
        only one is; or the share of neighbours that the two have in common.
    resolution : float or "auto", default="auto"
        A number cuts the graph at this resolution (see `GraphCut`) and joins nothing.
    n_clusters_hint : int, optional
        With ``resolution="auto"``: join pieces until so many clusters are left.
    approximate : bool or "auto", default="auto"
        Find most of the neighbours, and quickly (pynndescent): "auto" does so above 100,000 dense
        rows of more than 10 columns, where it is installed. `recall_` says how many were found.
    effort : float, default=1
        Patience of the cut: how often its search looks at rows before it goes on. With a number as
        resolution so many times as many runs, which are combined.
    n_jobs : int, optional
        Threads of the search for neighbours. The result is the same for any number.
    random_state : int, RandomState or None
        Seed for the order in which rows are visited by the cut where the resolution is a number;
        with "auto" that order follows from the rows. And seed of approximate neighbours.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        Clusters from the largest to the smallest.
    n_clusters_ : int
    conductance_ : array of shape (n_clusters_,)
        The share of each cluster's links that leave it.
    membership_ : array of shape (n_rows,)
        The share of each row's links that stay in its cluster: below 1 at a border.
    outlier_score_ : array of shape (n_rows,)
        The share of the rows of its cluster that lie nearer to their neighbours than this one.
    evidence_ : penalties.Choice
        With ``resolution="auto"``: how sure the number is, and what else it could be. Its score is
        exp(z), where the shallowest valley is z standard errors deep, or the modularity of
        communities (their `path_` has what joins take off it as price). Where the numbers of
        neighbours that are tried lead to different numbers, the evidence is weak and its remarks
        say so.
    path_ : penalties.Staircase
        With ``resolution="auto"``: clusters against that score; `path_.plot()` draws it.
    cluster_layers_, cluster_tree_, probabilities_
        With ``resolution="auto"``: nested divisions, finest first; `membership_` in the third.
    graph_ : CSR array of shape (n_rows, n_rows)
    resolution_ : float
        What was given; of "auto" the lowest resolution at which no join of two of the clusters
        lowers the objective.
    objective_ : float
        The sum of `conductance_` minus `resolution_` times `n_clusters_`.
    objective_history_, n_iter_, converged_
    novelty_quantiles_ : array
        For each cluster the mean distances to the neighbours that given shares of rows reach.
    recall_ : float
        The share of the true nearest neighbours that was found.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from madbayes import NeighborCut
    >>> X, _ = make_moons(1000, noise=0.05, random_state=0)
    >>> model = NeighborCut(random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.predict([[0.0, 1.0], [9.0, 9.0]], novel=True).tolist()[1]
    -1
    """

    def __init__(
        self,
        n_neighbors: int = 15,
        *,
        metric: Any = "euclidean",
        weights: str = "uniform",
        resolution: float | str = "auto",
        n_clusters_hint: int | None = None,
        approximate: bool | str = "auto",
        effort: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights
        self.resolution = resolution
        self.n_clusters_hint = n_clusters_hint
        self.approximate = approximate
        self.effort = effort
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X; see `metric` for what else X may be.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_rows, n_columns), or a table
        y : ignored
        """
        resolution = check_resolution(self.resolution)
        check_choice("weights", self.weights, "uniform", "jaccard")
        hint = self._hint(resolution)
        effort = check_effort(self.effort)
        rng = check_random_state(self.random_state)
        forget(self)
        with workers(self.n_jobs):
            asked, nearest, among = self._knn_graph(X, rng, resolution == "auto" and hint is None)
            graph, used = connected_part(asked.A, "normalized")
            if resolution == "auto":
                how = voters(self.n_neighbors), self.weights, effort, hint
                labels, self.path_ = divide(State(asked, self._neighbours, nearest, among, *how))
                self.evidence_ = self.path_.best()
                division = measure(graph, labels[used]) if used.size else NOTHING
                resolution = least_resolution(graph, division)
                history, self.converged_ = [division.objective(resolution)], True
            else:
                division, history = NOTHING, [0.0]
                if used.size:
                    division, history = search(graph, resolution, rng, effort=effort)
                labels = np.full(asked.A.shape[0], -1, np.int32)
                labels[used] = division.labels
                self.converged_ = bool(division.settled)
        if len(labels) == 1 and asked.distance is not None:  # one row is a cluster without links
            labels, history = np.zeros(1, np.int32), [-float(resolution)]
        self._store(asked, labels)
        self.resolution_ = float(resolution)
        self.objective_history_ = np.array(history)
        self.objective_ = float(history[-1])
        self.n_iter_ = len(history)
        if "path_" in vars(self):
            self._name_layers()
        return self

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

    def _hint(self, resolution: Any) -> int | None:
        if self.n_clusters_hint is None:
            return None
        if resolution != "auto":
            raise ValueError(
                f"n_clusters_hint={self.n_clusters_hint!r} would be ignored, because "
                f"resolution={resolution!r} decides already. Give one of them."
            )
        return check_count("n_clusters_hint", self.n_clusters_hint)

    def _knn_graph(
        self, X: Any, rng: np.random.RandomState, voting: bool
    ) -> tuple[KnnGraph, Nearest | None, NearestAmong | None]:
        """The graph of the rows. For `voting` also the distances and indices of as many neighbours
        as that needs, and the function that finds those of some rows among themselves."""
        k = check_count("n_neighbors", self.n_neighbors)
        among: NearestAmong
        self._neighbours = cell = None
        if self._given() == "connectivities":
            A = check_graph(X, self)
            return KnnGraph(A, A.data, None, None, 1.0), None, None
        if self._given() == "precomputed":
            D = self._distances(X, reset=True)
            voting = voting and not sp.issparse(D)
            needed = n_neighbors_needed(k, D.shape[0]) if voting else k
            distance, place = nearest_by_distances(D, min(needed, D.shape[0] - 1), themselves=True)
            among, recall = partial(nearest_among_by_distances, D), 1.0
        else:
            X = check_rows(self, X)
            # A copy: `predict` asks these rows, whatever becomes of the caller's array.
            X = X.copy() if sp.issparse(X) else np.array(X, order="C")
            X = safe_rows(X, self._given() == "cosine", self.n_jobs)
            seed = int(rng.randint(2**31 - 1))
            if self._given() == "euclidean" and not sp.issparse(X):
                X, cell = spread_rounded_rows(X, k)
            rows = Neighbours(X, self.metric, self.n_jobs, seed, self.approximate)
            needed = n_neighbors_needed(k, X.shape[0]) if voting else k
            distance, place = rows.of_themselves(min(needed, X.shape[0] - 1))
            among, recall = rows.among, rows.recall(place[:, :k])
            self._neighbours = rows
        graph = knn_graph(distance[:, :k], place[:, :k], self.weights, recall)._replace(cell=cell)
        return (graph, (distance, place), among) if voting else (graph, None, None)

    def _store(self, asked: KnnGraph, labels: np.ndarray) -> None:
        """What the fit found, clusters from the largest to the smallest."""
        A = asked.A
        number = np.unique(labels[labels >= 0], return_counts=True)
        rank = np.argsort(np.argsort(-number[1], kind="stable"))
        place = np.full(int(labels.max(initial=-1)) + 2, -1, np.int32)
        place[number[0]] = rank
        self.labels_ = place[labels]  # -1 stays -1
        self.n_clusters_ = int(number[0].size)
        degree, kept = links_kept(A, self.labels_)
        self.membership_ = np.divide(kept, degree, out=np.ones(degree.size), where=degree > 0)
        own = self.labels_ >= 0
        total = np.bincount(self.labels_[own], degree[own], minlength=self.n_clusters_)
        stays = np.bincount(self.labels_[own], kept[own], minlength=self.n_clusters_)
        self.conductance_ = 1 - np.divide(stays, total, out=np.ones(total.size), where=total > 0)
        self.graph_, self.recall_ = A, asked.recall
        least = degree[degree > 0].min(initial=1.0) / 2  # of rows without any link
        far = 1 / np.maximum(degree, least)
        if asked.distance is not None:
            far = mean_distance(asked.distance)
        table = calibrate(far[own], self.labels_[own], np.ones(own.sum()), self.n_clusters_)
        self.outlier_score_ = np.ones(far.size)
        self.outlier_score_[own] = 1 - p_values(far[own], self.labels_[own], table)
        self.novelty_quantiles_ = None if asked.distance is None else table

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
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._given() in ("precomputed", "connectivities")
        tags.input_tags.positive_only = tags.input_tags.pairwise
        return tags
