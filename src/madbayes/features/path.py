"""The number of features as a function of the penalty, and which penalty to take.

1. For K = 0, 1, 2, …: the least squared error E(K) that the search finds with K features, each
   search starting from the one before. It ends when further features save no more than features of
   noise do, σ²(√n + √d)² (the largest squared singular value of n×d noise), and at K = d + 1 (of
   one column at 1): rows of d numbers do not tell more features apart. Where a few columns are far
   larger than the others, features become a code for the numbers in these columns, and each
   further bit pays: there the path ends when it has cost WORK products. Then back from the largest
   K, one feature less each time, where that gives a smaller E(K).
2. E(K) + λK is least on the lower convex hull of E: K is best for λ from E(K) - E(K+1) to
   E(K-1) - E(K) (`howmany/staircase.py`).
3. Of the K whose range lies above the noise, the one with the largest √K·log(λ_high/λ_low); λ is
   the geometric middle of its range. One feature that all rows have counts only if there is no
   other such K. None: 0 features, and a λ above what the first would save.

All of it on a random selection of many rows, counted for as many as it stands for, and in the
directions that hold more than noise.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from madbayes._rows.checks import check_count, check_table
from madbayes._rows.frame import power_of_two
from madbayes._rows.threads import workers
from madbayes.features.allocation import Allocation
from madbayes.features.search import polish, search
from madbayes.features.solve import Found
from madbayes.features.table import Table, check_table_to_fit, main_directions
from madbayes.howmany.staircase import Staircase, plateau

MOST_FEATURES = 30  # features
MAX_ROWS = 10_000
LEAST_ROWS = 1_000
VALUES = 2**16  # rows × columns that a path by "auto" looks at
COMMON = 0.95  # of the rows: combinations that fewer have are exceptions
TRIES = 6  # in vain at each number of features (more for many)
LLOYD = 10  # passes of a clustering to compare with
TOLERANCE = 0.1  # a clustering whose error is no larger than this fits as well
WORK = 2**33  # products after which the path of a code ends: about 7 s; twice as many, some K more
CODE = 2  # features for each direction that the rows vary in: with more they are a code
FLOOR = 1e-2  # without noise a range goes down to 0: no further than this part of its upper end


def feature_path(
    X: Any,
    *,
    max_components: int = MOST_FEATURES,
    max_rows: int = MAX_ROWS,
    sample_weight: Any = None,
    effort: float = 1.0,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Staircase:
    """The number of features for each penalty.

    Parameters
    ----------
    X : array, table or CSR matrix
    max_components : int, default=30
        Go no further than this, and no further than one more than there are columns.
    max_rows : int, default=10_000
        Of more rows a random selection of this size is used; penalties are those for all rows.
    sample_weight : array or None
    effort : float, default=1
        Patience of the search.
    random_state : int, RandomState or None
    n_jobs : int or None

    Returns
    -------
    Staircase
        ``figures["noise_edge"]`` is what one more feature would save if only noise were left;
        `labels_at(penalty)` gives the assignments of the rows used.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.penalties import feature_path
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.random((200, 3)) < 0.5
    >>> X = Z @ np.eye(3, 12) * 4 + 0.3 * rng.standard_normal((200, 12))
    >>> path = feature_path(X, random_state=0)
    >>> path.best().n_components
    3
    """
    table = check_table_to_fit(check_table(X), sample_weight)
    cap = check_count("max_components", max_components)
    max_rows = check_count("max_rows", max_rows, low=2)
    rng = check_random_state(random_state)
    with workers(n_jobs):
        return climb_path(table, cap, effort, rng, max_rows)[0]


def climb_path(
    table: Table,
    cap: int,
    effort: float,
    rng: np.random.RandomState,
    max_rows: int | None = None,
) -> tuple[Staircase, Callable[[int], Found]]:
    """1 to 3; the path, and for a number of features what was found of them."""
    if max_rows is None:
        max_rows = int(np.clip(VALUES // table.d, LEAST_ROWS, MAX_ROWS))
    rows = table.draw(rng, max_rows)
    part = table if rows.size == table.n else table.sample(rows)
    main, rest = main_directions(part)
    state = Allocation(main.rows)
    most = table.d + 1 if table.d > 1 else 1
    seed = np.random.RandomState(rng.randint(2**31 - 1))
    errors, found = climb(state, seed, min(cap, MOST_FEATURES, most), effort, part, rest)
    edges = [noise_edge(error, part, K) for K, error in enumerate(errors)]
    path = Staircase.build(
        range(len(errors)),
        np.array(errors) * table.unit,
        of="feature",
        labels=found,
        figures={"noise_edge": np.array(edges) * table.unit},
    )
    path = choose(path, main, rest)
    return path, lambda K: Found(None if part is table else rows, found[K])


def climb(
    state: Allocation,
    rng: np.random.RandomState,
    cap: int,
    effort: float,
    table: Table,
    rest: float,
) -> tuple[list[float], list[np.ndarray]]:
    """1. Squared errors and assignments for K = 0, 1, 2, …"""
    errors, found = [state.rss + rest], [state.Z.astype(bool)]
    in_vain = 0
    while state.K < min(cap, state.n - 1) and in_vain < 2 and errors[-1] > 1e-12 * errors[0]:
        if state.work > max(1.0, effort) * WORK and state.K > CODE * directions(state):
            break
        K = state.K
        goal = state.rss - noise_edge(errors[-1], table, K) / 2
        search(state, rng, 0.0, K + 1, round(effort * TRIES), goal=goal)
        if state.K == K:
            break
        errors.append(min(state.rss + rest, errors[-1]))
        found.append(state.Z.astype(bool))
        saved = errors[-2] - errors[-1]
        in_vain = in_vain + 1 if saved <= noise_edge(errors[-1], table, K + 1) else 0
    descend(state, errors, found, rest)
    return errors, found


def directions(state: Allocation) -> float:
    """In how many directions the rows vary: the participation ratio (Σλ)²/Σλ² of the eigenvalues
    of their covariance, which is d for noise and K for K equal features."""
    X = state.rows.take(np.arange(state.n))
    X -= np.average(X, axis=0, weights=state.weight if state.weight.size else None)
    X *= power_of_two(float(np.abs(X).max()))  # so that no square underflows
    products = X.T @ X if state.d < state.n else X @ X.T
    return float(np.trace(products) ** 2 / ((products**2).sum() or 1.0))


def descend(state: Allocation, errors: list[float], found: list[np.ndarray], rest: float) -> None:
    """1., on the way back: K + 1 features without the one that is missed least, where that is
    better than what was found with K."""
    for K in range(len(errors) - 2, 0, -1):
        state.put(found[K + 1], np.zeros((K + 1, state.d)))
        state.refit()
        if state.K == K + 1:
            state.drop(int(np.argmin(state.death_costs())))
        polish(state, 0.0, state.K, errors[K] - rest)
        if state.K == K and state.rss + rest < errors[K]:
            errors[K], found[K] = state.rss + rest, state.Z.astype(bool)


def noise_edge(error: float, table: Table, K: int) -> float:
    """σ²(√n + √d)², with σ² what K features leave over.

    With more than d/2 features they share directions and become a code of K bits for d numbers. One
    more bit leaves no less than 4^(-1/d) of the error of noise (Shannon's rate-distortion bound),
    so saves up to 4^(1/d) - 1 times what is left, and more where n rows are few.
    """
    n, d = table.n, table.d
    few = (1 + np.sqrt(d / n)) ** 2
    edge = error * n / (max(n - K, 1) * d) * few
    code = error * n / max(n - 2 * K - 1, 1) * (4 ** (1 / d) - 1) * few
    return max(edge, code) if 2 * K > d else edge


def choose(path: Staircase, table: Table, rest: float) -> Staircase:
    """3. With the choice, its reason, and a remark where the rows do not add up."""
    high = path.price_high
    edge = path.figures["noise_edge"]
    floor = np.maximum(np.maximum(path.price_low, edge), FLOOR * np.where(high < np.inf, high, 0))
    scores = np.where(path.number > 0, plateau(path.number, floor, high), 0.0)
    assert path.labels is not None  # they were built with
    one = path.step_of(1)
    if one is not None and path.labels[one].all() and np.delete(scores, one).any():
        scores[one] = 0.0  # what all rows share is where the data lie: no finding beside others
    i = int(np.argmax(scores))
    if not scores[i] > 0:
        price = 1.5 * float(max(edge[0], path.price_low[0])) or 1.0  # every row zero: any price
        reason = "no feature saves more than features of noise do"
        return path.decide(0, reason, scores={}, support=0.0, price=price)
    groups = grouped(table, path.labels[i], float(path.objective[i]) / table.unit - rest)
    saving = high[i] / floor[i]
    reason = f"each feature saves {saving:.3g} times what a further one, or one of noise, saves"
    if groups:
        reason = (
            f"the rows form {groups} groups and do not add up: a clustering such as DPMeans fits "
            "better"
        )
    positive = {int(path.number[j]): float(scores[j]) for j in np.flatnonzero(scores > 0)}
    return path.decide(
        int(path.number[i]),
        reason,
        scores=positive,
        support=float(1 - floor[i] / high[i]),
        price=float(np.sqrt(floor[i]) * np.sqrt(high[i])),
    )


def grouped(table: Table, Z: np.ndarray, error: float) -> int:
    """How many clusters say as much as the features; 0 where they do not.

    K features and none of them are K + 1 sums at least. Rows that add up have more; where no more
    occur, or as many clusters leave no larger error, the features are clusters in disguise.
    """
    K = Z.shape[1]
    if K < 2:
        return 0
    weight = np.ones(table.n) if table.weight is None else table.weight
    _, which = np.unique(Z, axis=0, return_inverse=True)
    which = which.ravel()
    sizes = np.bincount(which, weight)
    order = np.argsort(-sizes, kind="stable")
    common = int(np.searchsorted(np.cumsum(sizes[order]), COMMON * sizes.sum())) + 1
    if common <= K + 1:
        return common
    X = table.X.toarray() if sp.issparse(table.X) else np.asarray(table.X, dtype=np.float64)
    centers = np.array(
        [
            np.average(X[which.ravel() == c], axis=0, weights=weight[which.ravel() == c])
            for c in order[: K + 1]
        ]
    )
    for _ in range(LLOYD):
        distance = cdist(X, centers, "sqeuclidean")
        label = distance.argmin(axis=1)
        left = float(weight @ distance[np.arange(len(X)), label])
        if left <= error * (1 + TOLERANCE):
            return K + 1
        for c in np.unique(label):
            centers[c] = np.average(X[label == c], axis=0, weights=weight[label == c])
    return 0
