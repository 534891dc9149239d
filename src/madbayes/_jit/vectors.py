"""Small loops that decide the speed of an assignment, for vectors of the processor.

A matrix product copies both factors into an order of its own before it starts. Where few rows meet
few centres, as bounds make it, the copies take as long as the product. Centres are the same for a
whole pass, so they are put into panels once: PANEL of them side by side, column by column
(`_partition/prepared_centers.py`). Then a bunch of rows, wherever they are, meets some panels
without copies, and only the two smallest scores of each row are written.

The functions here are plain loops that say what is computed. `numba_internals.py` holds the same
functions as LLVM instructions. Those are used where they can be; tests compare the two.
"""

import numpy as np
from numba import config

from madbayes._jit import inner, internals
from madbayes._jit.constants import BUNCH, DOWN32, LANES, PANEL, ZERO32

__all__ = ["BUNCH", "LANES", "PANEL", "compare", "loosen"]


def plain_compare(panels, half, panel, last, rows, chosen, first, low1, low2, place):
    """Rows chosen[first : first + BUNCH] meet the panels from `panel` to before `last`: the two
    smallest of half - products go to low1 and low2 from `first` on, and to `place` goes which
    centre has the smallest."""
    for b in range(first, first + BUNCH):
        i = chosen[b]
        lowest = after = np.float32(np.inf)
        where = 0
        for p in range(panel, last):
            for c in range(PANEL):
                product = np.float32(0.0)
                for j in range(rows.shape[1]):
                    product += rows[i, j] * panels[p, j, c]
                score = half[p, c] - product
                if score < lowest:
                    lowest, after, where = score, lowest, p * PANEL + c
                elif score < after:
                    after = score
        low1[b], low2[b], place[b] = lowest, after, where


def plain_loosen(lower, since, i, drifts, own, lines, a):
    """The lower bounds of row i, each from a pass of its own (`since`), after the drift of the
    centres: in lines[a]. Returns the lowest, group `own` left out."""
    lowest = np.float32(np.inf)
    for g in range(lower.shape[1]):
        bound = max(ZERO32, lower[i, g] - drifts[since[i, g], g]) * DOWN32
        lines[a, g] = bound
        if g != own and bound < lowest:
            lowest = bound
    return lowest


if config.DISABLE_JIT:
    compare, loosen = plain_compare, plain_loosen
elif internals is None:
    compare, loosen = inner(plain_compare), inner(plain_loosen)
else:
    compare, loosen = internals.fast_compare, internals.fast_loosen
