"""Penalized graph cuts: communities of a graph, their number found (KJ 5.2).

Objective: F = Σ_c cut_c/w_c - θk, where cut_c is the weight of the edges that leave cluster c and
w_c its weight: the degrees of its nodes (normalized cut) or their number (ratio cut).

`search.py` looks for its minimum, `kernel_cut.py` is the printed algorithm, `path.py` finds θ.
This file is the estimator.
"""

import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from madbayes._model.callbacks import CallbacksMixin
from madbayes._model.fitting import check_effort, forget, keep_choice
from madbayes._model.layers import LayersMixin, Level
from madbayes._rows.checks import check_choice, check_count
from madbayes._rows.threads import workers
from madbayes._storage.saving import SaveMixin
from madbayes.graph.input import check_graph, connected_part, links_kept, read_graph
from madbayes.graph.kernel_cut import Cut, kernel_dp_means, least_sigma, to_lambda
from madbayes.graph.levels import Graph
from madbayes.graph.path import find_path, spread
from madbayes.graph.search import NOTHING, search


def check_resolution(resolution: Any) -> Any:
    """A positive finite number or "auto"."""
    if isinstance(resolution, str) and resolution == "auto":
        return resolution
    hint = (
        "must be a number > 0 or 'auto'. A cluster earns it and pays its conductance, so that "
        "useful values are above the conductance of the clusters and, for cut='normalized', below "
        "1; penalties.cut_path(A) shows the number of clusters for all of them."
    )
    if isinstance(resolution, bool) or not isinstance(resolution, Real):
        raise TypeError(f"resolution={resolution!r} {hint}")
    if not 0 < float(resolution) < np.inf:
        raise ValueError(f"resolution={resolution!r} {hint}")
    return float(resolution)


def by_weight(graph: Graph, labels: np.ndarray) -> np.ndarray:
    """Labels from the heaviest cluster to the lightest."""
    weight = np.bincount(labels, graph.w)
    return np.argsort(np.argsort(-weight, kind="stable"), kind="stable")[labels]


