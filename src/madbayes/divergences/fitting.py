"""From a table to clusters by a divergence: `fit` of `DPMeans` and `KMeans`.

1. Columns into sums and counts (`table.py`); rows without a weight or without a cell do not count.
2. The number of clusters and the noise level of numbers (`number.py`).
3. The search over `DivergenceSpace`, or the printed algorithm. With "mixed" and a number that was
   found, the noise level follows the clusters, and the search goes again, until both agree. Where
   a sample shows the noise level, all rows descend from its clusters.
4. Rows left out for a price (`outliers.py`).
5. Labels of all rows, centres in the units of the table.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from madbayes._model.fitting import Options, begin, keep_choice, warn_if_unfinished
from madbayes._rows.content import content_order
from madbayes._rows.threads import Run, workers
from madbayes._search.discount import check_discount, search_discounted, total_price
from madbayes._search.division import Division
from madbayes._search.driver import (
    SAMPLE_ROWS_PER_CLUSTER,
    by_size,
    descend,
    never_rising,
    search,
)
from madbayes._search.number import printed_number, search_number
from madbayes._search.price import fixed, per_cluster
from madbayes.divergences import printed
from madbayes.divergences.estimating import divergence_without_row, has_cells, warn_of_empty
from madbayes.divergences.families import EncodedRows, centers_of, half_seen
from madbayes.divergences.kernels import GAMMA, POISSON, SQUARED, TINY
from madbayes.divergences.number import Found, Noise, find_number, level_noise, polish
from madbayes.divergences.outliers import (
    check_outlier_penalty,
    far_rows,
    gross_rows,
    leave_out,
    remark_on_far,
    tail_price,
)
from madbayes.divergences.space import DivergenceSpace
from madbayes.divergences.table import ColumnEncoder
from madbayes.howmany.path import find_path
from madbayes.howmany.staircase import Staircase

COMPLETE, COMPLETE_ROWS = 0.3, 24  # share and number of rows without gaps that decide alone
NOISE_ROWS = 8192  # of the sample that shows the noise level for a given number
FEW = 2**14  # values for which threads do not pay
SURE = ("moderate", "strong")
COARSE = 20  # different values of a number, up to which gaps between them look like valleys
REPEATED = 0.9  # share of the mistakes of guessing a category that the clusters avoid


@dataclass(frozen=True)
class Solved:
    """Clusters of the rows that count."""

    labels: np.ndarray  # -1: left out
    history: list[float]
    penalty: float
    n_iter: int
    converged: bool = True
    paid: float | None = None  # for all clusters, if that is not penalty · k
    aside: np.ndarray | None = None  # rows that have a label and play no part in the means


def fit_dp_means(model: Any, X: Any, sample_weight: Any) -> None:
    """`DPMeans.fit` by a divergence."""
    price = check_outlier_penalty(model.outlier_penalty)
    discount = check_discount(model.discount, model.algorithm)
    everything, counts = model._encode_fit(X, sample_weight)  # 1.
    options = begin(model, "auto", "farthest-first")
    rows, encoder = everything.take(np.flatnonzero(counts)), model._encoder
    auto = options.penalty == "auto"
    with workers(model.n_jobs, enough=rows.T.size > FEW) as run:
        far = rows_aside(rows, encoder)
        core = rows.take(np.flatnonzero(~far)) if far.any() else rows
        found = None
        if auto or encoder.mixed:  # 2.
            found = number_of(core, encoder, options)
        model._set_noise(core, level(core, encoder, found))
        problem = Problem(model, rows, far, found if auto else None, options, run)
        if model.algorithm == "paper":
            solved = print_rows(problem)  # 3.
        elif price is None:
            solved = search_core(problem)
        else:
            solved, price = search_and_leave_out(problem, price)  # 4.
        if price is not None:
            model.outlier_penalty_ = price
        if discount > 0:
            solved = discounted(problem, solved, discount)
        labels = store(model, everything, counts, solved)  # 5.
        if auto and found is not None:
            path, remarks = found.path, []
            if far.any() and price is None:
                remarks.append(remark_on_far(np.flatnonzero(counts)[far]))
            if encoder.mixed and path.best().number > 1:
                path = doubt_repeated(path, rows, encoder, solved.labels, options)
            keep_choice(model, path, model.n_clusters_, solved.penalty, tuple(remarks))
    warn_if_unfinished(model, solved.converged)
    model._calibrate_encoded(encoder.scaled(rows), np.where(far, -1, labels[counts]))


@dataclass(frozen=True)
class Problem:
    """Rows that count, which of them are far from all others, and what is asked."""

    model: Any
    rows: EncodedRows
    far: np.ndarray
    found: Found | None
    options: Options
    run: Run

    def space(self, rows: EncodedRows) -> DivergenceSpace:
        price = per_cluster(1.0, self.options.cap, rows.n)
        if self.found is None and self.options.penalty != "farthest-first":
            price = replace(price, penalty=self.options.penalty)
        return DivergenceSpace(self.model._encoder.scaled(rows), price, self.run)


def discounted(problem: Problem, solved: Solved, discount: float) -> Solved:
    """The same with a price that falls with the number of clusters (`_search/discount.py`)."""
    options, model = problem.options, problem.model
    if isinstance(options.penalty, str):  # the number stays
        price, penalty = solved.penalty, solved.penalty * (solved.labels.max() + 1.0) ** discount
    else:
        if model.outlier_penalty is not None:
            raise ValueError(
                "discount and outlier_penalty do not go together with a number as penalty. Use "
                "penalty='auto', or one of the two."
            )

        def solve(price: float) -> tuple[Any, float, int]:
            at = replace(problem, options=options._replace(penalty=price))
            found = search_core(at)
            k = int(found.labels.max()) + 1
            return found, found.history[-1] - price * k, k

        penalty, most = options.penalty, options.cap or problem.rows.n
        solved, _, price = search_discounted(solve, penalty, discount, most)
    k = int(solved.labels.max()) + 1
    paid = total_price(penalty, discount, k)
    history = [value + paid - price * k for value in solved.history]
    return replace(solved, penalty=penalty, history=history, paid=paid)


def rows_aside(rows: EncodedRows, encoder: Any) -> np.ndarray:
    """Rows far from all others, which must not decide the number or the noise level."""
    if encoder.divergence == "squared" and (rows.P > 0).all():
        return far_rows(rows.T, np.random.RandomState(0))
    return gross_rows(rows)


def number_of(rows: EncodedRows, encoder: ColumnEncoder, options: Options) -> Found:
    """2. Within the range that the user gave; of numbers from the rows without gaps, if many."""
    if encoder.divergence == "squared":
        whole = (rows.P > 0).all(axis=1)
        if whole.sum() >= max(COMPLETE_ROWS, COMPLETE * rows.n):
            some = rows.take(np.flatnonzero(whole))
            path = find_path(some.T, some.w, options.cap, options.hint)
            return Found(path, level(rows, encoder, None))
    fewest, most = 1, options.cap
    if options.hint is not None:
        fewest, most = -(-2 * options.hint // 3), 3 * options.hint // 2
        fewest, most = (min(v, options.cap or v) for v in (fewest, most))
    found = find_number(rows.centred(), encoder, fewest, most, options.random_state)
    if fewest == found.path.best().number == 1:
        return number_by_valleys(rows, encoder, options, found)
    return found


def number_by_valleys(
    rows: EncodedRows, encoder: ColumnEncoder, options: Options, found: Found
) -> Found:
    """2. Where descriptions show one cluster: what valleys between numbers show, if they are clear.

    Permuted columns of two numbers, or of a grid of clusters, are described as well as the rows
    themselves. Valleys tell clusters from such noise. Only numbers and counts have them.
    """
    block, family = rows.layout.block, rows.layout.family
    centred, there = rows.centred(), rows.P > 0
    T = centred.T
    fine = [
        j
        for j in range(T.shape[1])
        if family[j] in (POISSON, GAMMA)
        or (family[j] == SQUARED and np.unique(T[there[:, block[j]], j]).size > COARSE)
    ]
    whole = np.flatnonzero(there[:, block[fine]].all(axis=1)) if fine else np.zeros(0, int)
    if len(whole) < max(COMPLETE_ROWS, COMPLETE * rows.n):
        return found
    X, w = at_one_spread(T[whole][:, fine], family[fine]), rows.w[whole]
    path = find_path(X, w, options.cap, None)
    choice = path.best()
    if choice.strength not in SURE:
        return found
    noise = polish(centred.take(whole), path.labels_at(choice.price, X), encoder).noise
    remarks = choice.remarks
    if len(fine) < T.shape[1]:
        named = ", ".join(
            name for name, j in zip(encoder.names, encoder.first, strict=True) if j in fine
        )
        remark = f"Only {named} show the clusters: the other columns are the same in all of them"
        remarks = (*remarks, remark)
    choice = replace(choice, strength="moderate", remarks=remarks)
    return Found(replace(path, choice=choice, centers=None, _X=None), noise)


def at_one_spread(T: np.ndarray, family: np.ndarray) -> np.ndarray:
    """Columns whose spread does not grow with their mean, each divided by its standard deviation.

    Square roots of counts, each count spread over the interval up to the next one; logarithms of
    GAMMA columns. The draws follow the content of the rows, not their order.
    """
    X, order = T.copy(), content_order(T, None, 0)
    above = np.empty(T.shape)
    above[order] = np.random.RandomState(0).random_sample(T.shape)
    counts, positive = family == POISSON, family == GAMMA
    X[:, counts] = np.sqrt(T[:, counts] + above[:, counts])
    X[:, positive] = np.log(np.maximum(T[:, positive], TINY))
    return X / np.maximum(X.std(axis=0), TINY)


def doubt_repeated(
    path: Staircase, rows: EncodedRows, encoder: ColumnEncoder, labels: np.ndarray, options: Options
) -> Staircase:
    """The path with weak evidence where the clusters repeat one or two columns of categories.

    Where each cluster holds one value of such a column, and without the column the number is
    another one or not sure, the clusters tell of little that is not in the table already.
    """
    inside, choice = np.flatnonzero(labels >= 0), path.best()
    rows, labels = rows.take(inside), labels[inside]
    same = repeated_columns(rows, encoder, labels)
    if not 1 <= len(same) <= min(2, len(encoder.kinds) - 1):
        return path
    others, rest = encoder.without(rows, same)
    other = number_of(others, rest, options).path.best()
    if other.number == choice.number and other.strength in SURE:
        return path
    named = " and ".join(encoder.names[j] for j in same)
    there = "1 cluster" if other.number == 1 else f"{other.number} clusters"
    sure = "" if other.number == 1 else f", evidence {other.strength}"
    remark = f"Each cluster has one value of {named}; without {named} there would be {there}{sure}"
    choice = replace(choice, strength="weak", remarks=(*choice.remarks, remark))
    return replace(path, choice=choice)


def repeated_columns(rows: EncodedRows, encoder: ColumnEncoder, labels: np.ndarray) -> list[int]:
    """Columns of categories whose value the cluster of a row tells (Goodman & Kruskal's lambda)."""
    found = rows.add_up(labels, int(labels.max()) + 1)
    N, out = found.N[:, rows.layout.block], []
    for at, (kind, j, width) in enumerate(
        zip(encoder.kinds, encoder.first, encoder.widths, strict=True)
    ):
        if kind == "categorical":
            counts = found.S[:, j : j + width]
        elif kind == "bernoulli":
            counts = np.c_[found.S[:, j], N[:, j] - found.S[:, j]]
        else:
            continue
        guessed, total = counts.sum(axis=0).max(), counts.sum()
        if counts.max(axis=1).sum() - guessed >= REPEATED * (total - guessed) > 0:
            out.append(at)
    return out


def level(rows: EncodedRows, encoder: Any, found: Found | None) -> Noise:
    if found is not None:
        return found.noise
    return level_noise(rows, rows.total, encoder)


def search_core(problem: Problem) -> Solved:
    """3. The search: at a penalty among all rows, for a number among those that are not far."""
    if problem.found is None:
        return search_rows(problem, problem.rows)
    near = np.flatnonzero(~problem.far)
    solved = search_rows(problem, problem.rows.take(near))
    labels = np.empty(problem.rows.n, np.int64)
    labels[near] = solved.labels
    if problem.far.any():
        rows = problem.model._encoder.scaled(problem.rows)
        core = rows.take(near)
        found = core.add_up(solved.labels, int(solved.labels.max()) + 1)
        means = found.means(rows.layout, core.overall)
        others = rows.take(np.flatnonzero(problem.far))
        near_centers = centers_of(means, rows.layout, half_seen(found.W))
        labels[problem.far], cost = others.nearest(near_centers)
        more = float(others.w @ np.maximum(cost + others.phi, 0.0))
        history = [value + more for value in solved.history]
        return replace(solved, labels=labels, history=history, aside=problem.far)
    return replace(solved, labels=labels)


def search_rows(problem: Problem, rows: EncodedRows) -> Solved:
    """3. At a penalty or for the number that was found."""
    options, found, encoder = problem.options, problem.found, problem.model._encoder
    common: dict[str, Any] = options.for_search()
    if found is None and options.penalty != "farthest-first":
        now, history = search(problem.space(rows), **common)
        return Solved(now.labels, history, options.penalty, len(history))
    cap = options.cap or rows.n
    number, penalty, centers = options.hint or 1, None, None
    if found is not None:
        number, penalty = found.path.best().number, found.path.best().price
        if encoder.mixed:
            centers, settled = settle_noise(problem, rows, number, penalty)
    number, space = min(number, cap), problem.space(rows)
    if centers is not None:
        priced = replace(space, price=per_cluster(settled, number, rows.n))
        now = priced.settle(centers)
        history = [now.objective]
        now = descend(priced, now, options.random_state, history)
        if now.k == number:
            return Solved(now.labels, never_rising(history), settled, len(history))
    now, history, penalty = search_number(space, number, penalty, max_clusters=cap, **common)
    return Solved(now.labels, history, penalty, len(history))


def settle_noise(
    problem: Problem, rows: EncodedRows, number: int, penalty: float
) -> tuple[np.ndarray | None, float]:
    """3. Searches on a sample, each at the noise level of the clusters before, until it stays.

    Returns the centres of a sample and the penalty at which it has the number; no centres where
    the sample is all rows."""
    options, encoder = problem.options, problem.model._encoder
    common: dict[str, Any] = options.for_search()
    size = max(NOISE_ROWS, SAMPLE_ROWS_PER_CLUSTER * number)
    some = rows.sample(size, options.random_state)
    cap = min(options.cap or some.n, some.n)
    for _ in range(4):  # most tables are steady after two
        space = problem.space(some)
        now, _, penalty = search_number(
            space, min(number, cap), penalty, max_clusters=cap, **common
        )
        centred = some.centred()
        new = level_noise(centred, centred.add_up(now.labels, now.k), encoder)
        moved = np.r_[np.log(new.factor / encoder.factor), np.log(new.shape / encoder.shape)]
        problem.model._set_noise(some, new)
        if np.abs(moved).max() < 0.02:  # no difference to the clusters
            break
    if some is rows:
        return None, penalty
    means = some.add_up(now.labels, now.k).means(some.layout, some.overall)
    return encoder.from_own_units(means), penalty


def search_and_leave_out(problem: Problem, price: Any) -> tuple[Solved, float]:
    """4. The search with rows that may be left out; and the price of a row."""
    options, encoder = problem.options, problem.model._encoder
    near = np.flatnonzero(~problem.far)
    first = search_rows(problem, problem.rows.take(near))
    rows = encoder.scaled(problem.rows)
    if price == "auto":
        core = rows.take(near)
        clusters = core.add_up(first.labels, int(first.labels.max()) + 1)
        price = tail_price(divergence_without_row(core, first.labels, clusters))
    number = int(first.labels.max()) + 1
    exactly = problem.found is not None or options.penalty == "farthest-first"
    space = problem.space(problem.rows)
    if exactly:
        space = replace(space, price=fixed(number, rows.n))
    common: dict[str, Any] = options.for_search()
    known = {len(near): first.labels}  # where the search has been already

    def solve(some: DivergenceSpace, labels: np.ndarray | None) -> Division:
        if labels is None and some.n in known:
            return some.division(known[some.n])
        starts = [] if labels is None else [labels]
        return search(some, **common, labels=starts)[0]

    z, history = leave_out(space, price, solve, problem.far.copy())
    k = int(z.max()) + 1
    if exactly:
        history = [value + first.penalty * k for value in history]
    return Solved(z, never_rising(history), first.penalty, len(history)), price


def print_rows(problem: Problem) -> Solved:
    """3. The printed algorithm, at a penalty or at one that gives the number that was found."""
    model, options, found = problem.model, problem.options, problem.found
    if model.outlier_penalty is not None:
        raise ValueError(
            f"outlier_penalty={model.outlier_penalty!r} is for algorithm='search'; the printed "
            "algorithm leaves no row out."
        )
    rows = model._encoder.scaled(problem.rows)
    order = np.arange(rows.n)
    if model.order == "random":
        order = options.random_state.permutation(rows.n)
    limits: Any = {"max_clusters": options.cap, "max_iter": options.max_iter}
    ordered = rows.take(order)

    def solve(penalty: float) -> printed.Printed:
        return printed.dp_means(ordered, penalty, **limits)

    penalty = options.penalty
    if isinstance(penalty, str):
        number = found.path.best().number if found is not None else options.hint or 1
        far = printed.farthest_divergence(ordered)
        penalty, result = printed_number(solve, lambda r: int(r[0].max()) + 1, number, far)
    else:
        result = solve(penalty)
    labels = np.empty(rows.n, np.int64)
    labels[order] = result[0]
    return Solved(labels, result[1], penalty, result[2], result[3])


def fit_kmeans(model: Any, X: Any, sample_weight: Any) -> None:
    """`KMeans.fit` by a divergence."""
    everything, counts = model._encode_fit(X, sample_weight)
    k, options = model._check(everything.n)
    rows = everything.take(np.flatnonzero(counts))
    if k > rows.n:
        raise ValueError(f"n_clusters={k} must be <= {rows.n}, the number of rows that count.")
    encoder, rng = model._encoder, options.random_state
    with workers(model.n_jobs, enough=rows.T.size * k > FEW) as run:
        noise, first = noise_of_number(rows, encoder, k, rng)
        model._set_noise(rows, noise)
        space = DivergenceSpace(encoder.scaled(rows), fixed(k, rows.n), run)
        if model.algorithm == "search":
            now, history = search(space, **options.for_search())
            solved = Solved(now.labels, history, 0.0, len(history))
        else:
            solved = best_start(model, space, k, options, first)
        labels = store(model, everything, counts, solved)
    model._warn_of_end(model.n_clusters_, k, solved.converged)
    model.n_clusters_ = k
    few = np.minimum(np.arange(k), len(model.cluster_centers_) - 1)  # fewer different rows than k
    model._centers, model.cluster_centers_ = model._centers[few], model.cluster_centers_[few]
    model._cluster_weights = model._cluster_weights[few]
    model._calibrate_encoded(encoder.scaled(rows), labels[counts])


def noise_of_number(
    rows: EncodedRows, encoder: Any, k: int, rng: np.random.RandomState
) -> tuple[Noise, np.ndarray | None]:
    """The noise level within k clusters of a sample, by passes of k-means that follow it; and the
    means of these clusters, in the units of the table."""
    if not encoder.mixed:
        return level(rows, encoder, None), None
    if rows.n > NOISE_ROWS:
        rows = rows.take(np.sort(rng.choice(rows.n, NOISE_ROWS, replace=False)))
    some = rows.centred()
    noise = level_noise(some, some.total, encoder)
    space = DivergenceSpace(noise.scaled(some), fixed(k, some.n))
    merged = next(iter(space.first_centers(rng)))
    found = polish(some, space.settle(merged).labels, encoder)
    return found.noise, rows.add_up(found.labels, found.k).means(rows.layout, rows.overall)


def best_start(
    model: Any, space: DivergenceSpace, k: int, options: Options, known: np.ndarray | None
) -> Solved:
    """Passes from one or more starts; the best. `known`: means to start from, if they are k."""
    rng, rows, encoder = options.random_state, space.rows, model._encoder
    starts, tries = model.init, 1 if model.n_init == "auto" else options.n_init
    best: Any = None
    for turn in range(tries):
        if isinstance(starts, str) and starts == "k-means++":
            if turn == 0 and known is not None and len(known) == k:
                means = encoder.from_own_units(known)
            else:
                means = space.draw(k, rng)
        elif isinstance(starts, str):
            chosen = rows.take(np.sort(rng.choice(rows.n, k, replace=False)))
            means = 0.5 * space.overall + 0.5 * chosen.T
        else:
            means = encoder.from_own_units(np.asarray(starts, dtype=np.float64))
        result = printed.lloyd(rows, means, max_iter=options.max_iter)
        best = result if best is None or result[1][-1] < best[1][-1] else best
    return Solved(best[0], best[1], 0.0, best[2], best[3])


def store(model: Any, everything: EncodedRows, counts: np.ndarray, solved: Solved) -> np.ndarray:
    """5. What the user sees; returns labels of all rows."""
    encoder = model._encoder
    rows = encoder.scaled(everything.take(np.flatnonzero(counts)))
    z = solved.labels
    if (z < 0).all():
        raise ValueError(
            f"outlier_penalty={model.outlier_penalty!r} is so small that it is cheapest to leave "
            "all rows out. Take a larger one, or 'auto'."
        )
    k = int(z.max()) + 1
    found = rows.add_up(z if solved.aside is None else np.where(solved.aside, -1, z), k)
    means = found.means(rows.layout, rows.overall)
    rank = by_size(means, found.W) if model.algorithm == "search" else np.arange(k)
    labels = np.full(everything.n, -1, np.int32)
    labels[counts] = np.where(z >= 0, np.argsort(rank)[z], -1)
    model._store_means(means[rank], found.W[rank] * rows.per_row)
    model.n_clusters_ = k
    weightless = ~counts & has_cells(everything, encoder)
    if weightless.any():
        others = encoder.scaled(everything.take(np.flatnonzero(weightless)))
        labels[weightless] = model._gaps(others).argmin(axis=1)
    empty = ~has_cells(everything, encoder)
    if empty.any():
        warn_of_empty(empty)
    out = float(rows.w[z < 0].sum())
    paid = solved.penalty * k if solved.paid is None else solved.paid
    paid += model.outlier_penalty_ * out if out else 0.0
    model.labels_ = labels
    if hasattr(model, "discount"):
        model.n_outliers_ = int((labels[counts] < 0).sum())
    model.penalty_ = solved.penalty
    model.objective_ = solved.history[-1]
    model.inertia_ = model.objective_ - paid
    model.objective_history_ = np.array(solved.history)
    model.n_iter_, model.converged_ = solved.n_iter, solved.converged
    return labels
