"""Penalized graph cuts: communities of a graph, their number found (KJ 5.2).

This file is the printed algorithm and the estimator; `search.py` holds the default
algorithm.

Objective: F = Σ_c cut_c/w_c + λ'k, where cut_c is the weight of the edges that leave cluster c and
w_c its weight: the degrees of its nodes (normalized cut) or their number (ratio cut). λ' = -θ is
negative (with a positive λ' one cluster is always best), so a cluster earns the resolution θ and
pays its conductance cut_c/w_c.

KJ Theorem 5.3: with the kernel K = σD⁻¹ + D⁻¹AD⁻¹ and weights D, the objective of weighted kernel
DP-means, J + λk with λ = λ' + σ + 1, is F plus a constant. (Ratio cut: K = σI - L, weights 1,
λ = λ' + σ.) So Algorithm 1 applies:

1. One cluster.
2. Node by node: if its weighted squared distance to the nearest cluster exceeds λ, it opens a
   cluster (visible to the nodes after it, in the same pass); otherwise it goes to the nearest one.
3. Distances are to the new clusters from now on; clusters without nodes are dropped.
4. Repeat 2 and 3 until nothing changes.

The mean of a cluster is never formed: the distance is a sum over a node's edges, so a pass takes
O(|E|). σ is the least value that makes K positive semi-definite for every graph with these degrees.

Departs from the paper: nothing. For θ < 1 no node without a loop ever opens a cluster in step 2, so
from one cluster the printed algorithm stays there.
"""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from madbayes._engine.checks import check_choice, check_count
from madbayes._estimators.fitting import AUTOMATIC, keep_choice
from madbayes._estimators.saving import SaveMixin
from madbayes._kernels.graph import cluster_sums, kernel_pass, renumber
from madbayes.graph.input import check_graph, connected_part, node_names
from madbayes.graph.path import find_path
from madbayes.graph.search import NOTHING, Division, Graph, measure, search


@dataclass(frozen=True)
class Cut:
    division: Division
    history: list[float]
    n_iter: int
    converged: bool


def objective(A: np.ndarray, labels: np.ndarray, resolution: float, cut: str) -> float:
    """Cut(A) - resolution × clusters, of a dense adjacency; label -1 is in no cluster."""
    total = 0.0
    for c in np.unique(labels[labels >= 0]):
        inside = labels == c
        weight = A[inside].sum() if cut == "normalized" else inside.sum()
        total += A[inside][:, ~inside].sum() / weight - resolution
    return float(total)


def least_sigma(graph: Graph, cut: str) -> float:
    """σ for which K is positive semi-definite, whatever the edges.

    The eigenvalues of D^-½AD^-½ are above -1; those of L are at most the largest δ_i + δ_j over
    the edges (Anderson & Morley 1985).
    """
    if cut == "normalized":
        return 1.0
    ends = np.repeat(graph.delta, np.diff(graph.indptr))
    return float((ends + graph.delta[graph.indices]).max(initial=1.0))


def assign_or_open(
    graph: Graph, labels: np.ndarray, k: int, cut: str, sigma: float, penalty: float
) -> tuple[np.ndarray, int]:
    """2 and 3. One pass over the nodes; the new labels without gaps, and how many there are."""
    weight, cuts, _ = cluster_sums(*graph, labels, k)
    if cut == "normalized":
        diagonal, inner = graph.w - graph.delta, weight - cuts  # of A
    else:
        diagonal, inner = -graph.delta, -cuts  # of -L
    new = np.empty_like(labels)
    k = kernel_pass(*graph[:3], graph.w, diagonal, labels, weight, inner, sigma, penalty, new)
    filled = np.bincount(new, minlength=k) > 0
    return (np.cumsum(filled) - 1).astype(np.int32)[new], int(filled.sum())


def kernel_dp_means(
    graph: Graph, resolution: float, cut: str, *, max_iter: int, start: np.ndarray | None = None
) -> Cut:
    """KJ Algorithm 1 on the kernel of Theorem 5.3, nodes in their order."""
    sigma = least_sigma(graph, cut)
    penalty = to_lambda(resolution, sigma, cut)
    labels = np.zeros(graph.n, np.int32) if start is None else start.astype(np.int32)  # 1.
    k = renumber(labels, int(labels.max()) + 1)
    found = measure(graph, labels)
    history = [found.objective(resolution)]
    converged = False
    n_iter = 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        before = labels
        labels, k = assign_or_open(graph, labels, k, cut, sigma, penalty)  # 2. and 3.
        converged = np.array_equal(labels, before)  # 4.
        if not converged:
            found = measure(graph, labels)
            history.append(found.objective(resolution))
    return Cut(found, history, n_iter, converged)


