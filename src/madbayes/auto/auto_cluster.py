"""One estimator for clusters of any shape: round, long and connected ones, chosen by held-out rows.

1. *Candidates.* `NeighborCut` (connected clusters of any shape), `EllipticalMeans` (long ones) and
   `DPMeans` (round ones) each find their own number of clusters. `DPMeans` takes longest: it is
   left out where it could not win, and looks near the number of the other two where they agree.
2. *Explain.* Each division becomes a density, and the densities are compared on rows that were held
   out (`howmany/densities.py`), in nats per row.
3. *Choose.* Connected clusters are kept unless round or long ones do better. If these are sure,
   they are taken, provided that connected ones are not, or that held-out rows are explained better
   and connected clusters are not cut into more than `MAX_PIECES` pieces each (a curve is as well
   explained by many short Gaussians). Overlapping clusters have weak evidence. They are taken where
   nothing else is sure, halves of the rows find them, and held-out rows are explained better by
   `CLEAR_GAIN` for every cut.
4. *Simplify.* If a simpler shape gives the same division with evidence that is as strong, the
   simpler shape is taken: round before long before any. Its clusters have centres.
5. *Doubt.* The evidence is not called strong if a candidate disagrees that has strong evidence or
   that explains held-out rows much better (`MUCH`); nor if a candidate of another shape that fits
   the rows finds the same clusters, but doubts them. Connected clusters are not sure if one of
   them holds two that overlap (`howmany/doubts.py`); round and long ones were asked that before.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from madbayes._model.callbacks import CallbacksMixin
from madbayes._model.fitting import forget
from madbayes._partition.lloyd import nearest
from madbayes._rows.checks import check_choice, check_rows
from madbayes._rows.threads import workers
from madbayes._storage.saving import SaveMixin
from madbayes.elliptical import EllipticalMeans
from madbayes.graph import NeighborCut
from madbayes.howmany.densities import MAX_COLUMNS, MIN_ROWS, explain
from madbayes.howmany.doubts import doubt_single
from madbayes.howmany.staircase import Choice
from madbayes.kmeans import DPMeans

SHAPES = {"round": DPMeans, "long": EllipticalMeans, "any": NeighborCut}
MAX_PIECES = 3  # round or long clusters for each connected one
CLEAR_GAIN = 0.05  # nats per row, beyond the standard error, by which rows are explained better
MUCH = 0.2  # nats per row: curves gain up to 0.18 by many short ellipses, and are no such clusters
AGREE = 0.8  # adjusted Rand index below which two divisions contradict each other
SAME = 0.95  # adjusted Rand index from which on two divisions are the same
WORDS = ("none", "weak", "moderate", "strong")


@dataclass(frozen=True)
class Candidate:
    """What one shape says."""

    shape: str
    n_clusters: int
    strength: str
    density: float  # of held-out rows, in nats per row, above that of "any"; -inf: not fitted
    reason: str


def offers(name: str) -> Any:
    """Whether the estimator that won has this method; before the fit, whether one might."""

    def check(self: Any) -> bool:
        model = getattr(self, "model_", SHAPES.get(self.shape))
        return model is None or hasattr(model, name)

    return check


class AutoCluster(
    SaveMixin,
    CallbacksMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Clusters of any shape, their number and their shape found.

    Fits `NeighborCut`, `EllipticalMeans` and `DPMeans` (the last where it could win) and takes the
    one that the data supports: round or long clusters where their evidence is surer, or where they
    explain held-out rows better than a density without clusters does; connected clusters of any
    shape otherwise.

    Parameters
    ----------
    shape : {"auto", "round", "long", "any"}, default="auto"
        "round" is `DPMeans`, "long" `EllipticalMeans`, "any" `NeighborCut`; "auto" chooses.
    n_clusters_hint : int or None
        A rough number of clusters, if you know one.
    effort : float, default=1
        Patience of the searches: 10 is ten times the usual one.
    random_state : int, RandomState or None
        Seed. The result is the same for any `n_jobs`.
    n_jobs : int or None
        Threads; None uses all cores.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
    n_clusters_ : int
    shape_ : {"round", "long", "any"}
        The shape that was chosen.
    model_ : estimator
        The fitted estimator of that shape.
    candidates_ : list of Candidate
        What each shape says: `shape`, `n_clusters` (0 of a shape that was not fitted, because it
        could not win), `strength`, `density` (how well it explains held-out rows, in nats per row
        above "any"; not a number where it was not compared) and `reason`.
    evidence_ : penalties.Choice
    path_ : penalties.Staircase
    objective_ : float
        The objective of `model_`. Objectives of different shapes cannot be compared.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from madbayes import AutoCluster
    >>> X, _ = make_moons(600, noise=0.05, random_state=0)
    >>> model = AutoCluster(random_state=0).fit(X)
    >>> model.n_clusters_, model.shape_
    (2, 'any')
    """

    def __init__(
        self,
        shape: Literal["auto", "round", "long", "any"] = "auto",
        *,
        n_clusters_hint: int | None = None,
        effort: float = 1.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.shape = shape
        self.n_clusters_hint = n_clusters_hint
        self.effort = effort
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_rows, n_columns), or a table of numbers
        y : ignored
        """
        check_choice("shape", self.shape, "auto", *SHAPES)
        forget(self)
        rows = check_rows(self, X)
        shapes = self._shapes(rows)
        models = self._fit_shapes(rows, shapes)  # 1.
        densities = dict.fromkeys(models, np.nan)
        if len(models) > 1:
            few, connected = in_few_columns(rows), models["any"]
            with workers(1):  # the products are small: more threads of BLAS would only wait
                densities = explain(few, {s: model.labels_ for s, model in models.items()})  # 2.
                connected.evidence_ = doubt_single(  # 5.
                    connected.evidence_, few, connected.labels_
                )
            connected.path_ = replace(connected.path_, choice=connected.evidence_)
        able = near_hint(models, self.n_clusters_hint)
        self.shape_ = simplest(able, choose(able, densities))  # 3., 4.
        self.model_ = models[self.shape_]
        self.candidates_ = [candidate(shape, models, densities) for shape in shapes]
        self.evidence_ = with_doubt(models, densities, self.shape_)  # 5.
        self.path_ = replace(self.model_.path_, choice=self.evidence_)
        for name in ("labels_", "n_clusters_", "objective_", "objective_history_", "n_iter_"):
            setattr(self, name, getattr(self.model_, name))
        self.converged_ = self.model_.converged_
        return self

    def _shapes(self, rows: Any) -> list[str]:
        """The shapes that are tried on these rows."""
        if self.shape != "auto":
            return [self.shape]
        if rows.shape[0] < MIN_ROWS:
            return ["round"]
        if sp.issparse(rows) or rows.shape[1] > 30:  # a covariance needs more rows than that
            return ["round", "any"]
        return [*SHAPES]

    def _fit_shapes(self, rows: Any, shapes: list[str]) -> dict[str, Any]:
        """1. The fitted candidates, the simplest shape first."""
        models: dict[str, Any] = {}
        for shape in reversed(shapes):
            if shape == "round" and not round_may_win(rows, models):
                continue
            model = SHAPES[shape](
                n_clusters_hint=self.n_clusters_hint,
                effort=self.effort,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )
            if shape == "long" and sure(models.get("any")):
                # With more clusters than that they are not taken: so many are enough to know it.
                model.set_params(max_clusters=MAX_PIECES * models["any"].n_clusters_ + 1)
            if shape == "round" and self.n_clusters_hint is None and agree_strongly(models):
                model.set_params(n_clusters_hint=models["any"].n_clusters_)
            models[shape] = model.fit(rows)
        return {shape: models[shape] for shape in shapes if shape in models}

    def predict(self, X: Any, novel: bool | float = False) -> np.ndarray:
        """The cluster of each row of X, by the estimator that was chosen.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
        novel : bool or float, default=False
            True or a rate α: -1 for rows that at most a share α of rows like those of the fit
            would reach (True: .001).
        """
        check_is_fitted(self)
        return self.model_.predict(check_rows(self, X, reset=False), novel=novel)

    def novelty_score(self, X: Any) -> np.ndarray:
        """The share of rows like those of the fit that are as far out as each row of X."""
        check_is_fitted(self)
        return self.model_.novelty_score(check_rows(self, X, reset=False))

    def transform(self, X: Any) -> np.ndarray:
        """Distances to the centres, where the chosen clusters have centres."""
        check_is_fitted(self)
        return self.model_.transform(check_rows(self, X, reset=False))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centres, where the chosen clusters have centres."""
        return self.model_.cluster_centers_

    @property
    def cluster_layers_(self) -> list[np.ndarray]:
        """Labels in each layer of the chosen clusters, finest first."""
        return self.model_.cluster_layers_

    @property
    def cluster_tree_(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """The layers as a tree, (layer, cluster): [(layer - 1, cluster), …]."""
        return self.model_.cluster_tree_

    @property
    def probabilities_(self) -> np.ndarray:
        """How surely each row belongs to its own cluster, from 0 to 1."""
        return self.model_.probabilities_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# Outside the class, because scikit-learn wraps the method once the class is made (`set_output`).
AutoCluster.transform = available_if(offers("transform"))(AutoCluster.transform)  # type: ignore[method-assign]


def in_few_columns(rows: Any) -> np.ndarray:
    """Sparse rows as their leading components; dense rows as they are."""
    if not sp.issparse(rows):
        return np.asarray(rows)
    count = min(MAX_COLUMNS, rows.shape[1] - 1, rows.shape[0] - 1)
    if count < 1:
        return rows.toarray()
    return TruncatedSVD(count, random_state=0).fit_transform(rows)


def sure(model: Any) -> bool:
    """Whether there is a model, and its evidence is at least moderate."""
    return model is not None and model.evidence_.strength in WORDS[2:]


def agree_strongly(models: dict[str, Any]) -> bool:
    """Whether connected and long clusters are the same, and strong: then round ones need only be
    looked for near their number."""
    if any(s not in models or models[s].evidence_.strength != "strong" for s in ("long", "any")):
        return False
    return bool(adjusted_rand_score(models["long"].labels_, models["any"].labels_) >= SAME)


def round_may_win(rows: Any, models: dict[str, Any]) -> bool:
    """1. Whether round clusters can be the answer, as far as the other shapes tell.

    They cannot if connected clusters are sure and not about round, nor if neither connected nor
    long clusters are found in so few columns that covariances are no burden.
    """
    if "long" not in models:
        return True
    connected, long = models["any"], models["long"]
    if connected.n_clusters_ == 1:
        return long.n_clusters_ > 1 or rows.shape[1] > MAX_COLUMNS
    if not sure(connected):
        return True
    labels = connected.labels_
    means = np.array([rows[labels == c].mean(axis=0) for c in range(connected.n_clusters_)])
    return bool(adjusted_rand_score(nearest(rows, means), labels) >= 0.9)


def candidate(shape: str, models: dict[str, Any], densities: dict[str, float]) -> Candidate:
    """What a user learns of a shape."""
    if shape not in models:
        reason = "not fitted, because the connected clusters are not round"
        if models["any"].n_clusters_ == 1:
            reason = "not fitted, because neither connected nor long clusters were found"
        return Candidate(shape, 0, "none", -np.inf, reason)
    found = models[shape]
    density = densities.get(shape, np.nan) - densities.get("any", np.nan)
    evidence = found.evidence_
    return Candidate(shape, found.n_clusters_, evidence.strength, density, evidence.reason)


def near_hint(models: dict[str, Any], hint: int | None) -> dict[str, Any]:
    """The models whose number is two thirds to three halves of the hint; all, if none is.

    `NeighborCut` does not join pieces between which it has no links, whatever the hint.
    """
    if hint is None:
        return models
    near = {s: m for s, m in models.items() if 2 / 3 <= m.n_clusters_ / hint <= 3 / 2}
    return near or models


def choose(models: dict[str, Any], densities: dict[str, float]) -> str:
    """3. The shape of the division that the data supports."""

    def surest(shape: str) -> tuple[bool, float]:
        return sure(models[shape]), densities[shape]

    if "any" not in models:
        return max(models, key=surest)
    connected = models["any"]

    def wins(shape: str) -> bool:
        other, gain = models[shape], densities[shape] - densities["any"]
        if sure(connected):
            few = other.n_clusters_ <= MAX_PIECES * connected.n_clusters_
            return sure(other) and few and gain > 0
        clear = gain > CLEAR_GAIN * max(other.n_clusters_ - 1, 1)
        # 0.9: the mean adjusted Rand index with the divisions of halves, of steady clusters
        return sure(other) or (clear and (other.evidence_.agreement or 0.0) >= 0.9)

    winners = [shape for shape in models if shape != "any" and wins(shape)]
    return max(winners, key=surest, default="any")


def simplest(models: dict[str, Any], chosen: str) -> str:
    """4. The simplest shape that gives the same division, as surely."""
    found = models[chosen]
    for shape, model in models.items():
        if shape == chosen:
            break
        as_sure = WORDS.index(model.evidence_.strength) >= WORDS.index(found.evidence_.strength)
        if as_sure and adjusted_rand_score(model.labels_, found.labels_) >= SAME:
            return shape
    return chosen


def with_doubt(models: dict[str, Any], densities: dict[str, float], chosen: str) -> Choice:
    """5. The evidence of the chosen division, weakened by what speaks for another one."""
    choice: Choice = models[chosen].evidence_
    if choice.strength != "strong":
        return choice
    for shape, other in models.items():
        gain = densities[shape] - densities[chosen]
        agreement = adjusted_rand_score(other.labels_, models[chosen].labels_)
        remark = f"{other.n_clusters_} clusters of shape '{shape}' "
        if agreement < AGREE and other.evidence_.strength == "strong":
            remark += "have strong evidence too"
        elif agreement < AGREE and gain > MUCH:
            remark += "explain held-out rows better"
        elif agreement >= SAME and not sure(other) and gain > -MUCH:
            name = type(other).__name__
            remark = f"{name} finds the same clusters and doubts them: {other.evidence_.reason}"
        else:
            continue
        remarks = (*choice.remarks, remark)
        return replace(choice, strength="moderate", support=0.5, remarks=remarks)
    return choice
