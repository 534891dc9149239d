"""`madbayes predict`: clusters of new rows by a model that was saved."""

import csv
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from madbayes._storage.prepared import Column as PreparedColumn
from madbayes._storage.prepared import Prepared
from madbayes.cli.fit import Answer, feature_rows, nearness, novelty
from madbayes.cli.prepare import about_ids, named_column
from madbayes.cli.results import label_rows
from madbayes.cli.run import Voice
from madbayes.cli.show import count
from madbayes.cli.write import number, safe, whole_file
from madbayes.tables.cells import TableColumn
from madbayes.tables.convert import flattened
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError, harmless
from madbayes.tables.formats import called, given, read
from madbayes.tables.frame import Frame
from madbayes.tables.pipeline import TablePipeline
from madbayes.tables.prepare import missing_cells, rows_with_gaps, strange_cells


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    model: Path
    file: Sequence[Path]
    novel: float | None
    out: Path | None
    id: str | None
    missing: str
    na: Sequence[str]
    skip_rows: int
    force: bool


def predict_file(voice: Voice, request: Request) -> None:
    """The whole of `madbayes predict`."""
    if request.missing not in ("observed", "error", "drop"):
        raise UserError(f"--missing {request.missing} should be observed, error or drop.")
    if request.novel is not None and not 0 < request.novel < 1:
        raise UserError(f"--novel {request.novel:g} should be a share between 0 and 1.")
    model = load_model(request.model)
    with given(request.file) as files:
        with voice.status(f"reading {called(request.file)}"):
            frame = read(*files, skip_rows=request.skip_rows)
            values, rows, notes = new_rows(frame, model, request)
        voice.notes([*frame.notes, *notes, *about_ids(frame, request.id)])
        with voice.progress(f"predicting {count(len(values), 'row')}"):
            answer = answer_for(model, values, request.novel)
        ids: Any = range(1, frame.n_rows + 1)
        if request.id is not None:
            ids = named_column(frame, request.id, "--id")
        heading, lines = label_rows(ids, rows, frame.n_rows, answer, unknown=-1)
    top = [safe(str(cell)) for cell in (request.id or "row", *heading)]

    def write(stream: Any) -> None:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(top)
        out.writerows([number(safe(cell)) for cell in line] for line in lines)

    if request.out is None and not voice.talk.json:
        write(sys.stdout)
        sys.stdout.flush()
        return
    if request.out is not None:
        with whole_file(request.out, ",".join(top), request.force) as stream:
            write(stream)
    known = answer.labels >= 0
    summary = {
        "tool": "madbayes",
        "verb": "predict",
        "n_rows": len(values),
        "n_rows_in_file": frame.n_rows,
        "n_novel": int((~known).sum()),
        "sizes": np.bincount(answer.labels[known], minlength=answer.number).tolist(),
        "out": None if request.out is None else str(request.out),
    }
    rows_in = f"{count(len(values), 'row')} in {count(answer.number, 'cluster')}"
    unlike = f", {summary['n_novel']:,} of them like none" if request.novel is not None else ""
    text = f"{rows_in}{unlike}: {request.out}"
    voice.result(summary, lambda console: console.print(Text(harmless(text))))


def load_model(path: Path) -> TablePipeline:
    """A saved model; one from Python as if its columns had been read from a file."""
    from madbayes import load

    if not path.exists():
        raise UserError(f"There is no model {path}.")
    try:
        model = load(path)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from error
    if isinstance(model, TableEncoder):
        raise UserError(f"{path} is a TableEncoder, which prepares tables and knows no clusters.")
    if not isinstance(model, TablePipeline):
        model = as_pipeline(model)
    inner = model.estimator
    if not hasattr(inner, "predict") and not hasattr(inner, "components_"):
        raise UserError(f"{path} is a {type(inner).__name__}, which knows no new rows.")
    return model


def as_pipeline(model: Any) -> TablePipeline:
    """An estimator, or one with scaled columns (`Prepared`), behind an encoder of its columns."""
    if not isinstance(model, Prepared):
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(getattr(model, "n_features_in_", 0))]
        model = Prepared(model, tuple(PreparedColumn(str(name)) for name in names))
    columns = [
        TableColumn(
            c.name, "number" if c.categories is None else "category", categories=c.categories
        )
        for c in model.columns
    ]
    fills = [np.nan if c.fill is None else c.fill for c in model.columns for _ in c.names]
    fill = np.array(fills, dtype=np.float64)
    if model.mean is not None and model.scale is not None:
        fill = (fill - model.mean) / model.scale
    encoder = TableEncoder.of_columns(columns, model.mean, model.scale, fill)
    return TablePipeline([("table", encoder), ("clusters", model.model)])


def new_rows(
    frame: Frame, model: TablePipeline, request: Request
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The columns of the model, as its file was read."""
    encoder = model.encoder
    encoder.na = tuple(dict.fromkeys([*encoder.na, *request.na]))
    frame = flattened(frame)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = encoder.fitting_frame(frame)
            values = encoder.encode(frame)
            units = encoder.encode(frame, units=True)
    except ValueError as error:
        raise UserError(f"{called(request.file)}: {error}") from error
    notes = list(dict.fromkeys(str(each.message) for each in caught))  # categories that are new
    takes_gaps = getattr(model.estimator, "missing", "error") == "observed"
    wanted = request.missing != "observed"
    bad = rows_with_gaps(units if wanted else values)
    bad = np.zeros(0, np.int64) if takes_gaps and not wanted else bad
    if bad.size and request.missing != "drop":
        strange = strange_cells(frame, encoder, request.na)
        found = missing_cells(frame, units, encoder, bad, strange)
        raise UserError(f"{found.place} --missing drop gives such rows no cluster.")
    rows = np.delete(np.arange(len(values)), bad)
    if not rows.size:
        raise UserError("Every row has a missing or infinite value; no row is left.")
    return values[rows] if bad.size else values, rows, notes


def answer_for(model: TablePipeline, X: np.ndarray, novel: float | None) -> Answer:
    """Clusters, distances and novelty of the rows."""
    inner = model.estimator
    try:
        if hasattr(inner, "components_"):
            return feature_rows("predict", inner, X, np.asarray(inner.transform(X), dtype=bool))
        nearest = np.asarray(inner.predict(X))
        answer = Answer("predict", inner, nearest, number=int(inner.n_clusters_))
        answer.distance, answer.second = nearness(inner, X, nearest)
        answer.novelty = novelty(inner, X)
        if novel is not None:
            if answer.novelty is None:
                raise UserError(f"--novel: a {type(inner).__name__} does not know what is novel.")
            answer.labels = np.asarray(inner.predict(X, novel=novel))
        return answer
    except (ValueError, TypeError) as error:
        raise UserError(f"The model cannot predict these rows: {error}") from error
