"""What the two online estimators share: `fit` is `partial_fit` of all rows, labels at the end."""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from madbayes._model.centers import CentersMixin
from madbayes._rows.checks import check_choice, check_count
from madbayes._rows.frame import check_reach, measure_to_fit
from madbayes._rows.reservoir import ROWS
from madbayes._rows.rows import Rows
from madbayes._rows.threads import workers
from madbayes.online.stream import Rule, Stream, follow


class OnlineMixin(CentersMixin, ABC):
    """Base of `OnlineKMeans` and `OnlineDPMeans`."""

    _reads_blocks = True
    _stream: Stream
    step: float | str
    half_life: float | None
    n_passes: int
    order: str
    random_state: Any

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start afresh and let the rows of X pass by, `n_passes` times."""
        X, weight = self._rows_to_fit(X, sample_weight)
        check_choice("order", self.order, "given", "random")
        n_passes = check_count("n_passes", self.n_passes)
        random_state = check_random_state(self.random_state)
        self._check_size(X.shape[0])
        self.__dict__.pop("_stream", None)  # if this fails, the old one must not go on
        stream = self._begin(X, weight)
        for _ in range(n_passes):
            shuffled = self.order == "random"
            permutation = random_state.permutation(X.shape[0]) if shuffled else None
            self._follow(stream, X, weight, permutation)
        self._publish(stream, X)
        places, self.inertia_ = self._assign(X, weight)
        self.labels_ = self._names(places)
        self._store_history()
        self._calibrate_stream(X, places, weight)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Let the rows of X pass by, after those of the calls before."""
        first = not hasattr(self, "_stream")
        X, weight = self._rows_to_fit(X, sample_weight, reset=first)
        stream = self._begin(X, weight, None if first else self._stream)
        labels, error = self._follow_block(stream, X, weight)
        self._publish(stream, X)
        early = np.flatnonzero(labels < 0)  # rows of weight 0 before the first cluster
        if early.size:
            labels[early] = self._names(self._assign(X[early], None)[0])
        self.labels_, self.inertia_ = labels.astype(np.int32), error
        self._store_history()
        return self

    def _store_history(self) -> None:
        """Rows pass by: there is one objective, that of the end."""
        self.objective_ = self.inertia_ + self._price()
        self.objective_history_ = np.array([self.objective_])
        self.n_iter_, self.converged_ = int(self.n_passes), True

    def _check_size(self, n: int) -> None:
        """Are n rows enough for `fit`?"""

    @abstractmethod
    def _begin(self, X: Any, weight: np.ndarray | None, stream: Stream | None = None) -> Stream:
        """Check the parameters, and start a stream with X unless there is one."""

    @abstractmethod
    def _rule(self) -> Rule:
        """The rule that each row follows."""

    def _options(self) -> dict[str, int]:
        return {}

    def _price(self) -> float:
        """What the clusters cost, besides the squared error."""
        return 0.0

    def _names(self, places: np.ndarray) -> np.ndarray:
        """The labels of clusters, by their places in `cluster_centers_`."""
        return places

    def _novelty_table(self) -> tuple[np.ndarray, np.ndarray]:
        """After `partial_fit`: made when it is asked for, from the sample of the stream."""
        if not hasattr(self, "novelty_quantiles_"):
            rows, weight = self._kept_rows()
            self._calibrate_stream(rows, self._assign(rows, None)[0], weight)
        return super()._novelty_table()

    def _kept_rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        """A sample of the stream, and its weights."""
        sample = self._stream.sample
        return sample.rows[: sample.held], sample.weight[: sample.held]

    def _calibrate_stream(self, X: Any, places: np.ndarray, weight: np.ndarray | None) -> None:
        w = np.ones(len(places)) if weight is None else weight
        here = np.bincount(places, w, minlength=self.n_clusters_)
        self._calibrate(X, places, weight, total=np.maximum(self.counts_, here))

    def _follow_block(
        self, stream: Stream, X: Any, weight: np.ndarray | None
    ) -> tuple[np.ndarray, float]:
        """The labels and the squared error of the rows of one block on arrival."""
        return self._follow(stream, X, weight)

    def _follow(
        self,
        stream: Stream,
        X: Any,
        weight: np.ndarray | None,
        permutation: np.ndarray | None = None,
    ) -> tuple[np.ndarray, float]:
        rule, options = self._rule(), self._options()
        weight = np.ones(X.shape[0]) if weight is None else np.array(weight)
        weight = weight if permutation is None else weight[permutation]
        source = Rows(X, permutation, unit=rule.unit, weight=weight)
        labels, error, moving = np.empty(source.n, np.int64), 0.0, weight
        if stream.passed is not None:  # rows that the centres come from: only labels are wanted
            rows, error = stream.passed
            passed = np.isin(np.arange(source.n) if permutation is None else permutation, rows)
            moving, stream.passed = np.where(passed, 0.0, weight), None
        with workers(1):
            frame = measure_to_fit(source)
            if not rule.unit:
                check_reach(stream.centers[: stream.k], frame, source.d)
            for a, b, block in source.blocks(0, source.n):
                rows = np.ascontiguousarray(block, np.float64)
                rows.flags.writeable = False
                recent = rule.half_life or (ROWS if rule.step else 0.0)
                stream.sample.add(rows, weight[a:b], stream.seen, recent)
                labels[a:b], part = follow(stream, rows, moving[a:b], rule, **options)
                error += part
        return labels, error

    def _steps(self) -> tuple[float, float]:
        """(step, half_life), 0 where there is none."""
        step, half_life = self.step, self.half_life
        constant = isinstance(step, Real) and not isinstance(step, bool) and 0 < step <= 1
        if not constant and step != "mean":
            raise ValueError(
                f"step={step!r} must be 'mean' or a number in (0, 1]: how far a centre moves "
                "towards a row."
            )
        if half_life is None:
            return (float(step) if constant else 0.0), 0.0
        if (
            isinstance(half_life, bool)
            or not isinstance(half_life, Real)
            or not 0 < half_life < np.inf
        ):
            raise ValueError(
                f"half_life={half_life!r} must be a number > 0, of rows after which a row counts "
                "half, or None."
            )
        if constant:
            raise ValueError(
                f"step={step!r} and half_life={half_life!r} are two ways to follow a stream that "
                "drifts: give one of them, or half_life with step='mean'."
            )
        return 0.0, float(half_life)

    def _publish(self, stream: Stream, X: Any) -> None:
        """The state of the stream under its public names."""
        self._stream, k = stream, stream.k
        self._store_centers(stream.centers[:k].copy(), Rows(X).dtype)
        self.counts_ = stream.decayed(self._rule().half_life, stream.seen)
        self.n_clusters_ = k
        self.n_samples_seen_ = stream.seen
        self._forget_novelty()
