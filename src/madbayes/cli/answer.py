"""An answer onto the disk: labels, centres, summary, model, report."""

from pathlib import Path
from typing import Any

import numpy as np

from madbayes.cli.fit import Answer
from madbayes.cli.options import Output
from madbayes.cli.run import Task, keep
from madbayes.cli.write import SUMMARY, WRITTEN, write_csv, write_json, write_table

LINES = 65_536  # of labels.csv, made at a time
LABELS = ("cluster", "distance", "second", "novelty_p_value")


def label_rows(
    ids: Any, rows: np.ndarray, n: int, answer: Answer, unknown: Any = ""
) -> tuple[list[str], Any]:
    """The heading (without the id) and the lines of labels.csv, one for each row of the file."""
    place = np.full(n, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    columns = [answer.labels, answer.distance, answer.second, answer.novelty]
    columns += list(answer.beside.values())
    whole = {0, 2}  # labels: -1 is none

    def cells(j: int, column: Any, at: np.ndarray) -> list[Any]:
        if column is None:
            return [""] * len(at)
        values = np.asarray(column)[np.maximum(at, 0)].tolist()
        none = unknown if j in whole else None
        for k in np.flatnonzero(at < 0).tolist():
            values[k] = ""
        return values if none is None else [none if v == -1 else v for v in values]

    def lines() -> Any:
        for start in range(0, n, LINES):  # they become Python's numbers as they are written
            at = place[start : start + LINES]
            found = [cells(j, column, at) for j, column in enumerate(columns)]
            yield from map(list, zip(ids[start : start + LINES], *found, strict=True))

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
        from madbayes.tables.pipeline import InUnits

        given = None  # rows are counted from 1
        if key != "row" or len(table.rows) < table.n_rows_in_file:
            known = ids[:]
            given = [known[i] for i in table.rows.tolist()]
        report(
            InUnits(model),
            table.values,
            folder / "report.html",
            title=name,
            ids=given,
            id_name=key,
            notes=summary["notes"],
            left_out=dict(table.left_out),
            sample_weight=task.weights,
        )
    finish(folder, summary)


def finish(folder: Path, summary: dict[str, Any]) -> None:
    """The summary, which says which files are ours."""
    files = sorted(p.name for p in folder.iterdir())
    assert WRITTEN.issuperset(files)  # others would not be known as ours the next time
    summary["files"] = [*files, SUMMARY]
    write_json(folder / SUMMARY, summary)
