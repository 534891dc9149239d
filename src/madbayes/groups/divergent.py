"""`HardHDP.fit` by a divergence: clusters of counts, categories or mixed columns that groups share.

Objective: F = Σ w D_φ(x, μ_z) + λ_l Σ_j k_j + λ_g g (KJ Eq. 2 with a Bregman divergence: Jiang,
Kulis & Jordan 2012, section 4).

1. *Search* over `DivergenceSpace` with groups: exact moves of rows and merges know λ_l.
2. *Local clusters* move as a whole: a local cluster is its sums and counts, so it is a row of the
   same space, and its moves are those of rows. 1 and 2 in turn while F falls.

`algorithm="paper"` is Algorithm 2 as printed there (`divergences/printed.py`).

"auto": the number of clusters is that of all rows (`divergences/number.py`). All costs are in nats,
so λ_l is what it takes to say which clusters a group uses and how its rows divide among them,
log g + ½ log(rows of a group), and λ_g lies where neither a split nor a merge pays.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from madbayes._model.fitting import keep_choice, warn_if_unfinished
from madbayes._rows.threads import workers
from madbayes._search.division import Division
from madbayes._search.driver import never_rising, search
from madbayes._search.number import between, printed_number
from madbayes._search.price import SharedPrice
from madbayes.divergences import printed
from madbayes.divergences.families import EncodedRows
from madbayes.divergences.fitting import Solved, level, store
from madbayes.divergences.number import find_number
from madbayes.divergences.space import DivergenceSpace
from madbayes.groups.grouped_rows import Groups

ROUNDS = 8


def fit_divergent(model: Any, X: Any, weight: Any, groups: Groups) -> np.ndarray:
    """Fit the model; returns the group of each row that counts (-1: it does not)."""
    if model.algorithm == "spectral":
        raise ValueError(
            "algorithm='spectral' of HardHDP is for divergence='squared'. Use algorithm='search' "
            "or 'paper'."
        )
    options = model._check()
    everything, counts = model._encode_fit(X, weight)
    rows = everything.take(np.flatnonzero(counts))
    code = groups.code[counts]
    given = [v for v in (model.penalty_local, model.penalty_global) if not isinstance(v, str)]
    with workers(model.n_jobs) as run:
        found = None
        if len(given) < 2 or model._encoder.mixed:
            fewest, most = numbers_of(model.n_global_hint)
            found = find_number(rows.centred(), model._encoder, fewest, most, options.random_state)
        model._set_noise(rows, level(rows, model._encoder, found))
        space = DivergenceSpace(
            model._encoder.scaled(rows), SharedPrice(1.0, rows.n), run, group=code
        )
        number = found.path.best().number if found is not None else 1
        local = model.penalty_local
        if isinstance(local, str):
            local = np.log(max(number, 2)) + 0.5 * np.log(max(rows.n / len(groups.names), 2.0))
        glob = model.penalty_global
        if model.algorithm == "paper":
            local, glob, found_labels = print_groups(space, local, glob, number, options)
        else:
            local, glob, found_labels = solve(space, local, glob, number, options)
    labels, history, n_iter, converged = found_labels
    k = int(labels.max()) + 1
    paid = local * len(np.unique(code * k + labels)) + glob * k
    store(model, everything, counts, Solved(labels, history, glob, n_iter, converged, paid=paid))
    warn_if_unfinished(model, converged)
    del model.penalty_
    model.penalty_local_, model.penalty_global_ = float(local), float(glob)
    if found is not None and len(given) < 2:
        keep_choice(model, found.path, k, glob)
    model._calibrate_encoded(model._encoder.scaled(rows), model.labels_[counts])
    return np.where(counts, groups.code, -1)


def numbers_of(hint: int | None) -> tuple[int, int | None]:
    return (1, None) if hint is None else (-(-2 * hint // 3), 3 * hint // 2)


def print_groups(
    space: DivergenceSpace, local: float, glob: Any, number: int, options: Any
) -> tuple[float, float, printed.Printed]:
    """Algorithm 2 at these penalties; for a number of clusters at those of its own scale."""
    order = np.argsort(space.groups, kind="stable")
    rows, group = space.rows.take(order), space.groups[order]

    def run(local: float, glob: float) -> printed.Printed:
        return printed.hard_hdp(rows, group, local, glob, max_iter=options.max_iter)

    if isinstance(glob, str):
        far = printed.farthest_divergence(rows)
        # A row opens a cluster where it repays both penalties: half each.
        total, found = printed_number(
            lambda total: run(total / 2, total / 2), lambda r: int(r[0].max()) + 1, number, far
        )
        local = glob = total / 2
    else:
        found = run(local, glob)
    labels = np.empty(rows.n, np.int64)
    labels[order] = found[0]
    return local, float(glob), (labels, *found[1:])


def solve(
    space: DivergenceSpace, local: float, glob: Any, number: int, options: Any
) -> tuple[float, float, printed.Printed]:
    """1. and 2. at these penalties, or for a number of clusters where λ_g is not known."""
    n = space.n
    chosen = isinstance(glob, str)
    price = SharedPrice(0.0, min(number, n), local=local)
    if not chosen:
        price = SharedPrice(float(glob), n, local=local)
    space = replace(space, price=price)
    now, history = search(space, **options.for_search())
    for _ in range(ROUNDS):
        new = space.move_rows(move_shares(space, now))
        if not new.objective < now.objective:
            break
        now = new
        history.append(now.objective)
    if chosen:
        low, high = space.stable_penalties(now, options.random_state)
        glob = between(low, high, None, now.objective)
        history = [value + glob * now.k for value in history]
    return local, float(glob), (now.labels, never_rising(history), len(history), True)


def move_shares(space: DivergenceSpace, now: Division) -> Division:
    """2. Local clusters to other clusters, or to one of their own, while that lowers F."""
    key, share = np.unique(space.groups * now.k + now.labels, return_inverse=True)
    found = space.rows.add_up(share, len(key))
    ones = np.ones(len(key))
    rows = EncodedRows(found.S, found.N, ones, space.rows.layout)
    small = DivergenceSpace(rows, space.price, group=key // now.k, watched=False)
    z = key % now.k
    if not small.move(z, now, np.inf):
        return now
    new = space.division(z[share])
    return new if new.objective < now.objective else now
