"""How many clusters a table supports: held-out description length, against noise.

1. *Sample.* At most ROWS rows; SPLITS times half of them are for fitting, the others for testing.
2. *Ladder.* Many small clusters of the first half, merged one by one at the least exact cost. Each
   number is polished by passes; with "mixed", numbers are divided by their spread within clusters.
3. *Description length.* A test row costs -log Σ_c π_c p(x | c) nats. gain(k): what k clusters save
   for each row, compared with one cluster. No cluster is narrower than rounding leaves it, and one
   row may be in no cluster, so that single rows cost a bounded number of nats.
4. *Noise.* The same for tables without clusters (`null_tables.py`): permuted columns, and columns
   that are only correlated. What the better described of the two gains is no evidence.
5. *Number.* The smallest k whose gain over noise is within one standard error of the best, up to
   where the rows themselves stop gaining; 1 where the gain is not clearly above that of noise.
6. *More?* Where the rows gain beyond k, noise is made again within the k clusters: a larger number
   has to gain RISE standard errors more than that. So long as one does, it takes the place of k.

The evidence is the share of splits that alone would say the same number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together
from madbayes._search.division import without_gaps
from madbayes._search.price import fixed
from madbayes.divergences.families import EncodedRows, Statistics, centers_of, half_seen
from madbayes.divergences.kernels import BERNOULLI, GAMMA, POISSON, SHARE, TINY
from madbayes.divergences.null_tables import Null, nulls, nulls_within
from madbayes.divergences.space import DivergenceSpace
from madbayes.divergences.table import ColumnEncoder
from madbayes.howmany.staircase import Staircase, Strength

ROWS = 4000  # of the sample
SPLITS = 8
MOST = 24  # clusters that are tried, where the user asks for no more
POLISH = 4  # passes for each number
PRIOR = 1.0  # rows at the overall mean that every cluster has beside its own
SPREAD_PRIOR = 4.0  # … and at the pooled spread
THINNEST = 1e-4  # a spread below this share of the variance of all rows is rounding
CLEAR = 3.0  # standard deviations of a split that the gain has to be above noise
STRONG, MODERATE = 4.0, 2.0  # times as clear for such evidence
RISE = 4.0  # standard errors that a larger number has to gain


@dataclass(frozen=True)
class Noise:
    """The noise level of each column: numbers are divided by it, so that costs are in nats."""

    factor: np.ndarray  # of SQUARED columns: 1/√(2 variance)
    shape: np.ndarray  # of GAMMA columns

    def scaled(self, rows: EncodedRows) -> EncodedRows:
        return rows.rescaled(np.zeros(len(self.factor)), self.factor, self.shape)


def level_noise(rows: EncodedRows, found: Statistics, how: ColumnEncoder) -> Noise:
    """From the spread within the clusters `found` of the rows; 1 for everything that is not
    "mixed"."""
    factor, shape = np.ones(rows.T.shape[1]), np.ones(rows.T.shape[1])
    if how.mixed:
        factor[rows.numbers] = 1 / np.sqrt(2 * pooled_variance(rows, found))
        j = np.flatnonzero(rows.layout.family == GAMMA)
        shape[j] = gamma_shapes(rows, found)
    return Noise(factor, shape)


def pooled_variance(rows: EncodedRows, found: Statistics) -> np.ndarray:
    """The variance of each number within the clusters (unbiased, never 0)."""
    block = rows.layout.block[rows.numbers]
    S, N = found.S[:, rows.numbers], found.N[:, block]
    squares, mass = rows.w @ rows.squares, np.maximum(N.sum(axis=0), 1e-300)
    within = squares - (S * S / np.where(N > 0, N, 1.0)).sum(axis=0)
    total = squares - S.sum(axis=0) ** 2 / mass
    count = rows.cells[block]
    share = np.maximum(count - len(found.W), 1) / np.maximum(count, 1)
    floor = np.where(total > 0, THINNEST * total / mass, 0.5)
    return np.asarray(np.maximum(within / mass / share, np.maximum(floor, rows.rounding)))


def gamma_shapes(rows: EncodedRows, found: Statistics) -> np.ndarray:
    """The shape a of each GAMMA column: log a - digamma(a) = mean divergence (Minka's start)."""
    j = np.flatnonzero(rows.layout.family == GAMMA)
    N = found.N[:, rows.layout.block[j]]
    logs = np.where(N > 0, np.log(np.maximum(found.means(rows.layout)[:, j], TINY)), 0.0)
    s = ((N * logs).sum(axis=0) - rows.w @ rows.logs) / np.maximum(N.sum(axis=0), TINY)
    s = np.maximum(s, 1e-4)
    return np.asarray((3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s))


@dataclass(frozen=True)
class Rung:
    """One number of clusters: labels of the fitted rows, their sums, and their noise level."""

    labels: np.ndarray
    found: Statistics
    noise: Noise

    @property
    def k(self) -> int:
        return len(self.found.W)


def ladder(
    rows: EncodedRows, how: ColumnEncoder, numbers: Sequence[int], rng: np.random.RandomState
) -> dict[int, Rung]:
    """2. Divisions into these numbers of clusters, or fewer where rows are equal."""
    m = int(min(max(64, 3 * numbers[-1]), max(rows.n // 3, 1)))
    noise = level_noise(rows, rows.total, how)
    for _ in range(2 if how.mixed else 1):  # rows far apart at the noise level of small clusters
        space = DivergenceSpace(noise.scaled(rows), fixed(m, rows.n))
        fine = space.division(space.lloyd(space.nearest(space.draw(m, rng)), POLISH))
        noise = level_noise(rows, rows.add_up(fine.labels, fine.k), how)
    space = DivergenceSpace(noise.scaled(rows), fixed(m, rows.n))
    _, tree, _ = space.merge_tree(fine, 0.0, 1)
    found = {}
    group, merged = np.arange(fine.k), 0
    for number in sorted(numbers, reverse=True):
        while fine.k - merged > number:
            a, b = tree[merged]
            group[group == b] = a
            merged += 1
        found[number] = polish(rows, group[fine.labels], how)
    return found


def polish(rows: EncodedRows, labels: np.ndarray, how: ColumnEncoder) -> Rung:
    """2. Passes of nearest centres, each at the noise level of the clusters before it."""
    labels, k = without_gaps(labels)
    found = rows.add_up(labels, k)
    noise = level_noise(rows, found, how)
    for _ in range(POLISH if k > 1 else 0):
        means = found.means(rows.layout, rows.overall) * noise.factor
        layout = replace(rows.layout, scale=noise.shape)
        near = centers_of(means, layout, half_seen(found.W * rows.per_row))
        # Centres take the factor of the columns, so that the rows need not be scaled.
        new, k = without_gaps(rows.nearest(replace(near, theta=near.theta * noise.factor))[0])
        if np.array_equal(new, labels):
            break
        labels, found = new, rows.add_up(new, k)
        noise = level_noise(rows, found, how)
    return Rung(labels, found, noise)


def held_out(fit: EncodedRows, rung: Rung, test: EncodedRows, how: ColumnEncoder) -> np.ndarray:
    """3. log Σ_c π_c p(x | c) of the test rows, by clusters of the fitted rows.

    Terms of single rows that are the same for every number of clusters are left out.
    """
    layout, found = fit.layout, rung.found
    family, N = layout.family, found.N[:, layout.block]
    means = (found.S + PRIOR * possible(fit, how)) / (N + PRIOR)
    theta, psi = np.zeros(means.shape), np.zeros(means.shape)  # log p = T·θ - P·ψ
    j = family == GAMMA
    shape = gamma_shapes(fit, found) if how.mixed else np.ones(j.sum())
    theta[:, j] = -shape / means[:, j]
    psi[:, j] = shape * np.log(means[:, j]) - shape * np.log(shape) + gammaln(shape)
    j = family == BERNOULLI
    theta[:, j], psi[:, j] = np.log(means[:, j] / (1 - means[:, j])), -np.log(1 - means[:, j])
    j = family == POISSON
    theta[:, j], psi[:, j] = np.log(means[:, j]), means[:, j]
    j = family == SHARE
    theta[:, j] = np.log(means[:, j])
    j = fit.numbers
    if len(j):
        v = cluster_variances(fit, rung, how)
        theta[:, j] = means[:, j] / v
        psi[:, j] = 0.5 * means[:, j] ** 2 / v + 0.5 * np.log(2 * np.pi * v)
    logs = test.T @ theta.T
    logs -= test.P @ np.add.reduceat(psi, layout.start[:-1], axis=1).T
    if len(j):
        logs -= test.squares @ (0.5 / v).T
    logs += (test.logs @ (shape - 1))[:, None]
    logs += np.log((found.W + PRIOR) / (found.W.sum() + PRIOR * rung.k))
    highest = logs.max(axis=1, keepdims=True)
    logs -= highest
    return np.asarray(highest[:, 0] + np.log(np.exp(logs, out=logs).sum(axis=1)))


def possible(rows: EncodedRows, how: ColumnEncoder) -> np.ndarray:
    """The mean of each column, with half a row more for each value that it can have."""
    layout = rows.layout
    S, N, family = rows.total.S[0], rows.total.N[0, layout.block], layout.family
    means = np.where(family == BERNOULLI, (S + 0.5) / (N + 1), rows.overall)
    means = np.where(family == POISSON, (S + 0.5) / (N + 0.5), means)
    return np.where(family == SHARE, (S + 0.5) / (N + 0.5 * how.n_levels), means)


def cluster_variances(rows: EncodedRows, rung: Rung, how: ColumnEncoder) -> np.ndarray:
    """The variance of each number in each cluster, drawn towards the pooled one.

    Without "mixed" all columns of a cluster have one variance, as the squared distance says.
    """
    pooled = pooled_variance(rows, rung.found)
    S, mass = rung.found.S[:, rows.numbers], rung.found.N[:, rows.layout.block[rows.numbers]]
    squares = replace(rows, T=rows.squares).add_up(rung.labels, rung.k).S
    within = np.maximum(squares - S**2 / np.where(mass > 0, mass, 1.0), 0.0)
    if not how.mixed:
        pooled = np.full(len(pooled), pooled.mean())
        within, mass = within.sum(axis=1, keepdims=True), mass.sum(axis=1, keepdims=True)
    return np.maximum((within + SPREAD_PRIOR * pooled) / (mass + SPREAD_PRIOR), rows.rounding)


@dataclass(frozen=True)
class Found:
    """What the ladder says: the path with its choice, the noise level at the chosen number."""

    path: Staircase
    noise: Noise


def find_number(
    rows: EncodedRows,
    how: ColumnEncoder,
    fewest: int,
    most: int | None,
    random_state: np.random.RandomState,
) -> Found:
    """Steps 1 to 5."""
    seed = random_state.randint(2**31 - 1)
    rng = np.random.RandomState(seed)
    some = rows
    if rows.n > ROWS:  # 1.
        some = rows.take(np.sort(rng.choice(rows.n, ROWS, replace=False)))
    some = replace(some, w=some.w / some.w.mean())
    top = max(1, min(most or MOST, some.n // 8))  # four rows of a half for each cluster
    top = max(top, min(fewest, some.n))
    fewest = k = min(fewest, top)
    gain, noise, clear = np.zeros((1, k)), np.zeros((1, k)), 0.0
    if top > 1 and some.n >= 16:
        seeds = rng.randint(2**31 - 1, size=SPLITS)
        table = Gains(some, how, seeds)
        gain = table.of(range(1, top + 1))
        # Noise matters up to where the rows gain most.
        gain = gain[:, : max(fewest, 1 + int(np.argmax(gain.mean(axis=0))))]
        noise = table.of_noise(range(1, gain.shape[1] + 1))
        k = best_number(gain.mean(axis=0), gain - noise.mean(axis=0), noise, fewest)
        clear = clearness(gain[:, k - 1], noise[:, k - 1])
        if clear > CLEAR:
            first = k
            k = climb(table, gain, k, rng)  # 6.
            agreed = first == k == where_gains_end(gain)
            clear = clear if agreed else min(clear, STRONG * CLEAR)
        elif fewest == 1:
            k = 1
    evidence = Evidence(gain, noise, clear, top)
    rungs = ladder(some, how, range(1, min(top, max(2 * k, k + 4)) + 1), rng)
    return choose(some, how, evidence, rungs, k, float(rows.w.sum() / some.w.sum()))


@dataclass(frozen=True)
class Gains:
    """3. and 4. What each number of clusters saves of a test row, in nats, split by split."""

    rows: EncodedRows
    how: ColumnEncoder
    seeds: np.ndarray

    def of_noise(self, numbers: Sequence[int], labels: np.ndarray | None = None) -> np.ndarray:
        """Of rows without clusters (beyond those of `labels`), by the kind of noise that gains more
        for each number."""
        kinds = (
            nulls(self.rows, self.how)
            if labels is None
            else nulls_within(self.rows, self.how, labels)
        )
        found = [self.of(numbers, null) for null in kinds]
        return np.where(found[0].mean(axis=0) >= found[-1].mean(axis=0), found[0], found[-1])

    def of(self, numbers: Sequence[int], null: Null | None = None) -> np.ndarray:
        """Of the rows themselves, or of tables that `null` draws; 1 is the first of the numbers."""
        stage = Stage("how many", len(self.seeds))

        def one(seed: int) -> np.ndarray:
            found = self.split(np.random.RandomState(seed), numbers, null)
            stage.step()
            return found

        return np.array(together(one, [int(seed) for seed in self.seeds]))

    def split(
        self, rng: np.random.RandomState, numbers: Sequence[int], null: Null | None
    ) -> np.ndarray:
        """One half tells of the other."""
        how, order = self.how, rng.permutation(self.rows.n)
        rows = self.rows if null is None else null(rng)
        half = rows.n // 2
        fit, test = rows.take(np.sort(order[:half])), rows.take(np.sort(order[half:]))
        rungs = ladder(fit, how, numbers, rng)
        logs = [held_out(fit, rungs[k], test, how) for k in numbers]
        # One row of the fit may be in no cluster: it is described as by one cluster.
        logs = [np.logaddexp(each, logs[0] - np.log(fit.w.sum())) for each in logs]
        return np.array([test.w @ (each - logs[0]) for each in logs]) / test.w.sum()


def climb(table: Gains, gain: np.ndarray, k: int, rng: np.random.RandomState) -> int:
    """6. A larger number while it gains more than noise within the clusters."""
    for _ in range(4):  # more than any table has needed
        last = where_gains_end(gain)
        if last <= k:
            break
        labels = ladder(table.rows, table.how, [k], rng)[k].labels
        numbers = range(k, last + 1)
        inside = table.of_noise([*([1] if k > 1 else []), *numbers], labels)[:, -len(numbers) :]
        own, other = gain[:, k - 1 : last] - gain[:, [k - 1]], inside - inside[:, [0]]
        more, error = own.mean(axis=0) - other.mean(axis=0), standard_error(own, other)
        best = 1 + int(np.argmax(more[1:]))
        step = 1 + int(np.argmax(more[1:] >= more[best] - error[best]))
        if not more[step] > RISE * error[step]:
            break
        k += step
    return k


def standard_error(gain: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Of the mean of gain - noise over splits."""
    return np.asarray(np.sqrt((gain.var(axis=0) + noise.var(axis=0)) / len(gain)))


def where_gains_end(gain: np.ndarray) -> int:
    """The smallest number that is within one standard error of the best, split by split."""
    top = int(np.argmax(gain.mean(axis=0)))
    short = gain[:, [top]] - gain
    error = short.std(axis=0) / np.sqrt(len(gain))
    return 1 + int(np.argmax(short.mean(axis=0) <= error))


def best_number(gain: np.ndarray, excess: np.ndarray, noise: np.ndarray, fewest: int) -> int:
    """5. Without the question whether there is anything at all; `excess` split by split."""
    error = standard_error(excess, noise)
    last = int(np.argmax(gain >= gain.max() - error[np.argmax(gain)]))
    allowed = excess.mean(axis=0)[fewest - 1 : max(last + 1, fewest)]
    top = int(np.argmax(allowed))
    near = allowed >= allowed[top] - error[fewest - 1 + top]
    return fewest + int(np.argmax(near))


def vote(gain: np.ndarray, excess: np.ndarray, error: np.ndarray) -> int:
    """What one split alone would say: up to where its rows stop gaining."""
    allowed = excess[: int(np.argmax(gain)) + 1]
    top = int(np.argmax(allowed))
    return 1 + int(np.argmax(allowed >= allowed[top] - error[top]))


@dataclass(frozen=True)
class Evidence:
    """What numbers of clusters gain, and noise with them, split by split."""

    gain: np.ndarray
    noise: np.ndarray
    clear: float
    top: int  # the largest number that was tried

    @property
    def excess(self) -> np.ndarray:
        return self.gain - self.noise.mean(axis=0)

    def stability(self, k: int) -> float:
        """The share of splits that alone would say k."""
        error = standard_error(self.excess, self.noise)
        votes = [vote(g, e, error) for g, e in zip(self.gain, self.excess, strict=True)]
        return float(np.mean([v == k for v in votes]))


def choose(
    some: EncodedRows,
    how: ColumnEncoder,
    evidence: Evidence,
    rungs: dict[int, Rung],
    k: int,
    share: float,
) -> Found:
    """The number, how sure it is, and the staircase of the sample at its noise level; `share`: rows
    that one row of the sample stands for."""
    same, clear = evidence.stability(k), evidence.clear
    excess = evidence.excess.mean(axis=0)
    space = DivergenceSpace(rungs[k].noise.scaled(some), fixed(evidence.top, some.n))
    divided = {j: space.division(rung.labels) for j, rung in rungs.items()}
    path = Staircase.build(
        [d.k for d in divided.values()], [d.objective * share for d in divided.values()]
    )
    k = divided[k].k  # fewer where rows are equal
    path = path.decide(
        k,
        explain(k, float(excess[k - 1]), clear),
        scores=dict(enumerate(excess.tolist(), 1)),
        support=same if clear > CLEAR else 0.0,
        strength=strength(k, clear, same if k < evidence.top else 0.0),  # more were not tried
        stability=same if clear > CLEAR else None,  # votes do not ask whether it is noise
    )
    return Found(path, rungs[k].noise)


def clearness(gain: np.ndarray, noise: np.ndarray) -> float:
    """Standard deviations of a split by which the gain is above noise; 0 if one gains nothing."""
    apart = float(gain.mean() - noise.mean())
    spread = float(np.sqrt(gain.var() + noise.var()))
    if not (gain.min() > 0 and apart > 0):
        return 0.0
    return apart / spread if spread > 0 else np.inf


def strength(k: int, clear: float, same: float) -> Strength:
    """By the share of splits that say the same and by how clear the gain is.

    Strong needs more: the gain over noise and the gain of the rows alone name the same number.
    """
    if k == 1 or clear <= CLEAR:
        return "none" if k == 1 else "weak"
    if same >= 0.85 and clear > STRONG * CLEAR:
        return "strong"
    return "moderate" if same >= 0.6 and clear > MODERATE * CLEAR else "weak"


def explain(k: int, excess: float, clear: float) -> str:
    if k == 1:
        return "no number of clusters describes held-out rows better than noise"
    if clear <= CLEAR:
        return "hardly better than noise on held-out rows"
    return f"each held-out row takes {excess:.2g} nats less to describe than noise would"
