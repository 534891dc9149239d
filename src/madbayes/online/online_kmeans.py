"""K-means of a stream (PRML Eq. 9.5): the estimator. `stream` has the steps."""

import warnings
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from madbayes._partition.lloyd import nearest
from madbayes._partition.seeding import kmeans_plus_plus
from madbayes._rows.checks import check_choice, check_count
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.kmeans.kmeans import KMeans
from madbayes.online.base import OnlineMixin
from madbayes.online.stream import Rule, Stream


class OnlineKMeans(OnlineMixin):
    """K-means of a stream: each row is looked at once and moves its centre (PRML Eq. 9.5).

    Use it for rows that arrive over time, or that are too many to keep. For a table that fits into
    memory `KMeans` finds lower squared errors, since it can look at rows again.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    init : {"search", "first", "k-means++"} or array of shape (n_clusters, n_features), \
            default="search"
        The first centres. "search": the centres that `KMeans` finds in the first block (its first
        4,096 rows), with the weight of their rows; as "first" where the block has fewer than
        `n_clusters` distinct rows. After smaller blocks, they are found again from the first 4,096
        rows of the stream (fewer from 256 columns on: 2^20 values) as soon as these have come.
        "first": the first `n_clusters` distinct rows of the stream; until then there are fewer
        clusters, and only equal rows share one. "k-means++": rows of X drawn far from each other,
        for `partial_fit` out of the first block, which must be large enough. Drawn or given centres
        weigh nothing: the first row that comes to such a centre replaces it (unless `step` is
        constant).
    step : "mean" or float in (0, 1], default="mean"
        How far a centre moves towards a row. "mean" is w/W, the row's share in the weight of its
        cluster: the centre is the mean of the rows that came to it. A constant follows a drifting
        stream; a row of weight w moves the centre as w equal rows would.
    half_life : float or None
        With ``step="mean"``: the number of rows of the stream after which a row counts half in its
        centre.
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
    counts_ : array of shape (n_clusters_,)
        The weight of the rows that came to each centre; with `half_life`, what is left of it.
    n_clusters_ : int
        `n_clusters`, or less while the stream has had fewer distinct rows.
    n_samples_seen_ : int
        Rows of positive weight so far.
    labels_ : array of shape (n_rows,)
        After `fit`: the nearest of the final centres. After `partial_fit`: the centre that each row
        of the block went to on arrival.
    inertia_, objective_ : float
        Sum of (weighted) squared distances that belongs to `labels_`: after `fit` to the centres in
        the end, after `partial_fit` to those that each row of the block found, which is an honest
        estimate for new rows.
    n_features_in_, feature_names_in_

    Notes
    -----
    There is no `objective_history_`: a row may raise the error of those before it. The result is
    the same to the bit however the rows are cut into blocks, and for a model that was pickled on
    the way (with ``init="search"`` and ``"k-means++"``, given the same first block). It depends on
    the order of the rows and on the start: a centre that no row comes to stays where it is. Memory
    does not grow with the stream; a CSR block is made dense part by part.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import OnlineKMeans
    >>> model = OnlineKMeans(n_clusters=2)
    >>> model.partial_fit([[0.0], [10.0], [2.0]]).cluster_centers_.ravel().tolist()
    [1.0, 10.0]
    >>> model.partial_fit([[1.0], [14.0]]).cluster_centers_.ravel().tolist()
    [1.0, 12.0]
    >>> model.counts_.tolist(), model.predict([[3.0]]).tolist()
    ([3.0, 2.0], [0])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "search",
        step: float | str = "mean",
        half_life: float | None = None,
        n_passes: int = 1,
        order: str = "given",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.step = step
        self.half_life = half_life
        self.n_passes = n_passes
        self.order = order
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start afresh and let the rows of X pass by, `n_passes` times."""
        super().fit(X, y, sample_weight)
        if self.n_clusters_ < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({self.n_clusters_}) found smaller than n_clusters "
                f"({self.n_clusters}). Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check_size(self, n: int) -> None:
        k = check_count("n_clusters", self.n_clusters)
        if k > n:
            raise ValueError(f"n_clusters={k} must be <= n_samples={n}: a cluster needs a row.")

    def _begin(self, X: Any, weight: np.ndarray | None, stream: Stream | None = None) -> Stream:
        k, d = self._rule().cap, X.shape[1]
        if stream is not None:
            return stream
        stream = Stream.empty(k, d)
        if isinstance(self.init, str):
            start = check_choice("init", self.init, "search", "first", "k-means++")
            if start == "search":
                return self._searched(stream, X, weight, k)
            if start == "first":
                return stream
            if k > X.shape[0]:
                raise ValueError(
                    f"n_clusters={k} must be <= n_samples={X.shape[0]}: init='k-means++' draws "
                    "that many rows. Begin with a larger block, or use init='first'."
                )
            with workers(self.n_jobs):
                rng = check_random_state(self.random_state)
                centers = kmeans_plus_plus(Rows(X, weight=weight), k, rng)
        else:
            centers = np.array(self.init, dtype=np.float64)
        if centers.shape != (k, d):
            raise ValueError(
                f"init has shape {centers.shape}, but {k} centres of {d} features are needed: "
                f"{(k, d)}."
            )
        if not np.isfinite(centers).all():
            raise ValueError("init contains NaN or infinity; centres must be finite numbers.")
        stream.centers[:] = stream.exact[:] = centers
        stream.ids[:] = np.arange(k)
        stream.k = stream.opened = k
        return stream

    def _searched(self, stream: Stream, X: Any, weight: np.ndarray | None, k: int) -> Stream:
        """The centres of the first rows by `KMeans`; these rows have passed by then."""
        rows = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
        rows = rows[: self._start_rows(stream)]
        w = np.ones(len(rows)) if weight is None else weight[rows]
        error = self._search(stream, Rows(X).take(rows), w)
        if error is not None:
            stream.seen, stream.passed = len(rows), (rows, error)
        return stream

    def _start_rows(self, stream: Stream) -> int:
        """How many rows the search divides at most; the sample of a stream still holds them all."""
        return min(4096, stream.sample.size)

    def _search(self, stream: Stream, X: np.ndarray, weight: np.ndarray) -> float | None:
        """Let the centres be those that `KMeans` finds in X, the first rows of the stream.

        Returns their squared error, or None where X has fewer different rows than clusters.
        """
        k, half_life, n = len(stream.centers), self._rule().half_life, len(X)
        if n < k or len(np.unique(X, axis=0)) < k:
            return None
        rng = check_random_state(self.random_state)
        model = KMeans(k, algorithm="search", random_state=rng, n_jobs=1)
        model.fit(X, sample_weight=weight)
        if half_life:
            weight = weight * 0.5 ** ((n - 1 - np.arange(n)) / half_life)
        number = np.arange(k)
        if stream.k:  # a centre keeps its number as far as its rows stay together
            shared = np.zeros((k, k))
            np.add.at(shared, (nearest(X, stream.centers[: stream.k]), model.labels_), weight)
            number = linear_sum_assignment(-shared)[1]
        stream.centers[:] = stream.exact[:] = model.cluster_centers_[number]
        stream.weights[:] = np.bincount(model.labels_, weight, minlength=k)[number]
        stream.low[:], stream.last[:], stream.ids[:] = 0.0, n - 1, np.arange(k)
        stream.k = stream.opened = k
        return float(model.inertia_)

    def _follow_block(
        self, stream: Stream, X: Any, weight: np.ndarray | None
    ) -> tuple[np.ndarray, float]:
        """Small first blocks say little about the clusters: search again after enough rows."""
        left = self._start_rows(stream) - stream.seen
        counted = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
        searches = isinstance(self.init, str) and self.init == "search" and stream.passed is None
        if not (searches and 0 < left <= counted.size):
            return self._follow(stream, X, weight)
        cut = int(counted[left - 1]) + 1
        before, after = (None, None) if weight is None else (weight[:cut], weight[cut:])
        labels, error = self._follow(stream, X[:cut], before)
        sample = stream.sample
        with workers(1):
            self._search(stream, sample.rows[: sample.held], sample.weight[: sample.held])
        if cut == X.shape[0]:
            return labels, error
        more, rest = self._follow(stream, X[cut:], after)
        return np.concatenate([labels, more]), error + rest

    def _rule(self) -> Rule:
        step, half_life = self._steps()
        cap = check_count("n_clusters", self.n_clusters)
        return Rule(0.0, cap, step, half_life, False)
