"""From the matrix to clusters: pick the estimator the options ask for, fit it, and keep the answer
in the units of the file."""

import math
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.cli.errors import UserError

if TYPE_CHECKING:
    from madbayes.penalties import Choice, PenaltyPath, Staircase


@dataclass(frozen=True)
class Options:
    """What the user asked for; `None` where nothing was said."""

    penalty: float | str | None = None
    clusters_hint: int | None = None
    n_clusters: int | None = None
    standardize: bool = False
    seed: int = 0
    metric: str = "euclidean"


@dataclass(frozen=True)
class Found:
    """The answer, centres in the units of the file."""

    labels: np.ndarray
    centers: np.ndarray
    sizes: np.ndarray
    penalty: float | None
    penalty_from: str
    evidence: "Choice | None"  # for a number of clusters that was found, not given
    path: "PenaltyPath | None"
    objective: float
    n_iter: int
    converged: bool
    used: np.ndarray  # the values the estimator saw: those of the file, or standardized
    used_centers: np.ndarray
    notes: tuple[str, ...]

    @property
    def n_clusters(self) -> int:
        return len(self.sizes)


def parse_penalty(text: str | None) -> float | str | None:
    """A number above 0, 'auto' or 'farthest-first'."""
    if text is None or text in ("auto", "farthest-first"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(
            f'--penalty {text} should be a number > 0, "auto" or "farthest-first". It is the cost '
            "of one more cluster, in squared-distance units; without it, the data decide."
        )
    return value


def resolve(options: Options) -> tuple[float | str | None, str]:
    """The penalty to use and where it comes from; (None, …) means a fixed number of clusters."""
    if options.metric not in ("euclidean", "cosine"):
        raise UserError(f'--metric {options.metric} should be "euclidean" or "cosine".')
    if options.n_clusters is not None:
        if options.penalty is not None or options.clusters_hint is not None:
            raise UserError(
                "--n-clusters fixes the number of clusters, so it cannot be combined with "
                "--penalty or --clusters-hint, which find it. Give one or the other."
            )
        return None, "none: the number of clusters was given"
    penalty = "auto" if options.penalty is None else options.penalty
    if penalty == "farthest-first":
        if options.clusters_hint is None:
            raise UserError(
                "--penalty farthest-first works out a penalty from a rough number of clusters: "
                "add --clusters-hint N."
            )
        return penalty, f"farthest-first with a hint of {options.clusters_hint}"
    if penalty == "auto":
        near = "" if options.clusters_hint is None else f", near a hint of {options.clusters_hint}"
        return penalty, f"chosen from the data{near}"
    if options.clusters_hint is not None:
        raise UserError(
            f"--clusters-hint {options.clusters_hint} would be ignored, because --penalty "
            f"{penalty} already decides. Give one of them."
        )
    return penalty, "given"


def fit(values: np.ndarray, options: Options) -> Found:
    """Standardize if asked, fit, and translate the centres back."""
    from madbayes import DPMeans, KMeans  # here, so that --help need not wait for the kernels

    penalty, penalty_from = resolve(options)
    used, mean, scale = standardize(values) if options.standardize else (values, 0.0, 1.0)
    model: DPMeans | KMeans
    if options.n_clusters is not None:
        model = KMeans(options.n_clusters, metric=options.metric, random_state=options.seed)
    else:
        assert penalty is not None  # `resolve` saw to it
        model = DPMeans(
            penalty=penalty,
            n_clusters_hint=options.clusters_hint,
            metric=options.metric,
            random_state=options.seed,
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(used)
        except (ValueError, TypeError) as error:
            if isinstance(error, TypeError) and not str(error).startswith("penalty="):
                raise  # not about the data or the options: a mistake of ours
            raise UserError(_in_options(str(error), options)) from error

    centers = np.asarray(model.cluster_centers_, dtype=np.float64)
    labels = np.asarray(model.labels_)
    return Found(
        labels=labels,
        centers=centers * scale + mean,
        sizes=np.bincount(labels, minlength=len(centers)),
        penalty=getattr(model, "penalty_", None),
        penalty_from=penalty_from,
        evidence=getattr(model, "evidence_", None),
        path=getattr(model, "path_", None),
        objective=float(getattr(model, "objective_", model.inertia_)),
        n_iter=int(model.n_iter_),
        converged=bool(getattr(model, "converged_", True)),
        used=used,
        used_centers=centers,
        notes=tuple(dict.fromkeys(str(w.message) for w in caught)),
    )


@dataclass(frozen=True)
class Communities:
    """The clusters of a graph."""

    labels: np.ndarray
    sizes: np.ndarray
    conductance: np.ndarray
    cost: str  # what conductance is called
    resolution: float
    path: "Staircase | None"
    objective: float


def parse_resolution(text: str) -> float | str:
    """A number above 0, or 'auto'."""
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(
            f'--resolution {text} should be a number > 0 or "auto". Each cluster earns it and pays '
            "its conductance; without it, the data decide."
        )
    return value


def fit_graph(adjacency: Any, resolution: float | str, cut: str, seed: int) -> Communities:
    """The communities at this resolution, or at the one that the graph supports."""
    from madbayes import GraphCut

    try:
        model = GraphCut(resolution, cut=cut, random_state=seed).fit(adjacency)
    except ValueError as error:
        raise UserError(str(error)) from error
    return Communities(
        labels=model.labels_,
        sizes=np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_clusters_),
        conductance=model.conductance_,
        cost="conductance" if cut == "normalized" else "cut per node",
        resolution=model.resolution_,
        path=getattr(model, "path_", None),
        objective=model.objective_,
    )


def standardize(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean 0 and variance 1 in every column; a constant column becomes 0."""
    mean = values.mean(axis=0, dtype=np.float64)
    scale = values.std(axis=0, dtype=np.float64)
    scale[scale <= np.finfo(values.dtype).eps * np.abs(mean)] = 1.0
    return ((values - mean) / scale).astype(values.dtype, copy=False), mean, scale


def _in_options(message: str, options: Options) -> str:
    """The library's message, with its parameters called as the command calls them."""
    n_clusters = "--clusters-hint" if options.n_clusters is None else "--n-clusters"
    names = {"penalty": "--penalty", "n_clusters_hint": "--clusters-hint", "n_clusters": n_clusters}
    pattern = re.compile(rf"\b({'|'.join(names)})=")
    return pattern.sub(lambda match: names[match[1]] + " ", message)
