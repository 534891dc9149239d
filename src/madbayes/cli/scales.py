"""Whether columns are of different units, and what is done about it."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from madbayes._storage.prepared import Column
from madbayes.cli.prepare import Table, blocks

Standardize = Literal["auto", "yes", "no"]
SPREADS = 10  # columns whose standard deviations differ by more are of different units
DOMINANT = 0.9  # of the squared distances


def standardize(table: Table, how: Standardize, metric: str, named: bool) -> Table:
    """Decide whether to scale the columns, and say so. `named`: the file has names for them."""
    mean, deviation = _moments(table.values)
    spread, place = {}, 0
    for column in table.columns:  # a column of categories is one column, not many
        part = slice(place, place + len(column.names))
        spread[column.name] = math.hypot(*deviation[part])
        place = part.stop
    wanted, why = how == "yes", ""
    if how == "auto" and metric == "euclidean":
        why = why_scale(table.columns, spread, named)
        wanted = bool(why)
    notes = [*table.notes, f"{why}; --standardize no turns that off"] if why else [*table.notes]
    if wanted:
        sizes = [len(column.names) for column in table.columns]
        scale = np.repeat([s or 1.0 for s in spread.values()], sizes)
        why = why or "the columns were standardized, as asked"
        return replace(table, mean=mean, scale=scale, notes=tuple(notes), standardized=why)
    high = max(spread, key=spread.__getitem__)
    share = (spread[high] / (math.hypot(*spread.values()) or 1.0)) ** 2
    if metric == "euclidean" and len(spread) > 1 and share > DOMINANT:
        notes.append(
            f"{high} makes up {_percent(share)} of the squared distances, so "
            "the other columns hardly count; --standardize yes gives every column the same say"
        )
    return replace(table, notes=tuple(notes))


def why_scale(columns: Sequence[Column], spread: dict[str, float], named: bool) -> str:
    """Why the columns are of different units; empty when nothing says so."""
    if any(column.categories is not None for column in columns):
        return "the columns were standardized, because categories have no unit"
    varying = {name: s for name, s in spread.items() if s > 0}
    if len(varying) < 2 or not named or _one_family(list(varying)):
        return ""
    low, high = (pick(varying, key=varying.__getitem__) for pick in (min, max))
    if (ratio := varying[high] / varying[low]) <= SPREADS:
        return ""
    return (
        f"the columns were standardized, because their spreads differ {ratio:.3g}-fold "
        f"(standard deviation of {low}: {varying[low]:.3g}, of {high}: {varying[high]:.3g})"
    )


def _one_family(names: Sequence[str]) -> bool:
    """x0, x1, … or pixel_3: columns that a number tells apart are of one kind, in one unit."""
    stems = {re.sub(r"\d+(\.\d+)?", "#", name) for name in names}
    return len(stems) == 1 and "#" in stems.pop()


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.9995 else "over 99.9%"


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations in two passes; 0 for columns that are constant but for
    rounding."""
    n = len(values)
    tops = [np.abs(b).max(axis=0) for _, b in blocks(values)]
    largest = np.max(tops, axis=0).astype(np.float64)
    unit = np.where(largest > 1e150, largest, 1).astype(values.dtype)  # else squares overflow
    mean = sum((b / unit).sum(axis=0, dtype=np.float64) for _, b in blocks(values)) / n
    squares = sum(((b / unit - mean) ** 2).sum(axis=0, dtype=np.float64) for _, b in blocks(values))
    deviation = np.sqrt(np.asarray(squares) / n)
    deviation[deviation <= np.finfo(values.dtype).eps * np.abs(mean)] = 0.0
    return np.asarray(mean) * unit, deviation * unit
