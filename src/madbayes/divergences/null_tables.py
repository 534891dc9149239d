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
from scipy.special import xlogy
from scipy.stats import norm, rankdata
from sklearn.isotonic import isotonic_regression

from madbayes.divergences.families import EncodedRows
from madbayes.divergences.table import ColumnEncoder

RANKED = ("squared", "gamma", "poisson")  # kinds of columns that can be correlated
CELLS = 32  # of the histogram to which a distribution with one peak is fitted

Null = Callable[[EncodedRows, ColumnEncoder, np.random.RandomState], EncodedRows]


def nulls(how: ColumnEncoder) -> list[Null]:
    """Both kinds; only one where the other could not gain more."""
    ranked = sum(kind in RANKED for kind in how.kinds)
    if ranked < 2:
        return [permuted]
    return [correlated, permuted] if "squared" in how.kinds else [correlated]


def permuted(rows: EncodedRows, how: ColumnEncoder, rng: np.random.RandomState) -> EncodedRows:
    """Each column in an order of its own."""
    return rearranged(rows, how, rng, [])


def correlated(rows: EncodedRows, how: ColumnEncoder, rng: np.random.RandomState) -> EncodedRows:
    """Numbers and counts keep their rank correlations, and numbers have one peak."""
    return rearranged(rows, how, rng, [j for j, kind in enumerate(how.kinds) if kind in RANKED])


def within(labels: np.ndarray, null: Null) -> Null:
    """Each cluster of `labels` without clusters of its own."""

    def each(rows: EncodedRows, how: ColumnEncoder, rng: np.random.RandomState) -> EncodedRows:
        T, P = np.empty_like(rows.T), np.empty_like(rows.P)
        for c in range(int(labels.max()) + 1):
            inside = np.flatnonzero(labels == c)
            part = null(rows.take(inside), how, rng)
            T[inside], P[inside] = part.T, part.P
        return replace(rows, T=T, P=P)

    return each


def rearranged(
    rows: EncodedRows, how: ColumnEncoder, rng: np.random.RandomState, ranked: list[int]
) -> EncodedRows:
    """`ranked`: columns of the table that stay correlated; the others are permuted."""
    first = np.r_[0, np.cumsum(how.widths)]
    T, block = rows.T.copy(), rows.layout.block
    order = correlated_draws(rows, [first[j] for j in ranked], rng)
    for j, kind in enumerate(how.kinds):
        columns = slice(first[j], first[j + 1])
        there = np.flatnonzero(rows.P[:, block[first[j]]] > 0)
        if how.divergence == "multinomial":
            there = np.arange(rows.n)
        if j not in ranked:
            T[there, columns] = rows.T[rng.permutation(there), columns]
            continue
        place = np.argsort(np.argsort(order[there, ranked.index(j)], kind="stable"), kind="stable")
        values = np.sort(rows.T[there, first[j]])
        T[there, first[j]] = (one_peak(values) if kind == "squared" else values)[place]
    if how.divergence == "multinomial":
        return replace(rows, T=T, P=T.sum(axis=1, keepdims=True))
    return replace(rows, T=T)


def one_peak(values: np.ndarray) -> np.ndarray:
    """Sorted values with a density that rises to one peak and falls, nearest to that of `values`
    (Grenander's estimate on both sides of the likeliest peak), on the same grid."""
    different = np.unique(values)
    if len(different) < 3:
        return values
    cells = different[np.unique(np.linspace(0, len(different) - 1, CELLS).astype(int))]
    middle = (cells[1:] + cells[:-1]) / 2
    edges = np.r_[2 * cells[0] - middle[0], middle, 2 * cells[-1] - middle[-1]]
    count, width = np.histogram(values, edges)[0], np.diff(edges)
    density, best = count / width, (-np.inf, count / width)
    for peak in range(len(count)):
        up, down = density[: peak + 1], density[peak:]
        left = isotonic_regression(up, sample_weight=width[: peak + 1])
        right = isotonic_regression(down, sample_weight=width[peak:], increasing=False)
        fit = np.r_[left[:-1], max(left[-1], right[0]), right[1:]]
        likely = float(xlogy(count, fit / (fit @ width)).sum())
        best = max(best, (likely, fit), key=lambda found: found[0])
    total = np.r_[0.0, np.cumsum(best[1] * width)]
    found = np.interp((np.arange(len(values)) + 0.5) / len(values) * total[-1], total, edges)
    step = np.diff(different).min()
    return different[0] + step * np.round((found - different[0]) / step)


def correlated_draws(
    rows: EncodedRows, columns: list[int], rng: np.random.RandomState
) -> np.ndarray:
    """Normal draws with the correlations of the normal scores of these columns."""
    scores = np.zeros((rows.n, len(columns)))
    for at, j in enumerate(columns):
        there = rows.P[:, rows.layout.block[j]] > 0
        ranks = rankdata(rows.T[there, j])
        scores[there, at] = norm.ppf(ranks / (len(ranks) + 1))
    scores -= scores.mean(axis=0)
    sd = scores.std(axis=0)
    C = (scores.T @ scores) / rows.n / np.outer(np.where(sd > 0, sd, 1), np.where(sd > 0, sd, 1))
    np.fill_diagonal(C, 1.0)
    values, vectors = np.linalg.eigh(C)
    return rng.standard_normal(scores.shape) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
