"""What both samplers share as estimators: checks, and what is said about the chains."""

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from madbayes._model.callbacks import CallbacksMixin
from madbayes._rows.checks import check_count, check_rows
from madbayes._storage.saving import SaveMixin
from madbayes.gibbs.chains import Plan, Sample
from madbayes.gibbs.diagnostics import effective_sample_size, r_hat


class GibbsMixin(SaveMixin, CallbacksMixin, BaseEstimator):
    """Estimators that draw samples."""

    n_iter: int
    burn_in: int
    thin: int
    n_chains: int
    _simpler = "DPMeans"

    def _plan(self) -> Plan:
        n_iter = check_count("n_iter", self.n_iter, why="It counts sweeps after burn-in.")
        thin = check_count("thin", self.thin, why="Every thin-th sweep is kept.")
        if thin > n_iter:
            raise ValueError(
                f"thin={thin} must be <= n_iter={n_iter}: otherwise no sample is kept."
            )
        burn_in = check_count("burn_in", self.burn_in, low=0)
        return Plan(n_iter, burn_in, thin, check_count("n_chains", self.n_chains))

    def _check_table(self, X: Any, params: dict[str, Any]) -> np.ndarray:
        """X as C-contiguous float64, and nothing passed to `fit` besides."""
        weight = params.pop("sample_weight", None)
        if params:
            raise TypeError(f"{type(self).__name__}.fit takes no {', '.join(map(repr, params))}.")
        if weight is not None:
            raise ValueError(
                f"{type(self).__name__} takes no sample_weight: each row is one draw from the "
                "model, and there is no posterior for half a draw. Repeat rows instead, or use "
                f"{self._simpler}, which takes weights."
            )
        return self._table(X)

    def _table(self, X: Any, *, reset: bool = True) -> np.ndarray:
        X = check_rows(self, X, reset=reset)
        if sp.issparse(X):
            raise TypeError(
                f"{type(self).__name__} samples for dense rows, and X is sparse: pass X.toarray(), "
                f"or use {self._simpler}, which takes sparse rows."
            )
        if reset:
            self._dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        # Writeable, as kernels are compiled for that kind of array only.
        X = np.require(X, np.float64, ["C", "W", "E"])
        with np.errstate(over="ignore"):
            largest, spread = np.abs(X).max(), np.abs(X - X[0]).max()
            if not largest**2 * X.size < 1e307:
                raise ValueError(
                    f"X reaches {largest:.3g}: the sum of squares would overflow float64. Divide "
                    f"X by, say, {largest:.1g}."
                )
        if reset and 0 < spread < 1e-151:
            raise ValueError(
                f"X spreads over only {spread:.3g}: squared distances would underflow float64. "
                f"Multiply X by, say, {1 / spread:.1g}."
            )
        return X

    def _judge(self, samples: list[Sample], names: tuple[str, ...]) -> None:
        """`chain_`, and `effective_sample_size_` and `r_hat_` of the attributes `names`."""
        self.chain_ = np.array([sample.chain for sample in samples])
        parts = np.split(np.arange(len(samples)), np.flatnonzero(np.diff(self.chain_)) + 1)
        shortest = min(len(part) for part in parts)  # interrupted chains differ in length
        index = np.array([part[:shortest] for part in parts])
        traces = {
            name.removesuffix("_").removesuffix("_samples"): getattr(self, name) for name in names
        }
        self.effective_sample_size_ = {
            name: effective_sample_size(trace[index]) for name, trace in traces.items()
        }
        self.r_hat_ = {name: r_hat(trace[index]) for name, trace in traces.items()}


def check_positive(name: str, value: Any, meaning: str, optional: bool = True) -> Any:
    """A finite number > 0; or None, which is drawn."""
    if value is None and optional:
        return None
    accepted = "a number > 0" + ", or None to draw it" * optional
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} must be {accepted}. {meaning}")
    if not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r} must be {accepted}. {meaning}")
    return float(value)


def check_prior(name: str, value: Any, default: tuple[float, float]) -> tuple[float, float]:
    """Two finite numbers > 0: shape, and rate or scale."""
    if value is None:
        return default
    try:
        shape, second = (float(part) for part in value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}={value!r} must be two numbers > 0: shape and rate of a gamma prior, or shape "
            "and scale of an inverse-gamma prior."
        ) from None
    if not (0 < shape < np.inf and 0 < second < np.inf):
        raise ValueError(f"{name}={value!r} must be two finite numbers > 0.")
    return shape, second
