"""The frame of the data: its mean, and the shift and scale that the kernels use."""

from typing import Any, NamedTuple

import numpy as np

from madbayes._rows.row_kernels import moments
from madbayes._rows.rows import Rows, Share


class Frame(NamedTuple):
    """The mean of the data, and the shift and scale of the kernels; measured once for a fit."""

    mean: np.ndarray  # (d,) float64: the weighted mean
    total_weight: float
    offset: np.ndarray  # (d,) float64: the kernels work on x - offset …
    scale: float  # … times this power of two


def measure(rows: Any) -> Frame:
    """The weighted mean, the total weight, and the shift and scale that the kernels use."""
    if rows.sparse:
        total = float(rows.weight.sum()) if rows.weighted else float(rows.n)
        sums = rows.X.T @ (rows.weight if rows.weighted else np.ones(rows.n))
        largest = float(np.abs(rows.X.data).max(initial=0.0))
        check_spread(largest, total, rows.d)
        mean = np.asarray(sums).ravel() / total
        return Frame(mean, total, np.zeros(rows.d), power_of_two(largest))
    ask, shares = rows.executor.ask, rows.shares
    origin = rows.take(np.array([first_counted(rows)]))[0]
    parts = [part for found in ask(segment_moments, shares, args=(origin,)) for part in found]
    return make_frame(origin, parts)


def first_counted(rows: Any) -> int:
    """The first row with a positive weight."""
    if not rows.weighted:
        return 0
    found = [row for row in rows.executor.ask(first_positive, rows.shares) if row >= 0]
    if not found:
        raise ValueError("sample_weight: all weights are zero, so no row is left to fit.")
    return int(found[0])


def first_positive(share: Share) -> int:
    """The number in the table of the share's first row of positive weight; -1: there is none."""
    at = np.flatnonzero(share.weight > 0)
    return int(share.start + share.first + at[0]) if at.size else -1


def frame_of(centers: np.ndarray, source: Rows) -> Frame | None:
    """Where the centres lie: as good to look for the nearest one, and rows need not be measured.

    Nothing must overflow: rows of float32 have no square that does. None: measure the rows.
    """
    if source.sparse or source.dtype != np.float32:
        return None
    mean = np.asarray(centers, np.float64).mean(axis=0)
    largest = float(np.abs(centers - mean).max())
    scale = power_of_two(largest)
    if (
        not np.abs(mean).max() + largest + scale < 1e30
    ):  # its square, times any float32, is a float64
        return None
    return Frame(mean, float(source.n), mean, scale)


def segment_moments(share: Share, origin: np.ndarray) -> list[tuple[np.ndarray, float, float]]:
    """For each segment: Σ w (x - origin), the weight, and the largest |x - origin| of a column."""
    found = []
    for cut in share.cuts:
        sums, total, largest = np.zeros(share.rows.d), 0.0, 0.0
        for _, block, weight in share.blocks(cut):
            w, top = moments(block, weight, origin, sums)
            total, largest = total + w, max(largest, top)
        found.append((sums, total, largest))
    return found


def make_frame(origin: np.ndarray, parts: list[tuple[np.ndarray, float, float]]) -> Frame:
    """The frame, from the sums of the segments."""
    total = float(sum(part[1] for part in parts))
    largest = float(max(part[2] for part in parts))
    check_spread(largest, total, origin.size)
    mean = origin + sum(part[0] for part in parts) / total
    with np.errstate(over="ignore"):
        farthest = np.abs(origin).max() + largest
        if not farthest * max(total, 1.0) < 1e307:
            raise ValueError(
                f"X reaches {farthest:.3g}: the sum of its rows would overflow float64. "
                "Subtract its mean, or divide it."
            )
    return Frame(mean, total, mean, power_of_two(largest))


def measure_to_fit(rows: Any) -> Frame:
    """`measure` for a fit, with an error if the rows are too close together."""
    return check_closeness(measure(rows))


def check_closeness(frame: Frame) -> Frame:
    """Raise an error if rows differ by so little that the squares of differences underflow."""
    if frame.scale > 1e151:
        raise ValueError(
            f"X spreads over only {1 / frame.scale:.3g}: squared distances would underflow "
            f"float64. Multiply X by, say, {frame.scale:.1g} (and the penalty by its square)."
        )
    return frame


def check_reach(centers: np.ndarray, frame: Frame, d: int, of: str = "the centres") -> None:
    """Raise an error if squared distances between rows and centres (named by `of`) overflow."""
    with np.errstate(over="ignore"):
        reach = float(np.abs(centers - frame.offset).max(initial=0.0)) + 1.0 / frame.scale
        top = np.float64(reach) ** 2 * max(frame.total_weight, 1.0) * d
    if not top < 1e307:
        raise ValueError(
            f"X and {of} are {reach:.3g} apart: the sum of squared distances would overflow "
            f"float64. Divide both by, say, {min(reach, 1e300):.1g}."
        )


def shift_for(dtype: np.dtype, frame: Frame) -> np.ndarray:
    """`offset` in the type of the rows, so that float32 rows are shifted without float64.

    Any point near the mean will do, if rows and centres are shifted by the same point.
    """
    return frame.offset.astype(dtype if frame.scale < 2.0**127 else np.float64)


def power_of_two(largest: float) -> float:
    """A factor that brings `largest` near 1 and changes no digit."""
    return float(2.0 ** min(-np.ceil(np.log2(largest)), 1000.0)) if largest > 0 else 1.0


def check_spread(largest: float, total_weight: float, d: int) -> None:
    with np.errstate(over="ignore"):
        top = np.float64(largest) ** 2 * max(total_weight, 1.0) * d
    if not np.isfinite(top) or top > 1e307:
        raise ValueError(
            f"X spreads over {largest:.3g}, and the weights add up to {total_weight:.3g}: the sum "
            "of squared distances would overflow float64. Divide X by, say, "
            f"{min(largest, 1e300):.1g} (and the penalty by its square)."
        )