class GraphCut(SaveMixin, LayersMixin, CallbacksMixin, ClusterMixin, BaseEstimator):
    """Communities of a graph by penalized cuts, their number found (Kulis & Jordan 2012, 5.2).

    Minimises the sum over the clusters of conductance minus `resolution`: every cluster earns the
    resolution and pays for the edges that leave it.

    Use it for undirected graphs, weighted or not, whose communities you expect to be much smaller
    than the graph: modularity merges those (its resolution limit), this objective does not. Do not
    use it for directed graphs or weights below 0, or to divide a graph into parts of equal size.

    Parameters
    ----------
    resolution : float or "auto", default="auto"
        What a cluster earns (minus λ' of the paper): higher gives more and smaller clusters. Two
        clusters merge, roughly, when their conductance exceeds it, so a value below the conductance
        of the true communities collapses them. For ``cut="normalized"`` useful values lie between 0
        and 1; for "ratio" they are in units of edge weight per node, and up to the mean degree.
        "auto" takes the communities that predict edges held out, and on which repetitions without
        a tenth of the edges agree best; `resolution_` is the middle of the range in which their
        number is best on `path_`. They do not depend on `random_state` or on the numbers of the
        nodes.
    cut : {"normalized", "ratio"}, default="normalized"
        Divide the weight of the edges that leave a cluster by the degrees of its nodes, or by their
        number.
    algorithm : {"search", "paper"}, default="search"
        "search" looks for the lowest objective at a given resolution: at the end no node moved to
        a cluster it has an edge to, no node made a cluster of its own and no merge of two linked
        clusters lowers it.
        (On long chains and grids it may stop before, with a warning.)
        It is a heuristic: the global minimum is found nearly always for few nodes and is not
        guaranteed. "paper" is KJ Algorithm 1 on the kernel of their Theorem 5.3, from one cluster:
        for a resolution below 1 it stays there, unless nodes have loops.
    n_init : int, default=1
        "search" is done so often from different seeds, and the results are combined.
    effort : float, default=1
        Patience of "search": so many times as many runs, which are combined. With 1, one run is
        made on large graphs and up to fourteen on small ones, fewer when they agree ("auto": three
        on small ones).
    max_iter : int, default=300
        For "paper": passes at most.
    random_state : int, RandomState or None
        Seed for the order in which nodes are visited by "search" at a given resolution. With "auto"
        that order follows from the graph.
    n_jobs : int or None
        Threads for the repetitions that find the resolution of graphs of 10,000 edges and more;
        None and -1 use all cores. The result is the same for any number.

    Attributes
    ----------
    labels_ : array of shape (n_nodes,)
        Clusters from the heaviest to the lightest; -1 for nodes without any edge.
    n_clusters_ : int
    membership_ : array of shape (n_nodes,)
        The share of each node's links that stay in its community, from 0 to 1; `probabilities_` is
        0 for nodes without any edge.
    resolution_ : float
    evidence_ : penalties.Choice
        With ``resolution="auto"``: how sure the number is, and what else it could be. Its
        `stability` is the share of repetitions that say the same number, `n_isolated` counts
        components of up to 5 nodes, which are clusters too.
    path_ : penalties.Staircase
        With ``resolution="auto"``: clusters against the resolution; `path_.plot()` draws it.
    cluster_layers_ : list of arrays of shape (n_nodes,)
        With ``resolution="auto"``: `labels_`, and finer and coarser divisions that edges held out
        support as well; finest first, each made of the clusters of the one before.
    cluster_tree_ : dict
        With ``resolution="auto"``: ``(layer, cluster)`` to the list of its clusters in the layer
        before.
    objective_ : float
        `cut_` minus `resolution_` times `n_clusters_`.
    cut_ : float
        The sum of `conductance_`.
    conductance_ : array of shape (n_clusters_,)
        The weight of the edges that leave each cluster over its degree ("ratio": over its number
        of nodes).
    lambda_, sigma_ : float
        The paper's λ = λ' + σ + 1 ("ratio": λ' + σ) with the least σ for which Theorem 5.3 applies
        to every graph of these degrees; for comparison.
    objective_history_ : array, n_iter_, converged_
        The objective after each pass or run; never rises.
    node_names_ : list or None
        The nodes of a graph that has names for them, in the order of `labels_`; None for a matrix.
    n_features_in_, feature_names_in_

    Notes
    -----
    A loop counts once in the degree of its node, as in D = diag(Ae). A cluster of "search" need not
    be connected. Nodes move one after the other; the result does not depend on threads.

    Examples
    --------
    Two triangles with an edge between them:

    >>> import numpy as np
    >>> from madbayes import GraphCut
    >>> A = np.zeros((6, 6))
    >>> for i, j in [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]:
    ...     A[i, j] = A[j, i] = 1
    >>> model = GraphCut(resolution=0.5, random_state=0).fit(A)
    >>> model.labels_
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    >>> model.conductance_.round(3)
    array([0.143, 0.143])
    """

    def __init__(
        self,
        resolution: float | str = "auto",
        *,
        cut: str = "normalized",
        algorithm: str = "search",
        n_init: int = 1,
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.resolution = resolution
        self.cut = cut
        self.algorithm = algorithm
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the nodes of a graph.

        Parameters
        ----------
        X : adjacency, edge list, or a networkx, igraph or AnnData object
            An adjacency is dense or sparse; weights of 0 and missing entries are no edges. An edge
            list is a list of tuples (node, node) or (node, node, weight); nodes are in the order in
            which they appear. Of a networkx or igraph graph the edge attribute "weight" counts
            where it exists, of AnnData ``obsp["connectivities"]``; nodes are in their own order.
            Repeated edges are added up. Directed graphs are made undirected with a warning: an edge
            and its reverse are added. Bipartite graphs are refused.
        y : ignored
        """
        A, names = read_graph(X)
        A = check_graph(A, self)
        self.node_names_ = names
        resolution = check_resolution(self.resolution)
        check_choice("cut", self.cut, "normalized", "ratio")
        check_choice("algorithm", self.algorithm, "search", "paper")
        n_init = check_count("n_init", self.n_init)
        effort = check_effort(self.effort)
        max_iter = check_count("max_iter", self.max_iter)
        rng = check_random_state(self.random_state)
        graph, used = connected_part(A, self.cut)
        path = None
        forget(self)
        # Threads would wait for each other longer than they work in graphs of fewer half-edges.
        with workers(self.n_jobs, enough=graph.indices.size >= 20_000):
            if resolution == "auto":
                found = find_path(graph, self.cut, n_init * effort)
                path = spread(found.path, used, A.shape[0])
                resolution = path.best().resolution
            if not used.size:
                result = Cut(NOTHING, [0.0], 0, True)
            elif self.algorithm == "paper":
                result = kernel_dp_means(graph, resolution, self.cut, max_iter=max_iter)
            elif path is not None:
                result = Cut(found.taken, [found.taken.objective(resolution)], 1, True)
            else:
                best, history = search(graph, resolution, rng, effort=n_init * effort)
                result = Cut(best, history, len(history), best.settled)
        if not result.converged:
            way_out = (
                f"did not converge in max_iter={max_iter} passes; nodes still change their "
                "cluster. Raise max_iter."
                if self.algorithm == "paper"
                else "stopped before no move lowered the objective: boundaries still shift by tiny "
                "steps, as in long chains and grids. A higher resolution settles sooner."
            )
            warnings.warn(f"GraphCut {way_out}", ConvergenceWarning, stacklevel=2)
        division = result.division
        self.labels_ = np.full(A.shape[0], -1, np.int32)
        rank = np.argsort(-division.weight, kind="stable")
        self.labels_[used] = np.argsort(rank)[division.labels]
        self.n_clusters_ = division.k
        degree, kept = links_kept(A, self.labels_)
        self.membership_ = np.divide(kept, degree, out=np.ones(degree.size), where=degree > 0)
        if path is not None:
            keep_choice(self, path, division.k, resolution)
            if self.algorithm == "search" and found.layers:
                self._keep_layers([by_weight(graph, layer) for layer in found.layers], used)
                self._name_layers()
        self.resolution_ = resolution
        self.conductance_ = division.terms[rank]
        self.cut_ = float(self.conductance_.sum())
        self.objective_ = result.history[-1]
        self.objective_history_ = np.array(result.history)
        self.sigma_ = least_sigma(graph, self.cut)
        self.lambda_ = to_lambda(resolution, self.sigma_, self.cut)
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        return self

    def _keep_layers(self, layers: list[np.ndarray], used: np.ndarray) -> None:
        """The layers that divide the communities further, and those that join them."""
        sizes = [int(layer.max(initial=-1)) + 1 for layer in layers]
        own = sizes.index(self.n_clusters_)
        _, first = np.unique(self.labels_[used], return_index=True)  # a node of each community
        self._coarser = np.array([layer[first] for layer in layers[own + 1 :]], np.int32).reshape(
            -1, self.n_clusters_
        )
        if own == 0:
            return
        self._finest = np.full(self.labels_.size, -1, np.int32)
        self._finest[used] = layers[0]
        _, first = np.unique(layers[0], return_index=True)
        self._finer = np.array([layer[first] for layer in layers[:own]], np.int32)

    def _layers(self) -> tuple[np.ndarray, list[Level]]:
        """Labels, and the coarser layers, finest first."""
        self._after_auto("path_", "cluster_layers_")
        groups = vars(self).get("_coarser", ())
        return self.labels_, [Level(int(group.max()) + 1, np.inf, group) for group in groups]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = True
        tags.input_tags.positive_only = True
        return tags
