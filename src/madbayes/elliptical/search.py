"""The search for the lowest classification likelihood with a prior.

The formula is in `elliptical_means.py`.

1. *Start.* Many small clusters (k-means), merged where that costs least (Fraley 1998).
2. *Descend*, until none of these lowers J: every row to the cluster where it is most likely, then
   means and covariances (Celeux & Govaert 1992, CEM); moves of single rows by their exact change;
   merges and splits; with a fixed number a merge together with a split.
3. *Renew.* A few neighbouring clusters are divided anew from rows drawn at random, and 2. follows
   within them; kept if J is lower. Until this was in vain so many times in a row.

Many rows: 1. to 3. on a sample, then 2. on all of them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from madbayes._partition.seeding import kmeans_plus_plus, squared_distances
from madbayes._rows.rows import Rows
from madbayes._rows.threads import patient
from madbayes.elliptical import ellipse_kernels as kernels
from madbayes.elliptical.space import (
    TOL,
    Division,
    Space,
    assign,
    merge,
    merge_tree,
    merged,
    move_rows,
    terms,
)

SAMPLE = 5000  # rows that are searched; the others take part in the last descent
Step = Callable[[Space, Division], Division]
Result = tuple[Division, list[float], bool]  # the division, J after each pass, converged or not


def halves(
    space: Space, now: Division, c: int, rng: np.random.RandomState
) -> tuple[float, np.ndarray]:
    """The best cut of cluster c in two that was found: what it saves, and the rows cut off."""
    rows = np.flatnonzero(now.labels == c)
    part = space.part(rows, 2)
    own = float(space.costs(now.W[c : c + 1], now.L[c : c + 1])[0])
    best = (-np.inf, rows[:0])
    for cut in range(3):  # across the longest axis, then at random
        direction = np.linalg.eigh(now.S[c])[1][:, -1]
        middle = now.C[c]
        if cut:
            a, b = part.Y[rng.randint(len(rows), size=2)]
            direction, middle = b - a, (a + b) / 2
        side = np.einsum("ij,j->i", part.Y - middle, direction) > 0
        if not 0 < side.sum() < side.size:
            continue
        found = part.division(side.astype(np.int64))
        for _ in range(10):
            new = assign(part, found)
            if not part.lower(new, found):
                break
            found = new
        saved = own - float(space.costs(found.W, found.L).sum())
        if saved > best[0]:
            best = saved, rows[found.labels == 1]
    return best


def split(space: Space, now: Division, rng: np.random.RandomState) -> Division:
    """Clusters cut in two where that saves more than it costs; for a fixed number one, at most,
    for which the two that are cheapest to merge make room."""
    cuts = [halves(space, now, c, rng) for c in range(now.k)]
    order = np.argsort([-saved for saved, _ in cuts], kind="stable")
    tol = TOL * (1.0 + float(now.W.sum()))
    labels = now.labels.copy()
    if space.price is not None:
        pays = [c for c in order if cuts[c][0] > space.price + tol][: space.most - now.k]
        for at, c in enumerate(pays):
            labels[cuts[c][1]] = now.k + at
        return space.division(labels) if pays else now
    if now.k < 3:
        return now
    into, gone, cost = merge_tree(space, now)
    for c in order[:2]:
        if c not in (into[0], gone[0]) and cuts[c][0] - cost[0] > tol:
            labels = merged(labels, into[:1], gone[:1])
            labels[cuts[c][1]] = now.k
            return space.division(labels)
    return now


def descend(
    space: Space, now: Division, rng: np.random.RandomState, *, max_iter: int, history: list[float]
) -> tuple[Division, bool]:
    """2. Until nothing lowers J (True), or max_iter passes (False)."""
    for _ in range(max_iter):
        new = assign(space, now)
        if not space.lower(new, now):
            new = move_rows(space, now)
        if not space.lower(new, now) and space.price is not None:
            new = merge(space, now)
        if not space.lower(new, now):
            new = split(space, now, rng)
        if not space.lower(new, now):
            return now, True
        now = new
        history.append(space.objective(now))
    return now, False


def settle(space: Space, now: Division, step: Step, passes: int) -> Division:
    """One of the quick parts of 2., the number of clusters as it is."""
    for _ in range(passes):
        new = step(space, now)
        if new.k < now.k or not space.lower(new, now):
            break
        now = new
    return now


def renew(space: Space, now: Division, rng: np.random.RandomState, effort: float) -> Division:
    """3. Neighbouring clusters divided anew, from rows drawn at random."""
    vain = 0
    while now.k > 1 and vain < effort * (12 + 2 * now.k):
        vain += 1
        near = np.empty((now.k, now.k))
        kernels.quadratic(now.C, now.C, now.A, near)
        first = rng.randint(now.k)
        count = rng.randint(2, min(3, now.k) + 1)
        chosen = np.argsort(near[:, first], kind="stable")[:count]
        rows = np.flatnonzero(np.isin(now.labels, chosen))
        part = space.part(rows, count)
        seeds = part.Y[rng.choice(len(rows), count, replace=False)]
        labels = squared_distances(Rows(part.Y), 0, len(rows), seeds).argmin(axis=0)
        new = settle(part, part.division(labels), assign, 8)
        old = float(space.costs(now.W[chosen], now.L[chosen]).sum())
        gain = old - float(space.costs(new.W, new.L).sum())
        if new.k < count or gain < -0.02 * float(new.W.sum()):  # not nearly as good: no moves
            continue
        new = settle(part, new, move_rows, 3)
        gain = old - float(space.costs(new.W, new.L).sum())
        if gain > TOL * (1.0 + float(now.W.sum())):
            z = now.labels.copy()
            z[rows] = chosen[new.labels]
            now, vain = settle(space, space.division(z), assign, 8), 0
    return now


def cells(
    space: Space, most: int, rng: np.random.RandomState, *, exactly: bool = False
) -> Division:
    """1. Small clusters: k-means++, three passes of k-means, empty ones dropped.

    Plain distances and sums: `KMeans` would do the same, and take longer to compile than to run.
    """
    source = Rows(space.Y, weight=space.w)
    # Fewer rows than columns have no covariance, and merging many such clusters takes long.
    count = min(2 * np.sqrt(source.n), source.n / source.d)
    count = max(int(np.clip(count, 8, 128)), 3 * most)
    count = min(most if exactly else count, source.n)
    centers = kmeans_plus_plus(source, count, rng)
    for _ in range(4):
        labels = squared_distances(source, 0, source.n, centers).argmin(axis=0)
        weight = np.bincount(labels, space.w, len(centers))
        sums = [np.bincount(labels, space.w * column, len(centers)) for column in space.Y.T]
        centers = (np.array(sums) / np.where(weight > 0, weight, 1.0)).T[weight > 0]
    return space.division(labels)


def sample(space: Space, rng: np.random.RandomState) -> Space:
    """At most SAMPLE rows, with their own weights."""
    n = len(space.Y)
    if n <= SAMPLE:
        return space
    rows = np.sort(rng.choice(n, SAMPLE, replace=False))
    return replace(space, Y=space.Y[rows], w=space.w[rows])


def scaled_up(some: Space, space: Space) -> Space:
    """The sample, its weights scaled up to those of all rows: a penalty is meant for all rows."""
    return some if some is space else replace(some, w=some.w * (space.w.sum() / some.w.sum()))


def search(
    space: Space,
    start: Division,
    rng: np.random.RandomState,
    *,
    max_iter: int,
    effort: float,
) -> Result:
    """2. and 3. from a division."""
    history = [space.objective(start)]
    now, converged = descend(space, start, rng, max_iter=max_iter, history=history)
    while converged and effort > 0:
        new = renew(space, now, rng, effort)
        if not space.lower(new, now):
            break
        history.append(space.objective(new))
        now, converged = descend(space, new, rng, max_iter=max_iter, history=history)
    return now, history, converged


def finish(
    space: Space, some: Space, found: Result, rng: np.random.RandomState, *, max_iter: int
) -> Result:
    """What was found on a sample, for all rows."""
    if some is space:
        return found
    now = found[0]
    labels = np.zeros(len(space.Y), np.int64)
    patient(kernels.assign, space.Y, now.C, now.A, *terms(some, now), labels)
    return search(space, space.division(labels), rng, max_iter=max_iter, effort=0.0)


def find(
    space: Space,
    rng: np.random.RandomState,
    *,
    n_init: int,
    max_iter: int,
    effort: float,
) -> Result:
    """1. to 3. from so many starts; the best of them."""
    some = scaled_up(sample(space, rng), space)
    found = []
    for _ in range(n_init):
        most = 0 if space.price is not None else space.most
        starts = [merge(some, cells(some, most, rng))]
        if most:  # the cheapest merges are not always the way to a given number
            starts.append(cells(some, most, rng, exactly=True))
        for start in starts:
            found.append(search(some, start, rng, max_iter=max_iter, effort=effort))
    best = min(found, key=lambda f: (-f[0].k if space.price is None else 0, f[1][-1]))
    return finish(space, some, best, rng, max_iter=max_iter)
