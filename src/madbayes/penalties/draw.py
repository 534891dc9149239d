"""The picture of a path: clusters against the penalty, plateaus marked."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from madbayes.penalties.staircase import PenaltyPath

LINE, CHOSEN, OTHER = "#0072b2", "#d55e00", "#999999"


def draw_path(path: "PenaltyPath", ax: Any = None) -> Any:
    """Draw on `ax`, or on a new figure; returns the axes."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7, 4.5), layout="constrained")[1]
    choice = path.best()
    finite = path.penalty_high[np.isfinite(path.penalty_high)]
    top = 4 * max(choice.penalty, finite.max(initial=0.0))
    high = np.where(np.isfinite(path.penalty_high), path.penalty_high, top)
    low = np.where(path.penalty_low > 0, path.penalty_low, high / 4)
    runners_up = {k for k, _ in choice.runners_up[:3]}
    for i, k in enumerate(path.n_clusters):
        chosen = i == path._choice
        runner_up = k in runners_up
        ax.plot(
            [low[i], high[i]],
            [k, k],
            lw=6 if chosen else 3 if runner_up else 1.5,
            color=CHOSEN if chosen else LINE,
            solid_capstyle="butt",
            zorder=3 if chosen else 2,
        )
        apart = abs(np.log(k / path.n_clusters[path._choice])) > 0.2  # room for its number
        if chosen or (runner_up and apart):
            ax.annotate(
                str(k),
                (high[i], k),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                color=CHOSEN if chosen else LINE,
                weight="bold" if chosen else "normal",
            )
        if i:  # the riser between two steps
            ax.plot([low[i - 1]] * 2, [path.n_clusters[i - 1], k], lw=0.8, color=OTHER, zorder=1)
    ax.axvline(choice.penalty, color=CHOSEN, lw=1, ls=":")
    ax.set(xscale="log", xlabel="penalty for one more cluster (λ)", ylabel="number of clusters")
    if path.n_clusters.max() > 10:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
    ax.set_title(choice.describe(), fontsize="medium", loc="left", wrap=True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
