"""An answer onto the disk: labels, centres, summary, model, report."""

from pathlib import Path
from typing import Any

import numpy as np

from madbayes.cli.fit import Answer
from madbayes.cli.options import Output
from madbayes.cli.run import Task, keep
from madbayes.cli.write import SUMMARY, write_csv, write_json, write_table

LABELS = ("cluster", "distance", "second", "novelty")


def label_rows(
    ids: Any, rows: np.ndarray, n: int, answer: Answer, unknown: Any = ""
) -> tuple[list[str], Any]:
    """The heading (without the id) and the lines of labels.csv, one for each row of the file."""
    place = np.full(n, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    columns = [answer.labels, answer.distance, answer.second, answer.novelty]
    columns += list(answer.beside.values())
    cells = [None if column is None else np.asarray(column).tolist() for column in columns]
    whole = {0, 2}  # labels: -1 is none

    def lines() -> Any:
        for i, key in zip(place.tolist(), ids, strict=True):
            line = [key]
            for j, column in enumerate(cells):
                value = "" if column is None or i < 0 else column[i]
                line.append(unknown if j in whole and i >= 0 and value == -1 else value)
            yield line

    return [*LABELS, *answer.beside], lines()


def write_answer(
    folder: Path, task: Task, answer: Answer, output: Output, summary: dict[str, Any], name: str
) -> None:
    """Everything but the pictures; `summary` learns which files there are."""
    table = task.table
    key, ids = task.ids
    heading, lines = label_rows(ids, table.rows, table.n_rows_in_file, answer)
    write_csv(folder / "labels.csv", [key, *heading], lines)
    if answer.centers is not None:
        kind = "feature" if answer.of == "feature" else "cluster"
        centers = zip(answer.sizes.tolist(), answer.centers.tolist(), strict=True)
        write_csv(
            folder / "centers.csv",
            [kind, "size", *table.names],
            ([label, size, *center] for label, (size, center) in enumerate(centers)),
        )
    for file, (top, rows) in answer.tables.items():
        write_csv(folder / file, top, rows)
    if output.table:
        clusters = np.full(table.n_rows_in_file, -1, dtype=np.int64)
        clusters[table.rows] = answer.labels
        shown = ["" if c < 0 else c for c in clusters.tolist()]
        write_table(folder / "table.csv", task.frame, shown)
    model = keep(task, answer)
    model.save(folder / "model.npz")
    if output.report:
        from madbayes.reports import report

        given = None if key == "row" else [ids[i] for i in table.rows.tolist()]
        report(
            model,
            table.values,
            folder / "report.html",
            title=name,
            ids=given if given is not None else (table.rows + 1).tolist(),
            id_name=key,
            notes=summary["notes"],
            left_out=dict(table.left_out),
            sample_weight=task.weights,
        )
    finish(folder, summary)


def finish(folder: Path, summary: dict[str, Any]) -> None:
    """The summary, which says which files are ours."""
    files = sorted(p.name for p in folder.iterdir())
    summary["files"] = [*files, SUMMARY]
    write_json(folder / SUMMARY, summary)
