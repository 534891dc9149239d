"""Factors that cover the rounding of a bound that is kept in float32."""

import numpy as np

UP = 1.0 + 2.0**-21
DOWN = 1.0 - 2.0**-21
UP32, DOWN32, ZERO32 = np.float32(UP), np.float32(DOWN), np.float32(0.0)
