"""What is typical of each cluster, and what sets it apart, in the units of the table."""

from typing import Any

import numpy as np

from madbayes.tables.cells import TableColumn, TextRules, read_cells
from madbayes.tables.frame import Frame
from madbayes.tables.logscale import back_in_units, transformed


def centers(
    columns: list[TableColumn], frame: Frame, rules: TextRules, labels: np.ndarray, k: int
) -> dict[str, list[Any]]:
    """The typical cell of each column in each cluster.

    Means; for logarithms geometric means, for yes/no the share of yes, for categories the most
    frequent value, for vectors the mean vector.
    """
    out: dict[str, list[Any]] = {}
    for column in columns:
        j = frame.names.index(column.name)
        if isinstance(frame.columns, np.ndarray):
            cells = np.asarray(frame.columns[:, j], dtype=np.float64)
        else:
            cells = read_cells(column, frame.column(j), rules)
        out[column.name] = [_typical(column, cells[labels == c]) for c in range(k)]
    return out


def _typical(column: TableColumn, cells: np.ndarray) -> Any:
    cells = cells[np.isfinite(cells).reshape(len(cells), -1).all(axis=1)]
    if not len(cells):
        return None
    if column.kind == "category" and column.categories is not None:
        return column.categories[int(np.bincount(cells.astype(np.int64)).argmax())]
    if column.kind == "vector":
        return cells.mean(axis=0).tolist()
    if column.transform.startswith("log"):
        return float(back_in_units(transformed(cells, column.transform).mean(), column.transform))
    return float(cells.mean())


def profile(
    names: np.ndarray, units: np.ndarray, scaled: np.ndarray, labels: np.ndarray, k: int
) -> dict[str, list[Any]]:
    """For each cluster the (at most five) columns that differ most from the other rows, by at least
    0.3 standard deviations.

    `inside` and `outside` are means in the units of the table (shares for categories); `effect` is
    their difference on the scale that was clustered, in standard deviations of the column.
    """
    out: dict[str, list[Any]] = {
        name: [] for name in ("cluster", "size", "column", "inside", "outside", "effect")
    }
    deviation = scaled.std(axis=0)
    deviation[deviation == 0] = 1.0
    for c in range(k):
        inside = labels == c
        if not inside.any() or inside.all():
            continue
        effect = (scaled[inside].mean(axis=0) - scaled[~inside].mean(axis=0)) / deviation
        for j in np.argsort(-np.abs(effect), kind="stable")[:5]:
            if abs(effect[j]) < 0.3:
                break
            out["cluster"].append(c)
            out["size"].append(int(inside.sum()))
            out["column"].append(str(names[j]))
            out["inside"].append(float(units[inside, j].mean()))
            out["outside"].append(float(units[~inside, j].mean()))
            out["effect"].append(float(effect[j]))
    return out
