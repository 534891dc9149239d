"""What a model found, and how it gets onto the disk: labels, centres, summary, model, report."""

import math
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._storage.saving import versions
from madbayes.cli.options import Output, command_line
from madbayes.cli.write import SUMMARY, TOOL, WRITTEN, write_csv, write_json
from madbayes.tables import frame as frames

LABELS = ("cluster", "distance", "second", "novelty_p_value")


@dataclass
class Answer:
    """What a model found, in the units of the file."""

    model: Any
    labels: np.ndarray | None  # None: they are written already
    of: str = "cluster"
    number: int = 0
    sizes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    names: tuple[str, ...] = ()  # what the columns of `centers` are called
    centers: np.ndarray | None = None
    telling: list[int] = field(default_factory=list)  # columns that tell clusters apart, best first
    standardized: bool = False
    penalty: float | None = None
    penalty_from: str = ""
    penalty_name: str = "penalty"
    objective: float = math.nan
    objective_is: str = "squared error + penalty × clusters"
    distance: np.ndarray | None = None
    second: np.ndarray | None = None
    novelty: np.ndarray | None = None
    beside: dict[str, Any] = field(default_factory=dict)  # further columns of labels.csv
    per_cluster: dict[str, Any] = field(default_factory=dict)  # and of the list of clusters
    facts: dict[str, str] = field(default_factory=dict)  # further lines below that list
    tables: dict[str, tuple[list[Any], Any]] = field(default_factory=dict)  # further CSV files
    about: dict[str, Any] = field(default_factory=dict)  # further lines of the summary
    notes: tuple[str, ...] = ()
    found_in: str = ""  # "272 rows"
    ids: tuple[str, Any] = ("row", ())  # what the first column of labels.csv is called; its cells
    rows: np.ndarray | None = None  # which of them were clustered; None: all
    frame: frames.Frame | None = None  # the table that was read
    report: Callable[..., None] | None = None  # writes report.html
    save: Callable[[Path], None] | None = None  # writes model.npz

    @property
    def evidence(self) -> Any:
        return getattr(self.model, "evidence_", None)

    @property
    def path(self) -> Any:
        return getattr(self.model, "path_", None)


def summarize(verb: str, file: str, notes: list[str], answer: Answer) -> dict[str, Any]:
    """The content of summary.json."""
    number = "n_components" if answer.of == "feature" else "n_clusters"
    return {
        "tool": TOOL,
        "verb": verb,
        "file": file,
        "command": command_line(),
        **answer.about,
        number: answer.number,
        "sizes": answer.sizes.tolist(),
        answer.penalty_name: answer.penalty,
        f"{answer.penalty_name}_from": answer.penalty_from,
        "objective": answer.objective,
        "evidence": describe(answer.evidence),
        "notes": [*notes, *answer.notes],
        "versions": {**versions(), "python": platform.python_version()},
    }


def describe(evidence: Any) -> dict[str, Any] | None:
    """A `Choice` as JSON."""
    if evidence is None:
        return None
    number = "n_components" if evidence.of == "feature" else "n_clusters"
    kept = ("strength", "support", "reason", "stability", "score", "confirmed", "n_isolated")
    return {
        number: evidence.number,
        "description": evidence.describe(),
        **{name: getattr(evidence, name) for name in (*kept, "remarks")},
        "runners_up": [{number: k, "score": score} for k, score in evidence.runners_up],
    }


def label_rows(answer: Answer, unknown: Any = "") -> tuple[list[str], Any]:
    """The heading and the lines of labels.csv, one for each row of the file.

    `unknown` stands for no cluster.
    """
    key, ids = answer.ids
    n, rows = len(ids), answer.rows
    place = np.arange(n)
    if rows is not None:
        place = np.full(n, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
    columns = [answer.labels, answer.distance, answer.second, answer.novelty]
    columns += list(answer.beside.values())

    def cells(j: int, column: Any, at: np.ndarray) -> list[Any]:
        if column is None:
            return [""] * len(at)
        values = np.asarray(column)[np.maximum(at, 0)].tolist()
        for k in np.flatnonzero(at < 0).tolist():
            values[k] = ""
        return [unknown if v == -1 else v for v in values] if j in (0, 2) else values  # labels

    def lines() -> Any:
        for start in range(0, n, frames.BATCH_ROWS):  # they become Python's numbers as written
            at = slice(start, start + frames.BATCH_ROWS)
            found = [cells(j, column, place[at]) for j, column in enumerate(columns)]
            yield from map(list, zip(plain_list(ids[at]), *found, strict=True))

    return [key, *LABELS, *answer.beside], lines()


def plain_list(cells: Any) -> list[Any]:
    """The cells of a column, or a range, as Python's values."""
    return cells.to_pylist() if hasattr(cells, "to_pylist") else list(cells)


def write_answer(folder: Path, answer: Answer, output: Output, summary: dict[str, Any]) -> None:
    """Everything but the pictures; `summary` learns which files there are."""
    if answer.labels is not None:
        write_csv(folder / "labels.csv", *label_rows(answer))
    if answer.centers is not None:
        lines = zip(answer.sizes.tolist(), answer.centers.tolist(), strict=True)
        rows = ([label, size, *center] for label, (size, center) in enumerate(lines))
        write_csv(folder / "centers.csv", [answer.of, "size", *answer.names], rows)
    for file, (heading, rows) in answer.tables.items():
        write_csv(folder / file, heading, rows)
    if output.table and answer.frame is not None:
        write_csv(folder / "table.csv", *_with_clusters(answer.frame, answer))
    if answer.save is not None:
        answer.save(folder / "model.npz")
    if output.report and answer.report is not None:
        answer.report(folder / "report.html", title=summary["file"], notes=summary["notes"])
    finish(folder, summary)


def _with_clusters(frame: frames.Frame, answer: Answer) -> tuple[list[str], Any]:
    """The input, cell by cell, with the cluster as the last column."""
    name = "cluster" if "cluster" not in frame.names else "cluster (found)"
    cells = [frame.column(j).to_pylist() for j in range(len(frame.names))]
    clusters = (line[1] for line in label_rows(answer)[1])
    return [*frame.names, name], zip(*cells, clusters, strict=True)


def finish(folder: Path, summary: dict[str, Any]) -> None:
    """The summary, which says which files are ours."""
    files = sorted(p.name for p in folder.iterdir())
    assert WRITTEN.issuperset(files)  # others would not be known as ours the next time
    summary["files"] = [*files, SUMMARY]
    write_json(folder / SUMMARY, summary)
