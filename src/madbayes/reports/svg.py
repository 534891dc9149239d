"""Small pictures as SVG, in the colours of the page."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

WIDE, HIGH = 720, 276


def histogram(inside: Sequence[float], outside: Sequence[float], label: str, color: str) -> str:
    """A cluster's distribution (filled) over that of the other rows (line); `label` is HTML."""
    top = max(max(inside, default=0), max(outside, default=0)) or 1
    n = len(inside)
    bars = "".join(
        f'<rect x="{i * 6}" y="{24 - 22 * v / top:.1f}" width="5" height="{22 * v / top:.1f}"/>'
        for i, v in enumerate(inside)
    )
    steps = " ".join(f"V{24 - 22 * v / top:.1f} h6" for v in outside)
    return (
        f'<svg class="hist" viewBox="-1 0 {n * 6 + 1} 25" role="img" aria-label="{label}">'
        f'<g fill="{color}">{bars}</g><path d="M-0.5 24 {steps} V24" class="rest"/></svg>'
    )


def staircase(path: Any, price: float, number: int, name: str) -> str:
    """The number of groups against the penalty (called `name`), the chosen step marked."""
    low = np.asarray(path.price_low, float)
    high = np.asarray(path.price_high, float)
    ends = np.r_[low[low > 0], high[np.isfinite(high)], price]
    ends = ends[ends > 0]
    left, right = np.log(ends.min() / 1.6), np.log(ends.max() * 1.6)
    numbers = np.maximum(np.asarray(path.number, float), 0.7)
    top, bottom = np.log(max(numbers.max(), number) * 1.15), np.log(numbers.min() / 1.15)

    def x(value: float) -> float:
        value = np.clip(np.log(value) if value > 0 else left, left, right)
        return float(46 + (WIDE - 60) * (value - left) / ((right - left) or 1))

    def y(value: float) -> float:
        return float(HIGH - 56 - (HIGH - 72) * (np.log(value) - bottom) / ((top - bottom) or 1))

    parts = []
    here = path.step_of(number)
    for i, k in enumerate(numbers):
        a, b = x(low[i]), x(high[i] if np.isfinite(high[i]) else np.exp(right))
        kind = "step chosen" if i == here else "step"
        title = f"{int(path.number[i])}: {low[i]:.4g} to {high[i]:.4g}"
        parts.append(
            f'<line class="{kind}" x1="{a:.1f}" x2="{b:.1f}" y1="{y(k):.1f}" y2="{y(k):.1f}">'
            f"<title>{escape(title)}</title></line>"
        )
        if i:
            at = a if path.of == "community" else b
            parts.append(
                f'<line class="riser" x1="{at:.1f}" x2="{at:.1f}" y1="{y(numbers[i - 1]):.1f}" '
                f'y2="{y(k):.1f}"/>'
            )
    for tick in _ticks(np.exp(left), np.exp(right)):
        parts.append(f'<text x="{x(tick):.1f}" y="{HIGH - 32}" class="tick">{tick:g}</text>')
    for tick in _numbers(path.number):
        parts.append(f'<text x="38" y="{y(tick) + 4:.1f}" class="tick end">{tick:g}</text>')
    at = x(price)
    parts.append(
        f'<line id="here" class="here" x1="{at:.1f}" x2="{at:.1f}" y1="8" y2="{HIGH - 52}" '
        f'data-left="{left:.12g}" data-right="{right:.12g}"/>'
    )
    parts.append(f'<text x="{WIDE / 2}" y="{HIGH - 6}" class="tick">{escape(name)}</text>')
    return (
        f'<svg class="stairs" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="The number of '
        f'groups against the {escape(name)}">{"".join(parts)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends: powers of ten, and over few of them 2 and 5 times as much."""
    first, last = int(np.floor(np.log10(low))), int(np.floor(np.log10(high)))
    every = max(1, (last - first) // 6 + 1)
    parts = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [part * 10.0**e for e in range(first, last + 1, every) for part in parts]
    return [tick for tick in ticks if low <= tick <= high]


def _numbers(numbers: Any) -> list[int]:
    """Round numbers of groups, for the axis."""
    low, most = int(np.min(numbers)), int(np.max(numbers))
    parts = (1, 2, 5) if most >= 10 else (1, 2, 3, 5)
    nice = [part * 10**e for e in range(6) for part in parts]
    return [k for k in nice if low <= k <= most] or [max(most, 1)]
