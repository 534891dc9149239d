"""Chains of a sampler: run side by side, safe to interrupt, and judged.

A sampler is two functions: `init` gives a first state, and `step(rng, state) -> (state, info)` one
sweep. A step changes nothing in place, so a chain that is interrupted in the middle of one still
has its last whole state.
"""

import threading
import warnings
from collections.abc import Callable
from math import lgamma, log
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from madbayes._rows.progress import Stage
from madbayes._rows.threads import together, workers

Step = Callable[[np.random.Generator, Any], tuple[Any, Any]]
MOST_REPORTS = 1000  # times that a chain tells how far it is, at most


class Sampler(NamedTuple):
    """How a chain starts and goes on."""

    init: Callable[..., Any]
    step: Step


class Plan(NamedTuple):
    """How long to run: `burn_in` sweeps, then `n_iter` of which every `thin`-th is kept."""

    n_iter: int
    burn_in: int
    thin: int
    n_chains: int


class Sample(NamedTuple):
    """What is kept of a sweep, and of which chain."""

    chain: int
    state: Any
    info: Any


def run_chains(
    start: Callable[[np.random.Generator], Any],
    step: Step,
    plan: Plan,
    random_state: Any,
    n_jobs: int | None,
) -> list[Sample]:
    """The kept samples of all chains, one chain after the other; `start(rng)` is a first state.

    Each chain has a generator of its own, so the result does not depend on `n_jobs`. Ctrl-C ends
    the chains; what they have so far is returned, with a warning.
    """
    seeds = check_random_state(random_state).randint(2**31 - 1, size=plan.n_chains)
    kept: list[list[Sample]] = [[] for _ in seeds]
    last: list[Sample | None] = [None for _ in seeds]
    sweeps = plan.burn_in + plan.n_iter
    every = -(-sweeps // MOST_REPORTS)
    stage = Stage("sampling", plan.n_chains * (sweeps // every))
    stop = threading.Event()

    def chain(c: int) -> None:
        rng = np.random.default_rng(seeds[c])
        state = start(rng)
        for sweep in range(1, sweeps + 1):
            if stop.is_set():
                return
            state, info = step(rng, state)
            last[c] = Sample(c, state, info)
            if sweep > plan.burn_in and (sweep - plan.burn_in) % plan.thin == 0:
                kept[c].append(Sample(c, state, info))
            if sweep % every == 0:
                stage.step()

    with workers(n_jobs):
        try:
            together(chain, range(plan.n_chains))
        except KeyboardInterrupt:
            stop.set()
    samples = [sample for part in kept for sample in part]
    if not stop.is_set():
        return samples
    return _so_far(samples, [sample for sample in last if sample is not None], plan)


def _so_far(samples: list[Sample], last: list[Sample], plan: Plan) -> list[Sample]:
    """What an interrupted run has, with a warning that says so."""
    if not last:
        raise KeyboardInterrupt
    total = plan.n_chains * (plan.n_iter // plan.thin)
    what = f"{len(samples)} of {total} samples are kept"
    if not samples:
        samples, what = last, "during burn-in: the last state of each chain is the only sample"
    warnings.warn(
        f"Sampling was interrupted; {what}. Treat the results as unfinished.",
        ConvergenceWarning,
        stacklevel=4,
    )
    return samples


def draw_inverse_gamma(rng: np.random.Generator, shape: float, scale: float) -> float:
    return float(scale / rng.standard_gamma(shape))


def log_inverse_gamma(value: float, shape: float, scale: float) -> float:
    """Log density."""
    return shape * log(scale) - lgamma(shape) - (shape + 1) * log(value) - scale / value


def log_gamma(value: float, shape: float, rate: float) -> float:
    """Log density."""
    return shape * log(rate) - lgamma(shape) + (shape - 1) * log(value) - rate * value
