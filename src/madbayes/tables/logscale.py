"""The scale on which a column is used, and whether it should be the logarithm.

Skewness alone cannot tell: clusters of different sizes make any column skewed, and they make the
logarithm of a log-normal column skewed, too. What a logarithm repairs is a spread that grows with
the level. So three scales are compared: the values, their cube roots (which make gamma-distributed
values symmetric, Wilson & Hilferty 1931) and their logarithms. On each scale, mixtures of one to
five normal distributions *of one variance* are fitted, and the lowest BIC in the units of the
values counts. The logarithm is taken where it is the lowest, and clearly lower than the values.
"""

import numpy as np

ORDER_OF_MAGNITUDE = 10.0  # a column spans at least this, from its 1st to its 99th percentile
MOST_GROUPS = 5
CLEARLY = 10.0  # difference of BIC, "very strong" in Kass & Raftery 1995

COUNT_SHIFT = 3 / 8  # Anscombe 1948: √(x + 3/8) of a Poisson count has variance 1/4 at any level


def transformed(cells: np.ndarray, transform: str) -> np.ndarray:
    """Cells on the scale "log", "log1p" or "sqrt"; NaN where a cell has no value on it."""
    allowed = cells > 0 if transform == "log" else cells >= 0
    cells = np.where(allowed, cells, 1.0)
    if transform == "sqrt":
        return np.where(allowed, np.sqrt(cells + COUNT_SHIFT), np.nan)
    return np.where(allowed, np.log(cells) if transform == "log" else np.log1p(cells), np.nan)


def back_in_units(values: np.ndarray, transform: str) -> np.ndarray:
    """The inverse of `transformed`."""
    if transform == "sqrt":
        return np.maximum(np.square(values) - COUNT_SHIFT, 0.0)
    return np.exp(values) if transform == "log" else np.expm1(values)


def is_lognormal(values: np.ndarray) -> bool:
    """Whether groups of equal spread describe the logarithms best."""
    if values.min() <= 0 or skewness(values) <= 0:
        return False
    first, last = np.quantile(values, [0.01, 0.99])
    if last < ORDER_OF_MAGNITUDE * first:
        return False
    if values.size > 400:  # quantiles stand for longer columns
        values = np.quantile(values, (np.arange(400) + 0.5) / 400)
    logs = np.log(values)
    if logs.max() - logs.min() > 230:  # a hundred orders of magnitude, whose squares overflow
        return True
    values = values / values.max()
    logs = np.log(values)
    plain = cost(values, np.zeros_like(logs))
    root = cost(np.cbrt(values), np.log(1 / 3) - logs * (2 / 3))
    return cost(logs, -logs) < min(plain - CLEARLY, root)


def cost(scaled: np.ndarray, log_slope: np.ndarray) -> float:
    """The lowest BIC over numbers of groups; `log_slope` is the log of d scaled / d value."""
    return min(_bic(scaled, k) for k in range(1, MOST_GROUPS + 1)) - 2 * float(log_slope.sum())


def _bic(x: np.ndarray, k: int) -> float:
    """BIC of a mixture of k normal distributions of one variance, by expectation maximization."""
    n = x.size
    means = np.quantile(x, (np.arange(k) + 0.5) / k)
    shares, variance = np.full(k, 1 / k), max(float(x.var()) / k**2, 1e-300)
    smallest = float(x.var()) * 1e-6
    likelihood = -np.inf
    for _ in range(60):  # good enough to compare before it converges
        logs = np.log(shares) - (x[:, None] - means) ** 2 / (2 * variance)
        top = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - top)
        total = weights.sum(axis=1, keepdims=True)
        before, likelihood = likelihood, float((top + np.log(total)).sum())
        likelihood -= n / 2 * float(np.log(2 * np.pi * variance))
        weights /= total
        sizes = weights.sum(axis=0) + 1e-12
        shares, means = sizes / sizes.sum(), (weights * x[:, None]).sum(axis=0) / sizes
        variance = max(float((weights * (x[:, None] - means) ** 2).sum()) / n, smallest)
        if likelihood - before < 1e-3:
            break
    return -2 * likelihood + 2 * k * float(np.log(n))


def skewness(values: np.ndarray) -> float:
    """The third standardized moment."""
    centred = values - values.mean()
    centred /= np.abs(centred).max() or 1.0  # or the powers of huge values overflow
    deviation = centred.std()
    return float((centred**3).mean() / deviation**3) if deviation > 0 else 0.0
