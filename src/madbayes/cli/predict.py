"""`madbayes predict`: clusters of new rows by a model that was saved."""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from madbayes._storage.prepared import Column as PreparedColumn
from madbayes._storage.prepared import Prepared
from madbayes.cli.fit import has_features, nearness, novelty
from madbayes.cli.options import Request, Talk, words
from madbayes.cli.prepare import about_ids, ids_of
from madbayes.cli.results import Answer, label_rows
from madbayes.cli.run import Voice
from madbayes.cli.show import count
from madbayes.cli.write import TOOL, safe, whole_file, write_lines
from madbayes.tables.cells import TableColumn
from madbayes.tables.convert import flattened
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError, harmless
from madbayes.tables.formats import called, given, read
from madbayes.tables.frame import Frame
from madbayes.tables.pipeline import TablePipeline
from madbayes.tables.prepare import missing_cells, rows_with_gaps, strange_cells


def predict_file(request: Request, talk: Talk) -> None:
    """The whole of `madbayes predict`."""
    if request.missing not in ("observed", "error", "drop"):
        raise UserError(f"--missing {request.missing} should be observed, error or drop.")
    if request.novel is not None and not 0 < request.novel < 1:
        raise UserError(f"--novel {request.novel:g} should be a share between 0 and 1.")
    voice = Voice(talk)
    model = load_model(request.model)
    with given(request.file) as files:
        with voice.status(f"reading {called(request.file)}"):
            frame = read(*files, skip_rows=request.skip_rows)
            values, rows, notes = new_rows(frame, model, request)
        voice.notes([*frame.notes, *notes, *about_ids(frame, request.id)])
        with voice.progress(f"predicting {count(len(values), 'row')}"):
            answer = answer_for(model, values, request.novel)
        answer.ids, answer.rows = ids_of(frame, request.id), rows
        heading, lines = label_rows(answer, unknown=-1)
    if request.out is None and not talk.json:
        write_lines(sys.stdout, heading, lines)
        sys.stdout.flush()
        return
    if request.out is not None:
        with whole_file(request.out, ",".join(map(safe, heading)), request.force) as stream:
            write_lines(stream, heading, lines)
    labels = np.asarray(answer.labels)
    known = labels >= 0
    summary = {
        "tool": TOOL,
        "verb": "predict",
        "n_rows": len(values),
        "n_rows_in_file": frame.n_rows,
        "n_novel": int((~known).sum()),
        "sizes": np.bincount(labels[known], minlength=answer.number).tolist(),
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
        raise UserError(f"{path} is a TableEncoder, which prepares tables and has no clusters.")
    if not isinstance(model, TablePipeline):
        model = as_pipeline(model)
    inner = model.estimator
    if not hasattr(inner, "predict") and not hasattr(inner, "components_"):
        raise UserError(f"{path} is a {type(inner).__name__}, which cannot predict new rows.")
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
    encoder.na = tuple(dict.fromkeys([*encoder.na, *words(request.na)]))
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
        strange = strange_cells(frame, encoder, words(request.na))
        found = missing_cells(frame, units, encoder, bad, strange)
        raise UserError(f"{found.place} --missing drop gives such rows no cluster.")
    rows = np.delete(np.arange(len(values)), bad)
    if not rows.size:
        raise UserError("Every row has a missing or infinite value; no row is left.")
    return values[rows] if bad.size else values, rows, notes


def answer_for(model: TablePipeline, X: np.ndarray, novel: float | None) -> Answer:
    """Clusters, distances and novelty of the rows."""
    inner = model.estimator
    answer = Answer(inner, None)
    try:
        if hasattr(inner, "components_"):
            has_features(answer, X, np.asarray(inner.transform(X), dtype=bool))
            return answer
        answer.labels, answer.number = np.asarray(inner.predict(X)), int(inner.n_clusters_)
        answer.distance, answer.second = nearness(inner, X, answer.labels)
        answer.novelty = novelty(inner, X)
        if novel is not None:
            if answer.novelty is None:
                raise UserError(f"--novel: a {type(inner).__name__} does not know what is novel.")
            answer.labels = np.asarray(inner.predict(X, novel=novel))
        return answer
    except (ValueError, TypeError) as error:
        raise UserError(f"The model cannot predict these rows: {error}") from error
