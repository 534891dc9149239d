"""What a model must look like before anybody uses it: shapes, ranges, one number of clusters.

Compiled loops index by labels and counts without looking, so a file whose numbers do not fit
together would make them read or write beyond their arrays. Everything that a file holds is checked
here as a whole, before it becomes a model. `save` asks the same questions, so that it never writes
a file that `load` would refuse.

`FITTED` describes the fitted attributes of all estimators, because a name means the same in all of
them, and `DIFFERENT` holds the exceptions. `NEEDED` says which attributes the methods of an
estimator cannot do without. `PARTS` describes the objects inside a model, and `CHECKPOINT` the
state of a fit that was interrupted. `RULES` hold what one attribute alone cannot tell. In shapes,
`n` is the number of rows of the fit, `d` of columns and `k` of clusters or features; a letter has
one value in a whole model, which it gets where it is met first. An attribute that is described
nowhere may hold anything that a file can hold: no code of this package uses it.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from madbayes._partition.novelty import SHARES
from madbayes._storage.registry import ESTIMATORS
from madbayes._storage.values import (
    Is,
    Maybe,
    Named,
    Names,
    Numbers,
    Pairs,
    Several,
    Size,
    Sizes,
    Table,
    Text,
    Unfit,
    any_real,
    flag,
    real,
    seen,
    whole,
)

WAITING = 4096  # a `Summary` holds fewer rows that wait; with more it would never take one in


@dataclass(frozen=True)
class Part:
    """An object of this package, which shares the letters of what it belongs to."""

    known: str

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if type(value).__name__ != self.known:
            raise Unfit(f"{name} should be a {self.known}, not {seen(value)}")
        check(value, name, sizes)


@dataclass(frozen=True)
class Divisions:
    """The labels of each step of a path."""

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        nested = type(value).__name__ == "NestedLabels"
        allowed = Part("NestedLabels") if nested else Several((Is(np.ndarray),), any_number=True)
        allowed.check(value, name, sizes)


# Estimators: what their parameters and fitted attributes are

TIMES = 10_000  # threads at most, so that a file cannot ask for any number of them
PARAMETERS: dict[str, Any] = {  # those that are used after the fit
    "n_jobs": Maybe(whole(low=-TIMES, below=TIMES)),
    "n_neighbors": whole(low=1),
    "n_passes": whole(low=1),
    "forget_after": Maybe(whole(low=1)),
    "merge_every": Maybe(whole(low=1)),
    "half_life": Maybe(real(low=0)),
    "metric": Text(),
    "kernel": Text(),
    "rho": real(low=0),
}
LABELS = whole("n", low=-1, below="k")
FITTED: dict[str, Any] = {
    "n_features_in_": Size("d"),
    "n_clusters_": Size("k"),
    "n_components_": Size("k"),
    "feature_names_in_": Names("d"),
    # what was found
    "labels_": LABELS,
    "local_labels_": whole("n", low=-1),
    "n_iter_": whole(),
    "converged_": flag(),
    "objective_": any_real(),
    "inertia_": any_real(),
    "objective_history_": any_real("*"),
    "penalty_": Maybe(any_real()),
    "penalty_local_": any_real(),
    "penalty_global_": any_real(),
    "resolution_": any_real(),
    "evidence_": Part("Choice"),
    "path_": Part("Staircase"),
    "_probabilities": real("n", low=0),
    "_cluster_gaps": real("k", "k", low=0),
    "_finer": whole("finer layers", "parts", below="parts"),
    "_finest": whole("n", low=-1, below="parts"),
    "_coarser": whole("coarser layers", "k", below="k"),
    "novelty_quantiles_": real("k", len(SHARES), low=0),
    "_novelty_few": flag("k"),
    # centres
    "_centers": real("k", "d"),
    "cluster_centers_": real("k", "d"),
    "medoid_indices_": whole("k"),
    "_metric_params": Pairs(Text(), Is(object)),
    "counts_": real("k", low=0),
    "cluster_ids_": whole("k"),
    "_stream": Part("Stream"),
    "_summary": Part("Summary"),
    # ellipses
    "_offset": real("d"),
    "_scale": real("d", low=np.finfo(float).tiny),
    "_means": real("k", "d"),
    "_level": real("k"),
    "_inverse": real("k", "d", "d"),
    "covariances_": real("k", "d", "d"),
    "weights_": real("k", low=0),
    # means in kernel space; `m` rows represent the clusters
    "_kernel": Part("Kernel"),
    "_rows": Maybe(Table(("m", "d"))),
    "_columns": whole("m", below="d"),
    "_weight": real("m", low=0),
    "_labels": whole("m", below="k"),
    "_totals": real("k", low=np.finfo(float).tiny),
    "_norms": real("k"),
    "_shift": Several((whole("*", below="m"), real(), real("m"), flag())),
    "_diagonal": Maybe(real()),
    # groups
    "groups_": Is(np.ndarray),
    "_rows_of": Is(sp.csr_array),
    "n_local_clusters_": whole("g"),
    # graphs
    "_neighbours": Maybe(Part("Neighbours")),
    "graph_": Is(sp.csr_array),
    "membership_": any_real("n"),
    "conductance_": any_real("k"),
    "outlier_score_": any_real("n"),
    # features and samples
    "components_": real("k", "d"),
    "assignments_": flag("n", "k"),
    "label_samples_": whole("s", "n"),
    "n_clusters_samples_": whole("s", low=1),
    "center_samples_": real("*", "d"),
    "sigma_samples_": real("s", low=np.finfo(float).tiny),
    "_log_alpha": any_real("s"),
    "_precision": real(low=0),
    "_variance": real(low=np.finfo(float).tiny),
    "assignment_samples_": Several((flag("n", "*"),), any_number=True),
    "_dtype": Is(np.dtype),
}
STRAIGHT = {"metric": Text(("euclidean", "cosine"))}
DIFFERENT: dict[str, dict[str, Any]] = {
    "CollapsedDPMeans": STRAIGHT,
    "DPMeans": STRAIGHT,
    "KMeans": STRAIGHT,
    "NeighborCut": {"novelty_quantiles_": Maybe(FITTED["novelty_quantiles_"])},
    "OnlineDPMeans": {"labels_": whole("n", low=-1), **STRAIGHT},  # labels name, but do not place
}
CENTERS = ("n_features_in_", "n_clusters_", "_centers", "cluster_centers_")
MEDOIDS = ("n_features_in_", "n_clusters_", "medoid_indices_", "_metric_params")
ELLIPSES = ("_offset", "_scale", "_means", "_level", "_inverse")
KERNEL = (
    *("n_features_in_", "n_clusters_", "_rows", "_weight", "_labels", "_totals", "_norms"),
    *("_shift", "_diagonal"),
)
GROUPS = ("groups_", "_rows_of", "penalty_local_", "penalty_global_")
FEATURES = ("n_features_in_", "n_components_", "components_")
SAMPLES = ("label_samples_", "n_clusters_samples_", "center_samples_", "sigma_samples_")
NEEDED: dict[str, tuple[str, ...]] = {
    "AutoCluster": ("n_features_in_", "n_clusters_", "labels_", "shape_", "model_"),
    "BPMeans": FEATURES,
    "CollapsedBPMeans": FEATURES,
    "CollapsedDPMeans": CENTERS,
    "DPMeans": CENTERS,
    "DPMedoids": MEDOIDS,
    "DPMixtureGibbs": ("n_features_in_", "n_clusters_", "labels_", *SAMPLES, "_log_alpha"),
    "EllipticalMeans": (*CENTERS, *ELLIPSES),
    "GraphCut": ("n_clusters_", "labels_"),
    "HardHDP": (*CENTERS, *GROUPS),
    "IBPGibbs": (*FEATURES, "assignments_", "_precision", "_variance"),
    "KFeatures": FEATURES,
    "KMeans": CENTERS,
    "KMedoids": MEDOIDS,
    "KernelDPMeans": KERNEL,
    "KernelHardHDP": (*KERNEL, *GROUPS),
    "NeighborCut": ("n_features_in_", "n_clusters_", "labels_", "_neighbours"),
    "OnlineDPMeans": (*CENTERS, "counts_", "cluster_ids_", "penalty_"),
    "OnlineKMeans": (*CENTERS, "counts_", "_stream"),
    "SpectralDPMeans": KERNEL,
    "StepwiseKFeatures": FEATURES,
    "TableEncoder": ("n_features_in_", "columns_", "notes_", "recommendation_"),
}

# Parts: all their attributes

PARTS: dict[str, dict[str, Any]] = {
    "Choice": {
        "number": whole(),
        "price": any_real(),
        "strength": Text(("none", "weak", "moderate", "strong")),
        "support": any_real(),
        "reason": Text(),
        "runners_up": Several((Several((whole(), any_real())),), any_number=True),
        "score": any_real(),
        "confirmed": Maybe(any_real()),
        "n_isolated": whole(),
        "remarks": Several((Text(),), any_number=True),
        "of": Text(("cluster", "feature", "community")),
    },
    "Candidate": {
        "shape": Text(("round", "long", "any")),
        "n_clusters": whole(),
        "strength": Text(("none", "weak", "moderate", "strong")),
        "density": any_real(),
        "reason": Text(),
    },
    "Staircase": {
        "number": whole("steps"),
        "price_low": any_real("steps"),
        "price_high": any_real("steps"),
        "objective": any_real("steps"),
        "choice": Part("Choice"),
        "scores": Pairs(whole(), any_real()),
        "figures": Pairs(Text(), Is(np.ndarray)),
        "of": Text(("cluster", "feature", "community")),
        "centers": Maybe(Several((real("*", "path columns"),), any_number=True)),
        "labels": Maybe(Divisions()),
        "unit": flag(),
        "_X": Maybe(Is(object)),
    },
    "NestedLabels": {
        "groups": Several((whole("path parts"),), any_number=True),
        "parts": whole("n", below="path parts"),
    },
    "Kernel": {
        "metric": Text(tuple(sorted(PAIRWISE_KERNEL_FUNCTIONS))),
        "params": Pairs(Text(("gamma", "degree", "coef0")), real()),
        "origin": Maybe(real("d")),
    },
    "Neighbours": {
        "metric": Text(),
        "n_jobs": PARAMETERS["n_jobs"],
        "seed": whole(),
        "X": Table(("n", "d")),
        "plain": flag(),
        "tree": Maybe(Is(cKDTree)),
        "approximate": flag(),
    },
    "Stream": {  # arrays with room for more than k clusters
        "centers": real("room", "d"),
        "exact": real("room", "d"),
        "low": real("room", "d"),
        "weights": real("room", low=0),
        "last": whole("room"),
        "ids": whole("room"),
        "sample": Part("Reservoir"),
        "k": Size("k"),
        "seen": whole(),
        "opened": whole(),
    },
    "Reservoir": {  # what is behind the first `held` rows is not used
        "rows": Numbers("real", ("held room", "d"), finite=False),
        "weight": Numbers("real", ("held room",), finite=False),
        "key": Numbers("real", ("held room",), finite=False),
        "size": whole(low=1, below=2**40),
        "held": whole(),
        "limit": any_real(),
    },
    "Summary": {
        "d": Size("d"),
        "unit": flag(),
        "half_life": real(low=0),
        "rng": Is(np.random.RandomState),
        "seen": whole(),
        "refreshed": whole(),
        "sample": real("sampled", "d"),
        "sample_weight": real("sampled", low=0),
        "keys": any_real("sampled"),
        "points": real("points", "d"),
        "weights": real("points", low=0),
        "within": real(low=0),
        "n_small": whole(),
        "total": real(low=0),
        "centers": real("k", "d"),
        "ids": whole("k"),
        "opened": whole(),
    },
    "Clustering": {
        "centers": real("best k", "d"),
        "labels": whole("n", low=-1, below="best k"),
        "objective": any_real(),
        "inertia": any_real(),
        "history": Several((any_real(),), any_number=True),
        "n_iter": whole(),
        "converged": flag(),
    },
    "Column": {
        "name": Text(),
        "categories": Maybe(Several((Text(),), any_number=True)),
        "fill": Maybe(any_real()),
    },
    "ColumnEncoder": {
        "divergence": Text(("squared", "poisson", "multinomial", "bernoulli", "gamma", "mixed")),
        "observed": flag(),
        "kinds": Several(
            (Text(("squared", "poisson", "bernoulli", "categorical", "gamma", "multinomial")),),
            any_number=True,
        ),
        "names": Several((Text(),), any_number=True),
        "levels": Is(tuple),
        "offset": real("*"),
        "factor": real("*", low=np.finfo(float).tiny),
        "shape": real("*", low=0),
    },
    "TableColumn": {
        "name": Text(),
        "kind": Text(),
        "used": flag(),
        "done": Text(),
        "why": Text(),
        "n_missing": whole(),
        "missing_codes": Several((any_real(),), any_number=True),
        "n_codes": whole(),
        "categories": Maybe(Several((Text(),), any_number=True)),
        "transform": Text(("", "log", "log1p", "sqrt")),
        "width": whole(low=1),
        "days": flag(),
        "whole": flag(),
        "notes": Several((Text(),), any_number=True),
    },
    "TablePipeline": {"steps": Is(list)},
    "Recommendation": {"output": Text(("numeric", "mixed")), "divergence": Text(), "why": Text()},
    "Prepared": {
        "model": Is(BaseEstimator),
        "columns": Several((Part("Column"),), any_number=True),
        "mean": Maybe(real("d")),
        "scale": Maybe(real("d", low=np.finfo(float).tiny)),
        "options": Maybe(Is(dict)),
    },
}

# A printed algorithm between two passes

PASSES: dict[str, Any] = {  # types as the loops are compiled for
    "labels": Numbers("int32", ("n",), -1, "k"),
    "sse": real(low=0),
    "sse_peak": real(low=0),
    "upper": Numbers("float32", ("n",)),
    "lower": Numbers("float32", ("n", "t")),
    "bounds_for": Maybe(real("k", "d")),
    "group": Numbers("int32", ("*",), 0),
    "n_groups": whole(below=2**20),
    "use32": flag(),
    "sums": real("segments", "k", "d + 1"),
    "low": real("segments", "k", "d + 1"),
    "count": whole("segments", "k"),
}
LOOP = (real("k", "d"), Several((any_real(),), any_number=True), flag(), whole())
CHECKPOINT: dict[str, dict[str, Any]] = {
    "KMeans": {
        "random_state": Is(np.random.RandomState),
        "start": whole(),
        "best": Maybe(Part("Clustering")),
        "loop": Several(LOOP),
        "partition": Named(PASSES),
    },
    "DPMeans": {
        "random_state": Is(np.random.RandomState),
        "known": Pairs(real(low=0), whole(low=1)),
        "loop": Several((*LOOP, whole(low=1))),
        "partition": Named(PASSES),
    },
}


# What one attribute alone cannot tell: (classes, what must be so, its opposite in words)


def _names(model: Any) -> int:
    return sum(len(column.names) for column in model.columns)


def _samples_fit(m: Any) -> bool:
    """Each sample numbers its clusters from 0 without a gap, and has a centre for each."""
    numbers = m.n_clusters_samples_
    if not len(numbers) or len(m.center_samples_) != numbers.sum() or m.labels_.min() < 0:
        return False
    filled = (np.unique(labels) for labels in m.label_samples_)
    return all(f.size == k and f[-1] == k - 1 for f, k in zip(filled, numbers, strict=True))


def _tree_fits(m: Any) -> bool:
    return m.tree is None or (not sp.issparse(m.X) and m.tree.data.shape == m.X.shape)


def _sample_fits(m: Any) -> bool:
    held = m.held
    parts = (m.rows[:held], m.weight[:held], m.key[:held])
    return held <= min(len(m.rows), 2 * m.size) and all(np.isfinite(p).all() for p in parts)


ALL = tuple(ESTIMATORS)
WITH_NOVELTY = tuple(name for name in ALL if name != "NeighborCut")
KERNELS = ("KernelDPMeans", "KernelHardHDP", "SpectralDPMeans")
RULES: list[tuple[tuple[str, ...], Callable[[Any], bool], str]] = [
    (
        WITH_NOVELTY,  # the first files had neither
        lambda m: not hasattr(m, "novelty_quantiles_") or hasattr(m, "_novelty_few"),
        "_novelty_few is missing",
    ),
    (
        ALL,
        lambda m: not hasattr(m, "evidence_") or m.evidence_.number == _number_of(m),
        "evidence_ speaks of another number of clusters",
    ),
    (
        ("KMedoids", "DPMedoids"),
        lambda m: m.metric != "precomputed" or m.medoid_indices_.max() < m.n_features_in_,
        "medoid_indices_ are beyond the rows",
    ),
    (
        ("KMedoids", "DPMedoids"),
        lambda m: m.metric == "precomputed" or hasattr(m, "cluster_centers_"),
        "cluster_centers_ are missing",
    ),
    (
        KERNELS,
        lambda m: m._rows is None or hasattr(m, "_kernel"),
        "_kernel is missing",
    ),
    (
        KERNELS,
        lambda m: m._rows is not None or m.kernel != "precomputed" or hasattr(m, "_columns"),
        "_columns are missing",
    ),
    (
        KERNELS,
        lambda m: m._shift[3] or len(m._shift[0]) > 0,
        "_shift holds no rows",
    ),
    (
        ("HardHDP", "KernelHardHDP"),
        lambda m: m.groups_.ndim == 1 and m._rows_of.shape == (m.groups_.size, m.n_clusters_),
        "_rows_of does not fit the groups and clusters",
    ),
    (
        ("OnlineDPMeans",),
        lambda m: hasattr(m, "_summary" if m.penalty == "auto" else "_stream"),
        "the stream is missing",
    ),
    (("DPMixtureGibbs",), _samples_fit, "the samples do not fit each other"),
    (
        ("NeighborCut",),
        lambda m: m._neighbours is not None or m.metric in ("precomputed", "connectivities"),
        "_neighbours are missing",
    ),
    (("Neighbours",), _tree_fits, "the tree does not hold the rows"),
    (("Stream",), lambda m: len(m.ids) >= max(m.k, 1), "k is more than there is room for"),
    (("Reservoir",), _sample_fits, "held rows are missing or not finite"),
    (
        ("Summary",),
        lambda m: 0 <= len(m.points) - m.n_small < WAITING,
        "n_small does not fit the points",
    ),
    (
        ("Staircase",),
        lambda m: all(part is None or len(part) == len(m.number) for part in (m.centers, m.labels)),
        "the divisions are not those of the steps",
    ),
    (
        ("Prepared",),
        lambda m: getattr(m.model, "n_features_in_", _names(m)) == _names(m),
        "the columns are not those of the model",
    ),
    (
        ("Prepared",),
        lambda m: all(part is None or len(part) == _names(m) for part in (m.mean, m.scale)),
        "the scales are not those of the columns",
    ),
]


def _number_of(model: Any) -> int:
    found = getattr(model, "n_clusters_", None)
    return int(model.n_components_ if found is None else found)


# The checks


def check(value: Any, name: str = "", sizes: Sizes | None = None) -> None:
    """Raise `Unfit` unless an estimator or a part of one is whole.

    `sizes`: what the letters stand for in the model that a part belongs to.
    """
    kind = type(value).__name__
    name, sizes = name or kind, {} if sizes is None else sizes
    state = vars(value)
    if isinstance(value, BaseEstimator):
        given = value.get_params(deep=False)
        table = {**PARAMETERS, **FITTED, **DIFFERENT.get(kind, {})}
        needed = (
            set(NEEDED.get(kind, ())) if set(state) - set(given) else set()
        )  # else it is not fitted
        for key in set(state) - set(given) - set(FITTED):
            if not key.isidentifier() or hasattr(type(value), key):
                raise Unfit(f"{name}.{key} would hide a part of the estimator")
        if state.get("_encoder") is not None:  # centres have a column for each category
            table["_centers"] = table["cluster_centers_"] = real("k", "*")
        if "novelty_quantiles_" not in state:  # `_novelty_few` is of the clusters before
            del table["_novelty_few"]
    else:
        table = PARTS[kind]
        needed = set(table)
        known = {field.name for field in fields(value)} if is_dataclass(value) else set()
        if odd := set(state) - needed - known:
            raise Unfit(f"{name} holds {min(odd)}, which it does not have")
    if needed - set(state):
        raise Unfit(f"{name}.{min(needed - set(state))} is missing")
    for key, wanted in table.items():
        if key in state:
            wanted.check(state[key], f"{name}.{key}", sizes)
    if needed:
        for kinds, fits, fault in RULES:
            if kind in kinds and not fits(value):
                raise Unfit(f"of {name}, {fault}")


def check_state(estimator: str, shape: tuple[int, int], state: Any) -> None:
    """The same for the state of a fit of rows of that shape that was interrupted."""
    n, d = shape
    sizes = {"n": n, "d": d, "d + 1": d + 1}
    Named(CHECKPOINT[estimator]).check(state, "its state", sizes)
    now = state["partition"]
    group, bounds = now["group"], now["bounds_for"]
    if group.size and group.max() >= now["n_groups"]:
        raise Unfit("its groups of centres do not fit together")
    if bounds is not None and (len(group) != len(bounds) or sizes["t"] != now["n_groups"]):
        raise Unfit("its bounds do not fit the centres")
    if "best" in state and (state["best"] is None) != (state["start"] == 0):
        raise Unfit("its best start is missing")
