"""What a model says about its number: its `path`, `spectrum`, `trace` of samples or `tree`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.howmany.staircase import Staircase, count
from madbayes.plots._palette import COLORS, GREY, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, CHOSEN = COLORS[0], COLORS[5]  # of what the data say, of what was chosen


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
    ax = new_axes() if ax is None else ax
    choice = path.best()
    number, low, high = path.number, path.price_low, path.price_high
    ends = np.r_[low[low > 0], high[np.isfinite(high)], choice.price]
    low = np.where(low > 0, low, ends.min() / 4)
    high = np.where(np.isfinite(high), high, ends.max() * 4)
    chosen_step = path.step_of(choice.number)  # None: this number is best at no penalty
    chosen = np.arange(len(number)) == chosen_step
    other = np.isin(number, [k for k, _ in choice.runners_up[:3]]) & ~chosen
    widths, colors = np.select([chosen, other], [6, 3], 1.5), np.where(chosen, CHOSEN, LINE)
    ax.hlines(number, low, high, colors=colors, linewidths=widths, zorder=2)
    risers = low[1:] if path.of == "community" else high[1:]
    ax.vlines(risers, number[:-1], number[1:], colors=GREY, linewidths=0.8, zorder=1)
    place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
    marked: dict[str, Any] = {"color": CHOSEN, "weight": "bold"}
    near = abs(np.log(np.maximum(number, 1) / max(choice.number, 1))) < 0.2  # no room for a number
    for i in np.flatnonzero(chosen | (other & ~near)):
        style = marked if chosen[i] else {"color": LINE}
        ax.annotate(str(number[i]), (high[i], number[i]), **place, **style)
    if chosen_step is None:
        ax.plot(choice.price, choice.number, "o", color=CHOSEN, zorder=3)
        ax.annotate(str(choice.number), (choice.price, choice.number), **place, **marked)
    ax.axvline(choice.price, color=CHOSEN, lw=1, ls=":")
    prices = f"penalty for one more {path.of} (λ)"
    if path.of == "community":
        prices = "resolution (what a community earns)"
    ax.set(xscale="log", xlabel=prices, ylabel=f"number of {count(2, path.of)[2:]}")
    if number.max() > 10 and number.min() > 0:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
    bare(ax, choice.describe(), fontsize="medium", wrap=True)
    return ax


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
    ax = new_axes() if ax is None else ax
    r, penalty = len(model.eigenvalues_), model.penalty_
    values = model.spectrum_[: r + max(12, r)]
    values = np.where(values > 1e-12 * max(values.max(initial=0.0), penalty), values, np.nan)
    number = np.arange(1, len(values) + 1)
    shown = values[np.isfinite(values)]
    low, high = min([*shown, penalty]), max([*shown, penalty])
    logarithmic = high > 50 * low
    for part, color in ((slice(0, r), LINE), (slice(r, None), GREY)):
        ax.vlines(
            number[part], low / 2 if logarithmic else 0, values[part], color=color, lw=1, alpha=0.5
        )
        ax.scatter(number[part], values[part], s=24, color=color, zorder=3)
    ax.axhline(penalty, color=CHOSEN, lw=1.2, ls="--")
    right: Any = {"ha": "right", "va": "bottom", "transform": ax.get_yaxis_transform()}
    ax.text(0.99, penalty, f"penalty {penalty:.3g}", color=CHOSEN, **right)
    if logarithmic:
        ax.set_yscale("log")
        ax.set_ylim(low / 2, high * 2)
    else:
        ax.set_ylim(0, high * 1.15)
    ax.set_xlim(0.5, max(len(values), 2) + 0.5)
    ax.locator_params(axis="x", integer=True)
    ax.set(xlabel="eigenvalues of the centred kernel, largest first", ylabel="eigenvalue")
    if title is None:
        found = count(model.n_clusters_, "cluster")
        title = f"{r} eigenvalue{'s' * (r != 1)} above the penalty; {found}"
        title += f", gap to the bound {model.gap_:.1%}"
    bare(ax, title, fontsize="medium")
    return ax


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
    kept = {"log_joint": "log_joint_"}
    values = {name: getattr(model, kept.get(name, f"{name}_samples_")) for name in model.r_hat_}
    number, *others = values
    alone = ax is not None and not np.ndim(ax)
    if names is None:
        drawn = [name for name in others if name == "log_joint" or np.ptp(values[name]) > 0]
        names = [number] if alone else [number, *drawn]
    unknown = [name for name in names if name not in values]
    if unknown or not len(names):
        raise ValueError(f"names={list(names)!r} must be some of {', '.join(map(repr, values))}.")
    n = len(names)
    axes = np.atleast_1d(np.asarray(ax, dtype=object))
    if ax is None:
        axes = new_axes((8, 0.6 + 1.7 * n), n)
    if len(axes) != n:
        raise ValueError(f"ax has {len(axes)} axes for the {n} names {list(names)!r}.")
    for panel, name in zip(axes, names, strict=True):
        _draw_samples(panel, model, name, values[name])
    axes[-1].set_xlabel("kept sample")
    if title is not None:
        axes[0].set_title(title, loc="left", fontsize="medium")
    return ax if alone else axes


def _draw_samples(ax: "Axes", model: Any, name: str, values: np.ndarray) -> None:
    for chain in np.unique(model.chain_):
        line = values[model.chain_ == chain]
        color = COLORS[chain % len(COLORS)]
        where = "steps-mid" if name.startswith("n_") else "default"
        ax.plot(np.arange(1, len(line) + 1), line, color=color, lw=0.8, drawstyle=where)
    words = {
        "n_clusters": "clusters",
        "n_components": "features",
        "log_joint": "log joint density",
        "alpha": "α",
        "sigma": "σ",
        "sigma_x": "σ of the noise",
        "sigma_a": "σ of the features",
    }
    ax.set_ylabel(words[name])
    if name.startswith("n_"):
        ax.locator_params(axis="y", integer=True)
    if np.ptp(values) > 0:
        effective, agree = model.effective_sample_size_[name], model.r_hat_[name]
        text = f"{effective:,.0f} effective samples, R-hat {agree:.2f}"
        corner: Any = {"transform": ax.transAxes, "ha": "right", "va": "bottom"}
        ax.text(1, 1, text, fontsize="small", **corner)
    bare(ax)


def tree(model: Any, *, title: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the layers of clusters of a fitted model.

    Each row of the picture is a layer, each block a cluster, as wide as its share of the rows, with
    the clusters that it holds below it. The layer of `labels_` is drawn in full colour.

    Parameters
    ----------
    model : estimator
        Fitted so that it found the number of clusters: it has `cluster_layers_`.
    title : str, optional
        By default the numbers of clusters of the layers.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    layers = model.cluster_layers_
    ax = new_axes() if ax is None else ax
    known = layers[0] >= 0
    rows = np.array([layer[known] for layer in layers])
    order = np.lexsort(rows)  # by the coarsest layer, then by the next
    n = max(order.size, 1)
    numbers = []
    for i, layer in enumerate(rows[:, order]):
        chosen = np.array_equal(layers[i], model.labels_)
        starts = np.flatnonzero(np.r_[True, layer[1:] != layer[:-1]][: layer.size])
        widths = np.diff(np.r_[starts, layer.size]) / n
        names, tops = layer[starts], rows[-1, order][starts]
        numbers.append(len(names))
        colors = [COLORS[top % len(COLORS)] for top in tops]
        blocks: Any = {"bottom": i, "align": "edge", "edgecolor": "white", "linewidth": 1.0}
        alpha = 1.0 if chosen else 0.45
        ax.bar(starts / n, 0.94, widths, color=colors, alpha=alpha, **blocks)
        for name, start, width in zip(names, starts / n, widths, strict=True):
            if width >= 0.03:  # there is room for its number
                middle = start + width / 2, i + 0.47
                ax.text(*middle, str(name), ha="center", va="center", fontsize="small")
    ax.set(xlim=(0, 1), ylim=(0, len(layers)), xlabel="share of the rows", ylabel="clusters")
    ax.set_yticks(np.arange(len(layers)) + 0.47, [str(number) for number in numbers])
    bare(ax, f"layers of {', '.join(map(str, numbers))} clusters" if title is None else title)
    ax.spines["left"].set_visible(False)
    return ax
