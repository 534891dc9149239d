"""`madbayes compare`: two clusterings of the same rows, side by side."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from madbayes.cli.options import Talk
from madbayes.cli.prepare import resolve
from madbayes.cli.run import Voice
from madbayes.cli.show import count
from madbayes.tables.errors import UserError, harmless
from madbayes.tables.formats import read
from madbayes.tables.frame import Frame

MOST = 15  # rows and columns of the table that is shown


def compare_files(talk: Talk, files: tuple[Path, Path], columns: tuple[str | None, ...]) -> None:
    """The whole of `madbayes compare`."""
    frames = [read(file) for file in files]
    places = [
        _column(frame, column, f"--column{i}", file)
        for i, (frame, column, file) in enumerate(zip(frames, columns, files, strict=True), 1)
    ]
    a, b, how = _matched(frames, places)
    both = (a != "") & (b != "")
    if not both.any():
        raise UserError("No row has a cluster in both files.")
    a, b = a[both], b[both]
    first, second = np.unique(a), np.unique(b)
    order = _by_size(first), _by_size(second)
    counts = contingency_matrix(a, b)[np.ix_(*order)]
    summary = {
        "tool": "madbayes",
        "verb": "compare",
        "n_rows": int(both.sum()),
        "n_rows_left_out": int((~both).sum()),
        "matched_by": how,
        "nmi": float(normalized_mutual_info_score(a, b)),
        "ari": float(adjusted_rand_score(a, b)),
        "labels1": first[order[0]].tolist(),
        "labels2": second[order[1]].tolist(),
        "contingency": counts.tolist(),
    }
    Voice(talk).result(summary, lambda console: _show(console, summary))


def _column(frame: Frame, name: str | None, option: str, path: Path) -> int:
    if name is not None:
        return resolve(frame, [name], option, whole=True)[0]
    for known in ("cluster", "label", "class", "target", "species"):
        if known in frame.names:
            return frame.names.index(known)
    if len(frame.names) == 1:
        return 0
    raise UserError(f"{path} has no column called cluster: name one with {option}.")


def _texts(frame: Frame, j: int) -> np.ndarray:
    cells = frame.column(j).to_pylist()
    return np.array(["" if cell is None else _text(cell) for cell in cells])


def _text(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _matched(frames: list[Frame], places: list[int]) -> tuple[np.ndarray, np.ndarray, str]:
    """The labels of the rows that both files have, in the same order."""
    a, b = (_texts(frame, j) for frame, j in zip(frames, places, strict=True))
    name = frames[0].names[0]
    if name == frames[1].names[0] and 0 not in places:
        keys = [_texts(frame, 0) for frame in frames]
        if all(np.unique(key).size == key.size for key in keys):
            common, i, j = np.intersect1d(keys[0], keys[1], return_indices=True)
            if not common.size:
                raise UserError(f"The files have no {name} in common.")
            if name == "row" and a.size != b.size:
                raise UserError(
                    f"The files have {a.size} and {b.size} rows, which are only numbered: they are "
                    "not about the same rows. With --id, madbayes cluster writes ids to match by."
                )
            return a[i], b[j], name
    if a.size != b.size:
        raise UserError(
            f"The files have {a.size} and {b.size} rows, and no ids in common by which to match "
            "them: the first columns should have the same name."
        )
    return a, b, "order"


def _by_size(labels: np.ndarray) -> np.ndarray:
    """The order of different labels: numbers by size, text by the alphabet."""
    try:
        return np.argsort(labels.astype(float), kind="stable")
    except ValueError:
        return np.arange(len(labels))


def _show(console: Console, summary: dict[str, Any]) -> None:
    rows = count(summary["n_rows"], "row")
    console.print(Text(harmless(f"{rows}, matched by {summary['matched_by']}")))
    table = RichTable()
    table.add_column("1 \\ 2", justify="right", style="bold")
    counts = np.array(summary["contingency"])
    shown = [labels[:MOST] for labels in (summary["labels1"], summary["labels2"])]
    for label in shown[1]:
        table.add_column(Text(harmless(label)), justify="right")
    for label, line in zip(shown[0], counts, strict=False):
        cells = ["·" if cell == 0 else f"{cell:,}" for cell in line[:MOST]]
        table.add_row(Text(harmless(label)), *cells)
    console.print(table)
    if counts.shape[0] > MOST or counts.shape[1] > MOST:
        console.print(Text(f"Shown: the first {MOST}; --json has all.", "dim"))
    console.print(f"NMI {summary['nmi']:.4f}   ARI {summary['ari']:.4f}", highlight=False)
