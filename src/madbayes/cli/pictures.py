"""The pictures that lie beside the other results; none where matplotlib is not installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from madbayes.cli.fit import Answer
from madbayes.cli.prepare import Task
from madbayes.tables.errors import harmless


def _installed() -> bool:
    try:
        return find_spec("matplotlib.figure") is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _drawn_rows(task: Task, answer: Answer) -> tuple[np.ndarray, np.ndarray | None]:
    """Two columns are drawn as in the file; principal components are of what was clustered."""
    table = task.table
    if table.units.shape[1] <= 2:
        return table.units, answer.centers
    if table.encoder.output == "mixed" or np.isnan(table.X).any():
        return table.encoder.scaled(table.units), None
    return table.X, getattr(answer.model, "cluster_centers_", None)


def clusters(folder: Path, task: Task, answer: Answer, title: str) -> list[str]:
    """clusters.png and, when the data decided, path.png."""
    if not _installed():
        return []
    from matplotlib.figure import Figure

    from madbayes.plots import scatter

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    rows, centers = _drawn_rows(task, answer)
    names = [_plain(name) for name in task.table.names]
    scatter(
        rows,
        answer.labels,
        centers,
        feature_names=names,
        title=_plain(title),
        ax=figure.add_subplot(),
    )
    figure.savefig(folder / "clusters.png", dpi=150)
    return ["clusters.png", *path_only(folder, task, answer, title)]


def path_only(folder: Path, task: Task | None, answer: Answer, title: str) -> list[str]:
    """path.png, when there is a path."""
    if answer.path is None or not _installed():
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    answer.path.plot(figure.add_subplot())
    figure.savefig(folder / "path.png", dpi=150)
    return ["path.png"]


def groups(folder: Path, task: Task, answer: Answer, title: str) -> list[str]:
    """groups.png (side by side) and usage.png (which group uses which cluster)."""
    if not _installed():
        return []
    from matplotlib.figure import Figure

    from madbayes.plots import group_usage
    from madbayes.plots import groups as draw_groups

    rows, centers = _drawn_rows(task, answer)
    names = [_plain(name) for name in task.table.names]
    by: Any = task.by
    figure = draw_groups(rows, answer.labels, by, centers, feature_names=names, title=_plain(title))
    figure.savefig(folder / "groups.png", dpi=130)
    n_groups = len(answer.model.groups_)
    wide, high = 2.2 + 0.34 * min(answer.number, 40), 1.4 + 0.2 * min(n_groups, 60)
    figure = Figure(figsize=(max(wide, 5), max(high, 3)), layout="constrained")
    group_usage(answer.labels, by, title=_plain(title), ax=figure.add_subplot())
    figure.savefig(folder / "usage.png", dpi=130)
    return ["groups.png", "usage.png"]


def _plain(text: str) -> str:
    """A name that matplotlib does not take for a formula."""
    return harmless(text).replace("$", r"\$")
