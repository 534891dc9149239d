"""What a model must look like before anybody uses it: shapes, ranges, one number of clusters.

Compiled loops index by labels and counts without looking, so a file whose numbers do not fit
together would make them read or write beyond their arrays. Everything that a file holds is checked
here as a whole, before it becomes a model. `save` asks the same questions, so that it never writes
a file that `load` would refuse.

`FITTED` describes the fitted attributes of all estimators, because a name means the same in all of
them, and `DIFFERENT` holds the exceptions. `NEEDED` says which attributes the methods of an
estimator cannot do without. The objects inside a model are dataclasses: the annotations of their
fields describe them, and `PARTS` adds shapes and ranges. `CHECKPOINT` describes the state of a fit
that was interrupted. `faults` finds what one attribute alone cannot tell. In shapes,
`n` is the number of rows of the fit, `d` of columns and `k` of clusters or features; a letter has
one value in a whole model, which it gets where it is met first. An attribute that is described
nowhere may hold anything that a file can hold: no code of this package uses it.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from madbayes._partition.novelty import SHARES
from madbayes._storage.values import (
    Check,
    Sizes,
    Unfit,
    a,
    any_real,
    flag,
    maybe,
    named,
    names,
    numbers,
    of_type,
    pairs,
    real,
    seen,
    several,
    size,
    table,
    text,
    whole,
)


def part(known: str) -> Check:
    """An object of this package, which shares the letters of what it belongs to."""

    def inside(value: Any, name: str, sizes: Sizes) -> None:
        if type(value).__name__ != known:
            raise Unfit(f"{name} should be a {known}, not {seen(value)}")
        check(value, name, sizes)

    return inside


def divisions(value: Any, name: str, sizes: Sizes) -> None:
    """The labels of each step of a path."""
    nested = type(value).__name__ == "NestedLabels"
    allowed = part("NestedLabels") if nested else several(a(np.ndarray), any_number=True)
    allowed(value, name, sizes)


# Estimators: what their parameters and fitted attributes are

TINY = np.finfo(float).tiny


def described(table: dict[str, Any]) -> dict[str, Any]:
    """One entry for each of the names in a key."""
    return {name: description for names, description in table.items() for name in names.split()}


PARAMETERS = described(  # those that are used after the fit
    {
        "n_jobs": maybe(whole(low=-10_000, below=10_000)),  # no file asks for more threads
        "n_neighbors n_passes": whole(low=1),
        "forget_after merge_every": maybe(whole(low=1)),
        "half_life": maybe(real(low=0)),
        "metric kernel": text(),
        "rho": real(low=0),
    }
)
FITTED = described(
    {
        "n_features_in_": size("d"),
        "n_clusters_ n_components_": size("k"),
        "feature_names_in_": names("d"),
        # of the fit
        "n_iter_": whole(),
        "converged_": flag(),
        "objective_ inertia_ penalty_local_ penalty_global_ resolution_": any_real(),
        "penalty_": maybe(any_real()),
        "objective_history_": any_real("*"),
        "evidence_": part("Choice"),
        "path_": part("Staircase"),
        "_dtype": a(np.dtype),
        # of each row
        "labels_": whole("n", low=-1, below="k"),
        "local_labels_": whole("n", low=-1),
        "_probabilities": real("n", low=0),
        "membership_ outlier_score_": any_real("n"),
        "assignments_": flag("n", "k"),
        # of each cluster or feature
        "_centers cluster_centers_ components_ _means": real("k", "d"),
        "_inverse covariances_": real("k", "d", "d"),
        "counts_ weights_": real("k", low=0),
        "medoid_indices_ cluster_ids_": whole("k"),
        "conductance_": any_real("k"),
        "_level _norms": real("k"),
        "_totals": real("k", low=TINY),
        "_cluster_gaps": real("k", "k", low=0),
        "_finer": whole("finer layers", "parts", below="parts"),
        "_finest": whole("n", low=-1, below="parts"),
        "_coarser": whole("coarser layers", "k", below="k"),
        "novelty_quantiles_": real("k", len(SHARES), low=0),
        "_novelty_few": flag("k"),
        # of each column
        "_offset": real("d"),
        "_scale": real("d", low=TINY),
        # streams, medoids, groups, graphs
        "_stream": part("Stream"),
        "_summary": part("Summary"),
        "_metric_params": pairs(text(), a(object)),
        "groups_": a(np.ndarray),
        "n_local_clusters_": whole("g"),
        "_rows_of graph_": a(sp.csr_array),
        "_neighbours": maybe(part("Neighbours")),
        # means in kernel space; `m` rows represent the clusters
        "_kernel": part("Kernel"),
        "_rows": maybe(table("m", "d")),
        "_columns": whole("m", below="d"),
        "_weight": real("m", low=0),
        "_labels": whole("m", below="k"),
        "_shift": several(whole("*", below="m"), real(), real("m"), flag()),
        "_diagonal": maybe(real()),
        # samples
        "label_samples_": whole("s", "n"),
        "n_clusters_samples_": whole("s", low=1),
        "center_samples_": real("*", "d"),
        "sigma_samples_": real("s", low=TINY),
        "_log_alpha": any_real("s"),
        "assignment_samples_": several(flag("n", "*"), any_number=True),
        "_precision": real(low=0),
        "_variance": real(low=TINY),
    }
)
_STRAIGHT = {"metric": text("euclidean", "cosine")}
DIFFERENT: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("CollapsedDPMeans", "DPMeans", "KMeans"), _STRAIGHT),
    "NeighborCut": {"novelty_quantiles_": maybe(FITTED["novelty_quantiles_"])},
    # Labels of a stream name clusters, but do not place them.
    "OnlineDPMeans": {"labels_": whole("n", low=-1), **_STRAIGHT},
}
# What the methods of an estimator use, by the name of its class or of one of its base classes.
NEEDED = {
    "AssignmentsMixin": "n_features_in_ n_components_ components_",
    "AutoCluster": "n_features_in_ n_clusters_ labels_ shape_ model_",
    "Clusterer": "n_features_in_ n_clusters_",
    "CentersMixin": "_centers cluster_centers_",
    "DPMixtureGibbs": "n_features_in_ n_clusters_ labels_ label_samples_ n_clusters_samples_ "
    "center_samples_ sigma_samples_ _log_alpha",
    "EllipticalMeans": "_offset _scale _means _level _inverse",
    "GraphCut": "n_clusters_ labels_",
    "IBPGibbs": "assignments_ _precision _variance",
    "KernelMixin": "_rows _weight _labels _totals _norms _shift _diagonal",
    "MedoidsMixin": "medoid_indices_ _metric_params",
    "NeighborCut": "n_features_in_ n_clusters_ labels_ _neighbours",
    "OnlineDPMeans": "counts_ cluster_ids_ penalty_",
    "OnlineKMeans": "counts_ _stream",
    "SharedClusters": "groups_ _rows_of penalty_local_ penalty_global_",
    "TableEncoder": "n_features_in_ columns_ notes_ recommendation_",
}


def bases_of(cls: type) -> set[str]:
    """The names of a class and of its base classes."""
    return {base.__name__ for base in cls.__mro__}


def needed_by(cls: type) -> set[str]:
    """The attributes that a fitted estimator of this class has in any case."""
    bases = bases_of(cls)
    names = {name for base in bases & set(NEEDED) for name in NEEDED[base].split()}
    if "MedoidsMixin" in bases:  # `faults` asks for centres where the metric has any
        names -= set(NEEDED["CentersMixin"].split())
    return names


# Parts: what the annotations of their fields (`of_type`) do not tell

PARTS: dict[str, dict[str, Any]] = {
    "Candidate": {
        "shape": text("round", "long", "any"),
        "strength": text("none", "weak", "moderate", "strong"),
    },
    "Staircase": {
        "number": whole("steps"),
        "price_low price_high objective": any_real("steps"),
        "choice": part("Choice"),
        "centers": maybe(several(real("*", "path columns"), any_number=True)),
        "labels": maybe(divisions),
    },
    "NestedLabels": {
        "groups": several(whole("path parts"), any_number=True),
        "parts": whole("n", below="path parts"),
    },
    "Kernel": {
        "metric": text(*sorted(PAIRWISE_KERNEL_FUNCTIONS)),
        "params": pairs(text("gamma", "degree", "coef0"), real()),
        "origin": maybe(real("d")),
    },
    "Neighbours": {
        "metric": text(),
        "n_jobs": PARAMETERS["n_jobs"],
        "seed": whole(),
        "X": table("n", "d"),
        "plain approximate": flag(),
        "tree": maybe(a(cKDTree)),
    },
    "Stream": {  # arrays with room for more than k clusters
        "centers exact low": real("room", "d"),
        "weights": real("room", low=0),
        "last ids": whole("room"),
        "sample": part("Reservoir"),
        "k": size("k"),
    },
    "Reservoir": {  # what is behind the first `held` rows is not used
        "rows": any_real("held room", "d"),
        "weight key": any_real("held room"),
        "size": whole(low=1, below=2**40),
    },
    "Summary": {
        "d": size("d"),
        "half_life within total": real(low=0),
        "sample": real("sampled", "d"),
        "sample_weight": real("sampled", low=0),
        "keys": any_real("sampled"),
        "points": real("points", "d"),
        "weights": real("points", low=0),
        "centers": real("k", "d"),
        "ids": whole("k"),
    },
    "Clustering": {
        "centers": real("best k", "d"),
        "labels": whole("n", low=-1, below="best k"),
    },
    "ColumnEncoder": {
        "divergence": text("squared", "poisson", "multinomial", "bernoulli", "gamma", "mixed"),
        "kinds": several(
            text("squared", "poisson", "bernoulli", "categorical", "gamma", "multinomial"),
            any_number=True,
        ),
        "offset": real("*"),
        "factor": real("*", low=TINY),
        "shape": real("*", low=0),
    },
    "TableColumn": {"transform": text("", "log", "log1p", "sqrt"), "width": whole(low=1)},
    "Recommendation": {"output": text("numeric", "mixed")},
    "Prepared": {
        "model": a(BaseEstimator),
        "columns": several(part("Column"), any_number=True),
        "mean": maybe(real("d")),
        "scale": maybe(real("d", low=TINY)),
    },
}


def attributes_of(part: type) -> dict[str, Any]:
    """The description of every attribute of a part; those that give letters their values first."""
    table = described(PARTS.get(part.__name__, {}))
    hints = get_type_hints(part) if is_dataclass(part) else {}
    names = (field.name for field in fields(part)) if hints else ()
    return table | {name: of_type(hints[name]) for name in names if name not in table}


# A printed algorithm between two passes


def between_passes(*more: Check) -> dict[str, Check]:
    """What every checkpoint holds: the variables of the loop (and `more`), and the partition."""
    loop = real("k", "d"), several(any_real(), any_number=True), flag(), whole()
    partition = {  # types as the loops are compiled for
        "labels": numbers("int32", ("n",), -1, "k"),
        "sse sse_peak": real(low=0),
        "upper": numbers("float32", ("n",)),
        "lower": numbers("float32", ("n", "t")),
        "bounds_for": maybe(real("k", "d")),
        "group": numbers("int32", ("*",), 0),
        "n_groups": whole(below=2**20),
        "use32": flag(),
        "sums low": real("segments", "k", "d + 1"),
        "count": whole("segments", "k"),
    }
    return {
        "random_state": a(np.random.RandomState),
        "loop": several(*loop, *more),
        "partition": named(described(partition)),
    }


CHECKPOINT = {
    "KMeans": {
        **between_passes(),
        "start": whole(),
        "best": maybe(part("Clustering")),
    },
    "DPMeans": {**between_passes(whole(low=1)), "known": pairs(real(low=0), whole(low=1))},
}


# The checks


def faults(m: Any) -> Iterator[str]:
    """What is wrong with a fitted estimator or a part whose attributes are right one by one."""
    bases, of = bases_of(type(m)), type(m).__name__
    if "BaseEstimator" in bases:
        # The first files had neither of the two; NeighborCut has no small clusters.
        if (
            hasattr(m, "novelty_quantiles_")
            and of != "NeighborCut"
            and not hasattr(m, "_novelty_few")
        ):
            yield "_novelty_few is missing"
        found = getattr(m, "n_clusters_", None)
        if hasattr(m, "evidence_") and m.evidence_.number != int(
            m.n_components_ if found is None else found
        ):
            yield "evidence_ speaks of another number of clusters"
    if "MedoidsMixin" in bases:
        if m.metric != "precomputed" and not hasattr(m, "cluster_centers_"):
            yield "cluster_centers_ are missing"
        if m.metric == "precomputed" and m.medoid_indices_.max() >= m.n_features_in_:
            yield "medoid_indices_ are beyond the rows"
    if "KernelMixin" in bases:
        if m._rows is not None and not hasattr(m, "_kernel"):
            yield "_kernel is missing"
        if m._rows is None and m.kernel == "precomputed" and not hasattr(m, "_columns"):
            yield "_columns are missing"
        if not m._shift[3] and not len(m._shift[0]):
            yield "_shift holds no rows"
    if "SharedClusters" in bases and (
        m.groups_.ndim != 1 or m._rows_of.shape != (m.groups_.size, m.n_clusters_)
    ):
        yield "_rows_of does not fit the groups and clusters"
    if of == "OnlineDPMeans" and not hasattr(m, "_summary" if m.penalty == "auto" else "_stream"):
        yield "the stream is missing"
    if of == "DPMixtureGibbs" and not _samples_fit(m):
        yield "the samples do not fit each other"
    if of == "NeighborCut":
        square = m.metric in ("precomputed", "connectivities")
        if m._neighbours is None and not square:
            yield "_neighbours are missing"
    if of == "Neighbours":
        dense = not sp.issparse(m.X)
        if m.tree is not None and not (dense and m.tree.data.shape == m.X.shape):
            yield "the tree does not hold the rows"
    if of == "Stream" and len(m.ids) < max(m.k, 1):
        yield "k is more than there is room for"
    if of == "Reservoir":
        kept = (m.rows[: m.held], m.weight[: m.held], m.key[: m.held])
        room = m.held <= min(len(m.rows), 2 * m.size)
        if not room or not all(np.isfinite(part).all() for part in kept):
            yield "held rows are missing or not finite"
    if of == "Summary" and not 0 <= len(m.points) - m.n_small < 4096:
        yield "n_small does not fit the points"  # as many waiting rows would never be taken in
    if of == "Staircase":
        divisions = (part for part in (m.centers, m.labels) if part is not None)
        if any(len(part) != len(m.number) for part in divisions):
            yield "the divisions are not those of the steps"
    if of == "Prepared":
        width = sum(len(column.names) for column in m.columns)
        if getattr(m.model, "n_features_in_", width) != width:
            yield "the columns are not those of the model"
        if any(part is not None and len(part) != width for part in (m.mean, m.scale)):
            yield "the scales are not those of the columns"


def _samples_fit(m: Any) -> bool:
    """Each sample numbers its clusters from 0 without a gap, and has a centre for each."""
    numbers = m.n_clusters_samples_
    if not len(numbers) or len(m.center_samples_) != numbers.sum() or m.labels_.min() < 0:
        return False
    filled = (np.unique(labels) for labels in m.label_samples_)
    return all(f.size == k and f[-1] == k - 1 for f, k in zip(filled, numbers, strict=True))


def check(value: Any, name: str = "", sizes: Sizes | None = None) -> None:
    """Raise `Unfit` unless an estimator or a part of one is whole.

    `sizes`: what the letters stand for in the model that a part belongs to.
    """
    cls = type(value)
    name, sizes = name or cls.__name__, {} if sizes is None else sizes
    state = vars(value)
    if isinstance(value, BaseEstimator):
        given = value.get_params(deep=False)
        table = {**PARAMETERS, **FITTED, **DIFFERENT.get(cls.__name__, {})}
        fitted = bool(set(state) - set(given))
        needed = needed_by(cls) if fitted else set()
        for key in set(state) - set(given) - set(FITTED):
            if not key.isidentifier() or hasattr(cls, key):
                raise Unfit(f"{name}.{key} would hide a part of the estimator")
        if state.get("_encoder") is not None:  # centres have a column for each category
            table["_centers"] = table["cluster_centers_"] = real("k", "*")
        if "novelty_quantiles_" not in state:  # `_novelty_few` is of the clusters before
            del table["_novelty_few"]
    else:
        table, fitted = attributes_of(cls), True
        needed = set(table)
        if odd := set(state) - needed:
            raise Unfit(f"{name} holds {min(odd)}, which it does not have")
    if needed - set(state):
        raise Unfit(f"{name}.{min(needed - set(state))} is missing")
    for key, wanted in table.items():
        if key in state:
            wanted(state[key], f"{name}.{key}", sizes)
    for fault in faults(value) if fitted else ():
        raise Unfit(f"of {name}, {fault}")


def check_state(estimator: str, shape: tuple[int, int], state: Any) -> None:
    """The same for the state of a fit of rows of that shape that was interrupted."""
    n, d = shape
    sizes = {"n": n, "d": d, "d + 1": d + 1}
    named(CHECKPOINT[estimator])(state, "its state", sizes)
    now = state["partition"]
    group, bounds = now["group"], now["bounds_for"]
    if group.size and group.max() >= now["n_groups"]:
        raise Unfit("its groups of centres do not fit together")
    if bounds is not None and (len(group) != len(bounds) or sizes["t"] != now["n_groups"]):
        raise Unfit("its bounds do not fit the centres")
    if "best" in state and (state["best"] is None) != (state["start"] == 0):
        raise Unfit("its best start is missing")
