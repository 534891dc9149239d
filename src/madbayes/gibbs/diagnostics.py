"""Are chains long enough? Effective sample size and R-hat, as in Vehtari et al. (2021).

Both work on chains split in half, R-hat and the effective sample size for the bulk on normal scores
of ranks: Vehtari, Gelman, Simpson, Carpenter & Bürkner, "Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16 (2021),
Eq. 3, 4, 10, 13 and 14. Autocorrelations are summed over Geyer's initial monotone sequence (Geyer,
"Practical Markov chain Monte Carlo", Statistical Science 7, 1992).
"""

from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata


def r_hat(chains: Any) -> float:
    """How much wider all chains together are than each half of them; 1 when they agree.

    Parameters
    ----------
    chains : array-like of shape (n_chains, n_samples) or (n_samples,)

    Returns
    -------
    float
        Values above 1.01 say that chains should run longer. 1 when nothing varies; nan for fewer
        than 4 samples a chain.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.gibbs import r_hat
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> round(r_hat(draws), 2)
    1.0
    >>> r_hat(draws + [[0], [0], [0], [3]]) > 1.2
    True
    """
    halves = _split(chains)
    if halves.shape[1] < 2:
        return np.nan
    scores = _normal_scores(halves)
    within, total = _variances(scores)
    if total == 0:
        return 1.0
    return float(np.sqrt(total / within)) if within > 0 else np.inf


def effective_sample_size(chains: Any) -> float:
    """How many independent draws would know the mean as well as these.

    Parameters
    ----------
    chains : array-like of shape (n_chains, n_samples) or (n_samples,)

    Returns
    -------
    float
        The number of samples when nothing varies; nan for fewer than 4 samples a chain.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.gibbs import effective_sample_size
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> 3000 < effective_sample_size(draws) < 5000
    True
    """
    halves = _split(chains)
    m, n = halves.shape
    if n < 2:
        return np.nan
    scores = _normal_scores(halves)
    within, total = _variances(scores)
    if total == 0:
        return float(m * n)
    centered = scores - scores.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centered, 2 * n, axis=1)
    autocovariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n].mean(axis=0) / n
    correlation = 1 - (within - autocovariance * n / (n - 1)) / total
    correlation[0] = 1.0
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if negative.size else pairs)
    # As in the paper, chains better than independent ones are believed up to a point only.
    return float(m * n / max(2 * pairs.sum() - 1, 1 / np.log10(max(m * n, 10))))


def _split(chains: Any) -> np.ndarray:
    """Each chain cut in half; of an odd number the middle sample goes."""
    chains = np.atleast_2d(np.asarray(chains, dtype=np.float64))
    half = chains.shape[1] // 2
    return np.vstack([chains[:, :half], chains[:, chains.shape[1] - half :]])


def _normal_scores(chains: np.ndarray) -> np.ndarray:
    """Eq. 14."""
    rank = rankdata(chains, method="average").reshape(chains.shape)
    return ndtri((rank - 0.375) / (chains.size + 0.25))


def _variances(chains: np.ndarray) -> tuple[float, float]:
    """Within the chains, and of all together (Eq. 1 to 3)."""
    n = chains.shape[1]
    if np.ptp(chains) == 0:
        return 0.0, 0.0
    within = chains.var(axis=1, ddof=1).mean()
    between = chains.mean(axis=1).var(ddof=1)
    return float(within), float((n - 1) / n * within + between)
