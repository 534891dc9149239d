"""Clusters that groups of rows share: `groups` draws each group, `group_usage` which uses which.

Colours and axes are the same in every panel, so that a cluster can be found again in the next one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.plots._palette import assign_colors
from madbayes.plots._scatter import _as_arrays, _new_axes, _project

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 60  # lines of the heat map that are named one by one
WRITTEN = 400  # cells of the heat map that show their number
BACKGROUND = 4000  # rows of all groups that each panel shows in grey


def groups(
    X: Any,
    labels: Any,
    groups: Any,
    centers: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    max_groups: int = 20,
) -> "Figure":
    """Small multiples: one panel for each group, its rows coloured by cluster, all others grey.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows. Of more than two columns, two principal components are drawn.
    labels : array-like of shape (n_samples,)
        The (global) cluster of each row, from 0, as in `HardHDP.labels_`.
    groups : array-like of shape (n_samples,)
        The group of each row.
    centers : array-like of shape (n_clusters, n_features), optional
        Numbered in the panels of the groups that use them. Means of the rows when left out.
    feature_names : sequence of str, optional
        One per column, for the axes. Columns of a data frame name themselves.
    title : str, optional
        Above everything.
    max_groups : int, default=20
        Of more groups, so many are drawn, chosen evenly from the sorted names, and the picture says
        so.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if feature_names is None:
        feature_names = [str(name) for name in getattr(X, "columns", ())]
    X, labels, centers = _as_arrays(X, labels, centers)
    names, code = _check(groups, len(X))
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups} must be at least 1.")
    from matplotlib.figure import Figure

    rows, spots, axis_names = _project(X, centers, feature_names)
    colors = np.array([*assign_colors(spots), "#BBBBBB"])
    shown = np.unique(np.linspace(0, len(names) - 1, min(max_groups, len(names))).astype(np.intp))
    wide = min(5, int(np.ceil(np.sqrt(len(shown)))))
    high = -(-len(shown) // wide)
    figure = Figure(figsize=(2.5 * wide + 0.5, 2.4 * high + 0.7), layout="constrained")
    panels = figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False)
    behind = rows[:: max(1, len(rows) // BACKGROUND)]
    for ax in panels.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, j in zip(panels.flat, shown, strict=False):
        inside = np.flatnonzero(code == j)
        own = labels[inside]
        ax.scatter(*behind.T, s=3, c="0.9", linewidths=0, rasterized=True)
        side = float(np.interp(np.log10(len(inside)), [1.5, 4], [26, 3]))
        kinds = colors[np.where(own < 0, len(centers), own)]
        ax.scatter(*rows[inside].T, s=side, c=kinds, linewidths=0, alpha=0.9)
        used = np.unique(own[own >= 0])
        ax.scatter(*spots[used].T, s=95, c="white", edgecolors=colors[used], linewidths=1.5)
        for p in used:
            ax.annotate(str(p), spots[p], ha="center", va="center_baseline", fontsize=6.5)
        word = "cluster" if len(used) == 1 else "clusters"
        ax.set_title(f"{_short(names[j])}: {len(used)} {word}", fontsize=9, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=7)
        if not axis_names[1]:  # heights mean nothing when there is one column
            ax.set_yticks([])
    figure.supxlabel(axis_names[0], fontsize=9)
    figure.supylabel(axis_names[1], fontsize=9)
    if len(shown) < len(names):
        text = f"{len(shown)} of {len(names):,} groups drawn"
        title = f"{title} ({text})" if title else text
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def group_usage(labels: Any, groups: Any, *, title: str | None = None, ax: Any = None) -> "Axes":
    """A heat map, groups × clusters: which share of a group's rows is in which cluster.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        The (global) cluster of each row, from 0; rows with a negative label do not count.
    groups : array-like of shape (n_samples,)
        The group of each row. Groups that use the same clusters stand together.
    title : str, optional
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
    """
    labels = np.asarray(labels)
    names, code = _check(groups, len(labels))
    counted = labels >= 0
    if not counted.any():
        raise ValueError("labels has no cluster at all: every label is negative.")
    table = np.zeros((len(names), int(labels.max()) + 1))
    np.add.at(table, (code[counted], labels[counted]), 1.0)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)
    order = _alike(share)
    n_groups, n_clusters = table.shape
    if ax is None:
        ax = _new_axes()
        size = (2.2 + 0.34 * min(n_clusters, 40), 1.4 + 0.2 * min(n_groups, 60))
        ax.figure.set_size_inches(max(size[0], 5), max(size[1], 3))
    image = ax.imshow(
        share[order], aspect="auto", cmap="Blues", vmin=0, vmax=share.max(), interpolation="nearest"
    )
    from matplotlib.ticker import PercentFormatter

    percent = PercentFormatter(1, decimals=0)
    ax.figure.colorbar(image, ax=ax, label="share of the group's rows", format=percent, aspect=40)
    if table.size <= WRITTEN:
        for line, j in enumerate(order):
            for p in np.flatnonzero(table[j]):
                dark = share[j, p] > 0.6 * share.max()
                ax.text(
                    p,
                    line,
                    f"{int(table[j, p])}",
                    ha="center",
                    va="center_baseline",
                    fontsize=6.5,
                    color="white" if dark else "0.2",
                )
    if n_groups <= NAMED:
        ax.set_yticks(range(n_groups), [_short(names[j]) for j in order], fontsize=7)
        ax.set_ylabel("group")
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{n_groups:,} groups")
    ax.set_xlabel("cluster")
    if n_clusters <= NAMED:
        ax.set_xticks(range(n_clusters))
    ax.tick_params(axis="x", labelsize=8)
    if title:
        ax.set_title(title, loc="left")
    return ax


def _alike(share: np.ndarray) -> np.ndarray:
    """Groups in an order in which those that use the same clusters are neighbours."""
    if len(share) < 3:
        return np.arange(len(share))
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(share) > 2000:  # the tree needs all pairs
        return np.lexsort(share.T[::-1])[::-1]
    return leaves_list(linkage(share, "average", optimal_ordering=len(share) <= 300))


def _check(groups: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(
            f"groups has shape {groups.shape}; there are {n} rows, one group for each."
        )
    names, code = np.unique(groups, return_inverse=True)
    return names, code


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 16 else text[:15] + "…"
