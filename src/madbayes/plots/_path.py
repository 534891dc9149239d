"""The picture of a path: how many groups at which price, the chosen step marked."""

from typing import Any

import numpy as np

from madbayes.howmany.staircase import Staircase
from madbayes.plots._scatter import _new_axes

LINE, CHOSEN, OTHER = "#0072b2", "#d55e00", "#999999"
XLABEL = {
    "cluster": "penalty for one more cluster (λ)",
    "feature": "penalty for one more feature (λ)",
    "community": "resolution (what a community earns)",
}
YLABEL = {
    "cluster": "number of clusters",
    "feature": "number of features",
    "community": "number of communities",
}

PLACE: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
MARKED: dict[str, Any] = {"color": CHOSEN, "weight": "bold"}


def path(path: Staircase, ax: Any = None) -> Any:
    """Draw how many clusters there are at which penalty.

    Parameters
    ----------
    path : Staircase or fitted model
        What `penalties.path` and its kin return, or a model with a `path_`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
    """
    path = getattr(path, "path_", path)
    ax = _new_axes() if ax is None else ax
    choice = path.best()
    number, low, high = path.number, path.price_low, path.price_high
    ends = np.r_[low[low > 0], high[np.isfinite(high)], choice.price]
    low = np.where(low > 0, low, ends.min() / 4)
    high = np.where(np.isfinite(high), high, ends.max() * 4)
    chosen_step = path.step_of(choice.number)  # None: this number is best at no price
    others = {k for k, _ in choice.runners_up[:3]}
    for i, k in enumerate(number.tolist()):
        chosen, other = i == chosen_step, k in others
        ax.plot(
            [low[i], high[i]],
            [k, k],
            lw=6 if chosen else 3 if other else 1.5,
            color=CHOSEN if chosen else LINE,
            solid_capstyle="butt",
            zorder=3 if chosen else 2,
        )
        apart = abs(np.log(max(k, 1) / max(choice.number, 1))) > 0.2  # room for its number
        if chosen or (other and apart):
            style = MARKED if chosen else {"color": LINE}
            ax.annotate(str(k), (high[i], k), **PLACE, **style)
        if i:  # the riser between two steps
            at = low[i] if path.of == "community" else high[i]
            ax.plot([at, at], [number[i - 1], k], lw=0.8, color=OTHER, zorder=1)
    if chosen_step is None:
        ax.plot(choice.price, choice.number, "o", color=CHOSEN, zorder=3)
        ax.annotate(str(choice.number), (choice.price, choice.number), **PLACE, **MARKED)
    ax.axvline(choice.price, color=CHOSEN, lw=1, ls=":")
    ax.set(xscale="log", xlabel=XLABEL[path.of], ylabel=YLABEL[path.of])
    if number.max() > 10 and number.min() > 0:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
    ax.set_title(choice.describe(), fontsize="medium", loc="left", wrap=True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
