"""DP-means of a stream (PRML Eq. 9.5; KJ Algorithm 1): the estimator. `online` has the steps."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._engine.checks import check_count, check_hint, check_penalty
from madbayes._engine.rows import Rows
from madbayes._engine.threads import workers
from madbayes.cluster.farthest import largest_gap
from madbayes.cluster.online import OnlineMixin, Rule, Stream

OR_A_NUMBER = " Or give penalty as a number: the square of how far a row may be from a centre."


class OnlineDPMeans(OnlineMixin):
    """DP-means of a stream: a row that is too far from every centre opens a cluster.

    Use it for rows that arrive over time when the number of clusters is not known and old clusters
    must keep their numbers. A cluster is opened where **one row** is farther than √`penalty` from
    every centre: think of `penalty` as the square of a radius. That is another scale than in
    `DPMeans`, whose search opens what a whole group of rows repays; for a table that fits into
    memory that one is better.

    Parameters
    ----------
    penalty : float or "farthest-first", default="farthest-first"
        A row of weight w opens a cluster where w times its squared distance to the nearest centre
        is more than this. "farthest-first" derives it from `n_clusters_hint` and the rows of `fit`,
        or of the first block (KJ 6.1).
    n_clusters_hint : int or None
        A rough number of clusters, for "farthest-first".
    max_clusters : int or None
        Never more clusters than this: then every row goes to the nearest. It bounds the memory.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" looks at directions only: rows are brought to length 1 and so are the centres, and
        the squared distance is 2(1 - cos). So `penalty` lies between 0 and 4 (spherical k-means,
        Dhillon & Modha 2001; DP-vMF-means, Straub et al. 2015). Rows of zeros are left out, with a
        warning.
    step : "mean" or float in (0, 1], default="mean"
        How far a centre moves towards a row. "mean" is w/W, the row's share in the weight of its
        cluster: the centre is the mean of the rows that came to it. A constant follows a drifting
        stream; a row of weight w moves the centre as w equal rows would.
    half_life : float or None
        With ``step="mean"``: after so many rows of the stream, a row counts half in its centre.
    merge_every : int or None
        Every so many rows, merge clusters while this costs less squared error than the penalty it
        saves (with the weights in `counts_`). The older one keeps its number. Not for the cosine.
    forget_after : int or None
        Forget a cluster that got none of the last so many rows. Its number is not used again.
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
    The result is the same to the bit however the rows are cut into blocks (with "farthest-first",
    given the same first block), and for a model that was pickled on the way. It depends on the
    order of the rows. Memory grows with the clusters, not with the stream; a CSR block is made
    dense part by part.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import OnlineDPMeans
    >>> model = OnlineDPMeans(penalty=9.0)
    >>> model.partial_fit([[0.0], [1.0], [20.0]]).labels_.tolist()
    [0, 0, 1]
    >>> model.partial_fit([[22.0], [50.0]]).cluster_centers_.ravel().tolist()
    [0.5, 21.0, 50.0]
    >>> model.predict([[2.0], [30.0]], novel=True).tolist()
    [0, -1]
    """

    def __init__(
        self,
        penalty: float | str = "farthest-first",
        *,
        n_clusters_hint: int | None = None,
        max_clusters: int | None = None,
        metric: str = "euclidean",
        step: float | str = "mean",
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
        self.step = step
        self.half_life = half_life
        self.merge_every = merge_every
        self.forget_after = forget_after
        self.n_passes = n_passes
        self.order = order
        self.random_state = random_state
        self.n_jobs = n_jobs

    def predict(self, X: Any, novel: bool = False) -> np.ndarray:
        """The number (`cluster_ids_`) of the nearest centre for each row of X.

        With ``novel=True``, -1 where the squared distance to it is more than `penalty_`: such a row
        would open a cluster.
        """
        check_is_fitted(self)
        places = self._nearest(X, penalty=self.penalty_ if novel else None)[0]
        return np.where(places < 0, -1, self.cluster_ids_[places])

    def _label(self, X: Any, weight: np.ndarray | None) -> tuple[np.ndarray, float]:
        places, error = self._assign(X, weight)
        return self.cluster_ids_[places], error

    def _begin(self, X: Any, weight: np.ndarray | None, stream: Stream | None = None) -> Stream:
        penalty = check_penalty(self.penalty, "farthest-first")
        if self._unit and self.merge_every is not None:
            raise ValueError(
                f"merge_every={self.merge_every!r} merges by squared error, which metric='cosine' "
                "does not have. Use merge_every=None, or normalized rows and metric='euclidean'."
            )
        if penalty != "farthest-first":
            self.penalty_ = penalty
        elif stream is None:
            hint = check_hint(self.n_clusters_hint, OR_A_NUMBER)
            with workers(self.n_jobs) as run:
                source = Rows(X, unit=self._unit)
                self.penalty_ = largest_gap(source, weight, hint, run, unit=self._unit)
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
