"""All 2^K sums of features, for rows that are sooner compared with each than they are by a tree."""

from collections.abc import Callable
from typing import Any

import numpy as np

from madbayes._jit.vectors import PANEL
from madbayes._rows.frame import power_of_two
from madbayes._rows.row_kernels import read_only
from madbayes.features.bounds import UNBOUND, Bounds
from madbayes.features.row_kernels import EXACT, allocate
from madbayes.features.sum_kernels import Met, Sums, meet_sums

Tree = tuple[np.ndarray, np.ndarray, float]  # AAᵀ, its triangle, how far it is from singular
Probe = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # some rows, and their Z

MOST_FEATURES = 12  # features
NODE = 16  # products that take as long as a node of a search tree …
SUM = 0.25  # … as one number of a sum that a row is compared with …
PACKED = 0.02  # … and as that is by products of float32, …
SEARCH = 8  # … with so many numbers more for the smallest of them
BOTH = 1.5  # times the nodes of a tree, for the second best z, too
MANY_ROWS = 2**11  # rows: with fewer nobody waits for products to be compiled
PROBED = 128  # rows whose trees tell what those of all cost

NO_SUMS = Sums(
    plain=np.empty((0, 0)),
    packed=np.empty((0, 0, PANEL), np.float32),
    half=np.empty((0, PANEL), np.float32),
    axes=np.empty((0, 0)),
    offset=np.empty(0),
    scale=1.0,
    longest=0.0,
)
NOTHING = Met(np.empty(0, np.int32), np.empty(0), np.empty(0))


def meet(
    X: np.ndarray, Z: np.ndarray, A: np.ndarray, sums: Sums, some: bool, reach: Any, moved: float
) -> Met:
    """What products say about the best sum of each row; nothing without packed sums."""
    if not sums.packed.size:
        return NOTHING
    met = Met(np.empty(len(X), np.int32), np.empty(len(X)), np.empty(len(X)))
    meet_sums(X, Z, A, sums, some, reach, moved, met)
    return met


def sums_for(
    A: np.ndarray, n: int, most_nodes: int, tree_of: Tree, probe: Probe, bounds: Bounds
) -> tuple[Sums, float]:
    """All sums, if n rows are sooner compared with them than by search trees, and what that counts
    for a row: as much as what it is in place of, so that searches end where they did."""
    rank = int((tree_of[1].diagonal() > 0).sum())
    K, d = A.shape
    if K > MOST_FEATURES:
        return NO_SUMS, 0.0
    many = n > MANY_ROWS
    # A tree that is cut as soon as can be still has the branches of features that depend on others.
    each, branches = 2**K * d * SUM, NODE * rank * 2.0 ** (K - rank)
    tree = BOTH * bounds.cost / n if bounds.reach.size else 0.0
    if each <= (branches if many else max(branches, tree)):
        plain = np.ascontiguousarray(combined(A).T)
        return (all_sums(A) if many else NO_SUMS)._replace(plain=plain), each
    if many and not bounds.reach.size:
        tree = tree_cost(A, most_nodes, tree_of, *probe(np.arange(PROBED) * n // PROBED))
    if many and tree > 2**K * (min(K, d) + SEARCH) * PACKED:
        return all_sums(A), tree
    return NO_SUMS, 0.0


def tree_cost(A: np.ndarray, most_nodes: int, tree_of: Tree, X: np.ndarray, Z: np.ndarray) -> float:
    """What the search tree of a row costs, by some of them."""
    G, L, ease = tree_of
    *_, nodes = allocate(
        *(read_only(X), np.empty(0), Z, A, G, L),
        *(NO_SUMS.plain, NOTHING, ease, most_nodes, EXACT, UNBOUND.reach, 0.0),
        *(np.empty(PROBED), np.zeros_like(G), np.zeros_like(A)),
    )
    return float(nodes * NODE / PROBED)


def combined(A: np.ndarray) -> np.ndarray:
    """The sums of all combinations of features, in the order of their bits."""
    sums = np.zeros((1, A.shape[1]))
    for a in A:
        sums = np.vstack([sums, sums + a])
    return sums


def all_sums(A: np.ndarray) -> Sums:
    """The same in panels."""
    sums, (K, d) = combined(A), A.shape
    offset, axes = sums.mean(axis=0), NO_SUMS.axes
    turned = sums - offset
    if K < d:
        axes = np.linalg.qr(A.T)[0]
        turned = turned @ axes
    scale, c = power_of_two(float(np.abs(turned).max())), turned.shape[1]
    turned *= scale
    norm2 = np.einsum("ij,ij->i", turned, turned)
    room = PANEL * -(-len(sums) // PANEL)
    packed, half = np.zeros((room, c), np.float32), np.full(room, np.inf, np.float32)
    packed[: len(sums)], half[: len(sums)] = turned, norm2 / 2
    packed = np.ascontiguousarray(packed.reshape(-1, PANEL, c).transpose(0, 2, 1))
    longest = float(np.sqrt(norm2.max()))
    return Sums(NO_SUMS.plain, packed, half.reshape(-1, PANEL), axes, offset, scale, longest)
