"""An answer onto the disk: labels, centres, summary, model, report."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._storage.saving import versions
from madbayes.cli.fit import Answer
from madbayes.cli.options import Output, command_line
from madbayes.cli.prepare import Task
from madbayes.cli.write import SUMMARY, TOOL, WRITTEN, write_csv, write_json, write_table

EVIDENCE = ("strength", "support", "reason", "score", "confirmed", "n_isolated", "remarks")


def summarize(verb: str, file: str, task: Task | None, answer: Answer) -> dict[str, Any]:
    """The content of summary.json."""
    number = "n_components" if answer.of == "feature" else "n_clusters"
    out: dict[str, Any] = {"tool": TOOL, "verb": verb, "file": file, "command": command_line()}
    if task is not None:
        columns = task.table.encoder.used_columns_
        out |= {
            "n_rows": len(task.table.rows),
            "n_rows_in_file": task.table.frame.n_rows,
            "n_columns": len(columns),
            "columns_used": [column.name for column in columns],
            "columns_left_out": task.left_out,
            "kinds": {column.name: column.kind for column in columns},
            "standardized": task.table.standardized,
        }
    out |= {
        number: answer.number,
        "sizes": answer.sizes.tolist(),
        answer.penalty_name: answer.penalty,
        f"{answer.penalty_name}_from": answer.penalty_from,
        "objective": answer.objective,
        "evidence": describe(answer.evidence),
        "notes": [*(task.notes if task else ()), *answer.notes],
        "versions": {**versions(), "python": platform.python_version()},
    }
    return out


def describe(evidence: Any) -> dict[str, Any] | None:
    """A `Choice` as JSON."""
    if evidence is None:
        return None
    number = "n_components" if getattr(evidence, "of", "") == "feature" else "n_clusters"
    out = {number: getattr(evidence, number, None), "description": evidence.describe()}
    out |= {name: getattr(evidence, name) for name in EVIDENCE if hasattr(evidence, name)}
    out["runners_up"] = [
        {number: k, "score": score} for k, score in getattr(evidence, "runners_up", ())
    ]
    return out


LINES = 65_536  # of labels.csv, made at a time
LABELS = ("cluster", "distance", "second", "novelty_p_value")


def label_rows(
    ids: Any, rows: np.ndarray, n: int, answer: Answer, unknown: Any = ""
) -> tuple[list[str], Any]:
    """The heading (without the id) and the lines of labels.csv, one for each row of the file.

    `ids` are those of all rows of the file, and `rows` the positions of the rows with an answer;
    `unknown` stands for no cluster.
    """
    place = np.full(n, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    columns = [answer.labels, answer.distance, answer.second, answer.novelty]
    columns += list(answer.beside.values())
    whole = {0, 2}  # labels: -1 is none

    def cells(j: int, column: Any, at: np.ndarray) -> list[Any]:
        if column is None:
            return [""] * len(at)
        values = np.asarray(column)[np.maximum(at, 0)].tolist()
        for k in np.flatnonzero(at < 0).tolist():
            values[k] = ""
        return [unknown if v == -1 else v for v in values] if j in whole else values

    def lines() -> Any:
        for start in range(0, n, LINES):  # they become Python's numbers as they are written
            at = place[start : start + LINES]
            found = [cells(j, column, at) for j, column in enumerate(columns)]
            names = plain_list(ids[start : start + LINES])
            yield from map(list, zip(names, *found, strict=True))

    return [*LABELS, *answer.beside], lines()


def plain_list(cells: Any) -> list[Any]:
    """The cells of a column, or a range, as Python's values."""
    return cells.to_pylist() if hasattr(cells, "to_pylist") else list(cells)


def write_answer(
    folder: Path, task: Task, answer: Answer, output: Output, summary: dict[str, Any]
) -> None:
    """Everything but the pictures; `summary` learns which files there are."""
    found: Any = answer.found
    table, (key, ids) = task.table, task.ids
    heading, lines = label_rows(ids, table.rows, table.frame.n_rows, answer)
    write_csv(folder / "labels.csv", [key, *heading], lines)
    write_centers(folder, answer, table.names)
    for file, (top, rows) in answer.tables.items():
        write_csv(folder / file, top, rows)
    if output.table:
        clusters = np.full(table.frame.n_rows, -1, dtype=np.int64)
        clusters[table.rows] = answer.labels
        shown = ["" if c < 0 else c for c in clusters.tolist()]
        write_table(folder / "table.csv", table.frame, shown)
    found.save(folder / "model.npz")
    if output.report:
        options: dict[str, Any] = {"notes": summary["notes"], "left_out": task.left_out}
        if key != "row":
            known = plain_list(ids)
            options |= {"ids": [known[i] for i in table.rows.tolist()], "id_name": key}
        found.report(folder / "report.html", title=summary["file"], **options)
    finish(folder, summary)


def write_centers(folder: Path, answer: Answer, names: Sequence[str]) -> None:
    """centers.csv: a line for each cluster or feature."""
    centers: Any = answer.centers
    lines = zip(answer.sizes.tolist(), centers.tolist(), strict=True)
    write_csv(
        folder / "centers.csv",
        [answer.of, "size", *names],
        ([label, size, *center] for label, (size, center) in enumerate(lines)),
    )


def finish(folder: Path, summary: dict[str, Any]) -> None:
    """The summary, which says which files are ours."""
    files = sorted(p.name for p in folder.iterdir())
    assert WRITTEN.issuperset(files)  # others would not be known as ours the next time
    summary["files"] = [*files, SUMMARY]
    write_json(folder / SUMMARY, summary)
