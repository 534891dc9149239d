"""The protocol of a *space*: the methods of a model that the search calls.

A space holds rows and a price (`price.py`). It computes the cost of a division of the rows and
moves rows and clusters. The driver calls nothing else of a model, so a new model takes part in the
search by adding a space. Read `kmeans/dense_space.py` first; `tests/_search/test_spaces.py` runs
one set of conformance tests over the spaces of rows, groups and kernels.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from madbayes._search.division import Division
from madbayes._search.price import Price

Step = Callable[[Any], Any]  # takes a division, returns one whose objective is not higher


class Descent(Protocol):
    """Rows, the cost of a division of the rows, and moves that never raise this cost."""

    @property
    def price(self) -> Price: ...

    @property
    def n(self) -> int:
        """Number of rows."""

    def division(self, labels: np.ndarray) -> Any:
        """The division by `labels`. Cluster numbers that no row has are dropped."""

    def moves(self) -> Sequence[Step]:
        """Moves that never raise the objective, in the order in which they are tried."""

    def part(self, rows: np.ndarray, cap: int) -> Any:
        """The space of these rows (numbers in ascending order), with at most `cap` clusters."""

    def indivisible(self, rows: np.ndarray, center: np.ndarray) -> bool:
        """True if the rows certainly cost least as one cluster, so that no split need be tried."""


class Space(Descent, Protocol):
    """Everything that `driver.search` calls."""

    @property
    def values(self) -> int:
        """Rows × columns. The more values there are, the fewer trials the search makes."""

    @property
    def neighbours(self) -> int:
        """Number of clusters in a neighbourhood of step 4. 0: the search leaves out step 4."""

    @property
    def passes(self) -> float:
        """The budget of step 4, as a number of passes that compare all rows with all centres."""

    @property
    def counts(self) -> bool:
        """Whether `relax` counts its passes. If not, step 4 estimates them."""

    @property
    def redraw_any(self) -> bool:
        """Whether every third trial of step 4 may re-draw any number of centres."""

    @property
    def tries(self) -> int:
        """Number of starts from which the search descends."""

    def first_centers(self, rng: np.random.RandomState) -> Iterable[np.ndarray]:
        """Centres to start from, the most promising ones first."""

    def settle(self, centers: np.ndarray) -> Division:
        """The division that gives each row to the nearest of these centres."""

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        """`count` rows far from each other, as centres; fewer if fewer rows are different."""

    def redraw(self, centers: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
        """The centres after up to `most` were removed and about as many new ones were drawn."""

    def relax(
        self, centers: np.ndarray, limit: float = np.inf, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        """Assign each row to the nearest of `centers`, then improve the division by quick moves.

        Returns labels, objective and the number of passes that compare all rows with one centre.
        `relax` may stop early when the objective will hardly fall below `limit`, or when the
        labels become those of `known`.
        """

    def sample(self, size: int, rng: np.random.RandomState) -> Any:
        """A space of about `size` rows, weighted so that they represent all rows."""


@runtime_checkable
class Halving(Protocol):
    """A space in which the gain of a split cannot be computed from the rows of one cluster alone.

    The driver splits every cluster in two; `merge_halves` takes back the splits that do not pay.
    """

    def merge_halves(self, now: Any) -> Any:
        """The division after all merges that lower the objective."""


@runtime_checkable
class Crossing(Protocol):
    """Divisions that can be combined with each other."""

    def new_start(self, k: int, rng: np.random.RandomState) -> Division:
        """A division into k clusters that does not use any division found so far."""

    def cross(self, one: Division, other: Division, k: int) -> Division:
        """Assign the rows to the centres of both divisions, then merge down to k clusters."""

    def lloyd_until(self, now: Division, gain: float) -> Division:
        """The division after Lloyd's passes, which end when a pass lowers the error by less than
        the share `gain` of the error."""


class CrossingSpace(Space, Crossing, Protocol):
    """A space whose divisions can be combined with each other."""
