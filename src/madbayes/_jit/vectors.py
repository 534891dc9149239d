"""The loop that decides the speed of an assignment, for vectors of the processor.

A matrix product copies both factors into an order of its own before it starts. Where few rows meet
few centres, as bounds make it, the copies take as long as the product. Centres are the same for a
whole pass, so they are put into panels once: PANEL of them side by side, column by column
(`_partition/prepared_centers.py`). Then a bunch of rows, wherever they are, meets some panels
without copies, and only the two smallest scores of each row are written.

`plain_compare` is a plain loop that says what is computed. `numba_internals.py` holds the same
function as LLVM instructions. It is used where it can be; tests compare the two.
"""

import numpy as np
from numba import config

from madbayes._jit import inner, internals
from madbayes._jit.constants import BUNCH, PANEL

__all__ = ["BUNCH", "PANEL", "compare"]


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


if config.DISABLE_JIT:
    compare = plain_compare
elif internals is None:
    compare = inner(plain_compare)
else:
    compare = internals.fast_compare
