"""Colours that stay apart for every kind of colour vision, who gets which, and axes to draw on.

The colours are those of Okabe and Ito (2008) without black, which marks text, and with the yellow
darkened to show on white.
"""

from typing import Any

import numpy as np

COLORS = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # green
    "#CC79A7",  # pink
    "#56B4E9",  # sky
    "#D55E00",  # vermilion
    "#B8A800",  # yellow, darkened
)

GREY = "#999999"  # of what was not chosen

# Circle, square, triangle, diamond, cross, as paths of SVG: another one for each round of colours.
SHAPES = (
    "M1 0A1 1 0 1 1-1 0 1 1 0 1 1 1 0Z",
    "M-.9-.9H.9V.9H-.9Z",
    "M0-1.2 1.1.8H-1.1Z",
    "M0-1.25 1.05 0 0 1.25-1.05 0Z",
    "M-.35-1.1H.35V-.35H1.1V.35H.35V1.1H-.35V.35H-1.1V-.35H-.35Z",
)


def assign_colors(positions: np.ndarray) -> list[str]:
    """One colour per cluster, `positions` being where the clusters are drawn.

    With more clusters than colours some share one: each cluster in turn takes the colour whose
    nearest bearer is farthest away, so that neighbours differ.
    """
    positions = np.nan_to_num(np.asarray(positions, dtype=np.float64))
    if not len(positions):
        return []
    positions = positions / np.maximum(np.abs(positions).max(axis=0), 1e-300)  # no overflow below
    positions = positions - positions.min(axis=0)
    positions = positions / np.maximum(positions.max(axis=0), 1e-300)
    nearest = np.full((len(positions), len(COLORS)), np.inf)
    chosen = []
    for k, here in enumerate(positions):
        color = int(np.argmax(nearest[k]))
        chosen.append(COLORS[color])
        gaps = ((positions - here) ** 2).sum(axis=1)
        nearest[:, color] = np.minimum(nearest[:, color], gaps)
    return chosen


def new_axes(size: tuple[float, float] = (8, 5.5), panels: int | None = None) -> Any:
    """Axes of a new figure, or an array of `panels` of them below each other."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Drawing needs matplotlib: pip install "madbayes[plot]"', name="matplotlib"
        ) from error
    figure = pyplot.figure(figsize=size, layout="constrained")
    axes = figure.subplots(panels or 1, 1, sharex=True, squeeze=False)[:, 0]
    return axes[0] if panels is None else axes


def bare(ax: Any, title: str | None = None, **style: Any) -> None:
    """Axes without a box, the title at the left."""
    if title:
        ax.set_title(title, loc="left", **style)
    ax.spines[["top", "right"]].set_visible(False)
