"""Draw a sample of the rows and reduce its columns: steps 1 and 2 of `path`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from madbayes._partition.moves import means
from madbayes._rows.content import content_order
from madbayes._rows.rows import Rows, unit_csr
from madbayes._search.division import without_gaps
from madbayes.howmany.links import squared_distances

KEEP_COLUMNS = 10  # up to this many columns are not reduced to components
DENSE_COLUMNS = 1_024  # a sample of a CSR matrix with up to this many columns is made dense
WIDER = 1.1  # times as wide as noise can be: the spectrum of Gaussian noise stays below 1, that of
# 900 texts in 100 columns is between 1.2 and 1.8


@dataclass(frozen=True)
class Sample:
    """1. The sampled rows without isolated ones, shifted by `origin` and divided by `scale`.

    They are an array or a CSR matrix.
    """

    core: Any
    core_w: np.ndarray
    origin: np.ndarray
    scale: float
    total: float  # weight of all rows that the core stands for
    n_isolated: int
    limit: float  # squared distance, in units of `scale`, beyond which a row has no neighbours
    whole: bool  # whether the sample holds all rows


def draw_sample(
    X: Any, weights: np.ndarray | None, wanted: int, rng: np.random.Generator, *, unit: bool
) -> Sample:
    """1. Rows in random order, so that the first rows are always a sample too.

    The order depends on the values of the rows, not on their places in X. Without `weights` all
    weights are 1.
    """
    sparse = sp.issparse(X) and X.shape[1] > DENSE_COLUMNS
    n_rows = 8192 if sparse else min(32_768, max(4096, 16_000_000 // X.shape[1]))
    rows = content_order(X, weights, int(rng.integers(2**31)))
    if weights is not None:
        rows = rows[weights[rows] > 0]
    n_used = len(rows)
    rows = rows[: max(n_rows, 128 * wanted)].copy()
    w = np.ones(len(rows)) if weights is None else weights[rows] / weights[rows].mean()
    total = float(X.shape[0] if weights is None else weights.sum())
    if sparse:
        S = sp.csr_array(X[rows], dtype=np.float64)
        S = unit_csr(S) if unit else S
    else:
        S = Rows(X, unit=unit).take(rows)
    origin, scale = np.zeros(X.shape[1]), 1.0
    if not unit:
        if not sparse:
            origin = S.mean(axis=0)
            S -= origin
        scale = float(abs(S).max()) or 1.0
        S /= scale
    lonely, limit = lonely_rows(S, rng) if not unit else (np.zeros(len(rows), bool), np.inf)
    core = S[~lonely] if lonely.any() else S
    if lonely.any() and not unit and not sparse:  # far rows spoil the mean and the unit of length
        centre, unit_length = core.mean(axis=0), float(np.ptp(core, axis=0).max()) or 1.0
        core = (core - centre) / unit_length
        origin, scale = origin + scale * centre, scale * unit_length
        limit /= unit_length**2
    total *= float(w[~lonely].sum() / w.sum())
    count = int(lonely.sum())
    return Sample(core, w[~lonely], origin, scale, total, count, limit, n_used == len(rows))


def lonely_rows(X: Any, rng: np.random.Generator, group: int = 5) -> tuple[np.ndarray, float]:
    """Rows whose `group`-th nearest row is twice as far as two rows usually are from each other.

    Such a row is so far away that it alone may save more than a penalty meant for whole clusters.
    """
    n = X.shape[0]
    group = min(group, n // 20)
    if group < 1:
        return np.zeros(n, bool), np.inf
    some = rng.choice(n, min(n, 256), replace=False)
    apart = squared_distances(X[some], X[some])
    apart = apart[apart > 0]
    limit = 4.0 * np.median(apart) if apart.size else np.inf
    last = min(group, len(some) - 1)  # the row itself and others of its clump may be among them
    lonely = np.empty(n, bool)
    for a in range(0, n, 2048):  # fresh memory for all at once takes longer than the products
        D = squared_distances(X[a : a + 2048], X[some])
        D.partition(last, axis=1)
        lonely[a : a + 2048] = D[:, last] > limit
    for i in np.flatnonzero(lonely):
        near = squared_distances(X[i : i + 1], X)[0] <= limit
        lonely[i] = near.sum() <= group
    return lonely, limit


def sketch(
    sample: Sample, rng: np.random.Generator
) -> tuple[np.ndarray, Callable[[], np.ndarray] | None]:
    """2. The core in few columns, and a function that makes similar rows with independent columns
    (None for a CSR matrix)."""
    if sp.issparse(sample.core):
        return sparse_principal(sample.core, rng), None
    X = spread_grid(sample.core - sample.core.mean(axis=0), rng)
    axes = principal_axes(X, rng)
    if axes is None:
        return X, None
    return X @ axes, lambda: rng.permuted(X[:4096], axis=0) @ axes


def spread_grid(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For columns on a regular grid (counts, rounded values): spread each value over its cell.

    Columns with two values are spread only if there are many of them: sums of many such columns
    make a grid, but a single one may separate two clusters. Columns that nearly always have the
    same value (a rare word, a pixel at the border) stay as they are, because the spread would have
    a larger variance than they have.
    """
    X = X.copy()
    fewest_steps = 1 if X.shape[1] > KEEP_COLUMNS else 2
    for j in range(X.shape[1]):
        values = np.unique(X[:2048, j])
        steps = np.diff(values)
        steps = steps[steps > 1e-7 * (values[-1] - values[0])]
        if len(steps) < fewest_steps or np.median(steps) >= 1.5 * steps.min():
            continue
        if steps.min() ** 2 / 12 <= X[:, j].var():  # the variance of a uniform law of this width
            X[:, j] += steps.min() * (rng.random(len(X)) - 0.5)
    return X


