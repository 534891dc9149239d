"""The staircase k(λ) of J(λ) = SSE + λk, and the k that the data supports.

1. *Sample.* Rows of weight 0 and far, lonely rows are set aside; at most some 30,000 rows are kept.
2. *Sketch.* Columns on a grid (integers, rounded values) are spread over their grain. Above ten
   columns, keep the principal components that stand out from those of the same data with random
   signs (parallel analysis; Horn 1965, Hong, Sheng & Dobriban 2020).
3. *Halves.* Each half of the rows: k-means++ to many small clusters, Lloyd, then Ward's merging
   (the cost of a merge, w_a w_b/(w_a+w_b)·‖μ_a-μ_b‖², is the λ at which it pays), so that cutting
   the tree and a few Lloyd steps give a partition for any k (KJ Fig. 2c).
4. *Score.* The partitions of one half are tested on the other half (`links.py`): a score that
   rises with each cluster that is apart from its neighbours, falls with each superfluous one, and
   stays below 0 on noise. All small k, a geometric grid and the widest plateaus of Ward's heights
   are scored, then the neighbourhood of the best.
5. *Second look.* Where that is weak or nothing and there are many components: do clusters explain
   held-out rows better than noise would (`compression.py`)?
6. *Staircase.* Around these k, Lloyd on the rows of both halves in the original space: SSE_k; its
   lower convex hull gives for each k the interval of λ in which it is best.

Departs from the paper: KJ choose λ by farthest-first from a given k; here k itself is asked for.
docs/adr/0006 tells why it decides as it does, and when it is wrong.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from madbayes._partition.lloyd import lloyd, nearest
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
from madbayes.howmany.choice import Tested, choose, strength
from madbayes.howmany.compression import COMPONENTS, compress
from madbayes.howmany.compression import MIN_ROWS as ROWS_TO_COMPRESS
from madbayes.howmany.halves import (
    CUT_ROWS,
    FIRST_LOOK,
    Half,
    Scores,
    frame_of,
    make_halves,
    score_levels,
)
from madbayes.howmany.remarks import on_hint
from madbayes.howmany.sample import DENSE_COLUMNS, Sample, divide, draw_sample, sketch
from madbayes.howmany.staircase import Staircase

MIN_ROWS = 12  # fewer rows cannot be halved and tested


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
        Seed for the sample and its halves. The result is the same for any `n_jobs`.
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
        # complains about values too large or small to square
        measure_to_fit(Rows(X, unit=unit, weight=weights))
        return find_path(X, weights, max_clusters, n_clusters_hint, random_state, unit=unit)


def check_range(max_clusters: int | None, n_clusters_hint: int | None) -> tuple[int, int | None]:
    """The fewest and the most clusters that may be answered; None: as many as can be examined."""
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
    random_state: Any,
    *,
    unit: bool = False,
) -> Staircase:
    """Steps 1 to 6 on checked rows."""
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    fewest, most = check_range(max_clusters, n_clusters_hint)
    sample = draw_sample(X, weight, most or 0, rng, unit=unit)  # 1.
    Z, signal = sketch(sample, rng)  # 2.
    tested = try_numbers(Z, sample.core_w, signal, fewest, most, unit, rng)  # 3. to 5.
    numbers, errors, centers, scored = stairs(sample, tested, unit)  # 6.
    found = Staircase.build(
        numbers,
        errors,
        centers=centers,
        figures={"scored": np.array(scored)},
        scores={k: s for k, (s, _) in tested.scores.items()},
        unit=unit,
        _X=X,
    )
    points = list(zip(numbers, scored, errors.tolist(), strict=True))
    choice = choose(found, tested, points)
    hint = on_hint(choice.number, n_clusters_hint, max_clusters)
    return replace(found, choice=replace(choice, remarks=choice.remarks + hint))


def try_numbers(
    Z: np.ndarray,
    w: np.ndarray,
    signal: int,
    fewest: int,
    most: int | None,
    unit: bool,
    rng: np.random.Generator,
) -> Tested:
    """3. to 5. Halves, scores, second look; a tree of all rows where there are too few to test."""
    n, h = len(Z), len(Z) // 2
    n_small = min(h // 2, max(512, int(6 * np.sqrt(h)), 3 * (most or 0)))
    k_max = max(1, min(n_small // 2, most or 320))
    one: Scores = {1: (0.0, 0.0)}
    if n < 2 or not np.ptp(Z, axis=0).max() > 0:
        return Tested(Z, w, [], one, 1, 1, 1)
    if n < MIN_ROWS or k_max < fewest:
        whole = Half(Z, w, Z, w, rng.random(min(n, max(512, 3 * (most or 0)))))
        top = min(most or n, len(whole.small))
        guess = whole.plateaus(min(fewest, top), top, 1).tolist() if fewest > 1 else [1]
        one = {guess[0] if guess else top: (0.0, 0.0)}
        return Tested(Z, w, [whole], one, min(fewest, top), top, top)
    cuts = min(max(CUT_ROWS // n, 1), 8)  # few rows: several cuts in halves
    halves = make_halves(Z, w, n_small, cuts, rng)
    k_max = min(k_max, *(len(half.small) for half in halves))
    scores = score_levels(halves, min(fewest, k_max), k_max)
    tested = Tested(Z, w, halves, scores, min(fewest, k_max), most or n, k_max, unit)
    k = tested.best
    weak = strength(k, scores) in ("none", "weak")
    if weak and signal >= COMPONENTS and n >= ROWS_TO_COMPRESS:
        second = compress(Z, w, fewest, k_max, rng, unit=unit)
        if second.number is not None:
            tested = replace(tested, second=second, Z=second.Z, halves=second.halves)
    return tested


def stairs(
    sample: Sample, tested: Tested, unit: bool
) -> tuple[list[int], np.ndarray, list[np.ndarray], list[int]]:
    """6. Numbers, errors, centres (in the units of X) and the k they were scored as.

    Isolated rows stand on their own, or with the nearest cluster.
    """
    block = slice(max(8192, 64 * tested.best))
    core, core_w = sample.core[block], sample.core_w[block]
    n_core, isolated = core.shape[0], sample.isolated
    rows, w = core, core_w
    if isolated.shape[0]:  # they keep the weight they have among the sample's rows
        rows = (sp.vstack if sp.issparse(core) else np.concatenate)([core, isolated])
        w = np.r_[core_w, sample.isolated_w * n_core / sample.core.shape[0]]
    numbers: list[int] = []
    errors, found, scored = [], [], []
    apart = 1.05 if core.shape[1] <= DENSE_COLUMNS else 1.2  # centres of many columns are large
    for k, labels in divisions(tested, n_core, apart):
        variants = [labels]
        if isolated.shape[0]:
            centers, labels, _ = divide(core, core_w, labels, unit)
            joined = nearest(isolated, centers)
            variants = [np.r_[labels, len(centers) + sample.clump], np.r_[labels, joined]]
        for variant in variants:
            centers, _, error = divide(rows, w, variant, unit)
            numbers.append(len(centers))
            errors.append(error)
            found.append(centers * sample.scale + sample.origin)
            scored.append(k)
    # SSE of the sample to SSE of the data, back in the units of X
    return numbers, np.array(errors) * sample.scale**2 * (sample.total / w.sum()), found, scored


def divisions(tested: Tested, n_rows: int, apart: float) -> list[tuple[int, np.ndarray]]:
    """6. (k, labels of the first rows) for the k of the staircase, so many times apart."""
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
        starts = tested.halves[: 2 if k in near else 1]
        share = 1 if k in near else FIRST_LOOK
        found = [lloyd(Z, half.centers(k, share), w, 3, frame=frame) for half in starts]
        stage.step()
        return k, min(found, key=lambda f: f[2])[0]

    return [(1, np.zeros(n_rows, np.int64)), *together(divide_into, numbers)]
