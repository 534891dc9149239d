"""`features`: a feature model of pictures, as pictures (like BKJ Fig. 2).

The base, that is the feature that most rows have, is drawn as it is. Each other feature is drawn as
what it adds or subtracts, and says which. Below, rows with their z, beside what the model makes of
them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def features(
    model: Any,
    shape: Sequence[int],
    *,
    X: Any = None,
    rows: Sequence[int] | None = None,
    n_rows: int = 4,
    components: Any = None,
    mean: Any = None,
    title: str | None = None,
) -> "Figure":
    """Draw the features of a fitted model as images, and some rows with what they are made of.

    Parameters
    ----------
    model : KFeatures, StepwiseKFeatures, BPMeans or CollapsedBPMeans
        Fitted on rows that are pictures (or on something that `components` maps back to pictures).
    shape : (height, width) or (height, width, 3)
        Of one picture.
    X : array of shape (n_rows, n_pixels), optional
        The pictures, drawn above what the model makes of them. In the units of the features.
    rows : sequence of int, optional
        Which rows to draw; by default rows with different combinations of features, the most
        frequent first.
    n_rows : int, default=4
        How many, when `rows` is left out.
    components : array of shape (n_components_, n_pixels), optional
        The features as pixels, where the model was fitted on something else, such as principal
        components.
    mean : array of shape (n_pixels,), optional
        Added to the rows, and to the base: what was subtracted before fitting.
    title : str, optional
        Above everything.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    A, Z, shape, offset = _check(model, shape, components, mean)
    shown = _typical(Z, n_rows) if rows is None else np.asarray(rows, dtype=np.intp)
    if shown.size and (shown.min() < 0 or shown.max() >= len(Z)):
        raise ValueError(f"rows={list(shown)} must lie between 0 and {len(Z) - 1}.")

    base = int(Z.sum(axis=0).argmax()) if Z.shape[1] and Z.mean(axis=0).max() > 0.9 else -1
    lines = 3 if X is not None else 2
    width = max(Z.shape[1], shown.size, 1)
    figure = Figure(figsize=(1.7 * width + 0.4, 1.9 * lines + 0.4), layout="constrained")
    axes = figure.subplots(lines, width, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    made = Z[shown].astype(np.float64) @ A + offset
    pictures = made if X is None else np.vstack([made, np.asarray(X)[shown] + offset])
    low, high = _range(np.vstack([pictures, A[base][None] + offset]) if base >= 0 else pictures)
    for k, ax in enumerate(axes[0, : Z.shape[1]]):
        share = f"{Z[:, k].mean():.0%} of rows"
        if k == base:
            _show(ax, A[k] + offset, shape, low, high, f"{k}: base\n{share}")
        else:
            word = "add" if A[k].sum() >= 0 else "subtract"
            strength = np.abs(A[k])
            _show(ax, strength, shape, 0.0, strength.max() or 1.0, f"{k}: {word}\n{share}")
    for at, n in enumerate(shown):
        code = "".join("1" if on else "0" for on in Z[n])
        if X is not None:
            _show(axes[1, at], np.asarray(X)[n] + offset, shape, low, high, f"row {n}")
        _show(
            axes[-1, at],
            made[at],
            shape,
            low,
            high,
            f"{code}" if X is not None else f"row {n}: {code}",
        )
    if title:
        figure.suptitle(title)
    return figure


def _check(
    model: Any, shape: Sequence[int], components: Any, mean: Any
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray]:
    """Features as pixels, who has them, the shape of a picture, and what is added to it."""
    shape = tuple(int(side) for side in shape)
    A = np.asarray(model.components_ if components is None else components, dtype=np.float64)
    Z = np.asarray(model.assignments_)
    pixels = int(np.prod(shape))
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (3, 4)):
        raise ValueError(f"shape={shape} must be (height, width) or (height, width, 3).")
    if A.shape != (Z.shape[1], pixels):
        raise ValueError(
            f"components of shape {A.shape} do not make {Z.shape[1]} pictures of {shape}: "
            f"{(Z.shape[1], pixels)} is needed. Pass components= where the model was fitted on "
            "something other than pixels."
        )
    offset = np.zeros(pixels) if mean is None else np.asarray(mean, dtype=np.float64).ravel()
    if offset.shape != (pixels,):
        raise ValueError(f"mean has {offset.size} values, but a picture has {pixels} pixels.")
    return A, Z, shape, offset


def _typical(Z: np.ndarray, count: int) -> np.ndarray:
    """The first row of each of the most frequent combinations."""
    if count < 1:
        raise ValueError(f"n_rows={count} must be at least 1.")
    _, first, times = np.unique(Z, axis=0, return_index=True, return_counts=True)
    return first[np.argsort(-times, kind="stable")[:count]]


def _range(pictures: np.ndarray) -> tuple[float, float]:
    low, high = (float(np.quantile(pictures, q)) for q in (0.001, 0.999))
    return (low, high) if high > low else (low, low + 1.0)


def _show(
    ax: "Axes", values: np.ndarray, shape: tuple[int, ...], low: float, high: float, name: str
) -> None:
    picture = np.clip((values.reshape(shape) - low) / (high - low), 0.0, 1.0)
    ax.imshow(picture, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    ax.set_title(name, fontsize=8)
