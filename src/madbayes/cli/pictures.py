"""The pictures that lie beside the other results."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from madbayes import plots
from madbayes.cli.prepare import Task
from madbayes.cli.results import Answer
from madbayes.plots._rows import usage_size
from madbayes.tables.errors import harmless


def installed() -> bool:
    """Whether matplotlib is there."""
    try:
        return find_spec("matplotlib.figure") is not None
    except (ModuleNotFoundError, ValueError):
        return False


def draw(verb: str, folder: Path, task: Task | None, answer: Answer, title: str) -> list[str]:
    """The pictures of a verb into `folder`; the names of their files."""
    from matplotlib.figure import Figure

    drawn = []
    title = _plain(title)
    if task is not None and verb in ("cluster", "path", "groups"):
        drawn += clusters(folder, task, answer, title)
    if answer.path is not None and verb != "groups":
        figure = Figure(figsize=(7.5, 4.5), layout="constrained")
        answer.path.plot(figure.add_subplot())
        figure.savefig(folder / "path.png", dpi=150)
        drawn.append("path.png")
    return drawn


def clusters(folder: Path, task: Task, answer: Answer, title: str) -> list[str]:
    """clusters.png; of rows in groups groups.png (side by side) and usage.png (who uses which)."""
    from matplotlib.figure import Figure

    rows, centers = _drawn_rows(task, answer)
    names: Any = {"feature_names": [_plain(name) for name in task.table.names], "title": title}
    if task.by is None:
        figure = Figure(figsize=(8, 5.5), layout="constrained")
        plots.scatter(rows, answer.labels, centers, ax=figure.add_subplot(), **names)
        figure.savefig(folder / "clusters.png", dpi=150)
        return ["clusters.png"]
    figure = plots.groups(rows, answer.labels, task.by, centers, **names)
    figure.savefig(folder / "groups.png", dpi=130)
    figure = Figure(layout="constrained")
    plots.group_usage(answer.labels, task.by, title=title, ax=figure.add_subplot())
    figure.set_size_inches(usage_size(len(answer.model.groups_), answer.number))
    figure.savefig(folder / "usage.png", dpi=130)
    return ["groups.png", "usage.png"]


def _drawn_rows(task: Task, answer: Answer) -> tuple[np.ndarray, np.ndarray | None]:
    """Two columns are drawn as in the file; principal components are of what was clustered."""
    table = task.table
    if table.units.shape[1] <= 2:
        return table.units, answer.centers
    if table.encoder.output == "mixed" or np.isnan(table.X).any():
        return table.encoder.scaled(table.units), None
    return table.X, getattr(answer.model, "cluster_centers_", None)


def _plain(text: str) -> str:
    """A name that matplotlib does not take for a formula."""
    return harmless(text).replace("$", r"\$")
