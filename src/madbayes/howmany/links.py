"""Which clusters are really apart: held-out links between neighbouring centres.

**The question.** A partition into k Voronoi cells is given by its centres. For two neighbouring
centres a, b: do the rows form two groups with a valley between them, or one group cut in two?

**The link test.** The centres come from one half of the rows, the rows tested from the other half.
1. Replace a and b by their midpoint m; the rows nearer to m than to any other centre lie in an
   intersection of half-spaces: a convex set with most of the rows of a and b.
2. Project these rows on the line through a and b: t = |x-a|² - |x-b|².
3. Count the rows in three windows of equal width: around the mean of each side, and half-way.
4. z = √2 (√(N_side + 3/8) - √(N_middle + 3/8)), with the emptier of the two sides.

*Why this is calibrated.* A log-concave density (Gaussian of any covariance, uniform on any convex
body, exponential, ...) cut to a convex set and projected on a line is log-concave again (Prékopa
1973), hence unimodal, hence the middle window expects at least as many rows as the emptier side
window. Square roots of Poisson counts have variance 1/4 (Anscombe 1948), so z is at most standard
normal, in any number of dimensions, because the line was not fitted to the rows that are counted.
No reference data need to be generated and nothing depends on the dimension.

**The score of a partition.** The k-1 weakest links that connect all centres (the minimum spanning
tree with the z as lengths) each vote clip(z/z₀ - 1, -1, 1), z₀ = 1.645 (the 5 % level). Separated
clusters vote +1 and pieces of one cluster -1. So the sum rises by one with each true cluster and
falls with each superfluous one, and its peak is the number of clusters. The score of k = 1 is 0,
and partitions of noise have scores below 0. Each half proposes once and tests once; scores are
averaged.

Departs from G-means (Hamerly & Elkan 2003) and dip-means (Kalogeratos & Likas 2012), which test
whether one cluster should be split: the top of the tree often looks unimodal although clusters
exist below it. Here all numbers k are scored, and the best is taken.
"""

import threading
from typing import Any

import numpy as np

from madbayes._partition.lloyd_kernels import all_pairs, pairs_of
from madbayes.howmany.link_kernels import link_tests, make_books

LEVEL = 1.6448536269514722  # one-sided 5 % point of the normal law
WINDOW = 0.45  # width of the counting windows, in units of the distance between the sides
NEIGHBOURS = 5  # Gabriel neighbours tested per centre
FEW = 2**16  # rows × centres × columns up to which plain loops are quicker than a matrix product


class _Last(threading.local):
    """The working memory of this thread's last test: the next test often has the same size."""

    shape: tuple[int, ...] = ()
    books: tuple[np.ndarray, ...] = ()


_last = _Last()


def squared_distances(X: Any, centers: Any) -> np.ndarray:
    """‖x - c‖² for all pairs, by one matrix product; X (dense or CSR) should be centred."""
    if not isinstance(X, np.ndarray):
        D = (X @ (-2.0 * centers.T)).toarray()
        lengths = [np.asarray(A.multiply(A).sum(axis=1)).ravel() for A in (X, centers)]
    elif X.size * len(centers) <= FEW:
        return all_pairs(X, centers)
    else:
        D, towards = np.empty((len(X), len(centers))), -2.0 * centers.T
        lengths = [np.einsum("ij,ij->i", A, A) for A in (X, centers)]
        step = max(1, 2**16 // len(centers))  # distances that stay in the cache
        for a in range(0, len(X), step):
            part = np.matmul(X[a : a + step], towards, out=D[a : a + step])
            add_lengths(part, lengths[0][a : a + step], lengths[1])
        return D
    return add_lengths(D, *lengths)


def add_lengths(D: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Add ‖x‖² and ‖c‖² to -2x·c, in place."""
    D += other
    D += one[:, None]
    return np.maximum(D, 0.0, out=D)


def link_strengths(X: np.ndarray, weights: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """z of the k - 1 weakest links that connect all centres, tested on the rows X."""
    if len(centers) < 2:
        return np.zeros(0)
    k = len(centers)
    if X.size * k <= FEW and centers.size * k <= FEW:
        return links_of_few(np.ascontiguousarray(X.T), weights, centers)
    between = squared_distances(centers, centers)
    if centers.size * len(centers) > FEW:  # a matrix product, which is not exact
        between = (between + between.T) / 2
        np.fill_diagonal(between, 0.0)
    return weakest_links(squared_distances(X, centers), between, weights)


def links_of_few(columns: np.ndarray, weights: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """`link_strengths` for few rows, given by their columns."""
    if len(centers) < 2:
        return np.zeros(0)
    between = pairs_of(np.ascontiguousarray(centers.T), centers)
    return weakest_links(pairs_of(columns, centers), between, weights)


def weakest_links(
    D: np.ndarray, between: np.ndarray, weights: np.ndarray, *, metric: bool = True
) -> np.ndarray:
    """z of the k - 1 weakest links that connect all centres, ascending.

    D: squared distances of rows and centres. `between`: squared distances of the centres
    (symmetric, with zeros on the diagonal). With ``metric=False`` the triangle inequality is not
    used.
    """
    books = _last.books if D.shape == _last.shape else make_books(*D.shape)
    if D.size <= FEW:
        _last.shape, _last.books = D.shape, books
    z: np.ndarray = link_tests(D, between, weights, NEIGHBOURS, WINDOW, metric, books)
    z.sort()
    return z


def score(z: np.ndarray) -> float:
    """Sum of the votes of the links: 0 for k = 1, k - 1 for k clusters beyond doubt."""
    return float(np.clip(z / LEVEL - 1.0, -1.0, 1.0).sum())
