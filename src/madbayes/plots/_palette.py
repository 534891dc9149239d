"""Colours that stay apart for every kind of colour vision, and who gets which.

The colours are those of Okabe and Ito (2008) without black, which marks text, and with the yellow
darkened to show on white.
"""

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
