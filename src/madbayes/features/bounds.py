"""Which rows may change their features: bounds on how far each is from its own sum and the next.

Rows have 2^K sums of features to choose from. When A moves by D, no sum moves farther than the
longest sum of rows of D; so a row whose second best sum is farther off by more than all such ways
stays, and need not be looked at (Hamerly 2010 does so for centres).
"""

import numpy as np

MOST_BOUND = 8  # features: with more, `longest_sum` costs more than the bounds save
FEW_CHANGES = 0.2  # of the rows: while more change in a pass, bounds cost more than they save


class Bounds:
    """Bounds of all rows, while nothing but A moves from pass to pass."""

    def __init__(self) -> None:
        self.reach = np.empty((0, 2))  # of each row, as in `features.row_kernels.allocate`
        self.moved = 0.0  # the ways of the sum that went farthest, since the bounds began
        self.cost = 0.0  # of the choice of z in the last pass without bounds
        self._A = np.empty((0, 0))
        self._few = False

    def follow(self, A: np.ndarray, n: int) -> bool:
        """To the present A; returns whether only some rows need to be looked at."""
        before, self._A = self._A, A.copy()
        some = self.reach.size > 0 and before.shape == A.shape
        if some:
            self.moved += longest_sum(A - before) * (1 + 1e-9)
        else:  # trees do not tell which z is the second best
            sure = self._few and before.shape == A.shape and len(A) <= MOST_BOUND
            self.reach, self.moved = np.zeros((n if sure else 0, 2)), 0.0
        return some

    def few_changed(self, changed: int, n: int) -> None:
        self._few = changed <= FEW_CHANGES * n

    def forget(self, rows: np.ndarray) -> None:
        """Rows (a mask) that changed in another way."""
        if self.reach.size:
            self.reach[rows, 1] = -np.inf


UNBOUND = Bounds()  # for passes that look at every row


def longest_sum(D: np.ndarray) -> float:
    """The length of the longest of all sums of rows of D."""
    if D.shape[1] > len(D):
        D = np.linalg.qr(D.T)[1].T  # of the same lengths, in fewer columns
    sums = np.zeros((1, D.shape[1]))
    for row in D:
        sums = np.vstack([sums, sums + row])
    return float(np.sqrt((sums**2).sum(axis=1).max()))


def diagonal_part(G: np.ndarray) -> float:
    """The largest c, rounding aside, with c·diag(G) <= G as matrices."""
    root = np.sqrt(np.diag(G))
    if G.shape[0] == 0 or not root.min() > 0:
        return 0.0
    return max(0.0, float(np.linalg.eigvalsh(G / np.outer(root, root))[0]) - 1e-9)
