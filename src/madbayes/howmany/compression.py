"""Clusters without valleys: do they explain held-out rows better than they would explain noise?

**The question.** Texts and embeddings lie along rays in many dimensions: most rows near the middle,
the rows of a topic strewn from there outwards. Along the line between two such clusters there is no
valley (`links.py`), and yet they are there.

**The test.** The null hypothesis is that the principal components are independent. Noise of any
covariance, Gaussian or directions about a mean, is like that, or nearly when the components are
many; so is a table whose columns have been shuffled.
1. *Reference.* The values of each component are shuffled among the rows: same variances, same
   tails, same sparsity, no clusters but products of those of single components.
2. *Gain.* One half of the rows is divided into k clusters, and E(k) is the share of the squared
   error of the other half that is left. Of all laws of a given covariance the Gaussian is the
   hardest to describe by few points, and clusters make it easier: log E(k) / log E_reference(k) - 1
   is the gain; more than MARGIN is beyond noise (docs/adr/0006).
3. *Which k.* The k at which the two halves agree most about which rows belong together (adjusted
   Rand index), again beyond the agreement in the reference (Lange et al. 2004 on stability; noise
   cut across its longest axis is stable too, hence the reference).

Only with at least COMPONENTS of them beyond noise: products of few non-Gaussian components (the
corners of a uniform square) compress well without being clusters.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score

from madbayes._rows.rows import unit_rows
from madbayes._rows.threads import together
from madbayes.howmany.halves import Half, make_halves
from madbayes.howmany.links import squared_distances

COMPONENTS = 8
MARGIN = 0.3
MIN_ROWS = 200  # of fewer, noise reaches the margin now and then
ROWS = 8_192
CUT_ROWS = 4_000  # rows halved altogether, over the repeated cuts of a small sample
MOST = 128  # clusters
CLOSE = 0.96


@dataclass(frozen=True)
class Compression:
    Z: np.ndarray  # the rows as they were divided
    halves: list[Half]
    gain: dict[int, float]
    agreement: dict[int, float]
    number: int | None  # None: no better than noise


def compress(
    Z: np.ndarray,
    w: np.ndarray,
    k_min: int,
    k_max: int,
    rng: np.random.Generator,
    *,
    unit: bool,
) -> Compression:
    """Steps 1 to 3 on the rows Z."""
    if unit:  # after the shared component is gone
        Z = unit_rows(Z)
    some = slice(ROWS)
    cuts = min(max(CUT_ROWS // len(Z), 1), 4)
    n_small = min(len(Z[some]) // 4, 512)
    halves = make_halves(Z[some], w[some], n_small, cuts, rng)
    axes = np.linalg.svd(Z[some] - Z[some].mean(axis=0), full_matrices=False)[2]
    reference = Z[some] @ axes.T
    for column in reference.T:  # 1.
        rng.shuffle(column)
    shuffled = make_halves(reference, w[some], n_small, cuts, rng)
    top = min(k_max, MOST, *(len(half.small) // 2 for half in (*halves, *shuffled)))
    ks = sorted({*range(max(k_min, 2), min(13, top + 1)), *grid(max(k_min, 13), top)})
    jobs = [
        (family[i], family[i + 1], k)
        for k in ks
        for family in (halves, shuffled)
        for i in range(0, len(family), 2)
    ]
    tried = together(lambda job: try_both(*job), jobs)
    found = np.reshape(tried, (len(ks), 2, cuts, 2)).mean(axis=2)
    error, agreement = found[:, :, 0], found[:, :, 1]  # [k, data or reference]
    gain = dict(zip(ks, (error[:, 0] / error[:, 1] - 1).tolist(), strict=True))  # 2.
    beyond = dict(zip(ks, (agreement[:, 0] - agreement[:, 1]).tolist(), strict=True))  # 3.
    return Compression(Z, halves, gain, beyond, most_agreed(gain, beyond))


def most_agreed(gain: dict[int, float], agreement: dict[int, float]) -> int | None:
    """3. Among the k of sufficient gain; single values are noisy, so with their neighbours, and the
    first that is close to the best."""
    ks = sorted(k for k in gain if gain[k] > MARGIN)
    if not ks:
        return None
    value = np.array([agreement[k] for k in ks])
    around = np.convolve(np.pad(value, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
    at = int(np.argmax(around >= CLOSE * around.max()))
    near = slice(max(at - 1, 0), at + 2)
    k = ks[near][int(np.argmax(value[near]))]
    return k if agreement[k] > 0 else None


def grid(first: int, last: int) -> list[int]:
    """From the first to the last in steps of some 15 %."""
    if last < first:
        return []
    count = 1 + int(np.ceil(np.log(last / first) / 0.14))
    return np.geomspace(first, last, count).astype(int).tolist()


def try_both(one: Half, two: Half, k: int) -> tuple[float, float]:
    """2. The logarithm of the error that is left; 3. the agreement of the two halves."""
    left = total = agreement = 0.0
    for mine, other in ((one, two), (two, one)):
        X, w = mine.held_out, mine.held_weights
        D = squared_distances(X, mine.centers(k))
        left += float(w @ D.min(axis=1))
        total += float(w @ ((X - np.average(X, axis=0, weights=w)) ** 2).sum(axis=1))
        own = squared_distances(X, other.centers(k)).argmin(axis=1)
        agreement += adjusted_rand_score(own, D.argmin(axis=1)) / 2
    return float(np.log(left / total)), agreement
