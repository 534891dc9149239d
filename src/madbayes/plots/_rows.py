"""Rows as dots, coloured by cluster: `scatter` draws all, `groups` a panel for each group of rows.

`group_usage` shows which group uses which cluster. One column is spread out at random heights; two
are drawn as they are; of more, the first two principal components are drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.plots._palette import GREY, assign_colors, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def scatter(
    X: Any,
    labels: Any,
    centers: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    ax: "Axes | None" = None,
    max_points: int = 100_000,
) -> "Axes":
    """Draw a clustering.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows. ``scatter(model, X)`` does the same as ``scatter(X, model)``.
    labels : array-like of shape (n_samples,), or fitted model
        Cluster of each row, from 0; negative labels (rows that belong nowhere) are drawn grey. A
        model gives the labels of its fit, or predicts those of other rows, and its centres.
    centers : array-like of shape (n_clusters, n_features), optional
        Marked and, up to 60 of them, numbered. Means of the rows when left out.
    feature_names : sequence of str, optional
        One per column, for the axes. Columns of a data frame name themselves.
    title : str, optional
        Above the picture.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.
    max_points : int, default=100_000
        Of more rows than this, an even selection is drawn, and the picture says so.

    Returns
    -------
    matplotlib.axes.Axes
    """
    X, labels, centers, feature_names = _clustering(X, labels, centers, feature_names)
    if max_points < 1:
        raise ValueError(f"max_points={max_points} must be at least 1.")
    ax = new_axes() if ax is None else ax
    drawn = np.unique(np.linspace(0, len(X) - 1, min(len(X), max_points)).astype(np.intp))
    rows, spots, axis_names = project(X[drawn], centers, feature_names)
    colors = assign_colors(spots)
    sizes = np.bincount(labels[labels >= 0], minlength=len(centers))
    side = float(np.interp(np.log10(len(rows)), [1.5, 3, 5], [42, 16, 2]))
    alpha = float(np.interp(len(rows), [1_000, 100_000], [0.75, 0.35]))
    _draw_rows(ax, rows, labels[drawn], colors, s=side, alpha=alpha, rasterized=True)
    if len(spots) <= 60:
        _draw_centers(ax, spots, colors, np.flatnonzero(sizes), 150, 7.5)
    else:  # too many to be numbered
        ax.scatter(
            spots[:, 0], spots[:, 1], s=28, c="white", edgecolors=colors, linewidths=1.8, zorder=3
        )
    _draw_legend(ax, sizes, colors, n_unassigned=int((labels < 0).sum()))
    ax.set(xlabel=axis_names[0], ylabel=axis_names[1])
    if not axis_names[1]:  # heights mean nothing when there is one column
        ax.set(yticks=[], ylim=(0, 1))
    bare(ax, title)
    ax.grid(True, color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
    if len(drawn) < len(X):
        text = f"{len(drawn):,} of {len(X):,} rows drawn"
        ax.text(0.01, 0.01, text, transform=ax.transAxes, fontsize="x-small", color="0.4")
    return ax


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
    labels : array-like of shape (n_samples,), or fitted model
        The (global) cluster of each row, from 0, as in `HardHDP.labels_`.
        ``groups(model, X, groups)`` takes them from the model.
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
    X, labels, centers, feature_names = _clustering(X, labels, centers, feature_names)
    names, code = _check_groups(groups, len(X))
    if max_groups < 1:
        raise ValueError(f"max_groups={max_groups} must be at least 1.")
    from matplotlib.figure import Figure

    rows, spots, axis_names = project(X, centers, feature_names)
    colors = assign_colors(spots)
    shown = np.unique(np.linspace(0, len(names) - 1, min(max_groups, len(names))).astype(np.intp))
    wide = min(5, int(np.ceil(np.sqrt(len(shown)))))
    high = -(-len(shown) // wide)
    figure = Figure(figsize=(2.5 * wide + 0.5, 2.4 * high + 0.7), layout="constrained")
    panels = figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False)
    behind = rows[:: max(1, len(rows) // 4000)]  # about so many rows of all groups, in grey
    for ax in panels.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, j in zip(panels.flat, shown, strict=False):
        inside = np.flatnonzero(code == j)
        own = labels[inside]
        ax.scatter(*behind.T, s=3, c="0.9", linewidths=0, rasterized=True)
        side = float(np.interp(np.log10(len(inside)), [1.5, 4], [26, 3]))
        _draw_rows(ax, rows[inside], own, colors, s=side, alpha=0.9)
        used = np.unique(own[own >= 0])
        _draw_centers(ax, spots, colors, used, 95, 6.5)
        word = "cluster" if len(used) == 1 else "clusters"
        bare(ax, f"{_short(names[j])}: {len(used)} {word}", fontsize=9)
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
    labels : array-like of shape (n_samples,), or fitted model
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
    labels = np.asarray(getattr(labels, "labels_", labels))
    names, code = _check_groups(groups, len(labels))
    counted = labels >= 0
    if not counted.any():
        raise ValueError("labels has no cluster at all: every label is negative.")
    table = np.zeros((len(names), int(labels.max()) + 1))
    np.add.at(table, (code[counted], labels[counted]), 1.0)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)
    order = _alike(share)
    n_groups, n_clusters = table.shape
    ax = new_axes(usage_size(n_groups, n_clusters)) if ax is None else ax
    image = ax.imshow(
        share[order], aspect="auto", cmap="Blues", vmin=0, vmax=share.max(), interpolation="nearest"
    )
    from matplotlib.ticker import PercentFormatter

    percent = PercentFormatter(1, decimals=0)
    ax.figure.colorbar(image, ax=ax, label="share of the group's rows", format=percent, aspect=40)
    if table.size <= 400:  # there is room for numbers
        style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 6.5}
        for line, p in np.argwhere(table[order]):
            dark = share[order[line], p] > 0.6 * share.max()
            text = f"{int(table[order[line], p])}"
            ax.text(p, line, text, color="white" if dark else "0.2", **style)
    if n_groups <= 60:  # and for names
        ax.set_yticks(range(n_groups), [_short(names[j]) for j in order], fontsize=7)
        ax.set_ylabel("group")
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{n_groups:,} groups")
    ax.set_xlabel("cluster")
    if n_clusters <= 60:
        ax.set_xticks(range(n_clusters))
    ax.tick_params(axis="x", labelsize=8)
    if title:
        ax.set_title(title, loc="left")
    return ax


def usage_size(n_groups: int, n_clusters: int) -> tuple[float, float]:
    """Inches of a heat map in which all names can be read."""
    return max(2.2 + 0.34 * min(n_clusters, 40), 5), max(1.4 + 0.2 * min(n_groups, 60), 3)


def _clustering(
    X: Any, labels: Any, centers: Any, feature_names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Sequence[str]]:
    """Rows, labels, centres and names of columns, from (X, labels), (model, X) or (X, model)."""
    if hasattr(X, "labels_"):
        X, labels = labels, X
    if feature_names is None:
        feature_names = [str(name) for name in getattr(X, "columns", ())]
    if hasattr(labels, "labels_"):
        model, n = labels, len(X)
        labels = model.labels_ if len(model.labels_) == n else model.predict(X)
        own = getattr(model, "cluster_centers_", None)
        if centers is None and own is not None and np.shape(own)[1:] == np.shape(X)[1:]:
            centers = own
    X, labels = np.asarray(X), np.asarray(labels)
    if X.ndim != 2 or len(X) == 0:
        raise ValueError(f"X has shape {X.shape}; rows and columns are needed.")
    if labels.shape != (len(X),):
        raise ValueError(
            f"labels has shape {labels.shape}; X has {len(X)} rows, and each needs one label."
        )
    if feature_names and len(feature_names) != X.shape[1]:
        raise ValueError(
            f"feature_names has {len(feature_names)} names for the {X.shape[1]} columns of X."
        )
    n_clusters = max(int(labels.max()) + 1, 0)
    if centers is None:
        centers = np.full((n_clusters, X.shape[1]), np.nan)
        for k in np.unique(labels[labels >= 0]):
            centers[k] = X[labels == k].mean(axis=0, dtype=np.float64)
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[1] != X.shape[1] or len(centers) < n_clusters:
        raise ValueError(
            f"centers has shape {centers.shape}; ({n_clusters} or more, {X.shape[1]}) is needed to "
            "match labels and X."
        )
    return X, labels, centers, feature_names


def project(
    rows: np.ndarray, centers: np.ndarray, feature_names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, tuple[str, str]]:
    """Rows and centres in the plane, and what its axes are called."""
    n, d = rows.shape
    if d == 1:
        heights = np.random.default_rng(0).uniform(0.05, 0.95, size=n)
        middles = np.full(len(centers), 0.5)
        name = feature_names[0] if feature_names else "value"
        return (
            np.column_stack([rows[:, 0], heights]),
            np.column_stack([centers[:, 0], middles]),
            (name, ""),
        )
    if d == 2:
        first, second = feature_names or ("first column", "second column")
        return rows, centers, (first, second)
    from sklearn.decomposition import PCA

    if n == 1:  # one row has no directions of its own
        return np.zeros((1, 2)), np.zeros((len(centers), 2)), ("", "")
    with np.errstate(invalid="ignore"):  # shares are 0/0 when all rows are equal
        pca = PCA(n_components=2, random_state=0).fit(rows)
    first, second = (
        f"principal component {j} ({share:.0%} of the variance)"
        for j, share in enumerate(np.nan_to_num(pca.explained_variance_ratio_), 1)
    )
    plane = pca.components_.T
    return (rows - pca.mean_) @ plane, (centers - pca.mean_) @ plane, (first, second)


def _draw_rows(
    ax: "Axes", rows: np.ndarray, labels: np.ndarray, colors: list[str], **style: Any
) -> None:
    """All rows in one call and in their own order, so that no cluster hides another."""
    palette = np.array([*colors, GREY])
    kinds = palette[np.where(labels < 0, len(colors), labels)]
    ax.scatter(rows[:, 0], rows[:, 1], c=kinds, linewidths=0, **style)


def _draw_centers(
    ax: "Axes", spots: np.ndarray, colors: list[str], used: np.ndarray, side: int, font: float
) -> None:
    """The centres of the clusters `used`, numbered."""
    x, y = spots[used].T
    edges = np.array(colors)[used]
    ax.scatter(x, y, s=side, c="white", edgecolors=edges, linewidths=1.7, zorder=3)
    style: Any = {"ha": "center", "va": "center_baseline", "fontsize": font, "zorder": 4}
    for k in used:
        ax.annotate(str(k), spots[k], **style)


def _draw_legend(ax: "Axes", sizes: np.ndarray, colors: list[str], n_unassigned: int) -> None:
    """The sizes of the clusters; of many, those of the largest."""
    from matplotlib.lines import Line2D

    most = 14  # lines that there is room for
    largest = np.argsort(-sizes, kind="stable")[:most]
    shown = np.sort(largest) if len(sizes) <= most else largest
    entries = [(f"{k}: {sizes[k]:,}", colors[k]) for k in shown]
    if len(sizes) > len(shown):
        entries.append((f"and {len(sizes) - len(shown)} more", "none"))
    if n_unassigned:
        entries.append((f"none: {n_unassigned:,}", GREY))
    dot: Any = {"marker": "o", "linestyle": "", "markersize": 7}
    ax.legend(
        handles=[Line2D([], [], color=color, label=label, **dot) for label, color in entries],
        title="cluster: size",
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        handletextpad=0.2,
    )


def _alike(share: np.ndarray) -> np.ndarray:
    """Groups in an order in which those that use the same clusters are neighbours."""
    if len(share) < 3:
        return np.arange(len(share))
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(share) > 2000:  # the tree needs all pairs
        return np.lexsort(share.T[::-1])[::-1]
    return leaves_list(linkage(share, "average", optimal_ordering=len(share) <= 300))


def _check_groups(groups: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
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
