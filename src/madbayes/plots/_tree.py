"""`tree`: the layers of clusters as an icicle, the coarsest at the top."""

from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.plots._palette import COLORS
from madbayes.plots._scatter import _new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EDGE, FADED = "white", 0.45  # colour of the gaps; opacity of layers that were not chosen
NAMED_SHARE = 0.03  # clusters of at least this share of the rows show their number


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
    ax = _new_axes() if ax is None else ax
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
        ax.bar(
            starts / n,
            np.full(len(starts), 0.94),
            widths,
            bottom=i,
            align="edge",
            color=[COLORS[top % len(COLORS)] for top in tops],
            alpha=1.0 if chosen else FADED,
            edgecolor=EDGE,
            linewidth=1.0,
        )
        for name, start, width in zip(names, starts / n, widths, strict=True):
            if width >= NAMED_SHARE:
                middle = start + width / 2, i + 0.47
                ax.text(*middle, str(name), ha="center", va="center", fontsize="small")
    ax.set(xlim=(0, 1), ylim=(0, len(layers)), xlabel="share of the rows", ylabel="clusters")
    ax.set_yticks(np.arange(len(layers)) + 0.47, [str(number) for number in numbers])
    listed = ", ".join(str(number) for number in numbers)
    ax.set_title(title if title is not None else f"layers of {listed} clusters", loc="left")
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
