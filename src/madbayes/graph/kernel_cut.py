"""KJ Algorithm 1 on a graph, by the kernel of their Theorem 5.3: the printed penalized cut.

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

from dataclasses import dataclass

import numpy as np

from madbayes.graph.cut_kernels import kernel_pass, renumber
from madbayes.graph.levels import Division, Graph, contracted
from madbayes.graph.search import measure


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
    *_, cuts, weight = contracted(graph, labels, k)
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
    k = renumber(labels, np.full(int(labels.max()) + 1, -1, np.int32))
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
