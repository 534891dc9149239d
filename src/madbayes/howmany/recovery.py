"""Clusters without valleys: are they found again in other rows, and more clearly than in noise?

**The question.** Texts, images and cells have hundreds of noisy columns. Most rows lie near the
middle, and along the line between two clusters there is no valley (`links.py`). There are clusters
nevertheless if two halves of the rows, divided separately, give the same clusters.

**The test**, repeated over independent halvings:
1. *Divide.* Each half of the rows is divided into k clusters.
2. *Strength.* The rows of one half are assigned to the clusters of both halves. The strength of a
   cluster is the share of pairs of its rows that are together in the other division too (prediction
   strength, Tibshirani & Walther 2005). The strength of a division is the mean over its clusters
   without the lowest and the highest quarter (a median varies more from halving to halving).
3. *Noise.* Steps 1 and 2 are repeated on noise: rows with the same spectrum that have no clusters.
   If the rows are long in one direction, every half cuts them at the same place, even if they are
   noise. So only the strength *beyond* that of noise counts. There are two kinds of noise: the
   values of each principal component, shuffled among the rows (same variances, tails and sparsity),
   and normal values of the same variances (a component with two heaps keeps them when shuffled).
   Every halving draws new noise, because noise varies as much as the data do.
4. *Gain.* Of all distributions with a given covariance, the Gaussian is the hardest to describe by
   few points. E(k) is the share of the squared error of the other half that k centres leave. The
   gain is log E(k) / log E_shuffled(k) - 1. A second gain compares with rows whose columns were
   shuffled, because independent skewed columns have no clusters. Numbers of clusters with a gain
   below MARGIN are left out.
5. *Which k.* The strength beyond noise, as a curve over log k, often has several tops of nearly
   equal height. The highest top changes from halving to halving; the middle of the tops does not.
   The answer is the mean of log k, weighted by exp(height / TOP).

Departs from Tibshirani & Walther, who take the largest k whose weakest cluster has a strength of
0.8: no division of texts into more than a few clusters reaches this.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import trim_mean

from madbayes._rows.rows import unit_rows
from madbayes._rows.threads import together
from madbayes.howmany.halves import Half
from madbayes.howmany.links import squared_distances

MIN_ROWS = 300  # rows: in 220 rows of noise 1 of 28 sets was cut, in 600 and more none of 84
MARGIN = 0.3  # gain beyond noise; noise of many kinds stays below 0.1, data with clusters above 0.4
ROWS = 4_096  # rows of one repetition, both halves together
SMOOTH, SMOOTH_NOISE = 0.07, 0.2  # in log k: over how much of k a curve is averaged
TOP = 0.03  # strength: tops that differ by less than the error of the repeated test are one


@dataclass(frozen=True)
class Recovery:
    """The results of the repeated halvings. Arrays have one value for each number in `ks`."""

    Z: np.ndarray  # the rows as they were divided
    halves: list[Half]  # of two repetitions, to start divisions from
    ks: np.ndarray
    gain: np.ndarray  # 4.
    strength: np.ndarray  # 2., from 0 to 1
    beyond: np.ndarray  # 3., strength minus that of noise
    number: int  # 5.
    votes: tuple[int, ...]  # 5. of each repetition alone
    beyond_noise: bool  # 4. whether some number has a sufficient gain

    @property
    def at(self) -> int:
        """The position of the answer in the arrays."""
        return int(np.argmin(np.abs(np.log(self.ks / self.number))))

    @property
    def found(self) -> float:
        """How many clusters are found again, in units of the links' score: all clusters at strength
        1, none at the strength of noise."""
        beyond, noise = self.beyond[self.at], self.strength[self.at] - self.beyond[self.at]
        return float((self.number - 1) * beyond / max(1.0 - noise, 1e-9))


def find_again(
    Z: np.ndarray,
    w: np.ndarray,
    k_min: int,
    k_max: int,
    rng: np.random.Generator,
    *,
    unit: bool,
    independent: np.ndarray | None = None,
) -> Recovery | None:
    """Steps 1 to 5 on the rows Z. Returns None if no number of clusters is beyond normal noise.

    Numbers that are beyond normal noise, but not beyond shuffled components, are no answer. They
    are a reason to doubt another answer.
    """
    if unit:  # directions, after the common direction of all rows was removed
        Z = unit_rows(Z)
        independent = None if independent is None else unit_rows(independent)
    h = min(len(Z), ROWS) // 2
    most = min(k_max, h // 4)  # four rows of a half for each cluster
    repetitions = int(np.clip(16_000 // (2 * h), 4, 8))  # the fewer rows, the more halvings
    kinds = ["data", "shuffled", "normal"] + ["independent"] * (independent is not None)
    first = len(kinds)
    kinds += ["data"] * (repetitions - 1)
    kinds += ["shuffled", "normal"] * (round(0.75 * repetitions) - 1)
    jobs = list(zip(kinds, rng.integers(2**31, size=len(kinds)).tolist(), strict=True))
    of = np.array(kinds)
    data, shuffled, normal = of == "data", of == "shuffled", of == "normal"

    def halve(job: tuple[str, int]) -> list[Half]:  # 1. and 3.
        kind, seed = job
        if kind in ("shuffled", "normal"):
            return cut_in_halves(noise_like(Z, kind, seed, unit=unit), w, seed)
        return cut_in_halves(independent if kind == "independent" else Z, w, seed)

    ks = ladder(max(k_min, 2), min(32, most))
    if not len(ks):
        return None
    pairs = together(halve, jobs[:first])
    error, strength = compare_all(pairs, ks)
    if (error[0] / error[2] - 1).max() < 0.1:  # hopeless: hardly a gain beyond normal noise
        return None
    pairs += together(halve, jobs[first:])
    error, strength = np.hstack([(error, strength), compare_all(pairs[first:], ks)])
    for stage in (64, 128):  # larger numbers, until the curve has fallen
        curve = strength[data].mean(axis=0) - strength[shuffled | normal].mean(axis=0)
        new = ladder(int(ks[-1]) + 1, min(stage, most))
        if not len(new) or smooth(ks, curve, SMOOTH_NOISE)[-1] < curve.max() - 0.1:
            break
        ks = np.r_[ks, new]
        error, strength = np.dstack([(error, strength), compare_all(pairs, new)])
    described = error[data].mean(axis=0)
    gain = described / error[shuffled].mean(axis=0) - 1  # 4.
    if independent is not None:
        gain = np.minimum(gain, described / error[of == "independent"].mean(axis=0) - 1)
    allowed = beyond_noise = gain > MARGIN
    if not allowed.any():
        allowed = described / error[normal].mean(axis=0) - 1 > MARGIN
    if not allowed.any():
        return None
    noise = smooth(ks, strength[shuffled | normal].mean(axis=0), SMOOTH_NOISE)
    return Recovery(
        Z,
        pairs[0] + pairs[first],
        ks,
        gain,
        strength[data].mean(axis=0),
        strength[data].mean(axis=0) - noise,
        middle_of_tops(ks, strength[data].mean(axis=0) - noise, allowed),
        tuple(middle_of_tops(ks, one - noise, allowed) for one in strength[data]),
        bool(beyond_noise.any()),
    )


def noise_like(Z: np.ndarray, kind: str, seed: int, *, unit: bool) -> np.ndarray:
    """3. Rows without clusters: the principal components "shuffled", or "normal" ones."""
    rng = np.random.default_rng(seed)
    centred = Z[:ROWS] - Z[:ROWS].mean(axis=0)
    components = centred @ np.linalg.eigh(centred.T @ centred)[1]
    if kind == "shuffled":
        return rng.permuted(components, axis=0)
    normal = rng.standard_normal(components.shape) * components.std(axis=0)
    return unit_rows(normal) if unit else normal


def ladder(first: int, last: int) -> np.ndarray:
    """All numbers up to 12, then steps of some 10 %."""
    steps = np.round(12 * 1.1 ** np.arange(26)).astype(int)
    ks = np.unique(np.r_[np.arange(1, 13), steps])
    return ks[(ks >= first) & (ks <= last)]


def cut_in_halves(Z: Any, w: np.ndarray, seed: int) -> list[Half]:
    """1. Two halves of (at most ROWS) rows; each has at most 512 small clusters, and
    holds the other half to be tested on."""
    rng = np.random.default_rng(seed)
    h = min(len(Z), ROWS) // 2
    rows = rng.permutation(len(Z))[: 2 * h].reshape(2, h)
    uniforms = rng.random((2, min(h, 512)))
    one, two = ((Z[r], w[r]) for r in rows)
    return [Half(*one, *two, uniforms[0]), Half(*two, *one, uniforms[1])]


def compare_all(pairs: list[list[Half]], ks: np.ndarray) -> np.ndarray:
    """`compare` for each pair of halves: two arrays with one row for each pair."""
    return np.array(together(partial(compare, ks=ks), pairs)).swapaxes(0, 1)


def compare(pair: list[Half], ks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1. and 2. For each k the logarithm of the share of error that is left, and the strength."""
    one, two = pair
    error, strength = np.zeros(len(ks)), np.zeros(len(ks))
    total = 0.0
    for mine, other in ((one, two), (two, one)):
        X, weights = mine.held_out, mine.held_weights
        total += float(weights @ ((X - np.average(X, axis=0, weights=weights)) ** 2).sum(axis=1))
        for i, k in enumerate(ks.tolist()):
            k = min(k, len(one.small), len(two.small))  # fewer if rows coincide
            D = squared_distances(X, mine.centers(k))
            error[i] += float(weights @ D.min(axis=1))
            own = squared_distances(X, other.centers(k)).argmin(axis=1)
            strength[i] += prediction_strength(own, D.argmin(axis=1), weights, k) / 2
    return np.log(np.maximum(error / total, 1e-300)), strength


