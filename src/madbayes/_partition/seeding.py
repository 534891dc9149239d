"""First centres: rows drawn at random, or far from each other (k-means++)."""

import numpy as np

from madbayes._partition.nearest_sparse import sparse_distances_to
from madbayes._rows.row_kernels import distances_to, project
from madbayes._rows.rows import Rows
from madbayes._rows.threads import together

SEED_ROWS = 2**17  # rows among which first centres are looked for; 64 for each, if that is more


def spread_rows(n: int, k: int) -> np.ndarray | None:
    """Which rows to look at for k first centres: evenly spaced ones. None: all."""
    most = max(SEED_ROWS, 64 * k)
    return None if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


def squared_distances(source: Rows, first: int, last: int, points: np.ndarray) -> np.ndarray:
    """(m, last - first) squared distances of a range of rows to m points."""
    out = np.empty((points.shape[0], last - first))
    if source.sparse:
        X, points = source.X, np.ascontiguousarray(points)
        sparse_distances_to(X.data, X.indices, X.indptr, first, points, out)
        return out
    for a, b, block in source.blocks(first, last):
        part = np.empty((points.shape[0], b - a))
        distances_to(block, points, part)
        out[:, a - first : b - first] = part
    return out


def draw_order(source: Rows) -> np.ndarray:
    """An order of the rows that does not depend on how they are stored.

    Rows are drawn along it by their cumulative weight, so a shuffled table, or weights instead of
    repeated rows, gives the same centres.
    """
    direction = np.random.RandomState(0).standard_normal(source.d)
    key = np.empty(source.n)

    def partial(cut: tuple[int, int]) -> None:
        if source.sparse:
            key[cut[0] : cut[1]] = source.X[cut[0] : cut[1]] @ direction
            return
        for a, b, block in source.blocks(*cut):
            project(block, direction, key[a:b])

    together(partial, source.cuts)
    return np.argsort(key, kind="stable")


def random_rows(source: Rows, k: int, random_state: np.random.RandomState) -> np.ndarray:
    """k different rows, drawn with probabilities proportional to their weights."""
    order = draw_order(source)
    mass = source.take_weights(order)
    size = min(k, int(np.count_nonzero(mass)))
    drawn = []
    for _ in range(size):
        total = np.cumsum(mass)
        at = int(np.searchsorted(total, random_state.uniform() * total[-1], side="right"))
        drawn.append(at)
        mass[at] = 0.0
    return source.take(order[np.resize(drawn, k)])


def kmeans_plus_plus(source: Rows, k: int, random_state: np.random.RandomState) -> np.ndarray:
    """k rows, each drawn in proportion to its squared distance from those before it.

    Arthur & Vassilvitskii 2007, greedy form: of 2 + log k drawn rows the one that lowers the error
    most is taken.
    """
    cuts, weight = source.cuts, source.weight if source.weighted else np.ones(source.n)
    trials = 2 + int(np.log(k))
    closest = np.full(source.n, np.inf)
    order = draw_order(source)

    def errors_with(points: np.ndarray) -> np.ndarray:
        def partial(cut: tuple[int, int]) -> np.ndarray:
            near = np.minimum(closest[cut[0] : cut[1]], squared_distances(source, *cut, points))
            return near @ weight[cut[0] : cut[1]]

        return np.sum(together(partial, cuts), axis=0)

    def add(point: np.ndarray) -> None:
        def partial(cut: tuple[int, int]) -> None:
            here = closest[cut[0] : cut[1]]
            np.minimum(here, squared_distances(source, *cut, point[None, :])[0], out=here)

        together(partial, cuts)

    centers = np.empty((k, source.d))
    for c in range(k):
        mass = np.cumsum((weight if c == 0 else weight * closest)[order])
        if mass[-1] <= 0.0:  # fewer different rows than centres
            mass = np.cumsum(weight[order])
        size = 1 if c == 0 else trials
        drawn = np.searchsorted(mass, random_state.uniform(size=size) * mass[-1], side="right")
        points = source.take(order[np.minimum(drawn, source.n - 1)])
        best = 0 if size == 1 else int(np.argmin(errors_with(points)))
        centers[c] = points[best]
        add(centers[c])
    return centers
