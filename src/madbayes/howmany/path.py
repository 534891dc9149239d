"""The staircase k(λ) of J(λ) = SSE + λk, and the k that the data supports.

1. *Sample.* Leave out rows of weight 0 and rows far from all others. Keep at most some 30,000 rows,
   in an order that depends on their values only.
2. *Sketch.* Columns on a grid (integers, rounded values) are spread evenly over the cells of the
   grid. If there are more than ten columns, keep the principal components whose variance is larger
   than those of the same data with random signs (parallel analysis; Horn 1965, Hong, Sheng &
   Dobriban 2020).
3. *Halves.* Cut the rows in halves, at least twice. In each half, make many small clusters
   (k-means++ and Lloyd's passes), then merge them by Ward's cost w_a w_b/(w_a+w_b)·‖μ_a-μ_b‖². This
   cost is the λ at which the merge pays. Cutting the tree of merges at k, and a few of Lloyd's
   passes, give a partition for any k (KJ Fig. 2c).
4. *Valleys.* Test the partitions of one half on the other half (`links.py`). The score rises with
   each cluster that is apart from its neighbours, falls with each superfluous one, and stays below
   0 on noise. Score all small k, a geometric grid and the widest plateaus of Ward's heights, then
   the numbers around the best. The score combines all cuts. The number that one cut alone would
   choose is its vote, and the share of equal votes is the stability.
5. *Clusters found again.* In many components there may be clusters without valleys. Test whether
   they are found again in other halves, more clearly than in noise (`recovery.py`). If this test
   confirms clearly more clusters than the valleys do, it decides.
6. *Staircase.* For numbers around the chosen k, make Lloyd's passes on the rows of both halves in
   the original space; SSE_k is the error. The lower convex hull of the points (k, SSE_k) gives for
   each k the interval of λ in which k is best.

Departs from the paper: KJ choose λ by farthest-first from a given k; here k itself is unknown.
docs/adr/0006 gives the reasons for these steps, and says when their answer is wrong.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from madbayes._partition.lloyd import lloyd
from madbayes._rows.checks import (
    check_count,
    check_table,
    check_weight,
    is_cosine,
    weight_of_directions,
)
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.progress import Stage
from madbayes._rows.rows import Rows
from madbayes._rows.threads import together, workers
from madbayes.howmany.choice import Tested, choose, keep_on_hull
from madbayes.howmany.halves import (
    FIRST_LOOK,
    Half,
    Scores,
    count_cuts,
    frame_of,
    make_halves,
    score_levels,
)
from madbayes.howmany.links import squared_distances
from madbayes.howmany.recovery import MIN_ROWS as ROWS_TO_RECOVER
from madbayes.howmany.recovery import find_again
from madbayes.howmany.remarks import on_hint, on_isolated
from madbayes.howmany.sample import (
    DENSE_COLUMNS,
    KEEP_COLUMNS,
    Sample,
    divide,
    draw_sample,
    sketch,
)
from madbayes.howmany.staircase import Staircase

MIN_ROWS = 12  # fewer rows cannot be halved and tested
# Components of the sketch, at least, for step 5. With fewer components that are not normal, halves
# agree on parts that are no clusters (the corners of a square).
COMPONENTS = 5


def path(
    X: Any,
    *,
    sample_weight: Any = None,
    max_clusters: int | None = None,
    n_clusters_hint: int | None = None,
    metric: str = "euclidean",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Staircase:
    """How many clusters at which penalty, and how many the data supports.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
    sample_weight : array of shape (n_rows,), optional
        Weight 0 removes a row, weight 2 counts it twice.
    max_clusters : int, optional
        Largest number of clusters to examine. By default about 3·√n_rows, at most 320.
    n_clusters_hint : int, optional
        A rough number of clusters: the answer lies between two thirds and three halves of it.
        `max_clusters` comes first, and so does the number of different rows.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine": rows and centres at length 1, so that squared distances are 2 - 2 cos.
    random_state : int, RandomState or None
        Seed for the sample and its halves. None: those that estimators use. The order of the rows
        does not matter for any seed. The result is the same for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Returns
    -------
    Staircase
        `best()` is the number that the data supports.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import penalties
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 50, axis=0) + rng.normal(size=(150, 2))
    >>> choice = penalties.path(X, random_state=0).best()
    >>> choice.n_clusters, choice.strength
    (3, 'strong')
    """
    X = check_table(X)
    weights = check_weight(sample_weight, X.shape[0])
    unit = is_cosine(metric)
    if unit:
        weights = weight_of_directions(X, weights, quiet=True)
    with workers(n_jobs):
        # raises an error if values are too large or too small to be squared
        measure_to_fit(Rows(X, unit=unit, weight=weights))
        seed = 0 if random_state is None else check_random_state(random_state).randint(2**31 - 1)
        return find_path(X, weights, max_clusters, n_clusters_hint, unit=unit, seed=seed)


def check_range(max_clusters: int | None, n_clusters_hint: int | None) -> tuple[int, int | None]:
    """The smallest and the largest number of clusters that the choice may take.

    The largest is None if only the number of rows limits it.
    """
    fewest, most = 1, None
    if n_clusters_hint is not None:
        hint = check_count("n_clusters_hint", n_clusters_hint)
        fewest, most = -(-2 * hint // 3), 3 * hint // 2
    if max_clusters is not None:
        cap = check_count("max_clusters", max_clusters)
        fewest, most = min(fewest, cap), min(most or cap, cap)
    return fewest, most


def find_path(
    X: Any,
    weight: np.ndarray | None,
    max_clusters: int | None,
    n_clusters_hint: int | None,
    *,
    unit: bool = False,
    seed: int = 0,
) -> Staircase:
    """Steps 1 to 6 on checked rows.

    Estimators do not pass a seed, so that their number of clusters depends on the rows only.
    """
    rng = np.random.default_rng(seed)
    fewest, most = check_range(max_clusters, n_clusters_hint)
    sample = draw_sample(X, weight, most or 0, rng, unit=unit)  # 1.
    Z, independent = sketch(sample, rng)  # 2.
    many = X.shape[1] > KEEP_COLUMNS and Z.shape[1] >= COMPONENTS
    tested = try_numbers(Z, sample.core_w, fewest, most, rng)  # 3., 4.
    if many and len(Z) >= ROWS_TO_RECOVER and not tested.beyond_doubt:
        tested = look_again(tested, unit, rng, independent)  # 5.
    tested = replace(tested, unit=unit)
    numbers, errors, centers, scored = stairs(sample, tested, unit)  # 6.
    at = int(np.argmin([abs(k - tested.best) for k in scored]))
    keep = keep_on_hull(numbers, errors, int(numbers[at]))
    found = Staircase.build(
        numbers[keep],
        errors[keep],
        centers=[centers[i] for i in keep],
        unit=unit,
        far=farthest(sample, centers[at]),
        _X=X,
    )
    found = choose(found, tested, int(numbers[at]), scored[at])
    choice = found.best()
    more = on_isolated(sample.n_isolated) + on_hint(choice.number, n_clusters_hint, max_clusters)
    choice = replace(choice, n_isolated=sample.n_isolated, remarks=choice.remarks + more)
    return replace(found, choice=choice)


def farthest(sample: Sample, centers: np.ndarray) -> float:
    """The squared distance to the nearest centre, in units of X, beyond which a row is isolated.

    It is infinite if no row of the table can be isolated.
    """
    if not np.isfinite(sample.limit) or (sample.whole and not sample.n_isolated):
        return np.inf
    centers = (centers - sample.origin) / sample.scale
    largest = float(squared_distances(sample.core, centers).min(axis=1).max())
    return max(sample.limit, largest * (1 + 1e-6)) * sample.scale**2


def without_isolated(path: Staircase, X: Any, weight: np.ndarray | None) -> np.ndarray | None:
    """The weights of the rows for a fit that follows the path: isolated rows get weight 0.

    A few rows far from all others (a 9999 for a missing value) would otherwise take all clusters,
    because one such row saves more than a whole cluster does.
    """
    if not np.isfinite(path.far):
        return weight
    centers = path.centers_at(path.best().price)
    origin = centers.mean(axis=0)
    rows = Rows(X)
    isolated = np.zeros(X.shape[0], bool)
    for a, b, block in rows.blocks(0, X.shape[0]):
        D = squared_distances(np.asarray(block, np.float64) - origin, centers - origin)
        isolated[a:b] = D.min(axis=1) > path.far
    if not isolated.any() or 2 * isolated.sum() > len(isolated):  # the majority is not isolated
        return weight
    return np.where(isolated, 0.0, 1.0 if weight is None else weight)


def try_numbers(
    Z: np.ndarray,
    w: np.ndarray,
    fewest: int,
    most: int | None,
    rng: np.random.Generator,
) -> Tested:
    """Steps 3 and 4. If there are too few rows to test, only a tree of all rows is made."""
    n, h = len(Z), len(Z) // 2
    n_small = min(h // 2, max(512, int(6 * np.sqrt(h)), 3 * (most or 0)))
    k_max = max(1, min(n_small // 2, most or 320))
    one: Scores = {1: (0.0, 0.0)}
    if n < 2 or not np.ptp(Z, axis=0).max() > 0:
        return Tested(Z, w, [], one, (), 1, 1, 1)
    if n < MIN_ROWS or k_max < fewest:
        whole = Half(Z, w, Z, w, rng.random(min(n, max(512, 3 * (most or 0)))))
        top = min(most or n, len(whole.small))
        guess = whole.plateaus(min(fewest, top), top, 1).tolist() if fewest > 1 else [1]
        one = {guess[0] if guess else top: (0.0, 0.0)}
        return Tested(Z, w, [whole], one, (), min(fewest, top), top, top)
    halves = make_halves(Z, w, n_small, count_cuts(n), rng)
    k_max = min(k_max, *(len(half.small) for half in halves))
    scores, votes = score_levels(halves, min(fewest, k_max), k_max)
    return Tested(Z, w, halves, scores, votes, min(fewest, k_max), most or n, k_max)


def look_again(
    tested: Tested, unit: bool, rng: np.random.Generator, independent: Callable[[], Any] | None
) -> Tested:
    """Step 5: `tested`, with the result of the test for clusters that are found again."""
    null = None if independent is None else independent()
    recovery = find_again(
        tested.Z, tested.weights, tested.fewest, tested.top, rng, unit=unit, independent=null
    )
    tested = replace(tested, recovery=recovery)
    if recovery is None or not tested.recovered:
        return tested
    return replace(tested, Z=recovery.Z, halves=recovery.halves)


def stairs(
    sample: Sample, tested: Tested, unit: bool
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[int]]:
    """Step 6: numbers of clusters, errors, centres (in the units of X), and for each the k under
    which it was tested."""
    block = slice(max(8192, 64 * tested.best))
    core, w = sample.core[block], sample.core_w[block]
    apart = 1.05 if core.shape[1] <= DENSE_COLUMNS else 1.2  # centres with many columns take memory
    scored, errors, found = [], [], []
    for k, labels in divisions(tested, core.shape[0], apart):
        centers, _, error = divide(core, w, labels, unit)
        errors.append(error)
        found.append(centers * sample.scale + sample.origin)
        scored.append(k)
    # Scale the SSE of the sample up to all rows, in the units of X.
    scale = sample.scale**2 * (sample.total / w.sum())
    return np.array([len(C) for C in found]), np.array(errors) * scale, found, scored


def divisions(tested: Tested, n_rows: int, apart: float) -> list[tuple[int, np.ndarray]]:
    """Step 6: (k, labels of the first rows) for the numbers k of the staircase.

    Consecutive k differ by about the factor `apart`.
    """
    Z, w = tested.Z[:n_rows], tested.weights[:n_rows]
    near = {tested.best + s for s in range(-3, 4)}
    last, numbers = 1, []
    for k in sorted(near.union(tested.scores, range(2, 12))):
        if k < 2 or not tested.halves or k > tested.top or (k not in near and k < apart * last):
            continue
        last = k
        numbers.append(k)
    stage, frame = Stage("at which penalty", len(numbers)), frame_of(Z, w)

    def divide_into(k: int) -> tuple[int, np.ndarray]:
        starts = tested.halves[: 4 if k == tested.best else 2 if k in near else 1]
        share = 1 if k in near else FIRST_LOOK
        found = [lloyd(Z, half.centers(k, share), w, 3, frame=frame) for half in starts]
        stage.step()
        return k, min(found, key=lambda f: f[2])[0]

    return [(1, np.zeros(n_rows, np.int64)), *together(divide_into, numbers)]