def prediction_strength(own: Any, predicted: Any, weights: np.ndarray, k: int) -> float:
    """2. The share of the pairs of a cluster that are predicted to be together, averaged over the
    clusters without the lowest and the highest quarter."""
    shared = np.bincount(own * k + predicted, weights, minlength=k * k).reshape(k, k)
    size = shared.sum(axis=1)
    pairs, kept = size * (size - 1), np.maximum(shared * (shared - 1), 0).sum(axis=1)
    return float(trim_mean(kept[pairs > 0] / pairs[pairs > 0], 0.25)) if (pairs > 0).any() else 0.0


def smooth(ks: np.ndarray, curve: np.ndarray, width: float) -> np.ndarray:
    """The curve over log k, averaged over a neighbourhood of this width."""
    place = np.log(ks)
    kernel = np.exp(-0.5 * ((place[:, None] - place) / width) ** 2) * room(ks)
    return (kernel @ curve) / kernel.sum(axis=1)


def room(ks: np.ndarray) -> np.ndarray:
    """The length of the interval of log k that each number of the ladder represents."""
    return np.gradient(np.log(ks)) if len(ks) > 1 else np.ones(1)


def middle_of_tops(ks: np.ndarray, beyond: np.ndarray, allowed: np.ndarray) -> int:
    """5. The mean of log k over the highest part of the curve."""
    height = smooth(ks, beyond, SMOOTH)
    weight = np.exp((height - height[allowed].max()) / TOP) * room(ks) * allowed
    return int(np.round(np.exp(weight @ np.log(ks) / weight.sum())))