def principal_axes(
    X: np.ndarray, rng: np.random.Generator, at_most: int = 256
) -> np.ndarray | None:
    """The principal components with more variance than those of the data with random signs.

    None if the columns are few and stay as they are.
    """
    if X.shape[1] <= KEEP_COLUMNS:
        return None
    if X.shape[1] > 1024:  # distances survive a random projection
        projection = rng.standard_normal((X.shape[1], 512)) / np.sqrt(512)
        axes = principal_axes(X @ projection, rng, at_most)
        assert axes is not None
        return projection @ axes
    some = X[: max(8192, X.shape[1])]
    flipped = some * rng.choice(np.array([-1.0, 1.0]), some.shape)
    flipped -= flipped.mean(0)
    wide = some.shape[1] > len(some)

    def gram(A: np.ndarray) -> Any:
        return A @ A.T if wide else A.T @ A

    null = np.linalg.eigvalsh(gram(flipped))[::-1]
    value, vector = np.linalg.eigh(gram(some - some.mean(0)))
    value, vector = value[::-1], vector[:, ::-1]
    r, rows = int(np.argmin(np.r_[value > null, False])), min(len(X), 4096)
    ratio, tail = np.sqrt(some.shape[1] / len(some)), value[r : some.shape[1]]
    if ratio < 0.9 and len(tail) and tail[0] > WIDER * tail[-1] * ((1 + ratio) / (1 - ratio)) ** 2:
        r = max(r, rows // 50)  # the rest is wider than noise can be (Marchenko & Pastur 1967)
    r = min(max(r, 2, rows // 256), at_most, len(value))
    axes = vector[:, :r]
    if wide:  # a direction without rows has no length to divide by
        real = value[:r] > 1e-12 * value[0]
        axes = some.T @ axes * (real / np.sqrt(np.where(real, value[:r], 1.0)))
    return axes


def sparse_principal(X: Any, rng: np.random.Generator) -> np.ndarray:
    """`principal_axes` for a CSR matrix, by randomized SVD (Halko, Martinsson & Tropp 2011).

    At most 64 components are computed, and 32 of the data with random signs; the last of these is
    compared with all later components.
    """
    seeds = [int(s) for s in rng.integers(2**31 - 1, size=2)]
    flipped = X.copy()
    flipped.data = flipped.data * rng.choice(np.array([-1.0, 1.0]), len(flipped.data))
    size = min(64 + 1, min(X.shape) - 1)  # one for the mean
    U, s, _ = randomized_svd(X, size, n_iter=2, random_state=seeds[0])
    null = randomized_svd(flipped, min(size, 32), n_iter=2, random_state=seeds[1])[1]
    Z = U * s
    U, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    noise = null[np.minimum(np.arange(len(s)), len(null) - 1)]
    signal = int(np.argmin(np.r_[s > noise, False]))
    r = min(max(signal, 2), len(s))
    return np.ascontiguousarray(U[:, :r] * s[:r])


def divide(
    S: Any, w: np.ndarray, labels: np.ndarray, unit: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """The means of the groups, labels 0, 1, … without gaps, and the squared error."""
    labels, k = without_gaps(labels)
    if not sp.issparse(S):
        centers = means(S, w, labels, k, unit)[0]
        return centers, labels, float(w @ ((S - centers[labels]) ** 2).sum(axis=1))
    member = sp.csr_array((w, (labels, np.arange(len(labels)))), shape=(k, len(labels)))
    sums, weight = (member @ S).toarray(), np.bincount(labels, w)
    squares = (sums**2).sum(axis=1)
    if unit:
        length = np.sqrt(squares)
        centers = sums / np.where(length > 0, length, 1.0)[:, None]
        return centers, labels, float(2 * (weight - length).sum())
    within = w @ np.asarray(S.multiply(S).sum(axis=1)).ravel() - (squares / weight).sum()
    return sums / weight[:, None], labels, float(max(within, 0.0))
