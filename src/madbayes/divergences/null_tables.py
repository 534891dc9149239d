"""Tables without clusters that look like a given table: what a number of clusters has to beat.

Clusters explain more than the shape of single columns, and more than straight-line correlation. So
there are two kinds of tables without clusters:

- *permuted*: every column keeps its values and its gaps, in an order of its own;
- *correlated*: numbers and counts also keep their rank correlations. Then numbers must not keep
  their peaks, because correlated columns with two peaks each are two clusters: each number gets the
  distribution with one peak that is nearest to its own.

Gaps stay where they are.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.isotonic import isotonic_regression

from madbayes.divergences.families import EncodedRows
from madbayes.divergences.table import ColumnEncoder

RANKED = ("squared", "gamma", "poisson")  # kinds of columns that can be correlated

Null = Callable[[np.random.RandomState], EncodedRows]  # draws a table without clusters


def nulls(rows: EncodedRows, how: ColumnEncoder) -> list[Null]:
    """Both kinds; only one where the other could not gain more."""
    ranked = sum(kind in RANKED for kind in how.kinds)
    if ranked < 2:
        return [permuted(rows, how)]
    if "squared" not in how.kinds:
        return [correlated(rows, how)]
    return [correlated(rows, how), permuted(rows, how)]


def nulls_within(rows: EncodedRows, how: ColumnEncoder, labels: np.ndarray) -> list[Null]:
    """The same, where each cluster of `labels` has no clusters of its own."""
    inside = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
    parts = [nulls(rows.take(some), how) for some in inside]

    def together(kind: int) -> Null:
        def draw(rng: np.random.RandomState) -> EncodedRows:
            T, P = np.empty_like(rows.T), np.empty_like(rows.P)
            for some, each in zip(inside, parts, strict=True):
                part = each[kind](rng)
                T[some], P[some] = part.T, part.P
            return replace(rows, T=T, P=P, rest=None)

        return draw

    return [together(kind) for kind in range(len(parts[0]))]


def permuted(rows: EncodedRows, how: ColumnEncoder) -> Null:
    """Each column in an order of its own."""
    return lambda rng: rearranged(rows, how, rng, {}, np.zeros((rows.n, 0)))


def correlated(rows: EncodedRows, how: ColumnEncoder) -> Null:
    """Numbers and counts keep their rank correlations, and numbers have one peak."""
    first = np.r_[0, np.cumsum(how.widths)]
    values = {}
    for j, kind in enumerate(how.kinds):
        if kind in RANKED:
            there = rows.P[:, rows.layout.block[first[j]]] > 0
            own = np.sort(rows.T[there, first[j]])
            values[j] = one_peak(own) if kind == "squared" else own
    root = correlation_root(rows, [first[j] for j in values])

    def draw(rng: np.random.RandomState) -> EncodedRows:
        return rearranged(rows, how, rng, values, rng.standard_normal((rows.n, len(root))) @ root.T)

    return draw


def rearranged(
    rows: EncodedRows,
    how: ColumnEncoder,
    rng: np.random.RandomState,
    values: dict[int, np.ndarray],
    order: np.ndarray,
) -> EncodedRows:
    """Columns with sorted `values` take them in the order of the columns of `order`; the others are
    permuted."""
    first = np.r_[0, np.cumsum(how.widths)]
    T, block = rows.T.copy(), rows.layout.block
    place = {j: at for at, j in enumerate(values)}
    for j in range(len(how.kinds)):
        columns = slice(first[j], first[j + 1])
        there = np.flatnonzero(rows.P[:, block[first[j]]] > 0)
        if how.divergence == "multinomial":
            there = np.arange(rows.n)
        if j in values:
            T[there[np.argsort(order[there, place[j]], kind="stable")], first[j]] = values[j]
        else:
            T[there, columns] = rows.T[rng.permutation(there), columns]
    if how.divergence == "multinomial":
        return replace(rows, T=T, P=T.sum(axis=1, keepdims=True), rest=None)
    return replace(rows, T=T, rest=None)


def one_peak(values: np.ndarray) -> np.ndarray:
    """Sorted values on the same grid, with the nearest density that rises to their peak and then
    falls (Grenander's estimate on both sides)."""
    different = np.unique(values)
    if len(different) < 3:
        return values
    cells = different[np.unique(np.linspace(0, len(different) - 1, 32).astype(int))]
    middle = (cells[1:] + cells[:-1]) / 2
    edges = np.r_[2 * cells[0] - middle[0], middle, 2 * cells[-1] - middle[-1]]
    width = np.diff(edges)
    density = np.histogram(values, edges)[0] / width
    three = np.ones(3)  # neighbouring cells show where the peak is
    near = np.convolve(density * width, three, "same") / np.convolve(width, three, "same")
    peak = int(np.argmax(near))
    left = isotonic_regression(density[: peak + 1], sample_weight=width[: peak + 1])
    right = isotonic_regression(density[peak:], sample_weight=width[peak:], increasing=False)
    fit = np.r_[left[:-1], max(left[-1], right[0]), right[1:]]
    total = np.r_[0.0, np.cumsum(fit * width)]
    found = np.interp((np.arange(len(values)) + 0.5) / len(values) * total[-1], total, edges)
    step = np.diff(different).min()
    return different[0] + step * np.round((found - different[0]) / step)


def correlation_root(rows: EncodedRows, columns: list[int]) -> np.ndarray:
    """R with R Rᵀ the correlations of the normal scores of these columns."""
    scores = np.zeros((rows.n, len(columns)))
    for at, j in enumerate(columns):
        there = rows.P[:, rows.layout.block[j]] > 0
        ranks = rankdata(rows.T[there, j])
        scores[there, at] = ndtri(ranks / (len(ranks) + 1))
    scores -= scores.mean(axis=0)
    sd = scores.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    C = (scores.T @ scores) / rows.n / np.outer(sd, sd)
    np.fill_diagonal(C, 1.0)
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
