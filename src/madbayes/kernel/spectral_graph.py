"""The graph of nearest neighbours as a kernel, and how many clusters its spectrum shows."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph

from madbayes.howmany.staircase import Staircase, plateau
from madbayes.kernel.gram import Gram
from madbayes.kernel.spectral import centred_spectrum

LOWEST = 0.7  # eigenvalue of a graph that "auto" looks at …
MOST_EIGENVALUES = 64  # … and how many of them
GAP = 2.1  # how wide a gap must be; rows along a line reach 2 (c grows as the square of k)
FLOOR = 1e-4  # what is nearer to 1 counts as 1


def neighbour_graph(X: Any, s: np.ndarray, n_neighbors: int, n_jobs: int | None) -> Any:
    """The graph of nearest neighbours A as a kernel and weights: D⁻¹AD⁻¹ and the degrees D.

    With these, J is the normalized cut plus (λ - 1)k, up to a constant (KJ Theorem 5.3), and the
    eigenvalues are those of D^-½ A D^-½. A row of weight s counts as s equal rows.
    """
    near = kneighbors_graph(X, n_neighbors, include_self=True, n_jobs=n_jobs)
    weights = sp.csr_array(sp.diags(s))  # SciPy 1.11 has no diags_array
    A = sp.csr_array(weights @ (near + near.T) @ weights) / 2
    degree = np.asarray(A.sum(axis=1)).ravel()
    inverse = sp.csr_array(sp.diags(1 / degree))
    return sp.csr_array(inverse @ A @ inverse), degree


def graph_path(
    gram: Gram, w: np.ndarray, cap: int | None, random_state: np.random.RandomState
) -> Staircase:
    """A penalty for a graph: in the widest gap √k·log(c_k/c_{k-1}) of c = 1 - eigenvalue.

    Eigenvalues near 1 belong to groups that a random walk hardly leaves. Relaxed, k clusters are
    best between two neighbouring eigenvalues, so the spectrum is the staircase.
    """
    (values, _), trace = centred_spectrum(gram, w, LOWEST, random_state, most=MOST_EIGENVALUES)
    c = np.maximum(1 - values[: cap or None], FLOOR)
    ks = np.arange(2, len(c) + 1)
    width = plateau(ks, c[:-1], c[1:])
    errors = trace - np.cumsum(np.r_[0.0, values])
    path = Staircase.build(np.arange(1, len(errors) + 1), errors)
    order = np.argsort(-width, kind="stable")
    k, price = 1, float(1 - c[0] / 2) if len(c) else LOWEST
    if len(width) and width[order[0]] >= GAP:
        at = int(order[0])
        k, price = int(ks[at]), float(1 - np.sqrt(c[at] * c[at + 1]))
    scores = dict(zip(ks.tolist(), width.tolist(), strict=True))
    return path.decide(
        k,
        "the widest gap between eigenvalues" if k > 1 else "no gap between eigenvalues stands out",
        scores=scores,
        support=min(scores.get(k, 0.0) / (2 * GAP), 1.0),
        price=price,
    )
