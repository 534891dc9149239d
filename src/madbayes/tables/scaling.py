"""Whether the columns of a table are of different units, and what they are divided by."""

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np

from madbayes.tables.cells import TableColumn

SPREADS = 10  # columns whose standard deviations differ by more are of different units
DOMINANT = 0.9  # of the squared distances
BLOCK_ROWS = 65_536


def blocks(values: np.ndarray) -> Iterator[slice]:
    """Slices of rows that together are all rows: a table may be larger than memory."""
    for start in range(0, len(values), BLOCK_ROWS):
        yield slice(start, start + BLOCK_ROWS)


def has_gaps(values: np.ndarray) -> bool:
    """Whether any cell is NaN."""
    return any(bool(np.isnan(values[rows]).any()) for rows in blocks(values))


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the cells that are there, in two passes; a deviation is 0
    where a column is constant but for rounding."""
    there = sum(np.isfinite(values[rows]).sum(axis=0) for rows in blocks(values))
    n = np.maximum(np.asarray(there), 1)
    tops = [np.abs(np.nan_to_num(values[rows])).max(axis=0) for rows in blocks(values)]
    largest = np.max(tops, axis=0).astype(np.float64)
    # The squares of values above 1e150 leave the range of float64.
    unit = np.where(largest > 1e150, largest, 1.0).astype(values.dtype)
    total = sum(np.nansum(values[rows] / unit, axis=0, dtype=np.float64) for rows in blocks(values))
    mean = np.asarray(total) / n
    squares = sum(
        np.nansum((values[rows] / unit - mean) ** 2, axis=0, dtype=np.float64)
        for rows in blocks(values)
    )
    deviation = np.sqrt(np.asarray(squares) / n)
    deviation[deviation <= np.finfo(values.dtype).eps * np.abs(mean)] = 0.0
    return mean * unit, deviation * unit


def unit_scales(
    columns: Sequence[TableColumn], values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Mean and scale of each column of `values`, and the spread of each column of the table.

    A category or a vector is one column: its parts share one scale, and together they have
    variance 1. Coordinates share one scale, because a degree is a degree.
    """
    mean, deviation = moments(values)
    spread: dict[str, float] = {}
    sizes: list[int] = []
    place = 0
    for column in columns:
        size = column.width
        if column.kind == "category" and values.shape[1] > len(columns):
            size = len(column.categories or ())
        spread[column.name] = math.hypot(*deviation[place : place + size])
        sizes.append(size)
        place += size
    together = [column.name for column in columns if column.kind == "coordinate"]
    if together:
        shared = math.hypot(*(spread[name] for name in together)) / math.sqrt(len(together))
        spread |= dict.fromkeys(together, shared)
    scale = np.repeat([spread[column.name] or 1.0 for column in columns], sizes)
    return mean, scale, spread


def why_scale(columns: Sequence[TableColumn], spread: dict[str, float], named: bool) -> str:
    """Why the columns are of different units; empty when nothing says so."""
    done = "the columns were standardized, because"
    if len(columns) > 1 and any(column.kind in ("category", "yes/no") for column in columns):
        return f"{done} categories have no unit"
    varying = {name: s for name, s in spread.items() if s > 0}
    transforms = {column.transform for column in columns if column.name in varying}
    if len(transforms) > 1:
        what = "logarithms" if transforms == {"", "log"} else "logarithms or square roots"
        return f"{done} some are {what} and others are not"
    if len(varying) < 2 or not named or _one_family(list(varying)):
        return ""
    low, high = (pick(varying, key=varying.__getitem__) for pick in (min, max))
    if (ratio := varying[high] / varying[low]) <= SPREADS:
        return ""
    return (
        f"{done} their spreads differ {ratio:.3g}-fold "
        f"(standard deviation of {low}: {varying[low]:.3g}, of {high}: {varying[high]:.3g})"
    )


def _one_family(names: Sequence[str]) -> bool:
    """x0, x1, … or pixel_3: columns that a number tells apart are of one kind, in one unit."""
    stems = {re.sub(r"\d+(\.\d+)?", "#", name) for name in names}
    return len(stems) == 1 and "#" in stems.pop()


def drowned(spread: dict[str, float]) -> str:
    """A note where one column makes up nearly all of the distances; empty otherwise."""
    high = max(spread, key=spread.__getitem__)
    share = (spread[high] / (math.hypot(*spread.values()) or 1.0)) ** 2
    if len(spread) < 2 or share <= DOMINANT:
        return ""
    much = f"{share:.1%}" if share < 0.9995 else "over 99.9%"
    return (
        f"{high} makes up {much} of the squared distances, so the other columns hardly count; "
        "standardizing gives every column the same say"
    )
