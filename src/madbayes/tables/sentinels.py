"""Numbers that stand for "no answer": 99, 999, 9999, -1, -999, far from all other values.

A value is taken for one only where it cannot well be a measurement (`docs/guide/tables.md`):

1. It is one of `CODES` and lies farther from the nearest other value than the other values are
   apart from each other (9999 beside 0 to 100; 99 beside answers from 1 to 5); or
2. it occurs three times or more, and that distance is at least a quarter of the others' range
   (99 beside ages from 18 to 70); or
3. it is -1 (or -8, -9), three times or more, the only negative value, and no neighbour of the
   others on a short scale: -1, 0, 1, 2 are steps, -1 beside 1 to 5 or beside 0 to 50 is none.

Prices such as 9, 19, 49, 99 are left alone: where half of the other values end in 9, a 99 is one of
them. A code in more than half of the cells is left alone, too.
"""

import numpy as np

CODES = np.array(
    [
        *(sign * (10.0**k - 1) for sign in (1, -1) for k in range(2, 8)),  # 99, 999, …, -99, …
        *(-1.0, -9.0, 88.0, 888.0, 98.0, 998.0, -8.0, -88.0),
    ]
)
OFTEN = 3  # cells from which on a distance of a quarter of the range is far


def sentinels(values: np.ndarray) -> tuple[float, ...]:
    """Those of the finite `values` that stand for a missing value."""
    present = CODES[np.isin(CODES, values)]
    if not present.size:
        return ()
    rest = values[~np.isin(values, present)]
    found: list[float] = []
    kept = np.unique(rest)
    # From the value nearest to the rest outwards: what is no code widens the range of the others.
    for code in sorted(present, key=lambda c: _gap(c, kept)):
        often = int((values == code).sum())
        if often <= values.size / 2 and _is_code(float(code), often, kept):
            found.append(float(code))
        else:
            kept = np.union1d(kept, [code])
    return tuple(sorted(found))


def _gap(code: float, others: np.ndarray) -> float:
    return float(np.abs(others - code).min()) if others.size else 0.0


def _is_code(code: float, often: int, others: np.ndarray) -> bool:
    if others.size < 2:
        return False
    low, high = float(others[0]), float(others[-1])
    if low <= code <= high:
        return False
    gap, spread = _gap(code, others), high - low
    whole = bool((others == np.round(others)).all())
    if code > 0 and whole and (others % 10 == 9).mean() >= 0.5:
        return False
    if -10 < code < 0 and gap <= spread:
        alone = low >= 0 and others.size > 2 and often >= OFTEN
        return alone and (not whole or gap > 1 or others.size > 10)
    return gap > spread or (often >= OFTEN and gap >= spread / 4)
