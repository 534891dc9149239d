"""`trace`: what a sampler drew, sweep after sweep."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.plots._palette import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = {
    "n_clusters": "clusters",
    "n_components": "features",
    "log_joint": "log joint density",
    "alpha": "α",
    "sigma": "σ",
    "sigma_x": "σ of the noise",
    "sigma_a": "σ of the features",
}


def trace(
    model: Any,
    names: Sequence[str] | None = None,
    *,
    title: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the samples of a fitted `DPMixtureGibbs` or `IBPGibbs` in their order.

    Parameters
    ----------
    model : DPMixtureGibbs or IBPGibbs
        Fitted.
    names : sequence of str, optional
        What to draw, one panel each: "n_clusters" (or "n_components"), "log_joint", "alpha", and
        "sigma" (or "sigma_x", "sigma_a"). By default the number of groups, the log joint density,
        and whatever else was drawn and not given; into a single `ax`, the number of groups.
    title : str, optional
        Above the first panel.
    ax : matplotlib.axes.Axes or sequence of them, optional
        Where to draw, one for each name; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes or array of them
        An array, unless `ax` is a single one.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "r_hat_")
    values = {name: _samples(model, name) for name in model.r_hat_}
    number, *others = values
    alone = ax is not None and not np.ndim(ax)
    if names is None:
        drawn = [name for name in others if name == "log_joint" or np.ptp(values[name]) > 0]
        names = [number] if alone else [number, *drawn]
    unknown = [name for name in names if name not in values]
    if unknown or not len(names):
        raise ValueError(f"names={list(names)!r} must be some of {', '.join(map(repr, values))}.")
    axes = _new_panels(len(names)) if ax is None else np.atleast_1d(np.asarray(ax, dtype=object))
    if len(axes) != len(names):
        raise ValueError(f"ax has {len(axes)} axes for the {len(names)} names {list(names)!r}.")
    for panel, name in zip(axes, names, strict=True):
        _draw(panel, model, name, values[name])
    axes[-1].set_xlabel("kept sample")
    if title is not None:
        axes[0].set_title(title, loc="left", fontsize="medium")
    return ax if alone else axes


def _samples(model: Any, name: str) -> np.ndarray:
    return model.log_joint_ if name == "log_joint" else getattr(model, f"{name}_samples_")


def _new_panels(n: int) -> np.ndarray:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Drawing needs matplotlib: pip install "madbayes[plot]"', name="matplotlib"
        ) from error
    figure = pyplot.figure(figsize=(8, 0.6 + 1.7 * n), layout="constrained")
    return figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0]


def _draw(ax: "Axes", model: Any, name: str, values: np.ndarray) -> None:
    for chain in np.unique(model.chain_):
        line = values[model.chain_ == chain]
        color = COLORS[chain % len(COLORS)]
        where = "steps-mid" if name.startswith("n_") else "default"
        ax.plot(np.arange(1, len(line) + 1), line, color=color, lw=0.8, drawstyle=where)
    ax.set_ylabel(WORDS[name])
    if name.startswith("n_"):
        ax.locator_params(axis="y", integer=True)
    if np.ptp(values) > 0:
        effective, agree = model.effective_sample_size_[name], model.r_hat_[name]
        ax.annotate(
            f"{effective:,.0f} effective samples, R-hat {agree:.2f}",
            (1, 1),
            xycoords="axes fraction",
            ha="right",
            va="bottom",
            fontsize="small",
        )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
