"""DP-means of a stream (PRML Eq. 9.5; KJ Algorithm 1): the estimator. `stream` has the steps."""

from typing import Any, Literal, Self

import numpy as np

from madbayes._model.fitting import AUTOMATIC, Options, begin, keep_choice
from madbayes._model.layers import keep_layers
from madbayes._partition.lloyd import nearest
from madbayes._rows.blocks import rows_at_once
from madbayes._rows.checks import check_count
from madbayes._rows.frame import measure_to_fit
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.kmeans.farthest import largest_gap
from madbayes.online.auto import Summary, add_rows, is_due, refresh
from madbayes.online.base import OnlineMixin
from madbayes.online.stream import Rule, Stream


class OnlineDPMeans(OnlineMixin):
    """DP-means of a stream: a row that is too far from every centre opens a cluster.

    Use it for rows that arrive over time when the number of clusters is not known and old clusters
    must keep their numbers. By default (``penalty="auto"``) it is what `DPMeans` would answer on
    all rows so far, from a bounded summary of them, which is brought up to date as rows come.

    With a number as penalty it is the plain rule of the papers, row by row: a cluster is opened
    where **one row** is farther than √`penalty` from every centre, so think of `penalty` as the
    square of a radius. That is another scale than in `DPMeans`, whose search opens what a whole
    group of rows repays.

    Parameters
    ----------
    penalty : float, "auto" or "farthest-first", default="auto"
        "auto": see Notes. A number: a row of weight w opens a cluster where w times its squared
        distance to the nearest centre is more than this. "farthest-first" derives it from
        `n_clusters_hint` and the rows of `fit`, or of the first block (KJ 6.1).
    n_clusters_hint : int or None
        A rough number of clusters, for "auto" and "farthest-first".
    max_clusters : int or None
        Never more clusters than this: then every row goes to the nearest. It bounds the memory.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" looks at directions only: rows are brought to length 1 and so are the centres, and
        the squared distance is 2(1 - cos). So `penalty` lies between 0 and 4 (spherical k-means,
        Dhillon & Modha 2001; DP-vMF-means, Straub et al. 2015). Rows of zeros are left out, with a
        warning.
    effort : float, default=1
        For "auto": so many times the usual patience of the search.
    step : "mean" or float in (0, 1], default="mean"
        Not for "auto": how far a centre moves towards a row. "mean" is w/W, the row's share in the
        weight of its cluster: the centre is the mean of the rows that came to it. A constant
        follows a drifting stream; a row of weight w moves the centre as w equal rows would.
    half_life : float or None
        With ``step="mean"``: after so many rows of the stream, a row counts half in its centre;
        with "auto", half in everything.
    merge_every : int or None
        Not for "auto": every so many rows, merge clusters while this costs less squared error than
        the penalty it saves (with the weights in `counts_`). The older one keeps its number. Not
        for the cosine.
    forget_after : int or None
        Not for "auto": forget a cluster that got none of the last so many rows. Its number is not
        used again.
    n_passes : int, default=1
        For `fit`: how often the rows pass by.
    order : {"given", "random"}, default="given"
        For `fit`: the order of the rows, drawn anew for each pass.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Threads for labels; None uses all cores. The stream itself is serial.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features)
    cluster_ids_ : array of shape (n_clusters_,)
        The number of each row of `cluster_centers_`, in ascending order: 0, 1, 2, … unless clusters
        were merged or forgotten. `labels_` and `predict` speak of these.
    counts_ : array of shape (n_clusters_,)
        The weight of the rows that came to each centre; with `half_life`, what is left of it.
    n_clusters_ : int
    n_samples_seen_ : int
        Rows of positive weight so far.
    penalty_ : float
    evidence_, path_ : penalties.Choice, penalties.Staircase
        With "auto": how many clusters and how sure, as of the last time it was asked.
    labels_ : array of shape (n_rows,)
        After `fit` the nearest centre in the end; after `partial_fit` the cluster that each row of
        the block went to on arrival, even if that is gone since.
    inertia_ : float
        Sum of (weighted) squared distances that belongs to `labels_`: after `fit` to the centres in
        the end, after `partial_fit` to those that each row of the block found.
    objective_ : float
        `inertia_` plus `penalty_` times `n_clusters_`.
    n_features_in_, feature_names_in_

    Notes
    -----
    *"auto"* keeps a sample of 8,192 rows, at most 4,096 rows that wait, and 512 small clusters (16
    for each cluster, if that is more), whatever the length of the stream. The sample tells how many
    clusters there are; the small clusters, with their weights, where. It is asked again whenever
    the rows have doubled (with `half_life`: after half of it), at the end of a block, and `fit`
    asks at the end. `labels_` of a block are the nearest clusters at its end.

    With a number the result is the same to the bit however the rows are cut into blocks (with
    "farthest-first", given the same first block), and for a model that was pickled on the way. It
    depends on the order of the rows. Memory grows with the clusters, not with the stream; a CSR
    block is made dense part by part.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import OnlineDPMeans
    >>> model = OnlineDPMeans(penalty=9.0)
    >>> model.partial_fit([[0.0], [1.0], [20.0]]).labels_.tolist()
    [0, 0, 1]
    >>> model.partial_fit([[22.0], [50.0]]).cluster_centers_.ravel().tolist()
    [0.5, 21.0, 50.0]
    >>> model.predict([[2.0], [30.0]], novel="paper").tolist()
    [0, -1]
    """

    def __init__(
        self,
        penalty: float | Literal["auto", "farthest-first"] = "auto",
        *,
        n_clusters_hint: int | None = None,
        max_clusters: int | None = None,
        metric: Literal["euclidean", "cosine"] = "euclidean",
        effort: float = 1.0,
        step: float | Literal["mean"] = "mean",
        half_life: float | None = None,
        merge_every: int | None = None,
        forget_after: int | None = None,
        n_passes: int = 1,
        order: str = "given",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.n_clusters_hint = n_clusters_hint
        self.max_clusters = max_clusters
        self.metric = metric
        self.effort = effort
        self.step = step
        self.half_life = half_life
        self.merge_every = merge_every
        self.forget_after = forget_after
        self.n_passes = n_passes
        self.order = order
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _predict(self, X: Any, novel: Any, **how: Any) -> np.ndarray:
        return self._names(super()._predict(X, novel, **how))

    def _names(self, places: np.ndarray) -> np.ndarray:
        return np.where(places < 0, -1, self.cluster_ids_[places]).astype(np.int32)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start afresh and let the rows of X pass by, `n_passes` times."""
        options = begin(self, "auto", "farthest-first")
        if options.penalty != "auto":
            self.__dict__.pop("_summary", None)
            return super().fit(X, sample_weight=sample_weight)
        for name in ("_stream", "_summary"):
            self.__dict__.pop(name, None)
        X, weight = self._rows_for_auto(X, sample_weight)
        for _ in range(check_count("n_passes", self.n_passes)):
            order = np.arange(X.shape[0])
            if self.order == "random":
                order = options.random_state.permutation(X.shape[0])
            self._take_in(X, weight, order, options)
        self._bring_up_to_date(options, X)
        return self._finish(X, weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Let the rows of X pass by, after those of the calls before."""
        if self.penalty != "auto":
            return super().partial_fit(X, sample_weight=sample_weight)
        first = not hasattr(self, "_summary")
        kept = {name: vars(self)[name] for name in AUTOMATIC if name in vars(self)}
        options = begin(self, "auto", "farthest-first")
        self.__dict__.update(kept)
        X, weight = self._rows_for_auto(X, sample_weight, reset=first)
        self._take_in(X, weight, np.arange(X.shape[0]), options)
        if is_due(self._summary) or first:
            self._bring_up_to_date(options, X)
        else:
            self._publish_summary(X)
        return self._finish(X, weight)

    # "auto"

    def _rows_for_auto(
        self, X: Any, sample_weight: Any, *, reset: bool = True
    ) -> tuple[Any, np.ndarray]:
        X, weight = self._rows_to_fit(X, sample_weight, reset=reset)
        for name, default in (("step", "mean"), ("merge_every", None), ("forget_after", None)):
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for a penalty given as a number; with "
                    "penalty='auto' use half_life to follow a stream that changes."
                )
        return X, np.ones(X.shape[0]) if weight is None else weight

    def _take_in(self, X: Any, weight: np.ndarray, order: np.ndarray, options: Options) -> None:
        if not hasattr(self, "_summary"):
            seed = np.random.RandomState(options.random_state.randint(2**31 - 1))
            self._summary = Summary(X.shape[1], self._unit, self._steps()[1], seed)
        source = Rows(X, unit=self._unit, weight=weight)
        order = order[weight[order] > 0]
        step = rows_at_once(source.d)
        with workers(self.n_jobs):
            measure_to_fit(source)  # complains about values that cannot be squared
            for a in range(0, len(order), step):
                rows = order[a : a + step]
                add_rows(self._summary, source.take(rows), weight[rows])

    def _bring_up_to_date(self, options: Options, X: Any) -> None:
        with workers(self.n_jobs):
            path, self.penalty_, _ = refresh(
                self._summary, options.cap, options.hint, options.effort
            )
        keep_choice(self, path, len(self._summary.centers), self.penalty_)
        self._publish_summary(X)

    def _publish_summary(self, X: Any) -> None:
        summary = self._summary
        self._store_centers(summary.centers.copy(), Rows(X).dtype)
        self.cluster_ids_ = summary.ids.copy()
        self.n_clusters_ = len(summary.centers)
        self.n_samples_seen_ = summary.seen
        with workers(1):
            labels = nearest(summary.points, summary.centers)
        self.counts_ = np.bincount(labels, summary.weights, minlength=self.n_clusters_)
        self._forget_novelty()

    def _kept_rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        return (self._summary.sample, None) if self.penalty == "auto" else super()._kept_rows()

    def _finish(self, X: Any, weight: np.ndarray) -> Self:
        places, self.inertia_ = self._assign(X, weight)
        self.labels_ = self._names(places)
        self._store_history()
        keep_layers(self, X, places, weight)
        return self

    def _places(self) -> np.ndarray:
        order = np.argsort(self.cluster_ids_, kind="stable")
        return order[np.searchsorted(self.cluster_ids_[order], self.labels_)]

    def _begin(self, X: Any, weight: np.ndarray | None, stream: Stream | None = None) -> Stream:
        options = begin(self, "auto", "farthest-first")
        if self._unit and self.merge_every is not None:
            raise ValueError(
                f"merge_every={self.merge_every!r} merges by squared error, which metric='cosine' "
                "does not have. Use merge_every=None, or normalized rows and metric='euclidean'."
            )
        if options.penalty != "farthest-first":
            self.penalty_ = options.penalty
        elif stream is None:
            with workers(self.n_jobs):
                source = Rows(X, unit=self._unit, weight=weight)
                self.penalty_ = largest_gap(source, options.hint or 1)
        return stream or Stream.empty(min(16, self._rule().cap), X.shape[1])

    def _rule(self) -> Rule:
        step, half_life = self._steps()
        cap = np.iinfo(np.int64).max
        if self.max_clusters is not None:
            cap = check_count("max_clusters", self.max_clusters)
        return Rule(self.penalty_, int(cap), step, half_life, self._unit)

    def _options(self) -> dict[str, int]:
        options = {"merge_every": self.merge_every, "forget_after": self.forget_after}
        return {
            name: check_count(name, value, why="It counts rows; None switches it off.")
            for name, value in options.items()
            if value is not None
        }

    def _price(self) -> float:
        return self.penalty_ * self.n_clusters_

    def _publish(self, stream: Stream, X: Any) -> None:
        super()._publish(stream, X)
        self.cluster_ids_ = stream.ids[: stream.k].copy()