def to_lambda(resolution: float, sigma: float, cut: str) -> float:
    """KJ's λ for λ' = -resolution."""
    return -resolution + sigma + (1.0 if cut == "normalized" else 0.0)


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


class GraphCut(SaveMixin, ClusterMixin, BaseEstimator):
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
        "auto" takes the middle of the plateau that stands out on `penalties.cut_path`.
    cut : {"normalized", "ratio"}, default="normalized"
        Divide the weight of the edges that leave a cluster by the degrees of its nodes, or by their
        number.
    algorithm : {"search", "paper"}, default="search"
        "search" looks for the lowest objective: at the end no node moved to a cluster it has an
        edge to, no node made a cluster of its own and no merge of two linked clusters lowers it.
        (On long chains and grids it may stop before, with a warning.)
        It is a heuristic: the global minimum is found nearly always for few nodes and is not
        guaranteed. "paper" is KJ Algorithm 1 on the kernel of their Theorem 5.3, from one cluster:
        for a resolution below 1 it stays there, unless nodes have loops.
    n_init : int, default=1
        More effort for "search": so many times more runs, which are combined. One run is made on
        large graphs, up to twelve on small ones.
    max_iter : int, default=300
        For "paper": passes at most.
    random_state : int, RandomState or None
        Seed for the order in which nodes are visited by "search".

    Attributes
    ----------
    labels_ : array of shape (n_nodes,)
        Clusters from the heaviest to the lightest; -1 for nodes without any edge.
    n_clusters_ : int
    resolution_ : float
    evidence_ : penalties.Choice
        With ``resolution="auto"``: how sure the number is, and what else it could be.
    path_ : penalties.Staircase
        With ``resolution="auto"``: clusters against the resolution; `path_.plot()` draws it.
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
        The nodes of a networkx or igraph graph, in the order of `labels_`.
    n_features_in_, feature_names_in_

    Notes
    -----
    A loop counts once in the degree of its node, as in D = diag(Ae). A cluster of "search" need not
    be connected. The search is serial: the result does not depend on threads.

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
        max_iter: int = 300,
        random_state: Any = None,
    ) -> None:
        self.resolution = resolution
        self.cut = cut
        self.algorithm = algorithm
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the nodes of a graph.

        Parameters
        ----------
        X : adjacency, dense or sparse, or a networkx or igraph graph
            Weights of 0 and missing entries are no edges. Of a graph object the edge attribute
            "weight" counts where it exists, and nodes are in its own order.
        y : ignored
        """
        A = check_graph(X, self)
        self.node_names_ = node_names(X)
        resolution = check_resolution(self.resolution)
        check_choice("cut", self.cut, "normalized", "ratio")
        check_choice("algorithm", self.algorithm, "search", "paper")
        effort = check_count("n_init", self.n_init)
        max_iter = check_count("max_iter", self.max_iter)
        rng = check_random_state(self.random_state)
        graph, used = connected_part(A, self.cut)
        start = path = None
        for name in AUTOMATIC:  # of an earlier fit
            self.__dict__.pop(name, None)
        if resolution == "auto":
            path = find_path(graph, used, A.shape[0], self.cut, rng)
            resolution = path.best().resolution
            start = path.labels_at(resolution)[used]
        self.labels_ = np.full(A.shape[0], -1, np.int32)
        if not used.size:
            result = Cut(NOTHING, [0.0], 0, True)
        elif self.algorithm == "paper":
            result = kernel_dp_means(graph, resolution, self.cut, max_iter=max_iter)
        else:
            found, history = search(graph, resolution, rng, effort=effort, start=start)
            result = Cut(found, history, len(history), found.settled)
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
        rank = np.argsort(-division.weight, kind="stable")
        self.labels_[used] = np.argsort(rank)[division.labels]
        self.n_clusters_ = division.k
        if path is not None:
            keep_choice(self, path, division.k, resolution)
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = True
        tags.input_tags.positive_only = True
        return tags
