"""Features that go on the way they came, the farther the longer that has gone well."""

import numpy as np

from madbayes.features.allocation import Allocation


class Ahead:
    """Between `refit` and the next pass (Nesterov 1983), as `_partition.lloyd.follow` does it.

    On noise passes are hundreds of small steps the same way.
    """

    def __init__(self) -> None:
        self.pull, self._age, self._old = 0.0, 1.0, np.empty((0, 0))

    def go_on(self, state: Allocation, far: bool) -> None:
        """`far`: it went too far; on from where the rows are."""
        A, same = state.A, state.A.shape == self._old.shape
        older = self._age if same and not far else 1.0
        self._age = 0.5 + (0.25 + older * older) ** 0.5
        self.pull = (older - 1.0) / self._age
        if self.pull > 0.0:
            state.move(self.pull * (A - self._old))
        self._old = A
