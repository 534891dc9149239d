"""Numbers that compiled code is built with."""

import numpy as np

# Factors that cover the rounding of a bound that is kept in float32.
UP = 1.0 + 2.0**-21
DOWN = 1.0 - 2.0**-21
UP32, DOWN32, ZERO32 = np.float32(UP), np.float32(DOWN), np.float32(0.0)

# What the vector code handles at a time.
PANEL = 16  # centres side by side
BUNCH = 4  # rows
