"""What the search asks of a model: the protocol of a *space*.

A space holds rows and a price (`price.py`). It says what a division of the rows costs and how rows
and clusters move. The driver knows nothing else of a model, so a model joins the search by adding
a space. `kmeans/dense_space.py` is the one to read first; `tests/_search/test_spaces.py` runs the
same conformance tests over the spaces of rows, groups and kernels.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from madbayes._search.division import Division
from madbayes._search.price import Price

Step = Callable[[Any], Any]  # from a division to one that is not above it


class Descent(Protocol):
    """Rows, what a division of them costs, and moves that never raise the cost."""

    @property
    def price(self) -> Price: ...

    @property
    def n(self) -> int:
        """Rows."""

    def division(self, labels: np.ndarray) -> Any:
        """The division by `labels`. Numbers without rows are dropped."""

    def moves(self) -> Sequence[Step]:
        """Moves that never raise the objective, in the order in which they are tried."""

    def part(self, rows: np.ndarray, cap: int) -> Any:
        """The space of some of the rows (ascending), with at most `cap` clusters."""

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        """True if it is certain that no division of these rows costs less than one cluster."""


class Space(Descent, Protocol):
    """Everything that `driver.search` calls."""

    @property
    def values(self) -> int:
        """Rows × columns: the size by which the search sets its patience."""

    @property
    def neighbours(self) -> int:
        """Clusters in a neighbourhood that is solved anew. 0: step 4 is left out."""

    @property
    def passes(self) -> float:
        """The budget of step 4: passes of all rows over all centres."""

    @property
    def counts(self) -> bool:
        """Whether `relax` returns how many passes it took. If not, an estimate is used."""

    @property
    def redraw_any(self) -> bool:
        """Whether step 4 also re-draws any number of centres now and then."""

    @property
    def tries(self) -> int:
        """Starts from which the search descends."""

    def first_centers(self, rng: np.random.RandomState) -> Iterable[np.ndarray]:
        """Centres to start from, the most promising ones first."""

    def settle(self, centers: np.ndarray) -> Division:
        """The division that these centres lead to."""

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        """Rows far from each other, as centres; fewer than `count` where rows are equal."""

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        """The centres with up to `most` of them removed, and about as many drawn anew."""

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        """Labels and objective after quick moves that start from the nearest of `centers`, and how
        many passes of all rows over one centre this took.

        It may give up where the objective will hardly come below `limit`, or where the labels come
        back to `known`.
        """

    def sample(self, size: int, rng: np.random.RandomState) -> Any:
        """A space of about `size` rows that stands for this one."""


@runtime_checkable
class Halving(Protocol):
    """A space whose parts cannot say whether a split pays: each cluster is halved, then judged."""

    def merge_halves(self, now: Any) -> Any:
        """The division after all merges that save more than they cost."""


@runtime_checkable
class Crossing(Protocol):
    """Divisions that can be combined with each other."""

    def new_start(self, k: int, rng: np.random.RandomState) -> Division:
        """A division into k clusters that owes nothing to those found so far."""

    def cross(self, one: Division, other: Division, k: int) -> Division:
        """The clusters around the centres of both divisions, merged down to k."""

    def lloyd_until(self, now: Division, gain: float) -> Division:
        """The division after Lloyd's passes; the last pass lowers the error by less than the share
        `gain`."""


class CrossingSpace(Space, Crossing, Protocol):
    """A space with combinations."""
