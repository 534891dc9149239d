"""Clusters without valleys: are they found again in other rows, and more clearly than in noise?

**The question.** Texts, images and cells have hundreds of noisy columns. Most rows lie near the
middle, and along the line between two clusters there is no valley (`links.py`). Yet clusters are
there if two halves of the rows, divided separately, end in the same ones.

**The test**, repeated over independent halvings:
1. *Divide.* Each half of the rows is divided into k clusters.
2. *Strength.* The rows of one half are assigned to the clusters of both halves. The strength of a
   cluster is the share of pairs of its rows that are together in the other division too (prediction
   strength, Tibshirani & Walther 2005); that of a division is the median over its clusters.
3. *Noise.* The same is done with rows of the same spectrum that have no clusters. Noise that is
   long in one direction is cut in two at the same place by every half, so strength counts only as
   far as it is *beyond* that of noise. Two kinds of noise take turns: the values of each principal
   component, shuffled among the rows (same variances, same tails, same sparsity), and normal values
   of the same variances (a component with two heaps keeps them when it is shuffled).
4. *Gain.* Of all laws of a given covariance the Gaussian is the hardest to describe by few points.
   With E(k) the share of the squared error of the other half that is left, the gain is
   log E(k) / log E_shuffled(k) - 1. Numbers of clusters whose gain is below MARGIN are left out.
5. *Which k.* The strength beyond noise is a hill over log k, often with several tops of nearly the
   same height. Which top is the highest changes with the halves, their middle does not: the answer
   is the mean of log k, weighted by exp(height / TOP).

Departs from Tibshirani & Walther, who take the largest k whose weakest cluster has a strength of
0.8: no division of texts into more than a few clusters reaches this.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from madbayes._rows.rows import unit_rows
from madbayes._rows.threads import together
from madbayes.howmany.halves import Half
from madbayes.howmany.links import squared_distances

MIN_ROWS = 300  # rows: in 220 rows of noise 1 of 28 sets was cut, in 600 and more none of 84
MARGIN = 0.3  # gain beyond noise; noise of many kinds stays below 0.1, data with clusters above 0.4
ROWS = 4_096  # rows of one repetition, both halves together
REPEATED_ROWS = 24_000  # rows of all repetitions together, which …
REPETITIONS = 6, 12  # … are so many halvings, at least and at most
NOISE = 4  # of each kind of noise one halving for so many of the data: its curve is smoother
SMALL = 512  # small clusters of a half, at most
STAGES = 32, 64, 128  # clusters up to which numbers are tried, while the curve does not fall
FALLEN = 0.1  # strength that the end of the curve is below its top when higher numbers are hopeless
ROWS_PER_CLUSTER = 4  # rows of a half for each cluster, at least
SMOOTH, SMOOTH_NOISE = 0.07, 0.15  # in log k: over how much of k a curve is averaged
TOP = 0.03  # strength: tops that differ by less than the error of the repeated test are one


@dataclass(frozen=True)
class Recovery:
    """What the repeated halvings say; the arrays belong to the numbers of clusters `ks`."""

    Z: np.ndarray  # the rows as they were divided
    halves: list[Half]  # of one repetition, to start divisions from
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
        """How many clusters are found again, minus those that are not: 1 for each cluster of
        strength 1, -1 for each of strength 0."""
        return float((self.number - 1) * (2 * self.strength[self.at] - 1))


def find_again(
    Z: np.ndarray,
    w: np.ndarray,
    k_min: int,
    k_max: int,
    rng: np.random.Generator,
    *,
    unit: bool,
) -> Recovery | None:
    """Steps 1 to 5 on the rows Z; None where no number of clusters is beyond normal noise.

    Where some are beyond normal noise, but not beyond shuffled components, they are no answer, yet
    a reason to doubt one.
    """
    if unit:  # directions, after the direction that all rows share is gone
        Z = unit_rows(Z)
    h = min(len(Z), ROWS) // 2
    most = min(k_max, h // ROWS_PER_CLUSTER)
    repetitions = int(np.clip(REPEATED_ROWS // (2 * h), *REPETITIONS))
    shuffled, normal = noise_like(Z, rng, unit=unit)  # 3.
    kinds = [Z] * repetitions + [shuffled, normal] * -(-repetitions // NOISE)
    seeds = rng.integers(2**31, size=len(kinds)).tolist()
    jobs = zip(kinds, seeds, strict=True)
    pairs = together(lambda job: cut_in_halves(job[0], w, job[1]), jobs)
    ks = np.empty(0, int)
    error = strength = np.empty((len(pairs), 0))
    for stage in STAGES:
        new = ladder(max(k_min, 2), min(stage, most))
        new = new[~np.isin(new, ks)]
        if not len(new):
            break
        ks = np.r_[ks, new]
        results = np.array(together(partial(compare, ks=new), pairs))
        error, strength = np.c_[error, results[:, 0]], np.c_[strength, results[:, 1]]
        curve = strength[:repetitions].mean(axis=0) - strength[repetitions:].mean(axis=0)
        if smooth(ks, curve, SMOOTH_NOISE)[-1] < curve.max() - FALLEN:
            break
    if not len(ks):
        return None
    data, noise = slice(repetitions), slice(repetitions, None)
    gain = error[data].mean(axis=0) / error[noise][::2].mean(axis=0) - 1  # 4.
    allowed = beyond_noise = gain > MARGIN
    if not allowed.any():
        allowed = error[data].mean(axis=0) / error[noise][1::2].mean(axis=0) - 1 > MARGIN
    if not allowed.any():
        return None
    noisy = smooth(ks, strength[noise].mean(axis=0), SMOOTH_NOISE)
    return Recovery(
        Z,
        pairs[0],
        ks,
        gain,
        strength[data].mean(axis=0),
        strength[data].mean(axis=0) - noisy,
        middle_of_tops(ks, strength[data].mean(axis=0) - noisy, allowed),
        tuple(middle_of_tops(ks, one - noisy, allowed) for one in strength[data]),
        bool(beyond_noise.any()),
    )


def noise_like(
    Z: np.ndarray, rng: np.random.Generator, *, unit: bool
) -> tuple[np.ndarray, np.ndarray]:
    """3. Rows without clusters: principal components shuffled, and normal ones."""
    centred = Z[: 4 * ROWS] - Z[: 4 * ROWS].mean(axis=0)
    shuffled = centred @ np.linalg.eigh(centred.T @ centred)[1]
    normal = rng.standard_normal(shuffled.shape) * shuffled.std(axis=0)
    for column in shuffled.T:
        rng.shuffle(column)
    return shuffled, unit_rows(normal) if unit else normal


def ladder(first: int, last: int) -> np.ndarray:
    """All numbers up to 12, then steps of some 10 %."""
    steps = np.round(12 * 1.1 ** np.arange(26)).astype(int)
    ks = np.unique(np.r_[np.arange(1, 13), steps])
    return ks[(ks >= first) & (ks <= last)]


def cut_in_halves(Z: np.ndarray, w: np.ndarray, seed: int) -> list[Half]:
    """1. Two halves of (at most ROWS) rows; each holds the other to be tested on."""
    rng = np.random.default_rng(seed)
    h = min(len(Z), ROWS) // 2
    rows = rng.permutation(len(Z))[: 2 * h].reshape(2, h)
    uniforms = rng.random((2, min(h // 2, SMALL)))
    one, two = ((Z[r], w[r]) for r in rows)
    return [Half(*one, *two, uniforms[0]), Half(*two, *one, uniforms[1])]


def compare(pair: list[Half], ks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1. and 2. For each k the logarithm of the share of error that is left, and the strength."""
    one, two = pair
    error, strength = np.zeros(len(ks)), np.zeros(len(ks))
    total = 0.0
    for mine, other in ((one, two), (two, one)):
        X, weights = mine.held_out, mine.held_weights
        total += float(weights @ ((X - np.average(X, axis=0, weights=weights)) ** 2).sum(axis=1))
        for i, k in enumerate(ks.tolist()):
            k = min(k, len(one.small), len(two.small))  # fewer where rows coincide
            D = squared_distances(X, mine.centers(k))
            error[i] += float(weights @ D.min(axis=1))
            own = squared_distances(X, other.centers(k)).argmin(axis=1)
            strength[i] += prediction_strength(own, D.argmin(axis=1), weights, k) / 2
    return np.log(np.maximum(error / total, 1e-300)), strength


