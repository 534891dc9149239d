"""`spectrum`: the eigenvalues of a spectral clustering, and which ones the penalty lets through."""

from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.plots._palette import COLORS
from madbayes.plots._scatter import _new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ABOVE, LINE, BELOW = COLORS[0], COLORS[5], "#999999"
BELOW_SHOWN = 12  # eigenvalues below the penalty that are drawn, at least


def spectrum(model: Any, *, title: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the eigenvalues of a fitted `SpectralDPMeans`, with the penalty.

    Parameters
    ----------
    model : SpectralDPMeans
        Fitted.
    title : str, optional
        By default it says how many eigenvalues are above the penalty, how many clusters were found,
        and how far the objective is above the bound.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "spectrum_")
    ax = _new_axes() if ax is None else ax
    r, penalty = len(model.eigenvalues_), model.penalty_
    values = model.spectrum_[: r + max(BELOW_SHOWN, r)]
    values = np.where(values > 1e-12 * max(values.max(initial=0.0), penalty), values, np.nan)
    number = np.arange(1, len(values) + 1)
    shown = values[np.isfinite(values)]
    low, high = min([*shown, penalty]), max([*shown, penalty])
    logarithmic = high > 50 * low
    for part, color in ((slice(0, r), ABOVE), (slice(r, None), BELOW)):
        ax.vlines(
            number[part], low / 2 if logarithmic else 0, values[part], color=color, lw=1, alpha=0.5
        )
        ax.scatter(number[part], values[part], s=24, color=color, zorder=3)
    ax.axhline(penalty, color=LINE, lw=1.2, ls="--")
    ax.annotate(
        f"penalty {penalty:.3g}",
        (1, penalty),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=LINE,
    )
    if logarithmic:
        ax.set_yscale("log")
        ax.set_ylim(low / 2, high * 2)
    else:
        ax.set_ylim(0, high * 1.15)
    ax.set_xlim(0.5, max(len(values), 2) + 0.5)
    ax.locator_params(axis="x", integer=True)
    ax.set(xlabel="eigenvalues of the centred kernel, largest first", ylabel="eigenvalue")
    if title is None:
        title = (
            f"{r} eigenvalue{'s' * (r != 1)} above the penalty; {model.n_clusters_} "
            f"cluster{'s' * (model.n_clusters_ != 1)}, gap to the bound {model.gap_:.1%}"
        )
    ax.set_title(title, loc="left", fontsize="medium")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
