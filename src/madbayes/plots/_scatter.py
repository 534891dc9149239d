"""`scatter`: rows as dots, coloured by cluster, with the centres numbered.

One column is spread out at random heights; two are drawn as they are; of more, the first two
principal components are drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from madbayes.plots._palette import assign_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEGEND_ROWS = 14
NUMBERED_CENTERS = 60


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
    if hasattr(X, "labels_"):  # (model, X), as everywhere else
        X, labels = labels, X
    if feature_names is None:
        feature_names = [str(name) for name in getattr(X, "columns", ())]
    if hasattr(labels, "labels_"):
        labels, centers = _of_model(labels, X, centers)
    X, labels, centers = _as_arrays(X, labels, centers)
    if feature_names and len(feature_names) != X.shape[1]:
        raise ValueError(
            f"feature_names has {len(feature_names)} names for the {X.shape[1]} columns of X."
        )
    if max_points < 1:
        raise ValueError(f"max_points={max_points} must be at least 1.")
    ax = _new_axes() if ax is None else ax

    drawn = np.arange(len(X))
    if len(X) > max_points:
        drawn = np.unique(np.linspace(0, len(X) - 1, max_points).astype(np.intp))
    rows, spots, axis_names = _project(X[drawn], centers, feature_names)
    colors = assign_colors(spots)
    sizes = np.bincount(labels[labels >= 0], minlength=len(centers))

    _draw_rows(ax, rows, labels[drawn], colors)
    _draw_centers(ax, spots, colors, sizes)
    _draw_legend(ax, sizes, colors, n_unassigned=int((labels < 0).sum()))
    _dress(ax, axis_names, title)
    if len(drawn) < len(X):
        ax.annotate(
            f"{len(drawn):,} of {len(X):,} rows drawn",
            (0.01, 0.01),
            xycoords="axes fraction",
            fontsize="x-small",
            color="0.4",
        )
    return ax


def _of_model(model: Any, X: Any, centers: Any) -> tuple[Any, Any]:
    """Labels of the rows and, unless others are given, the centres of a fitted model."""
    labels = model.labels_ if len(model.labels_) == len(X) else model.predict(X)
    if centers is None:
        centers = getattr(model, "cluster_centers_", None)
        if centers is not None and np.shape(centers)[1:] != np.shape(X)[1:]:
            centers = None
    return labels, centers


def _as_arrays(X: Any, labels: Any, centers: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, labels = np.asarray(X), np.asarray(labels)
    if X.ndim != 2 or len(X) == 0:
        raise ValueError(f"X has shape {X.shape}; rows and columns are needed.")
    if labels.shape != (len(X),):
        raise ValueError(
            f"labels has shape {labels.shape}; X has {len(X)} rows, and each needs one label."
        )
    if centers is None:
        n_clusters = max(int(labels.max()) + 1, 0)
        centers = np.full((n_clusters, X.shape[1]), np.nan)
        for k in np.unique(labels[labels >= 0]):
            centers[k] = X[labels == k].mean(axis=0, dtype=np.float64)
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[1] != X.shape[1] or len(centers) <= labels.max():
        raise ValueError(
            f"centers has shape {centers.shape}; ({int(labels.max()) + 1} or more, {X.shape[1]}) "
            "is needed to match labels and X."
        )
    return X, labels, centers


def _new_axes() -> "Axes":
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Drawing needs matplotlib: pip install "madbayes[plot]"', name="matplotlib"
        ) from error
    return pyplot.subplots(figsize=(8, 5.5), layout="constrained")[1]


def _project(
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


def _draw_rows(ax: "Axes", rows: np.ndarray, labels: np.ndarray, colors: list[str]) -> None:
    # All rows in one call and in their own order, so that no cluster hides another.
    palette = np.array([*colors, "#BBBBBB"])
    side = float(np.interp(np.log10(len(rows)), [1.5, 3, 5], [42, 16, 2]))
    ax.scatter(
        rows[:, 0],
        rows[:, 1],
        s=side,
        c=palette[np.where(labels < 0, len(colors), labels)],
        alpha=float(np.interp(len(rows), [1_000, 100_000], [0.75, 0.35])),
        linewidths=0,
        rasterized=True,
    )


def _draw_centers(ax: "Axes", spots: np.ndarray, colors: list[str], sizes: np.ndarray) -> None:
    numbered = len(spots) <= NUMBERED_CENTERS
    ax.scatter(
        spots[:, 0],
        spots[:, 1],
        s=150 if numbered else 28,
        c="white",
        edgecolors=colors,
        linewidths=1.8,
        zorder=3,
    )
    if numbered:
        for k, (x, y) in enumerate(spots):
            if sizes[k]:
                ax.annotate(
                    str(k), (x, y), ha="center", va="center_baseline", fontsize=7.5, zorder=4
                )


def _draw_legend(ax: "Axes", sizes: np.ndarray, colors: list[str], n_unassigned: int) -> None:
    from matplotlib.lines import Line2D

    largest = np.argsort(-sizes, kind="stable")[:LEGEND_ROWS]
    shown = np.sort(largest) if len(sizes) <= LEGEND_ROWS else largest

    def entry(label: str, color: str) -> Line2D:
        return Line2D([], [], marker="o", linestyle="", markersize=7, color=color, label=label)

    handles = [entry(f"{k}: {sizes[k]:,}", colors[k]) for k in shown]
    if len(sizes) > len(shown):
        handles.append(entry(f"and {len(sizes) - len(shown)} more", "none"))
    if n_unassigned:
        handles.append(entry(f"none: {n_unassigned:,}", "#BBBBBB"))
    ax.legend(
        handles=handles,
        title="cluster: size",
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        handletextpad=0.2,
    )


def _dress(ax: "Axes", axis_names: tuple[str, str], title: str | None) -> None:
    ax.set_xlabel(axis_names[0])
    ax.set_ylabel(axis_names[1])
    if not axis_names[1]:  # heights mean nothing when there is one column
        ax.set_yticks([])
        ax.set_ylim(0, 1)
    if title:
        ax.set_title(title, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