def prediction_strength(own: Any, predicted: Any, weights: np.ndarray, k: int) -> float:
    """2. Median over the clusters of the share of their pairs that are predicted to be together."""
    shared = np.bincount(own * k + predicted, weights, minlength=k * k).reshape(k, k)
    size = shared.sum(axis=1)
    pairs, kept = size * (size - 1), np.maximum(shared * (shared - 1), 0).sum(axis=1)
    return float(np.median(kept[pairs > 0] / pairs[pairs > 0])) if (pairs > 0).any() else 0.0


def smooth(ks: np.ndarray, curve: np.ndarray, width: float) -> np.ndarray:
    """The curve over log k, averaged over a neighbourhood of this width."""
    place = np.log(ks)
    kernel = np.exp(-0.5 * ((place[:, None] - place) / width) ** 2) * room(ks)
    return (kernel @ curve) / kernel.sum(axis=1)


def room(ks: np.ndarray) -> np.ndarray:
    """The stretch of log k that each number of the ladder stands for."""
    return np.gradient(np.log(ks)) if len(ks) > 1 else np.ones(1)


def middle_of_tops(ks: np.ndarray, beyond: np.ndarray, allowed: np.ndarray) -> int:
    """5. The mean of log k over the highest part of the curve."""
    height = smooth(ks, beyond, SMOOTH)
    weight = np.exp((height - height[allowed].max()) / TOP) * room(ks) * allowed
    return int(np.round(np.exp(weight @ np.log(ks) / weight.sum())))
